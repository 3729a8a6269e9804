"""Bias-corrected and accelerated (BCa) bootstrap intervals of a mean over sampled units."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError
from beholder.stats.bootstrap import (
    MOST_RESAMPLED_UNITS,
    Interval,
    in_fixed_order,
    normal_ends,
    resampled_deviations,
)

ENOUGH_UNITS = 30
"""With fewer clusters than this an interval of a comparison says that it is optimistic."""

ENOUGH_PROMPTS = 100
"""With fewer prompts than this it says so too."""


def bca_interval(
    sums: npt.ArrayLike,
    counts: npt.ArrayLike,
    *,
    unit: str = "unit",
    seed: int = 0,
    resamples: int = 2000,
    level: float = 0.95,
) -> Interval:
    """Interval of the mean Σ sums / Σ counts when whole units are drawn with replacement.

    The ends are the quantiles Φ(z0 + (z0 + z)/(1 − a(z0 + z))) of the resampled means, z0 being the bias (share of the
    resamples below the estimate, as a normal quantile) and a the acceleration, Σ l³ / (6 (Σ l²)^1.5) over the
    jackknife's deviations l. Instead of the normal quantile z stands r·t(U' − 1): U' = (Σ counts)²/Σ counts² is the
    number of equal units that weigh as much, and r the jackknife's standard error over the bootstrap's, √(U/(U−1)) for
    equal counts. With few or unequal units the plain interval is too narrow by about that much. Above
    `MOST_RESAMPLED_UNITS` units: mean ± z·se.

    Args:
        sums: (U,) sum of the values of each unit, finite.
        counts: (U,) number (or weight) of the values of each unit, above 0.
        unit: what a unit is called in notes.
        seed: seed of the draws.
        resamples: number of bootstrap samples; 0 asks for no interval.
        level: confidence level, between 0 and 1.

    Returns:
        The interval, its method "bootstrap-bca" or "normal"; without ends, and with a note, for fewer than two units.

    Raises:
        OptionError: a level outside (0, 1), negative resamples, or arrays that do not fit.

    Source: Efron 1987 (JASA 82:171); the t quantile after Hesterberg 2015 (The American Statistician 69:371).

    >>> found = bca_interval([1.0, 2.0, 3.0, 4.0] * 10, [1.0] * 40)
    >>> found.method, found.low < 2.5 < found.high
    ('bootstrap-bca', True)
    """
    return bca_intervals([sums], counts, unit=unit, seed=seed, resamples=resamples, level=level)[0]


def bca_intervals(
    sums: Sequence[npt.ArrayLike],
    counts: npt.ArrayLike,
    *,
    unit: str = "unit",
    seed: int = 0,
    resamples: int = 2000,
    level: float = 0.95,
) -> list[Interval]:
    """Intervals of several means over the same units, as `bca_interval` makes them, from one set of draws.

    The first is what `bca_interval` gives for it alone. The others are as good as alone, but rest on the same draws.

    Args:
        sums: (C, U) sums of the values of each unit, finite, a row a mean.
        counts: (U,) number (or weight) of the values of each unit, above 0, the same for all means.
        unit, seed, resamples, level: as in `bca_interval`.

    Raises:
        OptionError: a level outside (0, 1), negative resamples, or arrays that do not fit.

    >>> values = [1.0, 2.0, 3.0, 4.0] * 10
    >>> first, second = bca_intervals([values, [2 * value for value in values]], [1.0] * 40)
    >>> first == bca_interval(values, [1.0] * 40), second.low == 2 * first.low
    (True, True)
    """
    check_asked(level, resamples)
    totals, count = in_fixed_order(sums, counts)
    n_units = len(count)
    if resamples == 0 or n_units < 2:
        note = f"no interval: it needs two {unit}s, got {n_units}" if resamples else "no interval was asked for"
        return [Interval(None, None, level, None, n_units, note)] * len(totals)
    centres = [float(total.sum() / count.sum()) for total in totals]
    deviations = np.array([total - centre * count for total, centre in zip(totals, centres)])
    if n_units > MOST_RESAMPLED_UNITS:
        reached = [normal_ends(centre, own, count, level) for centre, own in zip(centres, deviations)]
        return [Interval(low, high, level, "normal", n_units) for low, high in reached]
    all_drawn = resampled_deviations(deviations, count, seed=seed, resamples=resamples)
    found = []
    for centre, own, drawn in zip(centres, deviations, all_drawn):
        left_out = -own / (count.sum() - count)
        ends = centre + np.quantile(drawn, bca_shares(drawn, left_out, _reach(own, left_out, count, level)))
        low, high = float(ends[0]), float(ends[1])
        found.append(Interval(low, high, level, "bootstrap-bca", n_units, few_units(n_units, unit)))
    return found


def few_units(n_units: int, unit: str) -> str | None:
    """The caveat of an interval over few units; None where there are enough.

    >>> few_units(40, "prompt")
    'optimistic: the interval rests on 40 prompts only'
    >>> few_units(40, "concept") is None
    True
    """
    enough = ENOUGH_PROMPTS if unit in ("prompt", "unit") else ENOUGH_UNITS
    return f"optimistic: the interval rests on {n_units} {plural(unit)} only" if n_units < enough else None


def plural(unit: str) -> str:
    """More than one of a unit.

    >>> plural("concept"), plural("pair of sets")
    ('concepts', 'pairs of sets')
    """
    word, of, rest = unit.partition(" of ")
    return f"{word}s{of}{rest}"


def _reach(deviations: np.ndarray, left_out: np.ndarray, counts: np.ndarray, level: float) -> float:
    """r·t(U' − 1): what stands instead of the normal quantile."""
    from scipy import special

    n_units, total = len(counts), float(counts.sum())
    squares = float(np.square(deviations).sum())
    if squares == 0:
        return 0.0
    ratio = total * math.sqrt((n_units - 1) / n_units * float(np.square(left_out).sum()) / squares)
    return ratio * float(special.stdtrit(total**2 / float(np.square(counts).sum()) - 1, (1 + level) / 2))


def bca_shares(drawn: np.ndarray, left_out: np.ndarray, reach: float) -> np.ndarray:
    """(2,) shares at which to cut the resampled values.

    Args:
        drawn: resampled values minus the estimate.
        left_out: the jackknife's values (one unit left out each) minus the estimate.
        reach: the quantile that stands for the normal one.
    """
    from scipy import special

    below = (np.sum(drawn < 0) + 0.5 * np.sum(drawn == 0)) / len(drawn)
    bias = special.ndtri(np.clip(below, 0.5 / len(drawn), 1 - 0.5 / len(drawn)))
    influence = left_out.mean() - left_out
    squares = float(np.square(influence).sum())
    acceleration = 0.0 if squares == 0 else float((influence**3).sum()) / (6 * squares**1.5)
    ends = bias + np.array([-reach, reach])
    # A strong acceleration turns the formula over at a·end = 1; the outermost resample is all that can be said there.
    turned = 1 - acceleration * ends
    return np.asarray(
        np.where(turned > 0, special.ndtr(bias + ends / np.where(turned > 0, turned, 1.0)), (ends > 0).astype(float))
    )


def check_asked(level: float, resamples: int) -> None:
    """Refuses a level or a number of resamples that makes no sense.

    Raises:
        OptionError: a level outside (0, 1), or negative resamples.
    """
    if not 0 < level < 1:
        raise OptionError("a confidence level must lie between 0 and 1", got=repr(level))
    if resamples < 0:
        raise OptionError("the number of resamples must be 0 or more", got=repr(resamples))
