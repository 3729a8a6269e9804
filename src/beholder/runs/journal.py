"""The journal: an append-only log of scored chunks, readable after a crash.

A frame is `BHJ1`, the lengths of a JSON header and an Arrow IPC payload, the crc32 of both, then header and payload.
A frame counts when it is whole; a torn one at the end (the process was killed while it wrote) is cut off before the
next append. Frames are found again by their chunk key, so a chunk that is unchanged is never scored twice.
"""

from __future__ import annotations

import json
import os
import struct
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from beholder._errors import StoreError
from beholder._hashing import canonical_json

_MAGIC = b"BHJ1"
_SYNC_SECONDS = 2.0
_HEAD = struct.Struct("<4sIQI")


@dataclass(frozen=True)
class Frame:
    """Where a frame lies in the file, and its header; of several journals that are joined, in which."""

    offset: int
    header: Mapping[str, Any]
    part: int = 0


class Journal:
    """The journal of one run folder, opened for appending (its torn end is cut off) or for reading only.

    Args:
        path: the file; made when it is missing and `write` is True.
        write: True to append.

    Raises:
        StoreError: a frame with a sound checksum that no journal of this version has.
    """

    def __init__(self, path: Path, *, write: bool = True) -> None:
        self.path = path
        if write:
            path.touch(exist_ok=True)
        self._file = open(path, "r+b" if write else "rb")  # noqa: SIM115 - closed by close()
        self._writes = write
        self._synced = time.monotonic()
        self._frames: dict[str, Frame] = {}
        try:
            end = self._scan()
        except BaseException:
            self._file.close()
            raise
        if write:
            self._file.truncate(end)
        self._end = end

    def _scan(self) -> int:
        """Reads all headers; the offset behind the last whole frame."""
        offset, size = 0, self._file.seek(0, os.SEEK_END)
        while True:
            self._file.seek(offset)
            head = self._file.read(_HEAD.size)
            if len(head) < _HEAD.size:
                return offset
            magic, header_size, payload_size, crc = _HEAD.unpack(head)
            # Damaged lengths may be of any size: nothing is read that cannot be there.
            if magic != _MAGIC or not header_size or header_size + payload_size > size - offset - _HEAD.size:
                return offset
            body = self._file.read(header_size + payload_size)
            if zlib.crc32(body) != crc:
                return offset
            header = self._header(body[:header_size])
            self._frames[header["chunk"]] = Frame(offset, header)
            offset += _HEAD.size + len(body)

    def _header(self, text: bytes) -> dict[str, Any]:
        try:
            header = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._foreign(error) from error
        if not isinstance(header, dict) or not isinstance(header.get("chunk"), str):
            raise self._foreign("a header without a chunk key")
        return header

    def _foreign(self, found: object) -> StoreError:
        # A fitting checksum means that this is no damage: cutting such a frame off could lose somebody's work.
        return StoreError(
            f"{self.path} must hold frames that this version of beholder wrote",
            got=f"a frame with a sound checksum and other content: {found}",
            fix="Read it with the version that wrote it, or score into another folder",
        )

    def find(self, chunk: str) -> Frame | None:
        """The newest frame of a chunk key, or None."""
        return self._frames.get(chunk)

    def frames(self) -> list[Frame]:
        """The newest frame of each chunk key, in the order in which they were written."""
        return sorted(self._frames.values(), key=lambda frame: frame.offset)

    def append(self, header: Mapping[str, Any], batch: pa.RecordBatch) -> Frame:
        """Writes one frame: a killed process loses none, a power cut those of the last two seconds at most."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        payload = sink.getvalue()
        text = canonical_json(header).encode()
        crc = zlib.crc32(payload, zlib.crc32(text))
        try:
            self._file.seek(self._end)
            self._file.write(_HEAD.pack(_MAGIC, len(text), len(payload), crc))
            self._file.write(text)
            self._file.write(payload)
            self._file.flush()
            self._sync(_SYNC_SECONDS)
        except OSError as error:
            raise StoreError(
                "the run folder must take new scores",
                got=str(error),
                fix="Free some disk space, then run the same command again: nothing that was written is lost",
            ) from error
        frame = Frame(self._end, header)
        self._frames[header["chunk"]] = frame
        self._end += _HEAD.size + len(text) + len(payload)
        return frame

    def read(self, frame: Frame) -> pa.Table:
        """The rows of a frame.

        Raises:
            StoreError: it holds no table, or one whose columns are not sound.
        """
        self._file.seek(frame.offset)
        _, header_size, payload_size, _ = _HEAD.unpack(self._file.read(_HEAD.size))
        self._file.seek(header_size, os.SEEK_CUR)
        try:
            with pa.ipc.open_stream(self._file.read(payload_size)) as reader:
                table = reader.read_all()
            table.validate(full=True)
        except (pa.ArrowException, ValueError, OSError) as error:
            raise self._foreign(error) from error
        return table

    def tables(self) -> Iterator[pa.Table]:
        """The rows of all frames, one table a frame."""
        for frame in self.frames():
            yield self.read(frame)

    def sync(self) -> None:
        """Waits until everything is on the disk."""
        self._sync(0)

    def _sync(self, every: float) -> None:
        now = time.monotonic()
        if now - self._synced >= every:
            os.fsync(self._file.fileno())
            self._synced = now

    def close(self) -> None:
        if self._writes and not self._file.closed:
            self._sync(0)
        self._file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
