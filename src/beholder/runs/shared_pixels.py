"""Decoded pixels that several models look at: kept from the first look to the last, within a number of bytes.

A pass of several models goes through its media in windows (`windows.py`). At the beginning of a window it is told who
will look at what; whoever looks first decodes what all of them want in one go, the others find it here. What does not
fit into `most` bytes is not kept and is decoded again by whoever wants it, so memory has a bound and no pixel changes.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from beholder._errors import NoValue
from beholder.media.base import DecodeOptions, FrameRecord, Medium, Picture, Video
from beholder.media.files import LocalFile
from beholder.media.visual import opened

SHARED_BYTES = 1 << 30
"""Bytes of decoded pixels that are kept for other models, at most."""


class Use(NamedTuple):
    """One look at a medium: at the frames of a policy, or, where that is None, at a still picture."""

    medium: Medium
    policy: str | None = None


class _Facts(NamedTuple):
    """What is known of a video that was opened, and all that choosing its frames needs."""

    name: str
    codec: str
    frame_count: int
    times: tuple[float, ...] | None
    size: tuple[int, int]
    notes: tuple[str, ...]

    @property
    def frame_bytes(self) -> int:
        return self.size[0] * self.size[1] * 3


@dataclass
class _Still:
    """A picture, and how many looks at it are still to come."""

    medium: Medium
    left: int = 0
    picture: Picture | None = None


@dataclass
class _Clip:
    """A video's frames, and the looks that are still to come, by policy.

    `busy` is True while somebody decodes for all; `reserved` are the bytes that were set aside for that.
    """

    medium: Medium
    left: Counter[str] = field(default_factory=Counter)
    facts: _Facts | None = None
    frames: dict[int, Picture] = field(default_factory=dict)
    busy: bool = False
    reserved: int = 0

    def wanted(self, without: Mapping[str, int] | None = None) -> set[int]:
        """Frames that somebody will still look at, without some of the looks."""
        gone = without or {}
        policies = [policy for policy, left in self.left.items() if left > gone.get(policy, 0)]
        return {at for policy in policies for at in _indices(self.facts, policy)}


def _indices(facts: _Facts | None, policy: str) -> Sequence[int]:
    try:
        return () if facts is None else _chosen(facts, policy).indices
    except NoValue:
        return ()  # whoever looks is told


def _chosen(facts: Any, policy: str) -> FrameRecord:
    from beholder.media.video import choose_frames

    return choose_frames(facts, policy)


class SharedPixels:
    """How files become pixels, with a memory for what several models want. May be called from several threads.

    Args:
        options: how files become pixels.
        most: bytes of pixels that are kept, at most; `SHARED_BYTES` when None.

    `peak` tells the most bytes that a window held; `refused` the bytes that found no room in it.
    """

    def __init__(self, options: DecodeOptions, *, most: int | None = None) -> None:
        self.options, self.most = options, SHARED_BYTES if most is None else most
        self.peak = self.refused = 0
        self._held = 0
        self._lock = threading.Lock()
        self._stills: dict[object, _Still] = {}
        self._clips: dict[object, _Clip] = {}

    def expect(self, uses: Iterable[Use]) -> None:
        """Begins a window: says who will look at what. What the last window kept is let go."""
        self.forget()
        for medium, policy in uses:
            if policy is None:
                self._stills.setdefault(medium_key(medium), _Still(medium)).left += 1
            else:
                self._clips.setdefault(medium_key(medium), _Clip(medium)).left[policy] += 1

    def forget(self) -> None:
        """Ends a window: nothing is kept any longer."""
        self._stills, self._clips = {}, {}
        self._held = self.peak = self.refused = 0

    def picture(self, medium: Medium) -> Picture:
        """The canonical picture of a still medium; raises what decoding raises."""
        with self._lock:
            still = self._stills.get(medium_key(medium))
            if still is not None:
                still.left -= 1
                found = still.picture
                if found is not None:
                    if still.left <= 0:
                        self._hold(-found.pixels.nbytes)
                        still.picture = None
                    return found
        picture = medium.decode(self.options)
        self._keep_still(still, picture)
        return picture

    def _keep_still(self, still: _Still | None, picture: Picture) -> None:
        if still is None:
            return
        with self._lock:
            if still.left > 0 and still.picture is None and self._room(picture.pixels.nbytes):
                still.picture = picture
                self._hold(picture.pixels.nbytes)

    @contextmanager
    def video(self, medium: Medium, policy: str) -> Iterator[Video]:
        """A video of which the frames of a policy will be taken; closed at the end.

        Raises:
            NoValue: as opening it does.
        """
        clip = self._clips.get(medium_key(medium))
        if clip is None:
            with opened(medium, self.options) as video:
                yield video
            return
        view = _View(self, clip, policy)
        try:
            yield view
        finally:
            view.close()
            with self._lock:
                clip.left[policy] -= 1
                wanted = clip.wanted()
                for at in [at for at in clip.frames if at not in wanted]:
                    self._hold(-clip.frames.pop(at).pixels.nbytes)

    def probe(self, medium: Medium, policy: str | None = None) -> None:
        """Decodes a picture of a medium only to see whether it can be; raises what decoding raises.

        Where looks at it were announced, this one decodes for all of them and counts for none.
        """
        still, clip = self._stills.get(medium_key(medium)), self._clips.get(medium_key(medium))
        if policy is None:
            if still is None or still.picture is None:
                self._keep_still(still, medium.decode(self.options))
            return
        if clip is None:
            with opened(medium, self.options) as video:
                next(iter(video.frames(_chosen(video, policy).indices[:1])), None)
            return
        view = _View(self, clip, None)
        try:
            for _ in view.frames(_chosen(view, policy).indices[:1]):
                pass
        finally:
            view.close()

    # for views

    def admit(self, clip: _Clip, policy: str | None) -> set[int]:
        """Frames to keep while one decodes: what others will look at, as far as there is room. Ended by `settle`.

        Args:
            clip: the clip.
            policy: that of the look which decodes; None for a probe, which is none of those announced.
        """
        with self._lock:
            if clip.busy or clip.facts is None:
                return set()
            own = Counter() if policy is None else Counter({policy: 1})
            wanted = sorted(clip.wanted(without=own) - clip.frames.keys())
            each = max(1, clip.facts.frame_bytes)
            kept = wanted[: max(0, self.most - self._held) // each]
            self.refused += (len(wanted) - len(kept)) * each
            clip.busy, clip.reserved = True, len(kept) * each
            self._hold(clip.reserved)
            return set(kept)

    def keep(self, clip: _Clip, at: int, picture: Picture) -> None:
        """Keeps a frame that was admitted."""
        with self._lock:
            each = max(1, clip.facts.frame_bytes) if clip.facts is not None else 0
            clip.reserved -= each
            self._hold(picture.pixels.nbytes - each)
            clip.frames[at] = picture

    def settle(self, clip: _Clip) -> None:
        """Gives back what was set aside and not used."""
        with self._lock:
            self._hold(-clip.reserved)
            clip.busy, clip.reserved = False, 0

    def _room(self, count: int) -> bool:
        if self._held + count <= self.most:
            return True
        self.refused += count
        return False

    def _hold(self, count: int) -> None:
        self._held += count
        self.peak = max(self.peak, self._held)


class _View:
    """One look at a video: a `Video` that is opened only where something of it is not there yet."""

    def __init__(self, shared: SharedPixels, clip: _Clip, policy: str | None) -> None:
        self._shared, self._clip, self._policy = shared, clip, policy
        self._opening: Any = None
        self._video: Video | None = None
        self._serving: list[Any] = []

    def _open(self) -> Video:
        if self._video is None:
            opening = opened(self._clip.medium, self._shared.options)
            self._video, self._opening = opening.__enter__(), opening
        return self._video

    @property
    def _facts(self) -> _Facts:
        if self._clip.facts is None:
            video = self._open()
            self._clip.facts = _Facts(
                video.name, video.codec, video.frame_count, video.times, video.size, video.notes
            )  # fmt: skip
        return self._clip.facts

    @property
    def name(self) -> str:
        return self._facts.name

    @property
    def codec(self) -> str:
        return self._facts.codec

    @property
    def frame_count(self) -> int:
        return self._facts.frame_count

    @property
    def times(self) -> tuple[float, ...] | None:
        return self._facts.times

    @property
    def size(self) -> tuple[int, int]:
        return self._facts.size

    @property
    def notes(self) -> tuple[str, ...]:
        return self._facts.notes

    def fingerprint(self) -> str:
        return self._clip.medium.fingerprint()

    def frames(self, indices: Iterable[int]) -> Iterator[Picture]:
        served = self._frames(list(indices))
        self._serving.append(served)
        return served

    def _frames(self, own: list[int]) -> Iterator[Picture]:
        there = {at: picture for at in own if (picture := self._clip.frames.get(at)) is not None}
        if all(at in there for at in own):
            yield from (there[at] for at in own)
        elif own != sorted(own):
            yield from self._open().frames(own)
        else:
            kept = self._shared.admit(self._clip, self._policy)
            try:
                yield from self._decoded(own, there, kept)
            finally:
                self._shared.settle(self._clip)

    def _decoded(self, own: list[int], there: dict[int, Picture], kept: set[int]) -> Iterator[Picture]:
        """The frames of `own`, which ascend; those of `kept` are decoded and kept on the way, and behind the last."""
        lacking = [at for at in dict.fromkeys(own) if at not in there]
        order = sorted({*lacking, *kept})
        source = self._open().frames(order)
        ahead, passed = iter(order), -1
        picture: Picture | None = None
        for index in own:
            if index in there:
                yield there[index]
                continue
            while passed != index:
                passed = next(ahead)
                try:
                    picture = next(source)
                except Exception:
                    if passed == index:
                        raise
                    # A frame that only others want does not decode: on without theirs.
                    order = [at for at in lacking if at >= index]
                    source, ahead, kept, passed = self._open().frames(order), iter(order), set(), -1
                    continue
                if passed in kept:
                    self._shared.keep(self._clip, passed, picture)
            if picture is not None:
                yield picture
        try:
            for passed, picture in zip(ahead, source):
                self._shared.keep(self._clip, passed, picture)
        except Exception:
            return  # whoever wants that frame is told

    def close(self) -> None:
        for served in self._serving:
            served.close()
        if self._opening is not None:
            self._opening.__exit__(None, None, None)
            self._opening = self._video = None

    def __enter__(self) -> _View:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def medium_key(medium: Medium) -> object:
    """Equal for media of one content that live as long as a window does."""
    return medium if isinstance(medium, LocalFile) else id(medium)
