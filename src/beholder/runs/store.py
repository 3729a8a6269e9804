"""The feature store: what was computed once is never computed again.

A folder with an SQLite index and safetensors shards. A *space* is one kind of feature of one model with its
parameters; inside a space a feature is found by the content of its item. Nothing in the folder is a pickle, a shard is
written whole or not at all, and its hash is checked when it is first opened: a damaged shard is forgotten, never read.

    index.sqlite        spaces, shards, items, remembered file hashes (store_index.py)
    shards/ab/<id>.safetensors

Several processes may use one store: SQLite serialises the index, shards have unique names, and the first writer of an
item wins. SQLite's locks are not to be trusted on network file systems: give each process its own store there, and say
that it is `alone` with it.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import StoreError
from beholder._hashing import hash_bytes, hash_json
from beholder.backends.base import Columns
from beholder.backends.columns import flatten, unflatten
from beholder.runs.atomic import cache_root, default_store, link_or_copy, write_atomic
from beholder.runs.store_buffer import Pending, size_of
from beholder.runs.store_index import STORE_VERSION, Index

__all__ = ["STORE_VERSION", "FeatureStore", "Space", "cache_root", "default_store", "write_atomic"]

FLUSH_ROWS = 4096
FLUSH_BYTES = 8 << 20
FLUSH_SECONDS = 5.0
_OPEN_BYTES = 8 << 20


@dataclass(frozen=True)
class Space:
    """One kind of feature of one model: everything but the item that a feature depends on.

    Args:
        model_key: `ResolvedModel.key`.
        feature: kind of feature.
        params: parameters of the feature and of decoding, JSON-ready.
        about: plain facts for people (model id, dtype); no part of the key.
    """

    model_key: str
    feature: str
    params: Mapping[str, Any]
    about: Mapping[str, Any]

    @cached_property
    def hash(self) -> str:
        return hash_json({"model": self.model_key, "feature": self.feature, "params": dict(self.params)})


class FeatureStore:
    """A store in a folder, or in memory when `folder` is None.

    Args:
        folder: the folder; made when it is missing.
        alone: True when no other process uses this store while it is open.

    Raises:
        StoreError: the folder cannot be written, or holds a store of a newer version.
    """

    def __init__(self, folder: str | Path | None, *, alone: bool = False) -> None:
        self.folder = None if folder is None else Path(folder)
        self._lock = threading.RLock()
        self._pending: dict[int, Pending] = {}
        self._open: dict[int, Columns] = {}
        self._open_bytes = 0
        self._newest: dict[int, tuple[int, dict[bytes, int]]] = {}
        self._spaces: dict[str, int] = {}
        self._sizes: dict[int, int] = {}
        self._new_hashes: dict[str, str] = {}
        self._used: set[int] = set()
        self.forgotten = 0
        if self.folder is not None:
            try:
                (self.folder / "shards").mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(
                    f"the feature store {self.folder} must be a folder that can be written",
                    got=str(error),
                    fix="Name another with --store, or set BEHOLDER_CACHE",
                ) from error
        self._index = Index(self.folder, alone=alone)

    # spaces

    def space(self, space: Space) -> int:
        """The number of a space, made when it is new."""
        number = self._spaces.get(space.hash)
        if number is not None:
            return number
        with self._lock:
            number, count = self._index.space(space.hash, {"feature": space.feature, **space.about})
            self._spaces[space.hash], self._sizes[number] = number, count
        return number

    def constants(self, space: int) -> dict[str, float] | None:
        """Constants of a space's model as stored after its first load; None before that."""
        return self._index.constants(space)

    def set_constants(self, space: int, constants: Mapping[str, float]) -> None:
        """Remembers the constants of a space's model."""
        with self._lock:
            self._index.set_constants(space, constants)

    def add_rate(self, space: int, made: int, seconds: float) -> None:
        """Remembers how long it took to make features, for the estimates of `--dry-run`."""
        with self._lock:
            self._index.add_rate(space, made, seconds)

    def rate(self, space: int) -> float | None:
        """Items a second over all that was ever made in a space on this machine; None before that."""
        return self._index.rate(space)

    # features

    def has(self, space: int, keys: Sequence[bytes]) -> set[bytes]:
        """Those of `keys` that the store holds."""
        return set(self._locate(space, keys))

    def in_order(self, space: int, keys: Sequence[bytes]) -> list[bytes]:
        """Keys in the order in which their features lie here, so that reading them in blocks opens a shard once."""
        with self._lock:
            places = self._locate(space, keys)
        return sorted(dict.fromkeys(keys), key=lambda key: (places.get(key, (-2, -1)), key))

    def get(self, space: int, keys: Sequence[bytes]) -> tuple[dict[bytes, int], Columns]:
        """Features by content key: ({key: row}, columns); keys that are not stored are left out."""
        with self._lock:
            places = self._locate(space, keys)
            by_shard: dict[int, list[tuple[bytes, int]]] = {}
            for key, (shard, row) in places.items():
                by_shard.setdefault(shard, []).append((key, row))
            parts: list[Columns] = []
            rows: dict[bytes, int] = {}
            for shard, members in by_shard.items():
                columns = self._columns(space, shard)
                if columns is None:
                    continue
                take = np.fromiter((row for _, row in members), dtype=np.int64, count=len(members))
                for offset, (key, _) in enumerate(members, start=len(rows)):
                    rows[key] = offset
                parts.append({name: array[take] for name, array in columns.items()})
            if not parts:
                return {}, {}
            return rows, {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def put(self, space: int, keys: Sequence[bytes], columns: Columns, *, at_once: bool = False) -> None:
        """Adds features; they are on disk after the next `flush`, which happens by itself every few seconds.

        Args:
            space: number of the space.
            keys: content keys.
            columns: their features.
            at_once: True writes them now: they cost money, and a process that is killed must not lose them.
        """
        with self._lock:
            pending = self._pending.setdefault(space, Pending())
            pending.add(keys, columns)
            if at_once or _full(pending):
                self._write(space, pending)

    def flush(self) -> None:
        """Writes everything that is pending: shards first, then the index, so that the index never lies."""
        with self._lock:
            for space, pending in list(self._pending.items()):
                self._write(space, pending)
            self._write_hashes()

    def close(self) -> None:
        """Flushes and closes; closes too when flushing fails."""
        with self._lock:
            try:
                self.flush()
                if self._used:
                    self._index.touch(self._used)
            finally:
                self._index.close()

    def _locate(self, space: int, keys: Sequence[bytes]) -> dict[bytes, tuple[int, int]]:
        """Where features are, as (shard, row): what is pending, what was written last, then the index."""
        found: dict[bytes, tuple[int, int]] = {}
        pending = self._pending.get(space)
        if pending is not None:
            _find(found, keys, -1, pending.rows)
        if space in self._newest:
            _find(found, keys, *self._newest[space])
        rest = [key for key in keys if key not in found] if found else keys
        if not rest or (not self._sizes.get(space) and not self._grown(space)):
            return found
        for key, shard, row in self._index.locate(space, rest):
            found[key] = (shard, row)
        return found

    def _grown(self, space: int) -> bool:
        """True once anybody (another process too) has put an item into a space that was empty."""
        there = self._index.has_items(space)
        if there:
            self._sizes[space] = 1
        return there

    def _columns(self, space: int, shard: int) -> Columns | None:
        if shard == -1:
            return self._pending[space].stacked()
        if shard in self._open:
            self._open[shard] = self._open.pop(shard)
            return self._open[shard]
        columns = self._read(shard)
        if columns is None:
            return None
        self._used.add(shard)
        self._keep_open(shard, columns)
        return columns

    def _keep_open(self, shard: int, columns: Columns) -> None:
        """Holds a shard in memory; the ones unused for longest leave when the bound is reached."""
        self._open[shard] = columns
        self._open_bytes += size_of(columns)
        while self.folder is not None and self._open_bytes > _OPEN_BYTES and len(self._open) > 1:
            self._open_bytes -= size_of(self._open.pop(next(iter(self._open))))

    def _read(self, shard: int) -> Columns | None:
        from safetensors.numpy import load

        row = self._index.shard(shard)
        if row is None or self.folder is None:
            return None
        try:
            data = (self.folder / "shards" / row[0]).read_bytes()
        except OSError:
            data = b""
        if hash_bytes(data) != row[1]:
            self._forget(shard)
            return None
        return unflatten(load(data))

    def _forget(self, shard: int) -> None:
        """Drops a shard that is damaged or gone; its features will be computed anew."""
        self.forgotten += 1
        self._newest = {space: held for space, held in self._newest.items() if held[0] != shard}
        self._index.drop([shard])

    def _write(self, space: int, pending: Pending) -> None:
        if not pending.rows:
            return
        keys, columns = list(pending.rows), pending.stacked()
        if self.folder is None:
            name, sha, size = f"memory-{uuid.uuid4().hex}", "", 0
        else:
            name, sha, size = self._write_shard(columns)
        shard, added = self._index.add_shard(space, keys, name, sha, size)
        self._keep_open(shard, columns)
        # Where somebody else was first with a key, theirs counts: then the index alone knows.
        self._newest[space] = (shard, pending.rows if added == len(keys) else {})
        self._sizes[space] = self._sizes.get(space, 0) + len(keys)
        del self._pending[space]

    def _write_shard(self, columns: Columns) -> tuple[str, str, int]:
        from safetensors.numpy import save

        if self.folder is None:
            raise StoreError("a store in memory has no shard files")
        data = save(flatten(columns))
        unique = uuid.uuid4().hex
        name = f"{unique[:2]}/{unique}.safetensors"
        path = self.folder / "shards" / name
        try:
            path.parent.mkdir(exist_ok=True)
            write_atomic(path, data)
        except OSError as error:
            raise StoreError(
                f"the feature store {self.folder} must take new shards",
                got=str(error),
                fix="Free some disk space, or name another store with --store, then run the same command again: "
                "nothing that was written is lost",
            ) from error
        return name, hash_bytes(data), len(data)

    # remembered hashes of files (see beholder.media.sources.set_hash_memory)

    def get_hash(self, stat: str) -> str | None:
        """The sha256 of a file whose path, size, times and inode are unchanged, or None."""
        known = self._new_hashes.get(stat)
        if known is not None:
            return known
        with self._lock:
            return self._index.file_hash(stat)

    def put_hash(self, stat: str, sha256: str) -> None:
        """Remembers a file's hash; written with the next flush."""
        with self._lock:
            self._new_hashes[stat] = sha256

    def _write_hashes(self) -> None:
        if self._new_hashes:
            self._index.put_file_hashes(self._new_hashes)
            self._new_hashes.clear()

    # for `beholder cache`

    def info(self) -> list[dict[str, Any]]:
        """One row a space: what it is, its features, shards, bytes and last use."""
        return self._index.info()

    def take_over(self, other: Path) -> int:
        """Adds the features of another store that nobody is writing to: links its shards, or copies them.

        Returns:
            How many shards were new.
        """
        if self.folder is None:
            raise StoreError("a store in memory takes over no shards")
        source, taken = Index(other, alone=True), 0
        try:
            for name, about, constants, shards in source.contents():
                with self._lock:
                    space = self._index.space(name, about)[0]
                    if constants and not self._index.constants(space):
                        self._index.set_constants(space, constants)
                for shard in shards:
                    if self._index.has_shard(shard.name):
                        continue
                    link_or_copy(other / "shards" / shard.name, self.folder / "shards" / shard.name)
                    self._index.add_shard(space, shard.keys, shard.name, shard.sha256, shard.size)
                    taken += 1
        finally:
            source.close()
        return taken

    def prune(
        self, *, max_bytes: int | None = None, unused_for: float | None = None, dry_run: bool = False
    ) -> tuple[int, int]:
        """Removes shards: those unused for so many seconds, then the least recently used above `max_bytes`.

        Returns:
            (shards removed, bytes freed); of a dry run what these would be.
        """
        if self.folder is None:
            return 0, 0
        rows = self._index.shards_by_use()
        total = sum(row[2] for row in rows)
        now, freed = time.time(), 0
        leaving: list[tuple[int, str]] = []
        for shard, name, size, used in rows:
            old = unused_for is not None and now - used > unused_for
            big = max_bytes is not None and total - freed > max_bytes
            if old or big:
                leaving.append((shard, name))
                freed += size
        if not dry_run:
            self._index.drop([shard for shard, _ in leaving])
            for _, name in leaving:
                (self.folder / "shards" / name).unlink(missing_ok=True)
            self._remove_orphans(now)
        return len(leaving), freed

    def _remove_orphans(self, now: float) -> None:
        """Shard files that no index row names (a process was killed between the two) and are a day old."""
        if self.folder is None:
            return
        known = {name for _, name, _, _ in self._index.shards_by_use()}
        for path in (self.folder / "shards").glob("*/*"):
            name = f"{path.parent.name}/{path.name}"
            with suppress(OSError):
                if name not in known and now - path.stat().st_mtime > 86_400:
                    path.unlink()


def _find(found: dict[bytes, tuple[int, int]], keys: Sequence[bytes], shard: int, rows: Mapping[bytes, int]) -> None:
    """Adds those of `keys` that `rows` of one shard has."""
    for key in keys:
        row = rows.get(key)
        if row is not None:
            found[key] = (shard, row)


def _full(pending: Pending) -> bool:
    late = time.monotonic() - pending.since > FLUSH_SECONDS
    return late or len(pending.rows) >= FLUSH_ROWS or pending.bytes >= FLUSH_BYTES
