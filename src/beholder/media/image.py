"""The one decoder: a file's bytes or a PIL image to the canonical picture.

What was done on the way is noted on the picture; the words are listed in `beholder.media.canonical`.
"""

from __future__ import annotations

import contextlib
import io
import os
import threading
import warnings
import zlib
from collections.abc import Callable
from typing import TypeVar

from PIL import Image, ImageFile, UnidentifiedImageError

# Importing a plug-in registers its format; asking Pillow for "all formats" would load some thirty more.
from PIL import (  # noqa: F401  # isort: skip
    BmpImagePlugin,
    GifImagePlugin,
    Jpeg2KImagePlugin,
    JpegImagePlugin,
    PngImagePlugin,
    PpmImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from beholder._errors import MediaError
from beholder.media.base import DecodeOptions, Picture
from beholder.media.canonical import ValueRange, to_rgb
from beholder.media.exif import BrokenExif, stated_orientation, turn
from beholder.records import Status

with contextlib.suppress(ImportError):  # a part of Pillow since 11.3
    from PIL import AvifImagePlugin  # noqa: F401

_T = TypeVar("_T")

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "JPEG2000", "AVIF", "PPM")
"""What is read. Formats that start other programs (EPS), or that match almost any bytes (TGA), are left out."""

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PNG_KINDS = (b"IHDR", b"PLTE", b"IDAT", b"tRNS")
_DEFAULT = DecodeOptions()


def decode_image(
    data: bytes | Image.Image | str | os.PathLike[str],
    options: DecodeOptions = _DEFAULT,
    *,
    name: str = "image",
    value_range: ValueRange | None = None,
) -> Picture:
    """The canonical picture of a file's bytes, a PIL image or a local path.

    EXIF orientation is applied once; transparency is composed over `options.background`; 16-bit samples become
    round(v/257); CMYK goes through its embedded profile when it has one; palette, gray, YCbCr, HSV and LAB are
    expanded. RGB profiles are ignored and noted. The pixels are read-only.

    Args:
        data: encoded bytes, a PIL image, or a path.
        options: background, size limit and what to do with animations.
        name: what messages call the picture.
        value_range: (low, high) that map to 0 and 255, used only where a file holds floats or 32-bit integers.

    Raises:
        MediaError: `missing` for a path that is not there; `too_large` above `options.max_pixels`, found before
            any pixel is decoded; `unreadable` for everything that does not decode completely, for several frames
            without `options.first_frame`, and for floats without a range. There is never a partial picture.
    """
    if isinstance(data, Image.Image):
        return _decode_object(data, options, name, value_range)
    if isinstance(data, (str, os.PathLike)):
        from beholder.media.files import read_file

        data = read_file(os.fspath(data), name)
    image, raw_mode, notes = _load(data, options, name)
    # Pillow turns a TIFF while it loads: only the note was left to make, and it was made before.
    orientation = 1 if image.format == "TIFF" else _orientation(image, notes)
    return _finish(image, orientation, notes, raw_mode, options, name, value_range)


def raw_image(data: bytes, options: DecodeOptions, *, name: str = "image") -> Image.Image:
    """A file's picture in the mode that it is stored in (palette numbers, gray, alpha …), completely loaded, upright.

    Raises:
        MediaError: as `decode_image`.
    """
    image, _, notes = _load(data, options, name)
    return turn(image, 1 if image.format == "TIFF" else _orientation(image, notes))


def _finish(
    image: Image.Image,
    orientation: int,
    notes: list[str],
    raw_mode: str,
    options: DecodeOptions,
    name: str,
    value_range: ValueRange | None,
) -> Picture:
    mode = image.mode
    upright = turn(image, orientation)
    if upright is not image:
        upright.format = image.format
        notes.append(f"exif_orientation={orientation}")
    try:
        pixels, done = to_rgb(
            upright, raw_mode=raw_mode, background=options.background, value_range=value_range, name=name
        )
    except MemoryError as error:
        raise _no_memory(image, name) from error
    return Picture(pixels=pixels, size=upright.size, source_mode=mode, notes=(*notes, *done))


def _orientation(image: Image.Image, notes: list[str]) -> int:
    try:
        return stated_orientation(image)
    except BrokenExif:
        notes.append("exif_broken")
        return 1


# ---------------------------------------------------------------- from bytes


def _load(data: bytes, options: DecodeOptions, name: str) -> tuple[Image.Image, str, list[str]]:
    """A completely loaded picture, how its file stores a pixel, and the first notes."""
    if not data:
        raise MediaError(Status.UNREADABLE, f"{name}: the file is empty (0 bytes)")
    if data.startswith(_PNG_SIGNATURE):
        check_png(data, name)

    def load() -> tuple[Image.Image, str, list[str]]:
        image = open_image(data, name)
        raw_mode, notes = _raw_mode(image), []
        check_size(*image.size, options, name)
        if _check_frames(image, options, name):
            notes.append("first_frame")
        if isinstance(image, TiffImagePlugin.TiffImageFile):
            orientation = image.tag_v2.get(274)
            if isinstance(orientation, int) and 2 <= orientation <= 8:
                notes.append(f"exif_orientation={orientation}")
        image.load()
        return image, raw_mode, notes

    return guarded(load, name)


def open_image(data: bytes, name: str) -> ImageFile.ImageFile:
    """The picture behind the bytes, its header read.

    Not through `Image.open`: its check of the size is a warning from a limit that the whole process shares, while
    ours is an argument. The formats' own openers do the same work without it.
    """
    head, failure = data[:16], None
    for kind in FORMATS:
        opener, accepts = Image.OPEN.get(kind, (None, None))
        if opener is None or accepts is None:
            continue
        accepted = accepts(head)
        if isinstance(accepted, str):
            raise MediaError(Status.UNREADABLE, f"{name}: {accepted}")
        if accepted:
            try:
                return opener(io.BytesIO(data), "")
            except SyntaxError as error:
                failure = error
    if failure is not None:
        raise failure
    raise UnidentifiedImageError(what_it_is(data))


def image_format(head: bytes) -> str | None:
    """Which of `FORMATS` a file's first 16 bytes belong to; None for anything else."""
    for kind in FORMATS:
        accepts = Image.OPEN.get(kind, (None, None))[1]
        if accepts is not None and accepts(head[:16]) is True:
            return kind
    return None


def what_it_is(data: bytes) -> str:
    """Says of bytes that are no image what they seem to be, and repeats none of them: a file that was named by mistake
    (or by somebody else) may hold what must not stand in scores and reports."""
    if data[4:8] == b"ftyp" and data[8:12] in (b"heic", b"heix", b"mif1", b"hevc"):
        return "HEIC is not read; convert the file to JPEG or PNG"
    start = data[:40]
    if all(byte in b"\t\r\n" or 32 <= byte < 127 for byte in start):
        return f"not an image but {_kind_of_text(start)}"
    return "not an image of a known format (" + ", ".join(FORMATS) + ")"


def _kind_of_text(start: bytes) -> str:
    lower = start.lstrip().lower()
    if lower.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer; fetch the file itself (git lfs pull)"
    if lower.startswith((b"<!doctype html", b"<html")):
        return "an HTML page, as a server sends when it refuses a file"
    if lower.startswith((b"<svg", b"<?xml")):
        return "XML or SVG; convert it to PNG"
    if lower.startswith((b"{", b"[")):
        return "JSON"
    return "text"


def check_png(data: bytes, name: str, *, kinds: tuple[bytes, ...] = _PNG_KINDS) -> None:
    """Refuses a PNG whose chunks of some kinds do not match their checksums; Pillow does not look at those."""
    view, at, end = memoryview(data), len(_PNG_SIGNATURE), len(data)
    while at + 12 <= end:
        stop = at + 12 + int.from_bytes(view[at : at + 4], "big")
        kind = bytes(view[at + 4 : at + 8])
        if kind == b"IEND":
            return
        if stop > end:
            break
        if kind in kinds:
            stated = int.from_bytes(view[stop - 4 : stop], "big")
            if zlib.crc32(view[at + 4 : stop - 4]) != stated:
                chunk = kind.decode("ascii")
                raise MediaError(Status.UNREADABLE, f"{name}: corrupt PNG: the checksum of its {chunk} chunk is wrong")
        at = stop


def _raw_mode(image: Image.Image) -> str:
    tiles = getattr(image, "tile", None)
    if not tiles:
        return ""
    args = tiles[0][3]
    first = args[0] if isinstance(args, tuple) and args else args
    return first if isinstance(first, str) else ""


# ---------------------------------------------------------------- checks


def check_size(width: int, height: int, options: DecodeOptions, name: str) -> None:
    """Raises `MediaError` for a picture with too many pixels, or with none."""
    if width * height > options.max_pixels:
        raise MediaError(
            Status.TOO_LARGE,
            f"{name}: {width}×{height} is {width * height:,} pixels, the limit is {options.max_pixels:,} (max_pixels)",
        )
    if width * height == 0:
        raise MediaError(Status.UNREADABLE, f"{name}: has no pixels ({width}×{height})")


def _check_frames(image: Image.Image, options: DecodeOptions, name: str) -> bool:
    """True when the file holds several frames and the first is wanted."""
    # The further pictures of an MPO are previews and second views; its first is the photograph.
    if image.format == "MPO" or not getattr(image, "is_animated", False):
        return False
    if not options.first_frame:
        what = "pages" if image.format == "TIFF" else "frames"
        count = getattr(image, "n_frames", "several")
        raise MediaError(
            Status.UNREADABLE,
            f"{name}: holds {count} {what}, not one picture; --first-frame (first_frame=True) takes the first",
        )
    return True


def _no_memory(image: Image.Image, name: str) -> MediaError:
    width, height = image.size
    return MediaError(Status.UNREADABLE, f"{name}: not enough memory to decode {width}×{height} pixels")


# ---------------------------------------------------------------- PIL objects

_LOCKS = tuple(threading.Lock() for _ in range(64))


def lock_of(image: Image.Image) -> threading.Lock:
    """The lock under which a PIL object may be read: loading and converting one change it inside."""
    return _LOCKS[(id(image) >> 4) % len(_LOCKS)]


def loaded(image: Image.Image, name: str) -> Image.Image:
    """The same PIL object, its pixels in memory; hold `lock_of(image)`."""

    def load() -> Image.Image:
        image.load()
        return image

    return guarded(load, name)


def object_orientation(image: Image.Image, notes: list[str]) -> int:
    """The orientation of a PIL object, which the caller may have changed through `getexif()`; hold its lock."""
    noted = len(notes)
    _orientation(image, notes)
    if len(notes) > noted:
        return 1
    try:
        value = _quietly(lambda: image.getexif().get(274, 1))
    except Exception:  # a reader of arbitrary bytes fails in arbitrary ways, and its result is optional
        notes.append("exif_broken")
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _decode_object(image: Image.Image, options: DecodeOptions, name: str, value_range: ValueRange | None) -> Picture:
    notes: list[str] = []
    with lock_of(image):
        check_size(*image.size, options, name)
        if _check_frames(image, options, name):
            if image.tell() != 0:
                raise MediaError(
                    Status.UNREADABLE,
                    f"{name}: an animation that stands at frame {image.tell()}; pass image.copy() to mean that frame",
                )
            notes.append("first_frame")
        raw_mode = _raw_mode(image)
        loaded(image, name)
        orientation = object_orientation(image, notes)
        return _finish(image, orientation, notes, raw_mode, options, name, value_range)


# ---------------------------------------------------------------- calling Pillow


def guarded(call: Callable[[], _T], name: str) -> _T:
    """What Pillow makes of a file, or `MediaError`."""
    try:
        with _whole_pictures_only:
            return _quietly(call)
    except MediaError:
        raise
    except Image.DecompressionBombError as error:
        # Some codecs ask Pillow's own limit from inside; it stands at PIL.Image.MAX_IMAGE_PIXELS.
        raise MediaError(Status.TOO_LARGE, f"{name}: Pillow refuses it ({error})") from error
    except MemoryError as error:
        raise MediaError(Status.UNREADABLE, f"{name}: not enough memory to decode it") from error
    except Exception as error:
        # Only Pillow's own code runs in `call`, and on broken bytes it raises whatever its codecs happen to raise:
        # OSError, SyntaxError, ValueError, struct.error, EOFError, RuntimeError, KeyError, AssertionError …
        raise MediaError(Status.UNREADABLE, f"{name}: {_plain(error)}") from error


def _plain(error: Exception) -> str:
    text = str(error).strip().rstrip(".") or type(error).__name__
    return text if isinstance(error, OSError) else f"does not decode ({text})"


_quiet_lock = threading.Lock()


def _quietly(call: Callable[[], _T]) -> _T:
    """The result of `call`, also where the user made warnings errors: Pillow warns over harmless oddities.

    Changing the warning filters is a change for all threads, so it happens only after a warning was raised, and by
    one thread at a time.
    """
    try:
        return call()
    except Warning:
        with _quiet_lock, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()


class _WholePicturesOnly:
    """Holds Pillow's process-wide LOAD_TRUNCATED_IMAGES at False while any thread decodes.

    Training code likes to switch it on, and then half a file gives half a picture without a word.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._wanted = False

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            self._wanted = self._wanted or ImageFile.LOAD_TRUNCATED_IMAGES
            ImageFile.LOAD_TRUNCATED_IMAGES = False

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                ImageFile.LOAD_TRUNCATED_IMAGES = self._wanted or ImageFile.LOAD_TRUNCATED_IMAGES
                self._wanted = False


_whole_pictures_only = _WholePicturesOnly()
