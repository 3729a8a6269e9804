"""What a validation counts and notices over all rows, in little memory a row."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from beholder._errors import Fault
from beholder.manifest.ids import Ledger
from beholder.manifest.schema import Sample

SHOWN = 5
_MASK = (1 << 64) - 1
Group = tuple[str | None, str, str | None, str | None, str | None]
"""Method, prompt, and what else tells one task of a prompt from another: concept, task, knowledge."""


class Examples:
    """A count and the first few of a kind."""

    def __init__(self) -> None:
        self.count, self.first = 0, list[str]()

    def add(self, text: str) -> None:
        self.count += 1
        if len(self.first) < SHOWN:
            self.first.append(text)

    def lines(self, message: str) -> Iterator[str]:
        """One line, or none when nothing was added."""
        if self.count:
            yield f"{message}: {self.count} ({'; '.join(self.first)}{'; …' if self.count > SHOWN else ''})"


class PromptTally:
    """Outputs and seeds a prompt, prompts that are equal but for case, rows without a prompt."""

    def __init__(self) -> None:
        self.texts: set[str] = set()
        self._spellings: dict[str, str] = {}
        self._case = Examples()
        self._outputs: Counter[Group] = Counter()
        self._seeds: dict[Group, int] = {}
        self._without: list[int | None] = []
        self._blank: list[int | None] = []

    def add(self, sample: Sample) -> None:
        prompt = sample.prompt
        if prompt is None:
            self._without.append(sample.row)
        elif not prompt.strip():
            self._blank.append(sample.row)
        elif prompt not in self.texts:
            self.texts.add(prompt)
            other = self._spellings.setdefault(" ".join(prompt.casefold().split()), prompt)
            if other != prompt:
                self._case.add(f"{other!r} and {prompt!r}")
        key = sample.prompt_id or prompt
        if key:
            group = (sample.method, key, sample.concept, sample.task, sample.knowledge_id)
            self._outputs[group] += 1
            if sample.seed is not None:
                self._seeds[group] = (self._seeds.get(group, 0) + hash(sample.seed)) & _MASK

    def faults(self) -> Iterator[Fault]:
        rows = self._blank + (self._without if self.texts else [])
        yield from (Fault("the prompt is blank", row=row, where="prompt", form=False) for row in rows)

    def per_prompt(self) -> dict[str, Any]:
        """`min`, `max` and how many prompts have how many outputs (of one method)."""
        if not self._outputs:
            return {}
        sizes = Counter(self._outputs.values())
        return {"min": min(sizes), "max": max(sizes), "prompts_by_outputs": {str(n): sizes[n] for n in sorted(sizes)}}

    def warnings(self) -> Iterator[str]:
        odd = Examples()
        signatures = Counter((self._outputs[group], seeds) for group, seeds in self._seeds.items())
        if len(signatures) > 1:
            usual = signatures.most_common(1)[0][0]
            for group, seeds in self._seeds.items():
                if (self._outputs[group], seeds) != usual:
                    odd.add(_named(group))
        yield from odd.lines("prompts whose seeds are not those of most prompts")

    def notices(self) -> Iterator[str]:
        sizes = sorted(self._outputs.items(), key=lambda item: item[1])
        if sizes and sizes[0][1] != sizes[-1][1]:
            (low, few), (high, many) = sizes[0], sizes[-1]
            yield (
                f"outputs per prompt differ, from {few} ({_named(low)}) to {many} ({_named(high)}): "
                "the mean over prompts and the mean over outputs are not the same number"
            )
        yield from self._case.lines("prompts that are equal but for case or spaces, counted apart")
        if not self.texts and self._without:
            yield "no row has a prompt: metrics that need one have no value"


class FileTally:
    """Outputs that are the same file or content, that equal a reference, or that share a name."""

    def __init__(self) -> None:
        self.known = Ledger()
        self.folders: set[str] = set()
        self._stems, self._paths = Ledger(), Ledger()
        self._outputs, self._references = Ledger(), Ledger()
        self._same, self._leaks, self._twins = Examples(), Examples(), Examples()

    def add_output(self, row: int, path: str | None, fingerprint: str | None) -> None:
        if fingerprint is not None:
            first = self._outputs.add(fingerprint, row)
            if first is not None:
                self._same.add(f"rows {first} and {row}")
            at = self._references.find(fingerprint)
            if at is not None:
                self._leaks.add(_leak(row, at))
        if path is None:
            return
        self.add_path(path)
        self.folders.add(os.path.dirname(os.path.abspath(path)))
        if self._paths.add(path, row) is None:
            first = self._stems.add(os.path.splitext(path)[0], row)
            if first is not None:
                self._twins.add(f"rows {first} and {row}, {os.path.basename(path)}")

    def add_reference(self, row: int, path: str | None, fingerprint: str | None) -> None:
        if path is not None:
            self.add_path(path)
        if fingerprint is not None and self._references.add(fingerprint, row) is None:
            at = self._outputs.find(fingerprint)
            if at is not None:
                self._leaks.add(_leak(at, row))

    def add_path(self, path: str) -> None:
        """A file that some row names."""
        self.known.add(os.path.abspath(path), 0)

    def leftovers(self, is_media: Any) -> Iterator[str]:
        """Media beside the outputs that no row names."""
        lone = Examples()
        for folder in sorted(self.folders):
            try:
                entries = sorted(entry.path for entry in os.scandir(folder) if entry.is_file())
            except OSError:
                continue
            for path in entries:
                hidden = os.path.basename(path).startswith(".")
                if not hidden and is_media(path) and self.known.find(path) is None:
                    lone.add(path)
        yield from lone.lines("media beside the outputs that no row names")

    def warnings(self) -> Iterator[str]:
        yield from self._leaks.lines("leak: outputs that are byte for byte a reference")
        yield from self._same.lines("outputs that are byte for byte the same")
        yield from self._twins.lines("outputs whose names differ in their extension only")


def spread(values: Iterable[str | None]) -> list[str]:
    """The distinct values, sorted."""
    return sorted({value for value in values if value is not None})


def _leak(row: int, reference_row: int) -> str:
    return f"row {row}" if row == reference_row else f"row {row}, a reference of row {reference_row}"


def _named(group: Group) -> str:
    method, key, concept, _, _ = group
    text = repr(key) if concept is None else f"{key!r} with {concept!r}"
    return text if method is None else f"{text} of {method!r}"
