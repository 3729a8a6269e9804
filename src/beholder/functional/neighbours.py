"""Precision, recall, density and coverage: two sets of features by their nearest neighbours.

Distances are Euclidean, in float64 and in blocks; a row's neighbours never include itself. Where two rows are equal but
for rounding, their distance is 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError

_BLOCK = 1024


class Neighbours(NamedTuple):
    """How two sets overlap.

    Args:
        precision: share of generated rows inside the balls of real rows; 0 to 1.
        recall: share of real rows inside the balls of generated rows; 0 to 1.
        density: mean number of real balls that hold a generated row, over k; at least 0, may exceed 1.
        coverage: share of real rows whose ball holds a generated row; 0 to 1.
    """

    precision: float
    recall: float
    density: float
    coverage: float


def neighbour_metrics(real: npt.ArrayLike, gen: npt.ArrayLike, *, k: int = 5) -> Neighbours:
    """The four values of two sets.

    A row's ball reaches to its k-th nearest neighbour of its own set; its rim belongs to it, so equal sets have
    precision, recall and coverage 1 also where rows repeat.

    Args:
        real: (n, d) features, n > k.
        gen: (m, d) features, m > k.
        k: the neighbour.

    Raises:
        OptionError: k below 1, sets of k rows or fewer, or unequal widths.

    Source: Kynkäänniemi et al., arXiv 1904.06991 (precision, recall); Naeem et al., arXiv 2002.09797 (density,
    coverage). Differs: Naeem et al. leave out the rim, which matters only where distances are equal.

    >>> found = neighbour_metrics([[0.0], [1.0], [2.0]], [[0.0], [1.0], [9.0]], k=1)
    >>> round(found.precision, 3), found.recall, round(found.density, 3), found.coverage
    (0.667, 1.0, 1.667, 1.0)
    """
    first, second = np.asarray(real, dtype=np.float64), np.asarray(gen, dtype=np.float64)
    if k < 1:
        raise OptionError("k must be at least 1", got=str(k))
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1]:
        raise OptionError("two sets must be (n, d) and (m, d)", got=f"{first.shape} and {second.shape}")
    if min(len(first), len(second)) <= k:
        raise OptionError(
            f"{k} neighbours need at least {k + 1} images in each set", got=f"n = {len(first)} and {len(second)}"
        )
    real_rim, gen_rim = _rims(first, k), _rims(second, k)
    held = np.zeros(len(second))
    recalled, covered = np.zeros(len(first), dtype=bool), np.zeros(len(first), dtype=bool)
    for start in range(0, len(first), _BLOCK):
        part = slice(start, start + _BLOCK)
        squares = squared_distances(first[part], second)
        inside = squares <= real_rim[part, None]
        held += inside.sum(axis=0)
        covered[part] = inside.any(axis=1)
        recalled[part] = (squares <= gen_rim[None]).any(axis=1)
    return Neighbours(
        float((held > 0).mean()), float(recalled.mean()), float(held.mean() / k), float(covered.mean())
    )  # fmt: skip


def squared_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(n, m) squared Euclidean distances of rows; what rounding alone makes of equal rows is 0."""
    scale = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1)[None]
    squares: np.ndarray = scale - 2.0 * (x @ y.T)
    squares[squares <= 1e-13 * scale] = 0.0
    return squares


def _rims(rows: np.ndarray, k: int) -> np.ndarray:
    """(n,) squared distance of each row to its k-th nearest neighbour."""
    rims = np.empty(len(rows))
    for start in range(0, len(rows), _BLOCK):
        squares = squared_distances(rows[start : start + _BLOCK], rows)
        own = np.arange(len(squares))
        squares[own, start + own] = np.inf
        rims[start : start + _BLOCK] = np.partition(squares, k - 1, axis=1)[:, k - 1]
    return rims
