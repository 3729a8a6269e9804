"""The run folder of an attribute evaluation: tables in Parquet, maps in .npz, a header; and what reads them back."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beholder._errors import RunConflictError, UserError
from beholder._hashing import canonical_json
from beholder.attributing.columns import Columns
from beholder.attributing.encode import EncodedSet
from beholder.records import Status
from beholder.runs.atomic import write_atomic

HEADER = "attributes.json"


class AttributeRun:
    """A finished attribute evaluation.

    Args:
        path: its folder.

    Raises:
        UserError: the folder holds none.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if read_header(self.path) is None:
            raise UserError(f"{self.path} must be a folder written by `beholder attributes`", got="no attributes.json")

    @cached_property
    def header(self) -> dict[str, Any]:
        """What was asked, resolved and found: settings, attributes, sets, model, notices."""
        return read_header(self.path) or {}

    @property
    def scores(self) -> pa.Table:
        """One row an image: set, id, output, class_name, status, reason, and a column an attribute (null: no value)."""
        return pq.read_table(self.path / "scores.parquet")

    @property
    def attributes(self) -> pa.Table:
        """One row a generated set and attribute, with every statistic, interval, null level, p and q."""
        return pq.read_table(self.path / "attributes.parquet")

    @property
    def pairs(self) -> pa.Table:
        """One row a generated set and pair of attributes: PaD and the dependence term."""
        return pq.read_table(self.path / "pairs.parquet")

    @property
    def sets(self) -> pa.Table:
        """One row a generated set, the nearest to the reference first."""
        return pq.read_table(self.path / "sets.parquet")

    @property
    def n(self) -> int:
        """Images of all sets."""
        return int(self.scores.num_rows)

    @property
    def n_faults(self) -> int:
        """Images of all sets with a fault (missing, unreadable, failed …)."""
        return sum(Status(status).is_fault for status in self.scores.column("status").to_pylist())

    @property
    def fault_share(self) -> float:
        """Share of the images with a fault; 0 without images."""
        return self.n_faults / self.n if self.n else 0.0

    def maps(self, name: str | None = None) -> dict[str, np.ndarray]:
        """Arrays (C, rows, columns) of a generated set (the only one by default): ref_mean, gen_mean, r_sad and more.

        `valid` (C,) tells which attributes have maps; where it is False the numbers mean nothing.

        Raises:
            UserError: no such set, or a run without maps.
        """
        names = self.header["generated"]
        chosen = name if name is not None else (names[0] if len(names) == 1 else None)
        if chosen not in names:
            raise UserError("maps are asked for by a generated set's name", got=repr(name), fix=", ".join(names))
        path = self.path / "maps" / f"{names.index(chosen):03d}.npz"
        if not path.is_file():
            raise UserError(f"the run {self.path} holds no maps")
        with np.load(path, allow_pickle=False) as found:
            return dict(found)


def read_header(path: Path) -> dict[str, Any] | None:
    """The header of a finished run, or None."""
    try:
        found = json.loads((path / HEADER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def claim(path: Path, key: str, *, overwrite: bool) -> bool:
    """True when the folder holds exactly this evaluation already.

    Raises:
        RunConflictError: it holds something else.
    """
    header = read_header(path)
    if header is not None and header.get("key") == key:
        return True
    if overwrite:
        return False
    if header is not None or (path.exists() and any(path.iterdir())):
        what = "an evaluation of other inputs or settings" if header is not None else "other files"
        raise RunConflictError(
            f"the run folder {path} must be new or hold this evaluation",
            got=what,
            fix="Name another with -o, or replace it with --overwrite",
        )
    return False


def write_run(
    path: Path,
    header: Mapping[str, Any],
    encoded: Sequence[EncodedSet],
    names: Sequence[str],
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    columns: Mapping[str, Columns],
    maps: Sequence[Mapping[str, np.ndarray]],
) -> AttributeRun:
    """Writes everything; the header last, so that a folder with one is whole. `columns` are those of each table."""
    path.mkdir(parents=True, exist_ok=True)
    (path / HEADER).unlink(missing_ok=True)
    _write_table(path / "scores.parquet", _scores_table(encoded, names))
    for name, rows in tables.items():
        _write_table(path / f"{name}.parquet", _table(rows, columns[name]))
    for at, arrays in enumerate(maps):
        if arrays:
            (path / "maps").mkdir(exist_ok=True)
            buffer = io.BytesIO()
            np.savez(buffer, **arrays)  # type: ignore[arg-type]
            write_atomic(path / "maps" / f"{at:03d}.npz", buffer.getvalue())
    write_atomic(path / HEADER, (canonical_json(dict(header)) + "\n").encode())
    return AttributeRun(path)


def _scores_table(encoded: Sequence[EncodedSet], names: Sequence[str]) -> pa.Table:
    ok = np.concatenate([side.ok for side in encoded])
    scores = np.concatenate([side.scores for side in encoded])
    columns: dict[str, Any] = {
        "set": [side.name for side in encoded for _ in side.ids],
        "id": [item for side in encoded for item in side.ids],
        "output": [item for side in encoded for item in side.outputs],
        "class_name": pa.array([item for side in encoded for item in side.classes], pa.string()),
        "status": [item.value for side in encoded for item in side.statuses],
        "reason": pa.array([item for side in encoded for item in side.reasons], pa.string()),
    }
    for c, name in enumerate(names):
        columns[f"score: {name}"] = pa.array(scores[:, c], pa.float64(), mask=~ok)
    return pa.table(columns)


def _table(rows: Sequence[Mapping[str, Any]], columns: Columns) -> pa.Table:
    """Rows as a table of these columns; mappings as JSON text, what a row has not is null.

    Raises:
        KeyError: a row with a column that is not among them.
    """
    unknown = {name for row in rows for name in row} - set(columns)
    if unknown:
        raise KeyError(f"no column of this table: {', '.join(sorted(unknown))}")
    made = {}
    for name, kind in columns.items():
        values = [row.get(name) for row in rows]
        values = [canonical_json(value) if isinstance(value, Mapping) else value for value in values]
        made[name] = pa.array(values, pa.type_for_alias(kind))
    return pa.table(made)


def _write_table(path: Path, table: pa.Table) -> None:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    write_atomic(path, buffer.getvalue())
