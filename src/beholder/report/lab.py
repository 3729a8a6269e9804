"""What the lab says, as tables and records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beholder.report.tables import Column, Table
from beholder.stats.bca import plural

if TYPE_CHECKING:
    from beholder.lab.records import Effect, LabReport, Reaction


def summary_table(found: LabReport) -> Table:
    """What each metric moves with and what it is blind to."""
    titles = ("metric", "moves with", "blind to", "unclear", "not tried")
    rows = []
    for label in found.metrics:
        mine = [item for item in found.reactions if item.metric == label]
        cells = (", ".join(item.change for item in mine if item.verdict == verdict) or "-" for verdict in titles[1:])
        rows.append((label, *cells))
    names = tuple(f"{label}: {identity}." for label, identity in found.metrics.items() if label != identity)
    notes = (f"{found.n} samples; {100 * found.level:g} % intervals over {plural(found.unit)}.", *names)
    return Table(tuple(Column(title) for title in titles), tuple(rows), (*notes, *_reasons(found)))


def _reasons(found: LabReport) -> list[str]:
    """Why changes were not tried, and what has no value, each once."""
    told: dict[str, list[str]] = {}
    for item in found.reactions:
        if item.note:
            told.setdefault(f"{item.metric}, not tried: {item.note}", []).append(item.change)
        missing = item.effects[-1].missing
        if missing and not item.note:
            counts = ", ".join(f"{count} {status}" for status, count in missing.items())
            told.setdefault(f"{item.metric}, changed samples without a value: {counts}", []).append(item.change)
    return [f"{text} ({', '.join(changes)})." for text, changes in told.items()]


def effects_table(found: LabReport) -> Table:
    """One row a metric, change and degree."""
    titles = (
        Column("metric"), Column("change"), Column("degree"), Column("n", numeric=True), Column("missing"),
        Column("Δ value", numeric=True), Column("interval", numeric=True), Column("in sd", numeric=True),
        Column("worse in", numeric=True), Column("monotone in", numeric=True), Column("verdict"),
    )  # fmt: skip
    rows = [_cells(item, effect) for item in found.reactions for effect in item.effects if effect.n]
    note = (
        "Δ = changed − original; in sd: in standard deviations of the metric's values over the samples; worse in: "
        "share of the samples; monotone in: share of the samples whose value never rises again as the degree rises."
    )
    return Table(titles, tuple(rows), (note,))


def lab_records(found: LabReport) -> list[dict[str, Any]]:
    """One flat dict a metric, change and degree, unrounded."""
    return [
        {
            "metric": item.metric, "change": item.change, "degree": effect.level, "n": effect.n,
            "missing": dict(effect.missing), "delta": effect.change, "low": effect.low, "high": effect.high,
            "level": found.level, "unit": found.unit, "n_units": item.n_units, "in_sd": effect.in_sd,
            "worse": effect.falls, "worse_low": effect.falls_low, "worse_high": effect.falls_high,
            "monotone": item.monotone, "monotone_low": item.monotone_low, "monotone_high": item.monotone_high,
            "verdict": item.verdict, "note": item.note,
        }
        for item in found.reactions
        for effect in item.effects
    ]  # fmt: skip


def _cells(item: Reaction, effect: Effect) -> tuple[str, ...]:
    interval = "" if effect.low is None or effect.high is None else f"{effect.low:+.4f} to {effect.high:+.4f}"
    last = effect is item.effects[-1]
    return (
        item.metric, item.change, effect.level, str(effect.n),
        ", ".join(f"{count} {status}" for status, count in effect.missing.items()) or "0",
        "" if effect.change is None else f"{effect.change:+.4f}", interval,
        "" if effect.in_sd is None else f"{effect.in_sd:+.2f}",
        _share(effect.falls, effect.falls_low, effect.falls_high),
        _share(item.monotone, item.monotone_low, item.monotone_high) if last else "",
        item.verdict if last else "",
    )  # fmt: skip


def _share(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return ""
    ends = "" if low is None or high is None else f" [{100 * low:.0f}, {100 * high:.0f}]"
    return f"{100 * value:.0f} %{ends}"
