"""Which reader a subject-driven data set asks for, and what has to be checked in it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from beholder._errors import Fault, NoValue
from beholder.manifest.data_files import JsonReader, ParquetReader
from beholder.manifest.locations import suffix_of
from beholder.manifest.schema import Sample
from beholder.manifest.source import RowReader
from beholder.manifest.tables import ListReader, table_reader
from beholder.manifest.text_files import CsvReader, JsonlReader
from beholder.metrics.segmenting import is_long_winded, phrases_of
from beholder.protocols.base import DataCheck
from beholder.protocols.files import find_file, is_folder
from beholder.protocols.subject_folders import DirectoryReader, folder_reader
from beholder.protocols.subject_rows import RECONSTRUCTION, Concept, JoinedReader, Joiner, read_concept

_TABLES: Mapping[str, Any] = {
    ".jsonl": JsonlReader, ".ndjson": JsonlReader, ".csv": CsvReader, ".tsv": CsvReader, ".json": JsonReader,
    ".parquet": ParquetReader, ".pq": ParquetReader,
}  # fmt: skip
_ITEMS = ("items", "samples", "manifest", "images")


def subject_reader(data: Any, *, text: str, task: str | None) -> RowReader | None:
    """The reader of a data set; None for a form that only the manifests' own readers know.

    Args:
        data: a path, a JSON object with `concepts` and `items`, rows, or a table.
        text: what clip_t scores (see `Joiner`).
        task: the task of items that name none.
    """
    if is_folder(data):
        folder = os.fspath(data)
        known = folder_reader(folder, text=text)
        if known is not None and not isinstance(known, DirectoryReader):
            return known
        # Items that are written down say more than names of files.
        return _two_files(Path(folder), text=text, task=task) or known
    if isinstance(data, str | os.PathLike):
        path = os.fspath(data)
        if not os.path.isfile(path) or suffix_of(path) not in _TABLES:
            return None
        if suffix_of(path) == ".json":
            return _of_json(JsonReader(path).load(), path, text=text, task=task)
        return JoinedReader(_TABLES[suffix_of(path)](path), Joiner(None, text=text, task=task))
    if isinstance(data, Mapping) and "items" in data:
        return _of_json(data, None, text=text, task=task)
    table = table_reader(data)
    if table is None and isinstance(data, Sequence) and all(isinstance(row, Mapping) for row in data):
        table = ListReader(data)
    return None if table is None else JoinedReader(table, Joiner(None, text=text, task=task))


def _of_json(content: Any, path: str | None, *, text: str, task: str | None) -> RowReader | None:
    """`{"concepts": […], "items": […], "defaults": {…}}`, or a list of rows."""
    if isinstance(content, list):
        return _items(content, path, Joiner(None, text=text, task=task))
    if not isinstance(content, Mapping) or not isinstance(content.get("items"), list):
        return None
    listed = content.get("concepts")
    concepts, faults = read_concepts(listed) if isinstance(listed, list) else (None, [])
    defaults = content.get("defaults") if isinstance(content.get("defaults"), Mapping) else None
    return _items(content["items"], path, Joiner(concepts, defaults=defaults, text=text, task=task), faults)


def _items(items: Sequence[Any], path: str | None, joiner: Joiner, faults: Sequence[Fault] = ()) -> RowReader:
    reader = ListReader(items, name=path or "the data")
    reader.base = os.path.dirname(path) if path else ""
    return JoinedReader(reader, joiner, faults)


def _two_files(folder: Path, *, text: str, task: str | None) -> RowReader | None:
    """A folder with one file of items and, beside it, one of concepts; or one JSON file with both."""
    items = find_file(folder, [name + suffix for name in _ITEMS for suffix in _TABLES])
    if items is None:
        return None
    if suffix_of(str(items)) == ".json":
        return _of_json(JsonReader(str(items)).load(), str(items), text=text, task=task)
    reader = _TABLES[suffix_of(str(items))](str(items))
    listed = find_file(folder, ["concepts" + suffix for suffix in _TABLES])
    if listed is None:
        return JoinedReader(reader, Joiner(None, text=text, task=task))
    rows = [row for _, row in _TABLES[suffix_of(str(listed))](str(listed)).rows() if isinstance(row, Mapping)]
    concepts, faults = read_concepts(rows)
    return JoinedReader(reader, Joiner(concepts, text=text, task=task), faults)


def read_concepts(listed: Iterable[Any]) -> tuple[dict[str, Concept], list[Fault]]:
    """Concepts by id, and what is wrong with the list."""
    found: dict[str, Concept] = {}
    faults = []
    for number, entry in enumerate(listed, start=1):
        made = read_concept(entry, number) if isinstance(entry, Mapping) else Fault(f"concept {number} is no object")
        if isinstance(made, Fault):
            faults.append(made)
        elif made.name in found:
            faults.append(Fault(f"the concept {made.name!r} is listed twice", row=number, where="concepts"))
        else:
            found[made.name] = made
    return found, faults


def check_subjects(samples: Iterator[Sample], *, needs_masks: bool, needs_texts: bool) -> DataCheck:
    """Concepts without references or phrases, outputs without a prompt or named twice, phrases like sentences, counts.

    Args:
        samples: the data set.
        needs_masks: True where a metric segments the subject.
        needs_texts: True where a metric scores what outputs were prompted with, reconstructions left out.
    """
    found = DataCheck()
    told: set[tuple[str, str]] = set()
    outputs: dict[str, int] = {}
    tasks: dict[str, _Counts] = {}
    references: dict[str, int] = {}
    for at, sample in enumerate(samples, start=1):
        row = sample.row or at
        owner = f"concept {sample.concept!r}" if sample.concept else "the row"
        tasks.setdefault(sample.task or "(none)", _Counts()).add(sample)
        references[sample.concept or "(none)"] = len(sample.references)
        phrase = sample.seg_prompt or sample.class_name
        problems = {
            "references": None if sample.references else f"{owner} has no references",
            "seg_prompt": _phrase_fault(sample) if needs_masks and sample.masks is None else None,
        }
        for where, text in problems.items():
            if text is not None and (where, owner) not in told:
                told.add((where, owner))
                found.faults.append(Fault(text, row=row, where=where, form=False))
        if needs_texts and sample.prompt is None and sample.eval_prompt is None and sample.task != RECONSTRUCTION:
            found.faults.append(Fault("the output has no prompt", row=row, where="prompt", form=False))
        if sample.output is not None:
            name = f"{sample.output.name}\0{sample.concept}"
            if name in outputs:
                text = f"row {outputs[name]} names the same picture: {sample.output.name}"
                found.faults.append(Fault(text, row=row, where="output", form=False))
            outputs.setdefault(name, row)
        for item in [phrase] if isinstance(phrase, str) else list(phrase or ()):
            if is_long_winded([str(item)]) and ("phrase", str(item)) not in told:
                told.add(("phrase", str(item)))
                found.warnings.append(
                    f"the phrase {item!r} of {owner} looks like a sentence; segmenters take short nouns"
                )
    found.counts = {
        "tasks": {name: counts.to_dict() for name, counts in tasks.items()},
        "references_per_concept": dict(sorted(Counter(references.values()).items())),
    }
    return found


def _phrase_fault(sample: Sample) -> str | None:
    """Why a segmenter could not be asked for the subject."""
    try:
        phrases_of(sample)
    except NoValue as error:
        return error.reason
    return None


def without_reconstructions(faults: Iterable[Fault], samples: Iterator[Sample]) -> list[Fault]:
    """Faults without those of blank prompts of reconstructions: nothing of theirs is scored."""
    kept = {sample.row for sample in samples if sample.task == RECONSTRUCTION}
    return [fault for fault in faults if fault.where != "prompt" or fault.row not in kept]


class _Counts:
    """What one task's outputs add up to."""

    def __init__(self) -> None:
        self._n = 0
        self._seen: dict[str, set[Any]] = {
            name: set() for name in ("concepts", "knowledge", "prompts", "seeds", "methods")
        }

    def add(self, sample: Sample) -> None:
        self._n += 1
        keys = {
            "concepts": sample.concept,
            "knowledge": None if sample.knowledge_id is None else (sample.concept, sample.knowledge_id),
            "prompts": (sample.concept, sample.prompt_id or sample.prompt),
            "seeds": sample.seed,
            "methods": sample.method,
        }
        for name, key in keys.items():
            if key is not None:
                self._seen[name].add(key)

    def to_dict(self) -> dict[str, int]:
        return {"outputs": self._n, **{name: len(keys) for name, keys in self._seen.items()}}
