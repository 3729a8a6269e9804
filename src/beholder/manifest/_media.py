"""What this room asks of the media room about files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from beholder.media import kinds


def is_media(path: str) -> bool:
    """True when the name's extension is one of a picture or video."""
    return kinds.media_kind(path) is not None


def media_files(folder: str) -> Iterator[str]:
    """Media files below a folder, as paths relative to it with forward slashes, in natural order; no hidden ones.

    Raises:
        UserError: no such folder, or nothing found.
    """
    for path in kinds.iter_media_files(folder, kinds=("image", "video"), recursive=True):
        yield Path(path).relative_to(folder).as_posix()


def extensions() -> str:
    """The extensions that `media_files` looks for, in words."""
    return " ".join((*kinds.image_extensions(), *kinds.video_extensions()))
