"""Scores of one attribute on a grid, for many draws at once: shares, their variances, and shares smoothed by kernels.

A part is (rows (n, C), groups (units, most) of rows with −1 for none, counts (draws, units)).
"""

from __future__ import annotations

import numpy as np

from beholder.functional.densities import SPREAD_FLOOR, scott, smoothing, spread

HISTOGRAM_POINTS = 256
_FINEST = 512
_FINE = 0.75
"""Steps of the grid of kernel densities, in bandwidths of the narrower set, down to a grid of `_FINEST` points."""
_SAME_WIDTH = 0.01


def drawn_variances(part: tuple[np.ndarray, np.ndarray, np.ndarray], c: int) -> np.ndarray:
    """(draws,) variances of attribute c (mean of squares), of the scores themselves: a coarse grid would blur them."""
    rows, groups, counts = part
    own = np.where(groups >= 0, rows[groups, c] - rows[:, c].mean(), 0.0)
    sums = counts @ np.stack([(groups >= 0).sum(axis=1), own.sum(axis=1), np.square(own).sum(axis=1)], axis=1)
    found: np.ndarray = np.maximum(sums[:, 2] / sums[:, 0] - np.square(sums[:, 1] / sums[:, 0]), 0.0)
    return found


def smoothed_shares(shares: np.ndarray, variance: np.ndarray, grid: np.ndarray, n: int) -> np.ndarray:
    """(draws, points) shares of n scores smoothed; draws whose bandwidths agree to 1 % share one."""
    widths = scott(n) * np.sqrt(variance * (n / (n - 1.0)) + SPREAD_FLOOR**2)
    steps = np.rint(np.log(widths) / _SAME_WIDTH).astype(np.int64)
    found = np.empty_like(shares)
    for level in np.unique(steps):
        own = steps == level
        found[own] = shares[own] @ smoothing(grid, float(np.exp(level * _SAME_WIDTH)))
    return found


def score_grid(values: np.ndarray, sides: tuple[np.ndarray, np.ndarray], *, fine: bool) -> tuple[np.ndarray, float]:
    """A grid over pooled scores, and the bandwidth that both sets share for the JSD.

    A `fine` grid resolves the narrower set's own kernel too, as far as `_FINEST` points do.
    """
    width = scott(min(map(len, sides))) * float(np.sqrt(values.var(ddof=1) + 1e-6))
    low, high = values.min() - 3 * width, values.max() + 3 * width
    points = HISTOGRAM_POINTS
    if fine:
        narrow = min(scott(len(side)) * spread(side) for side in sides)
        points = int(np.clip(np.ceil((high - low) / (_FINE * narrow)), points, _FINEST))
    return np.linspace(low, high, points), width


def distance_nodes(values: np.ndarray) -> np.ndarray:
    """Points for W1: all pooled scores where they are few, else their quantiles, so that crowded scores stay apart."""
    nodes = np.unique(values)
    if len(nodes) > HISTOGRAM_POINTS:
        nodes = np.unique(np.quantile(values, np.linspace(0.0, 1.0, HISTOGRAM_POINTS)))
    return nodes if len(nodes) > 1 else np.array([nodes[0], nodes[0] + 1.0])


def drawn_shares(parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]], c: int, grid: np.ndarray) -> list[np.ndarray]:
    """(draws, points) of both sides: shares of attribute c on a grid."""
    found = [counts @ _unit_shares(rows[:, c], groups, grid) for rows, groups, counts in parts]
    return [shares / shares.sum(axis=1, keepdims=True) for shares in found]


def _unit_shares(values: np.ndarray, groups: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """(units, points): each unit's scores shared between the two points of the grid around them; means are kept."""
    units, points = len(groups), len(grid)
    there = groups >= 0
    rows = np.broadcast_to(np.arange(units)[:, None], groups.shape)[there]
    own = values[groups[there]]
    left = np.clip(np.searchsorted(grid, own, side="right") - 1, 0, points - 2)
    codes, part = rows * points + left, (own - grid[left]) / (grid[left + 1] - grid[left])
    shares = np.bincount(codes, weights=1.0 - part, minlength=units * points)
    shares += np.bincount(codes + 1, weights=part, minlength=units * points)
    return shares.reshape(units, points)
