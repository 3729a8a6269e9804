"""Whether files stayed as they were while they were scored: from before a file is hashed until its feature is made.

A feature is kept under the hash of its file. Were the file replaced between hashing and decoding, the store would keep
the feature of one content under the hash of another for good; so a feature whose file changed meanwhile is thrown away.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from beholder.manifest.schema import Sample
from beholder.media.archives import TarMember
from beholder.media.files import LocalFile
from beholder.metrics.base import Derived, Joined, Pair
from beholder.runs.looking import DerivedItem, VideoItem
from beholder.runs.several import PairItem

State = tuple[int, int, int, int]
"""Size, both time stamps and inode."""

CHANGED = "its file changed while it was scored; run again once nobody writes to it"


def state_of(path: str) -> State | None:
    """The state of a file; None where there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def states_of(samples: Iterable[Sample]) -> dict[str, State | None]:
    """The states of all local files of some samples, by path."""
    paths = {path for sample in samples for medium in _media(sample) for path in paths_of(medium)}
    return {path: state_of(path) for path in paths}


def unchanged(item: Any, states: Mapping[str, State | None]) -> bool:
    """True where every file of an item is as it was."""
    return all(path not in states or state_of(path) == states[path] for path in paths_of(item))


def paths_of(item: Any) -> Iterator[str]:
    """The local files that an item, or a medium, is made of."""
    if isinstance(item, LocalFile):
        yield item.path
    elif isinstance(item, TarMember):
        yield item.tar
    elif isinstance(item, Joined):
        for medium in item.media:
            yield from paths_of(medium)
    elif isinstance(item, (PairItem, Pair)):
        yield from paths_of(item.visual)
    elif isinstance(item, VideoItem):
        yield from paths_of(item.medium)
    elif isinstance(item, DerivedItem):
        yield from paths_of(item.derived.medium)
    elif isinstance(item, Derived):
        yield from paths_of(item.medium)
    elif hasattr(item, "source") and not isinstance(item, str):  # a mask as a medium
        yield from paths_of(item.source)


def _media(sample: Sample) -> Iterator[Any]:
    yield sample.output
    yield from sample.references
    for masks in (sample.masks, *sample.reference_masks):
        yield from masks.values() if isinstance(masks, Mapping) else (masks,)
