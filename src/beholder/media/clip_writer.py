"""Writes drawn frames as a short video without loss; for demos and tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np


def write_clip(path: Path, frames: Sequence[np.ndarray], *, rate: int = 8) -> Path:
    """Frames as a video: `.mp4` (H.264, RGB, lossless) with PyAV, else an animation, `.webp`.

    Args:
        path: the file without its extension; its folder is made.
        frames: (h, w, 3) uint8 each, of one size; sides even for `.mp4`.
        rate: frames a second.

    Returns:
        The file that was written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        import av
    except ImportError:
        return _write_animation(path.with_name(path.name + ".webp"), frames, rate)
    place = path.with_name(path.name + ".mp4")
    with av.open(str(place), "w") as container:
        stream = container.add_stream("libx264rgb", rate=rate, options={"qp": "0"})
        stream.width, stream.height, stream.pix_fmt = frames[0].shape[1], frames[0].shape[0], "rgb24"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), "rgb24")))
        container.mux(stream.encode())
    return place


def _write_animation(place: Path, frames: Sequence[np.ndarray], rate: int) -> Path:
    from PIL import Image

    first, *rest = [Image.fromarray(np.ascontiguousarray(frame)) for frame in frames]
    first.save(place, save_all=True, append_images=rest, lossless=True, duration=1000 // rate)
    return place
