"""What the end of a run holds in memory: numbers of all rows, but of their texts only some at a time."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from beholder.metrics.base import SampleMetric
from beholder.runs.columns import PartedFile, PartedTable, numbered
from beholder.runs.finish import write_tables
from beholder.runs.journal import Frame
from beholder.runs.plan import PlannedMetric, group_name
from beholder.runs.results import Run
from beholder.stats import bootstrap

ROWS = 1024
"""Rows a frame."""
TEXT = 500
"""Bytes of a prompt."""
ALLOWED = 160
"""Bytes a row: several numbers of 8 bytes, and much less than one text."""


def held(work: Callable[[], Any]) -> int:
    """The most bytes that some work holds at once, in Python and in Arrow."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] + pool.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)


def texts(start: int, rows: int) -> pa.Array:
    return pa.array([f"{row:0{TEXT}d}" for row in range(start, start + rows)])


def scored(start: int, rows: int) -> pa.Table:
    """Rows as a frame has them."""
    columns = {
        "id": pa.array([str(row) for row in range(start, start + rows)]),
        "prompt": texts(start, rows),
        "m": pa.array(np.arange(start, start + rows) % 97 / 7.0),
        "m_status": pa.array(["ok"] * rows),
        group_name("m"): texts(start, rows),
    }
    return pa.table(columns)


def run_folder(folder: Path, frames: int) -> Run:
    """A finished run of so many frames."""
    folder.mkdir()
    info = {"kind": "sample", "name": "m", "inputs": []}
    header = {
        "asked": {"seed": 0, "resamples": 100, "level": 0.95, "by": [], "max_failed": 0.1},
        "metrics": [{"label": "m", "identity": "m", "plain_mean": True, "info": info}],
        "notices": [],
        "schema": 1,
        "status": "finished",
    }
    (folder / "run.json").write_text(json.dumps(header), encoding="utf-8")
    with pq.ParquetWriter(folder / "scores.parquet", scored(0, 1).schema) as writer:
        for at in range(frames):
            writer.write_table(scored(at * ROWS, ROWS))
    return Run(folder)


def test_a_summary_holds_no_column_of_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "MOST_RESAMPLED_UNITS", 100)  # draws are held in blocks of one size
    few, many = run_folder(tmp_path / "few", 8), run_folder(tmp_path / "many", 32)
    held(few.summarise)  # what is imported and made once
    grown = held(many.summarise) - held(few.summarise)
    assert grown / (24 * ROWS) < ALLOWED
    (row,) = many.summarise()
    assert row.n == row.n_units == 32 * ROWS


class _Frames:
    """Frames that are made when they are read."""

    def read(self, frame: Frame) -> pa.Table:
        return scored(frame.offset * ROWS, ROWS)


class _Same:
    """The raw values as those of their groups: what of a metric the tables need."""

    info = SimpleNamespace(kind="sample")
    groups: Sequence[np.ndarray] = ()

    def score_groups(self, values: np.ndarray, groups: Sequence[np.ndarray]) -> Any:
        self.groups = groups
        return SimpleNamespace(values=values, statuses={})


def test_tables_are_written_with_one_frame_in_memory(tmp_path: Path) -> None:
    metric = _Same()
    planned = [PlannedMetric(cast(SampleMetric, metric), "m", ())]

    def write(count: int) -> None:
        write_tables(tmp_path, _Frames(), [Frame(at, {"rows": ROWS}) for at in range(count)], planned)

    held(lambda: write(1))
    # Every row is a group of its own, and a group is an array.
    allowed = ALLOWED + 3 * np.zeros(1).__sizeof__()
    assert (held(lambda: write(8)) - held(lambda: write(2))) / (6 * ROWS) < allowed
    assert [group.tolist() for group in metric.groups] == [[row] for row in range(2 * ROWS)]
    assert pq.read_metadata(tmp_path / "scores.parquet").num_rows == 2 * ROWS


def test_small_frames_share_row_groups(tmp_path: Path) -> None:
    class Small:
        def read(self, frame: Frame) -> pa.Table:
            return scored(frame.offset, 10).select(["id", "m", "m_status"])

    frames = [Frame(10 * at, {"rows": 10}) for at in range(30)]
    write_tables(tmp_path, Small(), frames, [PlannedMetric(cast(SampleMetric, _Same()), "m", ())])
    found = pq.read_metadata(tmp_path / "scores.parquet")
    assert (found.num_rows, found.num_row_groups) == (300, 1)
    assert pq.read_table(tmp_path / "scores.parquet")["id"].to_pylist() == [str(row) for row in range(300)]


COLUMNS = {
    "texts": pa.array(["b", "", None, "a", "b", None, "a"]),
    "whole": pa.array([3, 1, None, 3, -1, 2**53 + 1, 2**53]),
    "real": pa.array([0.5, None, -0.0, 0.0, 0.5, 1e300, 1e-300]),
    "truth": pa.array([True, None, False, True, True, False, None]),
    "lists": pa.array([["a", "b"], None, [], ["a|b"], ["b", "a"], [None], ["b"]], pa.list_(pa.string())),
    "none": pa.nulls(7),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_in_parts_are_told_apart_as_whole_ones(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.concat_tables([pa.table(COLUMNS), pa.table(COLUMNS).slice(2)])
    column = table[name].combine_chunks()
    whole = pc.dictionary_encode(pc.binary_join(column, "|") if name == "lists" else column)
    codes, labels = whole.indices.fill_null(-1).to_pylist(), whole.dictionary.to_pylist()
    pq.write_table(table, tmp_path / "table.parquet", row_group_size=5)
    monkeypatch.setattr("beholder.runs.columns._ROWS", 3)
    with PartedFile(tmp_path / "table.parquet") as stored:
        for parted in (PartedTable(table), stored):
            assert parted.labels(name)[0].tolist() == codes
            assert parted.labels(name)[1] == [label for label in labels if label is not None]
            found = parted.codes(name)
            assert np.flatnonzero(found < 0).tolist() == np.flatnonzero(np.array(codes) < 0).tolist()
            assert numbered(found[found >= 0]).tolist() == [code for code in codes if code >= 0]


def test_rows_are_numbered_as_their_values_appear() -> None:
    values = np.random.default_rng(0).integers(0, 300, 1000)
    known: dict[int, int] = {}
    assert numbered(values).tolist() == [known.setdefault(value, len(known)) for value in values.tolist()]
    assert numbered(np.zeros(0, dtype=np.int64)).tolist() == []
