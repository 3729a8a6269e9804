"""From values before and after a change to what a metric reacts to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from beholder.lab.records import BLIND, Effect, Reaction, Verdict
from beholder.stats.bca import bca_interval
from beholder.stats.bootstrap import Interval

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Scored:
    """Values of one metric, by sample.

    Args:
        values: (n,) or (n, degrees); NaN where there is none.
        statuses: the same shape, as text; "" where a sample was not changed.
    """

    values: np.ndarray
    statuses: np.ndarray


@dataclass(frozen=True)
class Units:
    """What intervals are over.

    Args:
        codes: (n,) code of each sample's unit.
        seed: seed of the bootstrap.
        level: level of the intervals.
        name: "concept", "prompt" or "sample".
    """

    codes: np.ndarray
    seed: int = 0
    level: float = 0.95
    name: str = "sample"

    def interval(self, values: np.ndarray, rows: np.ndarray) -> Interval:
        """Interval of the mean of the values of some samples, whole units being drawn."""
        codes = np.unique(self.codes[rows], return_inverse=True)[1]
        counts = np.bincount(codes).astype(np.float64)
        sums = np.bincount(codes, weights=values)
        return bca_interval(sums, counts, unit=self.name, seed=self.seed, level=self.level)


def react(
    metric: str, change: str, says: str, levels: Sequence[str], before: Scored, after: Scored, *,
    higher_is_better: bool | None, units: Units,
) -> Reaction:  # fmt: skip
    """A metric's reaction to a change.

    Args:
        metric: its label.
        change: name of the change.
        says: what is changed.
        levels: the degrees, from weak to strong.
        before: the samples as they are.
        after: (n, degrees) the same after the change.
        higher_is_better: the metric's direction.
        units: what intervals are over.
    """
    sign = -1.0 if higher_is_better is False else 1.0
    known = np.isfinite(before.values)
    spread = float(np.std(before.values[known], ddof=1)) if known.sum() > 1 else 0.0
    effects = tuple(
        _effect(name, before, Scored(after.values[:, at], after.statuses[:, at]), sign=sign, spread=spread, units=units)
        for at, name in enumerate(levels)
    )
    if all(effect.n == 0 for effect in effects):
        return Reaction(metric, change, says, effects, None, None, None, "not tried", _reason(before, after))
    share, low, high = _monotone(sign * np.column_stack([before.values, after.values]), units)
    strongest = next(at for at in reversed(range(len(effects))) if effects[at].n)
    n_units = len(np.unique(units.codes[known & np.isfinite(after.values[:, strongest])]))
    verdict = _verdict(effects[strongest], spread)
    return Reaction(metric, change, says, effects, share, low, high, verdict, n_units=n_units)


def _effect(name: str, before: Scored, after: Scored, *, sign: float, spread: float, units: Units) -> Effect:
    both = np.isfinite(before.values) & np.isfinite(after.values)
    lost = (after.statuses != "") & ~both
    reasons = np.where(np.isfinite(before.values), after.statuses, before.statuses)[lost]
    missing = {str(status): count for status, count in sorted(Counter(reasons.tolist()).items())}
    change = after.values[both] - before.values[both]
    n = len(change)
    if not n:
        return Effect(name, 0, None, None, None, None, None, missing=missing)
    mean = float(np.mean(change))
    interval = units.interval(change, both)
    worse = (sign * change < -_ROUNDING).astype(np.float64)
    of_worse = units.interval(worse, both)
    return Effect(
        name, n, mean, interval.low, interval.high, mean / spread if spread > 0 else None, float(worse.mean()),
        of_worse.low, of_worse.high, missing,
    )  # fmt: skip


def _reason(before: Scored, after: Scored) -> str:
    """Why nothing can be said."""
    if not np.isfinite(before.values).any():
        found, where = before.statuses, "no sample has a value"
    elif (after.statuses != "").any():
        found, where = after.statuses[after.statuses != ""], "no changed sample has a value"
    else:
        return "no sample has what it needs"
    counts = Counter(str(status) for status in found.ravel())
    return f"{where}: " + ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))


def _monotone(values: np.ndarray, units: Units) -> tuple[float | None, float | None, float | None]:
    """Share of the rows that never rise from one degree to the next, over rows with all values."""
    whole = np.isfinite(values).all(axis=1)
    if values.shape[1] < 3 or not whole.any():
        return None, None, None
    falls = (np.diff(values[whole], axis=1) <= _ROUNDING).all(axis=1).astype(np.float64)
    interval = units.interval(falls, whole)
    return float(falls.mean()), interval.low, interval.high


def _verdict(strongest: Effect, spread: float) -> Verdict:
    if strongest.low is None or strongest.high is None or strongest.change is None:
        return "unclear"
    limit = BLIND * spread
    if -limit <= strongest.low and strongest.high <= limit:
        return "blind to"
    excludes = strongest.low > 0 or strongest.high < 0
    return "moves with" if excludes and abs(strongest.change) >= limit else "unclear"
