"""OpenCV's resizing by area (INTER_AREA) on 8-bit pictures, without OpenCV.

A picture that shrinks: every pixel of the result is the mean of the area that it covers, parts of pixels counted by
their share. One that grows: OpenCV mixes two neighbours along each axis, as far as the result's pixel reaches into the
second one. Results are rounded to the nearest level, half to even. They equal OpenCV's to one level (its sums are of
32-bit floats in another order).
"""

from __future__ import annotations

import numpy as np

from beholder._errors import OptionError


def resize_area(pixels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """A picture at another size.

    Args:
        pixels: (H, W, C) uint8.
        size: (width, height) of the result, 1 or more each.

    Returns:
        (height, width, C) uint8.

    Raises:
        OptionError: not a picture, or a size below 1.

    >>> resize_area(np.arange(16, dtype=np.uint8).reshape(4, 4, 1), (2, 2))[:, :, 0].tolist()
    [[2, 4], [10, 12]]
    """
    if pixels.ndim != 3 or pixels.dtype != np.uint8 or min(pixels.shape, default=0) < 1:
        raise OptionError("a picture must be (H, W, C) uint8", got=f"{pixels.dtype} {pixels.shape}")
    if min(size) < 1:
        raise OptionError("a size must be at least 1 by 1", got=repr(size))
    height, width = pixels.shape[:2]
    shrinks = size[0] <= width and size[1] <= height
    weigh = _shares if shrinks else _mixes
    rows, columns = weigh(height, size[1]), weigh(width, size[0])
    tall = np.tensordot(rows, pixels.astype(np.float32), axes=(1, 0))
    values = np.tensordot(columns, tall, axes=(1, 1)).transpose(1, 0, 2)
    result: np.ndarray = np.clip(np.rint(values), 0, 255).astype(np.uint8)
    return np.ascontiguousarray(result)


def fit_longer_side(width: int, height: int, side: int) -> tuple[int, int]:
    """(width, height) with the longer side at `side`, up or down, the other one's fraction dropped; 1 at least.

    >>> fit_longer_side(1280, 720, 512)
    (512, 288)
    """
    if width >= height:
        return side, max(1, int(side * height / width))
    return max(1, int(side * width / height)), side


def _shares(have: int, want: int) -> np.ndarray:
    """(want, have): the share of each pixel in the area of each pixel of the result."""
    edges = np.arange(want + 1) * (have / want)
    left, right = edges[:-1, None], edges[1:, None]
    at = np.arange(have)[None, :]
    overlap = np.clip(np.minimum(right, at + 1) - np.maximum(left, at), 0, None)
    shares: np.ndarray = (overlap * (want / have)).astype(np.float32)
    return shares


def _mixes(have: int, want: int) -> np.ndarray:
    """(want, have): how OpenCV mixes two neighbours where a picture grows."""
    scale, inverse = have / want, want / have
    at = np.arange(want)
    first = np.floor(at * scale).astype(np.int64)
    reach = (at + 1) - (first + 1) * inverse
    second = np.where(reach <= 0, 0.0, reach - np.floor(reach))
    first = np.minimum(first, have - 1)
    mixes = np.zeros((want, have), dtype=np.float32)
    np.add.at(mixes, (at, first), (1 - second).astype(np.float32))
    np.add.at(mixes, (at, np.minimum(first + 1, have - 1)), second.astype(np.float32))
    return mixes
