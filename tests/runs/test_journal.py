"""The journal: whole frames count, torn ones are cut, wherever the process was killed."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from beholder._errors import StoreError
from beholder.runs.journal import Journal


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"id": [str(value) for value in values], "score": [float(value) for value in values]})


def header(chunk: str) -> dict[str, object]:
    return {"chunk": chunk, "retry": False}


def test_frames_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "journal.bin"
    with Journal(path) as journal:
        first = journal.append(header("a"), batch(1, 2))
        journal.append(header("b"), batch(3))
        assert journal.read(first).to_pydict() == {"id": ["1", "2"], "score": [1.0, 2.0]}
    with Journal(path, write=False) as journal:
        assert [table.column("id").to_pylist() for table in journal.tables()] == [["1", "2"], ["3"]]
        assert journal.find("b") is not None
        assert journal.find("c") is None


def test_the_newest_frame_of_a_chunk_wins(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.append(header("a"), batch(1))
        journal.append(header("a"), batch(2))
        assert [table.column("id").to_pylist() for table in journal.tables()] == [["2"]]


def test_every_cut_of_the_file_leaves_a_journal_of_whole_frames(tmp_path: Path) -> None:
    path = tmp_path / "journal.bin"
    sizes = []
    with Journal(path) as journal:
        for number in range(3):
            journal.append(header(str(number)), batch(number))
            sizes.append(path.stat().st_size)
    data = path.read_bytes()
    for cut in range(0, len(data), 7):
        path.write_bytes(data[:cut])
        with Journal(path) as journal:
            whole = sum(size <= cut for size in sizes)
            assert len(journal.frames()) == whole
            journal.append(header("new"), batch(9))
        with Journal(path, write=False) as journal:
            assert [table.column("id").to_pylist() for table in journal.tables()] == [
                *([str(number)] for number in range(whole)),
                ["9"],
            ]


@pytest.mark.parametrize("at", [0, 5, 20, 60, -5])
def test_a_flipped_bit_ends_the_journal_before_its_frame(tmp_path: Path, at: int) -> None:
    path = tmp_path / "journal.bin"
    with Journal(path) as journal:
        journal.append(header("a"), batch(1))
        size = path.stat().st_size
        journal.append(header("b"), batch(2))
    data = bytearray(path.read_bytes())
    data[at if at < 0 else size + at] ^= 0x10
    path.write_bytes(data)
    with Journal(path, write=False) as journal:
        assert [frame.header["chunk"] for frame in journal.frames()] == ["a"]


def frame(text: bytes, payload: bytes) -> bytes:
    """A frame with a sound checksum, whatever is in it."""
    return struct.pack("<4sIQI", b"BHJ1", len(text), len(payload), zlib.crc32(text + payload)) + text + payload


@pytest.mark.parametrize("text", [b"\xff", b"{", b"[]", b"7", b"{}", b'{"chunk": 7}', b"[" * 100_000])
def test_a_sound_frame_of_another_kind_is_refused_and_kept(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "journal.bin"
    path.write_bytes(frame(text, b""))
    before = path.read_bytes()
    for write in (False, True):
        with pytest.raises(StoreError, match="frames that this version of beholder wrote"):
            Journal(path, write=write)
    assert path.read_bytes() == before


def stream(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return sink.getvalue().to_pybytes()


NO_TABLES = [
    b"",
    b"no table",
    b"\xff\xff\xff\xff\x10\0\0\0" + bytes(16),
    stream(batch(1)).replace(b"score", b"sc\xf3re"),
    stream(pa.record_batch({"id": ["abc"]})).replace(b"abc", b"a\xffc"),
]


@pytest.mark.parametrize("payload", NO_TABLES)
def test_a_frame_without_a_table_is_refused_when_it_is_read(tmp_path: Path, payload: bytes) -> None:
    path = tmp_path / "journal.bin"
    path.write_bytes(frame(b'{"chunk": "a"}', payload))
    with Journal(path, write=False) as journal:
        (found,) = journal.frames()
        with pytest.raises(StoreError, match="frames that this version of beholder wrote"):
            journal.read(found)
