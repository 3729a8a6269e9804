"""Boxes of a detector: overlap, suppression, and the pixels that a box covers. Boxes are (k, 4), x0 y0 x1 y1."""

from __future__ import annotations

import numpy as np


def suppress(boxes: np.ndarray, scores: np.ndarray, *, iou: float) -> np.ndarray:
    """Non-maximum suppression: boxes by falling score, without those that overlap a better one by more than `iou`.

    Args:
        boxes: (k, 4).
        scores: (k,); equal scores keep their order.
        iou: intersection over union; strict.

    Returns:
        Numbers of the boxes that are kept, the best first.

    >>> suppress(np.array([[0, 0, 10, 10], [0, 0, 10, 9.0]]), np.array([0.5, 0.9]), iou=0.7).tolist()
    [1]
    """
    corners = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    areas = np.prod(np.clip(corners[:, 2:] - corners[:, :2], 0, None), axis=1)
    waiting = np.argsort(-np.asarray(scores), kind="stable")
    kept = []
    while len(waiting):
        best, rest = waiting[0], waiting[1:]
        kept.append(best)
        low = np.maximum(corners[rest, :2], corners[best, :2])
        high = np.minimum(corners[rest, 2:], corners[best, 2:])
        shared = np.prod(np.clip(high - low, 0, None), axis=1)
        union = areas[rest] + areas[best] - shared
        waiting = rest[shared <= iou * union]
    return np.array(kept, dtype=np.int64)


def pixel_corners(boxes: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(k, 4) int64: corners rounded to the nearest whole pixel (half to even) and cut to the picture.

    Args:
        boxes: (k, 4).
        size: (width, height).
    """
    corners = np.rint(np.asarray(boxes, dtype=np.float64).reshape(-1, 4)).astype(np.int64)
    width, height = size
    cut: np.ndarray = np.clip(corners, 0, np.array([width, height, width, height]))
    return cut
