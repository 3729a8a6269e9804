"""Values of metrics of whole sets, at the end of a run: by group, with intervals, as summaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from beholder._errors import NoValue, OptionError
from beholder.metrics.sets import FeatureSet, FittedSet, Memo, SetMetric, SetSettings
from beholder.records import Summary
from beholder.runs.finish import FrameReader
from beholder.runs.inputs import group_columns
from beholder.runs.journal import Frame
from beholder.runs.plan import PlannedMetric, key_name, of_sets, score_names
from beholder.runs.real import Fault, Real, RealKeys, set_metric, size_fault
from beholder.runs.set_features import SetRow, SetSpaces, Shelf, StoredSet

_PART = "\0part"  # no column of a user
_UNIT = ("method", "concept", "prompt_id", "prompt")
Group = tuple[tuple[str, Any], ...]


@dataclass
class _Rows:
    """Rows of one metric in one group: those with a feature, and those without one by status."""

    rows: list[SetRow]
    lost: Counter[str]


@dataclass(frozen=True)
class SetAsk:
    """How a run asked for its sets to be measured.

    Args:
        seed, level: of the intervals; the seed also draws pictures.
        n: pictures that are drawn of each set, or None.
        by: columns to group by.
        alone: True measures the groups of `by` and nothing else.
    """

    seed: int
    level: float
    n: int | None
    by: tuple[str, ...]
    alone: bool = False

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> SetAsk:
        """From the settings that stand in a run's header."""
        return cls(asked["seed"], asked["level"], asked["n"], tuple(group_columns(asked["by"])))


class SetValues:
    """Measures the sets of a finished run.

    Args:
        asked: how.
        shelf: where features are.
        spaces: by label of a metric: in which spaces.
        real: the real set, or None.
        keys: the keys of its features.
    """

    def __init__(
        self, asked: SetAsk, shelf: Shelf, spaces: Mapping[str, SetSpaces], real: Real | None, keys: RealKeys
    ) -> None:
        self._asked, self._shelf, self._spaces, self._real, self._keys = asked, shelf, spaces, real, keys
        self._settings = SetSettings(asked.seed, asked.level)
        self._memos: dict[Any, Memo] = {}

    def summaries(
        self, reader: FrameReader, frames: Sequence[Frame], metrics: Sequence[PlannedMetric]
    ) -> list[Summary]:
        """Values of every metric of sets: over all samples, by method where there are several, and by the run's groups.

        Raises:
            OptionError: a metric has a value in no group, and more than groups were asked for.
        """
        found: list[Summary] = []
        for planned in of_sets(metrics):
            rows, faults = self._of_metric(reader, frames, planned)
            if not self._asked.alone and faults and not any(row.value is not None for row in rows):
                raise OptionError(faults[0][0], got=faults[0][1], fix=faults[0][2] or None)
            found += rows
        return found

    def _of_metric(
        self, reader: FrameReader, frames: Sequence[Frame], planned: PlannedMetric
    ) -> tuple[list[Summary], list[Fault]]:
        groups = _read_groups(reader, frames, planned, self._asked)
        rows: list[Summary] = []
        faults: list[Fault] = []
        for group, own in groups.items():
            row, fault = self._of_group(planned, group, own)
            rows.append(row)
            faults += [fault] if fault else []
        return rows, faults

    def _of_group(self, planned: PlannedMetric, group: Group, own: _Rows) -> tuple[Summary, Fault | None]:
        metric = set_metric(planned)
        gen = self._stored(planned, own.rows)
        real: StoredSet | FittedSet | None = None
        if metric.needs_real and self._real is not None:
            real = self._real.fitted or self._stored(planned, self._keys.rows[planned.label])
        size = None if real is None else real.n
        n = self._asked.n if _is_drawn(metric) else None
        fault = size_fault(metric, gen.n, size, n, fitted=isinstance(real, FittedSet))
        base: dict[str, Any] = {
            "metric": metric.identity, "label": planned.label, "aggregate": "set", "level": self._asked.level,
            "n_missing": dict(own.lost), "group": dict(group),
        }  # fmt: skip
        sides, found, by_nature = None, None, False
        if fault is None:
            sides = self._drawn(metric, gen, real, n)
            memo = self._memos.setdefault((group, self._spaces[planned.label].still.hash), {})
            try:
                found = metric.measure(sides[0], sides[1], self._settings, memo)
            except NoValue as error:
                fault = f"{metric.identity} needs more in a set: {error.status}", error.reason, ""
                by_nature = metric.may_be_missing
        if sides is None or found is None:
            must, got, fix = fault or ("", "", "")
            told = f"{must}; got {got}. {fix}".strip()
            return Summary(
                **base, value=None, low=None, high=None, ci_method=None, unit="picture", n=gen.n, n_units=0, note=told
            ), None if by_nature else fault  # fmt: skip
        notes = [found.note, _drawn_note(n, gen.n, real, self._asked.seed)]
        return Summary(
            **base, value=float(found.value), low=found.low, high=found.high, sd=found.sd, ci_method=found.ci_method,
            unit=found.unit, n=sides[0].n, n_units=found.n_units or sides[0].n,
            note="; ".join(note for note in notes if note) or None,
        ), None  # fmt: skip

    def _drawn(
        self, metric: SetMetric, gen: StoredSet, real: StoredSet | FittedSet | None, n: int | None
    ) -> tuple[FeatureSet, FeatureSet | FittedSet | None]:
        """The two sets as they are, or n pictures of each."""
        if n is not None:
            gen = gen.chosen(n, self._settings.rng("gen"))
            real = real.chosen(n, self._settings.rng("real")) if isinstance(real, StoredSet) else real
        return gen.features(), real.features() if isinstance(real, StoredSet) else real

    def _stored(self, planned: PlannedMetric, rows: Sequence[SetRow]) -> StoredSet:
        return StoredSet(self._shelf, self._spaces[planned.label], rows)


def _drawn_note(n: int | None, gen: int, real: StoredSet | FittedSet | None, seed: int) -> str | None:
    """Which pictures were drawn; None where all take part."""
    sides = [("generated", gen)] + ([("real", real.n)] if isinstance(real, StoredSet) else [])
    drawn = [f"{n} of {size} {name} pictures" for name, size in sides if n is not None and n < size]
    return f"{' and '.join(drawn)} drawn (seed {seed})" if drawn else None


def _is_drawn(metric: SetMetric) -> bool:
    """True where `--n` draws pictures: not where a value is made prompt by prompt."""
    return metric.needs_real or metric.options.get("over") == "set"


def _read_groups(
    reader: FrameReader, frames: Sequence[Frame], planned: PlannedMetric, asked: SetAsk
) -> dict[Group, _Rows]:
    """Rows of every group: all samples first, then by method where there are several, then by the run's columns."""
    key, status = key_name(planned.label), score_names(planned.label)[1]
    by = asked.by
    groupings = [by] if asked.alone else list(dict.fromkeys([(), ("method",), by]))
    groups: dict[Group, _Rows] = {} if asked.alone else {(): _Rows([], Counter())}
    units: dict[tuple[Any, ...], int] = {}
    for row in _rows(reader, frames, [key, status, *_UNIT, *by]):
        prompt = row["prompt_id"] if row["prompt_id"] is not None else row["prompt"]
        unit = units.setdefault((row["method"], row["concept"], prompt), len(units))
        for columns in groupings:
            group = groups.setdefault(tuple((name, row[name]) for name in columns), _Rows([], Counter()))
            if row[status] == "ok" and row[key] is not None:
                group.rows.append(SetRow(row[key], unit, row[_PART]))
            else:
                group.lost[str(row[status])] += 1
    methods = [group for group in groups if [name for name, _ in group] == ["method"]]
    if len(methods) < 2 and by != ("method",):
        for alone in methods:
            del groups[alone]
    order = {columns: at for at, columns in enumerate(groupings)}
    return dict(
        sorted(groups.items(), key=lambda item: (order[tuple(n for n, _ in item[0])], [str(v) for _, v in item[0]]))
    )


def _rows(reader: FrameReader, frames: Sequence[Frame], names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """Some columns of all rows, None where a frame has not the column; one frame in memory at a time."""
    for frame in frames:
        table = reader.read(frame)
        columns = {name: _values(table, name) for name in dict.fromkeys(names)}
        columns[_PART] = [frame.part] * table.num_rows
        for values in zip(*columns.values()):
            yield dict(zip(columns, values))


def _values(table: pa.Table, name: str) -> list[Any]:
    if name not in table.column_names:
        return [None] * table.num_rows
    column = table.column(name)
    if pa.types.is_list(column.type):
        column = pc.binary_join(column, "|")
    values: list[Any] = column.to_pylist()
    return values
