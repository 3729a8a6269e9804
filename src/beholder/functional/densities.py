"""Kernel densities of attribute scores on a grid, and KL between them, in nats.

Scores are shared out between their two nearest grid points and the grid is smoothed with the kernel, so the cost does
not grow with images times grid points. Sharing widens a distribution by spacing²/6; the kernel is narrowed by as much.
For pairs of attributes see `pair_densities`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError
from beholder.functional.divergence import Direction
from beholder.functional.similarity import choice

POINTS = 1024
REACH = 3.0
"""The grid goes this many bandwidths beyond the scores."""
SPREAD_FLOOR = 1e-3
"""Least standard deviation of a set's scores: the root of the variance floor of the Gaussian divergences."""


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
    # Each row is the kernel's line, moved by one: windows of it, which costs a tenth of picking entries one by one.
    both = np.concatenate([line[:0:-1], line])
    matrix: np.ndarray = np.lib.stride_tricks.sliding_window_view(both, len(grid))[::-1]
    return matrix


def sad_kde(
    ref: npt.ArrayLike, gen: npt.ArrayLike, *, direction: Direction = "gen||ref", points: int = POINTS
) -> np.ndarray:
    """SaD with Gaussian kernel densities: ∫ p·ln(p/q) by trapezoids on a common grid, both renormalised.

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
        widths = [scott(len(side)) * spread(side) for side in (p, q)]
        grid = common_grid([p, q], widths, points)
        logs = [np.log(np.maximum(smoothing(grid, h) @ share_out(side, grid), 1e-300))
                for side, h in zip((p, q), widths)]  # fmt: skip
        values.append(_kl_of_logs(logs[0], logs[1]))
    return np.asarray(values)


def _kl_of_logs(log_p: np.ndarray, log_q: np.ndarray) -> float:
    ends = trapezoid(len(log_p))
    p, q = ends * np.exp(log_p), ends * np.exp(log_q)
    total_p, total_q = p.sum(), q.sum()
    return max(float((p / total_p * (log_p - np.log(total_p) - log_q + np.log(total_q))).sum()), 0.0)


def trapezoid(points: int) -> np.ndarray:
    """(points,) weights of the trapezoid rule: 1, and half of it at both ends, where one set's density may be far above
    the other's.

    >>> trapezoid(4).tolist()
    [0.5, 1.0, 1.0, 0.5]
    """
    weights = np.ones(points)
    weights[[0, -1]] = 0.5
    return weights


def spread(values: np.ndarray) -> float:
    """Standard deviation of scores (ddof 1), with the floor."""
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
