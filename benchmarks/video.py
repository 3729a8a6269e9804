"""All frames of an H.264 clip, beside PyAV decoding and converting the same frames in a bare loop.

Needs PyAV (`beholder[video]`), which also makes the clips.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
from PIL import Image

from beholder.media.video import choose_frames, open_video
from benchmarks.table import Row, at_least, seconds

SIZES = ((256, 256, 49), (640, 360, 300), (1280, 720, 81))
ROUNDS = 5


def measure(folder: Path) -> list[Row]:
    """One row a size: a short square clip, a longer one, one in HD."""
    rows = []
    for width, height, count in SIZES:
        path = write_clip(folder / f"{width}.mp4", width=width, height=height, count=count)
        ours, bare = [], []
        for _ in range(ROUNDS):
            bare.append(seconds(lambda path=path: _bare(path)))
            ours.append(seconds(lambda path=path: _ours(path)))
        rows.append(at_least(f"video: {count} frames of {width} × {height}, all", min(ours), min(bare), 0.8))
    return rows


def write_clip(path: Path, *, width: int, height: int, count: int) -> Path:
    """A clip of smooth noise that drifts, with B-frames and a key frame every 48 frames."""
    import av

    generator = np.random.default_rng(0)
    coarse = Image.fromarray(generator.integers(0, 256, (24, 32, 3), dtype=np.uint8))
    canvas = np.asarray(coarse.resize((width * 2, height * 2), Image.Resampling.BICUBIC))
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=24)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.gop_size, stream.codec_context.max_b_frames = 48, 2
        for at in range(count):
            x, y = (3 * at) % width, (2 * at) % height
            picture = np.ascontiguousarray(canvas[y : y + height, x : x + width])
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = at, Fraction(1, 24)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def _ours(path: Path) -> None:
    with open_video(path) as video:
        for _ in video.frames(choose_frames(video, "all").indices):
            pass


def _bare(path: Path) -> None:
    import av

    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            frame.to_ndarray(format="rgb24")
