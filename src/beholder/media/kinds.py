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
        found = [path for path in _Walk(root).files(root, recursive) if media_kind(path.name) in kinds]
    except OSError as error:
        where = error.filename or folder
        raise UserError("a folder of media must be readable", got=f"{where}: {error.strerror}") from error
    if not found:
        what = " and ".join(f"{kind}s" for kind in kinds)
        extensions = [*(image_extensions() if "image" in kinds else ()), *(_VIDEOS if "video" in kinds else ())]
        raise UserError(f"found 0 {what} under {folder}, extensions {' '.join(extensions)}")
    found.sort(key=lambda path: natural_key(path.relative_to(root).as_posix()))
    return iter(found)


class _Walk:
    """One walk below a folder. Links to files count as files, broken ones too: a picture that is gone must not vanish
    from its set. Links to folders are followed when those lie elsewhere; what lies below the folder is found anyway,
    and a link upwards would never end. Every folder is entered once, by whatever way: no picture counts twice."""

    def __init__(self, root: Path) -> None:
        self._root = os.path.realpath(root)
        self._entered: set[str] = set()

    def files(self, folder: Path, recursive: bool, real: str | None = None) -> Iterator[Path]:
        """The files of a folder, whose real path is `real` (the root's when None), and of those inside it."""
        inner = []
        for entry in os.scandir(folder):
            if entry.name.startswith("."):
                continue
            if _is_file(entry):
                yield Path(entry.path)
            elif recursive:
                inner.append(entry)
        # By name: which of several ways to a folder is taken must not depend on the file system's order.
        for entry in sorted(inner, key=lambda entry: entry.name):
            place = self._place(entry, real or self._root)
            if place is not None and place not in self._entered:
                self._entered.add(place)
                yield from self.files(Path(entry.path), recursive, place)

    def _place(self, entry: os.DirEntry[str], real: str) -> str | None:
        """The real path of a folder; None where it is none to enter."""
        if not entry.is_symlink():
            return os.path.join(real, entry.name) if entry.is_dir() else None
        target = os.path.realpath(entry.path)
        if not os.path.isdir(target) or _below(target, self._root) or _below(self._root, target):
            return None
        return target


def _below(path: str, folder: str) -> bool:
    return f"{path}{os.sep}".startswith(folder if folder.endswith(os.sep) else f"{folder}{os.sep}")


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file() or (entry.is_symlink() and not os.path.exists(entry.path))
    except OSError:  # A link in a circle, or one into a folder that may not be read.
        return True
