"""What a decoded frame and its stream say of themselves: orientation, colours, depth, shape of the pixels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from beholder.media.canonical import Pixels

_MATRICES = {0: "rgb", 1: "bt709", 4: "fcc", 5: "bt601", 6: "bt601", 7: "smpte240m", 9: "bt2020", 10: "bt2020"}
_TURNS: dict[int, Callable[[Pixels], Pixels]] = {
    2: np.fliplr,
    3: lambda pixels: np.rot90(pixels, 2),
    4: np.flipud,
    5: lambda pixels: pixels.transpose(1, 0, 2),
    6: lambda pixels: np.rot90(pixels, -1),
    7: lambda pixels: np.rot90(pixels, 2).transpose(1, 0, 2),
    8: np.rot90,
}
_EXIF_VALUES = {
    (1, 0, 0, 1): 1,
    (-1, 0, 0, 1): 2,
    (-1, 0, 0, -1): 3,
    (1, 0, 0, -1): 4,
    (0, 1, 1, 0): 5,
    (0, 1, -1, 0): 6,
    (0, -1, -1, 0): 7,
    (0, -1, 1, 0): 8,
}
"""Signs of the matrix (x' = a·x + c·y, y' = b·x + d·y) to EXIF orientations."""


def orientation_of(frame: Any) -> int | None:
    """The EXIF value that turns a frame as its display matrix asks; None for a matrix that is no such turn."""
    found = frame.side_data.get("DISPLAYMATRIX")
    if found is None:
        return 1
    a, b, _, c, d = np.frombuffer(bytes(found), np.int32)[:5].tolist()
    return _EXIF_VALUES.get(tuple((part > 0) - (part < 0) for part in (a, b, c, d)))


def turned(pixels: Pixels, orientation: int | None) -> Pixels:
    """The picture as the orientation means it to be seen, C-contiguous."""
    turn = _TURNS.get(orientation or 1)
    # Rows of a decoded frame can be padded, so pixels that are not turned may need the copy too.
    return np.ascontiguousarray(pixels if turn is None else turn(pixels))


def upright_size(frame: Any) -> tuple[int, int]:
    """(width, height) of a frame after its turn."""
    sideways = (orientation_of(frame) or 1) >= 5
    return (frame.height, frame.width) if sideways else (frame.width, frame.height)


def stream_notes(frame: Any, container: Any, stream: Any) -> list[str]:
    """What the first frame says of all: colours, depth, shape of the pixels."""
    form, notes = frame.format, []
    if not form.is_rgb and len(form.components) >= 3:
        notes.append(f"yuv_matrix={_MATRICES.get(int(frame.colorspace), 'bt601_assumed')}")
        full = form.name.startswith("yuvj") or int(frame.color_range) == 2
        notes.append(f"yuv_range={'full' if full else 'limited'}")
    depth = max((component.bits for component in form.components), default=8)
    if depth > 8:
        notes.append(f"{depth}bit_to_8bit")
    if int(stream.codec_context.color_trc) in (16, 18):
        notes.append("hdr_not_tone_mapped")
    aspect = stream.sample_aspect_ratio
    if aspect and aspect != 1:
        notes.append(f"sar={aspect.numerator}:{aspect.denominator}")
    if frame.interlaced_frame:
        notes.append("interlaced")
    orientation = orientation_of(frame)
    if orientation is None:
        notes.append("display_matrix_ignored")
    elif orientation > 1:
        notes.append(f"display_matrix={orientation}")
    if stream.metadata.get("alpha_mode") == "1" and not any(part.is_alpha for part in form.components):
        notes.append("alpha_not_read")
    if len(container.streams.video) > 1:
        notes.append(f"video_streams={len(container.streams.video)}")
    return notes
