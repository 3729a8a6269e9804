"""Kernel densities of two attributes' scores on a grid, with full covariance, and KL between them, in nats.

Scores are shared out between their four nearest grid points, and the grid is smoothed with the kernel by FFT. Where a
density is so low that the FFT holds rounding only, it is summed up cell by cell, as far as the divergence can tell.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beholder.functional.densities import SPREAD_FLOOR, checked_sets, common_grid, scott, spread
from beholder.functional.divergence import Direction, pairs

PAIR_POINTS = 128
REACH = 8.0
"""The kernel is 1e-14 of its height so many bandwidths out: the grid is padded by as much."""
SURE = 1e-11
"""Shares of the greatest density below this are not taken from the FFT, whose noise is some 1e-16 of it."""
_SLACK = 1e-4
"""What cells that are left out may add to a divergence, as a share of it."""
_LEAST = 1e-14
"""Densities of p below this share of its greatest one add nothing that could be told."""


def pad_kde(
    ref: npt.ArrayLike, gen: npt.ArrayLike, *, direction: Direction = "gen||ref", points: int = PAIR_POINTS
) -> np.ndarray:
    """PaD with Gaussian kernel densities of full covariance on a common grid of `points` × `points`.

    Args:
        ref: (N, C) scores, N at least 3.
        gen: (M, C) scores.
        direction: see `divergence.sad`.
        points: grid points along each axis.

    Returns:
        (C(C−1)/2,) nats, in the order of `divergence.pairs`.

    Source: ours; kernel covariance n^(−1/3) times the scores' (Scott).
    """
    first, second = checked_sets(ref, gen, direction)
    i, j = pairs(first.shape[1])
    return np.asarray([pair_kl(first[:, [a, b]], second[:, [a, b]], points=points) for a, b in zip(i, j)])


def pair_kl(p: np.ndarray, q: np.ndarray, *, points: int = PAIR_POINTS) -> float:
    """KL(p‖q) in nats of the kernel densities of two sets of (n, 2) scores, on their common grid."""
    grids = pair_grids((p, q), points)
    first, second = (_Density(side, grids) for side in (p, q))
    shares = first.smooth / first.smooth.sum()
    where = shares > _LEAST * shares.max()
    sure = where & (second.smooth > SURE * second.smooth.max())
    total = np.log(second.smooth.sum())
    value = float((shares[sure] * (np.log(shares[sure]) - np.log(second.smooth[sure]) + total)).sum())
    rest = np.argwhere(where & ~sure)
    if len(rest):
        own = shares[rest[:, 0], rest[:, 1]]
        # Each is at most this much, so the least of them are left out together.
        most = own * np.abs(np.log(own) + total - second.at_least(rest))
        order = np.argsort(most)
        keep = np.cumsum(most[order]) > _SLACK * abs(value) + 1e-12
        rest, own = rest[order][keep], own[order][keep]
        value += float((own * (np.log(own) - second.exact_logs(rest) + total)).sum())
    return max(value, 0.0)


def pair_grids(sets: tuple[np.ndarray, np.ndarray], points: int) -> list[np.ndarray]:
    """The common grid of two sets of (n, 2) scores, axis by axis."""
    widths = [[scott(len(side), 2) * spread(column) for column in side.T] for side in sets]
    return [common_grid([side[:, axis] for side in sets], [width[axis] for width in widths], points) for axis in (0, 1)]


class Kernel:
    """The Gaussian kernel of a set of (n, 2) scores, on a grid.

    Args:
        values: the scores.
        grids: the grid.
    """

    def __init__(self, values: np.ndarray, grids: list[np.ndarray]) -> None:
        self.steps = np.asarray([grid[1] - grid[0] for grid in grids])
        self.shape = len(grids[0]), len(grids[1])
        cov = np.cov(values.T) + SPREAD_FLOOR**2 * np.eye(2)
        kernel = cov * scott(len(values), 2) ** 2
        # Sharing scores out between grid points widens them by a sixth of a squared step.
        narrowed = kernel - np.diag(self.steps**2 / 6.0)
        self.cov = narrowed if np.linalg.eigvalsh(narrowed)[0] > 0.25 * np.linalg.eigvalsh(kernel)[0] else kernel
        self._inverse = np.linalg.inv(self.cov)

    def form(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The quadratic form of distances in scores; the kernel is exp(−form/2)."""
        a, b, c = self._inverse[0, 0], self._inverse[1, 1], self._inverse[0, 1]
        form: np.ndarray = (a * x + 2.0 * c * y) * x + b * y * y
        return form

    def whitened(self, points: np.ndarray) -> np.ndarray:
        """(k, 2) points whose squared lengths are their forms."""
        whitened: np.ndarray = points @ np.linalg.cholesky(self._inverse)
        return whitened

    def smooth(self, masses: np.ndarray) -> np.ndarray:
        """(…, points, points) masses, smoothed by FFT; what is below 1e-15 of the greatest is noise, 0 or above."""
        from scipy.fft import irfft2, next_fast_len, rfft2

        reach = np.ceil(REACH * np.sqrt(np.diag(self.cov)) / self.steps).astype(int)
        shape = [next_fast_len(size + min(int(far), size), real=True) for size, far in zip(self.shape, reach)]
        lags = [np.fft.fftfreq(size, 1.0 / size) * step for size, step in zip(shape, self.steps)]
        kernel = np.exp(-0.5 * self.form(lags[0][:, None], lags[1][None, :]))
        smooth = irfft2(rfft2(kernel) * rfft2(masses, s=shape), s=shape)
        found: np.ndarray = np.maximum(smooth[..., : self.shape[0], : self.shape[1]], 0.0)
        return found


class _Density:
    """A kernel density on a grid, up to the kernel's constant."""

    def __init__(self, values: np.ndarray, grids: list[np.ndarray]) -> None:
        self.kernel = Kernel(values, grids)
        self.masses = share_out_pairs(values, grids, np.zeros(len(values), dtype=np.int64), 1)[0] / len(values)
        self.smooth = self.kernel.smooth(self.masses)

    def at_least(self, cells: np.ndarray) -> np.ndarray:
        """(k,) what the log density of cells is not below: the term of the heaviest grid point."""
        top = np.unravel_index(int(self.masses.argmax()), self.masses.shape)
        x, y = ((cells[:, axis] - top[axis]) * self.kernel.steps[axis] for axis in (0, 1))
        least: np.ndarray = np.log(self.masses[top]) - 0.5 * self.kernel.form(x, y)
        return least

    def exact_logs(self, cells: np.ndarray) -> np.ndarray:
        """(k,) log densities of cells, summed over all grid points."""
        filled = np.argwhere(self.masses > 0)
        weights = np.log(self.masses[filled[:, 0], filled[:, 1]])
        # The form of a difference, multiplied out: one product of matrices instead of a form an entry.
        middle = filled.mean(axis=0)
        points = [self.kernel.whitened((at - middle) * self.kernel.steps) for at in (cells, filled)]
        squares = [-0.5 * np.square(side).sum(axis=1) for side in points]
        found = np.empty(len(cells))
        for start in range(0, len(cells), 128):
            part = slice(start, start + 128)
            terms = points[0][part] @ points[1].T
            terms += weights + squares[1]
            top = terms.max(axis=1)
            # What is summed is relative to the greatest term: single precision is right to 1e-6 of it.
            apart = np.exp((terms - top[:, None]).astype(np.float32)).sum(axis=1, dtype=np.float64)
            found[part] = squares[0][part] + top + np.log(apart)
        return found


def share_out_pairs(values: np.ndarray, grids: list[np.ndarray], units: np.ndarray, count: int) -> np.ndarray:
    """(count, points, points): each (n, 2) score's weight 1 shared between its four nearest grid points, by unit.

    Args:
        values: the scores.
        grids: the grid.
        units: (n,) which unit each belongs to.
        count: number of units.
    """
    size = len(grids[0]), len(grids[1])
    lefts, parts = [], []
    for column, grid in zip(values.T, grids):
        at = (column - grid[0]) / (grid[1] - grid[0])
        left = np.clip(at.astype(np.int64), 0, len(grid) - 2)
        lefts.append(left)
        parts.append(at - left)
    cells = count * size[0] * size[1]
    base = (units * size[0] + lefts[0]) * size[1] + lefts[1]
    masses = np.zeros(cells)
    for right_x in (0, 1):
        for right_y in (0, 1):
            weight = (parts[0] if right_x else 1.0 - parts[0]) * (parts[1] if right_y else 1.0 - parts[1])
            masses += np.bincount(base + right_x * size[1] + right_y, weights=weight, minlength=cells)
    return masses.reshape(count, *size)
