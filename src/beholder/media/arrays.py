"""Media that are pixels in memory: numpy arrays, torch tensors, PIL images."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from beholder._errors import MediaError, OptionError
from beholder.media.base import DecodeOptions, Medium, Picture
from beholder.media.canonical import (
    Pixels,
    ValueRange,
    gray_to_rgb,
    note_range,
    over_background,
    read_only,
    scale_range,
    scale_unsigned,
)
from beholder.media.image import check_size, decode_image, loaded, lock_of, object_orientation
from beholder.records import Status

_CHANNELS = (1, 3, 4)
_OWN_RANGE = ("|u1", "|b1", "<u2", ">u2")


@dataclass(frozen=True, slots=True, eq=False)
class ArrayMedium:
    """An array of pixels. It is not copied (see `kept_apart`): change it after the run, not during.

    Args:
        array: (H, W), (H, W, C) or (C, H, W) with C of 1, 3 or 4.
        name: what messages call it.
        channels_first: True for (C, H, W).
        value_range: (low, high) that map to 0 and 255; None for types with a range of their own.
    """

    array: npt.NDArray[Any] = field(repr=False)
    name: str
    channels_first: bool = False
    value_range: ValueRange | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that the pixels take in memory."""
        return self.array.nbytes

    def fingerprint(self) -> str:
        """Hex sha256 over type, shape, layout, range and bytes, behind a prefix that no image file begins with."""
        array = self.array
        head = f"beholder array {array.dtype.str} {array.shape} {self.channels_first} {self.value_range}\0"
        digest = hashlib.sha256(head.encode())
        digest.update(np.ascontiguousarray(array).data if array.size else b"")
        return digest.hexdigest()

    def decode(self, options: DecodeOptions) -> Picture:
        """The canonical picture; raises `MediaError` for values outside the range, NaN, no pixels or too many."""
        array = self.array.transpose(1, 2, 0) if self.channels_first else self.array
        height, width = array.shape[:2]
        check_size(width, height, options, self.name)
        try:
            values, notes = self._bytes(array)
            pixels = self._rgb(values, options, notes)
        except MemoryError as error:
            raise MediaError(Status.UNREADABLE, f"{self.name}: not enough memory to convert it") from error
        return Picture(read_only(pixels), (width, height), f"array {array.dtype.name}", tuple(notes))

    def _bytes(self, array: npt.NDArray[Any]) -> tuple[Pixels, list[str]]:
        if self.value_range is not None:
            return scale_range(array, self.value_range, name=self.name), [note_range(self.value_range)]
        if array.dtype == np.uint8:
            return array, []
        if array.dtype == np.bool_:
            return array.astype(np.uint8) * np.uint8(255), []
        return scale_unsigned(array, 65535), ["16bit_to_8bit"]

    def _rgb(self, values: Pixels, options: DecodeOptions, notes: list[str]) -> Pixels:
        if values.ndim == 2:
            return gray_to_rgb(values)
        if values.shape[2] == 1:
            return gray_to_rgb(values[:, :, 0])
        if values.shape[2] == 3:
            return np.ascontiguousarray(values)
        image = Image.fromarray(np.ascontiguousarray(values))
        composed, alpha_notes = over_background(image, options.background, self.name)
        notes += alpha_notes
        return np.asarray(composed)


@dataclass(frozen=True, slots=True, eq=False)
class PilMedium:
    """A PIL image.

    Args:
        image: the image; loaded when it is first needed.
        name: what messages call it.
        value_range: range of the modes F and I, which have none of their own.
    """

    image: Image.Image = field(repr=False)
    name: str
    value_range: ValueRange | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that the pixels take in memory, about."""
        return self.image.width * self.image.height * len(self.image.getbands())

    def fingerprint(self) -> str:
        """Hex sha256 over mode, size, range, palette, transparency, profile, orientation and pixels."""
        image = self.image
        with lock_of(image):
            loaded(image, self.name)
            notes: list[str] = []
            # The palette that was given, not the one in memory: converting writes transparency into the latter.
            palette = (image.palette.mode, bytes(image.palette.palette)) if image.palette is not None else None
            head = (
                "beholder PIL image",
                image.mode,
                image.size,
                image.format if image.mode == "I" else None,
                object_orientation(image, notes),
                notes,
                self.value_range,
                palette,
                image.info.get("transparency"),
            )
            digest = hashlib.sha256(repr(head).encode() + b"\0")
            digest.update(image.info.get("icc_profile") or b"")
            digest.update(b"\0")
            digest.update(image.tobytes() if min(image.size) else b"")
        return digest.hexdigest()

    def decode(self, options: DecodeOptions) -> Picture:
        """The canonical picture; raises `MediaError` as `beholder.media.image.decode_image` says."""
        return decode_image(self.image, options, name=self.name, value_range=self.value_range)


def kept_apart(medium: Medium | None) -> Medium | None:
    """The medium with pixels of its own where it holds somebody's array or image, for a loop that may reuse them.

    An image that Pillow opened from a file keeps its object: its format tells how its samples are read.
    """
    if isinstance(medium, ArrayMedium):
        return ArrayMedium(medium.array.copy(), medium.name, medium.channels_first, medium.value_range)
    if isinstance(medium, PilMedium) and medium.image.format is None:
        return PilMedium(medium.image.copy(), medium.name, medium.value_range)
    return medium


def array_medium(value: npt.NDArray[Any], value_range: ValueRange | None, *, strict: bool = False) -> ArrayMedium:
    """The medium of an array.

    The channel axis is the one whose length is 1, 3 or 4: the last (H, W, C) or the first (C, H, W). Where both
    ends could be it, a numpy array is (H, W, C), as numpy arrays of pixels are; a tensor (`strict`) is refused.

    Raises:
        OptionError: no such axis, or a type without a range of its own and no `value_range`.
    """
    if value.dtype.kind not in "buif":
        raise OptionError(
            "an array of pixels must hold integers, booleans or real floats",
            got=f"dtype {value.dtype}",
            fix="Convert it, for example with .astype('float32')",
        )
    if value_range is None and value.dtype.str not in _OWN_RANGE:
        raise OptionError(
            f"an array of {value.dtype.name} needs a stated value range: which value is black, which is white",
            got="none",
            fix="Pass value_range=(0, 1), (-1, 1) or (0, 255), whichever is true, or hand over uint8",
        )
    first = _channels_first(value, strict)
    height, width = value.shape[1:] if first else value.shape[:2]
    return ArrayMedium(value, f"array({width}×{height})", first, value_range)


def _channels_first(value: npt.NDArray[Any], strict: bool) -> bool:
    if value.ndim == 2:
        return False
    must = "an array of one picture must be (H, W), (H, W, C) or (C, H, W) with C of 1, 3 or 4"
    if value.ndim != 3:
        raise OptionError(must, got=f"shape {value.shape}", fix="Pass the pictures of a batch one by one")
    first, last = value.shape[0] in _CHANNELS, value.shape[2] in _CHANNELS
    if first and last and strict:
        raise OptionError(
            "the channel axis of a tensor must be recognizable",
            got=f"shape {value.shape}, where the first and the last axis could both be it",
            fix="Pass a numpy array of shape (H, W, C): tensor.permute(1, 2, 0).numpy()",
        )
    if not first and not last:
        raise OptionError(must, got=f"shape {value.shape}")
    return not last


def tensor_array(value: object) -> npt.NDArray[Any] | None:
    """The array of a torch tensor, without a copy where torch allows it; None for anything else.

    A tensor can only exist where torch is loaded already, so torch is never imported for this.

    Raises:
        OptionError: a tensor that has no array (sparse, quantized, complex …).
    """
    torch = sys.modules.get("torch")
    tensor_type = getattr(torch, "Tensor", None)
    if torch is None or tensor_type is None or not isinstance(value, tensor_type):
        return None
    tensor: Any = value
    try:
        tensor = tensor.detach().cpu()
        if tensor.dtype == torch.bfloat16:
            tensor = tensor.float()  # numpy has no such type
        array: npt.NDArray[Any] = tensor.numpy()
    except (RuntimeError, TypeError) as error:
        raise OptionError("a tensor of pixels must be dense and real", got=f"{tensor.dtype} ({error})") from error
    return array
