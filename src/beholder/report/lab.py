"""What the lab says, as tables and records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beholder.report.tables import Column, Table

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
    return Table(tuple(Column(title) for title in titles), tuple(rows), (f"{found.n} samples.", *names))


def effects_table(found: LabReport) -> Table:
    """One row a metric, change and degree."""
    titles = (
        Column("metric"), Column("change"), Column("degree"), Column("n", numeric=True),
        Column("Δ value", numeric=True), Column("interval", numeric=True), Column("in sd", numeric=True),
        Column("worse in", numeric=True), Column("verdict"),
    )  # fmt: skip
    rows = [_cells(item, effect) for item in found.reactions for effect in item.effects if effect.n]
    note = "Δ = changed − original; in sd: in standard deviations of the metric's values over the samples."
    return Table(titles, tuple(rows), (note,))


def lab_records(found: LabReport) -> list[dict[str, Any]]:
    """One flat dict a metric, change and degree, unrounded."""
    return [
        {
            "metric": item.metric, "change": item.change, "degree": effect.level, "n": effect.n,
            "delta": effect.change, "low": effect.low, "high": effect.high, "in_sd": effect.in_sd,
            "worse": effect.falls, "monotone": item.monotone, "verdict": item.verdict, "note": item.note,
        }
        for item in found.reactions
        for effect in item.effects
    ]  # fmt: skip


def _cells(item: Reaction, effect: Effect) -> tuple[str, ...]:
    interval = "" if effect.low is None or effect.high is None else f"{effect.low:+.4f} to {effect.high:+.4f}"
    last = effect is item.effects[-1]
    return (
        item.metric, item.change, effect.level, str(effect.n),
        "" if effect.change is None else f"{effect.change:+.4f}", interval,
        "" if effect.in_sd is None else f"{effect.in_sd:+.2f}",
        "" if effect.falls is None else f"{100 * effect.falls:.0f} %",
        item.verdict if last else "",
    )  # fmt: skip
