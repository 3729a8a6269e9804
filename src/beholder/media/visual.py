"""Whether a medium is a still picture or has frames, told as cheaply as can be: by name, then by the first bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from beholder._errors import MediaError
from beholder._hashing import hash_bytes
from beholder.media.base import DecodeOptions, Medium, Picture, Video
from beholder.media.canonical import ValueRange
from beholder.media.files import FileMedium, LocalFile
from beholder.media.image import image_format
from beholder.media.kinds import media_kind
from beholder.records import Status

_HEAD = 64
_ANIMATED = (".gif", ".webp", ".apng")
_VP8X_ANIMATION = 0x02


@dataclass(frozen=True, slots=True, eq=False)
class FramesMedium:
    """A video that was handed in as a list of pictures, or as an array of four axes.

    Args:
        value: the list.
        base: folder that relative paths start from.
        value_range: range of arrays.
        name: what messages call it.
    """

    value: Sequence[Any]
    base: str | None = None
    value_range: ValueRange | None = None
    name: str = "frames"

    def fingerprint(self) -> str:
        """Hex sha256 over the frames' fingerprints in their order."""
        with self.open(DecodeOptions()) as video:
            return video.fingerprint()

    def decode(self, options: DecodeOptions) -> Picture:
        raise MediaError(Status.UNREADABLE, f"{self.name}: is a list of frames where one picture is needed")

    def open(self, options: DecodeOptions) -> Video:
        from beholder.media.video import open_video

        return open_video(list(self.value), options, base=self.base, value_range=self.value_range)


def is_frames(value: Any) -> bool:
    """True for a list of pictures, and for an array or tensor of four axes, of which the first is the frame."""
    return isinstance(value, (list, tuple)) or getattr(value, "ndim", None) == 4


def examine(medium: Medium, *, first_frame: bool = False) -> tuple[str, bool]:
    """A medium's fingerprint, and whether it is looked at as a video: a video file, an animation, a folder, a list.

    A name that ends like a still picture's is believed: a video behind it becomes `unreadable` when it is decoded.
    GIF, WebP and APNG files are looked into, and so is everything else without a telling name.

    Args:
        medium: what was handed in.
        first_frame: True looks at the first frame of an animation only, as at a still picture.

    Raises:
        MediaError: the medium is not there.
    """
    if is_still(medium):
        return medium.fingerprint(), False
    if not isinstance(medium, FileMedium):
        return medium.fingerprint(), True
    kind = media_kind(medium.name)
    if isinstance(medium, LocalFile):
        if kind is None and os.path.isdir(medium.path):
            return _folder(medium), True
        sha = medium.fingerprint()
        return sha, kind == "video" or _has_frames(_head(medium), first_frame)
    data, sha = medium.read_and_hash()
    return sha, kind == "video" or _has_frames(data[:_HEAD], first_frame)


def is_still(medium: Medium) -> bool:
    """True where the kind of medium or its name alone says that it is one picture."""
    if isinstance(medium, FramesMedium):
        return False
    if not isinstance(medium, FileMedium):
        return True
    return media_kind(medium.name) == "image" and os.path.splitext(medium.name)[1].lower() not in _ANIMATED


def needs_av(medium: Medium) -> bool:
    """True for a video file, which PyAV reads; animations, folders and lists of frames do without it.

    Of a local file the first bytes are looked at: one that is not there or is empty has another fault.
    """
    if not isinstance(medium, FileMedium):
        return False
    kind = media_kind(medium.name)
    if not isinstance(medium, LocalFile) or kind == "image":
        return kind == "video"
    head = _head(medium)
    if not head or image_format(head) is not None:  # an animation may have a video's name
        return False
    return kind == "video" or _is_container(head)


def recalled(medium: Medium) -> str | None:
    """The fingerprint of a local still picture whose hash is remembered; None for everything else."""
    if not isinstance(medium, LocalFile) or media_kind(medium.name) != "image":
        return None
    if os.path.splitext(medium.name)[1].lower() in _ANIMATED:
        return None
    return medium.recalled()


@contextmanager
def opened(medium: Medium, options: DecodeOptions) -> Iterator[Video]:
    """The video behind a medium that `examine` called one; closed at the end."""
    from beholder.media.video import open_video

    video = medium.open(options) if isinstance(medium, FramesMedium) else open_video(medium, options)
    with video:
        yield video


def _has_frames(head: bytes, first_frame: bool) -> bool:
    """True for an animation, and for what is no picture at all but may be a video."""
    kind = image_format(head)
    if kind == "GIF":
        return not first_frame
    if kind == "WEBP":
        return not first_frame and head[12:16] == b"VP8X" and len(head) > 20 and bool(head[20] & _VP8X_ANIMATION)
    if kind == "PNG":
        return not first_frame and b"acTL" in head
    return kind is None and _is_container(head)


def _is_container(head: bytes) -> bool:
    """True where the first bytes are those of a container that videos come in."""
    return (
        head[4:8] in (b"ftyp", b"moov", b"mdat")
        or head[:4] in (b"\x1a\x45\xdf\xa3", b"OggS", b"\x00\x00\x01\xba", b"\x30\x26\xb2\x75")
        or (head[:4] == b"RIFF" and head[8:12] == b"AVI ")
        or head[:3] == b"FLV"
    )


def _head(medium: LocalFile) -> bytes:
    try:
        with open(medium.path, "rb") as handle:
            return handle.read(_HEAD)
    except OSError:
        return b""  # what is wrong with the file, decoding will say


def _folder(medium: LocalFile) -> str:
    from beholder.media.video import open_video

    with open_video(medium, DecodeOptions()) as video:
        return hash_bytes(f"beholder folder\0{video.fingerprint()}".encode())
