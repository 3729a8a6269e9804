"""The features of a set's pictures, from the keys of its rows: which pictures there are, their features in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from beholder._errors import StoreError
from beholder.metrics.sets import FeatureSet
from beholder.runs.chunk import MetricWork
from beholder.runs.several import unit_rows
from beholder.runs.store import FeatureStore, Space

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


class SetSpaces(NamedTuple):
    """The spaces of a set metric's features.

    Args:
        still, several: of pictures, and of videos.
    """

    still: Space
    several: Space

    def of(self, key: bytes) -> tuple[Space, bytes]:
        """The space of a row's key, and the key in it."""
        return (self.still if key[:1] == _STILL else self.several), key[1:]


class SetRow(NamedTuple):
    """A row of a set.

    Args:
        key: see `row_keys`.
        unit: code of its prompt.
        place: which store has its feature.
    """

    key: bytes
    unit: int = 0
    place: int = 0


class Shelf(Protocol):
    """Where the features of sets lie: one store, or those of several parts, by number."""

    def get(self, place: int, space: Space, keys: Sequence[bytes]) -> tuple[dict[bytes, int], Any]:
        """Features by key: ({key: row}, columns).

        Raises:
            StoreError: one of them is not there.
        """
        ...


class OneShelf:
    """The store of a run in one process."""

    def __init__(self, store: FeatureStore) -> None:
        self._store = store

    def get(self, place: int, space: Space, keys: Sequence[bytes]) -> tuple[dict[bytes, int], Any]:
        found, columns = self._store.get(self._store.space(space), list(keys))
        _check_found(found, keys, "the feature store", "the run")
        return found, columns


class PartShelves:
    """The stores of several parts; one is open at a time, since there may be thousands.

    Args:
        folders: of each part: its feature store, whether no other process uses that, and what messages call the part.
    """

    def __init__(self, folders: Sequence[tuple[Path, bool, str]]) -> None:
        self._folders = folders
        self._open: tuple[Path, FeatureStore] | None = None

    def get(self, place: int, space: Space, keys: Sequence[bytes]) -> tuple[dict[bytes, int], Any]:
        folder, alone, part = self._folders[place]
        if self._open is None or self._open[0] != folder:
            self.close()
            if not (folder / "index.sqlite").exists():
                raise StoreError(
                    f"the features of {part} must be at hand: metrics of whole sets are measured when parts are joined",
                    got=f"{folder} is not there",
                    fix="Join the parts where it is, or run them without --store: then features lie in the parts",
                )
            self._open = folder, FeatureStore(folder, alone=alone)
        store = self._open[1]
        found, columns = store.get(store.space(space), list(keys))
        _check_found(found, keys, str(folder), part)
        return found, columns

    def close(self) -> None:
        if self._open is not None:
            with closing(self._open[1]):
                self._open = None


def _check_found(found: Mapping[bytes, int], keys: Sequence[bytes], where: str, what: str) -> None:
    lost = len(set(keys)) - len(found)
    if lost:
        raise StoreError(
            f"the features of a set must be in {where}",
            got=f"{lost} that are no longer there",
            fix=f"Give the command of {what} again: they are made anew",
        )


class StoredSet:
    """The pictures of a set whose features are stored.

    Pictures are numbered in the order of their content's hashes, so what is drawn does not depend on the order of rows.
    They are read in the order of rows, whatever store has them, so a run in parts sums what one process sums, in the
    same order.

    Args:
        shelf: where features are.
        spaces: the spaces of pictures and of videos.
        rows: the set, in the order of its rows. Rows of one key have one feature: that of the first.
    """

    def __init__(self, shelf: Shelf, spaces: SetSpaces, rows: Sequence[SetRow]) -> None:
        self._shelf, self._spaces = shelf, spaces
        first: dict[bytes, int] = {}
        counts: dict[bytes, int] = {}
        pictures: list[tuple[bytes, int, int, int, int]] = []
        for at, row in enumerate(rows):
            place = first.setdefault(row.key, row.place)
            if row.key not in counts:
                counts[row.key] = self._count(row.key, place)
            pictures += [(row.key, frame, row.unit, at, place) for frame in range(counts[row.key])]
        self._pictures = sorted(pictures)

    @property
    def n(self) -> int:
        return len(self._pictures)

    def chosen(self, count: int, rng: np.random.Generator) -> StoredSet:
        """A set of some of the pictures, drawn without replacement."""
        made = object.__new__(StoredSet)
        made._shelf, made._spaces = self._shelf, self._spaces
        picks = np.sort(rng.choice(self.n, count, replace=False))
        made._pictures = [self._pictures[at] for at in picks]
        return made

    def features(self) -> FeatureSet:
        """What a metric is given."""
        units = np.asarray([unit for _, _, unit, _, _ in self._pictures], dtype=np.int64)
        return FeatureSet(self.n, self._blocks, units)

    def _count(self, key: bytes, place: int) -> int:
        """Pictures of one row."""
        if key[:1] == _STILL:
            return 1
        space, own = self._spaces.of(key)
        found, columns = self._shelf.get(place, space, [own])
        return len(unit_rows(columns, found[own])["embedding"])

    def _blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        order = sorted(range(self.n), key=lambda number: (self._pictures[number][3], self._pictures[number][1]))
        for start in range(0, self.n, BLOCK):
            numbers = order[start : start + BLOCK]
            yield np.asarray(numbers, dtype=np.int64), self._read(numbers)

    def _read(self, numbers: Sequence[int]) -> np.ndarray:
        """(k, d) float32 features of some pictures."""
        wanted: dict[tuple[int, bytes], dict[bytes, None]] = {}
        for number in numbers:
            key, _, _, _, place = self._pictures[number]
            wanted.setdefault((place, key[:1]), {})[key] = None
        rows: dict[tuple[bytes, int], Any] = {}
        for (place, mark), keys in wanted.items():
            space = self._spaces.of(mark)[0]
            found, columns = self._shelf.get(place, space, [key[1:] for key in keys])
            for key in keys:
                at = found[key[1:]]
                frames = [columns["embedding"][at]] if mark == _STILL else unit_rows(columns, at)["embedding"]
                rows |= {(key, frame): row for frame, row in enumerate(frames)}
        picked = [rows[self._pictures[number][:2]] for number in numbers]
        return np.stack(picked).astype(np.float32, copy=False)
