"""Serves frames in any order out of readers that only go forward, without holding more than a bounded number."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from beholder._errors import OptionError
from beholder.media.base import Picture

KEPT_BYTES = 128 << 20
"""Pictures that a request names again later are kept up to this size; beyond it they are decoded again."""

_V = TypeVar("_V", bound="StreamedVideo")


class Reader(Protocol):
    """Goes through the frames of one clip; `position` is the index of the frame that comes next."""

    position: int

    def go_to(self, index: int) -> None:
        """Places the reader at `index`, or somewhere before it from where reading on is exact."""

    def take(self) -> Picture:
        """The next frame as a picture."""

    def skip(self) -> None:
        """Passes the next frame without making a picture of it."""

    def close(self) -> None: ...


def in_order(indices: Sequence[int], reader: Reader, *, kept_bytes: int) -> Iterator[Picture]:
    """The pictures of `indices`, in that order.

    A frame that is asked for again, or that lies on the way to an earlier wish, is kept until its last use while
    the kept pictures stay within `kept_bytes`. One picture more is kept for a frame that is asked for twice running,
    so that sorted requests decode each frame once, whatever its size.
    """
    left = Counter(indices)
    kept: dict[int, Picture] = {}
    size, last_at, last = 0, -1, None
    try:
        for index in indices:
            picture = last if index == last_at else kept.get(index)
            if picture is None:
                reader.go_to(index)
                while reader.position < index:
                    at = reader.position
                    if left[at] and at not in kept and size < kept_bytes:
                        kept[at] = reader.take()
                        size += kept[at].pixels.nbytes
                    else:
                        reader.skip()
                picture = reader.take()
            left[index] -= 1
            if not left[index] and index in kept:
                size -= kept.pop(index).pixels.nbytes
            elif left[index] and index not in kept and size < kept_bytes:
                kept[index] = picture
                size += picture.pixels.nbytes
            last_at, last = index, picture
            yield picture
    finally:
        reader.close()


class StreamedVideo(ABC):
    """What all kinds of video have in common.

    Args:
        name: what messages call it.
        codec: what it is encoded with.
        frame_count: exact number of frames.
        times: seconds since the first frame, or None.
        notes: what is known of the whole clip.
    """

    def __init__(
        self,
        name: str,
        *,
        codec: str,
        frame_count: int,
        times: tuple[float, ...] | None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.name, self.codec, self.frame_count, self.times, self.notes = name, codec, frame_count, times, notes

    @property
    @abstractmethod
    def size(self) -> tuple[int, int]:
        """(width, height) of the first frame, upright."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Hex sha256 of the content."""

    @abstractmethod
    def _reader(self) -> Reader:
        """A reader of its own for each request."""

    def frames(self, indices: Iterable[int]) -> Iterator[Picture]:
        """The pictures of some frames, in the order asked for; nothing is decoded before the first is taken.

        Raises:
            OptionError: at the call: an index outside 0 … frame_count − 1.
            MediaError: while iterating, where a frame does not decode.
        """
        wanted = [operator.index(index) for index in indices]
        for index in wanted:
            if not 0 <= index < self.frame_count:
                raise OptionError(
                    f"a frame of {self.name} must be one of 0 … {self.frame_count - 1}", got=f"frame {index}"
                )
        return self._served(wanted)

    def _served(self, wanted: list[int]) -> Iterator[Picture]:
        if wanted:
            yield from in_order(wanted, self._reader(), kept_bytes=KEPT_BYTES)

    def close(self) -> None:  # noqa: B027  (most kinds hold nothing open)
        """Lets go of what is held open."""

    def __enter__(self: _V) -> _V:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
