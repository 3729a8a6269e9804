"""From the summaries of runs to tables: which rows, which columns, and what is listed below them.

A run enters as a `RunView`: a name, the run's header (the dict of `run.json`) and its summaries. `long_table` has one
row a metric and group, with n and the missing values by status; `wide_table` has one row a run and group, with one
column a metric; `records` has everything, unrounded, for other programs. Nothing here computes a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beholder.records import Summary
from beholder.report.counts import count_notes, listed, missing_text
from beholder.report.numbers import DASH, format_interval, format_spread, format_value
from beholder.report.ranking import (
    INTERVAL,
    Cell,
    Marks,
    competitors,
    format_with_spread,
    mark_note,
    marked_cell,
    spread_note,
    styles_of,
)

OVER_SEEDS = "over_seeds"
"""The aggregate that is a mean and sd over seeds; tables by seed show it beside the headline values."""

_ARROWS = {True: " ↑", False: " ↓", None: ""}


@dataclass(frozen=True)
class RunView:
    """A run as tables see it.

    Args:
        name: how the run is called in tables.
        header: the dict of `run.json`.
        summaries: the aggregates to show, all of one grouping.
    """

    name: str
    header: Mapping[str, Any]
    summaries: Sequence[Summary]


@dataclass(frozen=True)
class Column:
    """A column's heading, and whether numbers stand in it."""

    title: str
    numeric: bool = False


@dataclass(frozen=True)
class Table:
    """Formatted cells, the notes that belong below them, and by (row, column) how a cell stands out: see `ranking`."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    styles: Mapping[tuple[int, int], str] = field(default_factory=dict)


def long_table(view: RunView, *, show_all: bool = False, spread: str = INTERVAL) -> Table:
    """One row a metric and group: value, interval, n, missing by status.

    Args:
        view: the run.
        show_all: True shows every aggregate, False the headline value of each metric.
        spread: what stands beside a value: one of `ranking.SPREADS`.
    """
    summaries = _shown(view, show_all)
    groups = _group_columns(summaries)
    titles = [Column("metric"), *(Column(name) for name in groups)]
    titles += [Column("aggregate")] if show_all else []
    beside = [] if spread == "none" else [Column("±" if spread == "pm" else _interval_title(summaries), True)]
    titles += [Column("value", True), *beside, Column("n", True), Column("missing")]
    rows, notes = [], _Notes()
    for item in summaries:
        row = [item.label + _arrow(view.header, item), *_group_texts(item.group, groups)]
        row += [item.aggregate] if show_all else []
        row += [*_value_cells(item, spread)[: 1 + len(beside)], str(item.n), missing_text(item.n_missing)]
        rows.append(tuple(row))
        notes.about(item, place=_place(item.label, item.group))
    return Table(tuple(titles), tuple(rows), (*spread_note(spread, summaries), *_all_notes(notes, [(view, summaries)])))


def wide_table(
    views: Sequence[RunView],
    *,
    show_all: bool = False,
    spread: str = INTERVAL,
    rank: bool = False,
    marks: Marks | None = None,
) -> Table:
    """One row a run and group, one column a metric; a cell holds the value and its interval.

    Args:
        views: the runs, in the order of their rows.
        show_all: True gives every aggregate its own column.
        spread: what stands beside a value: one of `ranking.SPREADS`.
        rank: True gives the best cell of those that compete the style "best" and the next one "second".
        marks: which cells differ from a baseline.
    """
    shown = [(view, _shown(view, show_all)) for view in views]
    groups = _group_columns(item for _, summaries in shown for item in summaries)
    keys = _column_keys([summaries for _, summaries in shown], show_all)
    heads = {
        _column_key(item, show_all): _wide_title(view.header, item, show_all)
        for view, summaries in reversed(shown)
        for item in summaries
    }
    named = len(views) > 1 or not groups
    first = [*(["run"] if named else []), *groups]
    titles = [*(Column(name) for name in first), *(Column(heads[key], True) for key in keys)]
    rows, notes, cells_of, counts = [], _Notes(), [], []
    for view, summaries in shown:
        for cells in _by_group(summaries, show_all):
            group = next(iter(cells.values())).group
            texts = [marked_cell(_wide_cell(cells.get(key), spread), cells.get(key), view.name, marks) for key in keys]
            rows.append((*([view.name] if named else []), *_group_texts(group, groups), *texts))
            cells_of.append((competitors(group), [_ranked(view.header, cells.get(key)) for key in keys]))
            for key in keys:
                notes.about(cells.get(key), place=_place(key[0], group, run=view.name if named else None))
            counts.append((_row_name(group, run=view.name if named else None), [(k[0], cells.get(k)) for k in keys]))
    facts = (*spread_note(spread, [item for _, found in shown for item in found]), *mark_note(marks))
    facts = (*facts, *count_notes(counts))
    styles = styles_of(cells_of, first=len(first)) if rank else {}
    return Table(tuple(titles), tuple(rows), (*facts, *_all_notes(notes, shown)), styles)


def _ranked(header: Mapping[str, Any], item: Summary | None) -> Cell | None:
    """What a cell competes with; None where it has no value or its metric no direction."""
    if item is None or item.value is None:
        return None
    higher = _metric_entry(header, item).get("info", {}).get("higher_is_better")
    return None if higher is None else Cell(item.value if higher else -item.value, _value_cells(item)[0])


def records(views: Sequence[RunView], *, show_all: bool = False) -> list[dict[str, Any]]:
    """One dict a run, metric, aggregate and group, with unrounded numbers and None where there is no value."""
    return [_record(view, item) for view in views for item in _shown(view, show_all)]


def _record(view: RunView, item: Summary) -> dict[str, Any]:
    info = _metric_entry(view.header, item).get("info", {})
    return {
        "run": view.name,
        "group": dict(item.group),
        "label": item.label,
        "metric": item.metric,
        "aggregate": item.aggregate,
        "value": item.value,
        "low": item.low,
        "high": item.high,
        "level": item.level,
        "ci_method": item.ci_method,
        "n": item.n,
        "n_units": item.n_units,
        "unit": item.unit,
        "sd": item.sd,
        "n_missing": {str(status): count for status, count in item.n_missing.items()},
        "higher_is_better": info.get("higher_is_better"),
        "value_unit": info.get("unit"),
        "headline": item.headline,
        "note": item.note,
    }


@dataclass
class _Notes:
    """Collects what has to be said below a table, each thing once."""

    _lines: dict[str, list[str]] = field(default_factory=dict)

    def about(self, item: Summary | None, *, place: str) -> None:
        if item is None:
            self._add("not computed", place)
            return
        if item.value is None:
            self._add(item.note or f"no sample has a value: missing {missing_text(item.n_missing)}", place)
            return
        if item.aggregate == OVER_SEEDS and item.low is not None:
            ends = format_interval(item.value, item.low, item.high)
            self._add(f"{item.note}; {_percent(item.level)} interval {ends} by t over seeds", place)
        elif item.note:
            self._add(item.note, place)
        elif item.low is None or item.high is None:
            self._add("no interval", place)

    def _add(self, text: str, place: str) -> None:
        places = self._lines.setdefault(text, [])
        if place not in places:  # the aggregates of one metric are told of once
            places.append(place)

    def lines(self) -> list[str]:
        return [f"{listed(places)}: {text}." for text, places in self._lines.items()]


def _shown(view: RunView, show_all: bool) -> list[Summary]:
    """The summaries to show, metric by metric, so that the groups of one metric stand below one another."""
    shown = [item for item in view.summaries if show_all or item.headline or item.aggregate == OVER_SEEDS]
    asked = [str(entry.get("label")) for entry in view.header.get("metrics", [])]
    labels = _rank([*asked, *(item.label for item in shown)])
    groups = _rank(_group_key(item.group) for item in shown)
    return sorted(shown, key=lambda item: (labels[item.label], groups[_group_key(item.group)], not item.headline))


def _rank(values: Iterable[Any]) -> dict[Any, int]:
    return {value: rank for rank, value in enumerate(dict.fromkeys(values))}


def _group_key(group: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((name, repr(value)) for name, value in group.items())


def _column_key(item: Summary, show_all: bool) -> tuple[str, str]:
    return item.label, item.aggregate if show_all else ""


def _column_keys(shown: Sequence[Sequence[Summary]], show_all: bool) -> list[tuple[str, str]]:
    keys = list(dict.fromkeys(_column_key(item, show_all) for summaries in shown for item in summaries))
    labels = _rank(label for label, _ in keys)
    return sorted(keys, key=lambda key: labels[key[0]])


def _by_group(summaries: Iterable[Summary], show_all: bool) -> list[dict[tuple[str, str], Summary]]:
    """The cells of each row of a wide table, by column."""
    rows: dict[Any, dict[tuple[str, str], Summary]] = {}
    for item in summaries:
        rows.setdefault(_group_key(item.group), {})[_column_key(item, show_all)] = item
    return list(rows.values())


def _group_columns(summaries: Iterable[Summary]) -> list[str]:
    return list(dict.fromkeys(name for item in summaries for name in item.group))


def _group_texts(group: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    return [_group_text(group[name]) if name in group else "all" for name in columns]


def _group_text(value: Any) -> str:
    return "(none)" if value is None else str(value)


def _place(label: str, group: Mapping[str, Any], *, run: str | None = None) -> str:
    """Where in a table something stands: run, group and metric."""
    return ", ".join(part for part in (_row_name(group, run=run), label) if part)


def _row_name(group: Mapping[str, Any], *, run: str | None = None) -> str:
    parts = [] if run is None else [run]
    return ", ".join([*parts, *(f"{name}={_group_text(value)}" for name, value in group.items())])


def _metric_entry(header: Mapping[str, Any], item: Summary) -> Mapping[str, Any]:
    entries: Sequence[Mapping[str, Any]] = header.get("metrics", [])
    for entry in entries:
        if entry.get("label") == item.label:
            return entry
    return {}


def _arrow(header: Mapping[str, Any], item: Summary) -> str:
    return _ARROWS[_metric_entry(header, item).get("info", {}).get("higher_is_better")]


def _wide_title(header: Mapping[str, Any], item: Summary, show_all: bool) -> str:
    aggregate = f" ({item.aggregate})" if show_all else ""
    return item.label + aggregate + _arrow(header, item)


def _wide_cell(item: Summary | None, spread: str) -> str:
    if item is None:
        return DASH
    if item.aggregate == OVER_SEEDS:
        return " ".join(part for part in format_spread(item.value, item.sd) if part != DASH) or DASH
    return format_with_spread(item.value, item.low, item.high, spread)


def _value_cells(item: Summary, spread: str = INTERVAL) -> tuple[str, str]:
    """Value and interval, or value and standard deviation where the row is a mean over seeds."""
    if item.aggregate == OVER_SEEDS:
        return format_spread(item.value, item.sd)
    if spread == "pm":
        value, _, half = format_with_spread(item.value, item.low, item.high, spread).partition(" ")
        return value, half or DASH
    return format_value(item.value, item.low, item.high), format_interval(item.value, item.low, item.high)


def _interval_title(summaries: Sequence[Summary]) -> str:
    levels = sorted({item.level for item in summaries})
    return f"{_percent(levels[0])} CI" if len(levels) == 1 else "CI"


def _percent(level: float) -> str:
    return f"{level * 100:g} %"


def _all_notes(notes: _Notes, shown: Sequence[tuple[RunView, Sequence[Summary]]]) -> tuple[str, ...]:
    return *notes.lines(), *_same_notes(shown), *_metric_notes(shown)


def _same_notes(shown: Sequence[tuple[RunView, Sequence[Summary]]]) -> list[str]:
    """Names metrics whose every number is that of another one (`clip_t` where no row has an `eval_prompt`)."""
    numbers: dict[str, list[Any]] = {}
    for rank, (_, summaries) in enumerate(shown):
        for item in summaries:
            cell = (rank, _group_key(item.group), item.aggregate, item.value, item.low, item.high, item.n)
            numbers.setdefault(item.label, []).append(cell)
    lines: list[str] = []
    first: dict[tuple[Any, ...], str] = {}
    for label, cells in numbers.items():
        if all(cell[3] is None for cell in cells):
            continue
        known = first.setdefault(tuple(cells), label)
        if known != label:
            lines.append(f"{label}: same as {known} in every number.")
    return lines


def _metric_notes(shown: Sequence[tuple[RunView, Sequence[Summary]]]) -> list[str]:
    """What each column is: identity, unit, models, and how its aggregate and interval were made."""
    columns: dict[str, dict[str, str]] = {}
    for view, summaries in shown:
        for item in summaries:
            if item.aggregate == OVER_SEEDS:
                continue  # a note of its own says what it is
            intervals = columns.setdefault(_facts(view.header, item), {})
            # Cells without an interval say so in a note of their own.
            if item.ci_method:
                made = f", {_percent(item.level)} interval by {item.ci_method} over {item.unit}s"
                intervals[item.aggregate] = made
            intervals.setdefault(item.aggregate, "")
    return [f"{facts}{_aggregates(intervals)}." for facts, intervals in columns.items()]


def _aggregates(intervals: Mapping[str, str]) -> str:
    """How aggregates were made, those of one way together."""
    ways: dict[str, list[str]] = {}
    for aggregate, interval in intervals.items():
        ways.setdefault(interval, []).append(aggregate)
    return "; ".join(
        f"{' and '.join(part for part in (', '.join(names[:-1]), names[-1]) if part)} "
        f"aggregate{'s' * (len(names) > 1)}{interval}"
        for interval, names in ways.items()
    )


def _facts(header: Mapping[str, Any], item: Summary) -> str:
    entry = _metric_entry(header, item)
    unit = entry.get("info", {}).get("unit")
    models = sorted({str(slot["model"]) for slot in entry.get("slots", {}).values()})
    facts = [item.metric] if item.metric != item.label else []
    facts += [f"unit {unit}"] if unit else []
    facts += ["model " + " and ".join(models)] if models else []
    return f"{item.label}: {''.join(f'{fact}, ' for fact in facts)}"
