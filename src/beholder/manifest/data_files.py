"""Readers of Parquet and JSON files."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from beholder._errors import Fault, UserError
from beholder.manifest._media import is_media
from beholder.manifest.arrow_blocks import parquet_tables
from beholder.manifest.cells import describe
from beholder.manifest.columns import canonical_name
from beholder.manifest.locations import folder_of, open_binary, open_text
from beholder.manifest.source import Row, RowReader
from beholder.manifest.text_files import load_json

_PLAIN_BATCH = 4096
_HEAVY_BATCH = 32
_OF_A_CONCEPT = ("class_name", "seg_prompt", "references", "reference_masks")
_ROWS_UNDER = ("samples", "items", "rows", "data")


class ParquetReader(RowReader):
    """A Parquet file, a batch of rows at a time; cells with pictures' bytes come in small batches."""

    nothing = "the file has no rows"

    def __init__(self, location: str) -> None:
        super().__init__()
        self.name, self.base = location, folder_of(location)
        self._schema: tuple[tuple[str, ...], list[str], set[str], int] | None = None

    def columns(self) -> tuple[str, ...]:
        return self._facts()[0]

    def count(self) -> int:
        return self._facts()[3]

    def rows(self, *, check: bool = False, light: bool = False) -> Iterator[Row]:
        leaves, heavy = self._facts()[1:3]
        wanted = [leaf for leaf in leaves if not (light and leaf in heavy)]
        size = _HEAVY_BATCH if heavy and not light else _PLAIN_BATCH
        number = 0
        with self._open() as file:
            batches = file.iter_batches(batch_size=size, columns=wanted)
            while True:
                found = _next_rows(batches, number + 1)
                if not isinstance(found, list):
                    if found is not None:
                        yield number + 1, found
                    return
                yield from enumerate(found, number + 1)
                number += len(found)

    def tables(self, mapping: Mapping[str, str]) -> Iterator[Any]:
        with self._open() as file:
            yield from parquet_tables(file)

    @contextlib.contextmanager
    def _open(self) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        with open_binary(self.name) as handle:
            try:
                file = pq.ParquetFile(handle)
            except (OSError, pa.ArrowException) as error:
                raise UserError(f"{self.name} must be a Parquet file", got=str(error), fix="Check the file") from error
            except UnicodeDecodeError as error:
                raise UserError(f"the columns of {self.name} must be named in UTF-8", got=str(error)) from error
            yield file

    def _facts(self) -> tuple[tuple[str, ...], list[str], set[str], int]:
        if self._schema is None:
            with self._open() as file:
                leaves = [file.schema.column(i).path for i in range(len(file.schema))]
                heavy = {leaf for leaf in leaves if leaf.endswith(".bytes") and leaf[:-5] + "path" in leaves}
                self._schema = tuple(file.schema_arrow.names), leaves, heavy, file.metadata.num_rows
        return self._schema


def _next_rows(batches: Iterator[Any], first: int) -> list[dict[str, Any]] | Fault | None:
    """The rows of the next batch; what is wrong with it; None behind the last one."""
    import pyarrow as pa

    try:
        batch = next(batches, None)
        return None if batch is None else batch.to_pylist()
    except (pa.ArrowException, ValueError, OverflowError, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise  # the disk's word, not the file's
        return Fault(f"a value of this row, or of one soon after it, cannot be read: {error}", row=first)


class JsonReader(RowReader):
    """A JSON file, read whole: a list of rows, `{"samples": [...]}`, or an object of rows (or prompts) by id.

    `{"concepts": [...], "items": [...], "defaults": {...}}` gives each item the fields of its concept; an item that
    names a concept that is not listed is a fault.
    """

    nothing = "the file has no rows"

    def __init__(self, location: str) -> None:
        super().__init__()
        self.name, self.base = location, folder_of(location)

    def load(self) -> Any:
        """The file's content.

        Raises:
            UserError: when it is not JSON.
        """
        with open_text(self.name) as handle:
            try:
                return load_json(handle.read())
            except (ValueError, RecursionError) as error:
                fix = "If each line holds one object, name the file .jsonl" if _many(error) else "Mend it there"
                raise UserError(f"{self.name} must be valid JSON", got=str(error), fix=fix) from error

    def rows(self, *, check: bool = False, light: bool = False) -> Iterator[Row]:
        yield from rows_of(self.load())


def rows_of(content: Any) -> Iterator[Row]:
    """The rows that a JSON value holds."""
    items, defaults, concepts = _unwrap([content] if is_row(content) else content)
    if isinstance(items, Mapping):
        pairs: Iterator[tuple[Any, Any]] = iter(items.items())
    elif isinstance(items, list):
        pairs = ((None, item) for item in items)
    else:
        yield 0, Fault(f"JSON must hold a list of rows or an object; got {describe(content)}")
        return
    for number, (key, item) in enumerate(pairs, 1):
        if isinstance(item, str):
            yield number, {"id": str(number - 1) if key is None else key, "prompt": item}
        elif not isinstance(item, Mapping):
            yield number, Fault(f"each row must be an object of columns; got {describe(item)}", row=number)
        else:
            named = {} if key is None or any(canonical_name(column) == "id" for column in item) else {"id": key}
            yield number, _with_concept({**named, **defaults, **item}, concepts, number)


def is_captions(content: Any) -> bool:
    """True for `{id: caption}`."""
    texts = isinstance(content, Mapping) and all(isinstance(value, str) for value in content.values())
    return texts and bool(content) and not is_row(content)


def is_row(content: Any) -> bool:
    """True for an object that is itself a row: it names an output."""
    return isinstance(content, Mapping) and any(
        canonical_name(name) == "output" and isinstance(value, str) and is_media(value)
        for name, value in content.items()
        if isinstance(name, str)
    )


def _unwrap(content: Any) -> tuple[Any, dict[str, Any], dict[str, dict[str, Any]] | None]:
    if not isinstance(content, Mapping):
        return content, {}, None
    under = next((key for key in _ROWS_UNDER if isinstance(content.get(key), list)), None)
    if under is None:
        return content, {}, None
    defaults = content.get("defaults")
    listed = content.get("concepts")
    concepts = None
    if isinstance(listed, list):
        entries = [entry for entry in listed if isinstance(entry, Mapping)]
        concepts = {
            str(entry.get("concept_id", entry.get("concept", entry.get("id")))): dict(entry) for entry in entries
        }
    return content[under], dict(defaults) if isinstance(defaults, Mapping) else {}, concepts


def _with_concept(
    row: dict[str, Any], concepts: dict[str, dict[str, Any]] | None, number: int
) -> dict[str, Any] | Fault:
    if concepts is None:
        return row
    column = next((name for name in row if canonical_name(name) == "concept"), None)
    if column is None or row[column] is None:
        return row
    names = [str(name) for name in (row[column] if isinstance(row[column], list) else [row[column]])]
    unknown = [name for name in names if name not in concepts]
    if unknown:
        listed = ", ".join(map(repr, concepts)) or "none"
        return Fault(f"unknown concept {', '.join(map(repr, unknown))}; listed are {listed}", row=number, where=column)
    if len(names) != 1:
        return row
    have = {canonical_name(name) for name in row}
    wanted = ["class_name", "seg_prompt"] if "references" in have else list(_OF_A_CONCEPT)
    given = {canonical_name(name): value for name, value in concepts[names[0]].items()}
    return {**row, **{name: given[name] for name in wanted if name in given and name not in have}}


def _many(error: Exception) -> bool:
    return isinstance(error, json.JSONDecodeError) and bool(re.match("Extra data", error.msg))
