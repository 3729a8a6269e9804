"""EXIF orientation is applied once, whatever the container, and a broken block costs a note only."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from tests.media.media_inputs import encode, exif_block, noise

from beholder.media.exif import BrokenExif, parse_orientation
from beholder.media.image import decode_image

# Corners of the stored picture (A top left, B top right, C bottom left, D bottom right), drawn by hand from the
# EXIF table "where does row 0 / column 0 lie": value 6 means that row 0 is the right side, so A goes top right.
A, B, C, D = 10, 80, 160, 240
SEEN = {
    1: ((A, B), (C, D)),
    2: ((B, A), (D, C)),
    3: ((D, C), (B, A)),
    4: ((C, D), (A, B)),
    5: ((A, C), (B, D)),
    6: ((C, A), (D, B)),
    7: ((D, B), (C, A)),
    8: ((B, D), (A, C)),
}


def stored() -> Image.Image:
    corners = np.array([[A, B], [C, D]], dtype=np.uint8)
    return Image.fromarray(np.kron(corners, np.ones((8, 16), dtype=np.uint8))).convert("RGB")


def corners(pixels: np.ndarray) -> tuple[tuple[int, ...], ...]:
    gray = pixels[:, :, 0].astype(int)
    return tuple(tuple(int(v) for v in row) for row in ((gray[0, 0], gray[0, -1]), (gray[-1, 0], gray[-1, -1])))


@pytest.mark.parametrize("fmt", ["PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("value", range(1, 9))
def test_all_eight_orientations(value, fmt):
    options = {"lossless": True} if fmt == "WEBP" else {}
    exif = Image.Exif()
    exif[0x0112] = value
    picture = decode_image(encode(stored(), fmt, exif=exif, **options))
    assert corners(picture.pixels) == SEEN[value]
    assert picture.size == ((32, 16) if value < 5 else (16, 32))
    assert picture.pixels.shape == (picture.size[1], picture.size[0], 3)
    assert picture.pixels.flags.c_contiguous
    assert picture.notes == (() if value == 1 else (f"exif_orientation={value}",))


@pytest.mark.parametrize("endian", ["<", ">"])
@pytest.mark.parametrize("kind", [3, 4])
def test_jpeg_orientation_in_both_byte_orders(endian, kind):
    picture = decode_image(encode(stored(), "JPEG", quality=100, exif=exif_block(6, endian=endian, kind=kind)))
    assert np.abs(np.array(corners(picture.pixels)) - SEEN[6]).max() <= 3
    assert picture.notes == ("exif_orientation=6",)


def test_pil_object_is_turned_once_and_left_alone():
    image = Image.open(io.BytesIO(encode(stored(), exif=exif_block(8))))
    for _ in range(2):
        assert corners(decode_image(image).pixels) == SEEN[8]
    assert image.size == (32, 16)


def test_pil_object_with_orientation_set_by_hand():
    image = stored()
    image.getexif()[0x0112] = 3
    assert corners(decode_image(image).pixels) == SEEN[3]


def test_pil_tiff_is_not_turned_twice():
    exif = Image.Exif()
    exif[0x0112] = 6
    image = Image.open(io.BytesIO(encode(stored(), "TIFF", exif=exif)))
    assert corners(decode_image(image).pixels) == SEEN[6]


@pytest.mark.parametrize("mode", ["L", "P", "1", "LA", "RGBA", "I;16", "I;16B", "F", "CMYK"])
def test_every_mode_turns(mode):
    image = Image.new(mode, (3, 2))
    image.getexif()[0x0112] = 6
    assert decode_image(image, value_range=(0, 1)).pixels.shape == (3, 2, 3)


def test_xmp_orientation_counts_where_exif_states_none():
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf tiff:Orientation="3"/></x:xmpmeta>'
    assert corners(decode_image(encode(stored(), "WEBP", lossless=True, xmp=xmp)).pixels) == SEEN[3]


BROKEN = {
    "not a TIFF": b"Exif\x00\x00garbage, not a TIFF",
    "cut in the entry": exif_block(6)[:-8],
    "directory far outside": b"Exif\x00\x00II*\x00\xff\xff\xff\x7f",
    "orientation 9": exif_block(9),
}


@pytest.mark.parametrize("block", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("fmt", ["PNG", "JPEG", "WEBP"])
def test_broken_exif_is_noted_and_the_picture_read(fmt, block):
    data = encode(stored(), fmt, exif=block)
    picture = decode_image(data)
    assert picture.notes == ("exif_broken",)
    assert picture.size == (32, 16)
    image = Image.open(io.BytesIO(data)) if fmt == "PNG" else None
    if image is not None:
        assert decode_image(image).notes == ("exif_broken",)


def test_broken_hexadecimal_block_of_old_png_writers():
    from PIL import PngImagePlugin

    for text, notes in ((f"\nexif\n36\n{exif_block(6).hex()}\n", ("exif_orientation=6",)), ("\nexif\n36\nxyz", None)):
        info = PngImagePlugin.PngInfo()
        info.add_text("Raw profile type exif", text)
        assert decode_image(encode(stored(), pnginfo=info)).notes == (notes or ("exif_broken",))


def test_parser():
    assert parse_orientation(b"") is None
    assert parse_orientation(b"Exif\x00\x00" + exif_block(7)) == 7
    assert parse_orientation(b"II*\x00\x08\x00\x00\x00\x00\x00") is None
    with pytest.raises(BrokenExif):
        parse_orientation(b"II*\x00\x08\x00\x00\x00\x05\x00")


def test_mpo_gives_its_photograph():
    first, second = Image.fromarray(noise(seed=1)), Image.fromarray(noise(seed=2))
    data = encode(first, "MPO", save_all=True, append_images=[second], quality=95)
    picture = decode_image(data)
    np.testing.assert_array_equal(picture.pixels, np.asarray(Image.open(io.BytesIO(data))))
    assert picture.notes == ()
