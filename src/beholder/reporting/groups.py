"""Groups of samples: means of each, what changed most in them, and the tables of a column that was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from beholder._errors import OptionError, UnknownNameError
from beholder.comparing.records import Compared, Comparison
from beholder.records import Summary
from beholder.report.html.data import GroupBar, Metric, Side, Slice
from beholder.report.numbers import format_estimate
from beholder.reporting.deltas import sample_delta, signed
from beholder.reporting.views.cells import estimate_cell, number_cell, plain_table
from beholder.runs.inputs import check_not_scores, group_columns
from beholder.runs.results import Run

MOST_GROUPS = 200
"""A column that is named with --by may have so many values."""

_SLICES = 8
_LEAST_IN_SLICE = 5


def asked_columns(runs: Sequence[Run], by: Sequence[str]) -> list[str]:
    """The columns of --by under their canonical names.

    Raises:
        UnknownNameError: no run has such a column.
        OptionError: a metric's column, or one with too many values.
    """
    names = list(dict.fromkeys(group_columns(by)))
    known = list(dict.fromkeys(name for run in runs for name in run.columns))
    for run in runs:
        check_not_scores(names, run.labels)
    for name in names:
        if name not in known:
            raise UnknownNameError("column", name, known, fix="Columns: " + ", ".join(known))
        values = {str(value) for run in runs if name in run.columns for value in run.read([name])[name].to_pylist()}
        if len(values) > MOST_GROUPS:
            raise OptionError(
                f"a report groups by a column of at most {MOST_GROUPS} values", got=f"{name}: {len(values)} values",
                fix="Name a coarser column",
            )  # fmt: skip
    return names


def group_bars(
    runs: Sequence[Run], names: Sequence[str], sides: Sequence[Side], column: str, metrics: Sequence[Metric]
) -> dict[str, list[GroupBar]]:
    """The means of every group of a column, by metric."""
    found: dict[str, list[GroupBar]] = {metric.label: [] for metric in metrics}
    for run, name in zip(runs, names):
        if column not in run.columns:
            continue
        mine = {side.method: place for place, side in enumerate(sides) if side.run == name}
        split = None not in mine
        by = list(dict.fromkeys(["method", column])) if split else [column]
        for item in run.summarise(by=by, measure_sets=False):
            if column not in item.group or not item.headline or item.label not in found:
                continue
            side = mine.get(str(item.group["method"]) if split else None)
            if side is not None:
                missing = {str(status): count for status, count in item.n_missing.items() if count}
                text = group_text(item.group[column])
                found[item.label].append(GroupBar(text, side, item.value, item.low, item.high, item.n, missing))
    return found


def group_text(value: Any) -> str:
    """A group's name."""
    return "(none)" if value is None else str(value)


def group_table(
    column: str, bars: Mapping[str, Sequence[GroupBar]], sides: Sequence[Side], found: Comparison | None
) -> dict[str, Any]:
    """One row a group and side: each metric's mean with its interval, n and missing values, and Δ to the baseline."""
    several = len(sides) > 1
    deltas = {
        (row.label, row.b, group_text(row.group[column])): row
        for row in (found.rows if found is not None else ())
        if set(row.group) == {column}
    }
    baselines = {row.a for row in deltas.values()}
    places = list(dict.fromkeys((bar.group, bar.side) for own in bars.values() for bar in own))
    order = {group: at for at, group in enumerate(dict.fromkeys(group for group, _ in places))}
    places.sort(key=lambda place: (order[place[0]], place[1]))
    cells = {(label, bar.group, bar.side): bar for label, own in bars.items() for bar in own}
    heads: list[tuple[str, bool]] = [(column, False), *([("method", False)] if several else [])]
    for label in bars:
        heads += [(label, True), *([(f"Δ {label}", True)] if deltas else [])]
    lines = []
    for group, side in places:
        line: list[Any] = [group, *([sides[side].name] if several else [])]
        for label in bars:
            line.append(_bar_cell(cells.get((label, group, side))))
            if deltas:
                line.append(_delta_cell(deltas.get((label, sides[side].name, group)), sides[side].name in baselines))
        lines.append(line)
    notes = [f"Δ is the paired difference to {found.baseline_text}."] if found is not None and deltas else []
    return plain_table(f"By {column}", heads, lines, notes=notes)


def _bar_cell(bar: GroupBar | None) -> dict[str, Any]:
    if bar is None:
        return {"t": "—", "v": None}
    told = [f"n {bar.n}", *(f"{count} {status}" for status, count in bar.missing.items())]
    return {**estimate_cell(bar.value, bar.low, bar.high, "; ".join(told)), "s": ", ".join(told)}


def _delta_cell(row: Compared | None, is_baseline: bool) -> dict[str, Any]:
    if row is None:
        return {"t": "" if is_baseline else "—", "v": None}
    delta = sample_delta(row)
    interval = row.difference.interval
    cell = number_cell(delta.text, row.difference.value, interval.low, interval.high, delta.detail)
    return {**cell, "c": row.verdict, "s": row.verdict}


def changed_slices(found: Comparison, columns: Sequence[str]) -> tuple[list[Slice], str]:
    """The groups whose difference stands out most from 0, measured in half-lengths of their intervals."""
    scored = []
    for row in found.rows:
        change = row.difference
        low, high = change.interval.low, change.interval.high
        if len(row.group) != 1 or not set(row.group) <= set(columns) or change.n_prompts < _LEAST_IN_SLICE:
            continue
        if change.value is not None and low is not None and high is not None and high > low:
            scored.append((abs(change.value) / ((high - low) / 2), row))
    scored.sort(key=lambda pair: -pair[0])
    slices = []
    for _, row in scored[:_SLICES]:
        (column, value), change = next(iter(row.group.items())), row.difference
        assert change.value is not None
        text = signed(change.value, change.interval.low, change.interval.high)
        slices.append(Slice(column, group_text(value), row.label, row.b, text, row.verdict, change.n_prompts))
    return (
        slices,
        f"Difference to {found.baseline_text} with its interval; of groups with at least {_LEAST_IN_SLICE} prompts.",
    )


def odd_slices(
    bars: Mapping[str, Mapping[str, Sequence[GroupBar]]],
    cells: Mapping[tuple[int, str], Summary],
    metrics: Sequence[Metric],
    sides: Sequence[Side],
) -> tuple[list[Slice], str]:
    """The groups whose interval lies farthest from the mean of their side."""
    directions = {metric.label: metric.higher_is_better for metric in metrics}
    scored = []
    for column, by_label in bars.items():
        for label, found in by_label.items():
            for bar in found:
                whole = cells.get((bar.side, label))
                if whole is None or None in (whole.value, bar.value, bar.low, bar.high) or bar.n < _LEAST_IN_SLICE:
                    continue
                gap = bar.value - whole.value  # type: ignore[operator]
                half = (bar.high - bar.low) / 2  # type: ignore[operator]
                if half > 0 and abs(gap) > half:
                    scored.append((abs(gap) / half, column, label, bar, gap))
    scored.sort(key=lambda item: -item[0])
    slices = [
        Slice(
            column,
            bar.group,
            label,
            sides[bar.side].name,
            format_estimate(bar.value, bar.low, bar.high),
            _word(gap, directions[label]),
            bar.n,
        )
        for _, column, label, bar, gap in scored[:_SLICES]
    ]
    return slices, "Groups whose own interval does not hold the mean of all samples; no correction for looking at many."


def _word(gap: float, higher: bool | None) -> str:
    if higher is None:
        return "higher" if gap > 0 else "lower"
    return "better" if (gap > 0) == higher else "worse"
