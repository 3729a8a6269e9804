"""Missing features of several models in windows of media, so that a medium is decoded once for all of them.

Within a window every space makes its features, one after another, and what one has decoded waits for the others
(`shared_pixels.py`). A window is as long as the pixels of its media fit into memory: it begins small, and what a
window took tells how long the next one may be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beholder.metrics.base import Joined
from beholder.runs.looking import DerivedItem, FeatureItem, VideoItem
from beholder.runs.several import PairItem
from beholder.runs.shared_pixels import SharedPixels, Use, medium_key

Todo = Mapping[str, Mapping[bytes, Any]]
"""Missing items by space and key."""

FIRST_VIDEOS = 4
FIRST_STILLS = 256
"""Media in the first window."""

_ROUND = 64
"""Still pictures in a window are a multiple of this where there are more: whole batches of most models."""


def uses_of(item: Any) -> list[Use]:
    """The media whose pixels an item needs; none for texts and for features of features."""
    if isinstance(item, VideoItem):
        return [Use(item.medium, item.policy)]
    if isinstance(item, DerivedItem):
        return [Use(item.derived.medium, item.policy)]
    if isinstance(item, PairItem):
        return uses_of(item.visual) + ([] if isinstance(item.text, str) else [Use(item.text)])
    if isinstance(item, Joined):
        return [Use(medium) for medium in item.media]
    return [] if isinstance(item, (str, FeatureItem)) else [Use(item)]


def shared(todo: Todo) -> bool:
    """True where a medium's pixels are wanted in more than one space."""
    seen: set[object] = set()
    for items in todo.values():
        own = {medium_key(use.medium) for item in items.values() for use in uses_of(item)}
        if seen & own:
            return True
        seen |= own
    return False


def windows(todo: Todo, pixels: SharedPixels) -> Iterator[Todo]:
    """Parts of what is missing, one after another; `pixels` knows of each who will look at what.

    What needs no pixels comes first, then still pictures, then videos. All items of a medium stand in one window, and
    so do a video and the pictures that it is looked at with.
    """
    of_medium: dict[object, list[tuple[str, bytes, Any]]] = {}
    videos: set[object] = set()
    loose: list[tuple[str, bytes, Any]] = []
    owners = _owners(todo)
    for space, items in todo.items():
        for key, item in items.items():
            first = next(iter(uses_of(_pixels_of(item))), None)
            if first is None:
                loose.append((space, key, item))
                continue
            name = medium_key(first.medium)
            if first.policy is not None:
                videos.add(name)
            of_medium.setdefault(owners.get(name, name), []).append((space, key, item))
    if loose:
        yield _gathered(todo, loose)
    for video in (False, True):
        media = [name for name in of_medium if (name in videos) == video]
        size, at = (FIRST_VIDEOS if video else FIRST_STILLS), 0
        while at < len(media):
            entries = [entry for name in media[at : at + size] for entry in of_medium[name]]
            pixels.expect(use for _, _, item in entries for use in uses_of(item))
            yield _gathered(todo, entries)
            at += size
            size = _next_size(min(size, len(media)), pixels, video=video)
    pixels.forget()


def _owners(todo: Todo) -> dict[object, object]:
    """Example pictures, with a video that is looked at with them."""
    found: dict[object, object] = {}
    for items in todo.values():
        for item in items.values():
            if isinstance(item, PairItem) and not isinstance(item.text, str):
                visual = next(iter(uses_of(item.visual)), None)
                if visual is not None and visual.policy is not None:
                    found.setdefault(medium_key(item.text), medium_key(visual.medium))
    return found


def _pixels_of(item: Any) -> Any:
    """The item whose pixels an item comes from in the end: of a feature of a feature, its source."""
    while isinstance(item, FeatureItem):
        item = item.source[1]
    return item


def _gathered(todo: Todo, entries: Sequence[tuple[str, bytes, Any]]) -> dict[str, dict[bytes, Any]]:
    """Entries by space, in the order of the spaces."""
    found: dict[str, dict[bytes, Any]] = {space: {} for space in todo}
    for space, key, item in entries:
        found[space][key] = item
    return {space: items for space, items in found.items() if items}


def _next_size(size: int, pixels: SharedPixels, *, video: bool) -> int:
    """Media of the next window: as many as fit by what those of this one took, at most four times as many."""
    took = pixels.peak + pixels.refused
    fitting = int(pixels.most * size / took) if took else 4 * size
    most = min(4 * size, max(1, fitting))
    return most if video or most < _ROUND else most // _ROUND * _ROUND
