"""Readers of text files that stream: JSON Lines, CSV and TSV, one prompt a line."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import IO, Any

from beholder._errors import Fault
from beholder.manifest.arrow_blocks import csv_tables, json_tables
from beholder.manifest.cells import describe
from beholder.manifest.columns import canonical_name, resolve
from beholder.manifest.locations import folder_of, open_text, suffix_of
from beholder.manifest.source import Row, RowReader

_NOT_TEXT = re.compile("[\ud800-\udfff]")
_NOT_UTF8 = "the line is not UTF-8 text; save the file as UTF-8"
_CELL_LIMIT = 1 << 27


def load_json(text: str) -> Any:
    """JSON in which NaN and infinities, which JSON does not have but many writers make, are None.

    Raises:
        ValueError: it is no JSON, or a key stands twice in one object.
    """
    return _DECODER.decode(text)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        doubles = [key for key, times in Counter(key for key, _ in pairs).items() if times > 1]
        raise ValueError(f"keys must be unique in an object; more than once: {', '.join(map(repr, doubles))}")
    return found


_DECODER = json.JSONDecoder(parse_constant=lambda _: None, object_pairs_hook=_without_doubles)


class JsonlReader(RowReader):
    """JSON Lines: one object a line; blank lines are skipped; a row's number is its line's."""

    nothing = "the file has no rows"

    def __init__(self, location: str) -> None:
        super().__init__()
        self.name, self.base = location, folder_of(location)

    def rows(self, *, check: bool = False, light: bool = False) -> Iterator[Row]:
        with open_text(self.name) as lines:
            for number, line in enumerate(lines, 1):
                if line.isspace():
                    continue
                yield number, _parse_line(line, number)

    def tables(self, mapping: Mapping[str, str]) -> Iterator[Any]:
        return json_tables(self.name)


def _parse_line(line: str, number: int) -> dict[str, Any] | Fault:
    if not line.isascii() and _NOT_TEXT.search(line):
        return Fault(_NOT_UTF8, row=number)
    try:
        value = load_json(line)
    except ValueError as error:
        return Fault(f"not valid JSON: {error}", row=number)
    except RecursionError:
        return Fault("not valid JSON: nested too deep", row=number)
    if not isinstance(value, dict):
        return Fault(f"each line must be a JSON object; got {describe(value)}", row=number)
    return value


class CsvReader(RowReader):
    """CSV or TSV with a header; row 1 is the first one below it; blank rows are skipped.

    A blank cell is None, but stays "" in the prompt's column: a prompt that was left blank is told from no prompts.
    Columns without a name (pandas' index) are left out. A header without a comma is split at `;` or tabs.
    """

    nothing = "the file has no rows below its header"

    def __init__(self, location: str) -> None:
        super().__init__()
        self.name, self.base = location, folder_of(location)

    def columns(self) -> tuple[str, ...] | None:
        with open_text(self.name, newline="") as lines:
            head = next(_records(lines, self._separator(lines)), None)
        return tuple(name.strip() for name in head) if isinstance(head, list) else ()

    def rows(self, *, check: bool = False, light: bool = False) -> Iterator[Row]:
        with open_text(self.name, newline="") as lines:
            records = _records(lines, self._separator(lines))
            head = next(records, None)
            if not isinstance(head, list):
                if head is not None:
                    yield 0, head
                return
            header = [name.strip() for name in head]
            twice = sorted({name for name in header if name and header.count(name) > 1})
            for name in twice:
                yield 0, Fault("the header has this column twice", where=name)
            number = 0
            for cells in records:
                if isinstance(cells, list) and not any(cells):
                    continue
                number += 1
                yield number, _csv_row(header, cells, number)

    def tables(self, mapping: Mapping[str, str]) -> Iterator[Any] | None:
        columns = self.columns() or ()
        plan = resolve(columns, mapping)
        with open_text(self.name, newline="") as lines:
            separator = self._separator(lines)
        return None if plan.faults else csv_tables(self.name, columns, separator, [column for column, _ in plan.fields])

    def _separator(self, lines: IO[str]) -> str:
        if suffix_of(self.name) == ".tsv":
            return "\t"
        first = next((line for line in lines if not line.isspace()), "")
        lines.seek(0)
        return "," if "," in first else ";" if ";" in first else "\t" if "\t" in first else ","


def _records(lines: IO[str], separator: str) -> Iterator[list[str] | Fault]:
    csv.field_size_limit(max(csv.field_size_limit(), _CELL_LIMIT))
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield Fault(f"not valid CSV at line {reader.line_num}: {error}")
            return
        if cells:
            yield cells


def _csv_row(header: list[str], cells: list[str] | Fault, number: int) -> dict[str, Any] | Fault:
    if isinstance(cells, Fault):
        return Fault(cells.message, row=number)
    if len(cells) != len(header):
        return Fault(
            f"the row has {len(cells)} cells and the header {len(header)}; quote cells with commas", row=number
        )
    if any(not cell.isascii() and _NOT_TEXT.search(cell) for cell in cells):
        return Fault(_NOT_UTF8, row=number)
    return {
        name: cell if cell or canonical_name(name) == "prompt" else None for name, cell in zip(header, cells) if name
    }


class PromptLinesReader(RowReader):
    """A text file with one prompt a line; `prompt_id` is the line's number counted from 0."""

    nothing = "the file has no prompts"

    def __init__(self, location: str) -> None:
        super().__init__()
        self.name, self.base = location, folder_of(location)

    def rows(self, *, check: bool = False, light: bool = False) -> Iterator[Row]:
        with open_text(self.name) as lines:
            for number, line in enumerate(lines, 1):
                if _NOT_TEXT.search(line):
                    yield number, Fault(_NOT_UTF8, row=number)
                elif not line.isspace():
                    yield number, {"prompt_id": str(number - 1), "prompt": line.strip()}
