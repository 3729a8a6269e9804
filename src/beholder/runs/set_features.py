"""The features of a set's pictures, from the keys of its rows: which pictures there are, their features in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from beholder._errors import StoreError
from beholder.metrics.sets import FeatureSet
from beholder.runs.chunk import MetricWork
from beholder.runs.several import unit_rows
from beholder.runs.store import FeatureStore

BLOCK = 4096
"""Pictures whose features are read at once."""

_STILL, _SEVERAL = b"\0", b"\1"


def row_keys(work: MetricWork, rows: int) -> list[bytes | None]:
    """For every row of a chunk the key of its output's feature, for later; a first byte tells videos from pictures."""
    found: list[bytes | None] = [None] * rows
    (laid,) = work.slots.values()
    for at, row in enumerate(work.rows):
        key = laid.keys[laid.offsets[at]]
        found[row] = (_SEVERAL if key in laid.several else _STILL) + key
    return found


class StoredSet:
    """The pictures of a set whose features lie in the store.

    Pictures are numbered in the order of their content's hashes, so nothing depends on the order of rows.

    Args:
        store: the feature store.
        still, several: numbers of the spaces of pictures and of videos.
        rows: of each row: its key (see `row_keys`) and the code of its prompt.
    """

    def __init__(self, store: FeatureStore, still: int, several: int, rows: Sequence[tuple[bytes, int]]) -> None:
        self._store, self._spaces = store, {_STILL: still, _SEVERAL: several}
        pictures: list[tuple[bytes, int, int]] = []
        for key, unit in rows:
            pictures += [(key, at, unit) for at in range(self._count(key))]
        self._pictures = sorted(pictures)

    @property
    def n(self) -> int:
        return len(self._pictures)

    def chosen(self, count: int, rng: np.random.Generator) -> StoredSet:
        """A set of some of the pictures, drawn without replacement."""
        made = object.__new__(StoredSet)
        made._store, made._spaces = self._store, self._spaces
        picks = np.sort(rng.choice(self.n, count, replace=False))
        made._pictures = [self._pictures[at] for at in picks]
        return made

    def features(self) -> FeatureSet:
        """What a metric is given."""
        units = np.asarray([unit for _, _, unit in self._pictures], dtype=np.int64)
        return FeatureSet(self.n, self._blocks, units)

    def _count(self, key: bytes) -> int:
        """Pictures of one row."""
        if key[:1] == _STILL:
            return 1
        found, columns = self._get(_SEVERAL, [key[1:]])
        return len(unit_rows(columns, found[key[1:]])["embedding"])

    def _blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        numbers: dict[bytes, list[tuple[int, int]]] = {}
        for number, (key, at, _) in enumerate(self._pictures):
            numbers.setdefault(key, []).append((number, at))
        for mark, space in self._spaces.items():
            keys = self._store.in_order(space, [key[1:] for key in numbers if key[:1] == mark])
            for start in range(0, len(keys), BLOCK):
                yield from self._block(mark, keys[start : start + BLOCK], numbers)

    def _block(
        self, mark: bytes, keys: Sequence[bytes], numbers: dict[bytes, list[tuple[int, int]]]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        found, columns = self._get(mark, keys)
        own: list[int] = []
        rows: list[Any] = []
        for key in keys:
            units = None if mark == _STILL else unit_rows(columns, found[key])["embedding"]
            for number, at in numbers[mark + key]:
                own.append(number)
                rows.append(columns["embedding"][found[key]] if units is None else units[at])
        yield np.asarray(own, dtype=np.int64), np.stack(rows).astype(np.float32, copy=False)

    def _get(self, mark: bytes, keys: Sequence[bytes]) -> tuple[dict[bytes, int], Any]:
        found, columns = self._store.get(self._spaces[mark], list(keys))
        if len(found) < len(set(keys)):
            raise StoreError(
                "the features of a set must be in the feature store",
                got=f"{len(set(keys)) - len(found)} that are no longer there",
                fix="Give the command of the run again: they are made anew",
            )
        return found, columns
