"""From one metric's values to its summaries: macro, micro and pairs means, by groups, with intervals and counts.

Aggregates of one cell (all samples, or one group of them):

    macro       mean over concepts of the concept's mean; the headline where there are concepts
    micro       mean over samples; the headline where there are none
    pairs       Σ w·v / Σ w, w being a sample's number of pairs (references); only with weights
    over_seeds  mean, sd and t interval over the seeds of their headline values; only where samples are grouped by seed

Rows are put in the order of their values before anything is added, and means are exact sums rounded once: no number
depends on the order of rows, on shards or on how labels were coded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beholder.records import Summary
from beholder.stats.aggregate_rows import ALL, Rows, ValueTable
from beholder.stats.bootstrap import Interval, mean_interval, t_interval
from beholder.stats.exact import Moments, weighted_mean

_NAMED_CONCEPTS = 5
"""Concepts without a value that a note names; the others are counted."""


def summarise(
    metric: str,
    label: str,
    values: np.ndarray,
    status_codes: np.ndarray,
    statuses: Sequence[str],
    units: np.ndarray | None,
    concepts: np.ndarray | None,
    groups: Mapping[str, tuple[np.ndarray, Sequence[Any]]] | None = None,
    *,
    by: Sequence[Sequence[str]] = (),
    weights: np.ndarray | None = None,
    finish: Callable[[float], float] = lambda mean: mean,
    seed: int = 0,
    resamples: int = 1000,
    level: float = 0.95,
) -> list[Summary]:
    """Summaries of one metric over all samples, and over each group of each `by`.

    Args:
        metric: printed identity.
        label: the column's label.
        values: (n,) float64; read only where the status is ok.
        status_codes: (n,) index into `statuses`; 0 is ok.
        statuses: names of the statuses.
        units: (n,) code of the sampled unit (the prompt), -1 where a row has none and is its own unit; or None.
        concepts: (n,) code of the concept, -1 for none; or None.
        groups: column → ((n,) codes, -1 for none; labels).
        by: column lists to group by, each giving one summary a combination that occurs.
        weights: (n,) pairs behind each value (at least 0, read where the status is ok), or None.
        finish: what the metric does to an aggregate and to the ends of its interval; must never fall as the mean rises.
        seed: seed of the bootstrap.
        resamples: bootstrap samples; 0 for no intervals.
        level: confidence level.

    Returns:
        Summaries: all samples first, then the groups in the order of their labels; in a cell the headline first.
        `sd` is over what the aggregate averages: samples, concept means, seeds.

    Raises:
        OptionError: columns of unequal length, or a bad level.
        UnknownNameError: a column to group by that is not in `groups`.
        ValueError: a row is ok and its value is not finite.

    Degenerate: a cell without values has the value None and a note that says why; one unit gives no interval.
    """
    table = ValueTable.make(values, status_codes, statuses, units, concepts, groups or {}, weights)
    del values, status_codes, weights  # the table has them in its order, and the caller may hold them no longer either
    cells = _Cells(table, metric, label, finish, seed, resamples, level)
    result = cells.summaries(ALL, {})
    for columns in dict.fromkeys(tuple(columns) for columns in by if columns):
        result += _grouped(cells, columns)
    return result


def _grouped(cells: _Cells, columns: tuple[str, ...]) -> list[Summary]:
    result: list[Summary] = []
    headlines: list[Summary] = []
    for group, rows in cells.table.split(columns):
        found = cells.summaries(rows, group)
        headlines += [summary for summary in found if summary.headline]
        result += found
    if "seed" in columns:
        result += _over_seeds(headlines, columns, cells.level)
    return result


def _over_seeds(headlines: Sequence[Summary], columns: tuple[str, ...], level: float) -> list[Summary]:
    """Mean ± sd over seeds of the headline values, with a t interval, for each combination of the other columns."""
    families: dict[tuple[Any, ...], list[Summary]] = {}
    for summary in headlines:
        if summary.group["seed"] is not None:
            key = tuple(summary.group[column] for column in columns if column != "seed")
            families.setdefault(key, []).append(summary)
    result = []
    for members in families.values():
        scored = [summary.value for summary in members if summary.value is not None]
        moments = Moments(scored)
        interval = t_interval(sorted(scored), unit="seed", level=level)
        note = f"mean and sd over {len(scored)} seeds of their {members[0].aggregate} values"
        if len(scored) < len(members):
            note += f"; {len(members) - len(scored)} seeds have no value"
        result.append(
            replace(
                members[0],
                aggregate="over_seeds",
                value=moments.mean(),
                low=interval.low,
                high=interval.high,
                ci_method=interval.method,
                unit="seed",
                n=sum(summary.n for summary in members),
                n_units=len(scored),
                n_missing=_added(summary.n_missing for summary in members),
                sd=moments.sd(),
                group={column: members[0].group[column] for column in columns if column != "seed"},
                headline=False,
                note=note,
            )
        )
    return result


def _added(counts: Iterator[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in counts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return total


@dataclass(frozen=True)
class _Cells:
    """Makes the summaries of one cell."""

    table: ValueTable
    metric: str
    label: str
    finish: Callable[[float], float]
    seed: int
    resamples: int
    level: float

    def summaries(self, rows: Rows, group: Mapping[str, Any]) -> list[Summary]:
        """All aggregates of the rows, the headline first."""
        table = self.table
        has_concepts = bool((table.concepts >= 0).any()) and "concept" not in group
        with_concept = table.kept(rows, table.concepts[rows] >= 0)
        result = []
        if has_concepts and table.count(with_concept):
            result.append(self._macro(with_concept, group, without=table.count(rows) - table.count(with_concept)))
        micro = self._micro(rows, group, headline=not result)
        if has_concepts and not result:
            micro = replace(
                micro, note=_joined("no sample here has a concept, so this is the mean of samples", micro.note)
            )
        result.append(micro)
        if table.weights is not None and (table.weights > 0).any():
            result.append(self._pairs(rows, group, table.weights))
        return result

    def _micro(self, rows: Rows, group: Mapping[str, Any], *, headline: bool) -> Summary:
        moments, sampled = self._averaged(rows)
        return self._summary(
            "micro", moments.mean(), rows, group, sampled, self.table.unit, sd=moments.sd(), headline=headline
        )

    def _averaged(self, rows: Rows) -> tuple[Moments, tuple[np.ndarray, np.ndarray]]:
        """Moments of the values, and their sums and numbers by unit."""
        scored = self.table.scored(rows)
        values = self.table.values[scored]
        return Moments(values), _per_code(self.table.units[scored], values)

    def _pairs(self, rows: Rows, group: Mapping[str, Any], all_weights: np.ndarray) -> Summary:
        table = self.table
        scored = table.kept(rows, (table.status[rows] == 0) & (all_weights[rows] > 0))
        values, weights = table.values[scored], all_weights[scored]
        sums, _ = _per_code(table.units[scored], values * weights)
        counts, _ = _per_code(table.units[scored], weights)
        return self._summary(
            "pairs", weighted_mean(values, weights), rows, group, (sums, counts), table.unit, sd=Moments(values).sd()
        )

    def _macro(self, rows: Rows, group: Mapping[str, Any], *, without: int) -> Summary:
        table = self.table
        scored = table.scored(rows)
        sums, counts = _per_code(table.concepts[scored], table.values[scored])
        means = sums / counts
        moments = Moments(means)
        notes = [self._absent_concepts(rows, scored)]
        if without:
            notes.append(f"{without} samples without a concept are left out")
        summary = self._summary(
            "macro",
            moments.mean(),
            rows,
            group,
            (means, np.ones(len(means))),
            "concept",
            sd=moments.sd(),
            headline=True,
        )
        return replace(summary, note=_joined(*notes, summary.note))

    def _absent_concepts(self, rows: Rows, scored: Rows) -> str | None:
        """Names the concepts without a value, with the reasons: they are left out of the mean."""
        table = self.table
        if isinstance(rows, slice):
            rows = np.arange(len(table.values))
        codes, first = np.unique(table.concepts[rows], return_index=True)
        absent = ~np.isin(codes, table.concepts[scored])
        if not absent.any() or not table.count(scored):
            return None
        if "concept" not in table.groups:
            reasons = table.missing(rows[np.isin(table.concepts[rows], codes[absent])])
            return f"left out, as no sample has a value: {absent.sum()} concepts ({_counted(reasons)})"
        named = sorted((str(table.label("concept", rows[at])), code) for code, at in zip(codes[absent], first[absent]))
        parts = [
            f"{name} ({_counted(table.missing(rows[table.concepts[rows] == code]))})"
            for name, code in named[:_NAMED_CONCEPTS]
        ]
        more = f" and {len(named) - len(parts)} more" if len(named) > len(parts) else ""
        return f"left out, as no sample has a value: {', '.join(parts)}{more}"

    def _summary(
        self,
        aggregate: str,
        mean: float | None,
        rows: Rows,
        group: Mapping[str, Any],
        sampled: tuple[np.ndarray, np.ndarray],
        unit: str,
        *,
        sd: float | None,
        headline: bool = False,
    ) -> Summary:
        missing = self.table.missing(rows)
        if mean is None:
            reasons = _counted(missing) or "there are no samples"
            interval = Interval(None, None, self.level, None, 0, f"no sample has a value: {reasons}")
        else:
            interval = mean_interval(*sampled, unit=unit, seed=self.seed, resamples=self.resamples, level=self.level)
        return Summary(
            metric=self.metric,
            label=self.label,
            aggregate=aggregate,
            value=None if mean is None else self.finish(mean),
            low=None if interval.low is None else self.finish(interval.low),
            high=None if interval.high is None else self.finish(interval.high),
            level=self.level,
            ci_method=interval.method,
            unit=unit,
            n=self.table.count(rows) - sum(missing.values()),
            n_units=interval.n_units,
            n_missing=missing,
            sd=sd,
            group=dict(group),
            headline=headline,
            note=interval.note,
        )


def _per_code(codes: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum and number of the values of each code that occurs, in the order of the codes."""
    if codes.max(initial=0) > 4 * len(codes):
        # Few rows with high codes: counting over all codes would cost more than sorting the rows.
        codes = np.unique(codes, return_inverse=True)[1]
    counts = np.bincount(codes)
    found = counts > 0
    if not found.all():
        return np.bincount(codes, weights=values)[found], counts[found].astype(np.float64)
    # One count for all of a million units takes no memory.
    alike = len(counts) and bool((counts == counts[0]).all())
    numbers = np.broadcast_to(np.float64(counts[0]), counts.shape) if alike else counts.astype(np.float64)
    del counts
    return np.bincount(codes, weights=values), numbers


def _counted(missing: Mapping[str, int]) -> str:
    return ", ".join(f"{status} {count}" for status, count in missing.items())


def _joined(*notes: str | None) -> str | None:
    return "; ".join(note for note in notes if note) or None
