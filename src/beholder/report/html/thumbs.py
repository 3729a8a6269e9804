"""Thumbnails, each made once: pictures are read at a reduced size where their format can, videos show a frame."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps

from beholder._errors import BeholderError
from beholder.media.base import DecodeOptions, Medium
from beholder.media.files import LocalFile
from beholder.media.kinds import media_kind
from beholder.media.mask import decode_mask
from beholder.media.visual import FramesMedium

SIDE = 192
"""Longest side in pixels."""

QUALITY = 80
_AHEAD = 256
_PLAIN = {"RGB", "L"}
_OPTIONS = DecodeOptions(first_frame=True)


@dataclass(frozen=True)
class Wish:
    """A thumbnail that is wanted.

    Args:
        source: a medium, or a mask that is written out.
        mask: whether it is a mask.
    """

    source: Any
    mask: bool = False

    def key(self) -> str | None:
        """What names it: the file and its time stamp, or its content; None where it is not there."""
        try:
            if isinstance(self.source, Mapping):
                what: Any = self.source
            elif isinstance(self.source, LocalFile):
                stat = os.stat(self.source.path)
                what = [os.path.abspath(self.source.path), stat.st_size, stat.st_mtime_ns]
            else:
                what = self.source.fingerprint()
        except (OSError, ValueError, BeholderError):
            return None
        text = json.dumps([what, self.mask, SIDE, QUALITY], sort_keys=True, default=str)
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:20]


def make(wish: Wish) -> bytes | None:
    """The thumbnail as a JPEG file; None where the medium cannot be read."""
    try:
        image = _mask(wish.source) if wish.mask else _picture(wish.source)
        image.thumbnail((SIDE, SIDE), Image.Resampling.NEAREST if wish.mask else Image.Resampling.BICUBIC)
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=QUALITY)
        return buffer.getvalue()
    # Pillow's readers raise errors of many kinds on broken files; the page then shows that there is no picture.
    except Exception:
        return None


def _mask(source: Any) -> Image.Image:
    return Image.fromarray(decode_mask(source, _OPTIONS).astype("uint8") * 255)


def _picture(medium: Medium) -> Image.Image:
    if isinstance(medium, LocalFile) and media_kind(medium.path) == "image":
        found = _quick(medium.path)
        if found is not None:
            return found
    if isinstance(medium, FramesMedium) or media_kind(medium.name) == "video" or _is_folder(medium):
        return _first_frame(medium)
    return Image.fromarray(medium.decode(_OPTIONS).pixels)


def _is_folder(medium: Medium) -> bool:
    return isinstance(medium, LocalFile) and os.path.isdir(medium.path)


def _quick(path: str) -> Image.Image | None:
    """Plain pictures only; what needs a background, a profile or scaling goes through the common decoder."""
    with Image.open(path) as image:
        if image.mode not in _PLAIN or getattr(image, "n_frames", 1) > 1 or "transparency" in image.info:
            return None
        image.draft(image.mode, (SIDE, SIDE))
        image.thumbnail((SIDE, SIDE), Image.Resampling.BICUBIC)
        return ImageOps.exif_transpose(image)


def _first_frame(medium: Medium) -> Image.Image:
    from beholder.media.video import open_video

    opened = medium.open(_OPTIONS) if isinstance(medium, FramesMedium) else open_video(medium, _OPTIONS)
    with opened as video:
        return Image.fromarray(next(iter(video.frames([0]))).pixels)


def thumbnails(wishes: Sequence[Wish], *, workers: int | None = None) -> Iterator[bytes | None]:
    """The thumbnails of some media, in their order; a bounded number is made ahead."""
    count = workers or min(8, os.cpu_count() or 1)
    left = iter(wishes)
    with ThreadPoolExecutor(count) as pool:
        waiting = [pool.submit(make, wish) for wish in islice(left, _AHEAD)]
        at = 0
        while at < len(waiting):
            result = waiting[at].result()
            waiting[at] = None  # type: ignore[call-overload]
            at += 1
            for wish in islice(left, 1):
                waiting.append(pool.submit(make, wish))
            yield result


class ThumbFolder:
    """A folder of thumbnails: what is there already is not made again, what is no longer wanted goes.

    Args:
        path: the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self, wishes: Mapping[str, Wish], *, workers: int | None = None) -> set[str]:
        """Makes the missing ones; gives the keys of those that are there now."""
        self.path.mkdir(parents=True, exist_ok=True)
        there = {entry.name.removesuffix(".jpg") for entry in os.scandir(self.path) if entry.name.endswith(".jpg")}
        wanted = [key for key in wishes if key not in there]
        made = set(wishes) & there
        for key, data in zip(wanted, thumbnails([wishes[key] for key in wanted], workers=workers)):
            if data is not None:
                temporary = self.path / f".{key}.tmp"
                temporary.write_bytes(data)
                os.replace(temporary, self.path / f"{key}.jpg")
                made.add(key)
        for key in there - set(wishes):
            with contextlib.suppress(OSError):
                (self.path / f"{key}.jpg").unlink()
        return made
