"""Further aggregates of a metric: means of other values that its rows have (missing masks as 0, detection rate …)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from beholder.metrics.base import SampleMetric
from beholder.records import Status, Summary
from beholder.runs.columns import STATUSES, PartedTable

_CODES = {Status(status): code for code, status in enumerate(STATUSES)}


def other_values(table: PartedTable, label: str, metric: SampleMetric) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By aggregate: the values that the rows have in it (0 where none), and the places of their statuses in `STATUSES`.

    A row that has one is ok; one that is ok and has none gets the status `other_missing` of its metric.
    """
    values = {name: np.zeros(table.rows) for name in metric.other_aggregates}
    codes = {name: np.zeros(table.rows, dtype=np.int8) for name in metric.other_aggregates}
    names = [label, f"{label}_status", f"{label}_evidence"]
    read = [_items(table, name) for name in names]
    for row, (value, status, evidence) in enumerate(zip(*read, strict=True)):
        found = metric.other_values(value, Status(status), json.loads(evidence) if evidence else {})
        lost = metric.other_missing if status == Status.OK.value else Status(status)
        for name in metric.other_aggregates:
            other = found.get(name)
            if other is None:
                codes[name][row] = _CODES[lost]
            else:
                values[name][row] = other
    return {name: (values[name], codes[name]) for name in metric.other_aggregates}


def _items(table: PartedTable, name: str) -> Iterator[Any]:
    """A column's values one after the other; None throughout where there is no such column."""
    if name not in table.names:
        return itertools.repeat(None, table.rows)
    return itertools.chain.from_iterable(part.to_pylist() for part in table.parts(name))


def other_summaries(found: Sequence[Summary], aggregate: str) -> list[Summary]:
    """The headline summaries under the aggregate's own name."""
    return [
        replace(
            item,
            aggregate=aggregate,
            headline=False,
            note="; ".join(part for part in (f"{item.aggregate} mean", item.note) if part),
        )
        for item in found
        if item.headline
    ]
