"""Features of one space that are not on disk yet."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from beholder.backends.base import Columns
from beholder.backends.columns import nbytes


def size_of(columns: Columns) -> int:
    """Bytes of all columns."""
    return sum(nbytes(array) for array in columns.values())


class Pending:
    """The write buffer of one space.

    `rows` are the places of the keys in `stacked`, `bytes` is what the buffer holds, `since` when it was begun.
    """

    def __init__(self) -> None:
        self.rows: dict[bytes, int] = {}
        self.bytes = 0
        self.since = time.monotonic()
        self._parts: list[Columns] = []

    def add(self, keys: Sequence[bytes], columns: Columns) -> None:
        """Adds features; a key that is there already keeps its first one.

        Raises:
            ValueError: a key stands twice in one call.
        """
        fresh = [i for i, key in enumerate(keys) if key not in self.rows]
        if len(fresh) != len(keys):
            columns = {name: array[fresh] for name, array in columns.items()}
        start = len(self.rows)
        for offset, i in enumerate(fresh):
            self.rows[keys[i]] = start + offset
        if len(self.rows) - start != len(fresh):
            raise ValueError("the keys of one put must differ")
        if fresh:
            self._parts.append(columns)
            self.bytes += size_of(columns)

    def stacked(self) -> Columns:
        """All features as one array a column."""
        if len(self._parts) > 1:
            names = self._parts[0]
            self._parts = [{name: np.concatenate([part[name] for part in self._parts]) for name in names}]
        return self._parts[0]
