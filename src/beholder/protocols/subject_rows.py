"""Rows of subject-driven benchmarks: fields of concepts joined, templates filled, identifiers taken out."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beholder._errors import Fault
from beholder.manifest.columns import canonical_name
from beholder.manifest.source import Row, RowReader
from beholder.protocols.tally import cell_list

RECONSTRUCTION, GENERATION = "reconstruction", "generation"
TEXTS = ("given", "prompt", "class")
"""What clip_t scores: the row's `eval_prompt` where it has one, else the prompt; the prompt always; or the prompt with
the class in the place of the knowledge (or of the identifier)."""

_CONCEPT_FIELDS = ("class_name", "seg_prompt", "references", "reference_masks", "identifier")


@dataclass(frozen=True)
class Concept:
    """A subject with its real images.

    Args:
        name: its id.
        fields: its columns by canonical name (`class_name`, `references` …), as the data writes them.
        knowledge: text of each knowledge item by its id.
    """

    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    knowledge: Mapping[str, str] = field(default_factory=dict)


def read_concept(entry: Mapping[str, Any], number: int) -> Concept | Fault:
    """A concept from an entry of `concepts`, whose columns may have any of their known names."""
    named = {canonical_name(str(key)) or str(key): value for key, value in entry.items() if value not in (None, "")}
    name = named.pop("concept", named.pop("id", None))
    if name is None:
        return Fault("a concept needs a concept_id", row=number, where="concepts")
    knowledge = {}
    for at, item in enumerate(named.pop("knowledge", None) or ()):
        text = item.get("text") if isinstance(item, Mapping) else item
        key = item.get("id", f"k{at}") if isinstance(item, Mapping) else f"k{at}"
        if not isinstance(text, str) or not text.strip():
            return Fault(f"a knowledge item of {name!r} needs a text", row=number, where="concepts")
        knowledge[str(key)] = text
    return Concept(str(name), named, knowledge)


class Joiner:
    """Makes canonical rows of a benchmark's items.

    Args:
        concepts: the concepts by id; None where rows carry everything themselves.
        defaults: columns for items that lack them.
        text: what clip_t scores, one of `TEXTS`.
        task: the task of items that name none.
    """

    def __init__(
        self,
        concepts: Mapping[str, Concept] | None,
        *,
        defaults: Mapping[str, Any] | None = None,
        text: str = "given",
        task: str | None = None,
    ) -> None:
        self._concepts, self._text, self._task = concepts, text, task
        self._defaults = dict(defaults or {})

    def rows(self, number: int, item: Mapping[str, Any]) -> Iterator[Row]:
        """The rows of an item: one, or one a concept where it shows several."""
        given = {str(key): value for key, value in {**self._defaults, **item}.items() if value is not None}
        by_name = {canonical_name(key) or key: key for key in given}
        key = by_name.get("concept")
        listed = cell_list(given[key]) if key is not None and self._is_several(key, given[key]) else None
        names = [given.get(key or "")] if listed is None else listed
        for at, name in enumerate(names):
            row = dict(given)
            if listed is not None:
                row[str(key)] = name
                if len(names) > 1:
                    row[by_name.get("id", "id")] = f"{self._own_id(number, given, by_name)}#{name}"
            made = self._row(number, row, by_name, None if name is None else str(name))
            # All rows of an item share its number, so that messages name a row of the input.
            yield number, made
            if isinstance(made, Fault) and at == 0:
                return

    def _is_several(self, key: str, cell: Any) -> bool:
        """True for a list of concepts; "a|b" is one where the column says so and no concept has that name."""
        if isinstance(cell, (list, tuple)):
            return True
        text = cell.strip() if isinstance(cell, str) else ""
        return text.startswith("[") or (key == "concept_ids" and "|" in text and text not in (self._concepts or ()))

    @staticmethod
    def _own_id(number: int, given: Mapping[str, Any], by_name: Mapping[str, str]) -> str:
        """The id of an item, else its picture's path, else its number."""
        output = given.get(by_name.get("output", ""))
        return str(given.get(by_name.get("id", ""), output if isinstance(output, str) else number))

    def _row(self, number: int, row: dict[str, Any], by_name: Mapping[str, str], name: str | None) -> Any:
        concept = Concept("")
        if self._concepts is not None and name is not None:
            if name not in self._concepts:
                listed = ", ".join(map(repr, self._concepts)) or "none"
                return Fault(f"unknown concept {name!r}; listed are {listed}", row=number, where=by_name["concept"])
            concept = self._concepts[name]
        self._join(row, by_name, concept)
        if self._task is not None and not str(row.get(by_name.get("task", "task")) or "").strip():
            row[by_name.get("task", "task")] = self._task
        return self._write_texts(number, row, by_name, concept)

    def _join(self, row: dict[str, Any], by_name: Mapping[str, str], concept: Concept) -> None:
        """The concept's fields for those that the row lacks; own references leave out those of the concept."""
        skipped = {"references", "reference_masks"} if "references" in by_name else set()
        for name in _CONCEPT_FIELDS:
            if name in concept.fields and name not in by_name and name not in skipped:
                row[name] = concept.fields[name]

    def _write_texts(self, number: int, row: dict[str, Any], by_name: Mapping[str, str], concept: Concept) -> Any:
        """Fills the template, chooses the text of clip_t, and takes identifiers out of what is scored."""
        identifiers = [str(item) for item in cell_list(row.get("identifier"))]
        knowledge = self._knowledge(row, concept)
        if isinstance(knowledge, Fault):
            return Fault(knowledge.message, row=number, where=knowledge.where)
        prompt_key = by_name.get("prompt", "prompt")
        prompt, template = row.get(prompt_key), row.get("prompt_template")
        kind = str(row.get("class_name") or row.get(by_name.get("class_name", "")) or "")
        if prompt is None and template is not None:
            filled = fill_template(str(template), knowledge=knowledge, identifier=_first(identifiers), kind=kind)
            if filled is None:
                text = f"the template {template!r} needs a knowledge_id, an identifier or a class"
                return Fault(text, row=number, where="prompt_template")
            prompt = filled
        elif prompt is None and row.get(by_name.get("task", "task")) == RECONSTRUCTION:
            prompt = knowledge
        if prompt is None:
            return row
        scored = remove_identifiers(str(prompt), identifiers)
        if scored != prompt:
            row["raw_prompt"] = prompt
        row[prompt_key] = scored
        own = row.get("eval_prompt")
        if self._text == "prompt":
            row.pop("eval_prompt", None)
        elif own is None and self._text == "class" and kind:
            row["eval_prompt"] = with_class(scored, kind, knowledge=knowledge)
        elif own is not None:
            row["eval_prompt"] = remove_identifiers(str(own), identifiers)
        return row

    def _knowledge(self, row: Mapping[str, Any], concept: Concept) -> str | Fault | None:
        """The text of the row's knowledge item; None where it has none."""
        key = row.get("knowledge_id")
        if row.get("knowledge") is not None and isinstance(row["knowledge"], str):
            return str(row["knowledge"])
        if key is None or not concept.knowledge:
            return None
        if str(key) not in concept.knowledge:
            known = ", ".join(concept.knowledge)
            return Fault(f"unknown knowledge {key!r} of {concept.name!r}; there are {known}", where="knowledge_id")
        return concept.knowledge[str(key)]


class JoinedReader(RowReader):
    """Rows of another reader, joined with concepts.

    Args:
        inner: gives the items.
        joiner: makes rows of them.
        faults: what was wrong with the concepts.
    """

    def __init__(self, inner: RowReader, joiner: Joiner, faults: Sequence[Fault] = ()) -> None:
        super().__init__()
        self.name, self.base, self.nothing = inner.name, inner.base, inner.nothing
        self.replayable = inner.replayable
        self._inner, self._joiner, self._faults = inner, joiner, tuple(faults)

    def rows(self, *, check: bool = False, light: bool = False) -> Iterator[Row]:
        for fault in self._faults:
            yield 0, fault
        for number, item in self._inner.rows(check=check, light=light):
            if isinstance(item, Mapping):
                yield from self._joiner.rows(number, item)
            else:
                yield number, item
        self.remarks = list(self._inner.remarks)


def fill_template(template: str, *, knowledge: str | None, identifier: str | None, kind: str) -> str | None:
    """A prompt from its template; None where what it needs is not there.

    `{}` takes the knowledge, else identifier and class; `{0}` the identifier and `{1}` the class, as DreamBooth writes
    its prompts. Spaces left by an empty part are closed.

    >>> fill_template("{} in snowy ice", knowledge="my birthday present", identifier=None, kind="statue")
    'my birthday present in snowy ice'
    >>> fill_template("a {0} {1} in the jungle", knowledge=None, identifier="<sks>", kind="dog")
    'a <sks> dog in the jungle'
    """
    fields = {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}
    subject = knowledge or " ".join(part for part in (identifier, kind) if part)
    if "" in fields and not subject:
        return None
    if "1" in fields and not kind:
        return None
    text = re.sub(
        r"\{(\d?)\}", lambda found: {"": subject, "0": identifier or "", "1": kind}.get(found[1], ""), template
    )
    return " ".join(text.split())


def remove_identifiers(text: str, identifiers: Sequence[str]) -> str:
    """A prompt without the rare tokens that stand for its concept; spaces are closed.

    >>> remove_identifiers("a <sks> dog in the jungle", ["<sks>"])
    'a dog in the jungle'
    """
    if not any(item in text for item in identifiers if item):
        return text
    for item in sorted(filter(None, identifiers), key=len, reverse=True):
        # A plain word is removed as a word only: `sks` does not touch `asks`.
        edge = r"\b" if item[0].isalnum() and item[-1].isalnum() else ""
        text = re.sub(edge + re.escape(item) + edge, " ", text)
    return re.sub(r"\s+([,.;:!?])", r"\1", " ".join(text.split()))


def with_class(text: str, kind: str, *, knowledge: str | None) -> str:
    """A prompt in which the class stands for the knowledge; the prompt itself where the knowledge is not in it.

    >>> with_class("my birthday present in snowy ice", "statue", knowledge="my birthday present")
    'a statue in snowy ice'
    """
    if not knowledge or knowledge not in text:
        return text
    before = text[: text.index(knowledge)].rstrip().lower()
    noun = kind if re.search(r"\b(a|an|the|my|this|that)$", before) else f"{article(kind)} {kind}"
    return " ".join(text.replace(knowledge, noun, 1).split())


def article(noun: str) -> str:
    """The indefinite article by the noun's first letter.

    >>> article("orange cat")
    'an'
    """
    return "an" if noun[:1].lower() in "aeiou" else "a"


def _first(items: Sequence[str]) -> str | None:
    return items[0] if items else None
