"""Where a model's files are, fetching them, and checking them: what `beholder models where|pull|verify` does."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beholder._errors import OptionError
from beholder._hashing import hash_file
from beholder.backends import hub
from beholder.backends.base import LoadOptions
from beholder.backends.files import find_fault
from beholder.backends.hub import Found, Look, Wanted
from beholder.backends.names import ModelName
from beholder.backends.pool import file_engine, parse_name_here


@dataclass(frozen=True)
class FileCheck:
    """One file of a model, read again in full.

    Args:
        path: the file.
        sha256: its hash.
        expected: the hash that it must have, or None when none is known.
        fault: what is wrong with it, or None.
    """

    path: Path
    sha256: str
    expected: str | None
    fault: str | None

    @property
    def ok(self) -> bool:
        """True when nothing is wrong (a file without a known hash was only checked for being whole)."""
        return self.fault is None


def where(name: str, *, options: LoadOptions | None = None) -> list[Look]:
    """Every place where a model was looked for, in order, and what was found there. Fetches nothing.

    A local or built-in model gives one entry; a model whose tokenizer stands in another repository gives the places
    of both.
    """
    parsed, engine = _engine_of(name)
    wanted = engine.wanted(parsed)
    if not wanted:
        found = engine.local(parsed)
        return [Look(found.folder, "built in" if parsed.path is None else "named itself", found, None)]
    return [item for part in wanted for item in hub.look(part, options or LoadOptions())]


def has_files(name: str) -> bool:
    """True for a model whose weights are files, False for one that is made in memory."""
    return file_engine(parse_name_here(name)) is not None


def pull(name: str, *, options: LoadOptions | None = None) -> list[Found]:
    """Fetches what is missing of a model; files that are here already are left alone.

    Raises:
        WeightsMissingError: it cannot be fetched; the message says why.
        WeightsMismatchError: a fetched file's hash is wrong.
    """
    parsed, engine = _engine_of(name)
    wanted = engine.wanted(parsed)
    if not wanted:
        return [engine.local(parsed)]
    return [hub.find(part, options or LoadOptions()) for part in wanted]


def verify(name: str, *, options: LoadOptions | None = None) -> list[FileCheck]:
    """Reads every file of a model again and compares it with the hash it must have, where one is known.

    Raises:
        WeightsMissingError: the model is not on this machine (nothing is fetched).
    """
    parsed, engine = _engine_of(name)
    wanted = engine.wanted(parsed)
    if not wanted:
        return _check(engine.local(parsed), None)
    here = dataclasses.replace(options or LoadOptions(), offline=True)
    return [check for part in wanted for check in _check(_find_unchecked(part, here), part)]


def _find_unchecked(part: Wanted, options: LoadOptions) -> Found:
    """The first place that has everything, hashes not yet compared: comparing them is the caller's work."""
    looks = hub.look(part, options)
    found = next((item.found for item in looks if item.found is not None), None)
    if found is None:
        raise hub.missing_error(part, looks, why="only files on this machine are checked")
    return found


def _check(found: Found, part: Wanted | None) -> list[FileCheck]:
    checks = []
    whole = find_fault(found.folder, found.files)
    for name in found.files.all:
        path = found.folder / name
        digest = hash_file(path)
        expected = hub.expected_sha256(path, part.card if part else None)
        fault = None if expected in (None, digest) else f"its sha256 must be {expected}"
        checks.append(FileCheck(path, digest, expected, fault))
    if whole is not None and all(check.ok for check in checks):
        checks.append(FileCheck(found.folder, "", None, whole))
    return checks


def _engine_of(name: str) -> tuple[ModelName, Any]:
    parsed: ModelName = parse_name_here(name)
    engine = file_engine(parsed)
    if engine is None:
        raise OptionError("a model must have files to be found, fetched or checked", got=f"{name!r}, which has none")
    return parsed, engine
