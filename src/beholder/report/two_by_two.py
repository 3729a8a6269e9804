"""Winoground's shares as a table and records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beholder.report.numbers import format_estimate
from beholder.report.tables import Column, Table

if TYPE_CHECKING:
    from beholder.comparing.two_by_two import TwoByTwoResult


def two_by_two_table(found: TwoByTwoResult) -> Table:
    """One row a metric and share, with chance beside it."""
    titles = (
        Column("metric"),
        Column("share"),
        Column("right %", True),
        Column("chance %", True),
        Column("items", True),
    )
    rows = []
    for row in found.rows:
        ends = [None if end is None else 100 * end for end in (row.value, row.interval.low, row.interval.high)]
        rows.append((row.label, row.share, format_estimate(*ends), f"{100 * row.chance:.1f}", str(row.n_items)))
    notes = dict.fromkeys(f"{row.interval.note}." for row in found.rows if row.interval.note)
    return Table(titles, tuple(rows), tuple(notes))


def two_by_two_records(found: TwoByTwoResult) -> list[dict[str, Any]]:
    """One flat dict a metric and share, unrounded."""
    return [
        {
            "run": row.label,
            "group": {"share": row.share},
            "metric": row.metric,
            "value": row.value,
            "low": row.interval.low,
            "high": row.interval.high,
            "chance": row.chance,
            "n_items": row.n_items,
        }
        for row in found.rows
    ]
