"""The index of a feature store: one SQLite file that says which shard and row holds the feature of which item.

Several processes of one machine may use one index. A process that has it for itself (`alone`) keeps it locked from
the first access to the last and uses no memory that is shared with others, so it may lie on a network file system,
where SQLite's locks are not to be trusted.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from beholder._errors import StoreError
from beholder._hashing import canonical_json

STORE_VERSION = 1
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


class ShardRow(NamedTuple):
    """What the index knows of a shard; a row whose key another shard had first has an empty key."""

    name: str
    sha256: str
    size: int
    keys: list[bytes]


class Index:
    """The index in a folder, or in memory when `folder` is None.

    Args:
        folder: where `index.sqlite` lies.
        alone: True when no other process uses it.

    Raises:
        StoreError: the file cannot be written or is damaged, another process has it, or a newer version made it.
    """

    def __init__(self, folder: Path | None, *, alone: bool = False) -> None:
        self._folder = folder
        try:
            where = ":memory:" if folder is None else str(folder / "index.sqlite")
            wait = 2.0 if alone else _LOCK_SECONDS
            self.db = sqlite3.connect(where, timeout=wait, isolation_level=None, check_same_thread=False)
            version = _set_up(self.db, alone=alone, wait=wait)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"the feature store {folder} must be a folder that can be written",
                got=str(error),
                fix="End the process that holds it, name another with --store, or set BEHOLDER_CACHE",
            ) from error
        if version > STORE_VERSION:
            raise StoreError(
                f"the feature store {folder} must have version {STORE_VERSION} or older",
                got=f"version {version}",
                fix="Update beholder, or name another store with --store",
            )

    def close(self) -> None:
        self.db.close()

    @contextmanager
    def _write(self) -> Iterator[None]:
        """One transaction; what the disk refuses becomes a `StoreError`, and the index is as it was."""
        try:
            self.db.execute("begin immediate")
            yield
            self.db.execute("commit")
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                self.db.execute("rollback")
            raise StoreError(
                f"the index of the feature store {self._folder} must take new rows",
                got=str(error),
                fix="Free some disk space, end the process that holds it, or name another store with --store, then run "
                "the same command again",
            ) from error

    def _read(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        try:
            return self.db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise StoreError(
                f"the index of the feature store {self._folder} must be readable",
                got=str(error),
                fix="Remove that folder (its features are made again), or name another with --store",
            ) from error

    # spaces

    def space(self, name: str, about: Mapping[str, Any]) -> tuple[int, int]:
        """The number of a space, made when it is new, and how many items it has."""
        if not self._read("select 1 from spaces where hash=?", (name,)):
            with self._write():
                self.db.execute(
                    "insert or ignore into spaces(hash, about, constants) values(?, ?, '{}')",
                    (name, canonical_json(dict(about))),
                )
        number = int(self._read("select id from spaces where hash=?", (name,))[0][0])
        return number, int(self._read("select count(*) from items where space=?", (number,))[0][0])

    def constants(self, space: int) -> dict[str, float] | None:
        stored: dict[str, Any] = json.loads(self._read("select constants from spaces where id=?", (space,))[0][0])
        return {k: float(v) for k, v in stored["constants"].items()} if stored else None

    def set_constants(self, space: int, constants: Mapping[str, float]) -> None:
        text = canonical_json({"constants": dict(constants)})
        with self._write():
            self.db.execute("update spaces set constants=? where id=?", (text, space))

    def add_rate(self, space: int, made: int, seconds: float) -> None:
        with self._write():
            self.db.execute("update spaces set made=made+?, seconds=seconds+? where id=?", (made, seconds, space))

    def rate(self, space: int) -> float | None:
        made, seconds = self._read("select made, seconds from spaces where id=?", (space,))[0]
        return made / seconds if seconds else None

    # items and shards

    def locate(self, space: int, keys: Sequence[bytes]) -> Iterator[tuple[bytes, int, int]]:
        """(key, shard, row) of those of `keys` that are there."""
        for start in range(0, len(keys), _QUERY_KEYS):
            part = keys[start : start + _QUERY_KEYS]
            marks = ",".join("?" * len(part))
            yield from self._read(
                f"select key, shard, row from items where space=? and key in ({marks})", (space, *part)
            )

    def has_items(self, space: int) -> bool:
        """True once anybody (another process too) has put an item into a space."""
        return bool(self._read("select 1 from items where space=? limit 1", (space,)))

    def shard(self, number: int) -> tuple[str, str] | None:
        """(name, sha256) of a shard."""
        found = self._read("select name, sha256 from shards where id=?", (number,))
        return found[0] if found else None

    def add_shard(self, space: int, keys: Sequence[bytes], name: str, sha: str, size: int) -> tuple[int, int]:
        """The number of a new shard, and how many of its keys are new: the first writer of a key wins."""
        with self._write():
            cursor = self.db.execute(
                "insert into shards(space, name, sha256, rows, bytes, used) values(?, ?, ?, ?, ?, ?)",
                (space, name, sha, len(keys), size, time.time()),
            )
            shard = int(cursor.lastrowid or 0)
            # In the order of the tree that they go into: neighbours share a page.
            rows = sorted((space, key, shard, row) for row, key in enumerate(keys))
            added = self.db.executemany("insert or ignore into items values(?, ?, ?, ?)", rows).rowcount
        return shard, added

    def has_shard(self, name: str) -> bool:
        return bool(self._read("select 1 from shards where name=?", (name,)))

    def keys(self, space: int) -> dict[int, dict[int, bytes]]:
        """The keys of a space: shard → row → key."""
        found: dict[int, dict[int, bytes]] = {}
        for shard, row, key in self._read("select shard, row, key from items where space=?", (space,)):
            found.setdefault(shard, {})[row] = key
        return found

    def contents(self) -> Iterator[tuple[str, dict[str, Any], dict[str, float], list[ShardRow]]]:
        """(hash, about, constants, shards) of each space."""
        for number, name, about, constants in self._read("select id, hash, about, constants from spaces"):
            keys = self.keys(number)
            shards = [
                ShardRow(title, sha, size, [keys.get(shard, {}).get(row, b"") for row in range(rows)])
                for shard, title, sha, size, rows in self._read(
                    "select id, name, sha256, bytes, rows from shards where space=?", (number,)
                )
            ]
            yield name, json.loads(about), json.loads(constants).get("constants", {}), shards

    def touch(self, shards: Iterable[int]) -> None:
        """Remembers that shards were used now."""
        now = time.time()
        with self._write():
            self.db.executemany("update shards set used=? where id=?", [(now, shard) for shard in shards])

    def drop(self, shards: Sequence[int]) -> None:
        """Takes shards out of the index. This walks all items: an index by shard would double what inserts cost."""
        numbers = ",".join(str(int(shard)) for shard in shards)
        with self._write():
            self.db.execute(f"delete from items where shard in ({numbers})")
            self.db.execute(f"delete from shards where id in ({numbers})")

    def shards_by_use(self) -> list[tuple[int, str, int, float]]:
        """(number, name, bytes, last use) of all shards, the least recently used first."""
        return self._read("select id, name, bytes, used from shards order by used")

    def info(self) -> list[dict[str, Any]]:
        """One row a space: what it is, its features, shards, bytes and last use."""
        query = """select spaces.about, count(shards.id), coalesce(sum(shards.rows), 0),
            coalesce(sum(shards.bytes), 0), max(shards.used)
            from spaces left join shards on shards.space = spaces.id group by spaces.id order by 4 desc"""
        return [
            {**json.loads(about), "shards": shards, "features": rows, "bytes": size, "used": used}
            for about, shards, rows, size, used in self._read(query)
        ]

    # remembered hashes of files

    def file_hash(self, stat: str) -> str | None:
        found = self._read("select sha256 from files where stat=?", (stat,))
        return str(found[0][0]) if found else None

    def put_file_hashes(self, hashes: Mapping[str, str]) -> None:
        now = time.time()
        rows = [(stat, sha, now) for stat, sha in hashes.items()]
        with self._write():
            self.db.executemany("insert or replace into files values(?, ?, ?)", rows)


def _set_up(db: sqlite3.Connection, *, alone: bool, wait: float) -> int:
    """Makes what a new index lacks and gives its version.

    Two processes that open a new index at once: SQLite refuses the change to WAL at once, without waiting for the lock
    as it does for every other statement. So the waiting is done here.
    """
    if alone:
        # Before the first access: then the log's index lies in this process's memory and not in a shared file.
        db.execute("pragma locking_mode=exclusive")
    give_up = time.monotonic() + wait
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
