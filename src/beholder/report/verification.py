"""A verification as a table and as records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beholder.report.tables import Column, Table

if TYPE_CHECKING:
    from beholder.verifying import Verification, VerifiedMetric

_SHOWN = 5


def verification_table(found: Verification) -> Table:
    """One row a metric."""
    counts = ("rows", "identical", "close", "different", "largest difference")
    titles = (Column("metric"), *(Column(title, numeric=True) for title in counts), Column("first different rows"))
    verdict = "The numbers come out again." if found.passed else "The numbers do not come out again."
    gone = (f"{len(found.gone)} drawn rows are no longer in the input: {_some(found.gone)}.",) if found.gone else ()
    changes = tuple(f"Changed since: {text}." for text in found.changes)
    return Table(titles, tuple(_cells(metric) for metric in found.metrics), (verdict, *gone, *changes))


def verification_records(found: Verification) -> list[dict[str, Any]]:
    """One flat dict a metric."""
    return [
        {
            "metric": metric.identity, "label": metric.label, "checked": metric.checked, "identical": metric.identical,
            "close": metric.close, "different": list(metric.different), "largest": metric.largest, "note": metric.note,
        }
        for metric in found.metrics
    ]  # fmt: skip


def _cells(metric: VerifiedMetric) -> tuple[str, ...]:
    if metric.note is not None:
        return (metric.label, "0", "", "", "", "", f"not checked: {metric.note}")
    largest = "" if metric.largest is None else f"{metric.largest:.2g}"
    counts = (str(metric.checked), str(metric.identical), str(metric.close), str(len(metric.different)))
    return (metric.label, *counts, largest, _some(metric.different))


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")
