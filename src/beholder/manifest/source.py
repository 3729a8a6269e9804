"""Rows of any origin as a SampleSource."""

from __future__ import annotations

import dataclasses
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any

from beholder._errors import Fault, InputError, UserError
from beholder.manifest.ids import Ledger
from beholder.manifest.locations import is_remote, join
from beholder.manifest.quick_look import count_of_sound_rows
from beholder.manifest.root import Root
from beholder.manifest.rows import RowAdapter
from beholder.manifest.schema import Sample

Row = tuple[int, Mapping[str, Any] | Sample | Fault]
"""(1-based number, the row or what is wrong with it). Number 0 goes with faults of no one row."""

_PROBED = 32


class RowReader(ABC):
    """Reads raw rows, one at a time, from the start each time it is asked (unless `replayable` is False)."""

    name: str
    base: str = ""
    replayable: bool = True
    nothing: str = "it has no rows"

    def __init__(self) -> None:
        self.remarks: list[str] = []

    @abstractmethod
    def rows(self, *, check: bool = False, light: bool = False) -> Iterator[Row]:
        """The rows.

        Args:
            check: look also for what only a check needs (leftover files).
            light: contents of pictures that stand in the rows may be left out.
        """

    def columns(self) -> tuple[str, ...] | None:
        """The columns, when they are known before reading."""
        return None

    def count(self) -> int | None:
        """The number of rows, when it is known before reading."""
        return None

    def tables(self, mapping: Mapping[str, str]) -> Iterator[Any] | None:
        """The rows as Arrow tables for a quick look (`quick_look`); None where there is none."""
        return None


class RowSource:
    """A SampleSource over a reader: adapts columns, makes ids, finds every fault of form.

    Iteration gives every sound row and raises `InputError` after the last one when rows were at fault, so that a
    source that can be read only once loses nothing. A source that can be read again is checked before.

    Args:
        reader: where the rows come from.
        mapping: user's column → canonical column.
        value_range: range of float arrays.
        base: folder that relative paths start from; None: the reader's own.
        root: folder that every file must lie in; None: they may lie anywhere.
    """

    def __init__(
        self,
        reader: RowReader,
        *,
        mapping: Mapping[str, str] | None = None,
        value_range: tuple[float, float] | None = None,
        base: str | None = None,
        root: Root | None = None,
    ) -> None:
        self._root = root
        self._reader, self._mapping, self._value_range = reader, dict(mapping or {}), value_range
        self._base = base
        self._base_remark: str | None = None
        self._count = reader.count()
        self._head: list[Row] = []
        self._stream: Iterator[Row] | None = None

    @property
    def name(self) -> str:
        return self._reader.name

    @property
    def replayable(self) -> bool:
        return self._reader.replayable

    @property
    def columns(self) -> tuple[str, ...]:
        """The user's columns, when they are known before reading."""
        return self._reader.columns() or ()

    @property
    def base(self) -> str:
        """The folder that relative paths start from ("" for the working folder)."""
        if self._base is None:
            self._base = self._find_base()
        return self._base

    @property
    def notices(self) -> tuple[str, ...]:
        own = (self._base_remark,) if self._base_remark else ()
        return own + tuple(self._reader.remarks)

    def count(self) -> int | None:
        return self._count

    def __iter__(self) -> Iterator[Sample]:
        faults: list[Fault] = []
        yield from self._samples(self._rows(), faults)
        if faults:
            raise InputError(self.name, faults)

    def check(self) -> None:
        """Find every fault of form, without decoding media.

        A source that can be read only once is looked at as far as its first row.

        Raises:
            InputError: with all the faults.
        """
        faults: list[Fault] = []
        if not self.replayable:
            self._peek(faults)
        else:
            self._count = self._quick_count()
            if self._count is None:
                light = self._ids_are_columns()
                self._count = sum(1 for _ in self._samples(self._reader.rows(check=True, light=light), faults))
        if faults:
            raise InputError(self.name, sorted(faults, key=lambda fault: fault.row or 0))

    def examine(self, faults: list[Fault]) -> Iterator[Sample]:
        """One reading for a validation: every row that makes a sample, also under an id that was given before.

        Args:
            faults: takes the faults of form, complete after the last sample.
        """
        yield from self._samples(self._rows(check=True), faults, doubles=True)

    def _quick_count(self) -> int | None:
        """The number of rows where a look at whole columns shows that all are sound, else None."""
        if self._value_range is not None or self._root is not None or is_remote(self.base):
            return None
        tables = self._reader.tables(self._mapping)
        return None if tables is None else count_of_sound_rows(tables, self._mapping)

    def _samples(self, rows: Iterator[Row], faults: list[Fault], *, doubles: bool = False) -> Iterator[Sample]:
        from beholder.media.arrays import kept_apart

        # The next step of a generator may write into the same array.
        reused = not self.replayable
        adapter = RowAdapter(mapping=self._mapping, base=self.base, value_range=self._value_range, copy=reused)
        ledger = Ledger()
        empty = True
        for number, item in rows:
            empty = False
            if isinstance(item, Fault):
                faults.append(item)
                continue
            if isinstance(item, Sample):
                sample, by_content = item if item.row is not None else dataclasses.replace(item, row=number), False
                if reused:
                    sample = dataclasses.replace(sample, output=kept_apart(sample.output))
            elif (adapted := adapter.adapt(number, item, faults)) is not None:
                sample, by_content = adapted
            else:
                continue
            first = ledger.add(sample.id, number)
            if first is not None and by_content:
                sample, first = _numbered(sample, ledger, number), None
            outside = [] if self._root is None else list(self._root.faults(sample, number))
            faults += outside
            if first is not None:
                faults.append(_duplicate(sample, item, first, number))
            if not outside and (first is None or doubles):
                yield sample
        faults.extend(adapter.closing_faults())
        if empty:
            faults.append(Fault(self._reader.nothing))

    def _rows(self, *, check: bool = False) -> Iterator[Row]:
        if self.replayable:
            return self._reader.rows(check=check)
        if self._stream is None:
            self._stream = self._reader.rows()
        elif not self._head:
            raise UserError(
                f"{self.name} can be read only once",
                got="a second reading",
                fix="Write it to a manifest first, or hand in a list",
            )
        head, self._head = self._head, []
        return chain(head, self._stream)

    def _peek(self, faults: list[Fault]) -> None:
        if self._stream is None:
            self._stream = self._reader.rows()
            self._head = list(islice(self._stream, 1))
            if not self._head:
                faults.append(Fault(self._reader.nothing))
        for number, item in self._head:
            if isinstance(item, Fault):
                faults.append(item)
            elif not isinstance(item, Sample):
                adapter = RowAdapter(mapping=self._mapping, base=self.base, value_range=self._value_range)
                adapter.adapt(number, item, faults)

    def _ids_are_columns(self) -> bool:
        from beholder.manifest.columns import resolve

        known = {name for _, name in resolve(self.columns, self._mapping).fields}
        return "id" in known or {"prompt_id", "seed"} <= known

    def _find_base(self) -> str:
        """The manifest's folder, unless the first rows' outputs are only found from the working folder."""
        base = self._reader.base
        if not base or is_remote(base) or not self.replayable or os.path.abspath(base) == os.getcwd():
            return base
        adapter = RowAdapter(mapping=self._mapping)
        here = False
        first = list(islice(self._reader.rows(light=True), _PROBED))
        for _, item in first:
            path = None if isinstance(item, Fault | Sample) else adapter.output_path(item)
            if path is None or os.path.isabs(path) or is_remote(path):
                continue
            if os.path.exists(join(base, path)):
                return base
            here = here or os.path.exists(path)
        if here:
            self._base_remark = (
                f"relative paths are read from the working folder: the first outputs are there and not under {base}"
            )
        return "" if here else base


def _numbered(sample: Sample, ledger: Ledger, row: int) -> Sample:
    """Rows that are the same in every respect are told apart by their number."""
    again = 2
    while ledger.add(f"{sample.id}~{again}", row) is not None:
        again += 1
    return dataclasses.replace(sample, id=f"{sample.id}~{again}")


def _duplicate(sample: Sample, item: Any, first: int, row: int) -> Fault:
    given = isinstance(item, Sample) or any(str(column).lower() == "id" for column in item)
    fix = "ids must be unique" if given else "the id was made from the row; give each row an 'id' of its own"
    return Fault(f"rows {first} and {row} have one id, {sample.id!r}; {fix}", row=row, where="id")
