"""Animated GIF, WebP and PNG as videos: frames by Pillow, time stamps from the files' own durations.

The tables of frames are read here from the files' structure, since Pillow tells the durations only while it decodes
and takes a file that ends early for a shorter animation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image

from beholder._errors import MediaError
from beholder.media.base import DecodeOptions, Picture
from beholder.media.files import FileMedium
from beholder.media.image import check_png, check_size, decode_image, guarded, open_image
from beholder.media.serving import StreamedVideo
from beholder.records import Status

_ASSUMED_MS = 100.0
_PNG_HEAD = 8


@dataclass(frozen=True)
class FrameTable:
    """The frames of an animation.

    Args:
        durations: how long each frame shows, in milliseconds, as the file states it.
        first: Pillow's number of the first frame (1 where a PNG has a default picture outside its animation).
        whole: False for a file that ends before its animation does.
    """

    durations: tuple[float, ...]
    first: int = 0
    whole: bool = True


def frame_table(data: bytes, kind: str) -> FrameTable | None:
    """The frames of a GIF, WEBP or PNG; None for a still picture and for other formats."""
    read = _READERS.get(kind)
    return read(data) if read else None


class AnimationVideo(StreamedVideo):
    """An animated picture file. Its encoded bytes are held in memory, its frames are not.

    Args:
        medium: the file.
        data: its bytes.
        kind: "GIF", "WEBP" or "PNG".
        table: its frames.
        options: how they become pixels.

    Raises:
        MediaError: `unreadable` for a file that ends early or does not open; `too_large`.
    """

    def __init__(
        self, medium: FileMedium, data: bytes, *, kind: str, table: FrameTable, options: DecodeOptions
    ) -> None:
        if not table.whole:
            raise MediaError(
                Status.UNREADABLE, f"{medium.name}: the file ends early, in or behind frame {len(table.durations) - 1}"
            )
        if kind == "PNG":
            check_png(data, medium.name, kinds=(b"acTL", b"fcTL", b"fdAT", b"IDAT", b"IHDR", b"PLTE", b"tRNS"))
        with guarded_open(data, medium.name) as image:
            check_size(*image.size, options, medium.name)
            stated = int(getattr(image, "n_frames", 1)) - table.first
        if stated != len(table.durations):
            raise MediaError(
                Status.UNREADABLE, f"{medium.name}: states {stated} frames and holds {len(table.durations)}"
            )
        times, assumed = _time_stamps(table.durations)
        super().__init__(
            medium.name,
            codec="apng" if kind == "PNG" else kind.lower(),
            frame_count=stated,
            times=times,
            notes=("frame_duration=100ms_assumed",) if assumed else (),
        )
        self._medium, self._data, self._first, self._options = medium, data, table.first, options
        self._start: Picture | None = None

    @property
    def size(self) -> tuple[int, int]:
        if self._start is None:
            # An EXIF block can turn all frames, so the size in the header is not yet the upright one.
            self._start = next(self.frames([0]))
        return self._start.size

    def fingerprint(self) -> str:
        return self._medium.fingerprint()

    def _reader(self) -> _AnimationReader:
        return _AnimationReader(self._data, self._first, self._options, self.name, self._start)


class _AnimationReader:
    def __init__(
        self, data: bytes, first: int, options: DecodeOptions, name: str, start: Picture | None = None
    ) -> None:
        """`start` is the picture of frame 0, where it was decoded before."""
        self._image = guarded_open(data, name)
        self._first, self._options, self._name, self._start = first, options, name, start
        self.position = 0

    def go_to(self, index: int) -> None:
        # Pillow finds its way from wherever it stands, through every frame that the wanted one is painted over.
        self.position = index

    def take(self) -> Picture:
        def seek_and_load() -> Image.Image:
            self._image.seek(self._first + self.position)
            self._image.load()
            return self._image.copy()

        if self.position == 0 and self._start is not None:
            self.position = 1
            return self._start
        frame = guarded(seek_and_load, f"{self._name}, frame {self.position}")
        picture = decode_image(frame, self._options, name=f"{self._name}, frame {self.position}")
        self.position += 1
        return picture

    def skip(self) -> None:
        self.position += 1

    def close(self) -> None:
        self._image.close()


def guarded_open(data: bytes, name: str) -> Image.Image:
    """The file, its header read; raises `MediaError`."""
    return guarded(lambda: open_image(data, name), name)


def _time_stamps(durations: tuple[float, ...]) -> tuple[tuple[float, ...], bool]:
    """Seconds at which the frames appear, and whether a duration had to be assumed.

    Browsers show a frame of 10 ms or less for 100 ms, since files without any timing state 0; so do we.
    """
    shown = [_ASSUMED_MS if duration <= 10 else duration for duration in durations]
    starts = itertools.accumulate(shown[:-1], initial=0.0)
    return tuple(start / 1000 for start in starts), any(duration <= 10 for duration in durations)


# ---------------------------------------------------------------- tables of frames


def _gif(data: bytes) -> FrameTable | None:
    durations: list[float] = []
    delay, whole = 0.0, False
    at = 13 + _palette(data, 10)
    while at < len(data):
        block = data[at]
        if block == 0x3B:
            whole = True
            break
        if block == 0x21:
            if data[at + 1 : at + 3] == b"\xf9\x04":
                delay = 10.0 * int.from_bytes(data[at + 4 : at + 6], "little")
            at = _sub_blocks(data, at + 2)
        elif block == 0x2C:
            durations.append(delay)
            delay = 0.0
            at = _sub_blocks(data, at + 11 + _palette(data, at + 9))
        else:
            at += 1  # stray bytes between blocks: readers step over them
    return FrameTable(tuple(durations), whole=whole) if len(durations) > 1 or not whole else None


def _palette(data: bytes, flags_at: int) -> int:
    flags = data[flags_at] if flags_at < len(data) else 0
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _sub_blocks(data: bytes, at: int) -> int:
    while at < len(data) and data[at]:
        at += 1 + data[at]
    return at + 1


def _webp(data: bytes) -> FrameTable | None:
    end = 8 + int.from_bytes(data[4:8], "little")
    if data[12:16] != b"VP8X" or not data[20:21] or not data[20] & 0x02:
        return None
    durations, at = [], 12
    while at + 8 <= min(end, len(data)):
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        if data[at : at + 4] == b"ANMF":
            durations.append(float(int.from_bytes(data[at + 20 : at + 23], "little")))
        at += 8 + size + size % 2
    return FrameTable(tuple(durations), whole=end <= len(data))


def _png(data: bytes) -> FrameTable | None:
    durations, stated, first, ended, at = [], None, 0, False, _PNG_HEAD
    while at + 12 <= len(data):
        size, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        if kind == b"acTL":
            stated = int.from_bytes(data[at + 8 : at + 12], "big")
        elif kind == b"fcTL":
            above, below = (int.from_bytes(data[at + k : at + k + 2], "big") for k in (28, 30))
            durations.append(1000 * above / (below or 100))
        elif kind == b"IDAT" and not durations:
            first = 1
        elif kind == b"IEND":
            ended = True
            break
        at += 12 + size
    if stated is None or (stated == 1 and not first):
        return None
    return FrameTable(tuple(durations), first, whole=ended and len(durations) >= stated)


_READERS: dict[str, Callable[[bytes], FrameTable | None]] = {"GIF": _gif, "WEBP": _webp, "PNG": _png}
