"""Readers of the folders that subject-driven benchmarks come in: our directory form, and three published layouts."""

from __future__ import annotations

import csv
import os
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from beholder._errors import Fault
from beholder.manifest.locations import open_text
from beholder.manifest.source import Row, RowReader
from beholder.media.kinds import media_kind, natural_key
from beholder.protocols.files import by_stem, find_file, load_json_file, media_paths
from beholder.protocols.subject_rows import GENERATION, RECONSTRUCTION, Concept, Joiner

_STEM = re.compile(r"(?P<prompt>.+?)(?:_k(?P<knowledge>[A-Za-z0-9]+))?(?:_s(?P<seed>\d+))?\Z")
_TASKS = {"rec": RECONSTRUCTION, "reconstruction": RECONSTRUCTION, "gen": GENERATION, "generation": GENERATION}
_LIVE = frozenset({"cat", "dog"})
"""DreamBench's classes of live subjects; all others are objects."""


class SubjectFolderReader(RowReader):
    """What the folder readers share: concepts, then outputs below `generated/`, joined.

    Args:
        folder: the data's folder.
        text: what clip_t scores (see `Joiner`).
    """

    outputs = "generated"

    def __init__(self, folder: str, *, text: str = "given") -> None:
        super().__init__()
        self.name = self.base = folder
        self._text = text
        self.nothing = f"found no pictures under {os.path.join(folder, self.outputs)}"

    def rows(self, *, check: bool = False, light: bool = False) -> Iterator[Row]:
        self.remarks = []
        concepts = self.concepts()
        joiner = Joiner(concepts, text=self._text, task=GENERATION)
        used: set[str] = set()
        for number, item in enumerate(self.items(concepts), start=1):
            if isinstance(item, Fault):
                yield number, Fault(item.message, row=number, where=item.where)
                continue
            used.add(str(item.get("concept")))
            yield from joiner.rows(number, item)
        lone = [name for name in concepts if name not in used]
        if lone:
            self.remarks.append(f"concepts without an output: {len(lone)} ({', '.join(lone[:5])})")

    @abstractmethod
    def concepts(self) -> dict[str, Concept]:
        """The concepts by id."""

    @abstractmethod
    def items(self, concepts: Mapping[str, Concept]) -> Iterator[dict[str, Any] | Fault]:
        """The outputs, as items."""

    def pictures(self, *parts: str) -> list[str]:
        """Pictures in a folder, relative to the data's, in natural order."""
        names = sorted(by_stem(os.path.join(self.base, *parts)).values(), key=natural_key)
        return ["/".join((*parts, name)) for name in names]

    def generated(self) -> Iterator[tuple[str, list[str], str]]:
        """(path, folders between, stem) of every output."""
        for path in media_paths(os.path.join(self.base, self.outputs)):
            *parents, name = path.split("/")
            yield f"{self.outputs}/{path}", parents, os.path.splitext(name)[0]


class DirectoryReader(SubjectFolderReader):
    """`references/CONCEPT/*`, `generated/[METHOD/]TASK/CONCEPT/PROMPT_ID[_kN][_sN].EXT`, `prompts.json`, `classes.csv`.

    `masks/` and `reference_masks/` may mirror the two with PNG files. `prompts.json` maps a stem, a stem below its
    concept, or a prompt id to the prompt; it may also stand in a concept's folder.
    """

    def concepts(self) -> dict[str, Concept]:
        kinds = self._classes()
        found = {}
        for name in _folders(os.path.join(self.base, "references")):
            references = self.pictures("references", name)
            masks = by_stem(os.path.join(self.base, "reference_masks", name))
            stems = [os.path.splitext(os.path.basename(path))[0] for path in references]
            fields: dict[str, Any] = {**kinds.get(name, {}), "references": references}
            if stems and all(stem in masks for stem in stems):
                fields["reference_masks"] = [f"reference_masks/{name}/{masks[stem]}" for stem in stems]
            found[name] = Concept(name, fields)
        return found

    def items(self, concepts: Mapping[str, Concept]) -> Iterator[dict[str, Any] | Fault]:
        prompts = _prompts(self.base)
        for path, parents, stem in self.generated():
            if len(parents) < 2:
                yield Fault(f"{path} must lie in generated/TASK/CONCEPT/", where=path)
                continue
            *methods, task, concept = parents
            parts = _STEM.match(stem)
            assert parts is not None  # the pattern takes any name
            own = _prompts(os.path.dirname(os.path.join(self.base, path)))
            names = (f"{task}/{concept}/{stem}", f"{concept}/{stem}", stem, parts["prompt"])
            prompt = next((table[name] for table in (own, prompts) for name in names if name in table), None)
            mask = os.path.splitext(path)[0].replace(self.outputs, "masks", 1) + ".png"
            item = {
                "output": path, "concept": concept, "task": _TASKS.get(task.lower(), task), "prompt": prompt,
                "prompt_id": parts["prompt"], "method": "/".join(methods) or None,
                "knowledge_id": None if parts["knowledge"] is None else f"k{parts['knowledge']}",
                "seed": None if parts["seed"] is None else int(parts["seed"]),
                "masks": mask if os.path.isfile(os.path.join(self.base, mask)) else None,
            }  # fmt: skip
            yield {name: value for name, value in item.items() if value is not None}

    def _classes(self) -> dict[str, dict[str, str]]:
        path = find_file(self.base, ["classes.csv"])
        if path is None:
            return {}
        with path.open(encoding="utf-8-sig", newline="") as lines:
            rows = [[cell.strip() for cell in row] for row in csv.reader(lines) if any(row)]
        heads = {"concept", "subject_name", "concept_id", "subject"}
        body = rows[1:] if rows and rows[0][0].lower() in heads else rows
        names = ("class_name", "seg_prompt")
        return {row[0]: {name: cell for name, cell in zip(names, row[1:]) if cell} for row in body}


class DreamBenchReader(SubjectFolderReader):
    """DreamBench: `dataset/SUBJECT/*.jpg`, `dataset/prompts_and_classes.txt`, `generated/[METHOD/]SUBJECT/I[_sN].EXT`.

    `I` counts the prompts of the subject's kind (live subjects and objects) from 0.
    """

    identifier = "<sks>"

    def concepts(self) -> dict[str, Concept]:
        folder = self._dataset()
        found = {}
        for name, kind in dreambench_classes(_text(os.path.join(self.base, folder, _DREAMBENCH))).items():
            fields = {"class_name": kind, "seg_prompt": kind, "identifier": self.identifier}
            found[name] = Concept(name, {**fields, "references": self.pictures(*filter(None, [folder]), name)})
        return found

    def items(self, concepts: Mapping[str, Concept]) -> Iterator[dict[str, Any] | Fault]:
        prompts = dreambench_prompts(_text(os.path.join(self.base, self._dataset(), _DREAMBENCH)))
        for path, parents, stem in self.generated():
            *methods, concept = parents or [""]
            at, seed = _numbered(stem)
            kind = str(concepts[concept].fields["class_name"]) if concept in concepts else ""
            templates = prompts["live" if kind in _LIVE else "object"]
            if at is None or at >= len(templates):
                yield Fault(f"{path} must be named after a prompt, 0 to {len(templates) - 1}", where=path)
                continue
            yield _item(path, concept, methods, str(at), seed, prompt_template=templates[at])

    def _dataset(self) -> str:
        return "dataset" if os.path.isfile(os.path.join(self.base, "dataset", _DREAMBENCH)) else ""


_DREAMBENCH = "prompts_and_classes.txt"


def dreambench_classes(text: str) -> dict[str, str]:
    """Class by subject, from the lines below "subject_name,class"."""
    lines = [line.strip() for line in text.splitlines()]
    start = lines.index("subject_name,class") + 1 if "subject_name,class" in lines else 0
    found = {}
    for line in lines[start:]:
        name, comma, kind = line.partition(",")
        if not comma or "'" in line:
            break
        found[name.strip()] = kind.strip()
    return found


def dreambench_prompts(text: str) -> dict[str, list[str]]:
    """The templates of objects and of live subjects."""
    first, _, second = text.partition("Live Subject Prompts")
    quoted = re.compile(r"^\s*'([^']+)'", re.MULTILINE)
    return {"object": quoted.findall(first), "live": quoted.findall(second)}


class CustomConceptReader(SubjectFolderReader):
    """CustomConcept101: `dataset.json`, the files that it names, and `generated/[METHOD/]CONCEPT/I[_sN].EXT`.

    `I` counts the lines of the concept's prompt file from 0; a `prompts.json` in the concept's folder of outputs goes
    before it.
    """

    def concepts(self) -> dict[str, Concept]:
        found = {}
        for entry in load_json_file(os.path.join(self.base, "dataset.json")):
            if not isinstance(entry, Mapping) or "instance_data_dir" not in entry:
                continue
            folder = str(entry["instance_data_dir"]).removeprefix("./").strip("/")
            name, kind = folder.rpartition("/")[2], str(entry.get("class_prompt", ""))
            token = re.search(r"<[^<>]+>", str(entry.get("instance_prompt", "")))
            fields: dict[str, Any] = {"class_name": kind, "seg_prompt": kind}
            fields["references"] = self.pictures(*folder.split("/"))
            fields |= {"identifier": token[0] if token else None, "prompt_file": entry.get("prompt_filename")}
            found[name] = Concept(name, {key: value for key, value in fields.items() if value is not None})
        return found

    def items(self, concepts: Mapping[str, Concept]) -> Iterator[dict[str, Any] | Fault]:
        files: dict[str, list[str]] = {}
        for path, parents, stem in self.generated():
            *methods, concept = parents or [""]
            own = _prompts(os.path.dirname(os.path.join(self.base, path)))
            at, seed = _numbered(stem)
            if stem in own:
                yield _item(path, concept, methods, stem if at is None else str(at), seed, prompt=own[stem])
                continue
            name = str(concepts[concept].fields.get("prompt_file", "")) if concept in concepts else ""
            templates = files.setdefault(name, self._templates(name))
            if concept in concepts and (at is None or at >= len(templates)):
                yield Fault(f"{path} must be named after a line of {name or 'its prompt file'}", where=path)
                continue
            template = templates[at] if at is not None and at < len(templates) else None
            yield _item(path, concept, methods, str(at), seed, prompt_template=template)

    def _templates(self, name: str) -> list[str]:
        for path in (name, os.path.join("prompts", os.path.basename(name))):
            if name and os.path.isfile(os.path.join(self.base, path)):
                return [line.strip() for line in _text(os.path.join(self.base, path)).splitlines() if line.strip()]
        return []


class DreamBenchPlusReader(SubjectFolderReader):
    """DreamBench++: `[METHOD/]tgt_image/COLLECTION/I_J.EXT` with `src_image/` and `text/` beside it, paired by name.

    A collection is called CATEGORY_NUMBER_SUBJECT; the subject is its class, and styles have none: there is nothing to
    segment. `I` is the prompt, `J` the sample.
    """

    outputs = ""

    def concepts(self) -> dict[str, Concept]:
        names = {concept for _, (*_, concept), _ in self._targets()}
        return {name: Concept(name, plus_fields(name)) for name in sorted(names, key=natural_key)}

    def items(self, concepts: Mapping[str, Concept]) -> Iterator[dict[str, Any] | Fault]:
        for path, (*methods, concept), stem in self._targets():
            root = "/".join(methods)
            source = by_stem(os.path.join(self.base, root, "src_image", concept)).get(stem)
            text = os.path.join(self.base, root, "text", concept, f"{stem}.txt")
            at, seed = _numbered(stem)
            item = _item(path, concept, methods, stem if at is None else str(at), seed)
            if source is not None:
                item["references"] = ["/".join([*methods, "src_image", concept, source])]
            if os.path.isfile(text):
                item["prompt"] = _text(text).strip()
            yield {**item, "category": concept.partition("_")[0]}

    def _targets(self) -> Iterator[tuple[str, list[str], str]]:
        """(path, [method …, collection], stem) of every output."""
        for path in media_paths(self.base):
            *parents, name = path.split("/")
            if len(parents) >= 2 and parents[-2] == "tgt_image":
                yield path, [*parents[:-2], parents[-1]], os.path.splitext(name)[0]


def plus_fields(collection: str) -> dict[str, str]:
    """The class of a collection of DreamBench++, where it shows a subject.

    >>> plus_fields("animal_03_red_panda")
    {'class_name': 'red panda'}
    >>> plus_fields("style_01_ukiyoe")
    {}
    """
    category, _, rest = collection.partition("_")
    subject = re.sub(r"^\d+_?", "", rest).replace("_", " ").strip()
    return {} if category == "style" or not subject else {"class_name": subject}


def folder_reader(folder: str, *, text: str) -> SubjectFolderReader | None:
    """The reader that a folder's content asks for; None for a folder of another kind."""
    there = {entry.name for entry in os.scandir(folder)}
    if _DREAMBENCH in there or os.path.isfile(os.path.join(folder, "dataset", _DREAMBENCH)):
        return DreamBenchReader(folder, text=text)
    if "dataset.json" in there:
        return CustomConceptReader(folder, text=text)
    if {"references", "generated"} <= there:
        return DirectoryReader(folder, text=text)
    inner = [name for name in there if os.path.isdir(os.path.join(folder, name, "tgt_image"))]
    return DreamBenchPlusReader(folder, text=text) if "tgt_image" in there or inner else None


def _item(
    path: str, concept: str, methods: Sequence[str], prompt_id: str, seed: int | None, **texts: Any
) -> dict[str, Any]:
    item = {
        "output": path,
        "concept": concept,
        "method": "/".join(methods) or None,
        "prompt_id": prompt_id,
        "seed": seed,
    }
    return {name: value for name, value in {**item, **texts}.items() if value is not None}


def _numbered(stem: str) -> tuple[int | None, int | None]:
    """(number, seed) of names like 3, 03_s1, 3_1."""
    found = re.fullmatch(r"(\d+)(?:_s?(\d+))?", stem)
    return (None, None) if found is None else (int(found[1]), None if found[2] is None else int(found[2]))


def _folders(path: str) -> list[str]:
    try:
        names = [entry.name for entry in os.scandir(path) if entry.is_dir() and not entry.name.startswith(".")]
    except OSError:
        return []
    return sorted(names, key=natural_key)


def _prompts(folder: str) -> dict[str, str]:
    """`prompts.json` of a folder; file names in it may have their extension."""
    path = Path(folder) / "prompts.json"
    if not path.is_file():
        return {}
    content = load_json_file(path)
    if not isinstance(content, Mapping):
        return {}
    return {(os.path.splitext(key)[0] if media_kind(key) else key): str(text) for key, text in content.items()}


def _text(path: str) -> str:
    with open_text(path) as handle:
        return handle.read()
