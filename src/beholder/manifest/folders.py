"""Readers of folders: with a metadata file, with a prompt beside each picture, with captions by id, or bare."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from beholder._errors import Fault, UserError
from beholder.manifest._media import extensions, is_media, media_files
from beholder.manifest.cells import as_list
from beholder.manifest.ids import Ledger, id_from_path
from beholder.manifest.leftovers import Leftovers
from beholder.manifest.locations import open_text
from beholder.manifest.schema import Sample
from beholder.manifest.source import Row, RowReader

METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
_NO_PROMPT = "no prompt for this file"
_NO_FILE = "no file for this prompt"
_NOT_LISTED = "this file is not listed"


class FolderReader(RowReader):
    """A folder of media, in natural order (1, 2, 10), one row a file, without prompts.

    Args:
        folder: the folder; searched with all below it, hidden and other files left aside.
        allow_extra: two files of one name (`a.png`, `a.jpg`) are accepted.
    """

    def __init__(self, folder: str, *, allow_extra: bool = False) -> None:
        super().__init__()
        self.name = self.base = folder
        self._allow_extra = allow_extra
        self.nothing = f"found 0 images under {folder}; extensions looked for: {extensions()}"

    def rows(self, *, check: bool = False, light: bool = False) -> Iterator[Row]:
        twins = _Twins(accept=self._allow_extra)
        for number, path in enumerate(media_files(self.base), 1):
            yield from twins.look(path, number)
            yield number, {"output": path}
        self.remarks = twins.remarks()


class PromptFilesReader(RowReader):
    """A folder in which `a.txt` holds the prompt of `a.png`."""

    def __init__(self, folder: str, *, allow_extra: bool = False) -> None:
        super().__init__()
        self.name = self.base = folder
        self._allow_extra = allow_extra
        self.nothing = f"found 0 images under {folder}; extensions looked for: {extensions()}"

    def rows(self, *, check: bool = False, light: bool = False) -> Iterator[Row]:
        twins = _Twins(accept=self._allow_extra)
        lone = Leftovers(accept=self._allow_extra)
        for number, path in enumerate(media_files(self.base), 1):
            yield from twins.look(path, number)
            text = os.path.join(self.base, _stem(path) + ".txt")
            if os.path.isfile(text):
                with open_text(text) as handle:
                    yield number, {"output": path, "prompt": handle.read().strip()}
                continue
            yield from lone.add(_NO_PROMPT, path)
            if self._allow_extra:
                yield number, {"output": path}
        if check:
            for text in _text_files(self.base):
                if twins.seen(_stem(text)) is None:
                    yield from lone.add(_NO_FILE, text)
        self.remarks = twins.remarks() + lone.remarks()


class CaptionsReader(RowReader):
    """Captions (or rows) by id beside a folder: the id is a file's path below the folder, with or without extension,
    or its bare name.

    Args:
        name: what messages call the captions.
        rows_by_id: caption or row by id.
        folder: where the files are.
        allow_extra: files and captions without partner are accepted.
    """

    def __init__(self, name: str, rows_by_id: Mapping[str, Any], folder: str, *, allow_extra: bool = False) -> None:
        super().__init__()
        self.name, self.base = name, folder
        self._captions, self._allow_extra = rows_by_id, allow_extra
        self.nothing = f"found 0 images under {folder or os.curdir}; extensions looked for: {extensions()}"

    def rows(self, *, check: bool = False, light: bool = False) -> Iterator[Row]:
        lone = Leftovers(accept=self._allow_extra)
        used: dict[str, str] = {}
        for number, path in enumerate(media_files(self.base or os.curdir), 1):
            key = self._key_of(path)
            if key is None:
                yield from lone.add(_NO_PROMPT, path)
            elif key in used:
                yield number, Fault(f"{used[key]} and {path} both belong to this id; remove one", where=key)
            else:
                used[key] = path
                caption = self._captions[key]
                row = dict(caption) if isinstance(caption, Mapping) else {"prompt": caption}
                yield number, {"id": key, **row, "output": path}
        for key in self._captions:
            if used and key not in used:
                yield from lone.add(_NO_FILE, key)
        if self._captions and not used:
            yield 0, Fault(f"nothing matched: none of {len(self._captions)} ids names a file under {self.base or '.'}")
        self.remarks = lone.remarks()

    def _key_of(self, path: str) -> str | None:
        names = (path, _stem(path), PurePosixPath(path).name, PurePosixPath(path).stem)
        return next((name for name in names if name in self._captions), None)


class MetadataReader(RowReader):
    """A folder with a metadata file; media that it does not name are leftovers.

    Args:
        folder: the folder.
        inner: reads the metadata file.
        allow_extra: leftovers are accepted.
    """

    def __init__(self, folder: str, inner: RowReader, *, allow_extra: bool = False) -> None:
        super().__init__()
        self.name, self.base, self._inner = inner.name, folder, inner
        self._allow_extra, self.nothing = allow_extra, inner.nothing

    def columns(self) -> tuple[str, ...] | None:
        return self._inner.columns()

    def count(self) -> int | None:
        return self._inner.count()

    def rows(self, *, check: bool = False, light: bool = False) -> Iterator[Row]:
        if not check:
            yield from self._inner.rows(light=light)
            return
        named = Ledger()
        for number, item in self._inner.rows(check=True, light=light):
            if not isinstance(item, Fault | Sample):
                for path in _paths_in(item):
                    named.add(_normal(self.base, path), number)
            yield number, item
        lone = Leftovers(accept=self._allow_extra)
        for path in media_files(self.base):
            if named.find(_normal(self.base, path)) is None:
                yield from lone.add(f"{_NOT_LISTED} in {os.path.basename(self.name)}", path)
        self.remarks = lone.remarks()


def metadata_file(folder: str) -> str | None:
    """The folder's metadata file, or None.

    Raises:
        UserError: when there are several.
    """
    found = [name for name in METADATA if os.path.isfile(os.path.join(folder, name))]
    if len(found) > 1:
        raise UserError(f"{folder} must have one metadata file", got=", ".join(found), fix="Remove the others")
    return os.path.join(folder, found[0]) if found else None


def has_prompt_files(folder: str) -> bool:
    """True when any picture has a `.txt` of its name beside it."""
    return any(os.path.isfile(os.path.join(folder, _stem(path) + ".txt")) for path in media_files(folder))


class _Twins:
    """Files that differ in their extension only."""

    def __init__(self, *, accept: bool) -> None:
        self._stems = Ledger()
        self._leftovers = Leftovers(accept=accept)

    def look(self, path: str, row: int) -> Iterator[Row]:
        if self._stems.add(_stem(path), row) is not None:
            yield from self._leftovers.add("another file has this name with another extension", path)

    def seen(self, stem: str) -> int | None:
        return self._stems.find(stem)

    def remarks(self) -> list[str]:
        return self._leftovers.remarks()


def _stem(path: str) -> str:
    return str(PurePosixPath(path).with_suffix(""))


def _text_files(folder: str) -> Iterator[str]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.endswith(".txt") and not name.startswith("."):
                yield os.path.relpath(os.path.join(parent, name), folder).replace(os.sep, "/")


def _paths_in(cells: Mapping[str, Any]) -> Iterator[str]:
    for cell in cells.values():
        items = list(cell.values()) if isinstance(cell, Mapping) else as_list(cell)
        for item in items:
            if isinstance(item, str) and is_media(item):
                yield item


def _normal(base: str, path: str) -> str:
    return os.path.normpath(os.path.join(base, id_from_path(path)))
