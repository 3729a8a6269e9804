"""Confidence intervals of a mean over sampled units (prompts, concepts): units are resampled, not rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError

MOST_RESAMPLED_UNITS = 20_000
"""With more units than this the normal interval is used: it agrees with the bootstrap there and costs one pass."""

FEW_UNITS = 30
"""With fewer units than this the interval says that it is optimistic: the plain bootstrap is too narrow there."""

LARGEST = 1e100
"""No metric may give a value further from zero: sums of squares and cubes would leave the range of numbers."""

_BLOCK = 1 << 20
"""Draws held in memory at once."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval, or why there is none.

    Args:
        low: lower end, or None.
        high: upper end, or None.
        level: confidence level.
        method: "bootstrap-percentile", "bootstrap-bca", "normal", "t", or None when there is no interval.
        n_units: units that it rests on.
        note: a caveat in plain words, or None.
    """

    low: float | None
    high: float | None
    level: float
    method: str | None
    n_units: int
    note: str | None = None


def mean_interval(
    sums: npt.ArrayLike,
    counts: npt.ArrayLike,
    *,
    unit: str = "unit",
    seed: int = 0,
    resamples: int = 1000,
    level: float = 0.95,
) -> Interval:
    """Interval of the mean Σ sums / Σ counts when whole units are drawn with replacement.

    Percentile bootstrap up to `MOST_RESAMPLED_UNITS` units; above, mean ± z·se with the standard error of a ratio of
    sums, se² = U/(U−1) · Σ (sum_u − mean·count_u)² / (Σ counts)². Units are put in a fixed order first, so the
    interval depends on the units and the seed, never on their order.

    Args:
        sums: (U,) sum of the values of each unit, finite.
        counts: (U,) number (or weight) of the values of each unit, above 0.
        unit: what a unit is called in notes.
        seed: seed of the draws.
        resamples: number of bootstrap samples; 0 asks for no interval.
        level: confidence level, between 0 and 1.

    Returns:
        The interval; without ends, and with a note, for fewer than two units.

    Raises:
        OptionError: a level outside (0, 1), negative resamples, or arrays that do not fit.

    >>> found = mean_interval([1.0, 2.0, 3.0, 4.0] * 10, [1.0] * 40)
    >>> found.method, found.low < 2.5 < found.high
    ('bootstrap-percentile', True)
    """
    if not 0 < level < 1:
        raise OptionError("a confidence level must lie between 0 and 1", got=repr(level))
    if resamples < 0:
        raise OptionError("the number of resamples must be 0 or more", got=repr(resamples))
    (total,), count = in_fixed_order(np.asarray(sums, dtype=np.float64)[None], counts)
    n_units = len(total)
    if resamples == 0:
        return Interval(None, None, level, None, n_units, "no interval was asked for")
    if n_units < 2:
        return Interval(None, None, level, None, n_units, f"no interval: it needs two {unit}s, got {n_units}")
    centre = float(total.sum() / count.sum())
    # Resampling deviations instead of sums: equal values then give an interval of width 0, not of rounding errors.
    deviations = np.subtract(total, centre * (count[0] if _alike(count) else count), out=total)
    if n_units > MOST_RESAMPLED_UNITS:
        low, high = normal_ends(centre, deviations, count, level)
        return Interval(low, high, level, "normal", n_units)
    means = centre + resampled_deviations(deviations[None], count, seed=seed, resamples=resamples)[0]
    low, high = (float(end) for end in np.quantile(means, [(1 - level) / 2, (1 + level) / 2]))
    note = f"optimistic: the interval rests on {n_units} {unit}s only" if n_units < FEW_UNITS else None
    return Interval(low, high, level, "bootstrap-percentile", n_units, note)


def t_interval(values: npt.ArrayLike, *, unit: str = "unit", level: float = 0.95) -> Interval:
    """Interval of the mean of a handful of values, mean ± t(U − 1)·sd/√U, where a bootstrap has too few to draw.

    Args:
        values: (U,) finite, one a unit.
        unit: what a unit is called in notes.
        level: confidence level, between 0 and 1.

    >>> found = t_interval([1.0, 2.0, 3.0])
    >>> round(found.low, 3), round(found.high, 3), found.method
    (-0.484, 4.484, 't')
    """
    from scipy import special

    if not 0 < level < 1:
        raise OptionError("a confidence level must lie between 0 and 1", got=repr(level))
    found = np.asarray(values, dtype=np.float64)
    n_units = len(found)
    if n_units < 2:
        return Interval(None, None, level, None, n_units, f"no interval: it needs two {unit}s, got {n_units}")
    centre, spread = float(found.mean()), float(found.std(ddof=1))
    reach = float(special.stdtrit(n_units - 1, (1 + level) / 2)) * spread / n_units**0.5
    return Interval(centre - reach, centre + reach, level, "t", n_units)


def in_fixed_order(
    sums: npt.ArrayLike | Sequence[npt.ArrayLike], counts: npt.ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Checked float64 sums and counts, in an order that depends on their values alone; the sums are a copy.

    Args:
        sums: (C, U) sums of the units, a row a statistic; the first row decides the order, then counts, then others.
        counts: (U,) counts of the units.

    Raises:
        OptionError: arrays that do not fit.
    """
    total, count = np.asarray(sums, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    if total.ndim != 2 or total.shape[1:] != count.shape:
        raise OptionError("sums and counts must be two lists of one length", got=f"{total.shape[1:]} and {count.shape}")
    if not (np.isfinite(total).all() and np.isfinite(count).all() and (count > 0).all()):
        raise OptionError("sums must be finite and counts above 0", got="others")
    if len(total) == 1 and _alike(count):
        return np.sort(total, axis=1, kind="stable"), count  # as below, without an order of a million units
    order = np.lexsort((*total[:0:-1], count, total[0]))
    return np.take(total, order, axis=1), count[order]


def _alike(counts: np.ndarray) -> bool:
    return bool((counts == counts[:1]).all())


def resampled_deviations(deviations: np.ndarray, counts: np.ndarray, *, seed: int, resamples: int) -> np.ndarray:
    """(C, resamples) Σ deviations / Σ counts of units drawn with replacement, for (C, U) deviations.

    All rows have the same draws: most of the time goes into drawing, and what is drawn does not depend on the values.
    """
    rng = np.random.default_rng(seed)
    n_units = len(counts)
    alike = _alike(counts)
    rows = max(1, _BLOCK // n_units)
    result = np.empty((len(deviations), resamples))
    for start in range(0, resamples, rows):
        stop = min(start + rows, resamples)
        drawn = rng.integers(0, n_units, size=(stop - start, n_units))
        weight = n_units * counts[0] if alike else counts[drawn].sum(axis=1)
        for at, own in enumerate(deviations):
            result[at, start:stop] = own[drawn].sum(axis=1) / weight
    return result


def normal_ends(centre: float, deviations: np.ndarray, counts: np.ndarray, level: float) -> tuple[float, float]:
    """mean ± z·se with the standard error of a ratio of sums; the deviations are squared in place."""
    n_units = len(deviations)
    variance = n_units / (n_units - 1) * float(np.square(deviations, out=deviations).sum())
    reach = NormalDist().inv_cdf((1 + level) / 2) * float(np.sqrt(variance)) / float(counts.sum())
    return centre - reach, centre + reach
