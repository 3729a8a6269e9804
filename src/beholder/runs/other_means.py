"""Further aggregates of a metric: means of other values that its rows have (missing masks as 0, detection rate …)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from beholder.metrics.base import SampleMetric
from beholder.records import Status, Summary


def other_columns(table: pa.Table, label: str, metric: SampleMetric) -> dict[str, pa.Table]:
    """By aggregate: the table with the values that the rows have in it, and the status ok where they have one.

    A row that is ok and has no value in an aggregate gets the status `other_missing` of its metric there.
    """
    names = [label, f"{label}_status", f"{label}_evidence"]
    columns = [
        table.column(name).to_pylist() if name in table.column_names else [None] * table.num_rows for name in names
    ]
    values: dict[str, list[float | None]] = {name: [] for name in metric.other_aggregates}
    statuses: dict[str, list[str]] = {name: [] for name in metric.other_aggregates}
    for value, status, evidence in zip(*columns, strict=True):
        found = metric.other_values(value, Status(status), json.loads(evidence) if evidence else {})
        for name in metric.other_aggregates:
            other = found.get(name)
            values[name].append(other)
            lost = metric.other_missing.value if status == Status.OK.value else status
            statuses[name].append(lost if other is None else Status.OK.value)
    return {
        name: _with(
            table, {label: pa.array(values[name], pa.float64()), names[1]: pa.array(statuses[name], pa.string())}
        )
        for name in metric.other_aggregates
    }


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


def _with(table: pa.Table, columns: dict[str, Any]) -> pa.Table:
    for name, column in columns.items():
        table = table.set_column(table.column_names.index(name), name, column)
    return table
