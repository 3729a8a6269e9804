"""OpenS2V's evaluation files as rows: a JSON object of videos by stem, references beside it, videos by model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from beholder._errors import Fault, UserError
from beholder.manifest.source import Row, RowReader
from beholder.media.kinds import media_kind, natural_key
from beholder.protocols.files import CONTAINERS, load_json_file, media_paths

MANIFESTS: Mapping[str, tuple[str, ...]] = {
    "open": ("Open-Domain_Eval.json",),
    "human": ("Human-Domain_Eval.json",),
    "single": ("Single-Domain_Eval.json", "SingleObject_Eval.json"),
}
"""Names of the published files by track."""

OTHER = ("eval.json", "manifest.json")
OFFICIAL = ".mp4"
_ANIMATIONS = (".gif", ".webp", ".apng")
SUBTRACKS = (
    "singleobj", "singlehuman", "singleface", "multiobject", "humanobj", "faceobj", "multihuman", "multiface",
)  # fmt: skip


def subtrack_of(stem: str) -> str:
    """The sub-track that a stem tells: a known one at its beginning, else what stands before its last underscore.

    >>> subtrack_of("faceobj_14"), subtrack_of("faceobj_14.v2")
    ('faceobj', 'faceobj')
    """
    known = stem.partition("_")[0]
    if known in SUBTRACKS and known != stem:
        return known
    head, _, tail = stem.rpartition("_")
    return head if head and tail.isdigit() else stem


def find_manifest(data: Any, track: str) -> Path | None:
    """The evaluation file of a folder, or the file that was named; None where it is of another form.

    Raises:
        UserError: a folder with several JSON objects, none of which has a name that is known.
    """
    if not isinstance(data, (str, os.PathLike)):
        return None
    path = Path(data)
    if path.is_file():
        return path if path.suffix.lower() == ".json" and _is_evaluation(path) else None
    if not path.is_dir():
        return None
    there = {item.name.casefold(): item for item in path.iterdir() if item.suffix.lower() == ".json"}
    for name in (*MANIFESTS[track], *OTHER):
        if name.casefold() in there and _is_evaluation(there[name.casefold()]):
            return there[name.casefold()]
    fitting = sorted(item for item in there.values() if _is_evaluation(item))
    known = {name.casefold() for names in MANIFESTS.values() for name in names}
    others = [item for item in fitting if item.name.casefold() not in known]
    if len(others) > 1:
        raise UserError(
            f"{path} must have one evaluation file", got=", ".join(item.name for item in others),
            fix=f"Name the file itself, or call it {MANIFESTS[track][0]}",
        )  # fmt: skip
    if not others and fitting:
        raise UserError(
            f"{path} must have the evaluation file of the track {track}", got=", ".join(item.name for item in fitting),
            fix=f"It is called {' or '.join(MANIFESTS[track])}; --track says which one is meant",
        )  # fmt: skip
    return others[0] if others else None


def _is_evaluation(path: Path) -> bool:
    """True for a JSON object of objects with "img_paths" or "class_label"."""
    try:
        content = load_json_file(path)
    except UserError:
        return False
    return isinstance(content, dict) and any(
        isinstance(entry, dict) and ("img_paths" in entry or "class_label" in entry) for entry in content.values()
    )


class EvaluationReader(RowReader):
    """Rows of an evaluation file: every entry with every model's video of that stem.

    Videos are looked for below the file's folder; the folders that they lie in, but for those like `videos` and for a
    last one that is called like the video's sub-track, name the model. An entry without a video of a model is a row
    whose output is missing.

    Args:
        path: the evaluation file; `img_paths` start from its folder.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.name, self.base = str(path), str(path.parent)
        self._path = path
        self.nothing = f"found no entries in {path}"

    def rows(self, *, check: bool = False, light: bool = False) -> Iterator[Row]:
        self.remarks = []
        entries = load_json_file(self._path)
        models, unknown, foreign = self._videos(entries)
        number = 0
        for folder, videos in models.items():
            method = "/".join(part for part in folder.split("/") if part.casefold() not in CONTAINERS) or None
            for stem, entry in entries.items():
                number += 1
                fault = entry_fault(stem, entry)
                if fault is not None:
                    yield number, Fault(fault, row=number, where=stem)
                    continue
                path = videos.get(stem, f"{folder}/{stem}{OFFICIAL}" if folder else f"{stem}{OFFICIAL}")
                yield number, _row(stem, entry, path, method)
        passed = f"videos in other containers than {OFFICIAL}, which OpenS2V's scripts pass over"
        for what, names in (("videos without an entry, not scored", unknown), (passed, foreign)):
            if names:
                more = f" and {len(names) - 5} more" if len(names) > 5 else ""
                self.remarks.append(f"{what}: {len(names)} ({', '.join(names[:5])}{more})")
        self.remarks += _uneven(entries)

    def _videos(self, entries: Mapping[str, Any]) -> tuple[dict[str, dict[str, str]], list[str], list[str]]:
        """Videos by folder and stem, those without an entry, and those in other containers."""
        models: dict[str, dict[str, str]] = {}
        unknown, foreign = [], []
        for path in media_paths(self.base):
            *folders, name = path.split("/")
            stem, extension = os.path.splitext(name)
            animation = extension.lower() in _ANIMATIONS and stem in entries
            if media_kind(path) != "video" and not animation:
                continue
            if stem not in entries:
                unknown.append(path)
                continue
            if extension.lower() != OFFICIAL:
                foreign.append(path)
            if folders and folders[-1].casefold() == subtrack_of(stem):
                folders.pop()
            known = models.setdefault("/".join(folders), {})
            if stem not in known or extension.lower() == OFFICIAL:
                known[stem] = path
        ordered = {folder: models[folder] for folder in sorted(models, key=natural_key)}
        return ordered or {"videos": {}}, unknown, foreign


def entry_fault(stem: str, entry: Any) -> str | None:
    """What is wrong with the form of an entry, or None. Lists of other lengths are no such fault: the shorter rules."""
    if not isinstance(entry, Mapping):
        return f"{stem} must be an object, got {type(entry).__name__}"
    for name in ("img_paths", "class_label"):
        value = entry.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            return f"{name} of {stem} must be a list of texts"
    if not isinstance(entry.get("prompt"), str | None):
        return f"prompt of {stem} must be a text"
    return None


def _row(stem: str, entry: Mapping[str, Any], path: str, method: str | None) -> dict[str, Any]:
    row = {
        "id": f"{method}/{stem}" if method else stem, "stem": stem, "output": path, "prompt": entry.get("prompt"),
        "references": entry.get("img_paths", []), "seg_prompt": entry.get("class_label", []), "method": method,
        "task": subtrack_of(stem), "prompt_id": stem, "synthesis_flag": entry.get("synthesis_flag"),
    }  # fmt: skip
    return {name: value for name, value in row.items() if value is not None and value != []}


def _uneven(entries: Mapping[str, Any]) -> list[str]:
    wrong = [
        f"{stem} ({len(entry.get('img_paths', []))} references, {len(entry.get('class_label', []))} labels)"
        for stem, entry in entries.items()
        if isinstance(entry, Mapping) and len(entry.get("img_paths", [])) != len(entry.get("class_label", []))
    ]
    if not wrong:
        return []
    more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
    return [f"entries with other numbers of labels than references, of which the shorter list rules: "
            f"{', '.join(wrong[:5])}{more}"]  # fmt: skip
