"""What the user should know about a run beside its numbers; each kind is said once, with a count."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from beholder.backends.base import ResolvedModel


class Notices:
    """Counts remarkable things while samples stream by."""

    def __init__(self) -> None:
        self._foreign: dict[str, int] = {}

    def texts(self, model: ResolvedModel, texts: Iterable[Any]) -> None:
        """Looks at texts that a model is about to encode."""
        if not model.card.english_only:
            return
        count = sum(1 for text in texts if not text.isascii() and has_other_script(text))
        if count:
            self._foreign[model.id] = self._foreign.get(model.id, 0) + count

    def lines(self, headers: Iterable[Mapping[str, Any]]) -> list[str]:
        """The notices of a run, from its frames' headers and from what was counted here."""
        truncated: dict[str, int] = {}
        leaked: list[str] = []
        for header in headers:
            leaked += header.get("leaks", [])
            for label, count in header["truncated"].items():
                truncated[label] = truncated.get(label, 0) + count
        lines = [
            f"{label}: {_rows(count)} a text longer than the model takes; it was truncated and its row is marked"
            for label, count in truncated.items()
            if count
        ]
        lines += [
            f"{model} was trained on English only; {count} text{'s' if count != 1 else ''} in another script got a "
            "score that means little"
            for model, count in self._foreign.items()
        ]
        if leaked:
            shown = ", ".join(leaked[:5]) + (" …" if len(leaked) > 5 else "")
            lines.append(f"{_rows(len(leaked))} an output that is, byte for byte, one of its own references: {shown}")
        return lines


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
