"""Checklists of questions in their published forms (DSG-1k's CSV, TIFA's JSON), as rows with the column `questions`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beholder._errors import Fault
from beholder.manifest.cells import describe
from beholder.manifest.source import Row, RowReader
from beholder.manifest.text_files import CsvReader
from beholder.protocols.files import Found, find_outputs, load_json_file

_SHOWN = 5


@dataclass
class Item:
    """A prompt with its questions, and what else its rows carry."""

    prompt: str
    questions: list[dict[str, Any]] = field(default_factory=list)
    extras: dict[str, Any] = field(default_factory=dict)


ItemReader = Callable[[Path], "dict[str, Item]"]


def read_dsg(path: Path) -> dict[str, Item]:
    """DSG's questions by item id, from a CSV with a row a question.

    Columns: item_id, text, proposition_id, dependency ("0" for none, "1,4" for two), category_broad,
    category_detailed, question_natural_language. The tag is "attribute - color", or "global" where there is no detail.
    """
    found: dict[str, Item] = {}
    for number, cells in CsvReader(str(path)).rows():
        if isinstance(cells, Fault) or not isinstance(cells, Mapping):
            raise DataFault(cells if isinstance(cells, Fault) else Fault("no columns", row=number))
        lacking = [name for name in DSG_COLUMNS if not cells.get(name)]
        if lacking:
            raise DataFault(Fault(f"{path.name}: a question needs {', '.join(lacking)}", row=number))
        name = str(cells["item_id"])
        item = found.setdefault(name, Item(str(cells["text"]), extras={"category": dsg_category(name)}))
        broad, detail = cells.get("category_broad") or "", cells.get("category_detailed") or ""
        needs = [part.strip() for part in str(cells.get("dependency") or "0").split(",")]
        item.questions.append(
            {
                "id": str(cells["proposition_id"]),
                "q": cells["question_natural_language"],
                "needs": [part for part in needs if part not in ("", "0", "-")],
                "tag": f"{broad} - {detail}" if detail.strip("- ") else broad,
            }
        )
    return found


DSG_COLUMNS = ("item_id", "text", "proposition_id", "question_natural_language")
"""Columns that a file of DSG's questions has at least."""

DSG_CATEGORIES: Mapping[str, str] = {
    "tifa160": "tifa",
    "localized_narratives": "paragraph",
    "stanford_paragraph": "paragraph",
    "vrd": "relation",
    "countbench": "count",
    "diffusiondb": "real_user",
    "midjourney": "real_user",
    "posescript": "pose",
    "whoops": "defying",
    "drawtext": "text",
}
"""The part of DSG-1k that an item belongs to, by the source in its id."""


def dsg_category(item_id: str) -> str:
    """The part of DSG-1k that an item belongs to; its id's source where that is another one.

    >>> dsg_category("countbench_76")
    'count'
    """
    source = item_id.rpartition("_")[0] or item_id
    return next((name for start, name in DSG_CATEGORIES.items() if source.startswith(start)), source)


def read_tifa(path: Path) -> dict[str, Item]:
    """TIFA's questions by text id, from a JSON list of questions with id, caption, question, choices and answer."""
    content = load_json_file(path)
    if not isinstance(content, list):
        raise DataFault(Fault(f"{path.name} must hold a list of questions; got {describe(content)}"))
    found: dict[str, Item] = {}
    for number, entry in enumerate(content, start=1):
        lacking = [name for name in TIFA_FIELDS if not isinstance(entry, Mapping) or not entry.get(name)]
        if lacking:
            raise DataFault(Fault(f"{path.name}: a question needs {', '.join(lacking)}", row=number))
        item = found.setdefault(str(entry["id"]), Item(str(entry["caption"])))
        question = {
            "id": str(len(item.questions) + 1),
            "q": entry["question"],
            "answer": str(entry["answer"]),
            "tag": str(entry.get("element_type") or entry.get("answer_type") or ""),
        }
        choices = [str(choice) for choice in entry.get("choices") or ()]
        item.questions.append({**question, "choices": choices} if choices else question)
    return found


TIFA_FIELDS = ("id", "caption", "question", "answer")
"""Fields that a question of TIFA has at least."""


class DataFault(Exception):
    """A fault of a file of questions, on its way to the list of faults."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


class ChecklistReader(RowReader):
    """A folder with a file of questions, and outputs named after their prompts (`MODEL/ID.png`, `ID_0.jpg`).

    Args:
        folder: the data's folder.
        questions: the file of questions.
        read: reads it.
        images: TIFA's file `{id: path}`, instead of a search for outputs.
    """

    def __init__(self, folder: str, questions: Path, read: ItemReader, images: Path | None = None) -> None:
        super().__init__()
        self.name = self.base = folder
        self._questions, self._read, self._images = questions, read, images
        self.nothing = f"no picture below {folder} is named after a prompt of {questions.name}"

    def rows(self, *, check: bool = False, light: bool = False) -> Iterator[Row]:
        try:
            items = self._read(self._questions)
        except DataFault as error:
            yield 0, error.fault
            return
        self.remarks = []
        seen: dict[str | None, set[str]] = {}
        unmatched: list[str] = []
        for number, found in enumerate(self._outputs(items, unmatched), start=1):
            item = items[found.prompt_id]
            seen.setdefault(found.method, set()).add(found.prompt_id)
            row = {
                "output": found.path, "prompt_id": found.prompt_id, "prompt": item.prompt, "method": found.method,
                "seed": found.seed, "questions": item.questions, **item.extras,
            }  # fmt: skip
            yield number, {name: value for name, value in row.items() if value is not None}
        self.remarks += list(_lone("pictures that are named after no prompt", unmatched))
        for method, done in seen.items():
            of = f" of {method}" if method else ""
            self.remarks += list(_lone(f"prompts without an output{of}", [key for key in items if key not in done]))

    def _outputs(self, items: Mapping[str, Item], unmatched: list[str]) -> Iterator[Found]:
        if self._images is None:
            yield from find_outputs(self.base, items, unmatched)
            return
        listed = load_json_file(self._images)
        for key, path in listed.items() if isinstance(listed, Mapping) else ():
            if key in items and isinstance(path, str | os.PathLike):
                yield Found(os.fspath(path), str(key), None, None)
            else:
                unmatched.append(str(key))


def _lone(what: str, names: list[str]) -> Iterator[str]:
    if names:
        more = " …" if len(names) > _SHOWN else ""
        yield f"{what}: {len(names)} ({', '.join(names[:_SHOWN])}{more})"
