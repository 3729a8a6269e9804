"""Kernel densities of attribute scores on a grid, and KL between them, in nats.

Scores are shared out between their two (four) nearest grid points and the grid is smoothed with the kernel, so the
cost does not grow with images times grid points. Sharing widens a distribution by spacing²/6; the kernel is
narrowed by as much.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError
from beholder.functional.divergence import Direction, pairs
from beholder.functional.similarity import choice

POINTS = 1024
PAIR_POINTS = 128
REACH = 3.0
"""The grid goes this many bandwidths beyond the scores."""
SPREAD_FLOOR = 1e-3
"""Least standard deviation of a set's scores: the root of the variance floor of the Gaussian divergences."""
_SURE = 1e-9
"""Shares of the greatest density below this are not taken from the FFT, whose noise is some 1e-16 of it."""


def scott(n: int, dimensions: int = 1) -> float:
    """Scott's factor n^(−1/(d+4)): the bandwidth in standard deviations.

    >>> scott(32)
    0.5
    """
    return float(n ** (-1.0 / (dimensions + 4)))


def common_grid(sets: list[np.ndarray], widths: list[float], points: int) -> np.ndarray:
    """(points,) equally spaced from the least score − 3h to the greatest + 3h over all sets."""
    low = min(float(values.min()) - REACH * h for values, h in zip(sets, widths, strict=True))
    high = max(float(values.max()) + REACH * h for values, h in zip(sets, widths, strict=True))
    return np.linspace(low, high, points)


def share_out(values: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """(points,) masses: each value's weight 1/n shared between its two nearest grid points; means are kept exactly.

    >>> share_out(np.array([0.25]), np.linspace(0.0, 1.0, 2)).tolist()
    [0.75, 0.25]
    """
    at = (values - grid[0]) / (grid[1] - grid[0])
    left = np.clip(at.astype(np.int64), 0, len(grid) - 2)
    part = at - left
    masses = np.bincount(left, weights=1.0 - part, minlength=len(grid))
    masses[1:] += np.bincount(left, weights=part, minlength=len(grid))[:-1]
    return masses / len(values)


def smoothing(grid: np.ndarray, width: float) -> np.ndarray:
    """(points, points) matrix that turns masses on a grid into a density of Gaussian kernels of a bandwidth."""
    step = grid[1] - grid[0]
    variance = max(width**2 - step**2 / 6.0, width**2 / 2.0)
    lags = np.arange(len(grid)) * step
    line = np.exp(-0.5 * np.square(lags) / variance) / np.sqrt(2.0 * np.pi * variance)
    at = np.arange(len(grid))
    matrix: np.ndarray = line[np.abs(at[:, None] - at[None, :])]
    return matrix


def sad_kde(
    ref: npt.ArrayLike, gen: npt.ArrayLike, *, direction: Direction = "gen||ref", points: int = POINTS
) -> np.ndarray:
    """SaD with Gaussian kernel densities: sum of p·ln(p/q)·spacing over a common grid, both renormalised.

    Args:
        ref: (N, C) scores, N at least 2.
        gen: (M, C) scores.
        direction: see `divergence.sad`.
        points: grid points.

    Returns:
        (C,) nats. Its level under no difference is several times that of the Gaussian form.

    Source: ours; bandwidth n^(−1/5)·sd (Scott). For the arithmetic of the public code see `legacy_density`.
    """
    first, second = checked_sets(ref, gen, direction)
    values = []
    for p, q in zip(first.T, second.T):
        widths = [scott(len(side)) * _spread(side) for side in (p, q)]
        grid = common_grid([p, q], widths, points)
        logs = [np.log(np.maximum(smoothing(grid, h) @ share_out(side, grid), 1e-300))
                for side, h in zip((p, q), widths)]  # fmt: skip
        values.append(_kl_of_logs(logs[0], logs[1]))
    return np.asarray(values)


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
    widths = [[scott(len(side), 2) * _spread(column) for column in side.T] for side in (p, q)]
    grids = [common_grid([p[:, axis], q[:, axis]], [widths[0][axis], widths[1][axis]], points) for axis in (0, 1)]
    densities = [_Density2D(side, grids) for side in (p, q)]
    log_p = densities[0].logs(np.ones((points, points), dtype=bool), sure=True)
    where = log_p > log_p.max() + np.log(1e-12)
    log_q = densities[1].logs(where)
    total_q = densities[1].total()
    weights = np.exp(log_p[where])
    total_p = weights.sum()
    shares = weights / total_p
    value = float((shares * (log_p[where] - np.log(total_p) - log_q[where] + np.log(total_q))).sum())
    return max(value, 0.0)


class _Density2D:
    """A kernel density on a grid: by FFT where it is large, by sums over the grid's masses where the FFT is noise."""

    def __init__(self, values: np.ndarray, grids: list[np.ndarray]) -> None:
        self.grids = grids
        self.steps = np.asarray([grid[1] - grid[0] for grid in grids])
        self.masses = _share_out_2d(values, grids)
        cov = np.cov(values.T) + SPREAD_FLOOR**2 * np.eye(2)
        kernel = cov * scott(len(values), 2) ** 2
        narrowed = kernel - np.diag(self.steps**2 / 6.0)
        self.kernel = narrowed if np.linalg.eigvalsh(narrowed)[0] > 0.25 * np.linalg.eigvalsh(kernel)[0] else kernel
        self.inverse = np.linalg.inv(self.kernel)
        self.smooth = self._by_fft()

    def _by_fft(self) -> np.ndarray:
        shape = [2 * len(grid) for grid in self.grids]
        lags = [np.fft.fftfreq(size, 1.0 / size) * step for size, step in zip(shape, self.steps)]
        kernel = np.exp(-0.5 * self._form(lags[0][:, None], lags[1][None, :]))
        product = np.fft.rfft2(kernel) * np.fft.rfft2(self.masses, s=shape)
        smooth = np.fft.irfft2(product, s=shape)[: len(self.grids[0]), : len(self.grids[1])]
        return np.maximum(smooth, 0.0)

    def _form(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        a, b, c = self.inverse[0, 0], self.inverse[1, 1], self.inverse[0, 1]
        form: np.ndarray = a * x * x + b * y * y + 2.0 * c * x * y
        return form

    def total(self) -> float:
        """Sum of the density over the grid."""
        return float(self.smooth.sum())

    def logs(self, where: np.ndarray, *, sure: bool = False) -> np.ndarray:
        """ln density (up to the kernel's constant) at the marked cells, −inf elsewhere.

        Args:
            where: (points, points) bool.
            sure: True leaves what the FFT cannot tell at −inf instead of summing it exactly.
        """
        out = np.full(self.smooth.shape, -np.inf)
        plain = where & (self.smooth > _SURE * self.smooth.max())
        out[plain] = np.log(self.smooth[plain])
        if not sure:
            rest = np.argwhere(where & ~plain)
            for start in range(0, len(rest), 256):
                part = rest[start : start + 256]
                out[part[:, 0], part[:, 1]] = self._exact(part)
        return out

    def _exact(self, cells: np.ndarray) -> np.ndarray:
        filled = np.argwhere(self.masses > 0)
        x, y = ((cells[:, axis, None] - filled[None, :, axis]) * self.steps[axis] for axis in (0, 1))
        terms = np.log(self.masses[filled[:, 0], filled[:, 1]])[None, :] - 0.5 * self._form(x, y)
        top = terms.max(axis=1)
        result: np.ndarray = top + np.log(np.exp(terms - top[:, None]).sum(axis=1))
        return result


def _share_out_2d(values: np.ndarray, grids: list[np.ndarray]) -> np.ndarray:
    size = len(grids[0]), len(grids[1])
    lefts, parts = [], []
    for column, grid in zip(values.T, grids):
        at = (column - grid[0]) / (grid[1] - grid[0])
        left = np.clip(at.astype(np.int64), 0, len(grid) - 2)
        lefts.append(left)
        parts.append(at - left)
    masses = np.zeros(size[0] * size[1])
    for right_x in (0, 1):
        for right_y in (0, 1):
            weight = (parts[0] if right_x else 1.0 - parts[0]) * (parts[1] if right_y else 1.0 - parts[1])
            codes = (lefts[0] + right_x) * size[1] + lefts[1] + right_y
            masses += np.bincount(codes, weights=weight, minlength=len(masses))
    return (masses / len(values)).reshape(size)


def _kl_of_logs(log_p: np.ndarray, log_q: np.ndarray) -> float:
    p, q = np.exp(log_p), np.exp(log_q)
    total_p, total_q = p.sum(), q.sum()
    return max(float((p / total_p * (log_p - np.log(total_p) - log_q + np.log(total_q))).sum()), 0.0)


def _spread(values: np.ndarray) -> float:
    return float(np.sqrt(values.var(ddof=1) + SPREAD_FLOOR**2))


def checked_sets(ref: npt.ArrayLike, gen: npt.ArrayLike, direction: str) -> tuple[np.ndarray, np.ndarray]:
    """The two sets in the order of KL(first‖second).

    Raises:
        OptionError: fewer than three images, other attributes, or no such direction.
    """
    choice("direction", direction, Direction)
    first, second = np.asarray(ref, dtype=np.float64), np.asarray(gen, dtype=np.float64)
    if min(len(first), len(second)) < 3 or first.shape[1:] != second.shape[1:]:
        raise OptionError(
            "a density needs at least three images a set, scored for the same attributes",
            got=f"{first.shape} and {second.shape}",
        )
    return (second, first) if direction == "gen||ref" else (first, second)
