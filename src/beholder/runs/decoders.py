"""Asks for a decoder that rows need and that is not installed, before anything is computed."""

from __future__ import annotations

import hashlib
import importlib.util
from typing import Any

from beholder._errors import MissingExtraError
from beholder.manifest.schema import Sample, SampleSource
from beholder.media.base import Medium
from beholder.media.visual import needs_av
from beholder.runs.chunk import lay_out, media_in, select_all
from beholder.runs.looking import DerivedItem, FeatureItem, VideoItem
from beholder.runs.make import ContentKey
from beholder.runs.plan import Plan
from beholder.runs.several import PairItem


def check_decoders(source: SampleSource, plan: Plan) -> None:
    """Makes sure that every video which a metric looks at can be decoded here.

    A package that is missing is a fault of the set-up, not of a row: scoring the other rows would give a table that
    looks finished. Rows are gone through only where the package is missing. A source that can be read only once is not
    looked into, and says the same when the run comes to the row.

    Raises:
        MissingExtraError: with the number of such rows and the first of them.
    """
    if importlib.util.find_spec("av") is not None or not source.replayable:
        return
    total, found = 0, list[str]()
    for total, sample in enumerate(source, 1):
        medium = next((item for item in (sample.output, *sample.references) if item and needs_av(item)), None)
        if medium is not None and _looks_at_videos(sample, plan):
            found.append(f"row {sample.row or total}, {medium.name}")
    if found:
        rows = f"{len(found)} of {total} rows hold video files" if len(found) > 1 else f"1 of {total} rows is a video"
        raise MissingExtraError(f"reading video files ({rows}; the first: {found[0]})", "av", "video")


def _looks_at_videos(sample: Sample, plan: Plan) -> bool:
    """True when a metric looks at the frames of one of a row's video files. Reads no file."""
    for planned in plan.metrics:
        chosen, verdicts = select_all([sample], planned)
        media = media_in([chosen])
        keys: dict[int, Any] = {at: _stand_in(medium) for at, medium in media.items()}
        wanted: dict[str, dict[bytes, Any]] = {name: {} for name in plan.spaces()}
        lay_out(planned, chosen, verdicts, keys, wanted)
        if any(_is_of_video(item) for items in wanted.values() for item in items.values()):
            return True
    return False


def _stand_in(medium: Medium) -> ContentKey:
    """A key that tells media of one row apart without reading them."""
    return ContentKey(hashlib.sha256(str(id(medium)).encode()).digest(), needs_av(medium))


def _is_of_video(item: Any) -> bool:
    if isinstance(item, PairItem):
        return _is_of_video(item.visual)
    if isinstance(item, DerivedItem):
        return item.policy is not None
    if isinstance(item, FeatureItem):
        return _is_of_video(item.source[1])
    return isinstance(item, VideoItem)
