"""What does not decode completely is `MediaError` with a plain reason, and nothing else."""

from __future__ import annotations

import io
import struct
import threading
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile
from tests.media.media_inputs import RED, encode, noise, png

from beholder._errors import MediaError
from beholder.media.base import DecodeOptions
from beholder.media.image import decode_image
from beholder.media.kinds import image_extensions

PLAIN = DecodeOptions()


def refused(data, **options):
    with pytest.raises(MediaError) as caught:
        decode_image(data, name="a.png", **options)
    assert caught.value.reason.startswith("a.png: ")
    return caught.value


def outcome(data, options=PLAIN):
    """The picture, or the status that stands in its place; any other exception comes through."""
    try:
        return decode_image(data, options)
    except MediaError as error:
        return error.status


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:SECRET", "a Git LFS pointer"),
        (b"<!DOCTYPE html><title>SECRET", "an HTML page"),
        (b'<?xml version="1.0"?>SECRET', "XML or SVG"),
        (b'{"SECRET": 1}', "JSON"),
        (b"-----BEGIN SECRET KEY-----", "text"),
    ],
)
def test_text_is_named_by_its_kind_and_never_repeated(text, kind):
    assert f"not an image but {kind}" in refused(text).reason
    assert "SECRET" not in refused(text).reason


def test_empty_and_text_and_half_files(tmp_path):
    assert "0 bytes" in refused(b"").reason
    assert refused(b"hello").reason.endswith("not an image but text")
    assert "known format" in refused(b"\x00\x01\x02\x03" * 9).reason
    assert "HEIC" in refused(b"\0\0\0\x18ftypheic" + bytes(20)).reason
    half = encode(Image.fromarray(noise(64, 64)), "JPEG")
    assert "truncated" in refused(half[: len(half) // 2]).reason
    assert refused(tmp_path / "no.png").status == "missing"
    assert "folder" in refused(tmp_path).reason


def test_all_are_unreadable():
    for data in (b"", b"text", b"P5 x", b"GIF89a", b"\xff\xd8\xff", b"BM", b"II*\x00", b"RIFF\0\0\0\0WEBPVP8 "):
        assert refused(data).status == "unreadable"


def test_corrupt_png_data_is_found_by_its_checksum():
    data = bytearray(encode(Image.fromarray(noise())))
    at = data.index(b"IDAT") + 40
    data[at] ^= 1
    assert "checksum of its IDAT" in refused(bytes(data)).reason
    zeroed = encode(Image.fromarray(noise(64, 64)))
    assert refused(zeroed[:4000] + bytes(len(zeroed) - 4000)).status == "unreadable"


def test_size_limit_is_checked_before_decoding():
    # 30000×30000 in the header, eleven bytes of data: only the limit can say `too_large` here
    lying = png(30000, 30000, 8, 2, b"")
    error = refused(lying)
    assert error.status == "too_large"
    assert "900,000,000" in error.reason
    assert "180,000,000" in error.reason
    small = encode(Image.fromarray(noise()))
    assert refused(small, options=DecodeOptions(max_pixels=24 * 32 - 1)).status == "too_large"
    assert decode_image(small, DecodeOptions(max_pixels=24 * 32)).size == (32, 24)
    assert refused(Image.new("1", (100, 100)), options=DecodeOptions(max_pixels=9999)).status == "too_large"


def test_pillows_own_limit_neither_warns_nor_refuses(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert decode_image(encode(Image.fromarray(noise()))).size == (32, 24)
    assert seen == []


def test_a_bomb_that_pillow_itself_refuses_is_too_large(monkeypatch):
    def bomb(self):  # as some codecs do, each in some versions only
        raise Image.DecompressionBombError("exceeds limit of 100 pixels")

    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.load_prepare", bomb)
    error = refused(encode(Image.fromarray(noise())))
    assert error.status == "too_large"
    assert "exceeds limit of 100 pixels" in error.reason


def test_a_header_that_asks_for_too_much_memory(monkeypatch):
    def out(self):
        raise MemoryError

    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.load_prepare", out)
    error = refused(encode(Image.new("RGB", (2, 2))))
    assert error.status == "unreadable"
    assert "memory" in error.reason


def animation(fmt, **options):
    frames = [Image.new("RGB", (8, 6), (80 * k, 0, 0)) for k in range(3)]
    return encode(frames[0], fmt, save_all=True, append_images=frames[1:], **options)


@pytest.mark.parametrize(
    ("fmt", "options"),
    [("GIF", {"duration": [100, 200, 300]}), ("PNG", {"duration": 50}), ("WEBP", {"lossless": True}), ("TIFF", {})],
)
def test_animations_need_an_explicit_choice(fmt, options):
    data = animation(fmt, **options)
    error = refused(data)
    assert error.status == "unreadable"
    assert "holds 3" in error.reason
    assert "--first-frame" in error.reason
    picture = decode_image(data, DecodeOptions(first_frame=True))
    assert tuple(picture.pixels[0, 0]) == (0, 0, 0)
    assert picture.notes == ("first_frame",)


def test_animation_as_pil_object():
    image = Image.open(io.BytesIO(animation("GIF")))
    assert "--first-frame" in refused(image).reason
    assert tuple(decode_image(image, DecodeOptions(first_frame=True)).pixels[0, 0]) == (0, 0, 0)
    image.seek(2)
    assert "copy()" in refused(image, options=DecodeOptions(first_frame=True)).reason
    assert tuple(decode_image(image.copy()).pixels[0, 0]) == (160, 0, 0)


def test_one_frame_gif_is_a_picture():
    assert decode_image(encode(Image.new("RGB", (4, 4), RED), "GIF")).notes == ()


def test_closed_pil_object(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(encode(Image.fromarray(noise())))
    with Image.open(path) as image:
        pass
    assert refused(image).status == "unreadable"


SOURCES = {
    "png": encode(Image.fromarray(noise())),
    "jpeg": encode(Image.fromarray(noise()), "JPEG"),
    "progressive": encode(Image.fromarray(noise()), "JPEG", progressive=True),
    "gif": encode(Image.fromarray(noise()), "GIF"),
    "webp": encode(Image.fromarray(noise()), "WEBP"),
    "bmp": encode(Image.fromarray(noise()), "BMP"),
    "tiff": encode(Image.fromarray(noise()), "TIFF"),
    "tiff_lzw": encode(Image.fromarray(noise()), "TIFF", compression="tiff_lzw"),
    "ppm": encode(Image.fromarray(noise()), "PPM"),
    "jp2": encode(Image.fromarray(noise()), "JPEG2000"),
}
if ".avif" in image_extensions():
    SOURCES["avif"] = encode(Image.fromarray(noise()), "AVIF")
WHOLE = {kind: decode_image(data).pixels for kind, data in SOURCES.items()}


@pytest.mark.parametrize("kind", SOURCES)
@settings(max_examples=40, deadline=None)
@given(share=st.floats(0, 1, exclude_max=True))
@example(share=0.9999)
def test_a_cut_file_gives_all_of_the_picture_or_none(kind, share):
    data = SOURCES[kind]
    found = outcome(data[: int(len(data) * share)])
    if found != "unreadable":
        np.testing.assert_array_equal(found.pixels, WHOLE[kind])


def test_the_switch_for_truncated_files_is_not_obeyed(monkeypatch):
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    for data in SOURCES.values():
        refused(data[: int(len(data) * 0.6)])
    assert ImageFile.LOAD_TRUNCATED_IMAGES is True


@settings(max_examples=150, deadline=None)
@given(data=st.binary(max_size=200), kind=st.sampled_from(["", *SOURCES]), keep=st.integers(2, 60))
def test_random_bytes_raise_nothing_but_media_errors(data, kind, keep):
    found = outcome(SOURCES[kind][:keep] + data if kind else data, DecodeOptions(max_pixels=1_000_000))
    assert found in ("unreadable", "too_large") or found.pixels.dtype == np.uint8


@settings(max_examples=150, deadline=None)
@given(kind=st.sampled_from(list(SOURCES)), share=st.floats(0, 1, exclude_max=True), value=st.integers(0, 255))
def test_one_wrong_byte_raises_nothing_but_media_errors(kind, share, value):
    data = bytearray(SOURCES[kind])
    data[int(len(data) * share)] = value
    found = outcome(bytes(data), DecodeOptions(max_pixels=1_000_000, first_frame=True))
    if found in ("unreadable", "too_large"):
        return
    assert found.pixels.dtype == np.uint8
    if kind == "png":
        np.testing.assert_array_equal(found.pixels, WHOLE["png"])


def test_text_chunk_bomb_in_a_png():
    body = b"Comment\0\0" + zlib.compress(bytes(80 << 20))
    assert refused(png(1, 1, 8, 0, b"\0\0", (b"zTXt", body))).status == "unreadable"


def odd_tiff() -> bytes:
    """A TIFF that Pillow warns about while it reads: a tag with more entries than it should have."""
    tags = [(256, 2, (1, 1)), (257, 1, (1,)), (258, 1, (8,)), (259, 1, (1,)), (262, 1, (1,)), (273, 1, (200,)),
            (277, 1, (1,)), (278, 1, (1,)), (279, 1, (1,))]  # fmt: skip
    ifd = struct.pack("<H", len(tags))
    for tag, count, values in tags:
        ifd += struct.pack("<HHL", tag, 3, count) + struct.pack("<HH", *values, *(0,) * (2 - len(values)))
    return (b"II*\x00" + struct.pack("<L", 8) + ifd + bytes(4)).ljust(200, b"\0") + b"\x4d"


def test_pillows_warnings_do_not_decide():
    data = odd_tiff()
    with pytest.warns(UserWarning, match="too many entries"):
        Image.open(io.BytesIO(data)).load()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        strict = decode_image(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lax = decode_image(data)
    assert strict.pixels.tolist() == lax.pixels.tolist() == [[[77, 77, 77]]]


def test_many_threads_decode_the_same_things():
    palette = Image.new("P", (40, 30))
    palette.putpalette([*RED, 0, 0, 255])
    palette.info["transparency"] = b"\x40\xff"
    lazy = Image.open(io.BytesIO(SOURCES["jpeg"]))
    inputs = [*SOURCES.values(), palette, lazy]
    expected = [*WHOLE.values(), decode_image(palette).pixels, WHOLE["jpeg"]]
    start = threading.Barrier(8)

    def work(worker):
        start.wait()
        for round_ in range(15):
            for at in range(len(inputs)):
                at = (at + worker + round_) % len(inputs)
                np.testing.assert_array_equal(decode_image(inputs[at]).pixels, expected[at])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
