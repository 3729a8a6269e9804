"""From any colour mode to (H, W, 3) uint8 sRGB: alpha, 16 bits, stated ranges, profiles.

The notes that a picture can carry, in fixed words:

    exif_orientation=N     the pixels were turned or mirrored as EXIF value N (2 to 8) asks
    exif_broken            there is an EXIF block that does not parse; nothing was turned
    alpha_over=R,G,B       some pixel was transparent; the picture was composed over this background
    16bit_to_8bit          16-bit samples were scaled to 8 bits
    value_range=LOW,HIGH   a stated range was mapped to 0 … 255
    cmyk_profile           CMYK went through its embedded profile
    cmyk_plain             CMYK without a usable profile: Pillow's arithmetic conversion
    icc_profile_ignored    an embedded RGB or gray profile other than sRGB was not applied
    first_frame            only the first frame of several was taken
"""

from __future__ import annotations

import io
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from beholder._errors import MediaError
from beholder.records import Status

ValueRange: TypeAlias = "tuple[float, float]"
Pixels: TypeAlias = "npt.NDArray[np.uint8]"

_EXPANDABLE = frozenset({"1", "L", "P", "RGB", "RGBX", "HSV", "YCbCr", "LAB"})
_WITH_ALPHA = frozenset({"LA", "La", "PA", "RGBA", "RGBa"})


def read_only(pixels: Pixels) -> Pixels:
    """A view that nobody can write to: pictures are shared between threads and with the caller's array."""
    view = pixels.view()
    view.flags.writeable = False
    return view


def scale_range(values: npt.NDArray[Any], stated: ValueRange, *, name: str) -> Pixels:
    """Values in a stated range to bytes: round(255·(v − low)/(high − low)).

    Values within half a grey level outside the range round to its end; anything further out is an error, since it
    means that the range is not the one that was stated.

    Raises:
        MediaError: `unreadable`, for values that are not finite or lie outside the range.
    """
    low, high = stated
    if values.size == 0:
        return np.zeros(values.shape, np.uint8)
    wide: npt.NDArray[Any] = values.astype(np.float32 if values.dtype.itemsize <= 2 else np.float64)
    least, most = float(wide.min()), float(wide.max())
    if not (np.isfinite(least) and np.isfinite(most)):
        raise MediaError(Status.UNREADABLE, f"{name}: holds values that are not finite (NaN or infinity)")
    slack = (high - low) / 510
    if least < low - slack or most > high + slack:
        raise MediaError(
            Status.UNREADABLE,
            f"{name}: holds values from {least:g} to {most:g}, outside the stated value range {low:g} to {high:g}",
        )
    wide -= low
    wide *= 255 / (high - low)
    np.rint(wide, out=wide)
    scaled: Pixels = np.clip(wide, 0, 255, out=wide).astype(np.uint8)
    return scaled


def scale_unsigned(values: npt.NDArray[Any], most: int) -> Pixels:
    """Unsigned integers in 0 … most to bytes: round(255·v/most), half rounded up."""
    ramp = np.arange(most + 1, dtype=np.uint32)
    table: Pixels = ((ramp * 255 + most // 2) // most).astype(np.uint8)
    scaled: Pixels = table[np.minimum(values, most)]
    return scaled


def gray_to_rgb(gray: Pixels) -> Pixels:
    """(H, W) to (H, W, 3) with three equal channels."""
    return np.repeat(gray[:, :, None], 3, axis=2)


def note_range(stated: ValueRange) -> str:
    return f"value_range={stated[0]:g},{stated[1]:g}"


def to_rgb(
    image: Image.Image,
    *,
    raw_mode: str,
    background: tuple[int, int, int],
    value_range: ValueRange | None,
    name: str,
) -> tuple[Pixels, list[str]]:
    """A loaded, upright picture as (H, W, 3) uint8 and the notes on what was done.

    Args:
        image: loaded picture of any mode.
        raw_mode: how the file stores a pixel, in Pillow's words; "" when not known.
        background: RGB under transparent pixels.
        value_range: what maps to black and white, for samples that carry no range of their own.
        name: what messages call the picture.

    Raises:
        MediaError: `unreadable`, for floats and 32-bit integers without a stated range, or an unknown mode.
    """
    mode = image.mode
    if mode.startswith("I;16") or (mode == "I" and image.format in ("PNG", "PPM")):
        # Some Pillow versions hand over 16-bit PNG and PGM samples in the 32-bit mode; their range is still 16 bits.
        return _gray16(image, background)
    if mode in ("I", "F"):
        return _stated(image, value_range, name)
    if mode == "CMYK":
        return _cmyk(image)
    notes = ["16bit_to_8bit"] if ";16" in raw_mode else []
    if image.info.get("icc_profile") and not _is_srgb(image.info["icc_profile"]):
        # Generators write plain sRGB, and the pipelines that the metrics were published with (open, convert("RGB"))
        # never look at an RGB profile. Applying it would make numbers that differ from theirs; so it is only noted.
        notes.append("icc_profile_ignored")
    if mode in _WITH_ALPHA or (mode in _EXPANDABLE and _has_transparency(image)):
        image, composed = over_background(_with_true_key(image, raw_mode), background, name)
        notes += composed
    elif mode not in _EXPANDABLE:
        raise MediaError(Status.UNREADABLE, f"{name}: its colour mode {mode!r} has no known way to RGB")
    elif mode != "RGB":
        image = image.convert("RGB")
    return read_only(np.asarray(image)), notes


def _gray16(image: Image.Image, background: tuple[int, int, int]) -> tuple[Pixels, list[str]]:
    values = np.asarray(image)
    depth, inverted = 16, False
    tags = getattr(image, "tag_v2", None)
    if tags is not None:
        stated = tags.get(258)
        depth = int(stated[0] if isinstance(stated, tuple) else stated or 16)
        # Photometric 0 means "0 is white"; Pillow inverts 8-bit samples of that kind but hands over 16-bit ones as is.
        inverted = tags.get(262) == 0
    gray = scale_unsigned(values, (1 << depth) - 1)
    if inverted:
        gray = 255 - gray
    pixels, notes = gray_to_rgb(gray), ["16bit_to_8bit"]
    key = image.info.get("transparency")
    if isinstance(key, int) and (clear := values == key).any():
        pixels[clear] = background
        notes.append(_note_alpha(background))
    return read_only(pixels), notes


def _stated(image: Image.Image, value_range: ValueRange | None, name: str) -> tuple[Pixels, list[str]]:
    if value_range is None:
        kind = "floating-point" if image.mode == "F" else "32-bit integer"
        raise MediaError(
            Status.UNREADABLE,
            f"{name}: holds {kind} samples, which have no range of their own; state one (value_range=(low, high))",
        )
    return read_only(gray_to_rgb(scale_range(np.asarray(image), value_range, name=name))), [note_range(value_range)]


def _cmyk(image: Image.Image) -> tuple[Pixels, list[str]]:
    profile = image.info.get("icc_profile")
    if profile:
        try:
            from PIL import ImageCms

            source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            converted = ImageCms.profileToProfile(image, source, ImageCms.createProfile("sRGB"), outputMode="RGB")
        except (ImportError, OSError, ImageCms.PyCMSError):
            converted = None
        if converted is not None:
            return read_only(np.asarray(converted)), ["cmyk_profile"]
    return read_only(np.asarray(image.convert("RGB"))), ["cmyk_plain"]


def _is_srgb(profile: bytes) -> bool:
    # The description is ASCII in version 2 profiles and UTF-16 in version 4.
    return b"sRGB" in profile or b"s\x00R\x00G\x00B" in profile


def _has_transparency(image: Image.Image) -> bool:
    return image.has_transparency_data and image.info.get("transparency", b"") is not None


def _with_true_key(image: Image.Image, raw_mode: str) -> Image.Image:
    """The picture with its transparent colour in the units of its loaded pixels.

    A PNG states the transparent colour in the file's bit depth, and Pillow passes it on unscaled while it scales the
    pixels. Of 16-bit RGB only the upper bytes are left, so there the comparison is on those.
    """
    key = image.info.get("transparency")
    scale = {"L;2": 85, "L;4": 17}.get(raw_mode)
    if scale is not None and isinstance(key, int):
        true_key: int | tuple[int, ...] = key * scale
    elif raw_mode == "1" and isinstance(key, int):
        true_key = 255 if key else 0
    elif raw_mode.startswith("RGB;16") and isinstance(key, tuple):
        true_key = tuple(part >> 8 for part in key)
    elif image.mode == "P":
        # Pillow writes the alpha values into the palette of the picture that it converts: leave the caller's alone.
        return image.copy()
    else:
        return image
    changed = image.copy()
    changed.info["transparency"] = true_key
    return changed


def over_background(image: Image.Image, background: tuple[int, int, int], name: str) -> tuple[Image.Image, list[str]]:
    """Composed over the background: round((c·a + b·(255 − a))/255) for each channel."""
    try:
        rgba = image if image.mode == "RGBA" else image.convert("RGBA")
    except (ValueError, TypeError) as error:
        raise MediaError(Status.UNREADABLE, f"{name}: its transparency cannot be read ({error})") from error
    alpha = rgba.getchannel("A")
    if alpha.getextrema()[0] == 255:
        return rgba.convert("RGB"), []
    canvas = Image.new("RGB", image.size, background)
    canvas.paste(rgba.convert("RGB"), mask=alpha)
    return canvas, [_note_alpha(background)]


def _note_alpha(background: tuple[int, int, int]) -> str:
    return "alpha_over=" + ",".join(str(part) for part in background)
