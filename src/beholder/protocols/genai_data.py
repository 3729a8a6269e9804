"""GenAI-Bench's data in its published forms, as rows: prompts with skill tags, outputs of several models, ratings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beholder._errors import Fault
from beholder.manifest.cells import describe
from beholder.manifest.source import Row, RowReader
from beholder.protocols.files import by_stem, find_file, load_json_file
from beholder.protocols.tally import cell_list

PROMPT_FILES = ("genai_image.json", "genai_video.json")
SKILL_FILE = "genai_skills.json"
SKILL_GROUPS: Mapping[str, tuple[str, ...]] = {
    "basic": ("attribute", "scene", "spatial relation", "action relation", "part relation", "basic"),
    "advanced": ("counting", "comparison", "differentiation", "negation", "universal", "advanced"),
}
"""The published skill tags; the last of each group marks the prompts that belong to it."""

_RATING = "_humanrating"


class GenAIFolderReader(RowReader):
    """The folder that the benchmark is published as.

    `genai_image.json` (or `genai_video.json`) is `{prompt_id: {"prompt": …, "models": {model: [ratings]}}}`,
    `genai_skills.json` is `{tag: [prompt numbers]}`, and `MODEL/PROMPT_ID.EXT` are the outputs. A folder of outputs
    that the ratings do not name is a model without ratings.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.name = self.base = folder
        self.nothing = f"no folder below {folder} holds outputs that are named after prompts"

    def rows(self, *, check: bool = False, light: bool = False) -> Iterator[Row]:
        self.remarks = []
        path = find_file(self.base, PROMPT_FILES)
        prompts = None if path is None else load_json_file(path)
        if path is None or not isinstance(prompts, Mapping) or not prompts:
            yield 0, Fault(f"one of {', '.join(PROMPT_FILES)} must hold an object of prompts; got {describe(prompts)}")
            return
        bad = [key for key, item in prompts.items() if not isinstance(item, Mapping) or "prompt" not in item]
        if bad:
            yield 0, Fault(f'every prompt must be an object with a "prompt"; not so: {", ".join(bad[:5])}')
            return
        number = 0
        skills = self._skills(prompts)
        for model in self._models(prompts):
            files = by_stem(os.path.join(self.base, model))
            for key, item in prompts.items():
                ratings = item.get("models", {}).get(model)
                if ratings is None and key not in files:
                    continue
                number += 1
                row = {"output": f"{model}/{files.get(key, f'{key}.jpeg')}", "ratings": cell_list(ratings) or None}
                yield number, _row(row, key, item["prompt"], model, skills.get(key, []))

    def _models(self, prompts: Mapping[str, Any]) -> list[str]:
        """Models with outputs, those that were rated first, in the order of the file."""
        rated = dict.fromkeys(model for item in prompts.values() for model in item.get("models", {}))
        folders = sorted(entry.name for entry in os.scandir(self.base) if entry.is_dir() and entry.name[0] != ".")
        gone = [model for model in rated if model not in folders]
        if gone:
            self.remarks.append(f"the data has ratings of {', '.join(gone)}, whose outputs are not there: left out")
        own = [
            name for name in folders if name not in rated and by_stem(os.path.join(self.base, name)).keys() & prompts
        ]
        return [model for model in rated if model in folders] + own

    def _skills(self, prompts: Mapping[str, Any]) -> dict[str, list[str]]:
        """Skill tags by prompt."""
        path = find_file(self.base, [SKILL_FILE])
        if path is None:
            self.remarks.append(f"there is no {SKILL_FILE}: outputs have no skill tags")
            return {}
        numbered = {int(key): key for key in prompts if key.isdigit()}
        found: dict[str, list[str]] = {}
        content = load_json_file(path)
        for tag, listed in content.items() if isinstance(content, Mapping) else ():
            for item in listed:
                key = numbered.get(item) if isinstance(item, int) else str(item)
                if key in prompts:
                    found.setdefault(str(key), []).append(str(tag))
        return found


class GenAITableReader(RowReader):
    """The table that the benchmark is published as: a row a prompt, a column of pictures a model.

    Columns: `id` or `Index`, `prompt`, `basic_skills` and `advanced_skills` or `Tags` with both; for each model a
    picture `MODEL`, and ratings `MODEL_HumanRating` or `HumanRatings` by model.

    Args:
        inner: reader of the table.
        columns: its columns.
    """

    def __init__(self, inner: RowReader, columns: Sequence[str]) -> None:
        super().__init__()
        self._inner, self.name, self.base = inner, inner.name, inner.base
        self.replayable = inner.replayable
        self.nothing = inner.nothing
        self._models = picture_columns(columns)

    def rows(self, *, check: bool = False, light: bool = False) -> Iterator[Row]:
        number = 0
        for at, cells in self._inner.rows(check=check, light=light):
            if isinstance(cells, Fault) or not isinstance(cells, Mapping):
                yield at, cells
                continue
            named = {str(name).lower(): value for name, value in cells.items()}
            key = named.get("id", named.get("index"))
            skills = table_skills(named)
            for model in self._models:
                if not light and cells.get(model) is None:
                    continue
                ratings = cells.get(f"{model}_HumanRating", (named.get("humanratings") or {}).get(model))
                number += 1
                row = {"output": cells.get(model), "ratings": cell_list(ratings) or None}
                yield number, _row(row, str(at - 1 if key is None else key), named.get("prompt"), model, skills)
        self.remarks = self._inner.remarks


def picture_columns(columns: Sequence[str]) -> list[str]:
    """The columns of a published table that hold models' pictures: those that have ratings, else all others."""
    rated = [name[: -len(_RATING)] for name in columns if name.lower().endswith(_RATING)]
    if rated:
        return [name for name in rated if name in columns]
    known = {"id", "index", "prompt", "tags", "basic_skills", "advanced_skills", "humanratings"}
    return [name for name in columns if name.lower() not in known]


def is_published_table(columns: Sequence[str] | None) -> bool:
    """True for the columns of the published table."""
    names = {name.lower() for name in columns or ()}
    return "prompt" in names and (
        "humanratings" in names
        or any(name.endswith(_RATING) for name in names)
        or ({"basic_skills", "advanced_skills"} & names != set() and "output" not in names and "image" not in names)
    )


def table_skills(cells: Mapping[str, Any]) -> list[str]:
    """Skill tags of a row with `basic_skills` and `advanced_skills` (or `tags` with both), with the group's own tag.

    As in the published lists, a prompt with an advanced skill counts as advanced, others as basic.
    """
    tags = cells.get("tags")
    parts: Mapping[str, Any] = tags if isinstance(tags, Mapping) else {}
    basic, advanced = (
        [str(tag).lower() for tag in cell_list(cells.get(f"{group}_skills", parts.get(group))) if tag != "None"]
        for group in SKILL_GROUPS
    )
    group = ["advanced"] if advanced else ["basic"] if basic else []
    return list(dict.fromkeys([*basic, *advanced, *group]))


def _row(row: dict[str, Any], key: str, prompt: Any, model: str, skills: Sequence[str]) -> dict[str, Any]:
    named = {"id": f"{model}/{key}", "prompt_id": key, "prompt": prompt, "method": model}
    return {**named, **row, "skills": list(skills) or None}
