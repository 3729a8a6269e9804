"""What the rest of the house knows of media: a medium that can be fingerprinted and decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
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
    """An image (later: a video) that somebody handed in: a file, bytes, an array …

    `name` is what messages call it. `fingerprint` is the hex sha256 of its content (file bytes, or the pixels of an
    in-memory array with their shape and type); it raises `MediaError` when the file is not there. `decode` gives the
    canonical picture, or raises `MediaError` with the status `missing`, `unreadable` or `too_large`. Both may be called
    from several threads.
    """

    @property
    def name(self) -> str: ...

    def fingerprint(self) -> str: ...

    def decode(self, options: DecodeOptions) -> Picture: ...
