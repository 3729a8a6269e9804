"""How many samples stand behind the cells of a table that has no room to say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from beholder.records import Summary

_NAMED_PLACES = 12
"""Places that one note names; of more it says how many."""

_Row = tuple[str, Sequence["tuple[str, Summary | None]"]]


def missing_text(missing: Mapping[str, int]) -> str:
    """Counts by status, most frequent first.

    >>> missing_text({"missing": 1, "unreadable": 2})
    '3 (2 unreadable, 1 missing)'
    """
    counts = {str(status): count for status, count in missing.items() if count}
    if not counts:
        return "0"
    parts = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return f"{sum(counts.values())} ({', '.join(f'{count} {status}' for status, count in parts)})"


def listed(places: Sequence[str]) -> str:
    """Places in one line, of many the first few."""
    if len(places) <= _NAMED_PLACES:
        return "; ".join(places)
    return "; ".join(places[:_NAMED_PLACES]) + f"; and {len(places) - _NAMED_PLACES} more"


def count_notes(rows: Sequence[_Row]) -> list[str]:
    """n and missing values by status of every cell with a value, each count said once.

    Args:
        rows: what each row is called ("" for a table of one row), and its cells as (label, summary or None).
    """
    told: dict[str, list[str]] = {}
    for name, cells in rows:
        found = {label: _counted(item) for label, item in cells if item is not None and item.value is not None}
        whole = len(set(found.values())) == 1
        for label, text in list(found.items())[: 1 if whole else None]:
            told.setdefault(text, []).append(name if whole else f"{name}, {label}" if name else label)
    if len(told) == 1:
        (text,) = told
        return [f"Every cell: {text}."]
    return [f"{listed(places)}: {text}." for text, places in told.items()]


def _counted(item: Summary) -> str:
    missing = missing_text(item.n_missing)
    return f"n = {item.n}, " + ("none missing" if missing == "0" else f"missing {missing}")
