"""Rank and linear correlation of a metric with people, with intervals over prompts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from beholder.stats.agreement import Judged
from beholder.stats.bca import few_units, plural
from beholder.stats.bootstrap import Interval
from beholder.stats.pairs import Resampled, count_pairs, count_votes, share

_BLOCK = 1 << 21


@dataclass(frozen=True)
class Estimate:
    """A statistic with its interval; `value` is None where it is not defined, and `interval.note` says why."""

    value: float | None
    interval: Interval


@dataclass(frozen=True)
class Draws:
    """Resamples of prompts that all statistics and all metrics share, so that their differences can be read off.

    Args:
        weights: (B, P) how often each resample holds each prompt.
        level: confidence level.
        unit: what is drawn, as notes call it.
    """

    weights: np.ndarray
    level: float
    unit: str = "prompt"

    @classmethod
    def make(
        cls, n_prompts: int, *, seed: int = 0, resamples: int = 1000, level: float = 0.95, unit: str = "prompt"
    ) -> Draws:
        """Draws whole prompts with replacement; none where there are fewer than two."""
        if n_prompts < 2:
            return cls(np.zeros((0, n_prompts)), level, unit)
        rng = np.random.default_rng(seed)
        chance = np.full(n_prompts, 1 / n_prompts)
        return cls(rng.multinomial(n_prompts, chance, size=resamples).astype(np.float64), level, unit)

    def interval(self, drawn: np.ndarray) -> Interval:
        """Percentile interval of a statistic's resampled values; those that are not defined (NaN) are left out."""
        n_prompts = self.weights.shape[1]
        if n_prompts < 2:
            return Interval(
                None,
                None,
                self.level,
                None,
                n_prompts,
                f"no interval: it needs two {plural(self.unit)}, got {n_prompts}",
            )
        known = drawn[np.isfinite(drawn)]
        if not len(self.weights):
            return Interval(None, None, self.level, None, n_prompts, "no interval was asked for")
        if len(known) < max(2, len(drawn) // 2):
            reason = "not defined in most resamples" if len(drawn) else "no interval: too many prompts for pooled pairs"
            return Interval(None, None, self.level, None, n_prompts, reason)
        low, high = np.quantile(known, [(1 - self.level) / 2, (1 + self.level) / 2])
        note = few_units(n_prompts, self.unit)
        return Interval(float(low), float(high), self.level, "bootstrap-percentile", n_prompts, note)


def associations(judged: Judged, draws: Draws) -> Mapping[str, tuple[Estimate, np.ndarray]]:
    """Statistics of metric and ratings with their resampled values.

    tau_b = (C − D)/√((pairs − ties_x)(pairs − ties_y)) and tau_c = (C − D)/Σ n²(m − 1)/(2m), where C and D count the
    pairs ordered alike and apart and m is the smaller number of distinct values; Pearson's r; Spearman's ρ (r of the
    ranks). Within prompts the sums run over the pairs of each prompt, ranks are taken in each prompt, and r is that of
    values less their prompt's mean. Pooled, all items are one group. Given pairs have only tau_b.

    Args:
        judged: metric and ratings; prompts coded 0 … P − 1.
        draws: resamples of the P prompts.

    Returns:
        name → (estimate, (B,) resampled values, NaN where not defined).

    Degenerate: a metric or ratings without variation have no correlation; the note says so.
    """
    found = _rank_statistics(judged, draws)
    if judged.pairs != "given":
        found |= _product_statistics(judged, draws)
    return found


def _estimate(value: float, drawn: np.ndarray, draws: Draws, reason: str) -> tuple[Estimate, np.ndarray]:
    if not np.isfinite(value):
        return Estimate(None, Interval(None, None, draws.level, None, draws.weights.shape[1], reason)), drawn
    return Estimate(float(value), draws.interval(drawn)), drawn


def _rank_statistics(judged: Judged, draws: Draws) -> dict[str, tuple[Estimate, np.ndarray]]:
    """Kendall's taus from counts of pairs."""
    if judged.pairs == "given":
        counts = count_votes(judged.x, judged.y, judged.prompts)
    else:
        counts = count_pairs(judged.x, judged.y, judged.prompts, pooled=judged.pairs == "pooled")
    whole = counts.resampled(np.ones((1, draws.weights.shape[1])))
    resample = counts.by_pair_of_prompts or not counts.pooled
    drawn = counts.resampled(draws.weights if resample else draws.weights[:0])
    reason = "the metric or the ratings do not vary"
    excess = (whole.excess(), drawn.excess())
    tau_b = [share(over, _most_b(part)) for over, part in zip(excess, (whole, drawn))]
    found = {"tau_b": _estimate(float(tau_b[0][0]), tau_b[1], draws, reason)}
    if judged.pairs != "given":
        tau_c = [share(over, _most_c(part, judged)) for over, part in zip(excess, (whole, drawn))]
        found["tau_c"] = _estimate(float(tau_c[0][0]), tau_c[1], draws, reason)
    return found


def _most_b(part: Resampled) -> np.ndarray:
    """What the excess of pairs ordered alike can be at most, by tau-b."""
    total = part.total()
    return np.asarray(np.sqrt((total - part.tied_x()) * (total - part.tied_y())))


def _most_c(part: Resampled, judged: Judged) -> np.ndarray:
    """The same by tau-c."""
    sizes = part.counts.sizes
    if judged.pairs == "pooled":
        m = min(len(np.unique(judged.x)), len(np.unique(judged.y)))
        return np.asarray(np.square(part.weights @ sizes) * (m - 1) / (2 * m))
    m_of = np.minimum(_distinct(judged.x, judged.prompts), _distinct(judged.y, judged.prompts))
    return np.asarray(part.weights @ (np.square(sizes) * (m_of - 1) / (2 * np.maximum(m_of, 1))))


def _distinct(values: np.ndarray, prompts: np.ndarray) -> np.ndarray:
    """(P,) number of distinct values of each prompt."""
    order = np.lexsort((values, prompts))
    codes, ordered = prompts[order], values[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (codes[1:] != codes[:-1]) | (ordered[1:] != ordered[:-1])
    return np.bincount(codes[new], minlength=int(prompts.max(initial=-1)) + 1)


def _product_statistics(judged: Judged, draws: Draws) -> dict[str, tuple[Estimate, np.ndarray]]:
    one = np.ones((1, draws.weights.shape[1]))
    within = judged.pairs == "within"
    reason = "the metric or the ratings do not vary"
    found = {}
    if within:
        ranks = [midranks(values, judged.prompts) for values in (judged.x, judged.y)]
        for name, (x, y) in {"spearman": tuple(ranks), "pearson": (judged.x, judged.y)}.items():
            sums = _centred_sums(x, y, judged.prompts)
            found[name] = _estimate(float(_r(one @ sums)[0]), _r(draws.weights @ sums), draws, reason)
        return found
    sums = _raw_sums(judged.x, judged.y, judged.prompts)
    found["spearman"] = _estimate(
        float(_weighted_spearman(judged, one)[0]), _weighted_spearman(judged, draws.weights), draws, reason
    )
    found["pearson"] = _estimate(float(_pooled_r(one @ sums)[0]), _pooled_r(draws.weights @ sums), draws, reason)
    return found


def midranks(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """(n,) rank of each value in its group, from 1; equal values share the mean of their ranks."""
    order = np.lexsort((values, groups))
    codes, ordered = groups[order], values[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (codes[1:] != codes[:-1]) | (ordered[1:] != ordered[:-1])
    run = np.cumsum(new) - 1
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], len(order))
    begin = np.searchsorted(codes, codes, side="left")
    result = np.empty(len(order))
    result[order] = (starts[run] + ends[run] + 1) / 2 - begin
    return result


def _centred_sums(x: np.ndarray, y: np.ndarray, prompts: np.ndarray) -> np.ndarray:
    """(P, 3) sums of xx, yy, xy of values less their prompt's mean."""
    sizes = np.bincount(prompts)
    x, y = (values - (np.bincount(prompts, weights=values) / sizes)[prompts] for values in (x, y))
    return np.column_stack([np.bincount(prompts, weights=product) for product in (_flat(x) ** 2, _flat(y) ** 2, x * y)])


def _flat(values: np.ndarray) -> np.ndarray:
    """Values whose size is that of rounding errors become 0: a constant has no variation."""
    return np.where(np.abs(values) <= 1e-12 * np.abs(values).max(initial=0.0), 0.0, values)


def _raw_sums(x: np.ndarray, y: np.ndarray, prompts: np.ndarray) -> np.ndarray:
    """(P, 6) sums of 1, x, y, xx, yy, xy, of values less the overall mean (which keeps what cancels small)."""
    x, y = x - x.mean(), y - y.mean()
    columns = (np.ones(len(x)), x, y, x * x, y * y, x * y)
    return np.column_stack([np.bincount(prompts, weights=column) for column in columns])


def _r(sums: np.ndarray) -> np.ndarray:
    return share(sums[:, 2], np.sqrt(sums[:, 0] * sums[:, 1]))


def _pooled_r(sums: np.ndarray) -> np.ndarray:
    n, x, y, xx, yy, xy = sums.T
    var_x, var_y = n * xx - x * x, n * yy - y * y
    spread = np.sqrt(np.where((var_x > 1e-12 * n * xx) & (var_y > 1e-12 * n * yy), var_x * var_y, 0.0))
    return share(n * xy - x * y, spread)


def _weighted_spearman(judged: Judged, weights: np.ndarray) -> np.ndarray:
    """(B,) Spearman's ρ where each item counts as often as its prompt was drawn; ranks are taken anew each time."""
    n = len(judged.x)
    result = np.empty(len(weights))
    rows = max(1, _BLOCK // max(n, 1))
    for start in range(0, len(weights), rows):
        times = weights[start : start + rows][:, judged.prompts]
        x, y = (_weighted_ranks(values, times) for values in (judged.x, judged.y))
        count = times.sum(axis=1)
        x, y = (ranks - (times * ranks).sum(axis=1, keepdims=True) / count[:, None] for ranks in (x, y))
        sums = np.column_stack([(times * product).sum(axis=1) for product in (x * x, y * y, x * y)])
        result[start : start + rows] = _r(sums)
    return result


def _weighted_ranks(values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """(B, n) midranks of items that occur `times` times each."""
    _, codes = np.unique(values, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    sizes = np.add.reduceat(times[:, order], starts, axis=1)
    ends = np.cumsum(sizes, axis=1)
    return np.asarray((ends - (sizes - 1) / 2)[:, codes])
