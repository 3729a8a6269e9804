"""One metric, two sides, paired: the mean difference and all that tells how far to trust it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from beholder._errors import OptionError
from beholder.stats.bca import bca_intervals, check_asked, few_units
from beholder.stats.bootstrap import LARGEST, Interval
from beholder.stats.effect import Effect, paired_effect
from beholder.stats.permutation import PValue, sign_flip_test
from beholder.stats.power import detectable_difference
from beholder.stats.variance import VarianceSplit, split_variance

ROUNDING = 1e-9
"""Differences below this share of the larger value are ties: scores come from float32, rounded in another order."""


@dataclass(frozen=True)
class Cells:
    """Paired values of one metric: one cell a prompt and seed (or whatever the pairing key holds).

    Args:
        a: (N,) mean of the first side's rows of the cell, finite.
        b: (N,) mean of the second side's rows.
        prompts: (N,) code of the prompt, 0 or more.
        clusters: (N,) code of the concept that a prompt belongs to, or None.
        noise: (N,) variance of b − a that repeated rows of a cell explain, or None.
        judge: variance of one repeated row, both sides together, or None.
    """

    a: np.ndarray
    b: np.ndarray
    prompts: np.ndarray
    clusters: np.ndarray | None = None
    noise: np.ndarray | None = None
    judge: float | None = None


@dataclass(frozen=True)
class Difference:
    """The paired difference b − a of one metric.

    Args:
        value: mean over prompts of the prompt's mean difference over seeds; None without pairs.
        interval: BCa interval of it, over clusters where there are some, else over prompts.
        p: two-sided sign-flip p over the same units.
        effect: effect sizes and shares over prompts; None without pairs.
        mean_a: the first side's mean over the same pairs.
        mean_b: the second side's.
        interval_a: BCa interval of the first side's mean, over the same units.
        interval_b: that of the second side's.
        variance: where the scatter comes from.
        detectable: smallest true difference that data of this size finds at the power asked for.
        n_pairs: paired cells.
        n_prompts: prompts with a pair.
        unit: what was resampled: "prompt" or "concept".
        note: a caveat in plain words, or None.
    """

    value: float | None
    interval: Interval
    p: PValue
    effect: Effect | None
    mean_a: float | None
    mean_b: float | None
    interval_a: Interval
    interval_b: Interval
    variance: VarianceSplit
    detectable: float | None
    n_pairs: int
    n_prompts: int
    unit: str
    note: str | None = None


def compare_cells(
    cells: Cells,
    *,
    tie: float | None = None,
    seed: int = 0,
    resamples: int = 2000,
    draws: int = 9999,
    level: float = 0.95,
    power: float = 0.8,
) -> Difference:
    """Compares two sides of paired cells.

    Seeds are averaged within a prompt first, so a prompt with many seeds weighs no more than another.

    Args:
        cells: the pairs.
        tie: differences of a prompt up to this size are ties; rounding only when None.
        seed: seed of bootstrap and permutations.
        resamples: bootstrap samples; 0 for no interval.
        draws: drawn sign patterns where there are too many to count them all.
        level: confidence level.
        power: power of the detectable difference.

    Raises:
        OptionError: arrays of unequal length, values that are not finite, settings out of range.

    Degenerate: no pairs, or a value beyond ±`LARGEST`, give a difference without a value; one prompt gives a value
    without interval. All have a note.

    >>> import numpy as np
    >>> found = compare_cells(Cells(np.zeros(4), np.array([1.0, 3.0, 2.0, 2.0]), np.array([0, 0, 1, 2])))
    >>> found.value, found.n_prompts, found.effect.above
    (2.0, 3, 1.0)
    """
    check_asked(level, resamples)
    cells = _checked(cells)
    if max(float(np.abs(side).max(initial=0.0)) for side in (cells.a, cells.b)) > LARGEST:
        return _without_value(f"no comparison of values beyond ±{LARGEST:g}", level)
    d = cells.b - cells.a
    scattered = d if _scatters(cells, d) else np.zeros(len(d))
    variance = split_variance(scattered, cells.prompts, noise=cells.noise, judge=cells.judge, concepts=cells.clusters)
    if not len(d):
        return _without_value("no sample has a pair", level, "no pairs")
    by_prompt, first = prompt_means(np.column_stack([d, cells.a, cells.b]), cells.prompts)
    groups = None if cells.clusters is None else cells.clusters[first]
    unit, codes = _units(groups, len(first))
    counts = np.bincount(codes).astype(np.float64)
    all_sums = [np.bincount(codes, weights=column) for column in by_prompt.T]
    # One set of draws for all three: drawing is what a bootstrap spends its time on.
    interval, of_a, of_b = bca_intervals(all_sums, counts, unit=unit, seed=seed, resamples=resamples, level=level)
    sums = all_sums[0]
    error = _standard_error(sums, counts) if scattered is d else 0.0
    rounding = ROUNDING * float(np.abs(by_prompt[:, 1:]).max())
    return Difference(
        value=float(by_prompt[:, 0].mean()),
        interval=interval,
        p=sign_flip_test(sums, seed=seed, draws=draws),
        effect=paired_effect(by_prompt[:, 0], tie=rounding if tie is None else tie),
        mean_a=float(by_prompt[:, 1].mean()),
        mean_b=float(by_prompt[:, 2].mean()),
        interval_a=of_a,
        interval_b=of_b,
        variance=variance,
        detectable=detectable_difference(error, len(sums), power=power, level=level),
        n_pairs=len(d),
        n_prompts=len(first),
        unit=unit,
        note=_note(interval, len(first)),
    )


def _without_value(note: str, level: float, of_interval: str | None = None) -> Difference:
    none = Interval(None, None, level, None, 0, of_interval or note)
    return Difference(
        value=None, interval=none, p=PValue(None, None, 0), effect=None, mean_a=None, mean_b=None, interval_a=none,
        interval_b=none, variance=split_variance(np.zeros(0), np.zeros(0, dtype=np.intp)), detectable=None, n_pairs=0,
        n_prompts=0, unit="prompt", note=note,
    )  # fmt: skip


def prompt_means(values: np.ndarray, prompts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(P, c) means of the columns of (N, c) values over each prompt, and (P,) the first row of each prompt."""
    _, first, codes = np.unique(prompts, return_index=True, return_inverse=True)
    sizes = np.bincount(codes)
    means = np.column_stack([np.bincount(codes, weights=column) / sizes for column in values.T])
    return means, first


def _checked(cells: Cells) -> Cells:
    """The cells in an order of their own values, so that no sum depends on the order of rows."""
    a, b = np.asarray(cells.a, dtype=np.float64), np.asarray(cells.b, dtype=np.float64)
    parts = [a, b, cells.prompts, *(part for part in (cells.clusters, cells.noise) if part is not None)]
    if any(len(part) != len(a) for part in parts):
        raise OptionError("all columns of a comparison must have one length", got=str([len(part) for part in parts]))
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise OptionError("paired values must be finite", got="others")
    order = np.lexsort((b, a))
    # Prompts are numbered by the order in which their values come.
    seen = cells.prompts[order]
    _, first, codes = np.unique(seen, return_index=True, return_inverse=True)
    number = np.argsort(np.argsort(first))
    return Cells(
        a[order],
        b[order],
        number[codes],
        None if cells.clusters is None else cells.clusters[order],
        None if cells.noise is None else cells.noise[order],
        cells.judge,
    )


def _units(groups: np.ndarray | None, n_prompts: int) -> tuple[str, np.ndarray]:
    """What is resampled: concepts where prompts have two or more of them, else prompts."""
    if groups is not None:
        codes = np.unique(groups, return_inverse=True)[1]
        if codes.max(initial=0) > 0:
            return "concept", codes
    return "prompt", np.arange(n_prompts)


def _scatters(cells: Cells, d: np.ndarray) -> bool:
    """False where differences are equal but for the rounding of a subtraction."""
    scale = max(float(np.abs(cells.a).max(initial=0.0)), float(np.abs(cells.b).max(initial=0.0)))
    return bool(len(d)) and float(np.ptp(d)) > 1e-12 * scale


def _standard_error(sums: np.ndarray, counts: np.ndarray) -> float:
    n_units = len(sums)
    if n_units < 2:
        return 0.0
    deviations = sums - sums.sum() / counts.sum() * counts
    return math.sqrt(n_units / (n_units - 1) * float(np.square(deviations).sum())) / float(counts.sum())


def _note(interval: Interval, n_prompts: int) -> str | None:
    """The interval's own caveat, or that many concepts hold few prompts."""
    if interval.note or interval.method is None:
        return interval.note
    return few_units(n_prompts, "prompt")
