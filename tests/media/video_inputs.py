"""Clips of frames that all differ, encoded here. Importing this needs no PyAV; making a clip does."""

from __future__ import annotations

import importlib.util
import io
import struct
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

needs_av = pytest.mark.skipif(importlib.util.find_spec("av") is None, reason="PyAV is not installed (base environment)")


def blocks(seed: int, size: tuple[int, int] = (48, 32)) -> np.ndarray:
    """A picture of 8 × 8 blocks in random colours."""
    width, height = size
    small = np.random.default_rng(seed).integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), dtype=np.uint8)
    return np.ascontiguousarray(small.repeat(8, 0).repeat(8, 1)[:height, :width])


def clip(
    codec: str = "libx264",
    container: str = "mp4",
    *,
    count: int = 30,
    size: tuple[int, int] = (48, 32),
    pix_fmt: str = "yuv420p",
    stamps: Sequence[int] | None = None,
    gop: int = 10,
    b_frames: int = 2,
    options: dict[str, str] | None = None,
    setup: Callable[[Any], None] | None = None,
    frames: Sequence[Any] | None = None,
    container_options: dict[str, str] | None = None,
    path: Path | None = None,
) -> bytes:
    """An encoded clip at 25 frames a second, or with time stamps in milliseconds; made in memory unless at a path."""
    import av

    buffer, base = io.BytesIO(), Fraction(1, 1000) if stamps else Fraction(1, 25)
    target = buffer if path is None else str(path)
    with av.open(target, "w", format=container, container_options=container_options or {}) as output:
        stream = output.add_stream(codec, rate=25, options=options or {})
        stream.width, stream.height, stream.pix_fmt = *size, pix_fmt
        stream.codec_context.time_base = base
        stream.codec_context.gop_size, stream.codec_context.max_b_frames = gop, b_frames
        if setup is not None:
            setup(stream)
        for at in range(count):
            frame = frames[at] if frames is not None else av.VideoFrame.from_ndarray(blocks(at, size), format="rgb24")
            frame.pts, frame.time_base = stamps[at] if stamps else at, base
            output.mux(stream.encode(frame))
        output.mux(stream.encode())
    return buffer.getvalue() if path is None else path.read_bytes()


def sequential(data: bytes) -> list[np.ndarray]:
    """What decoding from the first to the last frame gives."""
    import av

    with av.open(io.BytesIO(data)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def with_matrix(data: bytes, corner: tuple[float, float, float, float]) -> bytes:
    """An MP4 whose track has another display matrix: x' = a·x + c·y, y' = b·x + d·y for the corner (a, b, c, d)."""
    a, b, c, d = (round(part * 65536) for part in corner)
    at = data.index(b"tkhd") + 4 + 40  # behind version, times, id, duration, layer, group and volume
    return data[:at] + struct.pack(">9l", a, b, 0, c, d, 0, 0, 0, 1 << 30) + data[at + 36 :]
