"""Masks as media: files, arrays, run lengths and polygons become one picture of 0 and 255.

What counts as the subject, by how the file stores it:

    1 bit, bool array         what is set
    palette                   every number but 0, whatever its colour
    gray, 8 or 16 bit         values up to 31 are labels: every one but 0; else what is at least half of white
    with an alpha channel     where alpha varies: what is at least half opaque; else as the colours say
    colours                   their luminance, as gray; a photograph is refused
    {"size", "counts"}        run lengths as COCO's: a list of numbers, or compressed text
    {"size", "polygons"}      polygons x0 y0 x1 y1 … (also under COCO's own name, "segmentation")
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
from PIL import Image

from beholder._errors import MediaError, OptionError
from beholder._hashing import hash_bytes
from beholder.functional.masks import decode_masks, parse_counts, polygon_mask
from beholder.media.arrays import ArrayMedium, PilMedium
from beholder.media.base import DecodeOptions, Medium, Picture
from beholder.media.files import FileMedium
from beholder.media.image import check_size, lock_of, raw_image
from beholder.records import Status

_LABELS = 31
"""The largest gray value that is taken for a label, or for the 1 of a mask of 0 and 1."""

SHADED = "most of it is neither black nor white; what is at least half of white is taken for the subject"
"""What is noted on a mask of shades: a soft mask looks like that, and so does a gray photograph."""

_COLOURS = 48
_COLOURED, _COMMON = 0.1, 1 / 2000
_DARK, _LIGHT, _MOST = 32, 224, 0.5
"""A photograph has more than 48 common colours (of 16 levels a channel, in a 2,000th of the pixels each) on a tenth of
its pixels, and most of it is neither dark nor light. Measured on scikit-image's pictures: 66 colours and more, 0.75 of
middle shades and more; masks of 20 colours that went through JPEG have as many colours and 0.3."""


@dataclass(frozen=True, slots=True, eq=False)
class MaskMedium:
    """A mask as a medium: its picture is 255 on the subject and 0 elsewhere.

    Args:
        source: the mask's file or array, or a mask that is written out.
        name: what messages call it.
    """

    source: Union[Medium, Mapping[str, Any]]
    name: str = "mask"

    def fingerprint(self) -> str:
        """Hex sha256 of the mask's content."""
        if isinstance(self.source, Mapping):
            text = json.dumps(_plain(dict(self.source)), sort_keys=True)
            return hash_bytes(b"beholder mask\0" + text.encode())
        return self.source.fingerprint()

    def decode(self, options: DecodeOptions) -> Picture:
        """The mask's picture; raises `MediaError`."""
        mask, shaded = _decode(self.source, options, self.name)
        pixels = np.repeat((mask.astype(np.uint8) * np.uint8(255))[..., None], 3, axis=2)
        return Picture(pixels, (mask.shape[1], mask.shape[0]), "mask", (SHADED,) if shaded else ())


def mask_medium(value: Any) -> MaskMedium:
    """The medium of what stands in a manifest's mask column."""
    return MaskMedium(value, "the mask" if isinstance(value, Mapping) else value.name)


def decode_mask(source: Union[Medium, Mapping[str, Any]], options: DecodeOptions, *, name: str = "mask") -> np.ndarray:
    """The mask (H, W) bool behind a file, an array or a written mask.

    Raises:
        MediaError: missing, unreadable or too large; a photograph; runs or polygons that make no sense.
    """
    return _decode(source, options, name)[0]


def _decode(source: Union[Medium, Mapping[str, Any]], options: DecodeOptions, name: str) -> tuple[np.ndarray, bool]:
    """The mask, and whether most of its values are neither black nor white."""
    if isinstance(source, Mapping):
        return _written(source, options, name), False
    if isinstance(source, FileMedium):
        return _of_image(raw_image(source.load(), options, name=name), name)
    if isinstance(source, PilMedium):
        with lock_of(source.image):
            check_size(*source.image.size, options, name)
            return _of_image(source.image.copy(), name)
    if isinstance(source, ArrayMedium) and source.array.dtype.kind in "bui":
        return _of_array(source.array.transpose(1, 2, 0) if source.channels_first else source.array, name)
    return _of_array(source.decode(options).pixels, name)


def _written(mask: Mapping[str, Any], options: DecodeOptions, name: str) -> np.ndarray:
    try:
        height, width = (int(side) for side in mask["size"])
        check_size(width, height, options, name)
        counts = mask.get("counts")
        if counts is None:
            polygons = mask["polygons"] if "polygons" in mask else mask["segmentation"]
            return polygon_mask(polygons, (height, width))
        runs = parse_counts(counts) if isinstance(counts, (str, bytes)) else np.asarray(counts, dtype=np.int64)
        found: np.ndarray = decode_masks(runs, [len(runs)], (height, width))[0]
        return found
    except MediaError:
        raise
    except (OptionError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise MediaError(Status.UNREADABLE, f"{name}: no mask ({error})") from error


def _of_image(image: Image.Image, name: str) -> tuple[np.ndarray, bool]:
    if image.mode == "P":
        return np.asarray(np.asarray(image) != 0), False
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La"):
        alpha = np.asarray(image.getchannel(image.getbands()[-1]))
        if alpha.min() != alpha.max():
            return np.asarray(alpha >= 128), False
        image = image.convert("RGB")
    if image.mode not in ("1", "L", "RGB") and not image.mode.startswith("I"):
        image = image.convert("RGB")
    return _of_array(np.asarray(image), name)


def _of_array(array: np.ndarray, name: str) -> tuple[np.ndarray, bool]:
    if array.ndim == 3 and array.shape[2] == 4:
        alpha = array[..., 3]
        if alpha.min() != alpha.max():
            return _half(alpha), False
    colours = array[..., :3] if array.ndim == 3 and array.shape[2] >= 3 else None
    if array.ndim == 3:
        array = array[..., 0] if array.shape[2] == 1 else _luminance(array[..., :3])
    shaded = _is_shaded(array)
    if shaded and colours is not None and _is_colourful(colours):
        raise MediaError(Status.UNREADABLE, f"{name}: a photograph, not a mask: it has many colours and shades")
    return _half(array), shaded


def _is_shaded(values: np.ndarray) -> bool:
    """True where most of the values are neither dark nor light; labels never are."""
    top = int(values.max(initial=0))
    if values.dtype == np.bool_ or top <= _LABELS:
        return False
    scale = 1 if top <= 255 else 257
    return bool(((values >= _DARK * scale) & (values < _LIGHT * scale)).mean() > _MOST)


def _is_colourful(pixels: np.ndarray) -> bool:
    """True where more colours are common than masks have."""
    wide = pixels.astype(np.int64)
    coloured = wide.max(axis=-1) - wide.min(axis=-1) > _DARK
    if coloured.mean() <= _COLOURED:
        return False
    levels = wide[coloured] >> 4
    counts = np.bincount(levels @ np.array([256, 16, 1]))
    return int((counts > coloured.size * _COMMON).sum()) > _COLOURS


def _half(values: np.ndarray) -> np.ndarray:
    if values.dtype == np.bool_:
        return values.copy()
    if values.max(initial=0) <= _LABELS:
        return np.asarray(values > 0)
    # 16-bit files are read as 32-bit numbers by Pillow, so the values tell the range.
    return np.asarray(values >= (128 if values.max(initial=0) <= 255 else 32768))


def _luminance(pixels: np.ndarray) -> np.ndarray:
    """Rounded Rec. 601 luma; equal channels keep their value."""
    weighted = pixels.astype(np.float64) @ np.array([0.299, 0.587, 0.114])
    return np.asarray(np.rint(weighted), dtype=np.int64)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("ascii", "replace")
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
