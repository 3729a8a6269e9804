"""The features of a set's pictures, from the keys of its rows: which pictures there are, their features in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from beholder._errors import StoreError
from beholder.backends.base import Columns
from beholder.metrics.sets import FeatureSet, PictureTable, TextTable
from beholder.runs.chunk import MetricWork
from beholder.runs.item_keys import text_key
from beholder.runs.several import unit_rows
from beholder.runs.store import FeatureStore, Space

BLOCK = 4096
"""Pictures whose features are read at once."""
WIDE_BLOCK = 128
"""Pictures whose features are read at once where all columns are wanted: patch tokens take 280 kB a picture."""

WINDOW_BYTES = 128 << 20
"""Features that are held to be given in the order of rows. Features that were made in another order (by an earlier run)
lie scattered over the store's files; each window then opens every file once."""

_STILL, _SEVERAL = b"\0", b"\1"


def row_keys(work: MetricWork, rows: int) -> list[bytes | None]:
    """For every row of a chunk the key of its output's feature, for later; a first byte tells videos from pictures."""
    found: list[bytes | None] = [None] * rows
    laid = work.slots[work.planned.slots[0].slot.name]
    for at, row in enumerate(work.rows):
        key = laid.keys[laid.offsets[at]]
        found[row] = (_SEVERAL if key in laid.several else _STILL) + key
    return found


class SetSpaces(NamedTuple):
    """The spaces of a set metric's features.

    Args:
        still, several: of pictures, and of videos.
        texts: of the metric's texts; where it has none, that of pictures again.
    """

    still: Space
    several: Space
    texts: Space

    @property
    def has_texts(self) -> bool:
        """True where the metric has texts."""
        return self.texts.hash != self.still.hash

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

    def in_order(self, place: int, space: Space, keys: Sequence[bytes]) -> list[bytes]:
        """Keys in the order in which their features lie."""
        ...

    def constants(self, place: int, space: Space) -> Mapping[str, float]:
        """Constants of the space's model."""
        ...


class OneShelf:
    """The store of a run in one process."""

    def __init__(self, store: FeatureStore) -> None:
        self._store = store

    def get(self, place: int, space: Space, keys: Sequence[bytes]) -> tuple[dict[bytes, int], Any]:
        found, columns = self._store.get(self._store.space(space), list(keys))
        _check_found(found, keys, "the feature store", "the run")
        return found, columns

    def in_order(self, place: int, space: Space, keys: Sequence[bytes]) -> list[bytes]:
        return self._store.in_order(self._store.space(space), keys)

    def constants(self, place: int, space: Space) -> Mapping[str, float]:
        return self._store.constants(self._store.space(space)) or {}


class PartShelves:
    """The stores of several parts; one is open at a time, since there may be thousands.

    Args:
        folders: of each part: its feature store, whether no other process uses that, and what messages call the part.
    """

    def __init__(self, folders: Sequence[tuple[Path, bool, str]]) -> None:
        self._folders = folders
        self._open: tuple[Path, FeatureStore] | None = None

    def get(self, place: int, space: Space, keys: Sequence[bytes]) -> tuple[dict[bytes, int], Any]:
        store = self._at(place)
        folder, _, part = self._folders[place]
        found, columns = store.get(store.space(space), list(keys))
        _check_found(found, keys, str(folder), part)
        return found, columns

    def in_order(self, place: int, space: Space, keys: Sequence[bytes]) -> list[bytes]:
        store = self._at(place)
        return store.in_order(store.space(space), keys)

    def constants(self, place: int, space: Space) -> Mapping[str, float]:
        store = self._at(place)
        return store.constants(store.space(space)) or {}

    def _at(self, place: int) -> FeatureStore:
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
        return self._open[1]

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
        return FeatureSet(
            self.n, self._blocks, units, self._tables, self._texts if self._spaces.has_texts else None
        )  # fmt: skip

    def _count(self, key: bytes, place: int) -> int:
        """Pictures of one row."""
        if key[:1] == _STILL:
            return 1
        space, own = self._spaces.of(key)
        found, columns = self._shelf.get(place, space, [own])
        return len(unit_rows(columns, found[own])["embedding"])

    def _blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for block in self._in_blocks(BLOCK, ("embedding",)):
            yield block.numbers, block.columns["embedding"].astype(np.float32, copy=False)

    def _tables(self) -> Iterator[PictureTable]:
        yield from self._in_blocks(WIDE_BLOCK, None)

    def _in_blocks(self, size: int, names: Sequence[str] | None) -> Iterator[PictureTable]:
        """All pictures in the order of rows: some columns, or all of them (None)."""
        order = sorted(range(self.n), key=lambda number: (self._pictures[number][3], self._pictures[number][1]))
        one = sum(array.nbytes for array in self._read(order[:1], names, size).values()) if order else 1
        window = max(1, WINDOW_BYTES // (max(one, 1) * size)) * size
        for start in range(0, self.n, window):
            numbers = order[start : start + window]
            columns = self._read(numbers, names, size)
            for at in range(0, len(numbers), size):
                part = numbers[at : at + size]
                keys = [self._pictures[number][0][1:] for number in part]
                yield PictureTable(
                    np.asarray(part, dtype=np.int64), keys,
                    {name: array[at : at + size] for name, array in columns.items()},
                )  # fmt: skip

    def _texts(self, texts: Sequence[str]) -> TextTable:
        """Features of texts, one row each in their order; every part has them."""
        place, space = self._pictures[0][4], self._spaces.texts
        keys = [text_key(text) for text in texts]
        found, columns = self._shelf.get(place, space, list(dict.fromkeys(keys)))
        picked = [found[key] for key in keys]
        return TextTable({name: array[picked] for name, array in columns.items()}, self._shelf.constants(place, space))

    def _read(self, numbers: Sequence[int], names: Sequence[str] | None, size: int) -> Columns:
        """Features of some pictures, one row each; so many at a time, as they lie."""
        wanted: dict[tuple[int, bytes], dict[bytes, list[tuple[int, int]]]] = {}
        for row, number in enumerate(numbers):
            key, frame, _, _, place = self._pictures[number]
            wanted.setdefault((place, key[:1]), {}).setdefault(key[1:], []).append((row, frame))
        filled: dict[str, np.ndarray] = {}
        for (place, mark), keys in wanted.items():
            space = self._spaces.of(mark)[0]
            lying = self._shelf.in_order(place, space, list(keys))
            for start in range(0, len(lying), size):
                part = lying[start : start + size]
                found, columns = self._shelf.get(place, space, part)
                if mark == _STILL:
                    pairs = [(row, found[key]) for key in part for row, _ in keys[key]]
                    _fill(filled, len(numbers), pairs, {name: columns[name] for name in names or columns})
                    continue
                for key in part:
                    several = unit_rows(columns, found[key])
                    taken = {name: np.stack(several[name]) for name in names or several}
                    _fill(filled, len(numbers), keys[key], taken)
        return filled


def _fill(filled: dict[str, np.ndarray], rows: int, pairs: Sequence[tuple[int, int]], columns: Columns) -> None:
    """Puts rows of columns into places of the filled ones: (place, row)."""
    places, taken = np.asarray(pairs, dtype=np.int64).T
    for name, array in columns.items():
        if name not in filled:
            filled[name] = np.empty((rows, *array.shape[1:]), dtype=array.dtype)
        filled[name][places] = array[taken]
