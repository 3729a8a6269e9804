"""The one EXIF field that changes pixels: the orientation.

Read by hand, because a full EXIF reader warns and fails over fields that nobody here needs.
"""

from __future__ import annotations

import re
import struct

from PIL import Image

_ORIENTATION = 0x0112
_SHORT, _LONG = 3, 4
_PREFIX = b"Exif\x00\x00"
_XMP_ORIENTATION = re.compile(r'tiff:Orientation(?:="|>)([1-8])')

_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class BrokenExif(ValueError):
    """An EXIF block that does not parse as far as its orientation."""


def parse_orientation(block: bytes) -> int | None:
    """The orientation (1 to 8) in an EXIF block, or None when the block has none.

    Raises:
        BrokenExif: the block is no TIFF structure, ends too early, or holds an orientation outside 1 to 8.
    """
    while block.startswith(_PREFIX):
        block = block[len(_PREFIX) :]
    if not block:
        return None
    endian = {b"II*\x00": "<", b"MM\x00*": ">"}.get(block[:4])
    if endian is None:
        raise BrokenExif("no TIFF header")
    try:
        (start,) = struct.unpack_from(endian + "L", block, 4)
        (count,) = struct.unpack_from(endian + "H", block, start)
        for at in range(start + 2, start + 2 + 12 * count, 12):
            tag, kind = struct.unpack_from(endian + "HH", block, at)
            if tag == _ORIENTATION and kind in (_SHORT, _LONG):
                (value,) = struct.unpack_from(endian + ("H" if kind == _SHORT else "L"), block, at + 8)
                return _checked(value)
    except struct.error as error:
        raise BrokenExif("the block ends too early") from error
    return None


def stated_orientation(image: Image.Image) -> int:
    """The orientation that a file's EXIF (else its XMP) states; 1 when there is none.

    Pillow has already turned the pixels of a TIFF while loading, so a TIFF must not come here.

    Raises:
        BrokenExif: there is an EXIF block that does not parse.
    """
    found = parse_orientation(_exif_block(image))
    return found if found is not None else _xmp_orientation(image)


def turn(image: Image.Image, orientation: int) -> Image.Image:
    """The picture as it is meant to be seen."""
    method = _TURNS.get(orientation)
    return image if method is None else image.transpose(method)


def _checked(value: int) -> int:
    if not 1 <= value <= 8:
        raise BrokenExif(f"orientation {value}")
    return value


def _exif_block(image: Image.Image) -> bytes:
    block = image.info.get("exif")
    if isinstance(block, bytes):
        return block
    # Older PNG writers keep the block as hexadecimal text, after three lines of preamble.
    text = image.info.get("Raw profile type exif")
    if not isinstance(text, str):
        return b""
    try:
        return bytes.fromhex("".join(text.split("\n")[3:]))
    except ValueError as error:
        raise BrokenExif("the text block is not hexadecimal") from error


def _xmp_orientation(image: Image.Image) -> int:
    packet = image.info.get("xmp") or image.info.get("XML:com.adobe.xmp")
    if isinstance(packet, bytes):
        packet = packet.decode("latin-1")
    match = _XMP_ORIENTATION.search(packet) if isinstance(packet, str) else None
    return int(match[1]) if match else 1
