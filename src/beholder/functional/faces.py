"""Maths of faces: boxes, non-maximum suppression, alignment by five points, and who is compared with whom.

Boxes are (k, 4): x0 y0 x1 y1 in pixels. Points are (p, 2): x y in pixels.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Union

import numpy as np
import numpy.typing as npt

from beholder._errors import NoValue, OptionError
from beholder.functional.similarity import choice, cosine, cosine_matrix, normalise

Matching = Literal["largest", "best", "assignment"]

ARCFACE_TEMPLATE = (
    (38.2946, 51.6963),
    (73.5318, 51.5014),
    (56.0252, 71.7366),
    (41.5493, 92.3655),
    (70.7299, 92.2041),
)
"""Left eye, right eye, nose, left and right mouth corner (as seen) in an aligned crop of 112×112 pixels.

Source: InsightFace (https://github.com/deepinsight/insightface), the crop of ArcFace, arXiv 1801.07698.
"""


def clamp_boxes(boxes: npt.ArrayLike, width: int, height: int) -> np.ndarray:
    """Boxes cut to a picture: x to [0, width], y to [0, height]; (k, 4) float32.

    >>> clamp_boxes([[-3.0, 2.0, 50.0, 9.0]], 40, 8).tolist()
    [[0.0, 2.0, 40.0, 8.0]]
    """
    array = _boxes(boxes)
    limits = np.array([width, height, width, height], dtype=np.float32)
    result: np.ndarray = np.minimum(np.maximum(array, np.float32(0)), limits)
    return result


def box_areas(boxes: npt.ArrayLike) -> np.ndarray:
    """(x1 − x0)(y1 − y0) of every box, (k,) float64; 0 for a box that is turned inside out.

    >>> box_areas([[0, 0, 2, 3], [5, 5, 4, 9]]).tolist()
    [6.0, 0.0]
    """
    array = _boxes(boxes).astype(np.float64)
    sides: np.ndarray = np.maximum(array[:, 2:] - array[:, :2], 0.0)
    areas: np.ndarray = sides[:, 0] * sides[:, 1]
    return areas


def nms(boxes: npt.ArrayLike, scores: npt.ArrayLike, *, threshold: float, offset: float = 1.0) -> np.ndarray:
    """Greedy non-maximum suppression: the best box stays, and all that overlap it by more than `threshold` go.

    Overlap is intersection over union of sides x1 − x0 + `offset`. Equal scores keep their order.

    Args:
        boxes: (k, 4).
        scores: (k,), higher is better.
        threshold: the largest overlap that two kept boxes may have, in [0, 1].
        offset: 1 where pixel coordinates are inclusive (RetinaFace, SCRFD), 0 where boxes are continuous.

    Returns:
        Numbers of the kept boxes, best first, (m,) intp.

    >>> nms([[0, 0, 9, 9], [0, 0, 9, 8], [20, 0, 29, 9]], [0.8, 0.9, 0.5], threshold=0.4).tolist()
    [1, 2]
    """
    array = _boxes(boxes).astype(np.float32)
    step = np.float32(offset)
    areas = (array[:, 2] - array[:, 0] + step) * (array[:, 3] - array[:, 1] + step)
    order = np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable")
    kept = []
    while order.size:
        first, rest = order[0], order[1:]
        kept.append(first)
        low = np.maximum(array[first, :2], array[rest, :2])
        high = np.minimum(array[first, 2:], array[rest, 2:])
        sides = np.maximum(high - low + step, np.float32(0))
        shared = sides[:, 0] * sides[:, 1]
        union = areas[first] + areas[rest] - shared
        # Two boxes without an area have no union: they overlap by nothing.
        overlap = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
        order = rest[overlap <= np.float32(threshold)]
    return np.asarray(kept, dtype=np.intp)


def similarity_transform(points: npt.ArrayLike, target: npt.ArrayLike) -> np.ndarray:
    """The similarity (rotation, one scale, shift; never a reflection) that brings `points` nearest to `target`.

    Least squares in closed form: with centred P and Q, A = QᵀP / n = U S Vᵀ and D = diag(1, ±1) such that
    det(U D Vᵀ) = 1: R = U D Vᵀ, scale = tr(S D) / (|P|² / n), t = mean(Q) − scale R mean(P).

    Args:
        points: (n, 2), n of at least 2.
        target: (n, 2), where they should come to lie.

    Returns:
        (2, 3) float64: [scale R | t], to be applied to (x, y, 1).

    Raises:
        OptionError: shapes that are not (n, 2) and equal.
        NoValue: `failed` where all points coincide or a number is not finite: no similarity is nearest.

    Degenerate: points on one line have a solution too, the one that keeps the plane's orientation.

    Source: Umeyama 1991, Least-squares estimation of transformation parameters between two point patterns.

    >>> similarity_transform([[0, 0], [1, 0], [0, 1]], [[3, 4], [3, 6], [1, 4]]).round(6).tolist()
    [[0.0, -2.0, 3.0], [2.0, 0.0, 4.0]]
    """
    p, q = np.asarray(points, dtype=np.float64), np.asarray(target, dtype=np.float64)
    if p.ndim != 2 or p.shape[1] != 2 or p.shape != q.shape or len(p) < 2:
        raise OptionError("points and target must be two equal shapes (n, 2), n ≥ 2", got=f"{p.shape} and {q.shape}")
    if not (np.isfinite(p).all() and np.isfinite(q).all()):
        raise NoValue("failed", "landmarks that are not finite numbers")
    centre_p, centre_q = p.mean(axis=0), q.mean(axis=0)
    centred_p, centred_q = p - centre_p, q - centre_q
    variance = float((centred_p**2).sum() / len(p))
    if variance <= (1e-9 * max(1.0, float(np.abs(p).max()))) ** 2:
        raise NoValue("failed", "landmarks that coincide: the face cannot be aligned")
    u, s, vt = np.linalg.svd(centred_q.T @ centred_p / len(p))
    d = np.array([1.0, np.sign(np.linalg.det(u) * np.linalg.det(vt))])
    scaled = (u * d) @ vt * float((s * d).sum() / variance)
    return np.column_stack([scaled, centre_q - scaled @ centre_p])


def apply_transform(matrix: npt.ArrayLike, points: npt.ArrayLike) -> np.ndarray:
    """(n, 2) points under a (2, 3) affine map.

    >>> apply_transform([[2, 0, 1], [0, 2, -1]], [[1.0, 1.0]]).tolist()
    [[3.0, 1.0]]
    """
    m, p = np.asarray(matrix, dtype=np.float64), np.asarray(points, dtype=np.float64)
    result: np.ndarray = p @ m[:, :2].T + m[:, 2]
    return result


class Match(NamedTuple):
    """Who was compared with whom.

    Args:
        values: (m,) cosines, float64.
        pairs: (m, 2) numbers of the faces: first side, second side.
        degenerate: (m,) bool: an embedding had no direction; the value is not to be read.
    """

    values: np.ndarray
    pairs: np.ndarray
    degenerate: np.ndarray


class Faces(NamedTuple):
    """Faces of one picture (or of several pictures together).

    Args:
        embeddings: (k, d), any length; k may be 0.
        areas: (k,) areas of their boxes.
    """

    embeddings: np.ndarray
    areas: np.ndarray


def largest(areas: npt.ArrayLike) -> int:
    """The number of the largest face; of equal ones the last, as a stable sort by area gives it.

    >>> largest([4.0, 9.0, 9.0])
    2
    """
    array = np.asarray(areas, dtype=np.float64)
    return int(len(array) - 1 - np.argmax(array[::-1]))


def match_faces(references: Faces, faces: Faces, *, matching: Union[Matching, str] = "largest") -> Match:
    """Cosines between the faces of references and those of a picture.

    - `largest` (official): the largest face of each side, one pair.
    - `best`: every reference face with the face that is most like it; a face may serve several references.
    - `assignment`: one-to-one pairs with the highest sum of cosines (min(k, m) of them).

    Args:
        references: k faces.
        faces: m faces.
        matching: the mode.

    Returns:
        The pairs with their cosines in [-1, 1]; by rising number of the reference face.

    Raises:
        OptionError: an unknown mode, or embeddings of two widths.

    Degenerate: no face on one side gives no pair. Where the best (or assigned) embedding is degenerate the pair is
    flagged; degenerate embeddings are matched last.

    >>> a = Faces(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, 2.0]))
    >>> b = Faces(np.array([[0.6, 0.8], [1.0, 0.1]]), np.array([1.0, 2.0]))
    >>> match_faces(a, b, matching="assignment").pairs.tolist()
    [[0, 1], [1, 0]]
    >>> match_faces(a, b).values.round(4).tolist()
    [0.0995]
    """
    choice("matching", matching, Matching)
    if not len(references.areas) or not len(faces.areas):
        return Match(np.zeros(0), np.zeros((0, 2), dtype=np.intp), np.zeros(0, dtype=bool))
    if matching == "largest":
        i, j = largest(references.areas), largest(faces.areas)
        one = cosine(references.embeddings[i : i + 1], faces.embeddings[j : j + 1])
        return Match(one.values, np.array([[i, j]], dtype=np.intp), one.degenerate)
    table = cosine_matrix(normalise(references.embeddings), normalise(faces.embeddings))
    # Below every cosine, so that an embedding without a direction is taken only where nothing else is left.
    worth = np.where(table.degenerate, -2.0, table.values)
    if matching == "best":
        rows, columns = np.arange(len(worth)), worth.argmax(axis=1)
    else:
        from scipy.optimize import linear_sum_assignment

        rows, columns = linear_sum_assignment(worth, maximize=True)
    pairs = np.column_stack([rows, columns]).astype(np.intp)
    return Match(table.values[rows, columns], pairs, table.degenerate[rows, columns])


def _boxes(boxes: npt.ArrayLike) -> np.ndarray:
    array = np.asarray(boxes, dtype=np.float32)
    if array.size == 0:
        return np.zeros((0, 4), dtype=np.float32)
    if array.ndim != 2 or array.shape[1] != 4:
        raise OptionError("boxes must be (k, 4): x0 y0 x1 y1", got=f"shape {array.shape}")
    return array
