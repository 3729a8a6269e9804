"""Places that data comes from: local paths, URLs that fsspec understands, members of a tar (`shards.tar::a.png`)."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

from beholder._errors import UserError
from beholder.media.archives import swells

TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz")


class Located(str):
    """A location that stands for itself, whatever folder relative paths start from."""

    __slots__ = ()


def is_remote(location: str) -> bool:
    """True for URLs and archive members, False for local paths."""
    return "://" in location or "::" in location


def suffix_of(location: str) -> str:
    """The suffix in lower case, without `.gz`; of a member for `shards.tar::a.jsonl`."""
    name = location.rsplit("/", 1)[-1].rsplit("::", 1)[-1].lower()
    if name.endswith(TAR_SUFFIXES):
        return ".tar"
    return os.path.splitext(name.removesuffix(".gz"))[1]


def folder_of(location: str) -> str:
    """The folder that a file's relative paths start from ("" for the working folder)."""
    if not is_remote(location):
        return os.path.dirname(location)
    head, slash, _ = location.rpartition("/")
    archive, member, rest = location.rpartition("::")
    if member and "/" not in rest:
        return archive + "::"
    return head if slash else ""


def join(base: str, path: str) -> str:
    """`path` seen from the folder `base`; absolute paths, URLs and located paths stay."""
    if not base or isinstance(path, Located) or "://" in path or os.path.isabs(path):
        return path
    if base.endswith(("/", "::")):
        return base + path
    return f"{base}/{path}" if is_remote(base) else os.path.join(base, path)


def split_member(location: str) -> tuple[str, str] | None:
    """(archive, member) of `shards.tar::a.png`, else None."""
    archive, mark, member = location.partition("::")
    return (archive, member) if mark and archive.lower().endswith(TAR_SUFFIXES) else None


def open_binary(location: str) -> IO[bytes]:
    """Open a file for reading bytes; `.gz` is unpacked.

    Raises:
        UserError: when there is no such file or it cannot be opened.
    """
    try:
        handle = _open(location)
    except (OSError, KeyError, tarfile.TarError, ValueError, ImportError) as error:
        raise UserError(
            f"{location} must be a file that can be read", got=f"{type(error).__name__}: {error}", fix="Check the path"
        ) from error
    return cast("IO[bytes]", _Unpacked(handle, location)) if location.lower().endswith(".gz") else handle


def open_text(location: str, *, newline: str | None = None) -> io.TextIOWrapper:
    """Open a text file: UTF-8, or what its byte order mark says. Bytes that are no text become lone surrogates."""
    handle = open_binary(location)
    buffered = handle if isinstance(handle, io.BufferedReader) else io.BufferedReader(cast(Any, handle))
    marked = buffered.peek(2)[:2] in (b"\xff\xfe", b"\xfe\xff")
    encoding = "utf-16" if marked else "utf-8-sig"
    return io.TextIOWrapper(buffered, encoding=encoding, errors="surrogateescape", newline=newline)


class _Unpacked(gzip.GzipFile):
    """A gzip file that closes what it reads from, and says so when it is none, is cut off or damaged."""

    def __init__(self, packed: IO[bytes], location: str) -> None:
        super().__init__(fileobj=packed, mode="rb")
        self._packed, self._location, self._given = packed, location, 0

    def read(self, size: int | None = -1) -> bytes:
        with self._told():
            return self._counted(super().read(size))

    def read1(self, size: int = -1) -> bytes:
        with self._told():
            return self._counted(super().read1(size))

    def _counted(self, data: bytes) -> bytes:
        self._given += len(data)
        if swells(self._packed, self._given):
            raise UserError(
                f"{self._location} must not unpack to a great many times its size", got="a gzip file that does"
            )
        return data

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise UserError(
                f"{self._location} must be a whole gzip file", got=str(error), fix="Pack or copy it again"
            ) from error

    def close(self) -> None:
        super().close()
        self._packed.close()


def _open(location: str) -> IO[bytes]:
    if member := split_member(location):
        with _open(member[0]) as handle, tarfile.open(fileobj=handle) as archive:
            found = archive.extractfile(member[1])
            if found is None:
                raise KeyError(member[1])
            return io.BytesIO(found.read())
    if is_remote(location):
        import fsspec

        return cast("IO[bytes]", fsspec.open(location, "rb").open())
    return open(location, "rb")
