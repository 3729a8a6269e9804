"""The feature store: what goes in comes out, from any process, and damage is never read."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beholder._errors import StoreError
from beholder._hashing import hash_bytes
from beholder.runs import store as module
from beholder.runs.store import FeatureStore, Space, write_atomic

SPACE = Space("model", "image_embedding", {"background": [255, 255, 255]}, {"model": "fake:a/b", "dtype": "float32"})


def key(number: int) -> bytes:
    return bytes.fromhex(hash_bytes(str(number).encode()))[:16]


def features(numbers: list[int]) -> dict[str, np.ndarray]:
    return {
        "embedding": np.array([[n, n + 0.5] for n in numbers], dtype=np.float32),
        "n_tokens": np.array(numbers, dtype=np.int32),
    }


def fill(store: FeatureStore, numbers: list[int], space: Space = SPACE) -> int:
    number = store.space(space)
    store.put(number, [key(n) for n in numbers], features(numbers))
    return number


@pytest.mark.parametrize("folder", ["disk", "memory"])
def test_features_come_back_by_key_whatever_the_order(tmp_path: Path, folder: str) -> None:
    store = FeatureStore(tmp_path / "s" if folder == "disk" else None)
    space = fill(store, [1, 2, 3])
    store.flush()
    fill(store, [4, 5])  # still pending
    rows, columns = store.get(space, [key(5), key(2), key(9), key(4)])
    assert set(rows) == {key(5), key(2), key(4)}
    for number in (5, 2, 4):
        assert columns["embedding"][rows[key(number)]].tolist() == [number, number + 0.5]
        assert columns["n_tokens"][rows[key(number)]] == number
    assert store.has(space, [key(1), key(9)]) == {key(1)}
    store.close()


def test_features_outlive_the_process_object(tmp_path: Path) -> None:
    first = FeatureStore(tmp_path)
    fill(first, list(range(10)))
    first.close()
    second = FeatureStore(tmp_path)
    rows, columns = second.get(second.space(SPACE), [key(7)])
    assert columns["embedding"][rows[key(7)]].tolist() == [7, 7.5]
    second.close()


def test_spaces_are_apart(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path)
    fill(store, [1])
    other = Space("model", "image_embedding", {"background": [0, 0, 0]}, SPACE.about)
    assert store.space(other) != store.space(SPACE)
    assert store.has(store.space(other), [key(1)]) == set()
    store.close()


def test_about_is_no_part_of_the_key() -> None:
    renamed = Space(SPACE.model_key, SPACE.feature, SPACE.params, {"model": "another name"})
    assert renamed.hash == SPACE.hash


def test_a_second_put_of_a_key_changes_nothing(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path)
    space = fill(store, [1])
    store.put(space, [key(1), key(2)], {"embedding": np.zeros((2, 2), np.float32), "n_tokens": np.zeros(2, np.int32)})
    store.flush()
    store.put(space, [key(1)], {"embedding": np.ones((1, 2), np.float32), "n_tokens": np.ones(1, np.int32)})
    store.flush()
    rows, columns = store.get(space, [key(1), key(2)])
    assert columns["embedding"][rows[key(1)]].tolist() == [1, 1.5]
    assert columns["embedding"][rows[key(2)]].tolist() == [0, 0]
    store.close()


def test_constants_are_remembered(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path)
    space = store.space(SPACE)
    assert store.constants(space) is None
    store.set_constants(space, {"logit_scale": 100.0})
    assert store.constants(space) == {"logit_scale": 100.0}
    store.set_constants(space, {})
    assert store.constants(space) == {}
    store.close()


@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_a_damaged_shard_is_forgotten_never_read(tmp_path: Path, damage: str) -> None:
    store = FeatureStore(tmp_path)
    fill(store, [1, 2])
    store.close()
    shard = next((tmp_path / "shards").glob("*/*.safetensors"))
    data = bytearray(shard.read_bytes())
    if damage == "flip":
        data[-1] ^= 1
        shard.write_bytes(data)
    elif damage == "cut":
        shard.write_bytes(data[:-3])
    else:
        shard.unlink()
    store = FeatureStore(tmp_path)
    space = store.space(SPACE)
    assert store.has(space, [key(1)]) == {key(1)}
    assert store.get(space, [key(1), key(2)]) == ({}, {})
    assert store.has(space, [key(1)]) == set()
    assert store.forgotten == 1
    fill(store, [1])
    rows, columns = store.get(space, [key(1)])
    assert columns["embedding"][rows[key(1)]].tolist() == [1, 1.5]
    store.close()


def test_full_buffers_are_written_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FLUSH_ROWS", 3)
    store = FeatureStore(tmp_path)
    fill(store, [1, 2])
    assert not list((tmp_path / "shards").glob("*/*"))
    fill(store, [3])
    assert len(list((tmp_path / "shards").glob("*/*"))) == 1
    store.close()


def test_memory_for_open_shards_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_OPEN_BYTES", 100)
    store = FeatureStore(tmp_path)
    for start in range(0, 100, 10):
        fill(store, list(range(start, start + 10)))
        store.flush()
    rows, columns = store.get(store.space(SPACE), [key(n) for n in range(100)])
    assert len(rows) == 100
    assert columns["n_tokens"][rows[key(42)]] == 42
    assert len(store._open) == 1
    store.close()


def _fill_elsewhere(folder: str, start: int) -> None:
    store = FeatureStore(folder)
    for number in range(start, start + 40):
        fill(store, [number, 1000])
        store.flush()
    store.close()


def test_several_processes_share_one_store(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_fill_elsewhere, args=(str(tmp_path), start)) for start in (0, 40, 80)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    store = FeatureStore(tmp_path)
    rows, columns = store.get(store.space(SPACE), [key(n) for n in [*range(120), 1000]])
    assert len(rows) == 121
    assert all(columns["n_tokens"][rows[key(n)]] == n for n in [*range(120), 1000])
    store.close()


def _open_at_once(folder: str, barrier: Any) -> None:
    barrier.wait()
    FeatureStore(folder).close()


def test_a_new_store_can_be_opened_by_several_processes_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(4)
    workers = [context.Process(target=_open_at_once, args=(str(tmp_path), barrier)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0, 0]


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    FeatureStore(tmp_path).close()
    with sqlite3.connect(tmp_path / "index.sqlite") as db:
        db.execute("update meta set value='99' where key='version'")
    db.close()
    with pytest.raises(StoreError, match="version 99"):
        FeatureStore(tmp_path)


def test_a_store_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="--store"):
        FeatureStore(tmp_path / "file")


def test_a_full_disk_is_a_clear_error_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FeatureStore(tmp_path)
    space = fill(store, [1])
    store.flush()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(module, "write_atomic", full)
        fill(store, [2])
        with pytest.raises(StoreError, match=r"No space left.*another store with --store"):
            store.flush()
    store.flush()
    assert store.has(space, [key(1), key(2)]) == {key(1), key(2)}
    store.close()


def test_an_index_that_takes_no_rows_names_another_store(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path)
    store._index.db.execute("pragma query_only=on")  # as on a file system that was mounted anew, to be read only
    with pytest.raises(StoreError, match=r"attempt to write a readonly database.*another store with --store"):
        fill(store, [1])
    store.close()


def test_prune_removes_the_least_recently_used_first(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path)
    for number in (1, 2, 3):
        fill(store, [number])
        store.flush()
    store._index.db.execute("update shards set used = id * 1000")
    size = store.info()[0]["bytes"] // 3
    assert store.prune(max_bytes=size) == (2, 2 * size)
    assert store.has(store.space(SPACE), [key(1), key(2), key(3)]) == {key(3)}
    assert len(list((tmp_path / "shards").glob("*/*"))) == 1
    assert store.prune(unused_for=10) == (1, size)
    store.close()


def test_info_tells_what_is_stored(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path)
    fill(store, [1, 2, 3])
    store.flush()
    (row,) = store.info()
    assert (row["model"], row["feature"], row["features"], row["shards"]) == ("fake:a/b", "image_embedding", 3, 1)
    store.close()


def test_write_atomic_leaves_the_old_file_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    write_atomic(path, b"old")

    def fail(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_file_hashes_are_remembered_over_processes(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path)
    assert store.get_hash("a:1") is None
    store.put_hash("a:1", "ff")
    assert store.get_hash("a:1") == "ff"
    store.close()
    again = FeatureStore(tmp_path)
    assert again.get_hash("a:1") == "ff"
    again.close()
