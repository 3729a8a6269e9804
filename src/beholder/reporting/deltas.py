"""Differences to the baseline in words."""

from __future__ import annotations

from beholder.comparing.records import Compared, SetCompared
from beholder.report.comparison import p_text
from beholder.report.html.data import Delta
from beholder.report.numbers import decimals_for, format_interval, format_number


def sample_delta(row: Compared) -> Delta:
    """The difference of a metric of samples."""
    found = row.difference
    if found.value is None:
        return Delta("—", row.verdict, found.note or "no pair has values on both sides")
    low, high = found.interval.low, found.interval.high
    detail = (
        f"p {p_text(found.p.value)}, after Holm {p_text(row.holm)}; {found.n_pairs} pairs, {found.n_prompts} prompts"
    )
    return Delta(signed(found.value, low, high), row.verdict, detail)


def set_delta(row: SetCompared) -> Delta:
    """The difference of a metric of whole sets."""
    if row.difference is None:
        return Delta("—", row.verdict, row.note or "a side has no value")
    detail = f"sets of {row.n_b} and {row.n_a}; taken as independent, not corrected for several metrics"
    return Delta(signed(row.difference, row.low, row.high), row.verdict, detail)


def signed(value: float, low: float | None, high: float | None) -> str:
    """A difference with its sign and its interval."""
    text = format_number(value, decimals_for(value, low, high))
    sign = "" if text.startswith("-") else "+"
    return f"{sign}{text} {format_interval(value, low, high) if low is not None else ''}".strip().replace("-", "−")
