"""Distances of two sets of features by kernels: KID and CMMD, from sums over blocks.

Rows come in groups (see `set_draws`), and the sums are kept for each pair of groups: the value of any union of groups,
which intervals need, then costs nothing more. No matrix of all pairs is ever held.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError

Kernel = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(a, d) and (b, d) to (a, b)."""

_BLOCK = 1024
CMMD_SIGMA, CMMD_SCALE = 10.0, 1000.0


class KernelSums(NamedTuple):
    """Sums of a kernel over pairs of two sets.

    Args:
        xx, yy, xy: (groups, groups) sums over pairs of rows of two groups, pairs of a row with itself included.
        x_self, y_self: (groups,) sums over pairs of a row with itself.
        x_counts, y_counts: (groups,) rows.
    """

    xx: np.ndarray
    yy: np.ndarray
    xy: np.ndarray
    x_self: np.ndarray
    y_self: np.ndarray
    x_counts: np.ndarray
    y_counts: np.ndarray


def cubic_kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(x·y / d + 1)³, the kernel of KID.

    >>> cubic_kernel(np.ones((1, 2)), np.ones((1, 2))).tolist()
    [[8.0]]
    """
    products: np.ndarray = (x @ y.T / x.shape[1] + 1.0) ** 3
    return products


def gaussian_kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """exp(−|x − y|² / 2σ²) with σ = 10, the kernel of CMMD.

    >>> float(gaussian_kernel(np.zeros((1, 1)), np.zeros((1, 1)))[0, 0])
    1.0
    """
    squares = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1)[None] - 2.0 * (x @ y.T)
    values: np.ndarray = np.exp(np.maximum(squares, 0.0) / (-2.0 * CMMD_SIGMA**2))
    return values


def kernel_sums(
    x: npt.ArrayLike, y: npt.ArrayLike, kernel: Kernel, *, x_groups: npt.ArrayLike, y_groups: npt.ArrayLike
) -> KernelSums:
    """Sums of a kernel over all pairs, by pair of groups; about n² kernel values, a block of them in memory.

    Args:
        x: (n, d) features.
        y: (m, d) features.
        kernel: see above.
        x_groups, y_groups: (n,) and (m,) group of each row, from 0; both sides have as many groups.

    Raises:
        OptionError: sets of unequal width.
    """
    first, second = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1]:
        raise OptionError("two sets must be (n, d) and (m, d)", got=f"{first.shape} and {second.shape}")
    codes = np.asarray(x_groups), np.asarray(y_groups)
    count = int(max(part.max(initial=-1) for part in codes)) + 1
    marks = [(part[:, None] == np.arange(count)).astype(np.float64) for part in codes]
    return KernelSums(
        _sums(first, first, kernel, marks[0], marks[0]),
        _sums(second, second, kernel, marks[1], marks[1]),
        _sums(first, second, kernel, *marks),
        _own(first, kernel) @ marks[0],
        _own(second, kernel) @ marks[1],
        marks[0].sum(axis=0),
        marks[1].sum(axis=0),
    )


def _sums(x: np.ndarray, y: np.ndarray, kernel: Kernel, x_marks: np.ndarray, y_marks: np.ndarray) -> np.ndarray:
    total = np.zeros((x_marks.shape[1], y_marks.shape[1]))
    for i in range(0, len(x), _BLOCK):
        for j in range(0, len(y), _BLOCK):
            block = kernel(x[i : i + _BLOCK], y[j : j + _BLOCK])
            total += x_marks[i : i + _BLOCK].T @ block @ y_marks[j : j + _BLOCK]
    return total


def _own(x: np.ndarray, kernel: Kernel) -> np.ndarray:
    """(n,) the kernel of each row with itself."""
    return np.array([float(kernel(row[None], row[None])[0, 0]) for row in x])


def squared_mmd(
    sums: KernelSums,
    *,
    unbiased: bool,
    x_chosen: np.ndarray | None = None,
    y_chosen: np.ndarray | None = None,
) -> float:
    """Squared maximum mean discrepancy of two unions of groups.

    Unbiased: means over pairs of different rows within a set; may be a little below 0. Biased: pairs of a row with
    itself take part, so it is at least 0, and 0 for equal sets.

    Args:
        sums: from `kernel_sums`.
        unbiased: which estimator.
        x_chosen, y_chosen: (groups,) 0 or 1; all groups when None.

    Raises:
        OptionError: fewer than two rows in a set.

    Source: Gretton et al., JMLR 13 (2012), equations 3 and 5.
    """
    p = np.ones(len(sums.x_counts)) if x_chosen is None else x_chosen
    q = np.ones(len(sums.y_counts)) if y_chosen is None else y_chosen
    n, m = float(p @ sums.x_counts), float(q @ sums.y_counts)
    if min(n, m) < 2:
        raise OptionError("a kernel distance needs at least 2 images in each set", got=f"n = {n:g} and {m:g}")
    within = [float(p @ sums.xx @ p), float(q @ sums.yy @ q)]
    if unbiased:
        within = [within[0] - float(p @ sums.x_self), within[1] - float(q @ sums.y_self)]
        between = 2.0 * float(p @ sums.xy @ q) / (n * m)
        return within[0] / (n * (n - 1)) + within[1] / (m * (m - 1)) - between
    value = within[0] / n**2 + within[1] / m**2 - 2.0 * float(p @ sums.xy @ q) / (n * m)
    return max(value, 0.0)
