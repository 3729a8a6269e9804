"""A protocol's tables as tables and records: nothing here computes a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from beholder.protocols.results import Number, Results, ResultTable
from beholder.report.numbers import DASH, format_estimate, format_number, format_spread
from beholder.report.render import rendered, to_csv
from beholder.report.tables import Column, Table

OURS, THEIRS = "this run", "published"
_NAMED_PLACES = 6


def result_table(found: ResultTable) -> Table:
    """A protocol's table for reading: one row a label, one column a number; published rows follow and say so."""
    published = any(number.is_published for number in found.numbers)
    titles = [Column("from")] if published else []
    titles += [Column(key) for key in found.keys] + [Column(name, True) for name in found.columns]
    titles += [Column("n", True)] if found.show_n else []
    rows = []
    places = published_decimals(found)
    for labels, theirs in found.rows:
        cells = {n.column: n for n in found.numbers if n.row == labels and n.is_published is theirs}
        row = [THEIRS if theirs else OURS] if published else []
        row += [*labels, *(number_text(cells.get(name), places) for name in found.columns)]
        rows.append(tuple(row + ([_counts(list(cells.values()))] if found.show_n else [])))
    counted = [] if found.show_n else _counts_notes(found)
    notes = [*table_notes(found), *counted, *_number_notes(found), *_sources(found)]
    return Table(tuple(titles), tuple(rows), tuple(dict.fromkeys(notes)))


def result_records(found: Results) -> list[dict[str, Any]]:
    """One flat dict a number, unrounded; `source` says whose it is."""
    return [
        {
            "run": table.name,
            "group": dict(zip(table.keys, number.row)),
            "column": number.column,
            "from": THEIRS if number.is_published else OURS,
            "value": number.value,
            "low": number.low,
            "high": number.high,
            "n": number.n,
            "n_units": number.n_units,
            "unit": number.unit,
            "n_missing": dict(number.n_missing),
            "aggregate": number.aggregate,
            "sd": number.sd,
            "sd_over": number.sd_over,
            "source": number.source,
            "note": number.note,
        }
        for table in found.tables
        for number in table.numbers
    ]


def render_results(found: Results, form: str, *, width: int | None = None) -> str:
    """All tables of a protocol in one of the forms "text", "md", "latex", "csv"; in CSV they are one table."""
    if form == "csv":
        return to_csv([{**record, "run": f"{found.protocol} {record['run']}"} for record in result_records(found)])
    head = {"md": "## {}\n\n", "latex": "% {}\n"}.get(form, "{}\n\n")
    parts = [
        head.format(f"{found.protocol}: {table.title}") + rendered(result_table(table), [], form, width=width)
        for table in found.tables
    ]
    facts = [f"Counted in the data: {counts_text(found.counts)}.", *found.notices]
    prefix = {"md": "- ", "latex": "% "}.get(form, "")
    return "\n".join([*parts, "".join(f"{prefix}{fact}\n" for fact in facts)])


def counts_text(counts: Any) -> str:
    """Counts in words: "outputs 12, models (a 6, b 6)"."""
    if not isinstance(counts, dict):
        return str(counts)
    return ", ".join(
        f"{name} ({counts_text(value)})" if isinstance(value, dict) else f"{name} {value}"
        for name, value in counts.items()
        if value not in ({}, None)
    )


def published_decimals(found: ResultTable) -> dict[str, int]:
    """By column: the decimals that its published numbers have."""
    places: dict[str, int] = {}
    for number in found.numbers:
        if number.is_published and number.value is not None:
            own = len(f"{number.value:.6f}".rstrip("0").partition(".")[2])
            places[number.column] = max(places.get(number.column, 0), own)
    return places


def number_text(number: Number | None, places: Mapping[str, int]) -> str:
    """A number as a cell shows it: with interval and sd, or with as many decimals as it was published with."""
    if number is None or (number.is_published and number.value is None):
        return DASH
    if number.is_published and number.value is not None:
        return format_number(number.value, places[number.column])
    text = format_estimate(number.value, number.low, number.high)
    if number.sd is None or number.value is None:
        return text
    return f"{text} {format_spread(number.value, number.sd)[1]}"


def _counts(numbers: Sequence[Number]) -> str:
    """The n of a row: one number where all agree, else the least and the greatest."""
    known = sorted({number.n for number in numbers if number.n is not None})
    if not known:
        return DASH
    return str(known[0]) if len(known) == 1 else f"{known[0]}–{known[-1]}"


def _counts_notes(found: ResultTable) -> list[str]:
    """The n of the cells of a table without a column for it, by column, as rows mostly agree."""
    own = {name: [n for n in found.numbers if n.column == name and not n.is_published] for name in found.columns}
    told: dict[str, list[str]] = {}
    for name, numbers in own.items():
        if any(number.n is not None for number in numbers):
            told.setdefault(_counts(numbers), []).append(name)
    return ["n: " + "; ".join(f"{count} for {', '.join(names)}" for count, names in told.items()) + "."] if told else []


def table_notes(found: ResultTable) -> list[str]:
    """What is said about a table as a whole."""
    over = sorted({number.sd_over for number in found.numbers if number.sd_over and number.sd is not None})
    spread = any(number.sd is not None for number in found.numbers)
    said = [f"± is the standard deviation over {', '.join(f'{name}s' for name in over)}."] if spread else []
    return [*found.notes, *said]


def _number_notes(found: ResultTable) -> list[str]:
    """What is said about single numbers, each thing once, with the places it is about."""
    places: dict[str, list[str]] = {}
    for number in found.numbers:
        place = ", ".join([*number.row, number.column])
        if number.note:
            places.setdefault(number.note, []).append(place)
        if number.n_missing:
            told = ", ".join(f"{count} {status}" for status, count in number.n_missing.items())
            places.setdefault(f"without a value: {told}", []).append(place)
    return [f"{_listed(where)}: {text}." for text, where in places.items()]


def _listed(places: Sequence[str]) -> str:
    shown = "; ".join(places[:_NAMED_PLACES])
    return shown if len(places) <= _NAMED_PLACES else f"{shown}; and {len(places) - _NAMED_PLACES} more"


def _sources(found: ResultTable) -> list[str]:
    named = dict.fromkeys(number.source for number in found.numbers if number.source)
    return [f"Published numbers: {source}." for source in named]
