"""`open_source`: samples from whatever the user has."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from beholder._errors import OptionError, UserError
from beholder.manifest._media import is_media
from beholder.manifest.archives import TarReader
from beholder.manifest.cells import describe
from beholder.manifest.data_files import JsonReader, ParquetReader, is_captions, rows_of
from beholder.manifest.folders import (
    CaptionsReader,
    FolderReader,
    MetadataReader,
    PromptFilesReader,
    has_prompt_files,
    metadata_file,
)
from beholder.manifest.locations import is_remote, suffix_of
from beholder.manifest.outputs import TemplateReader
from beholder.manifest.root import Root
from beholder.manifest.schema import Sample, SampleSource
from beholder.manifest.source import Row, RowReader, RowSource
from beholder.manifest.tables import ListReader, StreamReader, columns_reader, table_reader
from beholder.manifest.template import parse_template
from beholder.manifest.text_files import CsvReader, JsonlReader, PromptLinesReader

UNDERSTOOD = (
    "a manifest (.jsonl, .ndjson, .json, .csv, .tsv, .parquet; also .gz, URLs and members of a tar), a folder "
    "(with metadata.csv, .jsonl or .parquet, with a .txt beside each picture, or bare), a .tar in WebDataset's form, "
    "a picture, a data frame (pandas, polars, pyarrow, datasets), a list or iterator of dicts, Samples or pictures, "
    "a dict of columns, "
    "or --prompts FILE with --outputs 'out/{method}/{prompt_id}_{seed}.png' (prompts=, outputs=)"
)
_TEMPLATE = "out/{prompt_id}_{seed}.png"
_FILE_READERS: Mapping[str, type[Any]] = {
    ".jsonl": JsonlReader,
    ".ndjson": JsonlReader,
    ".csv": CsvReader,
    ".tsv": CsvReader,
    ".parquet": ParquetReader,
    ".pq": ParquetReader,
    ".json": JsonReader,
    ".tar": TarReader,
}


def open_source(
    data: Any = None,
    *,
    prompts: Any = None,
    outputs: str | Sequence[str] | None = None,
    mapping: Mapping[str, str] | None = None,
    allow_extra: bool = False,
    value_range: tuple[float, float] | None = None,
    base: str | os.PathLike[str] | None = None,
    root: str | os.PathLike[str] | None = None,
) -> SampleSource:
    """Samples from whatever the user has; nothing is read yet but what tells the form.

    Args:
        data: see `UNDERSTOOD`; a SampleSource is given back as it is.
        prompts: prompts to join outputs with: a file (CSV, TSV, JSONL, Parquet, JSON `{id: prompt}`, TXT with one
            prompt a line), a table, or a list.
        outputs: template (or templates) of the outputs' paths, relative to the working folder.
        mapping: user's column → canonical column; goes before the known other names.
        allow_extra: files and prompts without a partner are accepted and told of in `notices`.
        value_range: (low, high) of float arrays.
        base: folder that relative paths start from. None: the manifest's folder, or the working folder when the
            outputs of the first rows are only found from there; the working folder for data in memory.
        root: folder that every file which a row names must lie in, links followed; a row that names anything
            outside, or a URL, is at fault. For data of others. None: files may lie anywhere.

    Raises:
        UserError: the form is not understood, or a file is not there.
    """
    start = os.fspath(base) if base is not None else None
    bound = None if root is None else Root(root)
    if outputs is not None:
        if data is not None:
            raise OptionError("outputs= goes with prompts=, without data", got=f"data={describe(data)}")
        templates = [parse_template(text) for text in ([outputs] if isinstance(outputs, str) else outputs)]
        table = None if prompts is None else _prompt_reader(prompts)
        reader: RowReader = TemplateReader(templates, table, mapping=mapping, allow_extra=allow_extra)
        return RowSource(reader, value_range=value_range, base=start if start is not None else reader.base, root=bound)
    if prompts is not None:
        reader = _folder_with_prompts(data, prompts, allow_extra)
    elif isinstance(data, str | os.PathLike):
        reader = _path_reader(os.fspath(data), base=start, allow_extra=allow_extra)
    elif _is_source(data):
        if bound is not None:
            raise OptionError("root= goes with data that is opened here", got=f"data={describe(data)}")
        return data  # type: ignore[no-any-return]
    else:
        reader = _memory_reader(data)
    return RowSource(reader, mapping=mapping, value_range=value_range, base=start, root=bound)


def _path_reader(location: str, *, base: str | None, allow_extra: bool) -> RowReader:
    if not is_remote(location):
        if os.path.isdir(location):
            return _folder_reader(location.rstrip("/") or location, allow_extra=allow_extra)
        if not os.path.exists(location):
            raise UserError(f"{location} must be a file or folder that exists", got="nothing there")
        if os.path.getsize(location) == 0 and suffix_of(location) in _FILE_READERS:
            raise UserError(f"{location} must have rows", got="an empty file")
    suffix = suffix_of(location)
    if suffix == ".json":
        reader = JsonReader(location)
        content = reader.load()
        if is_captions(content):
            folder = base if base is not None else reader.base
            return CaptionsReader(location, content, folder, allow_extra=allow_extra)
        return reader
    if suffix in _FILE_READERS:
        return _FILE_READERS[suffix](location)  # type: ignore[no-any-return]
    if is_media(location):
        return ListReader([location], name=location)
    fix = None
    if suffix == ".txt":
        fix = f"Prompts go with outputs: --prompts {location} --outputs '{_TEMPLATE}' (prompts=, outputs=)"
    raise UserError(f"the input must be one of: {UNDERSTOOD}", got=location, fix=fix)


def _folder_reader(folder: str, *, allow_extra: bool) -> RowReader:
    listed = metadata_file(folder)
    if listed is not None:
        return MetadataReader(folder, _FILE_READERS[suffix_of(listed)](listed), allow_extra=allow_extra)
    if has_prompt_files(folder):
        return PromptFilesReader(folder, allow_extra=allow_extra)
    return FolderReader(folder, allow_extra=allow_extra)


def _folder_with_prompts(data: Any, prompts: Any, allow_extra: bool) -> RowReader:
    if not isinstance(data, str | os.PathLike):
        raise OptionError(
            "prompts= goes with outputs= or with a folder of outputs",
            got=f"data={describe(data)}",
            fix=f"Write outputs='{_TEMPLATE}'",
        )
    folder = os.fspath(data)
    if not os.path.isdir(folder):
        raise UserError("the outputs that go with prompts= must be a folder", got=folder)
    reader = _prompt_reader(prompts)
    captions = {}
    if isinstance(reader, JsonReader) and is_captions(content := reader.load()):
        captions = content
    elif isinstance(prompts, Mapping) and is_captions(prompts):
        captions = dict(prompts)
    if captions:
        return CaptionsReader(reader.name, captions, folder, allow_extra=allow_extra)
    return TemplateReader([parse_template(folder)], reader, allow_extra=allow_extra)


def _prompt_reader(prompts: Any) -> RowReader:
    if isinstance(prompts, str | os.PathLike):
        location = os.fspath(prompts)
        suffix = suffix_of(location)
        if suffix == ".txt":
            return PromptLinesReader(location)
        if suffix in _FILE_READERS and suffix != ".tar":
            return _FILE_READERS[suffix](location)  # type: ignore[no-any-return]
        raise UserError("the prompts must be a .csv, .tsv, .jsonl, .json, .parquet or .txt file", got=location)
    if isinstance(prompts, Mapping):
        return _RowsReader(prompts, "the prompts")
    if isinstance(prompts, Sequence) and all(isinstance(item, str) for item in prompts):
        return _RowsReader(list(prompts), "the prompts")
    return _memory_reader(prompts)


def _memory_reader(data: Any) -> RowReader:
    reader = table_reader(data)
    if reader is not None:
        return reader
    if isinstance(data, Mapping):
        return columns_reader(data) or _RowsReader(data, "the mapping")
    if isinstance(data, Sample):
        return ListReader([data], name="the sample")
    if isinstance(data, Sequence) and not isinstance(data, bytes | bytearray):
        return ListReader(data)
    if isinstance(data, Iterator):
        return StreamReader(data)
    if isinstance(data, Iterable) and not isinstance(data, bytes | bytearray) and not hasattr(data, "shape"):
        return _IterableReader(data)
    raise UserError(f"the input must be one of: {UNDERSTOOD}", got=describe(data))


class _IterableReader(StreamReader):
    """Something that can be iterated anew each time."""

    replayable = True

    def __init__(self, items: Iterable[Any]) -> None:
        super().__init__(items, f"the {type(items).__name__}")


class _RowsReader(RowReader):
    """Rows (or prompts) by id, or a list of prompts, in memory."""

    def __init__(self, content: Any, name: str) -> None:
        super().__init__()
        self._content, self.name = content, name

    def rows(self, *, check: bool = False, light: bool = False) -> Iterator[Row]:
        yield from rows_of(self._content)


def _is_source(data: Any) -> bool:
    return all(hasattr(data, name) for name in ("check", "replayable", "notices", "count", "__iter__"))
