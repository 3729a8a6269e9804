"""What the rest of the house knows of media: a medium that can be fingerprinted and decoded, a video of frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np


@dataclass(frozen=True)
class DecodeOptions:
    """How files become pixels. Part of the key of every image feature.

    Args:
        background: RGB over which transparency is composed.
        max_pixels: pictures with more pixels get the status `too_large`.
        first_frame: True takes the first frame of an animation; False makes an animation unreadable as an image.
    """

    background: tuple[int, int, int] = (255, 255, 255)
    max_pixels: int = 180_000_000
    first_frame: bool = False


@dataclass(frozen=True)
class Picture:
    """One decoded image in the canonical form.

    Args:
        pixels: (H, W, 3) uint8 sRGB, C-contiguous, EXIF orientation applied.
        size: (width, height) after orientation.
        source_mode: colour mode of the file ("RGB", "P", "I;16", "CMYK" …).
        notes: what was done to reach the canonical form, in fixed words ("exif_orientation=6",
            "alpha_over=255,255,255").
    """

    pixels: np.ndarray
    size: tuple[int, int]
    source_mode: str
    notes: tuple[str, ...] = ()


@runtime_checkable
class Medium(Protocol):
    """An image that somebody handed in: a file, bytes, an array …

    `name` is what messages call it. `fingerprint` is the hex sha256 of its content (file bytes, or the pixels of an
    in-memory array with their shape and type); it raises `MediaError` when the file is not there. `decode` gives the
    canonical picture, or raises `MediaError` with the status `missing`, `unreadable` or `too_large`. Both may be called
    from several threads.
    """

    @property
    def name(self) -> str: ...

    def fingerprint(self) -> str: ...

    def decode(self, options: DecodeOptions) -> Picture: ...


@dataclass(frozen=True)
class FrameRecord:
    """Which frames of a video were looked at, and what was done to reach them.

    Args:
        policy: the frame policy, as it prints ("uniform:8").
        indices: the frames, in the order in which they were used; 0 is the first of the clip.
        times: time stamp of each, in seconds since the first frame; None where the frames have none.
        frame_count: frames of the clip.
        size: (width, height) of the first frame, upright.
        codec: what the clip is encoded with ("h264", "gif"; "frames" for a folder or a list of pictures).
        notes: what was done on the way, in the fixed words that `beholder.media.video` lists.
    """

    policy: str
    indices: tuple[int, ...]
    times: tuple[float, ...] | None
    frame_count: int
    size: tuple[int, int]
    codec: str
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """The record in JSON's own types."""
        return {
            "policy": self.policy,
            "indices": list(self.indices),
            "times": None if self.times is None else [round(time, 6) for time in self.times],
            "frame_count": self.frame_count,
            "size": list(self.size),
            "codec": self.codec,
            "notes": list(self.notes),
        }


@runtime_checkable
class Video(Protocol):
    """An opened video. `close` it, or use it in a `with` statement.

    `frame_count` is exact. `times` are the frames' time stamps in seconds since the first, or None where the frames
    have none. `size` is (width, height) of the first frame, upright. `frames` gives the pictures of some indices in
    the order in which they are asked for; it holds a bounded number of them, and raises `MediaError` where decoding
    fails. Each `frames` iterator is for one thread; several may be open at once.
    """

    @property
    def name(self) -> str: ...

    @property
    def codec(self) -> str: ...

    @property
    def frame_count(self) -> int: ...

    @property
    def times(self) -> tuple[float, ...] | None: ...

    @property
    def size(self) -> tuple[int, int]: ...

    @property
    def notes(self) -> tuple[str, ...]: ...

    def fingerprint(self) -> str: ...

    def frames(self, indices: Iterable[int]) -> Iterator[Picture]: ...

    def close(self) -> None: ...

    def __enter__(self) -> Video: ...

    def __exit__(self, *_: object) -> None: ...
