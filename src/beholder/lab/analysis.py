"""From values before and after a change to what a metric reacts to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beholder.lab.records import BLIND, Effect, Reaction, Verdict
from beholder.stats.bootstrap import mean_interval

_ROUNDING = 1e-9


def react(
    metric: str, change: str, says: str, levels: Sequence[str], before: np.ndarray, after: np.ndarray, *,
    higher_is_better: bool | None, seed: int, level: float,
) -> Reaction:  # fmt: skip
    """A metric's reaction to a change.

    Args:
        metric: its label.
        change: name of the change.
        says: what is changed.
        levels: the degrees, from weak to strong.
        before: (n,) values of the samples as they are; NaN where there is none.
        after: (n, degrees) values after the change; NaN where there is none.
        higher_is_better: the metric's direction.
        seed: seed of the bootstrap.
        level: level of the intervals.
    """
    sign = -1.0 if higher_is_better is False else 1.0
    known = np.isfinite(before)
    spread = float(np.std(before[known], ddof=1)) if known.sum() > 1 else 0.0
    effects = tuple(
        _effect(name, before, after[:, at], sign=sign, spread=spread, seed=seed, level=level)
        for at, name in enumerate(levels)
    )
    if all(effect.n == 0 for effect in effects):
        return Reaction(metric, change, says, effects, None, None, None, "not tried", "no sample has what it needs")
    share, low, high = _monotone(sign * np.column_stack([before, after]), seed=seed, level=level)
    return Reaction(metric, change, says, effects, share, low, high, _verdict(effects, spread))


def _effect(
    name: str, before: np.ndarray, after: np.ndarray, *, sign: float, spread: float, seed: int, level: float
) -> Effect:
    both = np.isfinite(before) & np.isfinite(after)
    change = after[both] - before[both]
    n = len(change)
    if not n:
        return Effect(name, 0, None, None, None, None, None)
    mean = float(np.mean(change))
    interval = mean_interval(change, np.ones(n), unit="sample", seed=seed, level=level)
    in_sd = mean / spread if spread > 0 else None
    return Effect(name, n, mean, interval.low, interval.high, in_sd, float(np.mean(sign * change < -_ROUNDING)))


def _monotone(values: np.ndarray, *, seed: int, level: float) -> tuple[float | None, float | None, float | None]:
    """Share of the rows that never rise from one degree to the next, over rows with all values."""
    if values.shape[1] < 3:
        return None, None, None
    whole = values[np.isfinite(values).all(axis=1)]
    if not len(whole):
        return None, None, None
    falls = (np.diff(whole, axis=1) <= _ROUNDING).all(axis=1).astype(float)
    interval = mean_interval(falls, np.ones(len(falls)), unit="sample", seed=seed, level=level)
    return float(falls.mean()), interval.low, interval.high


def _verdict(effects: Sequence[Effect], spread: float) -> Verdict:
    strongest = next(effect for effect in reversed(effects) if effect.n)
    if strongest.low is None or strongest.high is None or strongest.change is None:
        return "unclear"
    limit = BLIND * spread
    if -limit <= strongest.low and strongest.high <= limit:
        return "blind to"
    excludes = strongest.low > 0 or strongest.high < 0
    return "moves with" if excludes and abs(strongest.change) >= limit else "unclear"
