"""Tables as a page sorts and filters them: each number with its text, and with what is said when it is pointed at."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from beholder.protocols.results import Number, ResultTable
from beholder.report.numbers import DASH, format_estimate
from beholder.report.protocol import number_text, published_decimals, table_notes

Rows = Mapping[tuple[str, ...], int]


def number_cell(
    text: str, value: float | None, low: float | None = None, high: float | None = None, tip: str = ""
) -> dict[str, Any]:
    """A cell with a number: its text, what it is sorted by, the ends of its interval, what a pointer shows."""
    found: dict[str, Any] = {"t": text.replace("-", "−"), "v": finite(value)}
    ends = finite(low), finite(high)
    if None not in ends:
        found |= {"l": ends[0], "h": ends[1]}
    return found | ({"k": tip} if tip else {})


def estimate_cell(
    value: float | None, low: float | None = None, high: float | None = None, tip: str = ""
) -> dict[str, Any]:
    """A number with its interval, rounded as the interval supports."""
    return number_cell(format_estimate(finite(value), finite(low), finite(high)), value, low, high, tip)


def finite(value: Any) -> float | None:
    """The number, or None where there is none that JSON could hold."""
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def table_data(
    found: ResultTable, *, titles: Mapping[str, str] | None = None, rows: Rows | None = None
) -> dict[str, Any]:
    """A protocol's table.

    Args:
        found: the table.
        titles: other titles of columns.
        rows: labels of a row → the sample that it is about.
    """
    places = published_decimals(found)
    cells: dict[tuple[tuple[str, ...], bool], dict[str, Number]] = {}
    for number in found.numbers:
        cells.setdefault((number.row, number.is_published), {})[number.column] = number
    lines = []
    for labels, theirs in found.rows:
        own = cells[labels, theirs]
        line: dict[str, Any] = {
            "cells": [*labels, *(_cell(own.get(name), places) for name in found.columns)],
            "published": theirs,
        }
        if rows is not None and not theirs and labels in rows:
            line["row"] = rows[labels]
        lines.append(line)
    heads = [{"title": key, "numeric": False} for key in found.keys]
    heads += [{"title": (titles or {}).get(name, name), "numeric": True} for name in found.columns]
    sources = dict.fromkeys(number.source for number in found.numbers if number.source)
    notes = [*table_notes(found), *(f"Published numbers: {source}." for source in sources)]
    return {"name": found.name, "title": found.title, "columns": heads, "rows": lines, "notes": notes}


def plain_table(
    title: str, heads: Sequence[tuple[str, bool]], lines: Sequence[Sequence[Any]], **more: Any
) -> dict[str, Any]:
    """A table of texts and number cells: (title, whether numeric) of each column, and the cells of each row."""
    columns = [{"title": name, "numeric": numeric} for name, numeric in heads]
    rows = [{"cells": list(line), "published": False} for line in lines]
    return {"name": title, "title": title, "columns": columns, "rows": rows, "notes": [], **more}


def _cell(number: Number | None, places: Mapping[str, int]) -> Any:
    if number is None:
        return {"t": DASH, "v": None}
    return number_cell(number_text(number, places), number.value, number.low, number.high, number_tip(number))


def number_tip(number: Number) -> str:
    """How a number was made, in one line."""
    told = []
    if number.is_published:
        told.append(f"published: {number.source}")
    elif number.value is not None:
        told.append(number.aggregate)
    if number.n is not None:
        told.append(f"n {number.n}")
    if number.n_units and number.unit:
        told.append(f"{number.n_units} {number.unit}s")
    told += [f"{count} {status}" for status, count in number.n_missing.items()]
    return "; ".join([*told, *([number.note] if number.note else [])])
