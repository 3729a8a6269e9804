"""From journal frames to the tables of a finished run, streamed: one frame in memory at a time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from beholder.metrics.base import SampleMetric
from beholder.runs.columns import same_texts
from beholder.runs.journal import Frame
from beholder.runs.plan import PlannedMetric, group_name, key_name, of_samples, of_sets, score_names
from beholder.runs.rows import KEPT_COLUMNS, conform, unify

_ROW_GROUP = 1 << 18
"""Bytes that make a row group: more of them make the writer's dictionaries larger than what they save."""


class FrameReader(Protocol):
    """Gives the rows of a frame: a journal, or the journals of several parts."""

    def read(self, frame: Frame) -> pa.Table: ...


def write_tables(path: Path, journal: FrameReader, frames: Sequence[Frame], metrics: Sequence[PlannedMetric]) -> None:
    """Writes `scores.parquet` and `scores.csv`, whole or not at all, rows in the order of the input."""
    schema = _column_order(unify(journal.read(frame).schema for frame in frames), metrics)
    grouped = _grouped_scores(journal, frames, [m for m in metrics if group_name(m.label) in schema.names])
    inner = {group_name(m.label) for m in metrics} | {key_name(m.label) for m in of_sets(metrics)}
    kept = pa.schema([item for item in schema if item.name not in inner])
    temporary = [path / ".scores.parquet.tmp", path / ".scores.csv.tmp"]
    try:
        flat = pa.schema([pa.field(item.name, _flat_type(item.type)) for item in kept])
        with pq.ParquetWriter(temporary[0], kept) as parquet, pyarrow.csv.CSVWriter(temporary[1], flat) as text:
            for table in _joined(conform(table, kept) for table in _scored_tables(journal, frames, grouped)):
                parquet.write_table(table)
                text.write_table(_flatten(table))
        os.replace(temporary[0], path / "scores.parquet")
        os.replace(temporary[1], path / "scores.csv")
    finally:
        for item in temporary:
            with suppress(OSError):
                item.unlink(missing_ok=True)


def _joined(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Small tables as fewer larger ones: each becomes a row group, and all groups' descriptions stay in memory."""
    held: list[pa.Table] = []
    size = 0
    for table in tables:
        held.append(table)
        size += table.nbytes
        if size >= _ROW_GROUP:
            yield pa.concat_tables(held)
            held, size = [], 0
    if held:
        yield pa.concat_tables(held)


def _column_order(schema: pa.Schema, metrics: Sequence[PlannedMetric]) -> pa.Schema:
    """The user's columns first, then each metric's in the order asked for.

    Canonical columns have their places whichever chunk has them first, so that shards make the table of one process.
    """
    scored = [name for planned in metrics for name in score_names(planned.label)]
    places = {name: at for at, name in enumerate(KEPT_COLUMNS)}
    own = [item for item in schema if item.name not in scored]
    own.sort(key=lambda item: places.get(item.name, len(places)))
    return pa.schema(own + [schema.field(name) for name in scored if name in schema.names])


GroupScores = tuple[np.ndarray, dict[int, tuple[str, str]]]
"""Values of all rows, and status and reason of those that have none."""

Grouped = dict[str, GroupScores]


def _grouped_scores(journal: FrameReader, frames: Sequence[Frame], metrics: Sequence[PlannedMetric]) -> Grouped:
    """Final scores of the metrics whose value depends on a group of rows (win probabilities), by label."""
    result: Grouped = {}
    for planned in of_samples(metrics):
        name = group_name(planned.label)
        values = np.concatenate([_raw_values(journal.read(frame), planned.label) for frame in frames])
        keys = (_group_keys(journal.read(frame), name) for frame in frames)
        result[planned.label] = _final(planned.metric, values, same_texts(keys, len(values)))
    return result


def _final(metric: SampleMetric, values: np.ndarray, codes: np.ndarray) -> GroupScores:
    """Final scores from raw ones (NaN where there is none) and every row's group, −1 where it has none."""
    scored = np.flatnonzero(~np.isnan(values) & (codes >= 0))
    order = scored[np.argsort(codes[scored], kind="stable")]
    groups = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(order) else []
    final = metric.score_groups(values, groups)
    statuses = {row: (status.value, reason) for row, (status, reason) in final.statuses.items()}
    return np.asarray(final.values, dtype=np.float64), statuses


def with_final_scores(table: pa.Table, label: str, metric: SampleMetric) -> pa.Table:
    """A table of all rows as the journal has them, where values that depend on other rows replace the raw ones."""
    name = group_name(label)
    if name not in table.column_names:
        return table
    codes = same_texts([_group_keys(table, name)], table.num_rows)
    final = _final(metric, _raw_values(table, label), codes)
    return _with_group_scores(table.drop_columns([name]), label, *final, 0)


def _raw_values(table: pa.Table, label: str) -> np.ndarray:
    """A copy: a view would keep all of the frame in memory."""
    return np.array(table.column(label).combine_chunks().fill_null(float("nan")))


def _group_keys(table: pa.Table, name: str) -> pa.Array:
    if name not in table.column_names:
        return pa.nulls(table.num_rows, pa.string())
    return table.column(name).combine_chunks()


def _scored_tables(journal: FrameReader, frames: Sequence[Frame], grouped: Grouped) -> Iterator[pa.Table]:
    start = 0
    for frame in frames:
        table = journal.read(frame)
        for label, (values, statuses) in grouped.items():
            table = _with_group_scores(table, label, values, statuses, start)
        start += table.num_rows
        yield table


def _with_group_scores(
    table: pa.Table, label: str, values: np.ndarray, changed: dict[int, tuple[str, str]], start: int
) -> pa.Table:
    """Replaces raw scores by those that depend on the group; rows in `changed` lose their value."""
    value_name, status_name, reason_name = score_names(label)[:3]
    rows = table.num_rows
    statuses = table.column(status_name).to_pylist()
    reasons = table.column(reason_name).to_pylist() if reason_name in table.column_names else [None] * rows
    for row in range(start, start + rows):
        if row in changed:
            statuses[row - start], reasons[row - start] = changed[row]
    none = np.array([status != "ok" for status in statuses])
    part = np.where(none, 0.0, values[start : start + rows])
    table = _set(table, value_name, pa.array(part, pa.float64(), mask=none))
    table = _set(table, status_name, pa.array(statuses, pa.string()))
    return _set(table, reason_name, pa.array(reasons, pa.string()))


def _set(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), name, column)
    return table.append_column(name, column)


def _flat_type(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_list(kind) else kind


def _flatten(table: pa.Table) -> pa.Table:
    """Lists as text with `|` between the items, as CSV manifests have them."""
    for at, item in enumerate(table.schema):
        if pa.types.is_list(item.type):
            table = table.set_column(at, item.name, pc.binary_join(table.column(at), "|"))
    return table
