"""Columns of a run as arrays of numbers, read in parts: of a text column no more than one part is in memory.

A million prompts take 100 MB and more as texts, and 4 MB as codes that say which are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beholder.records import Status

STATUSES = [status.value for status in Status]
"""What status codes stand for; 0 is ok."""

_ROWS = 1 << 12
"""Rows in a part."""


class PartedTable:
    """The columns of a table that is in memory.

    Args:
        table: the table.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.names: Sequence[str] = table.column_names
        self.rows: int = table.num_rows

    def parts(self, name: str) -> Iterator[pa.Array]:
        """A column in parts, in the order of its rows."""
        for chunk in self._table.column(name).chunks:
            for start in range(0, len(chunk), _ROWS):
                yield chunk.slice(start, _ROWS)

    def numbers(self, name: str) -> np.ndarray:
        """(n,) float64 values; 0 where there is none."""
        return self._filled(name, np.float64, lambda part: pc.fill_null(part, 0).to_numpy())

    def statuses(self, name: str) -> np.ndarray:
        """(n,) int8 places in `STATUSES`."""
        known = pa.array(STATUSES)
        # A status that is not known has no place, and `to_numpy` refuses a column with a hole.
        return self._filled(name, np.int8, lambda part: pc.index_in(part, value_set=known).to_numpy())

    def codes(self, name: str) -> np.ndarray:
        """(n,) integers, the same where the values are the same (see `same_texts`); −1 where there is none."""
        return same_texts(self.parts(name), self.rows)

    def labels(self, name: str) -> tuple[np.ndarray, list[Any]]:
        """(n,) int32 places in the list of the column's values, −1 where there is none; and that list."""
        encoded = [pc.dictionary_encode(_plain(part)) for part in self.parts(name)]
        if not encoded:
            return np.zeros(0, dtype=np.int32), []
        whole = pa.chunked_array(encoded).unify_dictionaries()
        codes = [np.asarray(chunk.indices.fill_null(-1), dtype=np.int32) for chunk in whole.chunks]
        return np.concatenate(codes), whole.chunk(0).dictionary.to_pylist()

    def _filled(self, name: str, kind: type[np.generic], convert: Callable[[pa.Array], np.ndarray]) -> np.ndarray:
        found = np.empty(self.rows, dtype=kind)
        at = 0
        for part in self.parts(name):
            found[at : at + len(part)] = convert(part)
            at += len(part)
        return found


class PartedFile(PartedTable):
    """The columns of a Parquet file, which stays open until this is closed.

    Args:
        path: the file.

    Raises:
        OSError, ArrowInvalid: it cannot be read; reading columns raises them too.
    """

    def __init__(self, path: Path) -> None:
        self._file = pq.ParquetFile(path)
        self.names = self._file.schema_arrow.names
        self.rows = self._file.metadata.num_rows

    def parts(self, name: str) -> Iterator[pa.Array]:
        """A column in parts, in the order of its rows."""
        for batch in self._file.iter_batches(_ROWS, columns=[name], use_threads=False):
            yield batch.column(name)

    def __enter__(self) -> PartedFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def same_texts(parts: Iterable[pa.Array], rows: int) -> np.ndarray:
    """(n,) integers, the same where the values are the same; −1 where there is none.

    They are numbered as they appear, no value being one of them. Values are told apart by 64-bit hashes of their texts;
    that two of a million different ones are taken for one has a chance of 3 in 10⁸.

    Args:
        parts: a column.
        rows: its number of rows.
    """
    hashes, none = np.empty(rows, dtype=np.int64), np.zeros(rows, dtype=bool)
    at = 0
    for part in map(_plain, parts):
        end = at + len(part)
        hashes[at:end] = text_hashes(part)
        if part.null_count:
            none[at:end] = np.asarray(part.is_null())
        at = end
    codes = numbered(hashes)
    codes[none] = -1
    return codes


def text_hashes(part: pa.Array) -> np.ndarray:
    """(n,) int64 hashes of the values as texts, good within this process."""
    texts = part if pa.types.is_string(part.type) else part.cast(pa.string())
    return np.fromiter(map(hash, texts.to_pylist()), dtype=np.int64, count=len(texts))


def numbered(values: np.ndarray) -> np.ndarray:
    """(n,) which of the different values each is, numbered as they appear.

    >>> numbered(np.array([7, 3, 7, 5, 3])).tolist()
    [0, 1, 0, 2, 1]
    """
    first = _first_rows(values)
    numbers: np.ndarray = np.cumsum(first == np.arange(len(first), dtype=first.dtype), dtype=first.dtype)
    numbers -= 1
    return np.take(numbers, first)


def _first_rows(values: np.ndarray) -> np.ndarray:
    """(n,) the first row that has the value of each."""
    kind = np.int32 if len(values) <= np.iinfo(np.int32).max else np.int64
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    new = np.ones(len(values), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    del ordered
    # Rows of one value lie together, the first of them in front: its place is carried on to the others.
    which: np.ndarray = np.cumsum(new, dtype=kind)
    which -= 1
    found = np.empty(len(values), dtype=kind)
    found[order] = order[new].astype(kind)[which]
    return found


def _plain(part: pa.Array) -> pa.Array:
    """Lists as text with `|` between the items; a column of nothing as text too."""
    if pa.types.is_null(part.type):
        return part.cast(pa.string())
    return pc.binary_join(part, "|") if pa.types.is_list(part.type) else part
