"""What papers add to a table: the best value in bold, the second underlined, ± beside it, marks of significance.

Rows compete when they differ in nothing but the run and the method: a category is not better than another one.
Values that print alike are equal, so both are best. A metric without a direction has no best value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from beholder._errors import OptionError
from beholder.records import Summary
from beholder.report.numbers import decimals_for, format_estimate, format_value

INTERVAL = "interval"
SPREADS = (INTERVAL, "pm", "none")
"""What stands beside a value: its interval, ± half of the interval's length, or nothing."""

BEST, SECOND = "best", "second"
"""Styles of cells."""

MARK = "*"
_COMPETE = ("run", "method")


@dataclass(frozen=True)
class Cell:
    """One cell that competes: its value, where more is better, and how it prints."""

    goodness: float
    text: str


GroupKey = tuple[tuple[str, str | None], ...]


def group_key(group: Mapping[str, object]) -> GroupKey:
    """A group without its method, by which rows of tables and of comparisons are matched."""
    named = ((name, None if value is None else _plain(value)) for name, value in group.items() if name != "method")
    return tuple(sorted(named, key=lambda item: item[0]))


def _plain(value: object) -> str:
    """Equal numbers are equal texts, whether they were kept as whole numbers or not."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


@dataclass(frozen=True)
class Marks:
    """Cells that differ from a baseline.

    Args:
        baseline: what they differ from.
        different: (run, method or None, label, group) of each; a group is ((column, value as text or None), …) without
            the method, in the order of the columns' names, and () for all rows.
        level: confidence level.
        units: what the intervals rest on: "prompts", "concepts", or both where rows differ.
    """

    baseline: str
    different: frozenset[tuple[str, str | None, str, GroupKey]]
    level: float
    units: str = "prompts"


def check_spread(name: str) -> None:
    """Refuses what `--ci` does not take.

    Raises:
        OptionError: it is none of `SPREADS`.
    """
    if name not in SPREADS:
        raise OptionError(f"--ci must be one of: {', '.join(SPREADS)}", got=repr(name))


def format_with_spread(value: float | None, low: float | None, high: float | None, spread: str) -> str:
    """A value with what stands beside it.

    >>> format_with_spread(0.27527, 0.2701, 0.2804, "pm")
    '0.2753 ± 0.0051'
    >>> format_with_spread(0.27527, 0.2701, 0.2804, "none")
    '0.2753'
    """
    if spread == INTERVAL:
        return format_estimate(value, low, high)
    text = format_value(value, low, high)
    if spread == "none" or value is None or low is None or high is None:
        return text
    return f"{text} ± {(high - low) / 2:.{decimals_for(value, low, high)}f}"


def competitors(group: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """What rows must share to compete."""
    return tuple((name, repr(value)) for name, value in group.items() if name not in _COMPETE)


def styles_of(
    rows: Sequence[tuple[tuple[tuple[str, str], ...], Sequence[Cell | None]]], *, first: int
) -> dict[tuple[int, int], str]:
    """The best and the second cell of each column and each set of rows that compete, by (row, column).

    Args:
        rows: by row of the table: the set it competes in, and its cells.
        first: column of the first cell.
    """
    styles: dict[tuple[int, int], str] = {}
    for family in dict.fromkeys(name for name, _ in rows):
        members = [at for at, (name, _) in enumerate(rows) if name == family]
        for column in range(len(rows[members[0]][1])):
            found = [(cell, at) for at in members if (cell := rows[at][1][column]) is not None]
            # The order of what is printed: equal texts are one place.
            places = list(dict.fromkeys(cell.text for cell, _ in sorted(found, key=lambda pair: -pair[0].goodness)))
            if len(places) < 2:
                continue
            for cell, at in found:
                place = places.index(cell.text)
                if place < 2:
                    styles[at, first + column] = (BEST, SECOND)[place]
    return styles


def marked_cell(text: str, item: Summary | None, run: str, marks: Marks | None) -> str:
    """The cell with a mark where it differs from the baseline."""
    if marks is None or item is None:
        return text
    method = item.group.get("method")
    named = (run, None if method is None else str(method), item.label, group_key(item.group))
    return text + MARK if item.headline and named in marks.different else text


def mark_note(marks: Marks | None) -> list[str]:
    """What a mark means."""
    if marks is None:
        return []
    return [
        f"{MARK} differs from {marks.baseline} (paired, over {marks.units}: the {marks.level * 100:g} % interval "
        f"excludes 0, and p ≤ {1 - marks.level:.2g} after Holm)."
    ]


def spread_note(spread: str, shown: Sequence[Summary]) -> list[str]:
    """What ± means."""
    if spread != "pm" or not any(item.low is not None for item in shown):
        return []
    levels = sorted({item.level for item in shown if item.low is not None})
    return [f"± is half the length of the {' or '.join(f'{level * 100:g} %' for level in levels)} interval."]
