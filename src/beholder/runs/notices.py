"""What the user should know about a run beside its numbers; each kind is said once, with a count."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from beholder.backends.base import ResolvedModel

if TYPE_CHECKING:
    from beholder.records import Summary
    from beholder.runs.plan import PlannedMetric


def foreign_texts(model: ResolvedModel, texts: Iterable[Any]) -> int:
    """How many texts hold a letter that is not Latin, for a model that was trained on English only; else 0."""
    if not model.card.english_only:
        return 0
    return sum(1 for text in texts if not text.isascii() and has_other_script(text))


def notice_lines(headers: Iterable[Mapping[str, Any]]) -> list[str]:
    """The notices of a run, from what its frames' headers counted."""
    truncated: dict[str, int] = {}
    foreign: dict[str, int] = {}
    leaked: list[str] = []
    halved: dict[str, list[int]] = {}
    remarks: dict[tuple[str, str], int] = {}
    for header in headers:
        leaked += header["leaks"]
        halved |= header.get("halved", {})
        for label, found in header.get("remarks", {}).items():
            for text, count in found.items():
                remarks[label, text] = remarks.get((label, text), 0) + count
        _add(truncated, header["truncated"])
        _add(foreign, header["foreign"])
    lines = [
        f"{label}: {_rows(count)} a text longer than the model takes; it was truncated and its row is marked"
        for label, count in truncated.items()
        if count
    ]
    lines += [
        f"{model} was trained on English only; {count} text{'s' if count != 1 else ''} in another script got a "
        "score that means little"
        for model, count in foreign.items()
        if count
    ]
    lines += [
        f"{model}: a batch of {first} did not fit into memory; batches of {last} were used"
        for model, (first, last) in halved.items()
    ]
    lines += [f"{label}: {_rows(count)} a remark: {text}" for (label, text), count in remarks.items()]
    if leaked:
        shown = ", ".join(leaked[:5]) + (" …" if len(leaked) > 5 else "")
        lines.append(f"{_rows(len(leaked))} an output that is, byte for byte, one of its own references: {shown}")
    return lines


def lacking_columns(summary: Iterable[Summary], metrics: Iterable[PlannedMetric]) -> list[str]:
    """What to give where a metric has no value at all because no row has what it reads."""
    missing: dict[str, set[str]] = {}
    scored = set()
    for item in summary:
        missing.setdefault(item.label, set()).update(item.n_missing)
        if item.n:
            scored.add(item.label)
    lines = []
    for planned in metrics:
        metric, label = planned.metric, planned.label
        found = missing.get(label, set()) if label not in scored else set()
        if found == {"empty_prompt"}:
            column = metric.options.get("text", "prompt")
            text = f"no row has a text for it: give a column {column}"
            if column == "prompt":
                text += ", an a.txt beside each a.png, or --prompts with --outputs"
            lines.append(f"{label}: {text}")
        elif found == {"no_reference"} and "references" in metric.info.inputs:
            lines.append(f"{label}: no row has a reference: give a column references")
    return lines


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        total[name] = total.get(name, 0) + count


def _rows(count: int) -> str:
    return f"{count} row{'s have' if count != 1 else ' has'}"


def has_other_script(text: str) -> bool:
    """True when a text holds a letter that is not Latin."""
    for char in text:
        if char.isascii() or not char.isalpha():
            continue
        if not unicodedata.name(char, "").startswith("LATIN"):
            return True
    return False
