"""Planning a manifest of a million rows (form, ids, count; nothing computed) beside reading it with pyarrow."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from beholder.manifest import open_source
from benchmarks.table import Row, at_most, seconds

COUNT = 1_000_000
TIMES = 3
_READERS: dict[str, Callable[[str], object]] = {
    "csv": pa.csv.read_csv,
    "jsonl": pa.json.read_json,
    "parquet": pq.read_table,
}


def measure(folder: Path) -> list[Row]:
    _write(folder)
    found = []
    for suffix, read in _READERS.items():
        path = str(folder / f"rows.{suffix}")
        plain = min(seconds(lambda: read(path)) for _ in range(TIMES))  # noqa: B023  (called at once)
        ours = min(seconds(lambda: _plan(path)) for _ in range(TIMES))  # noqa: B023
        found.append(
            at_most(f"planning {COUNT:,} rows of .{suffix}, against reading them with pyarrow", ours, plain, 5)
        )
    return found


def _plan(path: str) -> None:
    source = open_source(path)
    source.check()
    if source.count() != COUNT:
        raise RuntimeError(f"{path} must have {COUNT} rows; got {source.count()}")


def _write(folder: Path) -> None:
    numbers = range(COUNT)
    table = pa.table(
        {
            "id": [f"s{at:07d}" for at in numbers],
            "output": [f"out/method{at % 4}/{at // 4:06d}_{at % 4}.png" for at in numbers],
            "prompt": [f"a photo of scene number {at // 8} with a red object" for at in numbers],
            "method": [f"method{at % 4}" for at in numbers],
            "prompt_id": [str(at // 8) for at in numbers],
            "seed": [at % 8 for at in numbers],
        }
    )
    pq.write_table(table, folder / "rows.parquet")
    pa.csv.write_csv(table, folder / "rows.csv")
    with open(folder / "rows.jsonl", "w", encoding="utf-8") as out:
        for batch in table.to_batches(max_chunksize=10_000):
            out.writelines(json.dumps(row) + "\n" for row in batch.to_pylist())
