"""SaD and PaD as the public code of arXiv 2310.17261 computes them, to compare with old printouts.

Known of that arithmetic: the mean over cells instead of their sum (so a value is KL divided by the number of cells),
a fixed grid from −35 to 35 whose cells are counted as 70/n though the points are 70/(n−1) apart, 1e-10 added to every
cell, mass outside the grid lost, negative results set to 0. Scores are HCS (about −35 to 35).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beholder.functional.densities import checked_sets
from beholder.functional.divergence import pairs

EDGE = 35.0
TINY = 1e-10
POINTS = 10_000
PRINTED = 1e7
"""The code prints its means times this."""


def sad_legacy(ref: npt.ArrayLike, gen: npt.ArrayLike, *, points: int = POINTS) -> np.ndarray:
    """(C,) KL(ref‖gen) as a mean over `points` cells; times `points` it is about KL in nats.

    Args:
        ref: (N, C) scores, on the scale of HCS.
        gen: (M, C) scores.
        points: grid points; the internal value falls as 1/points.
    """
    from scipy.stats import gaussian_kde

    first, second = checked_sets(ref, gen, "ref||gen")
    grid = np.linspace(-EDGE, EDGE, points)
    values = []
    for p, q in zip(first.T, second.T):
        cells = [gaussian_kde(side)(grid) * (2 * EDGE / points) + TINY for side in (p, q)]
        values.append(max(float(np.mean(cells[0] * (np.log(cells[0]) - np.log(cells[1])))), 0.0))
    return np.asarray(values)


def pad_legacy(ref: npt.ArrayLike, gen: npt.ArrayLike, *, points: int = POINTS) -> np.ndarray:
    """(C(C−1)/2,) KL(ref‖gen) as a mean over cells, in the order of `divergence.pairs`.

    The plane is cut into √points × √points cells, each the mean of the density at its four corners.
    """
    from scipy.stats import gaussian_kde

    first, second = checked_sets(ref, gen, "ref||gen")
    bins = int(np.sqrt(points))
    nodes = np.linspace(-EDGE, EDGE, bins + 1)
    plane = np.stack([axis.ravel() for axis in np.meshgrid(nodes, nodes, indexing="ij")])
    area = (2 * EDGE / bins) ** 2
    values = []
    for i, j in zip(*pairs(first.shape[1])):
        cells = []
        for side in (first, second):
            at = gaussian_kde(side[:, [i, j]].T)(plane).reshape(bins + 1, bins + 1)
            pooled = (at[:-1, :-1] + at[1:, :-1] + at[:-1, 1:] + at[1:, 1:]) / 4.0
            cells.append(pooled * area + TINY)
        values.append(max(float(np.mean(cells[0] * (np.log(cells[0]) - np.log(cells[1])))), 0.0))
    return np.asarray(values)


def printed(values: npt.ArrayLike) -> float:
    """What the code prints: round(mean over attributes or pairs, 10)·1e7. At 10,000 points this is 1000·KL in nats.

    >>> round(printed([4.74e-6]), 6)
    47.4
    """
    return round(float(np.mean(np.asarray(values, dtype=np.float64))), 10) * PRINTED
