"""Blocks of a manifest file as Arrow tables, only where Arrow reads them exactly as the row readers do.

Arrow reads a million rows in a second or two, where a row at a time takes half a minute. But its parsers are more
lenient here and there (a stray quote in CSV, two objects on one line of JSON Lines). So each block is looked at first,
and whatever is not certain to be read alike raises `Uncertain`: the caller then goes through the rows, and whatever is
wrong is told by the readers that know its row.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from beholder.manifest.locations import open_binary

_BLOCK = 1 << 19
_LONGEST = 1 << 25
_DEEPEST = 200
_PARQUET_ROWS = 1 << 14
_QUOTE, _NEWLINE, _RETURN = b'"\n\r'
_OPENING, _CLOSING, _LIST = b"{}["
_MARK = b"\xef\xbb\xbf"


class Uncertain(Exception):
    """The rows have to be looked at one by one."""


def csv_tables(location: str, columns: tuple[str, ...], separator: str, wanted: list[str]) -> Iterator[Any]:
    """Tables of text columns of a CSV file; "" is an empty cell."""
    import pyarrow as pa
    import pyarrow.csv

    types = dict.fromkeys(wanted, pa.string())
    convert = pyarrow.csv.ConvertOptions(column_types=types, include_columns=wanted, strings_can_be_null=False)
    for block in _csv_blocks(location, columns, separator):
        several = _check_quotes(block, separator)
        parse = pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=several)
        read = pyarrow.csv.ReadOptions(column_names=list(columns), block_size=len(block))
        try:
            table = pyarrow.csv.read_csv(pa.BufferReader(block), read, parse, convert)
        except (pa.ArrowException, ValueError) as error:
            raise Uncertain from error
        yield table


def json_tables(location: str) -> Iterator[Any]:
    """Tables of a JSON Lines file."""
    import pyarrow as pa
    import pyarrow.json

    names: dict[str, Any] = {}
    for block in _blocks(location, lambda data: data.rfind(b"\n") + 1):
        count = _check_lines(block)
        if not names:
            names = _text_columns(block)
        parse = pyarrow.json.ParseOptions(explicit_schema=pa.schema(list(names.items())))
        try:
            read = pyarrow.json.ReadOptions(block_size=max(len(block), 1))
            table = pyarrow.json.read_json(pa.BufferReader(block), read, parse)
        except (pa.ArrowException, ValueError) as error:
            raise Uncertain from error
        if table.num_rows != count:
            raise Uncertain
        yield table


def parquet_tables(file: Any) -> Iterator[Any]:
    """Tables of an open Parquet file; texts that are not UTF-8 and damaged pages are uncertain."""
    import pyarrow as pa

    if not all(_always_readable(field.type) for field in file.schema_arrow):
        raise Uncertain
    try:
        for batch in file.iter_batches(batch_size=_PARQUET_ROWS):
            batch.validate(full=True)
            yield pa.Table.from_batches([batch])
    except (pa.ArrowException, ValueError, OSError) as error:
        raise Uncertain from error


def _always_readable(kind: Any) -> bool:
    """Whether every value of a type has one in Python; a date in the year 20,000 has none."""
    import pyarrow.types as types

    if types.is_struct(kind):
        return all(_always_readable(field.type) for field in kind)
    if types.is_list(kind) or types.is_large_list(kind):
        return _always_readable(kind.value_type)
    simple = types.is_primitive(kind) and not types.is_temporal(kind)
    texts = types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind)
    return simple or texts or types.is_null(kind) or types.is_decimal(kind)


def _blocks(location: str, cut: Any) -> Iterator[bytes]:
    """The file in pieces that end with a row; `cut` says how much of some bytes are whole rows."""
    with open_binary(location) as handle:
        rest = _without_mark(handle)
        while True:
            data = handle.read(_BLOCK)
            block = rest + data
            if not data:
                break
            end = cut(block)
            if end == 0 and len(block) > _LONGEST:
                raise Uncertain
            if end:
                yield _checked(block[:end])
            rest = block[end:]
        if rest:
            yield _checked(rest)


def _without_mark(handle: IO[bytes]) -> bytes:
    head = handle.read(3)
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise Uncertain  # UTF-16
    return b"" if head == _MARK else head


def _checked(block: bytes) -> bytes:
    """The block, where it is UTF-8 and ends its lines as all readers see them."""
    if b"\0" in block or (b"\r" in block and block.count(b"\r") != block.count(b"\r\n")):
        raise Uncertain
    if not block.isascii():
        try:
            block.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Uncertain from error
    return block


def _csv_blocks(location: str, columns: tuple[str, ...], separator: str) -> Iterator[bytes]:
    """Blocks of a CSV file's rows, without its header."""
    first = True
    for block in _blocks(location, _end_of_rows):
        if first:
            first = False
            head, newline, block = block.partition(b"\n")
            if not newline or _header(head, separator) != columns or len(set(columns)) < len(columns):
                raise Uncertain
        if block.startswith(_MARK):
            raise Uncertain  # Arrow takes it for a byte order mark, the rows for a part of a cell
        if block:
            yield block


def _header(line: bytes, separator: str) -> tuple[str, ...]:
    try:
        cells = next(csv.reader([line.decode("utf-8")], delimiter=separator, skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        raise Uncertain from error
    return tuple(cell.strip() for cell in cells)


def _end_of_rows(data: bytes) -> int:
    """Where the last row ends: behind the last line end that stands in no quotes."""
    end = data.rfind(b"\n")
    while end >= 0 and data.count(b'"', 0, end) % 2:
        # Inside a quoted cell. The nearest line end before the quote that opened it may be outside.
        end = data.rfind(b"\n", 0, max(data.rfind(b'"', 0, end), 0))
    return end + 1


def _check_quotes(block: bytes, separator: str) -> bool:
    """Every quote opens or closes a cell or is doubled; True when a quoted cell spans lines.

    The bytes between a closing quote and the next opening one must be none (a doubled quote), or begin with the end
    of a cell and end with the beginning of one.
    """
    if b'"' not in block:
        return False
    found = np.frombuffer(block, np.uint8)
    quotes = np.flatnonzero(found == _QUOTE)
    if len(quotes) % 2:
        raise Uncertain
    ends = np.zeros(256, bool)
    ends[[ord(separator), _NEWLINE]] = True
    opening, closing = quotes[::2], quotes[1::2]
    before = (opening == 0) | ends[found[opening - 1]]
    ends[_RETURN] = True
    after = (closing == len(found) - 1) | ends[found[np.minimum(closing + 1, len(found) - 1)]]
    doubled = opening[1:] == closing[:-1] + 1
    if not before[0] or not after[-1] or not (doubled | (before[1:] & after[:-1])).all():
        raise Uncertain
    lines = np.flatnonzero(found == _NEWLINE)
    return bool((quotes.searchsorted(lines) % 2).any())


def _check_lines(block: bytes) -> int:
    """The number of lines, each of which must begin and end as an object does, and must not be nested deep."""
    found = np.frombuffer(block, np.uint8)
    starts = np.concatenate([[0], np.flatnonzero(found == _NEWLINE) + 1])
    starts = starts[starts < len(found)]
    last = np.append(starts[1:], len(found) + (found[-1] != _NEWLINE)) - 2
    last = last - (found[last] == _RETURN)
    if (last < starts).any() or (found[starts] != _OPENING).any() or (found[last] != _CLOSING).any():
        raise Uncertain
    brackets = np.flatnonzero((found == _OPENING) | (found == _LIST))
    if np.diff(brackets.searchsorted(starts), append=len(brackets)).max() > _DEEPEST:
        raise Uncertain
    return len(starts)


def _text_columns(block: bytes) -> dict[str, Any]:
    """The keys of the first row that hold text: said beforehand, since Arrow takes some texts for points in time."""
    import pyarrow as pa

    try:
        row = json.loads(block.partition(b"\n")[0])
    except (ValueError, RecursionError) as error:
        raise Uncertain from error
    if not isinstance(row, dict):
        raise Uncertain
    if not all(name.isascii() or _is_unicode(name) for name in row):
        raise Uncertain
    return {name: pa.string() for name, value in row.items() if isinstance(value, str)}


def _is_unicode(name: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in name)
