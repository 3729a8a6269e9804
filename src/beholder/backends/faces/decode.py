"""From what a detection network says at each anchor to boxes and landmarks: RetinaFace and SCRFD. Numpy only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from beholder.functional.faces import nms

RETINA_SIZES = {8: (16, 32), 16: (64, 128), 32: (256, 512)}
"""RetinaFace: stride → sides of its two square anchors, in pixels."""

_CENTRE, _SIZE = 0.1, 0.2
"""RetinaFace's variances: what one unit of an offset is worth."""


@dataclass(frozen=True)
class Detections:
    """Faces of one picture, best first, in the pixels of the picture that the network saw; not clamped.

    Args:
        boxes: (k, 4) float32.
        scores: (k,) float32.
        landmarks: (k, 5, 2) float32: left eye, right eye, nose, left and right mouth corner, as seen.
    """

    boxes: np.ndarray
    scores: np.ndarray
    landmarks: np.ndarray

    def __len__(self) -> int:
        return len(self.scores)

    def moved(self, left: float, top: float) -> Detections:
        """The same faces where a picture's origin lies at (left, top)."""
        shift = np.array([left, top], dtype=np.float32)
        return Detections(self.boxes - np.tile(shift, 2), self.scores, self.landmarks - shift)


def retina_anchors(height: int, width: int, sizes: Mapping[int, Sequence[int]] = RETINA_SIZES) -> np.ndarray:
    """RetinaFace's anchors for a picture: (a, 4) float32, centre x, centre y, width, height in pixels.

    Centres are (column + 0.5, row + 0.5) · stride on a grid of ceil(side / stride); the order is stride, row, column,
    size.
    """
    levels = []
    for stride, sides in sizes.items():
        rows, columns = math.ceil(height / stride), math.ceil(width / stride)
        y, x, side = np.meshgrid(
            (np.arange(rows) + 0.5) * stride, (np.arange(columns) + 0.5) * stride, np.asarray(sides), indexing="ij"
        )
        levels.append(np.stack([x, y, side, side], axis=-1).reshape(-1, 4))
    return np.concatenate(levels).astype(np.float32)


def decode_retina(
    offsets: np.ndarray, scores: np.ndarray, points: np.ndarray, anchors: np.ndarray,
    *, threshold: float, overlap: float = 0.4, most: int = 750, candidates: int = 5000,
) -> Detections:  # fmt: skip
    """RetinaFace's faces: centre = anchor centre + 0.1 · offset · anchor size, size = anchor size · exp(0.2 · offset).

    Args:
        offsets: (a, 4).
        scores: (a,) probabilities.
        points: (a, 10).
        anchors: (a, 4) of `retina_anchors`.
        threshold: a face's score is greater than this.
        overlap: of non-maximum suppression.
        most: faces at most.
        candidates: boxes at most that suppression looks at, the best ones.
    """
    chosen = np.flatnonzero(scores > threshold)
    chosen = chosen[np.argsort(-scores[chosen], kind="stable")][:candidates]
    anchor, offset = anchors[chosen], offsets[chosen]
    centre = anchor[:, :2] + np.float32(_CENTRE) * offset[:, :2] * anchor[:, 2:]
    half = anchor[:, 2:] * np.exp(np.float32(_SIZE) * offset[:, 2:]) / np.float32(2)
    boxes = np.concatenate([centre - half, centre + half], axis=1)
    places = points[chosen].reshape(-1, 5, 2)
    landmarks = anchor[:, None, :2] + np.float32(_CENTRE) * places * anchor[:, None, 2:]
    kept = nms(boxes, scores[chosen], threshold=overlap)[:most]
    return Detections(boxes[kept], scores[chosen][kept].astype(np.float32), landmarks[kept])


def decode_scrfd(
    levels: Mapping[int, tuple[np.ndarray, np.ndarray, np.ndarray]], side: tuple[int, int],
    *, threshold: float, overlap: float = 0.4, anchors: int = 2,
) -> Detections:  # fmt: skip
    """SCRFD's faces: each anchor tells how far the four sides and the five points are from its centre, in strides.

    Args:
        levels: stride → (scores (a,), distances (a, 4), points (a, 10)).
        side: (height, width) of the network's input.
        threshold: a face's score is at least this.
        overlap: of non-maximum suppression.
        anchors: anchors a place.
    """
    boxes, scores, landmarks = [], [], []
    for stride, (score, distances, points) in levels.items():
        rows, columns = side[0] // stride, side[1] // stride
        y, x = np.divmod(np.arange(rows * columns), columns)
        centres = np.repeat(np.stack([x, y], axis=1) * stride, anchors, axis=0).astype(np.float32)
        chosen = np.flatnonzero(score >= threshold)
        centre, reach = centres[chosen], distances[chosen] * np.float32(stride)
        boxes.append(np.concatenate([centre - reach[:, :2], centre + reach[:, 2:]], axis=1))
        landmarks.append(centre[:, None] + points[chosen].reshape(-1, 5, 2) * np.float32(stride))
        scores.append(score[chosen])
    all_boxes, all_scores = np.concatenate(boxes), np.concatenate(scores).astype(np.float32)
    kept = nms(all_boxes, all_scores, threshold=overlap)
    return Detections(all_boxes[kept].astype(np.float32), all_scores[kept],
                      np.concatenate(landmarks)[kept].astype(np.float32))  # fmt: skip
