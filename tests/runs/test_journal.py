"""The journal: whole frames count, torn ones are cut, wherever the process was killed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

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
