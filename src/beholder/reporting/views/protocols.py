"""Which view a protocol's results have: one of their own, else their tables."""

from __future__ import annotations

from collections.abc import Sequence

from beholder.protocols.results import Results
from beholder.report.html.data import Samples, View
from beholder.report.protocol import counts_text
from beholder.reporting.views.cells import table_data
from beholder.reporting.views.opens2v import opens2v_view
from beholder.reporting.views.subjects import PROTOCOLS, subject_view
from beholder.runs.results import Run


def protocol_view(run: Run, name: str, results: Results, samples: Samples, sides: Sequence[int]) -> View:
    """The view of a protocol's results over one run.

    Args:
        run: the run.
        name: how it is called.
        results: its tables.
        samples: all samples of the report.
        sides: which sides of the report are of this run.
    """
    if results.protocol in PROTOCOLS:
        return subject_view(run, name, results, samples, sides)
    if results.protocol == "opens2v":
        return opens2v_view(run, name, results, samples, sides)
    data = {
        "facts": [f"Counted in the data: {counts_text(results.counts)}.", *results.notices],
        "tables": [table_data(table) for table in results.tables],
    }
    return View("tables", results.protocol, f"{results.protocol}: {name}", data)
