"""Readers of data in memory: tables, lists, generators. They are told apart by what they can do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from beholder._errors import Fault, InputError
from beholder.manifest.cells import describe
from beholder.manifest.columns import canonical_name
from beholder.manifest.schema import Sample
from beholder.manifest.source import Row, RowReader

_BATCH = 256


class ListReader(RowReader):
    """A list of rows, of samples, or of outputs (paths, pictures, arrays)."""

    nothing = "the list is empty"

    def __init__(self, items: Sequence[Any], name: str = "the list of rows") -> None:
        super().__init__()
        self._items, self.name = items, name

    def rows(self, *, check: bool = False, light: bool = False) -> Iterator[Row]:
        for number, item in enumerate(self._items, 1):
            yield number, as_row(item, number)

    def count(self) -> int:
        return len(self._items)


class StreamReader(RowReader):
    """An iterator of rows or samples; it can be read once."""

    replayable = False
    nothing = "the iterator gave no rows"

    def __init__(self, items: Iterable[Any], name: str = "the iterator") -> None:
        super().__init__()
        self._items, self.name = items, name

    def rows(self, *, check: bool = False, light: bool = False) -> Iterator[Row]:
        for number, item in enumerate(self._items, 1):
            yield number, as_row(item, number)


class BatchReader(RowReader):
    """A table of some library, through a function that gives its rows anew, as mappings.

    Args:
        name: what messages call it.
        columns: its columns.
        rows: gives the rows.
        length: number of rows, when it is known.
    """

    nothing = "the table has no rows"

    def __init__(
        self, name: str, columns: Sequence[str], rows: Callable[[], Iterator[Mapping[str, Any]]], length: int | None
    ) -> None:
        super().__init__()
        self.name, self._columns, self._make, self._length = name, tuple(map(str, columns)), rows, length

    def columns(self) -> tuple[str, ...]:
        return self._columns

    def count(self) -> int | None:
        return self._length

    def rows(self, *, check: bool = False, light: bool = False) -> Iterator[Row]:
        for name in sorted({name for name in self._columns if self._columns.count(name) > 1}):
            yield 0, Fault("the table has this column twice", where=name)
        yield from enumerate(self._make(), 1)


def columns_reader(data: Mapping[Any, Any]) -> RowReader | None:
    """A reader for a mapping of columns, one list each; None for a mapping that is none.

    Raises:
        InputError: the lists are of unequal length.
    """
    named = any(canonical_name(str(name)) == "output" for name in data)
    if not named or not all(isinstance(column, list | tuple) for column in data.values()):
        return None
    lengths = {str(name): len(column) for name, column in data.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
        raise InputError("the mapping of columns", [Fault(f"columns must be of equal length; {shown}")])

    def rows() -> Iterator[Mapping[str, Any]]:
        for cells in zip(*data.values()):
            yield dict(zip(lengths, cells))

    return BatchReader("the mapping of columns", list(lengths), rows, next(iter(lengths.values())))


def as_row(item: Any, number: int) -> Mapping[str, Any] | Sample | Fault:
    """A mapping or sample as it is; a path, picture or array as an output without a prompt."""
    if isinstance(item, Sample | Mapping):
        return item
    if isinstance(item, str | bytes | os.PathLike) or _is_picture(item):
        return {"output": item}
    text = f"each row must be a mapping of columns, a Sample, a path or a picture; got {describe(item)}"
    return Fault(text, row=number)


def table_reader(data: Any) -> RowReader | None:
    """A reader for pandas, polars, pyarrow and `datasets` tables; None for anything else."""
    if _is_picture(data):
        return None
    for recognise in (_huggingface, _arrow, _polars, _pandas):
        reader = recognise(data)
        if reader is not None:
            return reader
    return None


def _is_picture(item: Any) -> bool:
    is_array = hasattr(item, "shape") and hasattr(item, "dtype")
    return is_array or (hasattr(item, "getbands") and hasattr(item, "size"))


def _huggingface(data: Any) -> RowReader | None:
    if not (hasattr(data, "with_format") and hasattr(data, "features") and hasattr(data, "column_names")):
        return None

    def rows() -> Iterator[Mapping[str, Any]]:
        # Arrow format gives the stored cells {bytes, path}; any other would decode every picture on the way.
        for table in data.with_format("arrow").iter(batch_size=_BATCH):
            yield from table.to_pylist()

    columns = data.column_names or list(data.features or ())
    return BatchReader("the dataset", columns, rows, len(data) if hasattr(data, "__len__") else None)


def _arrow(data: Any) -> RowReader | None:
    if not (hasattr(data, "to_batches") and hasattr(data, "schema")):
        return None

    def rows() -> Iterator[Mapping[str, Any]]:
        for batch in data.to_batches():
            for start in range(0, batch.num_rows, _BATCH):
                yield from batch.slice(start, _BATCH).to_pylist()

    return BatchReader("the Arrow table", list(data.schema.names), rows, getattr(data, "num_rows", None))


def _polars(data: Any) -> RowReader | None:
    if not hasattr(data, "iter_rows"):
        return None
    return BatchReader("the data frame", list(data.columns), lambda: data.iter_rows(named=True), len(data))


def _pandas(data: Any) -> RowReader | None:
    if not (hasattr(data, "itertuples") and hasattr(data, "columns")):
        return None
    columns = [str(column) for column in data.columns]

    def rows() -> Iterator[Mapping[str, Any]]:
        for cells in data.itertuples(index=False, name=None):
            yield dict(zip(columns, cells))

    return BatchReader("the data frame", columns, rows, len(data))
