"""Reader of tar files in WebDataset's form: the files of one sample share their name up to the first dot."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator
from typing import Any, cast

from beholder._errors import Fault, UserError
from beholder.manifest._media import extensions, is_media
from beholder.manifest.locations import open_binary
from beholder.manifest.source import Row, RowReader
from beholder.manifest.text_files import load_json

_TEXTS = {"txt": "prompt", "text": "prompt", "caption": "prompt", "cls": "cls", "id": "id"}


class TarReader(RowReader):
    """A tar file as a source, a row for each run of members with one name.

    `a.png` is the output, `a.txt` the prompt, `a.json` more columns; `a.reference.png` goes to the column
    `reference`. Pictures are named (`shards.tar::a.png`), not held.
    """

    def __init__(self, location: str) -> None:
        super().__init__()
        self.name = location
        self.nothing = f"found 0 samples in {location}; extensions looked for: {extensions()}"

    def rows(self, *, check: bool = False, light: bool = False) -> Iterator[Row]:
        number = 0
        key: str | None = None
        row: dict[str, Any] = {}
        fault: Fault | None = None
        for archive, member in self._members():
            folder, name = os.path.split(member.name)
            stem, _, rest = name.partition(".")
            this = f"{folder}/{stem}" if folder else stem
            if this != key:
                if fault or "output" in row:
                    yield number, fault or row
                key, row, fault, number = this, {"id": this}, None, number + 1
            fault = self._take(archive, member, rest, row, number) or fault
        if fault or "output" in row:
            yield number, fault or row

    def _members(self) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
        with open_binary(self.name) as handle:
            try:
                with tarfile.open(fileobj=cast(Any, handle), mode="r|*") as archive:
                    for member in archive:
                        if member.isfile() and not os.path.basename(member.name).startswith("."):
                            yield archive, member
            except tarfile.TarError as error:
                raise UserError(f"{self.name} must be a tar file", got=str(error)) from error

    def _take(
        self, archive: tarfile.TarFile, member: tarfile.TarInfo, rest: str, row: dict[str, Any], number: int
    ) -> Fault | None:
        column, _, suffix = rest.lower().rpartition(".")
        if is_media(f"x.{suffix}"):
            column = column or "output"
            if column in row:
                return Fault(f"{row[column]} and {member.name} both belong to one sample", row=number)
            row[column] = f"{self.name}::{member.name}"
            return None
        if suffix not in _TEXTS and suffix != "json":
            return None
        found = archive.extractfile(member)
        content = found.read() if found else b""
        try:
            text = content.decode("utf-8-sig")
            if suffix != "json":
                row[_TEXTS[suffix]] = text.strip()
                return None
            columns = load_json(text)
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            return Fault(f"{member.name}: {error}", row=number)
        if not isinstance(columns, dict):
            return Fault(f"{member.name} must hold a JSON object", row=number)
        row.update({name: value for name, value in columns.items() if name not in row})
        return None
