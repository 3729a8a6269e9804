"""Faults of disks, files and other people: the run ends like an undisturbed one or stops with a message.

The long form of the kills is `python -m benchmarks.faults`; see docs/reliability.md.
"""

from __future__ import annotations

import builtins
import errno
import os
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import faults
from PIL import Image
from tests.runs.helpers import CountingEncoder, counting, write_set

import beholder
from beholder._errors import BeholderError, RunConflictError, StoreError
from beholder.runs import engine, store

METRICS = ["clip_score", "clip_i"]
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def evaluate(data: Path, tmp_path: Path, name: str = "run", **more: Any) -> beholder.Run:
    settings: dict[str, Any] = {"metrics": METRICS, "model": "counting", "out": str(tmp_path / name)}
    return beholder.evaluate(str(data), **settings | {"store": str(tmp_path / f"s-{name}")} | more)


@forks
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forking a process with threads
def test_a_run_that_is_killed_again_and_again_ends_identical(tmp_path: Path) -> None:
    found = faults.kill_often(tmp_path, 15, rows=200)
    assert found.kills == 15
    assert found.identical


@forks
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_run_that_is_killed_while_it_writes_its_tables_ends_identical(tmp_path: Path) -> None:
    found = faults.kill_at_the_end(tmp_path, 8, rows=60)
    assert found.kills == 8
    assert found.identical


def refusal(data: Path, tmp_path: Path, name: str) -> str | None:
    """What a run says that stops by itself; None when it ends."""
    try:
        evaluate(data, tmp_path, name)
    except BeholderError as error:
        return str(error)
    return None


class Disk:
    """A disk that takes so many writes below a folder, then none."""

    def __init__(self, folder: Path, writes: int) -> None:
        self._folder, self._left = str(folder), writes
        self.refused = 0
        self._open = builtins.open

    def open(self, file: Any, mode: str = "r", *args: Any, **named: Any) -> Any:
        handle = self._open(file, mode, *args, **named)
        if str(file).startswith(self._folder) and set(mode) & set("wax+"):
            return _Handle(handle, self)
        return handle

    def write(self) -> None:
        if self._left <= 0:
            self.refused += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        self._left -= 1


class _Handle:
    """A file of such a disk."""

    def __init__(self, handle: Any, disk: Disk) -> None:
        self._handle, self._disk = handle, disk

    def write(self, data: Any) -> Any:
        self._disk.write()
        return self._handle.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)

    def __enter__(self) -> _Handle:
        return self

    def __exit__(self, *args: object) -> None:
        self._handle.close()


def test_a_disk_that_fills_up_at_any_write_stops_with_a_message_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting()
    monkeypatch.setattr(engine, "CHUNK", 8)
    monkeypatch.setattr(store, "FLUSH_SECONDS", 0.0)
    data = write_set(tmp_path, 24)
    quiet = evaluate(data, tmp_path, "quiet")
    refused = 0
    for writes in range(0, 60, 3):
        name = f"full{writes}"
        disk = Disk(tmp_path, writes)
        with monkeypatch.context() as patched:
            patched.setattr(builtins, "open", disk.open)
            told = refusal(data, tmp_path, name)
        if told is not None:
            assert "No space left" in told
            refused += 1
        again = evaluate(data, tmp_path, name)
        assert again.scores.equals(quiet.scores), writes
        assert again.summary == quiet.summary
        if not disk.refused:
            break
    assert refused >= 5


def test_a_full_index_stops_with_a_message_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from beholder.runs import store_index

    counting()
    data = write_set(tmp_path, 200)
    quiet = evaluate(data, tmp_path, "quiet")
    set_up = store_index._set_up
    refused = 0
    for pages in (8, 9, 11):

        def small(db: Any, *, alone: bool, wait: float, pages: int = pages) -> int:
            version = set_up(db, alone=alone, wait=wait)
            db.execute(f"pragma max_page_count={pages}")
            return version

        with monkeypatch.context() as patched:
            patched.setattr(store_index, "_set_up", small)
            told = refusal(data, tmp_path, f"full{pages}")
        if told is not None:
            assert "full" in told
            refused += 1
        assert evaluate(data, tmp_path, f"full{pages}").scores.equals(quiet.scores)
    assert refused


class Disturbing(CountingEncoder):
    """Does something once, while the first batch is encoded: its pictures are decoded by then."""

    def __init__(self, act: Any) -> None:
        super().__init__("counting")
        self._act: Any = act

    def prepare_image(self, picture: Any) -> np.ndarray:
        # After the hashes of the chunk were taken and before most of its files are decoded.
        act, self._act = self._act, None
        if act is not None:
            act()
        return super().prepare_image(picture)


def test_a_file_that_is_removed_while_running_costs_its_rows_and_may_come_back(tmp_path: Path) -> None:
    counting()
    data = write_set(tmp_path, 12)
    quiet = evaluate(data, tmp_path, "quiet")
    gone = tmp_path / "img" / "11.png"
    kept = gone.read_bytes()
    beholder.register_encoder("counting", Disturbing(gone.unlink))
    disturbed = evaluate(data, tmp_path, workers=1)
    rows = disturbed.scores.to_pylist()
    assert [row["clip_score_status"] for row in rows] == ["ok"] * 11 + ["missing"]
    for row, undisturbed in zip(rows[:11], quiet.scores.to_pylist(), strict=False):
        assert {name: row[name] for name in undisturbed} == undisturbed
    gone.write_bytes(kept)
    counting()
    assert evaluate(data, tmp_path).scores.equals(quiet.scores)


@pytest.mark.parametrize("when", ["before decoding", "after decoding"])
def test_a_file_that_is_replaced_while_running_gives_no_number_and_spoils_no_feature(tmp_path: Path, when: str) -> None:
    counting()
    data = write_set(tmp_path, 12)
    path = tmp_path / "img" / ("11.png" if when == "before decoding" else "0.png")
    old = path.read_bytes()
    quiet = evaluate(data, tmp_path, "quiet")
    beholder.register_encoder("counting", Disturbing(lambda: _draw(path)))
    disturbed = evaluate(data, tmp_path, workers=1)
    row = disturbed.scores.to_pylist()[11 if when == "before decoding" else 0]
    assert (row["clip_score_status"], row["clip_score"]) == ("failed", None)
    assert "changed while it was scored" in row["clip_score_reason"]
    # The next run scores what is there now; with the old file back, the old numbers are back.
    counting()
    new = evaluate(data, tmp_path)
    assert new.n_faults == 0
    assert not new.scores.equals(quiet.scores)
    path.write_bytes(old)
    assert evaluate(data, tmp_path).scores.equals(quiet.scores)


def _draw(path: Path) -> None:
    Image.fromarray(np.full((9, 9, 3), 200, dtype=np.uint8)).save(path)


def test_any_damage_to_a_feature_shard_is_found(tmp_path: Path) -> None:
    encoder = counting()
    data = write_set(tmp_path, 10)
    quiet = evaluate(data, tmp_path, "quiet")
    generator = np.random.default_rng(0)
    for attempt in range(12):
        with closing(sqlite3.connect(tmp_path / "s-quiet" / "index.sqlite")) as index:
            names = [name for (name,) in index.execute("select name from shards order by id")]
        shard = tmp_path / "s-quiet" / "shards" / names[attempt % len(names)]
        damaged = bytearray(shard.read_bytes())
        if attempt % 3 == 0:
            damaged = damaged[: int(generator.integers(0, len(damaged)))]
        else:
            damaged[int(generator.integers(0, len(damaged)))] ^= 1 << int(generator.integers(0, 8))
        shard.write_bytes(damaged)
        made = encoder.prepared + len(encoder.texts)
        again = evaluate(data, tmp_path, f"again{attempt}", store=str(tmp_path / "s-quiet"))
        assert again.scores.equals(quiet.scores)
        assert encoder.prepared + len(encoder.texts) > made
        assert any("damaged" in text for text in again.notices)


def test_a_damaged_index_stops_with_a_message(tmp_path: Path) -> None:
    counting()
    data = write_set(tmp_path, 10)
    evaluate(data, tmp_path, "quiet")
    index = tmp_path / "s-quiet" / "index.sqlite"
    for cut in (100, 2000, 5000):
        content = index.read_bytes()
        index.write_bytes(content[:cut] + os.urandom(len(content) - cut))
        with pytest.raises(StoreError):
            evaluate(data, tmp_path, "next", store=str(tmp_path / "s-quiet"))
        index.write_bytes(content)
    assert evaluate(data, tmp_path, "next", store=str(tmp_path / "s-quiet")).n_faults == 0


def test_any_damage_to_the_journal_costs_what_stood_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting()
    monkeypatch.setattr(engine, "CHUNK", 4)
    data = write_set(tmp_path, 20)
    quiet = evaluate(data, tmp_path)
    before = quiet.scores
    generator = np.random.default_rng(1)
    for _ in range(12):
        log = tmp_path / "run" / "journal.bin"
        damaged = bytearray(log.read_bytes())
        damaged[int(generator.integers(0, len(damaged)))] ^= 1 << int(generator.integers(0, 8))
        log.write_bytes(damaged)
        (tmp_path / "run" / "scores.parquet").unlink()
        left = beholder.open_run_folder(tmp_path / "run").scores.to_pylist()
        known = {row["id"]: row for row in before.to_pylist()}
        assert all(row["clip_score"] == known[row["id"]]["clip_score"] for row in left)
        assert evaluate(data, tmp_path).scores.equals(before)


def test_two_runs_on_one_folder_one_is_refused_and_the_other_is_whole(tmp_path: Path) -> None:
    class Waiting(CountingEncoder):
        def encode_images(self, batch: np.ndarray) -> np.ndarray:
            began.set()
            go_on.wait(20)
            return super().encode_images(batch)

    began, go_on = threading.Event(), threading.Event()
    counting()
    data = write_set(tmp_path, 12)
    quiet = evaluate(data, tmp_path, "quiet")
    beholder.register_encoder("counting", Waiting("counting"))
    found: list[beholder.Run] = []
    first = threading.Thread(target=lambda: found.append(evaluate(data, tmp_path)))
    first.start()
    assert began.wait(20)
    with pytest.raises(RunConflictError, match="one process at a time"):
        evaluate(data, tmp_path, store=str(tmp_path / "other"))
    go_on.set()
    first.join(30)
    assert found[0].scores.equals(quiet.scores)


def test_weights_that_changed_between_runs_are_told_and_their_features_never_mixed(tmp_path: Path) -> None:
    counting()
    data = write_set(tmp_path, 12)
    old = evaluate(data, tmp_path).scores
    counting(seed=1)  # the same name, other weights
    with pytest.raises(RunConflictError, match="weights"):
        evaluate(data, tmp_path)
    new = evaluate(data, tmp_path, overwrite=True)
    fresh = evaluate(data, tmp_path, "fresh")
    assert new.scores.equals(fresh.scores)
    assert not new.scores.column("clip_score").equals(old.column("clip_score"))
    counting()
    assert evaluate(data, tmp_path, overwrite=True).scores.equals(old)


def test_weights_that_change_under_an_interrupted_run_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = counting()
    monkeypatch.setattr(engine, "CHUNK", 4)
    data = write_set(tmp_path, 12)

    def interrupted(texts: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(encoder, "encode_texts", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evaluate(data, tmp_path)
    counting(seed=1)
    with pytest.raises(RunConflictError, match="weights"):
        evaluate(data, tmp_path)


def test_left_over_files_of_a_killed_process_are_cleared(tmp_path: Path) -> None:
    counting()
    data = write_set(tmp_path, 4)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".run.json.1.abc.tmp").write_text("{")
    evaluate(data, tmp_path)
    assert not list((tmp_path / "run").glob("*.tmp"))
    assert time.time() - (tmp_path / "run" / "run.json").stat().st_mtime < 60
