"""Which items have no feature whatever the model would make of them: found out before a model is loaded for nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beholder._errors import NoValue
from beholder.metrics.base import Joined
from beholder.records import Status
from beholder.runs.batching import Failures
from beholder.runs.looking import DerivedItem, FeatureItem, VideoItem
from beholder.runs.make import attempt
from beholder.runs.several import PairItem
from beholder.runs.shared_pixels import SharedPixels


def unreadable_before_first(
    items: Mapping[bytes, Any], pixels: SharedPixels, sources: Mapping[tuple[str, bytes], Any]
) -> Failures:
    """Why the first items have no feature, up to the first one whose pixels are there.

    A file that cannot be decoded has no stored feature, so every run that meets it would load the model to find that
    out. Where another item does need the model, one picture was decoded twice, unless several models look at it.

    Args:
        items: by content key: what a `FeatureMaker` takes.
        pixels: how files become pixels, and a memory for them.
        sources: the features that items need of others: rows, or the `NoValue` that there is instead.
    """
    failures: Failures = {}
    for key, item in items.items():
        found = attempt(lambda one: _look(one, pixels, sources), item)
        if not isinstance(found, NoValue):
            break
        failures[key] = (Status(found.status), found.reason)
    return failures


def _look(item: Any, pixels: SharedPixels, sources: Mapping[tuple[str, bytes], Any]) -> None:
    """Decodes one picture of what an item looks at; nothing for a text."""
    if isinstance(item, str):
        return
    if isinstance(item, PairItem):
        _look(item.visual, pixels, sources)
    elif isinstance(item, VideoItem):
        pixels.probe(item.medium, item.policy)
    elif isinstance(item, (DerivedItem, FeatureItem)):
        key, _, space = item.source
        found = sources[space, key]
        if isinstance(found, NoValue):
            raise found
    else:
        for medium in item.media if isinstance(item, Joined) else (item,):
            pixels.probe(medium)
