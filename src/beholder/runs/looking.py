"""Visuals of several pictures on their way to a model: videos and derived pictures, decoded ahead in threads.

A visual is taken apart into *units*: what a model's `prepare` gives. A model that takes a video whole has one unit a
visual; any other one has a unit a picture. Frames are decoded when they are needed: a few units of a few visuals wait
in memory, however long the videos are.
"""

from __future__ import annotations

import hashlib
import json
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from beholder._errors import MissingExtraError, NoValue
from beholder.media.base import DecodeOptions, Medium, Picture
from beholder.metrics.base import Derived, Joined
from beholder.records import Status
from beholder.runs.shared_pixels import SharedPixels

FRAMES = "//frames"
"""Column with the record of the frames used, as JSON; "" where there are none."""

COUNTS = "#"
"""What is put behind a column's name for the column that tells how many numbers each picture has in it."""

_WAITING = 8
"""Units of one visual that wait for the model, at most."""


@dataclass(frozen=True)
class VideoItem:
    """A video and the frames that are looked at.

    Args:
        medium: the video.
        policy: which frames, as a `FramePolicy` prints.
    """

    medium: Medium
    policy: str


@dataclass(frozen=True)
class DerivedItem:
    """Pictures to be derived.

    Args:
        derived: what the metric selected.
        source: the item whose feature it needs: its key, itself, and the space of its feature.
        policy: which frames, where the medium is a video; None where it is a picture.
    """

    derived: Derived
    source: tuple[bytes, Any, str]
    policy: str | None = None


Still = Union[Medium, Joined]
Several = Union[VideoItem, DerivedItem, "FeatureItem"]
Upstream = Callable[[Union[DerivedItem, "FeatureItem"]], Mapping[str, Any]]
"""Gives the feature's columns, one row, that an item needs, or raises the `NoValue` that there is instead."""


@dataclass(frozen=True)
class FeatureItem:
    """A feature that is looked at itself.

    Args:
        column: the column that is taken of it.
        source: the item whose feature it is: its key, itself, and the space of its feature.
    """

    column: str
    source: tuple[bytes, Any, str]

    @property
    def several(self) -> bool:
        """True where the feature has a row a picture."""
        return isinstance(self.source[1], (VideoItem, DerivedItem))


@dataclass(frozen=True)
class Head:
    """What is known of a visual before its first unit.

    Args:
        record: the frames used, as JSON; "" for derived pictures.
        repeats: which unit each row is of, where frames repeat; None where each has its own.
    """

    record: str = ""
    repeats: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Repeats:
    """Said after the last unit where only then it is known: which unit each row is of."""

    units: tuple[int, ...]


@dataclass(frozen=True)
class End:
    """A visual has no more units; `failure` says why it has none at all, or not all."""

    failure: NoValue | None = None


Event = Union[Head, Repeats, End, Any]


@dataclass(frozen=True)
class Looker:
    """How a model looks at visuals.

    Args:
        prepare: from pictures to the model's input.
        together: True when it takes all pictures of a visual at once.
        pixels: how files become pixels.
        upstream: finds the features that derived pictures need.
        streams: True when `prepare` takes an iterator over all pictures of a visual, however many there are.
        at_once: True when pairs with several videos may go into one call of a model that takes videos whole.
    """

    prepare: Callable[..., Any]
    together: bool
    pixels: SharedPixels
    upstream: Upstream
    streams: bool = False
    at_once: bool = False

    def events(self, item: Several) -> Iterator[Event]:
        """The head of a visual, then its units."""
        if isinstance(item, DerivedItem):
            yield from self._derived(item)
            return
        if isinstance(item, FeatureItem):
            columns = self.upstream(item)
            yield Head(str(columns.get(FRAMES, "")))
            yield from columns[item.column]
            return
        with self.pixels.video(item.medium, item.policy) as video:
            from beholder.media.video import choose_frames

            record = choose_frames(video, item.policy)
            text = json.dumps(record.to_json(), separators=(",", ":"))
            if self.together:
                yield Head(text)
                frames = video.frames(record.indices)
                yield self.prepare(frames if self.streams else list(frames))
                return
            distinct = tuple(dict.fromkeys(record.indices))
            place = {index: at for at, index in enumerate(distinct)}
            repeated = len(distinct) != len(record.indices)
            yield Head(text, tuple(place[index] for index in record.indices) if repeated else None)
            for picture in video.frames(distinct):
                yield self.prepare([picture])

    def _derived(self, item: DerivedItem) -> Iterator[Event]:
        derived = item.derived
        columns = self.upstream(item)
        if item.policy is not None:
            yield from self._derived_of_frames(item, item.policy, split_units(columns))
            return
        pictures = derived.make(self.pixels.picture(derived.medium), columns, **dict(derived.params))
        if not pictures:
            raise NoValue(Status.FAILED, f"{derived.medium.name}: nothing was derived from it, and no reason given")
        yield Head()
        if self.together:
            yield self.prepare(list(pictures))
            return
        for picture in pictures:
            yield self.prepare([picture])

    def _derived_of_frames(self, item: DerivedItem, policy: str, rows: Mapping[str, Sequence[Any]]) -> Iterator[Event]:
        """Pictures derived from the frames of a video, each of equal pixels once."""
        from beholder.media.video import choose_frames

        derived = item.derived
        known: dict[bytes, int] = {}
        of_frame: dict[int, list[int]] = {}
        together: list[Picture] = []
        yield Head()
        with self.pixels.video(derived.medium, policy) as video:
            indices = choose_frames(video, policy).indices
            row_of = {index: row for row, index in reversed(list(enumerate(indices)))}
            distinct = list(dict.fromkeys(indices))
            for index, frame in zip(distinct, video.frames(distinct), strict=True):
                own = {name: values[row_of[index]] for name, values in rows.items()}
                units = of_frame.setdefault(index, [])
                for picture in derived.make(frame, own, **dict(derived.params)):
                    key = _pixels_key(picture)
                    new = key not in known
                    units.append(known.setdefault(key, len(known)))
                    if new and self.together:
                        together.append(picture)
                    elif new:
                        yield self.prepare([picture])
        if not known:
            raise NoValue(Status.ALL_FILTERED, f"{derived.medium.name}: nothing was derived from any of its frames")
        if self.together:
            yield self.prepare(together)
            return
        yield Repeats(tuple(unit for index in indices for unit in of_frame[index]))


def _pixels_key(picture: Picture) -> bytes:
    return hashlib.sha256(repr(picture.pixels.shape).encode() + picture.pixels.tobytes()).digest()


def split_units(columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The columns of one visual of several pictures, as they are stored, as lists with a row a picture."""
    rows: dict[str, list[Any]] = {}
    for name, value in columns.items():
        if name == FRAMES or name.endswith(COUNTS):
            continue
        if isinstance(value, str):
            rows[name] = json.loads(value)
        elif name + COUNTS in columns:
            rows[name] = np.split(value, np.cumsum(columns[name + COUNTS])[:-1])
        else:
            rows[name] = list(value)
    return rows


def still_pictures(item: Still, decode: Union[DecodeOptions, SharedPixels]) -> list[Picture]:
    """The pictures of a still visual: one, or those of joined media in their order."""
    media = item.media if isinstance(item, Joined) else (item,)
    if isinstance(decode, SharedPixels):
        return [decode.picture(medium) for medium in media]
    return [medium.decode(decode) for medium in media]


def look_ahead(
    items: Mapping[bytes, Several], looker: Looker, pool: ThreadPoolExecutor, *, ahead: int
) -> Iterator[tuple[bytes, Event]]:
    """The events of visuals in their order, each ended by an `End`; up to `ahead` visuals are opened at once."""
    source = iter(items.items())
    waiting: deque[tuple[bytes, queue.Queue[Event], Future[None]]] = deque()
    stop = threading.Event()

    def start() -> None:
        for key, item in source:
            events: queue.Queue[Event] = queue.Queue(_WAITING)
            waiting.append((key, events, pool.submit(_fill, events, looker, item, stop)))
            return

    try:
        for _ in range(ahead):
            start()
        while waiting:
            key, events, future = waiting[0]
            while True:
                event = _next(events, future)
                yield key, event
                if isinstance(event, End):
                    break
            waiting.popleft()
            start()
    finally:
        stop.set()
        for _, _, future in waiting:
            future.cancel()


def _fill(events: queue.Queue[Event], looker: Looker, item: Several, stop: threading.Event) -> None:
    """Puts a visual's events into its queue; waits where the queue is full, and leaves when nobody listens."""
    failure = None
    try:
        for event in looker.events(item):
            if not _put(events, event, stop):
                return
    except MissingExtraError:
        raise
    except NoValue as error:
        failure = error
    except Exception as error:
        failure = NoValue(Status.FAILED, f"preparing it raised {type(error).__name__}: {error}")
    _put(events, End(failure), stop)


def _put(events: queue.Queue[Event], event: Event, stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            events.put(event, timeout=0.1)
            return True
        except queue.Full:
            continue
    return False


def _next(events: queue.Queue[Event], future: Future[None]) -> Event:
    while True:
        try:
            return events.get(timeout=0.1)
        except queue.Empty:
            if future.done():
                future.result()  # what ended the thread ends the run
                if events.empty():
                    return End(NoValue(Status.FAILED, "reading it ended early"))
