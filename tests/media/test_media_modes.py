"""Every colour mode comes out as (H, W, 3) uint8 with values that were worked out by hand."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from PIL import Image, ImageCms
from tests.media.media_inputs import BLUE, GREEN, RED, WHITE, cmyk_profile, encode, noise, png

from beholder._errors import MediaError
from beholder.media.base import DecodeOptions
from beholder.media.image import decode_image
from beholder.media.kinds import image_extensions


def pixel(data, at=(0, 0), **options):
    return tuple(int(v) for v in decode_image(data, **options).pixels[at])


@pytest.mark.parametrize("fmt", ["PNG", "BMP", "TIFF", "PPM"])
def test_lossless_rgb_comes_out_as_it_went_in(fmt):
    drawn = noise()
    picture = decode_image(encode(Image.fromarray(drawn), fmt))
    np.testing.assert_array_equal(picture.pixels, drawn)
    assert picture.size == (32, 24)
    assert picture.source_mode == "RGB"
    assert picture.notes == ()
    assert picture.pixels.flags.c_contiguous
    assert not picture.pixels.flags.writeable


OTHERS = [("WEBP", {"lossless": True}), ("JPEG2000", {}), ("GIF", {})]
if ".avif" in image_extensions():
    OTHERS.append(("AVIF", {"quality": 100, "subsampling": "4:4:4"}))


@pytest.mark.parametrize(("fmt", "options"), OTHERS)
def test_other_formats_are_read(fmt, options):
    flat = Image.new("RGB", (20, 12), RED)
    assert np.abs(np.subtract(pixel(encode(flat, fmt, **options), (5, 5)), RED)).max() <= (2 if fmt == "AVIF" else 0)


def test_jpeg_is_what_pillow_reads_at_full_size():
    import io

    data = encode(Image.fromarray(noise()), "JPEG", quality=90)
    np.testing.assert_array_equal(decode_image(data).pixels, np.asarray(Image.open(io.BytesIO(data))))


# round((c·a + b·(255 − a))/255): 200·100/255 + 255·155/255 = 78.43 + 155 = 233.43; 40 → 170.69; 0 → 155
@pytest.mark.parametrize(
    ("background", "expected"),
    [((255, 255, 255), (233, 171, 155)), ((0, 0, 0), (78, 16, 0)), ((10, 20, 30), (85, 28, 18))],
)
def test_alpha_is_composed_over_the_stated_background(background, expected):
    data = encode(Image.new("RGBA", (2, 2), (200, 40, 0, 100)))
    picture = decode_image(data, DecodeOptions(background=background))
    assert tuple(picture.pixels[0, 0]) == expected
    assert picture.notes == ("alpha_over=" + ",".join(map(str, background)),)


def test_alpha_arithmetic_holds_for_every_value_and_alpha():
    colour, alpha = np.meshgrid(np.arange(256), np.arange(256))
    rgba = np.stack([colour, colour, colour, alpha], axis=2).astype(np.uint8)
    got = decode_image(Image.fromarray(rgba), DecodeOptions(background=(70, 0, 255))).pixels
    for channel, back in enumerate((70, 0, 255)):
        expected = np.floor((colour * alpha + back * (255 - alpha)) / 255 + 0.5)
        np.testing.assert_array_equal(got[:, :, channel], expected)


def test_opaque_alpha_changes_nothing_and_is_not_noted():
    drawn = noise()
    picture = decode_image(encode(Image.fromarray(drawn).convert("RGBA")))
    np.testing.assert_array_equal(picture.pixels, drawn)
    assert picture.notes == ()
    assert picture.source_mode == "RGBA"


def test_gray_with_alpha():
    picture = decode_image(encode(Image.new("LA", (1, 1), (100, 51))))  # 100·51/255 + 255·204/255 = 224
    assert tuple(picture.pixels[0, 0]) == (224, 224, 224)
    assert picture.source_mode == "LA"
    assert picture.notes == ("alpha_over=255,255,255",)


@pytest.mark.parametrize("as_file", [True, False])
@pytest.mark.parametrize("transparency", [1, b"\xff\x00\xff"])
def test_palette_with_transparency(transparency, as_file):
    image = Image.new("P", (3, 1))
    image.putpalette([*RED, *GREEN, *BLUE])
    image.putdata([0, 1, 2])
    image.info["transparency"] = transparency
    source = encode(image, transparency=transparency) if as_file else image
    picture = decode_image(source, DecodeOptions(background=(9, 8, 7)))
    assert picture.pixels.tolist() == [[list(RED), [9, 8, 7], list(BLUE)]]
    assert picture.notes == ("alpha_over=9,8,7",)
    assert image.info["transparency"] == transparency


def test_palette_without_transparency():
    image = Image.new("P", (2, 1))
    image.putpalette([*GREEN, *BLUE])
    image.putdata([1, 0])
    assert decode_image(encode(image)).pixels.tolist() == [[list(BLUE), list(GREEN)]]


def test_partial_palette_alpha():
    image = Image.new("P", (2, 1))
    image.putpalette([0, 0, 0, 255, 255, 255])
    image.putdata([0, 1])
    data = encode(image, transparency=bytes([128, 255]))
    assert pixel(data) == (127, 127, 127)  # 255·127/255


@pytest.mark.parametrize(
    ("depth", "colour", "key", "rows", "expected"),
    [
        (8, 0, struct.pack(">H", 7), bytes([0, 7, 8]), [[WHITE, (8, 8, 8)]]),
        (4, 0, struct.pack(">H", 3), bytes([0, 0x35]), [[WHITE, (85, 85, 85)]]),  # 5·17
        (2, 0, struct.pack(">H", 1), bytes([0, 0b01_10_0000]), [[WHITE, (170, 170, 170)]]),  # 2·85
        (1, 0, struct.pack(">H", 1), bytes([0, 0b10_000000]), [[WHITE, (0, 0, 0)]]),
        (16, 0, struct.pack(">H", 257), struct.pack(">BHH", 0, 257, 514), [[WHITE, (2, 2, 2)]]),
        (8, 2, struct.pack(">3H", 1, 2, 3), bytes([0, 1, 2, 3, 1, 2, 4]), [[WHITE, (1, 2, 4)]]),
        (16, 2, struct.pack(">3H", 256, 512, 768), struct.pack(">B6H", 0, 256, 512, 768, 256, 512, 1024), None),
    ],
)
def test_png_transparent_colour_at_every_depth(depth, colour, key, rows, expected):
    picture = decode_image(png(2, 1, depth, colour, rows, (b"tRNS", key)))
    expected = expected or [[WHITE, (1, 2, 4)]]
    assert picture.pixels.tolist() == [[list(p) for p in row] for row in expected]
    assert "alpha_over=255,255,255" in picture.notes


def test_16_bit_gray_ramp_has_its_true_mean():
    ramp = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    picture = decode_image(encode(Image.fromarray(ramp)))
    assert picture.pixels.mean() == 127.5
    assert picture.notes == ("16bit_to_8bit",)
    np.testing.assert_array_equal(picture.pixels[:, :, 0], np.floor(ramp / 257 + 0.5))


@pytest.mark.parametrize("byte_order", ["<", ">"])
def test_16_bit_gray_tiff_of_both_byte_orders(byte_order):
    values = np.array([[0, 257, 32896, 65535]], dtype=byte_order + "u2")
    head = b"II*\x00" if byte_order == "<" else b"MM\x00*"
    tags = [(256, 4), (257, 1), (258, 16), (259, 1), (262, 1), (273, 8 + 2 + 12 * 8 + 4), (277, 1), (279, 8)]
    ifd = struct.pack(byte_order + "H", len(tags))
    for tag, value in tags:
        ifd += struct.pack(byte_order + "HHL", tag, 4, 1) + struct.pack(byte_order + "L", value)
    data = head + struct.pack(byte_order + "L", 8) + ifd + bytes(4) + values.tobytes()
    assert decode_image(data).pixels[0, :, 0].tolist() == [0, 1, 128, 255]
    inverted = data.replace(
        struct.pack(byte_order + "HHLL", 262, 4, 1, 1), struct.pack(byte_order + "HHLL", 262, 4, 1, 0)
    )
    if byte_order == "<":  # Pillow reads 16-bit "0 is white" in this order only
        assert decode_image(inverted).pixels[0, :, 0].tolist() == [255, 254, 127, 0]


def test_16_bit_pgm_and_pil_objects():
    pgm = b"P5 2 1 65535\n" + struct.pack(">HH", 257, 65535)
    assert decode_image(pgm).pixels[0, :, 0].tolist() == [1, 255]
    for mode in ("I;16", "I;16B"):
        image = Image.new(mode, (2, 1))
        image.putpixel((0, 0), 2570)
        assert decode_image(image).pixels[0, :, 0].tolist() == [10, 0]


def test_16_bit_rgb_keeps_its_brightness():
    rows = b"\0" + struct.pack(">6H", 0, 257, 32896, 65535, 514, 1028)
    picture = decode_image(png(2, 1, 16, 2, rows))
    assert picture.pixels.tolist() == [[[0, 1, 128], [255, 2, 4]]]
    assert picture.notes == ("16bit_to_8bit",)


def test_16_bit_gray_with_alpha():
    rows = b"\0" + struct.pack(">HH", 100 * 257, 51 * 257)
    assert pixel(png(1, 1, 16, 4, rows)) == (224, 224, 224)


def test_float_tiff_needs_a_stated_range():
    data = encode(Image.fromarray(np.array([[0.0, 0.5, 1.0]], dtype=np.float32)), "TIFF")
    with pytest.raises(MediaError, match="value_range") as caught:
        decode_image(data)
    assert caught.value.status == "unreadable"
    picture = decode_image(data, value_range=(0.0, 1.0))
    assert picture.pixels[0, :, 0].tolist() == [0, 128, 255]  # 127.5 goes to the even neighbour
    assert picture.notes == ("value_range=0,1",)
    with pytest.raises(MediaError, match="outside the stated value range"):
        decode_image(data, value_range=(0.0, 0.5))


def test_32_bit_integers_need_a_stated_range():
    image = Image.new("I", (1, 1), 300)
    with pytest.raises(MediaError, match="32-bit integer"):
        decode_image(image)
    assert pixel(image, value_range=(0, 600)) == (128, 128, 128)


@pytest.mark.parametrize("fmt", ["TIFF", "JPEG"])
def test_cmyk_goes_through_its_profile(fmt):
    image = Image.new("CMYK", (16, 16), (255, 0, 0, 0))
    plain = decode_image(encode(image, fmt))
    assert plain.notes == ("cmyk_plain",)
    assert np.abs(plain.pixels[8, 8].astype(int) - (0, 255, 255)).max() <= 3
    profiled = decode_image(encode(image, fmt, icc_profile=cmyk_profile()))
    assert profiled.notes == ("cmyk_profile",)
    assert np.abs(profiled.pixels[8, 8].astype(int) - lab_to_srgb(60, 60, 40)).max() <= 2


def lab_to_srgb(lightness, a, b):
    """CIELAB (D50) to sRGB from the definitions."""
    f = np.array([(lightness + 16) / 116 + a / 500, (lightness + 16) / 116, (lightness + 16) / 116 - b / 200])
    xyz = np.where(f > 6 / 29, f**3, 3 * (6 / 29) ** 2 * (f - 4 / 29)) * [0.9642, 1.0, 0.8249]
    matrix = np.array(  # XYZ under D50 to linear sRGB (Bradford-adapted)
        [[3.1338561, -1.6168667, -0.4906146], [-0.9787684, 1.9161415, 0.0334540], [0.0719453, -0.2289914, 1.4052427]]
    )
    linear = np.clip(matrix @ xyz, 0, 1)
    return 255 * np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def test_cmyk_with_a_broken_profile_falls_back():
    image = Image.new("CMYK", (4, 4), (0, 0, 0, 255))
    picture = decode_image(encode(image, "TIFF", icc_profile=b"no profile"))
    assert picture.notes == ("cmyk_plain",)
    assert tuple(picture.pixels[0, 0]) == (0, 0, 0)


def test_rgb_profiles_are_ignored_and_noted():
    image = Image.new("RGB", (2, 2), (10, 200, 30))
    other = ImageCms.ImageCmsProfile(ImageCms.createProfile("XYZ")).tobytes()
    picture = decode_image(encode(image, icc_profile=other))
    assert tuple(picture.pixels[0, 0]) == (10, 200, 30)
    assert picture.notes == ("icc_profile_ignored",)
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    assert decode_image(encode(image, icc_profile=srgb)).notes == ()


def test_one_bit_gray_hsv_ycbcr():
    bits = Image.new("1", (2, 1))
    bits.putdata([0, 255])
    assert decode_image(encode(bits)).pixels.tolist() == [[[0, 0, 0], [255, 255, 255]]]
    assert pixel(encode(Image.new("L", (1, 1), 77))) == (77, 77, 77)
    assert pixel(Image.new("HSV", (1, 1), (0, 255, 255))) == RED
    assert pixel(Image.new("YCbCr", (1, 1), (90, 128, 128))) == (90, 90, 90)


def test_lab():
    image = Image.frombytes("LAB", (1, 1), bytes([153, 60, 40]))
    got = np.array(pixel(encode(image, "TIFF")))
    assert np.abs(got - lab_to_srgb(60, 60, 40)).max() <= 2


def test_shapes_at_the_edge():
    assert decode_image(encode(Image.new("RGB", (1, 1)))).pixels.shape == (1, 1, 3)
    assert decode_image(encode(Image.new("RGB", (5000, 1)))).pixels.shape == (1, 5000, 3)
    with pytest.raises(MediaError, match="has no pixels"):
        decode_image(Image.new("RGB", (0, 4)))
