"""Members of tar files (`shards.tar::a.png`): indexed once, then read at random from several threads."""

from __future__ import annotations

import gzip
import os
import re
import struct
import tarfile
import tempfile
import threading
import weakref
import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, TypeAlias

from beholder._errors import MediaError, near_names
from beholder._hashing import hash_bytes
from beholder.media.canonical import ValueRange
from beholder.media.files import FileMedium, StatKey, cannot_read, recall, remember, stat_key
from beholder.records import Status

_SPEC = re.compile(r"(?P<tar>.+?\.(?:tar|tar\.gz|tgz))::(?P<member>.+)", re.IGNORECASE | re.DOTALL)
_GZIP = b"\x1f\x8b"
_OPEN_ARCHIVES = 8

SWELLS_FROM, SWELLS_BY = 1 << 30, 200
"""A gzip file that unpacks to more than a gigabyte and 200 times its size was made to fill memory or disk."""

_Read: TypeAlias = Callable[[int, int], bytes]


def split_member(text: str) -> tuple[str, str] | None:
    """(tar file, member) of `shards.tar::a.png`, or None for text of another form."""
    match = _SPEC.fullmatch(text)
    return (match["tar"], match["member"]) if match else None


@dataclass(frozen=True, slots=True)
class TarMember(FileMedium):
    """One file inside a tar.

    Args:
        tar: where the tar is opened.
        tar_name: the tar's path as it was given, for messages.
        member: the member's name inside the tar.
        value_range: range of float and 32-bit integer samples.
    """

    tar: str
    tar_name: str
    member: str
    value_range: ValueRange | None = None

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.tar_name}::{self.member}"

    def load(self) -> bytes:
        return _archive(stat_key(self.tar, self.tar_name), self.tar_name).load(self.member, self.name)

    def check_there(self) -> None:
        _archive(stat_key(self.tar, self.tar_name), self.tar_name).place(self.member, self.name)

    def fingerprint(self) -> str:
        return self._ranged(recall(self._key()) or self.read_and_hash()[1])

    def read_and_hash(self) -> tuple[bytes, str]:
        key, data = self._key(), self.load()
        sha = recall(key)
        if sha is None:
            sha = hash_bytes(data)
            remember(key, sha)
        return data, self._ranged(sha)

    def _key(self) -> StatKey:
        key = stat_key(self.tar, self.tar_name)
        return key._replace(path=f"{key.path}::{self.member}")


class _Archive:
    """An open tar: where each member lies, and a reader that needs no seek."""

    def __init__(self, handle: IO[bytes], members: Mapping[str, tuple[int, int]]) -> None:
        self._members = members
        self._read = _reader(handle)
        # Dropped from the cache, it may still be read from; it closes when the last reader lets go.
        weakref.finalize(self, handle.close)

    def place(self, member: str, name: str) -> tuple[int, int]:
        """Where a member begins, and its size; raises `MediaError` where there is none of that name."""
        place = self._members.get(_plain(member))
        if place is None:
            near = near_names(_plain(member), self._members)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise MediaError(Status.MISSING, f"{name}: the tar has no such member{hint}")
        return place

    def load(self, member: str, name: str) -> bytes:
        start, size = self.place(member, name)
        try:
            data = self._read(start, size)
        except (OSError, MemoryError) as error:
            raise cannot_read(error, name) from error
        if len(data) != size:
            raise MediaError(Status.UNREADABLE, f"{name}: the tar ends before this member does")
        return data


def _reader(handle: IO[bytes]) -> _Read:
    if hasattr(os, "pread"):
        descriptor = handle.fileno()

        def read_at(start: int, size: int) -> bytes:
            parts = []
            while size > 0 and (part := os.pread(descriptor, min(size, 1 << 30), start)):
                parts.append(part)
                start, size = start + len(part), size - len(part)
            return parts[0] if len(parts) == 1 else b"".join(parts)

        return read_at
    lock = threading.Lock()

    def seek_and_read(start: int, size: int) -> bytes:
        with lock:
            handle.seek(start)
            return handle.read(size)

    return seek_and_read


_archives: OrderedDict[StatKey, _Archive | MediaError] = OrderedDict()
_archives_lock = threading.Lock()


def _archive(key: StatKey, name: str) -> _Archive:
    """The open tar in this state, from the cache or indexed now; a tar that was broken once stays broken."""
    with _archives_lock:
        found = _archives.get(key)
        if found is None:
            found = _archives[key] = _index(key.path, name)
            while len(_archives) > _OPEN_ARCHIVES:
                _archives.popitem(last=False)
        else:
            _archives.move_to_end(key)
    if isinstance(found, MediaError):
        raise MediaError(found.status, found.reason)
    return found


def _index(path: str, name: str) -> _Archive | MediaError:
    handle: IO[bytes] | None = None
    try:
        handle = open(path, "rb")  # noqa: SIM115  (closed with its archive)
        if handle.read(2) == _GZIP:
            handle = _unpacked(handle, name)
        handle.seek(0)
        return _Archive(handle, _members(handle))
    except MediaError as error:
        problem = error
    except OSError as error:
        problem = cannot_read(error, name)
    except (tarfile.TarError, EOFError, zlib.error, struct.error, ValueError) as error:
        problem = MediaError(Status.UNREADABLE, f"{name}: not a readable tar file ({error})")
    if handle is not None:
        handle.close()
    return problem


def swells(packed: IO[bytes], unpacked: int) -> bool:
    """Whether a gzip file that is being read gave more bytes than an honest one would."""
    return unpacked > SWELLS_FROM and unpacked > SWELLS_BY * max(packed.tell(), 1)


def _unpacked(packed: IO[bytes], name: str) -> IO[bytes]:
    """A gzip file unpacked into a nameless temporary file: inside gzip nothing can be read at random."""
    packed.seek(0)
    plain: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed with its archive)
    try:
        with packed, gzip.open(packed) as source:
            while data := source.read(1 << 20):
                plain.write(data)
                if swells(packed, plain.tell()):
                    raise MediaError(Status.TOO_LARGE, f"{name}: unpacks to more than {SWELLS_BY} times its size")
        plain.flush()
    except BaseException:
        plain.close()
        raise
    return plain


def _members(handle: IO[bytes]) -> dict[str, tuple[int, int]]:
    places = {}
    with tarfile.open(fileobj=handle, mode="r:") as tar:
        for member in tar:
            if member.isreg() and not member.issparse():
                places[_plain(member.name)] = (member.offset_data, member.size)
    return places


def _plain(member: str) -> str:
    while member.startswith("./"):
        member = member[2:]
    return member
