"""Content keys of media: what is remembered is not read again, and nothing that changed is taken for what it was."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from beholder._errors import MediaError
from beholder._hashing import hash_bytes
from beholder.media.sources import as_medium
from beholder.runs.hash_memory import StoredHashes, remembered_hashes
from beholder.runs.make import ContentKey, content_keys
from beholder.runs.store import FeatureStore


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as made:
        yield made


@pytest.fixture
def store() -> Iterator[FeatureStore]:
    made = FeatureStore(None)
    yield made
    made.close()


def write(folder: Path, count: int) -> list[Path]:
    """Files that were written long enough ago to be remembered."""
    paths = []
    for at in range(count):
        path = folder / f"{at}.png"
        path.write_bytes(f"content {at}".encode())
        os.utime(path, (1, 1))
        paths.append(path)
    return paths


def keys_of(paths: list[Path], pool: ThreadPoolExecutor) -> list[Any]:
    found = content_keys([as_medium(str(path)) for path in paths], pool)
    return [key.sha256.hex() if isinstance(key, ContentKey) else key for key in found]


def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are read from here on."""
    from beholder.media import files

    seen: list[str] = []
    original = files.hash_file
    monkeypatch.setattr(files, "hash_file", lambda path: (seen.append(os.path.basename(path)), original(path))[1])
    # The two seconds within which a file may change unseen are over.
    monkeypatch.setattr(files, "_SETTLED_NS", -(10**18))
    return seen


def test_what_is_remembered_is_not_read_and_the_order_is_kept(
    tmp_path: Path, pool: ThreadPoolExecutor, store: FeatureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write(tmp_path, 150)
    expected = [hash_bytes(path.read_bytes()) for path in paths]
    seen = reads(monkeypatch)
    with remembered_hashes(store):
        assert keys_of(paths, pool) == expected
        assert len(seen) == 150
        seen.clear()
        assert keys_of(paths, pool) == expected
        assert seen == []
        paths[70].write_bytes(b"another content")
        paths[100].unlink()
        again = keys_of([*paths, paths[0]], pool)
    assert seen == ["70.png"]
    assert again[70] == hash_bytes(b"another content")
    assert isinstance(again[100], MediaError)
    assert again[100].status == "missing"
    kept = [at for at in range(150) if at not in (70, 100)]
    assert [again[at] for at in kept] == [expected[at] for at in kept]
    assert again[150] == expected[0]


def test_a_hash_is_looked_up_once_and_the_memory_stays_small(
    tmp_path: Path, store: FeatureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from beholder.media.files import StatKey

    asked: list[str] = []
    monkeypatch.setattr(store, "get_hash", lambda text: (asked.append(text), "ab")[1])
    monkeypatch.setattr("beholder.runs.hash_memory._RECENT", 3)
    memory = StoredHashes(store)
    keys = [StatKey(str(at), 1, 1, 1, 1) for at in range(5)]
    assert [memory.get(key) for key in [keys[0], keys[0], *keys]] == ["ab"] * 7
    assert len(asked) == 5
    assert len(memory._recent) <= 3
