"""Whatever is handed in becomes a medium, with a fingerprint of its content and an honest name."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
import time
import timeit
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.media.media_inputs import BLUE, RED, encode, exif_block, noise

from beholder._errors import MediaError, OptionError
from beholder.media.base import DecodeOptions, Medium
from beholder.media.files import BytesMedium, FileMedium, LocalFile
from beholder.media.sources import as_medium, set_hash_memory

PLAIN = DecodeOptions()
DRAWN = noise()
DATA = encode(Image.fromarray(DRAWN))


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(DATA)
    return path


# ---------------------------------------------------------------- files


def test_path_relative_to_a_base(photo):
    for given in ("a.png", Path("a.png")):
        medium = as_medium(given, base=photo.parent)
        assert medium.name == "a.png"
        assert medium.fingerprint() == sha(DATA)
        np.testing.assert_array_equal(medium.decode(PLAIN).pixels, DRAWN)
        assert isinstance(medium, Medium)


def test_absolute_path_current_folder_and_home(photo, monkeypatch):
    assert as_medium(str(photo), base="/elsewhere").fingerprint() == sha(DATA)
    monkeypatch.chdir(photo.parent)
    assert as_medium("a.png").fingerprint() == sha(DATA)
    monkeypatch.setenv("HOME", str(photo.parent))
    medium = as_medium("~/a.png")
    assert medium.name == "~/a.png"
    assert medium.fingerprint() == sha(DATA)


def test_file_url(photo):
    spaced = photo.with_name("a b.png")
    spaced.write_bytes(DATA)
    assert as_medium(spaced.as_uri()).fingerprint() == sha(DATA)


@pytest.mark.parametrize("call", ["fingerprint", "load", "read_and_hash"])
def test_files_that_cannot_be_had(tmp_path, call):
    (tmp_path / "file").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    os.symlink(tmp_path / "gone", tmp_path / "link")
    cases = {
        "no.png": "missing",
        "link": "missing",
        "file/inside.png": "missing",
        "": "unreadable",
        "pipe": "unreadable",
        "nul\0byte": "unreadable",
        "x" * 300: "unreadable",
    }
    for path, status in cases.items():
        medium = LocalFile(os.path.join(tmp_path, path), path or "folder")
        with pytest.raises(MediaError) as caught:
            getattr(medium, call)()
        assert caught.value.status == status, path
        assert str(tmp_path) not in caught.value.reason


def test_file_without_permission(photo, monkeypatch):
    def no(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", no)
    with pytest.raises(MediaError, match="Permission denied") as caught:
        as_medium("a.png", base=photo.parent).decode(PLAIN)
    assert caught.value.status == "unreadable"


def test_one_read_serves_hash_and_pixels(photo, monkeypatch):
    medium = as_medium("a.png", base=photo.parent)
    assert isinstance(medium, FileMedium)
    data, fingerprint = medium.read_and_hash()
    assert (data, fingerprint) == (DATA, medium.fingerprint())
    photo.unlink()
    np.testing.assert_array_equal(medium.decode(PLAIN, data).pixels, DRAWN)


class Memory(dict):
    def put(self, key, value):
        self[key] = value


@pytest.fixture
def memory():
    memory = Memory()
    set_hash_memory(memory)
    yield memory
    set_hash_memory(None)


def age(path, seconds, monkeypatch):
    """Lets the clock stand `seconds` after now; a file's ctime cannot be set."""
    now = time.time_ns()
    monkeypatch.setattr("beholder.media.files.time.time_ns", lambda: now + seconds * 10**9)


def test_hash_is_remembered_by_stat(photo, memory, monkeypatch):
    medium = as_medium("a.png", base=photo.parent)
    assert medium.fingerprint() == sha(DATA)
    assert memory == {}  # just written: it may change again within one tick of the clock
    age(photo, 3, monkeypatch)
    medium.fingerprint()
    (key,) = memory
    found = photo.stat()
    assert key == (str(photo), found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
    memory[key] = "remembered"
    assert medium.fingerprint() == "remembered"
    assert medium.read_and_hash() == (DATA, "remembered")
    photo.write_bytes(DATA + b"x")
    assert medium.fingerprint() == sha(DATA + b"x")


def test_read_and_hash_fills_the_memory(photo, memory, monkeypatch):
    age(photo, 3, monkeypatch)
    as_medium("a.png", base=photo.parent).read_and_hash()
    assert list(memory.values()) == [sha(DATA)]


# ---------------------------------------------------------------- bytes and cells


def test_bytes(photo):
    for given in (DATA, bytearray(DATA), memoryview(DATA)):
        medium = as_medium(given)
        assert medium.name == f"bytes[{len(DATA)}]"
        assert medium.fingerprint() == as_medium(photo).fingerprint()
        np.testing.assert_array_equal(medium.decode(PLAIN).pixels, DRAWN)


def test_cells(photo):
    assert as_medium({"bytes": DATA, "path": "b.png"}) == BytesMedium(DATA, "b.png")
    assert as_medium({"bytes": DATA, "path": None}).name == f"bytes[{len(DATA)}]"
    assert as_medium({"bytes": None, "path": "a.png"}, base=photo.parent).fingerprint() == sha(DATA)
    for bad in ({}, {"bytes": None, "path": None}, {"array": 1}, {"bytes": "text"}):
        with pytest.raises(OptionError, match="cell"):
            as_medium(bad)


@pytest.mark.parametrize("bad", [None, 3, 2.5, [1, 2], object(), "", "  "])
def test_other_things_are_refused(bad):
    with pytest.raises(OptionError, match="must"):
        as_medium(bad)


def test_a_medium_stays_what_it_is():
    medium = as_medium(DATA)
    assert as_medium(medium) is medium


def test_file_with_a_stated_range(tmp_path):
    path = tmp_path / "f.tif"
    path.write_bytes(encode(Image.fromarray(np.array([[0.0, 1.0]], np.float32)), "TIFF"))
    unit, wide = as_medium(path, value_range=(0, 1)), as_medium(path, value_range=(0, 2))
    assert unit.decode(PLAIN).pixels[0, :, 0].tolist() == [0, 255]
    assert wide.decode(PLAIN).pixels[0, :, 0].tolist() == [0, 128]
    assert len({unit.fingerprint(), wide.fingerprint(), as_medium(path).fingerprint()}) == 3
    assert unit.read_and_hash()[1] == unit.fingerprint()


# ---------------------------------------------------------------- arrays


def shown(value, **options):
    return as_medium(value, **options).decode(PLAIN)


def test_uint8_layouts():
    np.testing.assert_array_equal(shown(DRAWN).pixels, DRAWN)
    np.testing.assert_array_equal(shown(DRAWN.transpose(2, 0, 1)).pixels, DRAWN)
    np.testing.assert_array_equal(shown(DRAWN[::2, ::-1]).pixels, DRAWN[::2, ::-1])
    gray = np.array([[3, 4]], np.uint8)
    for given in (gray, gray[:, :, None]):
        assert shown(given).pixels.tolist() == [[[3, 3, 3], [4, 4, 4]]]
    for picture in (shown(DRAWN.transpose(2, 0, 1)), shown(DRAWN)):
        assert picture.size == (32, 24)
        assert picture.pixels.flags.c_contiguous
        assert not picture.pixels.flags.writeable
        assert picture.notes == ()


def test_alpha_array():
    rgba = np.array([[[200, 40, 0, 100]]], np.uint8)
    picture = as_medium(rgba).decode(DecodeOptions(background=(0, 0, 0)))
    assert picture.pixels.tolist() == [[[78, 16, 0]]]
    assert picture.notes == ("alpha_over=0,0,0",)


def test_numpy_with_two_possible_axes_is_height_width_channels():
    array = noise(3, 5)  # (3, 5, 3)
    np.testing.assert_array_equal(shown(array).pixels, array)


@pytest.mark.parametrize(
    ("array", "value_range", "expected"),
    [
        (np.array([[0, 0.25, 1]], np.float32), (0, 1), [0, 64, 255]),
        (np.array([[0, 0.25, 1]], np.float16), (0, 1), [0, 64, 255]),
        (np.array([[-1, 0.6, 1]], np.float64), (-1, 1), [0, 204, 255]),
        (np.array([[0, 257, 65535]], np.uint16), None, [0, 1, 255]),
        (np.array([[0, 257, 65535]], ">u2"), None, [0, 1, 255]),
        (np.array([[False, True]]), None, [0, 255]),
        (np.array([[0, 128, 255]], np.int64), (0, 255), [0, 128, 255]),
        (np.array([[0, 1]], np.uint8), (0, 1), [0, 255]),
        (np.array([[-0.001, 1.001]], np.float32), (0, 1), [0, 255]),  # within half a grey level
    ],
)
def test_ranges(array, value_range, expected):
    picture = shown(array, value_range=value_range)
    assert picture.pixels[0, :, 0].tolist() == expected
    assert (picture.notes != ()) == (value_range is not None or array.dtype.itemsize == 2)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int8", "uint32"])
def test_types_without_a_range_need_one(dtype):
    with pytest.raises(OptionError, match="value_range"):
        as_medium(np.zeros((2, 2), dtype))


@pytest.mark.parametrize("value", [1.5, -0.2, np.nan, np.inf])
def test_values_that_contradict_the_range_are_unreadable(value):
    with pytest.raises(MediaError) as caught:
        shown(np.array([[0.5, value]]), value_range=(0, 1))
    assert caught.value.status == "unreadable"


@pytest.mark.parametrize("bad", [(1, 0), (0, 0), (0,), "ab", (0, float("nan")), 5])
def test_bad_ranges(bad):
    with pytest.raises(OptionError, match="value_range"):
        as_medium(DATA, value_range=bad)


@pytest.mark.parametrize("shape", [(4,), (2, 3, 8, 8), (1, 3, 8, 8), (8, 8, 2), (5, 8, 8), ()])
def test_bad_shapes(shape):
    with pytest.raises(OptionError, match="C of 1, 3 or 4"):
        as_medium(np.zeros(shape, np.uint8))


@pytest.mark.parametrize("dtype", ["complex64", "object", "U1", "datetime64[s]"])
def test_bad_types(dtype):
    with pytest.raises(OptionError, match="dtype"):
        as_medium(np.zeros((2, 2), dtype))


def test_array_limits():
    with pytest.raises(MediaError) as caught:
        as_medium(np.zeros((10, 10), np.uint8)).decode(DecodeOptions(max_pixels=99))
    assert caught.value.status == "too_large"
    with pytest.raises(MediaError, match="has no pixels"):
        shown(np.zeros((0, 10, 3), np.uint8))


def test_array_fingerprints_tell_content_apart():
    base = np.zeros((2, 2), np.uint8)
    others = [
        base,
        base + 1,
        base.astype(bool),
        np.zeros((1, 4), np.uint8),
        np.zeros((2, 2, 1), np.uint8),
        np.zeros((1, 2, 2), np.uint8),
        np.zeros((2, 1), np.uint16),
        np.zeros((0, 2), np.uint8),
    ]
    prints = [as_medium(array).fingerprint() for array in others]
    prints += [as_medium(base, value_range=(0, 1)).fingerprint(), as_medium(base, value_range=(0, 255)).fingerprint()]
    prints += [as_medium(Image.fromarray(base)).fingerprint(), as_medium(base.tobytes()).fingerprint()]
    assert len(set(prints)) == len(prints)
    assert as_medium(base.copy(order="F")).fingerprint() == prints[0]
    # the definition, so that stored features stay valid
    assert prints[0] == sha(b"beholder array |u1 (2, 2) False None\0" + bytes(4))


def test_array_media_are_cheap():
    array = np.zeros((8, 8, 3), np.uint8)

    def seconds(call):
        return min(timeit.repeat(call, number=500, repeat=7))

    bare = seconds(lambda: hashlib.sha256(array.tobytes()).hexdigest())
    assert seconds(lambda: as_medium(array).fingerprint()) < 25 * bare


# ---------------------------------------------------------------- torch


def test_tensors():
    import torch

    chw = torch.from_numpy(DRAWN.transpose(2, 0, 1).copy())
    np.testing.assert_array_equal(shown(chw).pixels, DRAWN)
    assert as_medium(chw).fingerprint() == as_medium(DRAWN.transpose(2, 0, 1)).fingerprint()
    np.testing.assert_array_equal(shown(chw.permute(1, 2, 0)).pixels, DRAWN)
    assert shown(torch.tensor([[0.0, 1.0]], requires_grad=True), value_range=(0, 1)).pixels[0, :, 0].tolist() == [
        0,
        255,
    ]
    assert shown(torch.tensor([[0.0, 1.0]], dtype=torch.bfloat16), value_range=(0, 1)).pixels[0, 1, 0] == 255
    with pytest.raises(OptionError, match="value_range"):
        as_medium(torch.zeros(3, 8, 8))
    with pytest.raises(OptionError, match="first and the last axis"):
        as_medium(torch.zeros(3, 8, 3, dtype=torch.uint8))
    with pytest.raises(OptionError, match="one by one"):
        as_medium(torch.zeros(1, 3, 8, 8, dtype=torch.uint8))
    with pytest.raises(OptionError, match="dense"):
        as_medium(torch.zeros(4, 4).to_sparse())


def test_media_load_no_torch():
    code = (
        "import sys, numpy; from beholder.media.sources import as_medium; as_medium(numpy.zeros((2, 2), 'uint8'))\n"
        "try: as_medium(object())\nexcept Exception as e: assert type(e).__name__ == 'OptionError'\n"
        "assert not {'torch', 'fsspec', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---------------------------------------------------------------- PIL


def test_pil_media():
    medium = as_medium(Image.fromarray(DRAWN))
    assert medium.name == "image(32×24)"
    np.testing.assert_array_equal(medium.decode(PLAIN).pixels, DRAWN)


def palette_image(colours, transparency=None):
    image = Image.new("P", (2, 1))
    image.putpalette(colours)
    if transparency is not None:
        image.info["transparency"] = transparency
    return image


def test_pil_fingerprints_tell_content_apart():
    turned = Image.fromarray(DRAWN)
    turned.getexif()[0x0112] = 6
    profiled = Image.fromarray(DRAWN)
    profiled.info["icc_profile"] = b"x"
    images = [
        Image.fromarray(DRAWN),
        turned,
        profiled,
        Image.new("L", (2, 1)),
        Image.new("L", (1, 2)),
        palette_image([*RED, *BLUE]),
        palette_image([*BLUE, *RED]),
        palette_image([*RED, *BLUE], 0),
        palette_image([*RED, *BLUE], b"\x40"),
    ]
    prints = [as_medium(image).fingerprint() for image in images]
    assert len(set(prints)) == len(prints)
    for image in images:
        as_medium(image).decode(PLAIN)
    assert prints == [as_medium(image).fingerprint() for image in images]
    assert as_medium(Image.fromarray(DRAWN.copy())).fingerprint() == prints[0]


def test_pil_from_a_cut_file_is_unreadable():
    import io

    image = Image.open(io.BytesIO(DATA[:-200]))
    for call in (as_medium(image).fingerprint, lambda: as_medium(image).decode(PLAIN)):
        with pytest.raises(MediaError) as caught:
            call()
        assert caught.value.status == "unreadable"


# ---------------------------------------------------------------- travelling


def test_media_can_be_pickled(photo):
    media = [as_medium(photo), as_medium(DATA), as_medium(DRAWN), as_medium(Image.fromarray(DRAWN))]
    media += [as_medium("x.tar::a.png"), as_medium("memory://a.png")]
    for medium in media:
        copy = pickle.loads(pickle.dumps(medium))
        assert (type(copy), copy.name) == (type(medium), medium.name)
    for medium in media[:4]:
        assert pickle.loads(pickle.dumps(medium)).fingerprint() == medium.fingerprint()


def test_media_are_frozen_and_small(photo):
    for given in (photo, DATA, DRAWN, Image.fromarray(DRAWN)):
        medium = as_medium(given)
        assert not hasattr(medium, "__dict__")
        with pytest.raises(AttributeError):
            medium.name = "other"


def test_outputs_and_references_turn_alike(tmp_path):
    image = Image.fromarray(DRAWN)
    path = tmp_path / "turned.png"
    path.write_bytes(encode(image, exif=exif_block(6)))
    expected = np.rot90(DRAWN, -1)
    with Image.open(path) as opened:
        for given in (path, path.read_bytes(), opened, expected):
            np.testing.assert_array_equal(shown(given).pixels, expected)


def test_16_bit_png_and_array_agree():
    values = np.arange(0, 65536, 97, dtype=np.uint16).reshape(-1, 4)
    np.testing.assert_array_equal(shown(encode(Image.fromarray(values))).pixels, shown(values).pixels)
