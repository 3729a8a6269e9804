"""Small inputs, drawn here so that every pixel is known."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
from PIL import Image

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def encode(image: Image.Image, fmt: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, fmt, **options)
    return buffer.getvalue()


def noise(height: int = 24, width: int = 32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def png(width: int, height: int, depth: int, colour: int, rows: bytes, *chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG made by hand: header, extra chunks, image data (each row begins with its filter byte 0)."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">L", len(body)) + kind + body + struct.pack(">L", zlib.crc32(kind + body))

    head = chunk(b"IHDR", struct.pack(">LLBBBBB", width, height, depth, colour, 0, 0, 0))
    extra = b"".join(chunk(kind, body) for kind, body in chunks)
    return b"\x89PNG\r\n\x1a\n" + head + extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def exif_block(orientation: int, *, endian: str = "<", kind: int = 3) -> bytes:
    head = b"II*\x00" if endian == "<" else b"MM\x00*"
    value = struct.pack(endian + ("HH" if kind == 3 else "L"), *((orientation, 0) if kind == 3 else (orientation,)))
    entry = struct.pack(endian + "HHL", 0x0112, kind, 1) + value
    return b"Exif\x00\x00" + head + struct.pack(endian + "LH", 8, 1) + entry + struct.pack(endian + "L", 0)


def cmyk_profile() -> bytes:
    """A CMYK profile in which full K is black, and all else fades to the Lab colour (60, 60, 40), a red."""
    lab = bytes([round(60 * 2.55), 60 + 128, 40 + 128])
    identity = struct.pack(">9l", 65536, 0, 0, 0, 65536, 0, 0, 0, 65536)
    ramp = bytes(range(256))
    lut = b"mft1" + bytes(4) + bytes([4, 3, 2, 0]) + identity + ramp * 4 + (lab + bytes([0, 128, 128])) * 8 + ramp * 3
    text = b"XYZ " + bytes(4) + struct.pack(">3l", 63190, 65536, 54061)
    desc = b"desc" + bytes(4) + struct.pack(">L", 5) + b"test\0" + bytes(79)
    tags, table, at = [(b"desc", desc), (b"wtpt", text), (b"A2B0", lut)], b"", 128 + 4 + 3 * 12
    body = b""
    for name, data in tags:
        data += bytes(-len(data) % 4)
        table += name + struct.pack(">LL", at + len(body), len(data))
        body += data
    head = struct.pack(">L4sL4s4s4s", at + len(body), b"lcms", 0x02400000, b"prtr", b"CMYK", b"Lab ")
    head += struct.pack(">6H", 2024, 1, 1, 0, 0, 0) + b"acsp" + bytes(28)
    head += struct.pack(">3l", 63190, 65536, 54061)
    return head + bytes(128 - len(head)) + struct.pack(">L", len(tags)) + table + body
