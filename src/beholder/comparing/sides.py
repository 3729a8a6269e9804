"""What is compared: runs, or the methods of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beholder._errors import OptionError, UnknownNameError, UserError
from beholder.runs.results import Run, open_run_folder

RunLike = Union[str, Path, Run]

CANDIDATES = ("task", "concept", "knowledge_id", "prompt_id", "prompt", "seed")
"""Columns that rows may be paired on."""


@dataclass(frozen=True)
class Side:
    """One side of a comparison.

    Args:
        name: how it is called.
        header: the header of its run.
        table: its rows.
        labels: labels of the metrics it has.
        run: name of its run.
        method: its method, where its run has several.
    """

    name: str
    header: Mapping[str, Any]
    table: pa.Table
    labels: tuple[str, ...]
    run: str
    method: str | None = None

    def entry(self, label: str) -> Mapping[str, Any]:
        """What the header says of a metric."""
        return next(item for item in self.header["metrics"] if item["label"] == label)

    def values(self, label: str) -> tuple[np.ndarray, np.ndarray]:
        """(n,) values, 0 where there is none, and (n,) whether there is one."""
        ok = np.asarray(pc.equal(self.table.column(f"{label}_status"), "ok").fill_null(False), dtype=bool)
        return np.where(ok, np.asarray(self.table.column(label).fill_null(0.0), dtype=np.float64), 0.0), ok

    def missing(self, label: str, rows: np.ndarray) -> dict[str, int]:
        """Rows without a value among those chosen, by status."""
        statuses = self.table.column(f"{label}_status").filter(pa.array(rows))
        counted = pc.value_counts(statuses).to_pylist()
        return {str(item["values"]): item["counts"] for item in counted if item["values"] != "ok"}


def opened(runs: Sequence[RunLike]) -> list[Run]:
    """The runs, opened where they are named by their folders."""
    return [run if isinstance(run, Run) else open_run_folder(run) for run in runs]


def run_names(runs: Sequence[Run]) -> list[str]:
    """Names that tell the runs apart: the folders' names, else their paths."""
    names = [run.path.resolve().name for run in runs]
    return names if len(set(names)) == len(names) else [str(run.path) for run in runs]


def make_sides(runs: Sequence[Run], *, extra: Sequence[str] = (), least: int = 2) -> list[Side]:
    """Sides of runs: one a run, or one a method where a run has several.

    Args:
        runs: the runs.
        extra: further columns to read.
        least: how many sides there must be.

    Raises:
        UserError: fewer sides than that, or one run named twice.
    """
    paths = [run.path.resolve() for run in runs]
    if len(set(paths)) < len(paths):
        twice = dict.fromkeys(str(run.path) for run, path in zip(runs, paths) if paths.count(path) > 1)
        raise OptionError(
            "runs to compare must differ", got=f"one folder named twice: {', '.join(twice)}", fix="Name each once"
        )
    sides: list[Side] = []
    for run, name in zip(runs, run_names(runs)):
        sides += _sides_of(run, name, alone=len(runs) == 1, extra=extra)
    if len(sides) < least:
        raise UserError(
            "a comparison needs two runs, or a run with two methods",
            got=", ".join(side.name for side in sides) or "none",
            fix="Name a second run folder, or give the rows a column `method`",
        )
    return sides


def _sides_of(run: Run, name: str, *, alone: bool, extra: Sequence[str]) -> list[Side]:
    known = run.columns
    for column in extra:
        if column not in known:
            raise UnknownNameError("column", column, known, fix=f"Columns of {name}: " + ", ".join(known))
    scored = [part for label in run.labels for part in (label, f"{label}_status")]
    table = run.read(list(dict.fromkeys(["id", "method", *CANDIDATES, *extra, *scored])))
    # Metrics of whole sets have no column of values.
    labels = tuple(label for label in run.labels if label in table.column_names)
    methods = methods_of(table)
    if len(methods) < 2:
        return [Side(name, run.header, table, labels, name)]
    column = texts(table, "method")
    return [
        Side(
            method if alone else f"{name}:{method}", run.header, table.filter(pc.equal(column, method)), labels, name,
            method,
        )
        for method in methods
    ]  # fmt: skip


def methods_of(table: pa.Table) -> list[str]:
    """The methods that rows name, in the order of first appearance."""
    if "method" not in table.column_names:
        return []
    return [str(item) for item in pc.unique(texts(table, "method")).to_pylist() if item is not None]


def texts(table: pa.Table, name: str) -> pa.ChunkedArray:
    """A column as text; equal numbers are equal texts, whether they were kept as whole numbers or not."""
    column = table.column(name)
    if pa.types.is_list(column.type):
        return pc.binary_join(column, "|")
    if pa.types.is_floating(column.type):
        values = column.to_pylist()
        plain = [None if v is None else str(int(v)) if float(v).is_integer() else repr(v) for v in values]
        return pa.chunked_array([pa.array(plain, pa.string())])
    return column.cast(pa.string())
