"""A run as a user meets it: header, scores, summary."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beholder._errors import UnknownNameError, UserError
from beholder.metrics.base import SampleMetric
from beholder.records import Status, Summary
from beholder.runs.columns import STATUSES, PartedFile, PartedTable
from beholder.runs.copies import with_copies
from beholder.runs.journal import Journal
from beholder.runs.plan import key_name
from beholder.runs.rows import conform, unify
from beholder.runs.run_json import read_run_json
from beholder.runs.summarising import Summaries


class Run:
    """A run folder, finished or not.

    Args:
        path: the folder.
        metrics: by label: metric objects that no registry knows, for what they do to aggregates.
    """

    def __init__(self, path: str | Path, *, metrics: Mapping[str, SampleMetric] | None = None) -> None:
        self.path = Path(path)
        self._own = dict(metrics or {})
        self._groups: dict[tuple[str, ...], list[Summary]] = {}
        self.header: dict[str, Any] = read_run_json(self.path)

    def __repr__(self) -> str:
        metrics = ", ".join(self.labels)
        return f"<Run {self.path} · {self.header['status']} · {self.n} samples · {metrics}>"

    @property
    def labels(self) -> list[str]:
        """Column labels of the metrics, in the order asked for."""
        return [item["label"] for item in self.header["metrics"]]

    @property
    def sample_labels(self) -> list[str]:
        """Those of the metrics that give a value a sample; metrics of whole sets have no column of values."""
        return [item["label"] for item in self._sample_metrics()]

    def _sample_metrics(self) -> list[dict[str, Any]]:
        return [item for item in self.header["metrics"] if item["info"].get("kind") != "set"]

    @property
    def finished(self) -> bool:
        """False for a run that was interrupted or is still running."""
        return self.header["status"] == "finished" and (self.path / "scores.parquet").exists()

    @property
    def scores(self) -> pa.Table:
        """One row a sample: the input's columns, then value, status, reason and evidence of each metric.

        Read from the disk each time. Of an unfinished run: the rows that are scored so far.
        """
        return self._columns(None)

    @cached_property
    def n(self) -> int:
        """Number of samples."""
        if self.finished:
            with self._readable():
                return int(pq.read_metadata(self.path / "scores.parquet").num_rows)
        return int(self.scores.num_rows)

    @cached_property
    def n_faults(self) -> int:
        """Samples with a fault (missing, unreadable, failed …) in at least one metric."""
        faults = [code for code, status in enumerate(STATUSES) if Status(status).is_fault]
        with self._opened() as table:
            bad = np.zeros(table.rows, dtype=bool)
            for label in self.labels:
                bad |= np.isin(table.statuses(f"{label}_status"), faults)
        return int(bad.sum())

    @property
    def fault_share(self) -> float:
        """Share of the samples with a fault; 0 for a run without samples."""
        return self.n_faults / self.n if self.n else 0.0

    @property
    def exit_code(self) -> int:
        """0, or 3 when more samples have a fault than the run's `max_failed` allows."""
        return 3 if self.fault_share > self.header["asked"]["max_failed"] else 0

    @property
    def notices(self) -> list[str]:
        """What the user should know beside the numbers."""
        return list(self.header["notices"])

    @cached_property
    def summary(self) -> list[Summary]:
        """Aggregates with intervals: over all samples, by method where there are several, and by the run's `by`."""
        try:
            stored = json.loads((self.path / "summary.json").read_text(encoding="utf-8")) if self.finished else None
            if stored is not None:
                return [Summary(**row) for row in stored["rows"]]
        except (OSError, ValueError, TypeError, KeyError):
            pass  # a killed process leaves scores without a summary; it is made of them alone
        return self.summarise(by=[name for name in self.header["asked"]["by"] if name in self.columns])

    def summarise(self, by: str | Sequence[str] = (), *, measure_sets: bool = True) -> list[Summary]:
        """Aggregates over all samples and by a column, or the combination of some; never a new run.

        Metrics of whole sets are measured for groups that the run was not asked for, from the features in its store:
        for neighbours and kernels that takes as long as it took in the run. Where they are no longer there, the value
        of all samples says so in its note.

        Args:
            by: columns.
            measure_sets: False leaves such groups of metrics of whole sets away.

        Raises:
            OptionError: a column that holds a metric's values.
            UnknownNameError: the run has no such column.
        """
        from beholder.runs.inputs import check_not_scores, group_columns

        by, names = group_columns((by,) if isinstance(by, str) else by), self.columns
        check_not_scores(by, self.labels)
        for column in by:
            if column not in names:
                raise UnknownNameError("column", column, names, fix="Columns: " + ", ".join(names))
        asked = self.header["asked"]
        rows: list[Summary] = []
        with self._opened() as table:
            settings = {key: asked[key] for key in ("seed", "resamples", "level")}
            summaries = Summaries(table, by=by, **settings)
            for item in self._sample_metrics():
                named = item["identity"], item["label"], self._finisher(item)
                rows += summaries.of(*named)
                if item.get("other_aggregates"):
                    rows += summaries.of_others(*named, self._metric(item))
        return [*with_copies(rows, self.header["metrics"]), *self._set_values(by, measure=measure_sets)]

    def _set_values(self, by: Sequence[str], *, measure: bool) -> list[Summary]:
        """Values of metrics of whole sets: as the run made them, and for groups that it was not asked for."""
        rows = read_sets(self.path)
        kept = {frozenset(), frozenset({"method"}), frozenset(by)}
        made = {frozenset(row.group) for row in rows}
        found = [row for row in rows if frozenset(row.group) in kept]
        if not rows or not by or frozenset(by) in made:
            return found
        told = "not asked for"
        if measure and self.finished:
            try:
                return _by_metric([*found, *self._measured(tuple(by))])
            except UserError as error:
                told = str(error)
        told = f"no values by {', '.join(by)} ({told}): give the command of the run again with --by {' --by '.join(by)}"
        return [
            replace(row, note="; ".join(part for part in (row.note, told) if part)) if not row.group else row
            for row in found
        ]

    def _measured(self, by: tuple[str, ...]) -> list[Summary]:
        """Values of set metrics by some columns, measured once."""
        from beholder.runs.set_groups import measure_groups

        if by not in self._groups:
            self._groups[by] = measure_groups(self.path, self.header, by, self._own)
        return self._groups[by]

    def _finisher(self, item: Mapping[str, Any]) -> Callable[[float], float]:
        """What a metric does to an aggregate. Most take the mean as it is, so the metric itself need not be here."""
        return float if item.get("plain_mean") else self._metric(item).finish_aggregate

    def _metric(self, item: Mapping[str, Any]) -> SampleMetric:
        from beholder._identity import parse_spec
        from beholder.metrics.base import make_metric

        return self._own.get(item["label"]) or make_metric(parse_spec(item["identity"]))

    def save_summary(self, rows: Sequence[Summary]) -> None:
        """Writes `summary.json`."""
        from beholder.runs.store import write_atomic

        data = {"schema": self.header["schema"], "rows": [asdict(row) for row in rows]}
        text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False, default=str)
        write_atomic(self.path / "summary.json", text.encode())

    @property
    def columns(self) -> list[str]:
        """Names of the columns of `scores`."""
        if self.finished:
            with self._readable():
                return list(pq.read_schema(self.path / "scores.parquet").names)
        return list(self.scores.column_names)

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Some columns of `scores`, without reading the others; those that the run has not are left out."""
        return self._columns([name for name in columns if name in self.columns])

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowInvalid) as error:
            raise UserError(
                f"the scores of {self.path} must be readable",
                got=str(error),
                fix="Give the command of the run again: it writes the tables anew and computes nothing twice",
            ) from error

    @contextmanager
    def _opened(self) -> Iterator[PartedTable]:
        """The columns of `scores`, to be read in parts."""
        if not self.finished:
            yield PartedTable(self.scores)
            return
        with self._readable(), PartedFile(self.path / "scores.parquet") as table:
            yield table

    def _columns(self, names: Sequence[str] | None) -> pa.Table:
        if self.finished:
            with self._readable():
                return pq.read_table(self.path / "scores.parquet", columns=None if names is None else list(names))
        from beholder.runs.finish import with_final_scores
        from beholder.runs.plan import group_name

        sets = [label for label in self.labels if label not in self.sample_labels]
        table = _journal_table(self.path / "journal.bin", self.sample_labels, sets)
        for item in self._sample_metrics():
            if group_name(item["label"]) in table.column_names:
                table = with_final_scores(table, item["label"], self._metric(item))
        return table if names is None else table.select([name for name in names if name in table.column_names])


def _by_metric(rows: Sequence[Summary]) -> list[Summary]:
    """Rows of one metric behind one another, in the order of the metrics."""
    order = {label: at for at, label in enumerate(dict.fromkeys(row.label for row in rows))}
    return sorted(rows, key=lambda row: order[row.label])


def write_sets(folder: Path, rows: Sequence[Summary]) -> None:
    """Writes `sets.json`, or removes one that an earlier summary left."""
    from beholder.runs.store import write_atomic

    if not rows:
        (folder / "sets.json").unlink(missing_ok=True)
        return
    text = json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False, allow_nan=False, default=str)
    write_atomic(folder / "sets.json", text.encode())


def read_sets(folder: Path) -> list[Summary]:
    """The values of metrics of whole sets in a run folder; none where there is no such file."""
    try:
        return [Summary(**row) for row in json.loads((folder / "sets.json").read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return []


def _journal_table(path: Path, labels: Sequence[str], sets: Sequence[str] = ()) -> pa.Table:
    empty = pa.table({"id": pa.array([], pa.string())})
    for label in sets:
        empty = empty.append_column(f"{label}_status", pa.array([], pa.string()))
    for label in labels:
        empty = empty.append_column(label, pa.array([], pa.float64()))
        empty = empty.append_column(f"{label}_status", pa.array([], pa.string()))
    if not path.exists():
        return empty
    with Journal(path, write=False) as journal:
        tables = list(journal.tables())
    tables = [
        table.drop_columns([name for name in map(key_name, sets) if name in table.column_names]) for table in tables
    ]
    schema = unify([empty.schema, *[table.schema for table in tables]])
    return _newest(pa.concat_tables([conform(table, schema) for table in [empty, *tables]]))


def _newest(table: pa.Table) -> pa.Table:
    """One row for each id: the journal also holds chunks of an input that has changed since."""
    last = {name: row for row, name in enumerate(table.column("id").to_pylist())}
    return table if len(last) == table.num_rows else table.take(sorted(last.values()))


def open_run_folder(path: str | Path) -> Run:
    """A run from its folder."""
    return Run(path)
