"""A picture in a square: brought to its side with the ratio kept, the rest gray; and boxes back to the picture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beholder.functional.area_resize import resize_area
from beholder.functional.opencv_pixels import resize_linear

SIDE = 640
GRAY = 114


@dataclass(frozen=True)
class Letter:
    """A picture in the square.

    Args:
        pixels: (SIDE, SIDE, 3) uint8.
        size: (width, height) of the picture.
        scale: (x, y): by how much it was resized.
        margin: (left, top) of the gray border.
    """

    pixels: np.ndarray
    size: tuple[int, int]
    scale: tuple[float, float]
    margin: tuple[int, int]

    def to_picture(self, boxes: np.ndarray) -> np.ndarray:
        """(k, 4) boxes in the square to pixels of the picture, cut to it; float32."""
        shift, scale = np.array([*self.margin, *self.margin]), np.array([*self.scale, *self.scale])
        back = (np.asarray(boxes, dtype=np.float64) - shift) / scale
        cut: np.ndarray = np.clip(back, 0, np.array([*self.size, *self.size])).astype(np.float32)
        return cut


def letterbox(pixels: np.ndarray) -> Letter:
    """The picture with its longer side at `SIDE` (fractions dropped), by area where it shrinks and linearly where it
    grows, in the middle of a gray square.

    Args:
        pixels: (H, W, 3) uint8.
    """
    height, width = pixels.shape[:2]
    ratio = SIDE / max(height, width)
    tall, wide = max(1, int(height * ratio)), max(1, int(width * ratio))
    if ratio != 1:
        pixels = (resize_area if ratio < 1 else resize_linear)(pixels, (wide, tall))
    top, left = (max(0, round((SIDE - side) // 2 - 0.1)) for side in (tall, wide))
    square = np.full((SIDE, SIDE, 3), GRAY, dtype=np.uint8)
    square[top : top + tall, left : left + wide] = pixels
    return Letter(square, (width, height), (wide / width, tall / height), (left, top))
