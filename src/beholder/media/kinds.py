"""Which files are media: by extension, and in folders."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from beholder._errors import UserError

MediaKind: TypeAlias = Literal["image", "video"]

_IMAGES = (".jpg", ".jpeg", ".jfif", ".png", ".apng", ".webp", ".gif", ".bmp", ".tif", ".tiff")
_IMAGES_MORE = (".jp2", ".j2k", ".ppm", ".pgm", ".pbm", ".pnm")
_VIDEOS = (".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".wmv", ".flv", ".ogv", ".ts")
_DIGITS = re.compile(r"(\d+)")


@functools.lru_cache(maxsize=1)
def image_extensions() -> tuple[str, ...]:
    """Extensions of the images that are read here, in lower case. AVIF only where Pillow has it."""
    from PIL import features

    # Versions before 11.3 do not know the feature, and warn about such questions.
    avif = (".avif",) if "avif" in features.modules and features.check("avif") else ()
    return (*_IMAGES, *_IMAGES_MORE, *avif)


def video_extensions() -> tuple[str, ...]:
    """Extensions of videos, in lower case."""
    return _VIDEOS


def media_kind(path: str | os.PathLike[str]) -> MediaKind | None:
    """What a file is by its extension (of any case): "image", "video", or None. URLs and tar members work too."""
    text = os.fspath(path)
    if "://" in text:
        text = text.split("?", 1)[0]
    extension = os.path.splitext(text)[1].lower()
    if extension in image_extensions():
        return "image"
    return "video" if extension in _VIDEOS else None


def natural_key(text: str) -> tuple[tuple[str | int, ...], str]:
    """Sorts 1, 2, 10 as people do; the text itself settles ties."""
    parts = _DIGITS.split(text.casefold())
    return tuple(int(part) if at % 2 else part for at, part in enumerate(parts)), text


def iter_media_files(
    folder: str | os.PathLike[str], *, kinds: Sequence[MediaKind] = ("image",), recursive: bool = False
) -> Iterator[Path]:
    """The media files of a folder in natural order; hidden files and other kinds are left out.

    Args:
        folder: the folder.
        kinds: "image", "video" or both.
        recursive: also look into folders inside it (hidden ones excepted).

    Raises:
        UserError: at the call: no such folder, a file where a folder is meant, or nothing found.
    """
    root = Path(folder)
    if not root.exists():
        raise UserError("a folder of media must exist", got=f"{folder}: no such folder")
    if not root.is_dir():
        raise UserError("a folder of media must be a folder", got=f"{folder}: a file", fix="Name the folder it lies in")
    try:
        found = [path for path in _files(root, recursive) if media_kind(path.name) in kinds]
    except OSError as error:
        raise UserError("a folder of media must be readable", got=f"{folder}: {error.strerror}") from error
    if not found:
        what = " and ".join(f"{kind}s" for kind in kinds)
        extensions = [*(image_extensions() if "image" in kinds else ()), *(_VIDEOS if "video" in kinds else ())]
        raise UserError(f"found 0 {what} under {folder}, extensions {' '.join(extensions)}")
    found.sort(key=lambda path: natural_key(path.relative_to(root).as_posix()))
    return iter(found)


def _files(root: Path, recursive: bool) -> Iterator[Path]:
    for entry in os.scandir(root):
        if entry.name.startswith("."):
            continue
        if entry.is_file():
            yield Path(entry.path)
        elif recursive and entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry.path), recursive)
