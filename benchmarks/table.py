"""Rows of a benchmark table."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Key = TypeVar("Key", str, int)


@dataclass(frozen=True)
class Row:
    """One ratio.

    Args:
        what: what was measured.
        ours: our figure.
        other: the figure beside it.
        unit: unit of both ("s", "MB").
        ratio: the figure that the target is about.
        target: the target, as text ("≤ 1.15").
        met: whether it is met.
        reason: why there are no figures, for what cannot run here.
    """

    what: str
    ours: float
    other: float
    unit: str
    ratio: float
    target: str
    met: bool
    reason: str | None = None


def at_most(what: str, ours: float, other: float, limit: float, *, unit: str = "s") -> Row:
    """A row whose ratio ours / other must not pass a limit."""
    return Row(what, ours, other, unit, ours / other, f"≤ {limit:g}", ours / other <= limit)


def at_least(what: str, ours: float, other: float, limit: float, *, unit: str = "s") -> Row:
    """A row whose ratio other / ours (how many times faster) must reach a limit."""
    return Row(what, ours, other, unit, other / ours, f"≥ {limit:g}", other / ours >= limit)


def not_runnable(what: str, reason: str) -> Row:
    """A row for what cannot run here."""
    nothing = float("nan")
    return Row(what, nothing, nothing, "s", nothing, "", False, reason)


def difference(what: str, ours: float, other: float, limit: float, *, unit: str = "s") -> Row:
    """A row whose difference ours − other must not pass a limit."""
    return Row(what, ours, other, unit, ours - other, f"difference ≤ {limit:g} {unit}", ours - other <= limit)


def format_rows(rows: Sequence[Row]) -> str:
    """Rows as a Markdown table."""
    lines = ["| what | ours | beside it | ratio | target | met |", "|---|---|---|---|---|---|"]
    for row in rows:
        if row.reason is not None:
            lines.append(f"| {row.what} | | not runnable: {row.reason} | | | |")
            continue
        met = "yes" if row.met else "**no**"
        figures = f"{row.ours:.3f} {row.unit} | {row.other:.3f} {row.unit} | {row.ratio:.3f}"
        lines.append(f"| {row.what} | {figures} | {row.target} | {met} |")
    return "\n".join(lines)


def median_seconds(call: Callable[[], object], *, times: int) -> float:
    """Median time of some calls."""
    return statistics.median(seconds(call) for _ in range(times))


def seconds(call: Callable[[], object]) -> float:
    """Time of one call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def in_turns(calls: Mapping[str, Callable[[], object]], *, times: int) -> dict[str, float]:
    """Seconds of two calls that take turns: those of the turn whose ratio is the middle one."""
    first, second = calls
    turns = [{name: seconds(call) for name, call in calls.items()} for _ in range(times)]
    return middle(turns, first, second)


def middle(turns: Sequence[dict[Key, float]], first: Key, second: Key) -> dict[Key, float]:
    """The turn with the middle ratio, of an odd number of turns."""
    return sorted(turns, key=lambda turn: turn[second] / turn[first])[len(turns) // 2]
