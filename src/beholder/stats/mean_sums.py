"""Confidence interval of a weighted sum of means that share their units, where a unit may lack some of the values."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError
from beholder.stats.bootstrap import FEW_UNITS, MOST_RESAMPLED_UNITS, Interval, normal_ends

_BLOCK = 1 << 20
"""Draws held in memory at once."""


def mean_sum_interval(
    values: npt.ArrayLike,
    weights: npt.ArrayLike,
    *,
    unit: str = "unit",
    seed: int = 0,
    resamples: int = 1000,
    level: float = 0.95,
) -> Interval:
    """Interval of Σ_k weight_k · mean_k when whole units are drawn with replacement, each with all of its values.

    mean_k is over the drawn units that have a value k. A draw in which some k has no value has no sum: it is left out,
    and the note says how many were. Percentile bootstrap up to `MOST_RESAMPLED_UNITS` units; above, sum ± z·se with
    se² = U/(U−1) · Σ_u (Σ_k weight_k · (value_uk − mean_k) / n_k)². Units are put in a fixed order first, so the
    interval depends on the units and the seed, never on their order.

    Args:
        values: (U, K) finite, NaN where a unit lacks a value; every unit has one at least.
        weights: (K,) finite.
        unit: what a unit is called in notes.
        seed: seed of the draws.
        resamples: number of bootstrap samples; 0 asks for no interval.
        level: confidence level, between 0 and 1.

    Returns:
        The interval; without ends, and with a note, where some mean has fewer than two units.

    Raises:
        OptionError: a level outside (0, 1), negative resamples, or arrays that do not fit.

    >>> found = mean_sum_interval([[1.0, 5.0], [2.0, float("nan")], [3.0, 6.0]] * 20, [0.5, 0.5])
    >>> found.method, found.low < 3.75 < found.high
    ('bootstrap-percentile', True)
    """
    if not 0 < level < 1:
        raise OptionError("a confidence level must lie between 0 and 1", got=repr(level))
    if resamples < 0:
        raise OptionError("the number of resamples must be 0 or more", got=repr(resamples))
    table, share = _checked(values, weights)
    there = np.isfinite(table)
    n_units, fewest = len(table), int(there.sum(axis=0).min())
    if resamples == 0:
        return Interval(None, None, level, None, n_units, "no interval was asked for")
    if fewest < 2:
        return Interval(
            None, None, level, None, n_units, f"no interval: every mean needs two {unit}s, one has {fewest}"
        )
    means = np.where(there, table, 0.0).sum(axis=0) / there.sum(axis=0)
    # Resampling deviations instead of values: equal values then give an interval of width 0, not of rounding errors.
    deviations = np.where(there, table - means, 0.0)
    centre = float(means @ share)
    if n_units > MOST_RESAMPLED_UNITS:
        own = deviations @ (share * n_units / there.sum(axis=0))
        low, high = normal_ends(centre, own, np.ones(n_units), level)
        return Interval(low, high, level, "normal", n_units)
    sums = centre + _resampled(deviations, there, share, seed=seed, resamples=resamples)
    kept = sums[np.isfinite(sums)]
    if not len(kept):
        return Interval(None, None, level, None, n_units, "no interval: every draw lacks one of the means")
    low, high = (float(end) for end in np.quantile(kept, [(1 - level) / 2, (1 + level) / 2]))
    notes = [f"the interval leaves out {resamples - len(kept)} of {resamples} draws, which lack one of the means"]
    notes = notes if len(kept) < resamples else []
    if fewest < FEW_UNITS:
        notes.append(f"optimistic: the interval rests on {fewest} {unit}s only for one of the means")
    return Interval(low, high, level, "bootstrap-percentile", n_units, "; ".join(notes) or None)


def _checked(values: npt.ArrayLike, weights: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """float64 values and weights; the units in an order that depends on their values alone."""
    table, share = np.asarray(values, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    if table.ndim != 2 or not table.shape[1] or share.shape != table.shape[1:]:
        raise OptionError("values must be a row a unit, with a column a weight", got=f"{table.shape} and {share.shape}")
    if np.isinf(table).any() or not np.isfinite(share).all() or not np.isfinite(table).any(axis=1).all():
        raise OptionError("weights must be finite, and every unit have a finite value", got="others")
    return table[np.lexsort(table.T[::-1])], share


def _resampled(
    deviations: np.ndarray, there: np.ndarray, weights: np.ndarray, *, seed: int, resamples: int
) -> np.ndarray:
    """(resamples,) Σ weight · mean deviation of units drawn with replacement; NaN where a mean has no unit."""
    rng = np.random.default_rng(seed)
    n_units = len(deviations)
    rows = max(1, _BLOCK // n_units)
    result = np.zeros(resamples)
    for start in range(0, resamples, rows):
        stop = min(start + rows, resamples)
        drawn = rng.integers(0, n_units, size=(stop - start, n_units))
        for k, weight in enumerate(weights):
            counts = there[:, k][drawn].sum(axis=1).astype(np.float64)
            counts[counts == 0] = np.nan
            result[start:stop] += weight * deviations[:, k][drawn].sum(axis=1) / counts
    return result
