"""Which items have no feature whatever the model would make of them: found out before a model is loaded for nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from beholder._errors import NoValue
from beholder.media.base import DecodeOptions, Medium
from beholder.media.visual import opened
from beholder.metrics.base import Joined
from beholder.records import Status
from beholder.runs.batching import Failures
from beholder.runs.looking import DerivedItem, FeatureItem, VideoItem
from beholder.runs.make import attempt
from beholder.runs.several import PairItem


def unreadable_before_first(
    items: Mapping[bytes, Any], decode: DecodeOptions, sources: Mapping[tuple[str, bytes], Any]
) -> Failures:
    """Why the first items have no feature, up to the first one whose pixels are there.

    A file that cannot be decoded has no stored feature, so every run that meets it would load the model to find that
    out. Where another item does need the model, one picture was decoded twice.

    Args:
        items: by content key: what a `FeatureMaker` takes.
        decode: how files become pixels.
        sources: the features that items need of others: rows, or the `NoValue` that there is instead.
    """
    failures: Failures = {}
    for key, item in items.items():
        found = attempt(lambda one: _look(one, decode, sources), item)
        if not isinstance(found, NoValue):
            break
        failures[key] = (Status(found.status), found.reason)
    return failures


def _look(item: Any, decode: DecodeOptions, sources: Mapping[tuple[str, bytes], Any]) -> None:
    """Decodes one picture of what an item looks at; nothing for a text."""
    if isinstance(item, str):
        return
    if isinstance(item, PairItem):
        _look(item.visual, decode, sources)
    elif isinstance(item, VideoItem):
        _first_frame(item.medium, item.policy, decode)
    elif isinstance(item, (DerivedItem, FeatureItem)):
        key, _, space = item.source
        found = sources[space, key]
        if isinstance(found, NoValue):
            raise found
    else:
        _decode(item.media if isinstance(item, Joined) else (item,), decode)


def _decode(media: Iterable[Medium], decode: DecodeOptions) -> None:
    for medium in media:
        medium.decode(decode)


def _first_frame(medium: Medium, policy: str, decode: DecodeOptions) -> None:
    from beholder.media.video import choose_frames

    with opened(medium, decode) as video:
        indices = choose_frames(video, policy).indices
        for _ in video.frames(indices[:1]):
            return
