"""Media that are files: on a local disk, or bytes in memory; and the memory of their hashes."""

from __future__ import annotations

import errno
import os
import stat
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from beholder._errors import MediaError
from beholder._hashing import hash_bytes, hash_file
from beholder.media.base import DecodeOptions, Picture
from beholder.media.canonical import ValueRange
from beholder.media.image import decode_image
from beholder.records import Status

_SETTLED_NS = 2_000_000_000


class StatKey(NamedTuple):
    """What tells one state of a file from another without reading it."""

    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


class HashMemory(Protocol):
    """Remembers the sha256 of files that were hashed before. Called from several threads."""

    def get(self, key: StatKey) -> str | None: ...

    def put(self, key: StatKey, sha: str) -> None: ...


_memory: HashMemory | None = None


def set_hash_memory(memory: HashMemory | None) -> None:
    """Gives all local files of this process a memory for their hashes; None takes it away."""
    global _memory
    _memory = memory


def recall(key: StatKey) -> str | None:
    """The remembered sha256, or None."""
    return _memory.get(key) if _memory is not None else None


def remember(key: StatKey, sha: str) -> None:
    """Remembers a sha256.

    Not for a file that was changed within the last two seconds: it could change again within the same tick of the
    file system's clock, and the old hash would stand for the new content.
    """
    if _memory is not None and time.time_ns() - max(key.mtime_ns, key.ctime_ns) > _SETTLED_NS:
        _memory.put(key, sha)


class FileMedium(ABC):
    """A medium that is the bytes of one encoded file.

    `load` reads them; `read_and_hash` reads them once for both uses; `decode` takes bytes that were read before.
    """

    __slots__ = ()

    name: str
    value_range: ValueRange | None

    @abstractmethod
    def load(self) -> bytes:
        """The file's bytes; raises `MediaError` when they cannot be had."""

    def check_there(self) -> None:
        """Raises `MediaError` where it is plain without reading that the bytes cannot be had."""
        return

    def fingerprint(self) -> str:
        """Hex sha256 of the file's bytes (of it and the range, where a value range is stated)."""
        return self._ranged(hash_bytes(self.load()))

    def read_and_hash(self) -> tuple[bytes, str]:
        """The bytes and the fingerprint, from one read."""
        data = self.load()
        return data, self._ranged(hash_bytes(data))

    def decode(self, options: DecodeOptions, data: bytes | None = None) -> Picture:
        """The canonical picture; `data` are the file's bytes where they were read before."""
        data = self.load() if data is None else data
        return decode_image(data, options, name=self.name, value_range=self.value_range)

    def _ranged(self, sha: str) -> str:
        # The same bytes under another range are another picture.
        if self.value_range is None:
            return sha
        low, high = self.value_range
        return hash_bytes(f"beholder file, value range {low!r} {high!r}\0{sha}".encode())


@dataclass(frozen=True, slots=True)
class LocalFile(FileMedium):
    """A file on a local disk.

    Args:
        path: where it is opened.
        name: the path as it was given, for messages.
        value_range: range of float and 32-bit integer samples.
    """

    path: str
    name: str
    value_range: ValueRange | None = None

    def load(self) -> bytes:
        return read_file(self.path, self.name)

    def check_there(self) -> None:
        try:
            os.stat(self.path)
        except (OSError, ValueError) as error:
            raise cannot_read(error, self.name) from error
        if not os.access(self.path, os.R_OK):
            raise MediaError(Status.UNREADABLE, f"{self.name}: cannot be read ({os.strerror(errno.EACCES)})")

    def fingerprint(self) -> str:
        key = stat_key(self.path, self.name)
        sha = recall(key)
        if sha is None:
            try:
                sha = hash_file(self.path)
            except (OSError, ValueError) as error:
                raise cannot_read(error, self.name) from error
            remember(key, sha)
        return self._ranged(sha)

    def recalled(self) -> str | None:
        """The fingerprint where it is remembered, without reading the file; None where it is not."""
        try:
            sha = recall(stat_key(self.path, self.name))
        except MediaError:
            return None  # what is wrong with the file, `fingerprint` will say
        return None if sha is None else self._ranged(sha)

    def read_and_hash(self) -> tuple[bytes, str]:
        key = stat_key(self.path, self.name)
        data = read_file(self.path, self.name)
        sha = recall(key)
        if sha is None:
            sha = hash_bytes(data)
            remember(key, sha)
        return data, self._ranged(sha)


@dataclass(frozen=True, slots=True)
class BytesMedium(FileMedium):
    """An encoded file in memory.

    Args:
        data: its bytes.
        name: what messages call it.
        value_range: range of float and 32-bit integer samples.
    """

    data: bytes = field(repr=False)
    name: str
    value_range: ValueRange | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that the file takes in memory."""
        return len(self.data)

    def load(self) -> bytes:
        return self.data


def stat_key(path: str, name: str) -> StatKey:
    """The state of a local file; raises `MediaError` when it is not there or is no regular file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        raise cannot_read(error, name) from error
    if not stat.S_ISREG(found.st_mode):
        what = "a folder" if stat.S_ISDIR(found.st_mode) else "no regular file"
        raise MediaError(Status.UNREADABLE, f"{name}: is {what}")
    return StatKey(os.path.abspath(path), found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def read_file(path: str, name: str) -> bytes:
    """All bytes of a local file; raises `MediaError`."""
    stat_key(path, name)  # a pipe or a device would block or never end
    try:
        with open(path, "rb") as handle:
            return handle.read()
    except (OSError, ValueError, MemoryError) as error:
        raise cannot_read(error, name) from error


def cannot_read(error: Exception, name: str) -> MediaError:
    """The `MediaError` for a file that the system does not give."""
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return MediaError(Status.MISSING, f"{name}: no such file")
    if isinstance(error, MemoryError):
        return MediaError(Status.UNREADABLE, f"{name}: not enough memory to read it")
    text = getattr(error, "strerror", None) or str(error)
    return MediaError(Status.UNREADABLE, f"{name}: cannot be read ({text})")
