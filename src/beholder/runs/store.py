"""The feature store: what was computed once is never computed again.

A folder with an SQLite index and safetensors shards. A *space* is one kind of feature of one model with its
parameters; inside a space a feature is found by the content of its item. Nothing in the folder is a pickle, a shard is
written whole or not at all, and its hash is checked when it is first opened: a damaged shard is forgotten, never read.

    index.sqlite        spaces, shards, items, remembered file hashes
    shards/ab/<id>.safetensors

Several processes may use one store: SQLite serialises the index, shards have unique names, and the first writer of an
item wins. SQLite's locks are not to be trusted on network file systems: give each machine its own store there.
"""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
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
from beholder._hashing import canonical_json, hash_bytes, hash_json
from beholder.backends.base import Columns
from beholder.backends.columns import flatten, nbytes, unflatten

STORE_VERSION = 1
FLUSH_ROWS = 4096
FLUSH_BYTES = 8 << 20
FLUSH_SECONDS = 5.0
_OPEN_BYTES = 8 << 20
_QUERY_KEYS = 500
_LOCK_SECONDS = 60.0

_SCHEMA = """
create table if not exists meta(key text primary key, value text) without rowid;
create table if not exists spaces(id integer primary key, hash text unique not null, about text not null,
    constants text not null, made integer not null default 0, seconds real not null default 0);
create table if not exists shards(id integer primary key, space integer not null, name text not null,
    sha256 text not null, rows integer not null, bytes integer not null, used real not null);
create table if not exists items(space integer not null, key blob not null, shard integer not null,
    row integer not null, primary key(space, key)) without rowid;
create table if not exists files(stat text primary key, sha256 text not null, used real not null) without rowid;
"""


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

    Raises:
        StoreError: the folder cannot be written, or holds a store of a newer version.
    """

    def __init__(self, folder: str | Path | None) -> None:
        self.folder = None if folder is None else Path(folder)
        self._lock = threading.RLock()
        self._pending: dict[int, _Pending] = {}
        self._open: dict[int, Columns] = {}
        self._open_bytes = 0
        self._newest: dict[int, tuple[int, dict[bytes, int]]] = {}
        self._spaces: dict[str, int] = {}
        self._sizes: dict[int, int] = {}
        self._new_hashes: dict[str, str] = {}
        self._used: set[int] = set()
        self.forgotten = 0
        self._db = self._connect()

    def _connect(self) -> sqlite3.Connection:
        try:
            if self.folder is None:
                where = ":memory:"
            else:
                (self.folder / "shards").mkdir(parents=True, exist_ok=True)
                where = str(self.folder / "index.sqlite")
            db = sqlite3.connect(where, timeout=_LOCK_SECONDS, isolation_level=None, check_same_thread=False)
            version = _set_up(db)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"the feature store {self.folder} must be a folder that can be written",
                got=str(error),
                fix="Name another with --store, or set BEHOLDER_CACHE",
            ) from error
        if version > STORE_VERSION:
            raise StoreError(
                f"the feature store {self.folder} must have version {STORE_VERSION} or older",
                got=f"version {version}",
                fix="Update beholder, or name another store with --store",
            )
        return db

    # spaces

    def space(self, space: Space) -> int:
        """The number of a space, made when it is new."""
        number = self._spaces.get(space.hash)
        if number is not None:
            return number
        with self._lock:
            self._db.execute(
                "insert or ignore into spaces(hash, about, constants) values(?, ?, '{}')",
                (space.hash, canonical_json({"feature": space.feature, **space.about})),
            )
            row = self._db.execute("select id from spaces where hash=?", (space.hash,)).fetchone()
            number = self._spaces[space.hash] = int(row[0])
            count = self._db.execute("select count(*) from items where space=?", (number,)).fetchone()
            self._sizes[number] = int(count[0])
        return number

    def constants(self, space: int) -> dict[str, float] | None:
        """Constants of a space's model as stored after its first load; None before that."""
        row = self._db.execute("select constants from spaces where id=?", (space,)).fetchone()
        stored: dict[str, Any] = json.loads(row[0])
        return {k: float(v) for k, v in stored["constants"].items()} if stored else None

    def set_constants(self, space: int, constants: Mapping[str, float]) -> None:
        """Remembers the constants of a space's model."""
        text = canonical_json({"constants": dict(constants)})
        with self._lock:
            self._db.execute("update spaces set constants=? where id=?", (text, space))

    def add_rate(self, space: int, made: int, seconds: float) -> None:
        """Remembers how long it took to make features, for the estimates of `--dry-run`."""
        with self._lock:
            self._db.execute("update spaces set made=made+?, seconds=seconds+? where id=?", (made, seconds, space))

    def rate(self, space: int) -> float | None:
        """Items a second over all that was ever made in a space on this machine; None before that."""
        made, seconds = self._db.execute("select made, seconds from spaces where id=?", (space,)).fetchone()
        return made / seconds if seconds else None

    # features

    def has(self, space: int, keys: Sequence[bytes]) -> set[bytes]:
        """Those of `keys` that the store holds."""
        return set(self._locate(space, keys))

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

    def put(self, space: int, keys: Sequence[bytes], columns: Columns) -> None:
        """Adds features; they are on disk after the next `flush`, which happens by itself every few seconds."""
        with self._lock:
            pending = self._pending.setdefault(space, _Pending())
            pending.add(keys, columns)
            if pending.full():
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
                    now = time.time()
                    self._db.executemany("update shards set used=? where id=?", [(now, s) for s in self._used])
            finally:
                self._db.close()

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
        for start in range(0, len(rest), _QUERY_KEYS):
            part = rest[start : start + _QUERY_KEYS]
            marks = ",".join("?" * len(part))
            query = f"select key, shard, row from items where space=? and key in ({marks})"
            for key, shard, row in self._db.execute(query, (space, *part)):
                found[key] = (shard, row)
        return found

    def _grown(self, space: int) -> bool:
        """True once anybody (another process too) has put an item into a space that was empty."""
        row = self._db.execute("select 1 from items where space=? limit 1", (space,)).fetchone()
        if row is not None:
            self._sizes[space] = 1
        return row is not None

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
        self._open_bytes += _size(columns)
        while self.folder is not None and self._open_bytes > _OPEN_BYTES and len(self._open) > 1:
            self._open_bytes -= _size(self._open.pop(next(iter(self._open))))

    def _read(self, shard: int) -> Columns | None:
        from safetensors.numpy import load

        row = self._db.execute("select name, sha256 from shards where id=?", (shard,)).fetchone()
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
        self._drop([shard])

    def _write(self, space: int, pending: _Pending) -> None:
        if not pending.rows:
            return
        keys, columns = list(pending.rows), pending.stacked()
        if self.folder is None:
            name, sha, size = f"memory-{uuid.uuid4().hex}", "", 0
        else:
            name, sha, size = self._write_shard(columns)
        try:
            self._db.execute("begin immediate")
            cursor = self._db.execute(
                "insert into shards(space, name, sha256, rows, bytes, used) values(?, ?, ?, ?, ?, ?)",
                (space, name, sha, len(keys), size, time.time()),
            )
            shard = int(cursor.lastrowid or 0)
            added = self._db.executemany(
                "insert or ignore into items values(?, ?, ?, ?)",
                zip(itertools.repeat(space), keys, itertools.repeat(shard), range(len(keys)), strict=False),
            ).rowcount
            self._db.execute("commit")
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                self._db.execute("rollback")
            raise StoreError(
                f"the index of the feature store {self.folder} must take new rows",
                got=str(error),
                fix="Free some disk space or end the process that holds it, then run the same command again",
            ) from error
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
                fix="Free some disk space, then run the same command again: nothing that was written is lost",
            ) from error
        return name, hash_bytes(data), len(data)

    # remembered hashes of files (see beholder.media.sources.set_hash_memory)

    def get_hash(self, stat: str) -> str | None:
        """The sha256 of a file whose path, size, times and inode are unchanged, or None."""
        if stat in self._new_hashes:
            return self._new_hashes[stat]
        with self._lock:
            row = self._db.execute("select sha256 from files where stat=?", (stat,)).fetchone()
        return None if row is None else str(row[0])

    def put_hash(self, stat: str, sha256: str) -> None:
        """Remembers a file's hash; written with the next flush."""
        with self._lock:
            self._new_hashes[stat] = sha256

    def _write_hashes(self) -> None:
        if not self._new_hashes:
            return
        now = time.time()
        rows = [(stat, sha, now) for stat, sha in self._new_hashes.items()]
        self._db.execute("begin immediate")
        self._db.executemany("insert or replace into files values(?, ?, ?)", rows)
        self._db.execute("commit")
        self._new_hashes.clear()

    # for `beholder cache`

    def info(self) -> list[dict[str, Any]]:
        """One row a space: what it is, its features, shards, bytes and last use."""
        query = """select spaces.about, count(shards.id), coalesce(sum(shards.rows), 0),
            coalesce(sum(shards.bytes), 0), max(shards.used)
            from spaces left join shards on shards.space = spaces.id group by spaces.id order by 4 desc"""
        return [
            {**json.loads(about), "shards": shards, "features": rows, "bytes": size, "used": used}
            for about, shards, rows, size, used in self._db.execute(query)
        ]

    def prune(
        self, *, max_bytes: int | None = None, unused_for: float | None = None, dry_run: bool = False
    ) -> tuple[int, int]:
        """Removes shards: those unused for so many seconds, then the least recently used above `max_bytes`.

        Returns:
            (shards removed, bytes freed); of a dry run what these would be.
        """
        if self.folder is None:
            return 0, 0
        rows = self._db.execute("select id, name, bytes, used from shards order by used").fetchall()
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
            self._drop([shard for shard, _ in leaving])
            for _, name in leaving:
                (self.folder / "shards" / name).unlink(missing_ok=True)
            self._remove_orphans(now)
        return len(leaving), freed

    def _drop(self, shards: Sequence[int]) -> None:
        """Takes shards out of the index. This walks all items: an index by shard would double what inserts cost."""
        numbers = ",".join(str(int(shard)) for shard in shards)
        self._db.execute("begin immediate")
        self._db.execute(f"delete from items where shard in ({numbers})")
        self._db.execute(f"delete from shards where id in ({numbers})")
        self._db.execute("commit")

    def _remove_orphans(self, now: float) -> None:
        """Shard files that no index row names (a process was killed between the two) and are a day old."""
        if self.folder is None:
            return
        known = {row[0] for row in self._db.execute("select name from shards")}
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


def _size(columns: Columns) -> int:
    return sum(nbytes(array) for array in columns.values())


class _Pending:
    """Features of one space that are not on disk yet."""

    def __init__(self) -> None:
        self.rows: dict[bytes, int] = {}
        self._parts: list[Columns] = []
        self._bytes = 0
        self._since = time.monotonic()

    def add(self, keys: Sequence[bytes], columns: Columns) -> None:
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
            self._bytes += _size(columns)

    def stacked(self) -> Columns:
        if len(self._parts) > 1:
            names = self._parts[0]
            self._parts = [{name: np.concatenate([part[name] for part in self._parts]) for name in names}]
        return self._parts[0]

    def full(self) -> bool:
        late = time.monotonic() - self._since > FLUSH_SECONDS
        return late or len(self.rows) >= FLUSH_ROWS or self._bytes >= FLUSH_BYTES


def write_atomic(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all: a temporary file beside it, flushed to disk, then renamed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with open(temporary, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def default_store() -> Path:
    """`features` below BEHOLDER_CACHE, or below the platform's cache folder."""
    return cache_root() / "features"


def cache_root() -> Path:
    """BEHOLDER_CACHE, else the platform's cache folder for beholder."""
    explicit = os.environ.get("BEHOLDER_CACHE")
    if explicit:
        return Path(explicit).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser() if base else Path.home() / ".cache") / "beholder"


def _set_up(db: sqlite3.Connection) -> int:
    """Makes what a new index lacks and gives its version.

    Two processes that open a new index at once: SQLite refuses the change to WAL at once, without waiting for the lock
    as it does for every other statement. So the waiting is done here.
    """
    give_up = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            db.execute("pragma journal_mode=wal")
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > give_up:
                raise
            time.sleep(0.02)
    db.execute("pragma synchronous=normal")
    db.execute("begin immediate")
    for statement in _SCHEMA.split(";"):
        db.execute(statement)
    db.execute("insert or ignore into meta values('version', ?)", (str(STORE_VERSION),))
    version = int(db.execute("select value from meta where key='version'").fetchone()[0])
    db.execute("commit")
    return version
