"""Remembers the hashes of files in the feature store, so that a rerun looks at files without reading them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from beholder.media.files import StatKey, set_hash_memory
from beholder.runs.store import FeatureStore

_RECENT = 4096
"""Hashes held beside the store, at most."""


class StoredHashes:
    """A hash memory on a feature store."""

    def __init__(self, store: FeatureStore) -> None:
        self._store = store
        self._recent: dict[StatKey, str] = {}  # references stand in many rows

    def get(self, key: StatKey) -> str | None:
        sha = self._recent.get(key)
        if sha is None:
            sha = self._store.get_hash(_text(key))
            if sha is not None:
                if len(self._recent) >= _RECENT:
                    self._recent.clear()
                self._recent[key] = sha
        return sha

    def put(self, key: StatKey, sha: str) -> None:
        self._store.put_hash(_text(key), sha)


def _text(key: StatKey) -> str:
    return f"{key.size}:{key.mtime_ns}:{key.ctime_ns}:{key.inode}:{key.path}"


@contextmanager
def remembered_hashes(store: FeatureStore) -> Iterator[None]:
    """While it lasts, local files of this process have a memory for their hashes."""
    set_hash_memory(StoredHashes(store))
    try:
        yield
    finally:
        set_hash_memory(None)
