"""Ids that are unique over a run, and the ledger that finds those that are not."""

from __future__ import annotations

import os
from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np

from beholder._hashing import hash_json

_RECENT = 1 << 14
ID_PARTS = ("task", "method", "concept", "knowledge_id", "prompt_id", "seed")


class Ledger:
    """Which texts were seen, and in which row first, in 16 bytes a text.

    Texts are told apart by Python's 64-bit string hash: among a million texts the chance that any two are
    confused is below 1e-7.
    """

    def __init__(self) -> None:
        self._recent: dict[int, int] = {}
        self._hashes = np.empty(0, np.int64)
        self._rows = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._recent) + len(self._hashes)

    def find(self, text: str) -> int | None:
        """The row in which the text was first seen, or None."""
        key = hash(text)
        row = self._recent.get(key)
        if row is None and len(self._hashes):
            at = int(self._hashes.searchsorted(key))
            if at < len(self._hashes) and self._hashes[at] == key:
                row = int(self._rows[at])
        return row

    def add(self, text: str, row: int) -> int | None:
        """Note the text; returns the row in which it was seen before, or None when it is new."""
        before = self.find(text)
        if before is None:
            self._recent[hash(text)] = row
            if len(self._recent) >= _RECENT:
                self._merge()
        return before

    def _merge(self) -> None:
        hashes = np.concatenate([self._hashes, np.frombuffer(array("q", self._recent.keys()), np.int64)])
        rows = np.concatenate([self._rows, np.frombuffer(array("q", self._recent.values()), np.int64)])
        order = np.argsort(hashes, kind="stable")
        self._hashes, self._rows = hashes[order], rows[order]
        self._recent.clear()


def id_from_columns(values: Mapping[str, Any]) -> str | None:
    """`task/method/concept/knowledge_id/prompt_id/seed`, of those that the row has.

    None unless the row has both `prompt_id` and `seed`: less would give one id to several outputs of one prompt.
    """
    if values.get("prompt_id") is None or values.get("seed") is None:
        return None
    return "/".join(str(values[part]) for part in ID_PARTS if values.get(part) is not None)


def id_from_path(path: str) -> str:
    """The path as written, with forward slashes and without a leading `./`."""
    text = path.replace(os.sep, "/") if os.sep != "/" else path
    while text.startswith("./"):
        text = text[2:].lstrip("/")
    return text or path


def id_from_content(fingerprint: str, values: Mapping[str, Any]) -> str:
    """16 hex digits of a hash over the output's content and the row's plain columns."""
    columns = {k: v for k, v in values.items() if isinstance(v, str | int)}
    return hash_json([fingerprint, columns])[:16]
