"""How stable a ranking of three and more methods is when prompts are drawn anew."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beholder._errors import OptionError

_BLOCK = 1 << 22
_ROUNDING = 1e-9


@dataclass(frozen=True)
class RankStability:
    """Ranks over resamples; rank 1 is the best.

    Args:
        order: positions of the methods, best first, on the data as it is.
        shares: (k, k) share of the resamples in which method i has rank j + 1.
        same_order: share of the resamples with exactly this order.
        same_best: share of the resamples with the same best method.
        n_units: units that were drawn (those with a value of every method).
        tied: (k − 1) whether a method of the order and the next have one mean but for rounding.
    """

    order: tuple[int, ...]
    shares: np.ndarray
    same_order: float
    same_best: float
    n_units: int
    tied: tuple[bool, ...] = ()


def rank_stability(
    sums: np.ndarray, counts: np.ndarray, *, higher_is_better: bool = True, seed: int = 0, resamples: int = 2000
) -> RankStability:
    """Ranks the methods by their means in bootstrap samples of whole units; all methods share each draw.

    Args:
        sums: (U, k) sum of each unit's values, by method.
        counts: (U,) number of values of each unit, above 0.
        higher_is_better: False where the lowest mean is rank 1.
        seed: seed of the draws.
        resamples: number of draws.

    Raises:
        OptionError: fewer than two units or methods, or no draws.

    Degenerate: methods with equal means in a draw keep the order in which they were given.
    """
    n_units, k = sums.shape
    if n_units < 2 or k < 2:
        raise OptionError("ranks need two units and two methods", got=f"{n_units} units and {k} methods")
    if resamples < 1:
        raise OptionError("ranks need at least one draw", got=repr(resamples))
    signed = np.asarray(sums, dtype=np.float64) * (1.0 if higher_is_better else -1.0)
    weight = np.asarray(counts, dtype=np.float64)
    means = signed.sum(axis=0) / weight.sum()
    order = np.argsort(-means, kind="stable")
    tied = -np.diff(means[order]) <= _ROUNDING * np.abs(means[order][1:])
    rng = np.random.default_rng(seed)
    shares, same, best = np.zeros((k, k)), 0, 0
    rows = max(1, _BLOCK // (n_units * k))
    for start in range(0, resamples, rows):
        drawn = rng.integers(0, n_units, size=(min(rows, resamples - start), n_units))
        # Counts are alike for all methods, so the order of sums is the order of means.
        found = np.argsort(-signed[drawn].sum(axis=1), axis=1, kind="stable")
        for rank in range(k):
            shares[:, rank] += np.bincount(found[:, rank], minlength=k)
        same += int((found == order).all(axis=1).sum())
        best += int((found[:, 0] == order[0]).sum())
    return RankStability(
        tuple(int(at) for at in order),
        shares / resamples,
        same / resamples,
        best / resamples,
        n_units,
        tuple(tied.tolist()),
    )
