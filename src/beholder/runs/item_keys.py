"""Content keys of what metrics select: texts, media, pairs, derived pictures."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Union

from beholder._errors import NoValue
from beholder._hashing import hash_json
from beholder.media.base import Medium
from beholder.metrics.base import Derived, FromFeature, Item, Joined, Pair
from beholder.records import Status
from beholder.runs.looking import DerivedItem, FeatureItem, VideoItem
from beholder.runs.make import ContentKey
from beholder.runs.plan import PlannedMetric, PlannedSlot
from beholder.runs.several import PairItem

KEY_BYTES = 16


class ReadItem(NamedTuple):
    """An item with its key, as the makers take it, and the hash of the space that its feature lies in."""

    key: bytes
    item: Any
    space: str


def media_of(item: Union[Pair, Derived, Joined, FromFeature]) -> list[Medium]:
    """The media that an item is made of."""
    if isinstance(item, FromFeature):
        return media_of(item.source) if isinstance(item.source, Derived) else [item.source]
    if isinstance(item, Joined):
        return list(item.media)
    if isinstance(item, Pair):
        visual = media_of(item.visual) if isinstance(item.visual, (Derived, Joined)) else [item.visual]
        return visual if isinstance(item.text, str) else [*visual, item.text]
    source = item.source
    return [item.medium, *(media_of(source) if isinstance(source, Pair) else [source])]


def text_key(text: str) -> bytes:
    """Content key of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:KEY_BYTES]


class ItemReader:
    """Finds the keys of one metric's items.

    Args:
        planned: the metric.
        media_keys: content keys of media by object identity.
    """

    def __init__(self, planned: PlannedMetric, media_keys: Mapping[int, ContentKey | NoValue]) -> None:
        self._planned, self._media = planned, media_keys
        self._slots = {item.slot.name: item for item in planned.slots}

    def read(self, slot: PlannedSlot, items: Sequence[Item]) -> list[ReadItem]:
        """The items of a slot.

        Raises:
            NoValue: an item that has no key, with its status.
        """
        plain = slot.space.hash
        found = []
        for item in items:
            # What nearly every item is, said without a call: a text, or a still picture.
            if type(item) is str:
                found.append(ReadItem(text_key(item), item, plain))
            elif type(key := self._media.get(id(item))) is ContentKey and not key.is_video and slot.several is not None:
                found.append(ReadItem(key.sha256[:KEY_BYTES], item, plain))
            else:
                found.append(self._read(slot, item))
        return found

    def _read(self, slot: PlannedSlot, item: Item) -> ReadItem:
        if isinstance(item, str):
            return ReadItem(text_key(item), item, slot.space.hash)
        if isinstance(item, Pair):
            visual = self._read_visual(slot, item.visual)
            told = text_key(item.text) if isinstance(item.text, str) else b"example" + self._still(item.text).sha256
            key = hashlib.sha256(visual.key + told).digest()[:KEY_BYTES]
            return ReadItem(key, PairItem(visual.key, visual.item, item.text), visual.space)
        if isinstance(item, FromFeature):
            return self._read_feature(slot, item)
        return self._read_visual(slot, item)

    def _read_visual(self, slot: PlannedSlot, item: Union[Medium, Derived, Joined]) -> ReadItem:
        several = slot.several
        if several is None:
            raise NoValue(Status.FAILED, f"the slot {slot.slot.name!r} takes texts; it was given a medium")
        if isinstance(item, Derived):
            return self._read_derived(item, several.hash)
        if isinstance(item, Joined):
            return self._read_joined(item, slot.space.hash)
        key = self._content(item)
        short = key.sha256[:KEY_BYTES]
        if not key.is_video:
            return ReadItem(short, item, slot.space.hash)
        if slot.slot.frames is None:
            name = self._planned.metric.info.name
            raise NoValue(Status.NOT_APPLICABLE, f"{item.name}: is a video; {name} looks at still pictures")
        return ReadItem(short, VideoItem(item, slot.slot.frames), several.hash)

    def _read_derived(self, item: Derived, space: str) -> ReadItem:
        upstream = self._slots[item.slot]
        source = self._read(upstream, item.source)
        key = self._content(item.medium)
        policy = upstream.slot.frames if key.is_video else None
        make = f"{item.make.__module__}:{item.make.__qualname__}"
        recipe = hash_json({"space": source.space, "make": make, "params": [list(pair) for pair in item.params]})
        digest = hashlib.sha256(key.sha256 + source.key + recipe.encode()).digest()[:KEY_BYTES]
        return ReadItem(digest, DerivedItem(item, source, policy), space)

    def _read_joined(self, item: Joined, space: str) -> ReadItem:
        digest = hashlib.sha256(f"joined {len(item.media)}\0".encode())
        for medium in item.media:
            key = self._content(medium)
            if key.is_video:
                raise NoValue(
                    Status.NOT_APPLICABLE,
                    f"{medium.name}: is a video; what is joined (a picture and its mask) must be still pictures",
                )
            digest.update(key.sha256)
        return ReadItem(digest.digest()[:KEY_BYTES], item, space)

    def _still(self, medium: Medium) -> ContentKey:
        key = self._content(medium)
        if key.is_video:
            name = self._planned.metric.info.name
            raise NoValue(Status.NOT_APPLICABLE, f"{medium.name}: is a video; {name} looks at still pictures")
        return key

    def _read_feature(self, slot: PlannedSlot, item: FromFeature) -> ReadItem:
        source = self._read_visual(self._slots[item.slot], item.source)
        found = FeatureItem(slot.kind.takes, source)
        digest = hashlib.sha256(source.key + source.space.encode()).digest()[:KEY_BYTES]
        return ReadItem(digest, found, slot.several.hash if found.several and slot.several else slot.space.hash)

    def _content(self, medium: Medium) -> ContentKey:
        key = self._media[id(medium)]
        if isinstance(key, NoValue):
            raise key
        return key
