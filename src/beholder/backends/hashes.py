"""Hashes of weight files, computed once: remembered by path, size, times and inode in a small SQLite file."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from beholder._errors import WeightsMismatchError
from beholder._hashing import hash_file, hash_json

_SETTLED_NS = 100_000_000
"""A file changed less than this ago is hashed but not remembered: its next change could carry the same times."""


def beholder_cache() -> Path:
    """Our cache folder: `BEHOLDER_CACHE`, or `beholder` in the platform's cache folder for users."""
    asked = os.environ.get("BEHOLDER_CACHE")
    if asked:
        return Path(asked).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return (Path(base) if base else Path.home() / "AppData" / "Local") / "beholder" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "beholder"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "beholder"


def file_sha256(path: Path) -> str:
    """Hex sha256 of a file, from memory when the file is the one that was hashed before.

    Raises:
        WeightsMismatchError: the file changed while it was read.
    """
    real = path.resolve()
    before = _stamp(real)
    known = _recall(real, before)
    if known is not None:
        return known
    digest = hash_file(real)
    if _stamp(real) != before:
        raise WeightsMismatchError(f"{path.name} must not change while it is read", got="a change", fix="Try again")
    if time.time_ns() - max(before[1], before[2]) > _SETTLED_NS:
        _remember(real, before, digest)
    return digest


def combined_sha256(files: Mapping[str, Path] | Iterable[tuple[str, Path]]) -> str:
    """One hash over several files: of their names and hashes, whatever the order."""
    return hash_json({name: file_sha256(path) for name, path in dict(files).items()})


def remembered_constants(key: str, read: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Constants of a checkpoint by its hash; `read` is called when they are not remembered."""
    with contextlib.suppress(sqlite3.Error, OSError), contextlib.closing(_connect()) as base:
        row = base.execute("SELECT value FROM constants WHERE sha256=?", (key,)).fetchone()
        if row is not None:
            return {name: float(number) for name, number in json.loads(row[0]).items()}
    value = read()
    with contextlib.suppress(sqlite3.Error, OSError), contextlib.closing(_connect()) as base, base:
        base.execute("INSERT OR REPLACE INTO constants VALUES (?,?)", (key, json.dumps(value)))
    return value


def _stamp(path: Path) -> tuple[int, int, int, int]:
    info = path.stat()
    return info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino


def _connect() -> sqlite3.Connection:
    folder = beholder_cache()
    folder.mkdir(parents=True, exist_ok=True)
    base = sqlite3.connect(folder / "hashes.sqlite", timeout=10)
    base.execute(
        "CREATE TABLE IF NOT EXISTS hashes (path TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER,"
        " ctime_ns INTEGER, inode TEXT, sha256 TEXT NOT NULL)"
    )
    base.execute("CREATE TABLE IF NOT EXISTS constants (sha256 TEXT PRIMARY KEY, value TEXT NOT NULL)")
    return base


def _recall(path: Path, stamp: tuple[int, int, int, int]) -> str | None:
    # The memory is a convenience: a cache folder that cannot be used costs time, never the run.
    with contextlib.suppress(sqlite3.Error, OSError), contextlib.closing(_connect()) as base:
        row = base.execute(
            "SELECT sha256 FROM hashes WHERE path=? AND size=? AND mtime_ns=? AND ctime_ns=? AND inode=?",
            (str(path), stamp[0], stamp[1], stamp[2], str(stamp[3])),
        ).fetchone()
        if row is not None:
            return str(row[0])
    return None


def _remember(path: Path, stamp: tuple[int, int, int, int], digest: str) -> None:
    with contextlib.suppress(sqlite3.Error, OSError), contextlib.closing(_connect()) as base, base:
        base.execute(
            "INSERT OR REPLACE INTO hashes VALUES (?,?,?,?,?,?)",
            (str(path), stamp[0], stamp[1], stamp[2], str(stamp[3]), digest),
        )
