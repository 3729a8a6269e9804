"""One prompt file and folders of outputs, joined through a template by the fields that both have."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beholder._errors import Fault, UserError
from beholder.manifest._media import extensions, media_files
from beholder.manifest.cells import CellError, as_text, plain
from beholder.manifest.columns import resolve
from beholder.manifest.ids import ID_PARTS, Ledger, id_from_path
from beholder.manifest.leftovers import Leftovers
from beholder.manifest.locations import Located
from beholder.manifest.schema import Sample
from beholder.manifest.source import Row, RowReader
from beholder.manifest.template import Template

_DIGITS = re.compile(r"\d+\Z")
Key = tuple[str, ...]


class PromptTable:
    """The prompts, in memory, found by the values of the fields that they share with the template.

    A table without `prompt_id` takes its `id`, and without either its 0-based row, as `prompt_id`. Numbers match
    whatever their padding ("7", "0007"), unless the table itself tells them apart.

    Args:
        reader: reads the prompts.
        mapping: user's column → canonical column.
        fields: the template's fields.
    """

    def __init__(self, reader: RowReader, mapping: Mapping[str, str] | None, fields: Sequence[str]) -> None:
        self.name, self.faults = reader.name, list[Fault]()
        self.rows: list[dict[str, Any]] = []
        self._numbers: list[int] = []
        for number, item in reader.rows():
            if isinstance(item, Fault):
                self.faults.append(item)
            elif not isinstance(item, Sample):
                self.rows.append(self._canonical(item, mapping, number))
                self._numbers.append(number)
        columns = dict.fromkeys(column for row in self.rows for column in row)
        self.shared = tuple(field for field in fields if field in columns)
        if self.rows and not self.shared:
            self.faults.append(
                Fault(
                    f"the output template's fields ({', '.join(fields) or 'none'}) and the prompts' columns "
                    f"({', '.join(columns)}) must have one in common",
                )
            )
        self._exact: dict[Key, int] = {}
        self._loose: dict[Key, int | None] = {}
        if self.shared:
            self._index()

    def find(self, reading: Mapping[str, str]) -> int | None:
        """The index of the prompt that a file's fields name, or None."""
        key = tuple(reading[field] for field in self.shared)
        found = self._exact.get(key)
        return self._loose.get(_unpadded(key)) if found is None else found

    def label(self, index: int) -> str:
        """What messages call a prompt."""
        row = self.rows[index]
        return ", ".join(f"{field}={row.get(field)!r}" for field in self.shared) or repr(row.get("prompt"))

    def _canonical(self, cells: Mapping[str, Any], mapping: Mapping[str, str] | None, number: int) -> dict[str, Any]:
        plan = resolve(tuple(cells), mapping)
        known = {fault.message for fault in self.faults}
        self.faults += [Fault(message, row=number) for message in plan.faults if message not in known]
        row = {name: cells[column] for column, name in (*plan.fields, *plan.extras)}
        own = row.pop("id", None)
        if row.get("prompt_id") is None:
            row["prompt_id"] = number - 1 if own is None else own
        row.pop("output", None)
        return row

    def _index(self) -> None:
        for index, row in enumerate(self.rows):
            try:
                key = tuple(as_text(plain(row.get(field))) for field in self.shared)
            except CellError:
                text = f"every prompt needs a value in {' and '.join(self.shared)}"
                self.faults.append(Fault(text, row=self._numbers[index]))
                continue
            first = self._exact.setdefault(key, index)
            if first != index:
                rows = f"rows {self._numbers[first]} and {self._numbers[index]}"
                text = f"{rows} of the prompts have one {' and '.join(self.shared)}, {', '.join(map(repr, key))}"
                self.faults.append(Fault(text, row=self._numbers[index]))
                continue
            loose = _unpadded(key)
            self._loose[loose] = None if loose in self._loose else index


class TemplateReader(RowReader):
    """Outputs that fit a template, each joined with its prompt.

    Args:
        templates: one or several templates.
        prompts: reads the prompts; None: the files' names say all there is.
        mapping: user's column → canonical column, for the prompts.
        allow_extra: files and prompts without partner are accepted.
    """

    def __init__(
        self,
        templates: Sequence[Template],
        prompts: RowReader | None,
        *,
        mapping: Mapping[str, str] | None = None,
        allow_extra: bool = False,
    ) -> None:
        super().__init__()
        self._templates, self._prompts = templates, prompts
        self._mapping, self._allow_extra = mapping, allow_extra
        self.base = prompts.base if prompts else ""
        shown = " and ".join(template.text for template in templates)
        self.name = f"{prompts.name} with {shown}" if prompts else shown
        roots = ", ".join(dict.fromkeys(template.root or os.curdir for template in templates))
        self.nothing = f"found 0 images under {roots}; extensions looked for: {extensions()}"

    def rows(self, *, check: bool = False, light: bool = False) -> Iterator[Row]:
        fields = tuple(dict.fromkeys(field for template in self._templates for field in template.fields))
        table = PromptTable(self._prompts, self._mapping, fields) if self._prompts else None
        if table:
            yield from ((fault.row or 0, fault) for fault in table.faults)
            if not table.shared:
                return
        lone = Leftovers(accept=self._allow_extra)
        join = _Join(table, lone, by_columns=set(fields) <= set(ID_PARTS))
        for template in self._templates:
            root = template.root or os.curdir
            if not os.path.isdir(root):
                raise UserError(
                    f"the output template {template.text!r} must start with a folder that exists", got=repr(root)
                )
            for path in media_files(root):
                # Other folders beside those of the template are none of its leftovers.
                if path.startswith(template.folder_start):
                    yield from join.file(template, path)
        if table:
            yield from join.prompts_without_output(table)
        self.remarks = lone.remarks()


class _Join:
    """One walk over the outputs."""

    def __init__(self, table: PromptTable | None, lone: Leftovers, *, by_columns: bool) -> None:
        self._table, self._lone, self._by_columns = table, lone, by_columns
        self._seen = Ledger()
        self._used: dict[str | None, bytearray] = {}
        self._number = 0

    def file(self, template: Template, path: str) -> Iterator[Row]:
        whole = template.root + path
        self._number += 1
        readings = template.readings(path)
        if not readings:
            yield from self._lone.add("this file does not fit the output template", whole)
            return
        hits = [(reading, self._table.find(reading) if self._table else -1) for reading in readings]
        hits = [(reading, index) for reading, index in hits if index is not None]
        if not hits:
            yield from self._lone.add("no prompt for this file", whole)
        elif len(hits) > 1:
            shown = " or ".join(str(reading) for reading, _ in hits[:3])
            yield self._number, Fault(f"the file's name can be read in several ways: {shown}", where=whole)
        else:
            yield self._number, self._row(hits[0][0], hits[0][1] or 0, whole)

    def _row(self, reading: dict[str, str], index: int, whole: str) -> dict[str, Any] | Fault:
        row: dict[str, Any] = dict(reading)
        if self._table:
            row |= self._table.rows[index]
            method = reading.get("method")
            self._used.setdefault(method, bytearray(len(self._table.rows)))[index] = 1
        first = self._seen.add(repr((index, sorted(_loosened(row, reading).items()))), self._number)
        if first is not None:
            return Fault(
                f"files {first} and {self._number} are outputs of one prompt and seed; remove one", where=whole
            )
        if not self._by_columns or row.get("prompt_id") is None or row.get("seed") is None:
            row["id"] = id_from_path(whole)
        row["output"] = Located(whole)
        return row

    def prompts_without_output(self, table: PromptTable) -> Iterator[Row]:
        if not any(map(any, self._used.values())):
            yield 0, Fault(f"nothing matched: no file is an output of any of the {len(table.rows)} prompts")
        for index in range(len(table.rows)):
            without = [method for method, used in self._used.items() if not used[index]]
            if len(without) == len(self._used):
                yield from self._lone.add("no output for this prompt", table.label(index))
                continue
            for method in without:
                yield from self._lone.add(f"no output of method {method!r} for this prompt", table.label(index))


def _unpadded(key: Key) -> Key:
    return tuple(str(int(part)) if _DIGITS.match(part) else part for part in key)


def _loosened(row: Mapping[str, Any], reading: Mapping[str, str]) -> dict[str, str]:
    return {field: _unpadded((str(row[field]),))[0] for field in reading}
