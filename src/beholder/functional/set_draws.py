"""Intervals of statistics of whole sets, by halves of the sets.

A bootstrap draws rows twice, and copies of a row are its own nearest neighbours: neighbour and kernel statistics of a
bootstrap sample are those of another kind of set. Halves drawn without replacement hold no copies. A half also spreads
about the whole as the whole does about the truth (variance σ²/(n/2) · (1 − 1/2) = σ²/n for a mean), so its spread needs
no rescaling.

Rows are dealt into few groups and halves are unions of groups, so that statistics made of sums are drawn at almost no
cost.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

LEAST_ROWS = 8
"""A set with fewer rows gives no interval."""


class Spread(NamedTuple):
    """The interval of a value.

    Args:
        low, high: its ends.
        sd: standard error.
    """

    low: float
    high: float
    sd: float


def deal_groups(n: int, groups: int, rng: np.random.Generator) -> np.ndarray:
    """(n,) group of each row: groups of equal size, or one row more, dealt at random.

    >>> np.bincount(deal_groups(7, 2, np.random.default_rng(0))).tolist()
    [4, 3]
    """
    codes = np.empty(n, dtype=np.int64)
    codes[rng.permutation(n)] = np.arange(n) % groups
    return codes


def half_marks(groups: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """(draws, groups) float64 of 0 and 1: half of the groups, chosen at random.

    >>> half_marks(6, 3, np.random.default_rng(0)).sum(axis=1).tolist()
    [3.0, 3.0, 3.0]
    """
    marks = np.zeros((draws, groups))
    order = np.argsort(rng.random((draws, groups)), axis=1)[:, : groups // 2]
    np.put_along_axis(marks, order, 1.0, axis=1)
    return marks


def half_interval(
    value: float, draws: np.ndarray, *, level: float, low: float | None = None, high: float | None = None
) -> Spread | None:
    """value ± z·sd over the halves' values, cut at the ends of the statistic's range; None for fewer than two draws.

    Args:
        value: the statistic of the whole sets.
        draws: (k,) its values on halves of them.
        level: level of the interval.
        low, high: ends that no value can pass.

    >>> half_interval(1.0, np.array([0.0, 2.0]), level=0.95, low=0.0).low
    0.0
    """
    if len(draws) < 2:
        return None
    sd = float(np.std(draws, ddof=1))
    reach = NormalDist().inv_cdf((1 + level) / 2) * sd
    ends = value - reach, value + reach
    return Spread(
        ends[0] if low is None else min(max(ends[0], low), value),
        ends[1] if high is None else max(min(ends[1], high), value),
        sd,
    )


def draw_halves(
    statistic: Callable[[np.ndarray, np.ndarray], float], n: int, m: int, *, draws: int, rng: np.random.Generator
) -> np.ndarray:
    """(draws,) a statistic of random halves of the rows of two sets; () rows where a set has none.

    Args:
        statistic: takes row numbers of either set, in rising order.
        n, m: rows of the two sets.
        draws: how many.
        rng: the source of randomness.
    """
    found = [statistic(*(np.sort(rng.choice(size, size // 2, replace=False)) for size in (n, m))) for _ in range(draws)]
    return np.asarray(found, dtype=np.float64)
