"""Draws of PaD by kernels: a thousand resamples from the masses of units on a grid.

Each unit's scores are shared out over a grid once, and a draw is a product with its counts. Each draw is smoothed with
the kernel of its own covariance, so it is the statistic itself, on a grid that is just fine enough:
within 1 % of `pair_densities`, and 5 % where sets hardly overlap. Of scores so crowded beside a few far ones that the
grid cannot hold their kernel, draws are rougher; a p-value then compares them with the sets on the same grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from beholder.functional.densities import SPREAD_FLOOR, scott, spread
from beholder.functional.divergence import Direction, pairs
from beholder.functional.pair_densities import REACH, Kernel, pair_grids, share_out_pairs

MOST_PAIR_UNITS = 256
"""Units of one set: more images are dealt into so many groups."""
FEWEST, MOST = 32, 80
"""Grid points along each axis."""
_FINE = 0.75
"""Steps of the grid, in bandwidths of the narrower kernel."""
_SURE, _HELD = 1e-10, 1e-9
"""Where q is below the first share of its greatest and p above the second, sums with the whole set's kernel replace the
FFT."""
_AT_ONCE = 200
"""Draws in memory at once."""


class Side(NamedTuple):
    """One side of a comparison in all draws.

    Args:
        rows: (n, C) scores.
        groups: (units, size) row numbers, −1 for none (see `deal`).
        weights: (draws, units) how often each unit is in a draw.
    """

    rows: np.ndarray
    groups: np.ndarray
    weights: np.ndarray


def pair_divergences(sets: tuple[np.ndarray, np.ndarray], sides: Sequence[Side], direction: Direction) -> np.ndarray:
    """(draws, pairs) PaD by kernels of draws of two sides.

    Args:
        sets: (N, C) and (M, C) scores of the reference and the generated set: of them are kernels and grids.
        sides: what is drawn for each.
        direction: see `divergence.sad`.
    """
    found = [
        _Pair(sets[0][:, [i, j]], sets[1][:, [i, j]], direction).divergences(sides, [i, j])
        for i, j in zip(*pairs(sets[0].shape[1]))
    ]
    return np.stack(found, axis=1) if found else np.zeros((len(sides[0].weights), 0))


class _Pair:
    """Kernels and grid of one pair of attributes."""

    def __init__(self, ref: np.ndarray, gen: np.ndarray, direction: Direction) -> None:
        from scipy.fft import next_fast_len

        narrow = [min(scott(len(side), 2) * spread(side[:, axis]) for side in (ref, gen)) for axis in (0, 1)]
        rough = pair_grids((ref, gen), 2)
        wanted = max(np.ceil((grid[1] - grid[0]) / (_FINE * h)) for grid, h in zip(rough, narrow))
        self.grids = pair_grids((ref, gen), int(np.clip(wanted, FEWEST, MOST)))
        self.counts = len(ref), len(gen)
        self.kernels = [Kernel(side, self.grids) for side in (ref, gen)]
        self.steps, self.shape = self.kernels[0].steps, self.kernels[0].shape
        self.order = (1, 0) if direction == "gen||ref" else (0, 1)
        pooled = np.concatenate([ref, gen]).std(axis=0) * max(scott(count, 2) for count in self.counts)
        reach = np.ceil(REACH * (pooled + SPREAD_FLOOR) / self.steps).astype(int)
        self.padded = [next_fast_len(n + min(int(far), n), real=True) for n, far in zip(self.shape, reach)]
        self.lags = [np.fft.fftfreq(size, 1.0 / size) * step for size, step in zip(self.padded, self.steps)]

    def divergences(self, sides: Sequence[Side], pair: list[int]) -> np.ndarray:
        """(draws,) KL of the first side of the direction from the second."""
        units = [_masses(sides[at], pair, self.grids) for at in self.order]
        sums = [_moments(sides[at], pair) for at in self.order]
        whole = [self.kernels[at].smooth(side.sum(axis=0)).ravel() for at, side in zip(self.order, units)]
        there = whole[0] > 1e-14 * whole[0].max()
        far = np.flatnonzero((whole[0] > _HELD * whole[0].max()) & (whole[1] <= _SURE * whole[1].max()))
        summed = self._summed(units[1], self.order[1], far) if len(far) else None
        weights = [sides[at].weights for at in self.order]
        found = [np.zeros(0)]
        for start in range(0, len(weights[0]), _AT_ONCE):
            part = [own[start : start + _AT_ONCE] for own in weights]
            flat = [own @ side.reshape(len(side), -1) for own, side in zip(part, units)]
            kernels = [self._kernels_of(own @ side, self.counts[at]) for own, side, at in zip(part, sums, self.order)]
            p, q = (self._smoothed(masses, own) for masses, own in zip(flat, kernels))
            if summed is not None:
                q[:, far] = part[1] @ summed
            p[:, ~there] = 0.0  # rounding of the FFT is no evidence
            p, q = (side / side.sum(axis=1, keepdims=True) for side in (p, q))
            ratio = np.log(np.maximum(p, 1e-300)) - np.log(np.maximum(q, 1e-300))
            found.append(np.maximum((p * ratio).sum(axis=1), 0.0))
        return np.concatenate(found)

    def _smoothed(self, flat: np.ndarray, kernels_of: np.ndarray) -> np.ndarray:
        """(draws, cells) masses smoothed, each with its own kernel covariance (draws, 2, 2)."""
        from scipy.fft import irfft2, rfft2

        inverse = np.linalg.inv(kernels_of)
        a, b, c = (inverse[:, i, j, None, None] for i, j in ((0, 0), (1, 1), (0, 1)))
        x, y = self.lags[0][:, None], self.lags[1][None, :]
        kernels = np.exp(-0.5 * ((a * x + 2.0 * c * y) * x + b * y * y))
        product = rfft2(kernels) * rfft2(flat.reshape(-1, *self.shape), s=self.padded)
        smooth = irfft2(product, s=self.padded)[:, : self.shape[0], : self.shape[1]]
        found: np.ndarray = np.maximum(smooth, 0.0).reshape(len(flat), -1)
        return found

    def _kernels_of(self, sums: np.ndarray, count: int) -> np.ndarray:
        """(draws, 2, 2) kernel covariances from sums (draws, 6) of `_moments`, as `Kernel` has them of scores."""
        mean = sums[:, 1:3] / sums[:, :1]
        cov = np.empty((len(sums), 2, 2))
        for at, (i, j) in enumerate(((0, 0), (1, 1), (0, 1)), start=3):
            cov[:, i, j] = cov[:, j, i] = sums[:, at] / sums[:, 0] - mean[:, i] * mean[:, j]
        floor = SPREAD_FLOOR**2 * np.eye(2)
        kernel = (cov * (count / (count - 1.0)) + floor) * scott(count, 2) ** 2
        narrowed = kernel - np.diag(self.steps**2 / 6.0)
        right = np.linalg.eigvalsh(narrowed)[:, 0] > 0.25 * np.linalg.eigvalsh(kernel)[:, 0]
        return np.where(right[:, None, None], narrowed, kernel)

    def _summed(self, masses: np.ndarray, at: int, cells: np.ndarray) -> np.ndarray:
        """(units, cells) densities summed over grid points, where the FFT is noise."""
        flat = masses.reshape(len(masses), -1)
        filled = np.flatnonzero(flat.any(axis=0))
        kernel = self.kernels[at]
        where, there = (np.stack(np.unravel_index(found, kernel.shape), axis=1) for found in (cells, filled))
        x, y = ((there[:, axis, None] - where[None, :, axis]) * kernel.steps[axis] for axis in (0, 1))
        found: np.ndarray = flat[:, filled] @ np.exp(-0.5 * kernel.form(x, y))
        return found


def _masses(side: Side, pair: list[int], grids: list[np.ndarray]) -> np.ndarray:
    """(units, points, points) masses of each unit's images."""
    there = side.groups >= 0
    units = np.broadcast_to(np.arange(len(side.groups))[:, None], side.groups.shape)[there]
    return share_out_pairs(side.rows[side.groups[there]][:, pair], grids, units, len(side.groups))


def _moments(side: Side, pair: list[int]) -> np.ndarray:
    """(units, 6) sums of each unit's scores: number, x, y, x², y², xy, about the middle of the side's scores.

    Of the scores themselves: a grid too coarse for crowded scores would give covariances that are none.
    """
    there = side.groups >= 0
    own = np.where(there[..., None], side.rows[:, pair][side.groups] - side.rows[:, pair].mean(axis=0), 0.0)
    x, y = own[..., 0], own[..., 1]
    return np.stack([part.sum(axis=1) for part in (there.astype(np.float64), x, y, x * x, y * y, x * y)], axis=1)
