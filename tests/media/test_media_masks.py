"""Mask files in the forms that people have them: what counts as the subject."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw
from tests.photographs import scene

from beholder._errors import MediaError
from beholder.media.base import DecodeOptions
from beholder.media.mask import SHADED, MaskMedium, decode_mask, mask_medium
from beholder.media.sources import as_medium

SUBJECT = np.zeros((6, 9), bool)
SUBJECT[1:4, 2:7] = True
RUNS = [13, 3, 3, 3, 3, 3, 3, 3, 3, 3, 14]
OPTIONS = DecodeOptions()


def png(array: np.ndarray, mode: str | None = None, **saving: Any) -> bytes:
    image = Image.fromarray(array, mode) if mode is None else Image.fromarray(array).convert(mode)
    stream = io.BytesIO()
    image.save(stream, "PNG", **saving)
    return stream.getvalue()


def palette() -> bytes:
    image = Image.fromarray(SUBJECT.astype(np.uint8) * 2)
    image = Image.frombytes("P", image.size, image.tobytes())
    image.putpalette([255, 255, 255, 0, 0, 0, 254, 254, 254])  # the subject is nearly as white as the rest
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def cut_out() -> bytes:
    pixels = np.zeros((*SUBJECT.shape, 4), np.uint8)
    pixels[SUBJECT] = (3, 3, 3, 255)
    return png(pixels)


FORMS: dict[str, Any] = {
    "0 and 255": png(SUBJECT.astype(np.uint8) * 255),
    "0 and 1": png(SUBJECT.astype(np.uint8)),
    "labels": png(SUBJECT.astype(np.uint8) * np.arange(1, 10, dtype=np.uint8)),
    "soft edges": png(np.where(SUBJECT, 200, 90).astype(np.uint8)),
    "one bit": png(SUBJECT.astype(np.uint8) * 255, "1"),
    "16 bit": png(SUBJECT.astype(np.uint16) * 65535),
    "colours": png(np.repeat(SUBJECT[..., None].astype(np.uint8) * 255, 3, axis=2)),
    "palette": palette(),
    "alpha": cut_out(),
    "bool array": SUBJECT,
    "0/1 array": SUBJECT.astype(np.uint8),
    "picture": Image.fromarray(SUBJECT),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_mask(form: str) -> None:
    medium = mask_medium(as_medium(FORMS[form]))
    assert decode_mask(medium.source, OPTIONS).tolist() == SUBJECT.tolist()
    picture = medium.decode(OPTIONS)
    assert picture.pixels.tolist() == np.repeat(SUBJECT[..., None] * 255, 3, axis=2).tolist()
    assert picture.size == (9, 6)


@pytest.mark.parametrize(
    "written",
    [
        {"size": [6, 9], "counts": RUNS},
        {"size": [6, 9], "counts": "=330000000;"},
        {"size": [6, 9], "polygons": [[2, 1, 7, 1, 7, 4, 2, 4]]},
        {"size": [6, 9], "segmentation": [[2, 1, 5, 1, 5, 4, 2, 4], [5, 1, 7, 1, 7, 4, 5, 4]]},
    ],
)
def test_written_masks(written: dict[str, Any]) -> None:
    assert decode_mask(written, OPTIONS).tolist() == SUBJECT.tolist()


def test_an_empty_mask_is_no_fault() -> None:
    assert not decode_mask({"size": [6, 9], "counts": [54]}, OPTIONS).any()
    assert not decode_mask(as_medium(np.zeros((4, 4), np.uint8)), OPTIONS).any()


@pytest.mark.parametrize(
    "written",
    [
        {"size": [6, 9], "counts": [1, 2]},
        {"size": [6, 9], "counts": "X"},
        {"size": [6, 9], "polygons": [[1, 2]]},
        {"size": "big", "counts": [1]},
        {"size": [6, 9], "counts": [10**30]},
        {"size": [float("inf"), 9], "counts": [1]},
        {"size": [6, 9], "polygons": [[0, 0, 10**400, 0, 3, 3]]},
    ],
)
def test_a_written_mask_that_makes_no_sense_is_unreadable(written: dict[str, Any]) -> None:
    with pytest.raises(MediaError, match="no mask") as caught:
        MaskMedium(written, "m").decode(OPTIONS)
    assert caught.value.status == "unreadable"


def test_limits_and_faults_of_files() -> None:
    with pytest.raises(MediaError, match="pixels") as caught:
        decode_mask({"size": [10**6, 10**6], "counts": [10**12]}, OPTIONS)
    assert caught.value.status == "too_large"
    with pytest.raises(MediaError) as missing:
        mask_medium(as_medium("no/such/mask.png")).decode(OPTIONS)
    assert missing.value.status == "missing"
    with pytest.raises(MediaError) as broken:
        mask_medium(as_medium(b"no picture")).decode(OPTIONS)
    assert broken.value.status == "unreadable"


def test_fingerprints_tell_masks_apart() -> None:
    one = MaskMedium({"size": [6, 9], "counts": RUNS})
    assert one.fingerprint() == MaskMedium({"counts": RUNS, "size": [6, 9]}).fingerprint()
    assert one.fingerprint() != MaskMedium({"size": [9, 6], "counts": RUNS}).fingerprint()
    medium = as_medium(FORMS["palette"])
    assert mask_medium(medium).fingerprint() == medium.fingerprint()


@pytest.mark.parametrize("name", ["astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "motorcycle_left.png"])
def test_a_photograph_is_no_mask(name: str) -> None:
    path = scene(name)
    with pytest.raises(MediaError, match=rf"unreadable: .*{name}: a photograph, not a mask"):
        mask_medium(as_medium(str(path))).decode(OPTIONS)
    pixels = np.asarray(Image.open(path).convert("RGB"))
    for value in (pixels, Image.fromarray(pixels), pixels.astype(np.float32) / 255):
        with pytest.raises(MediaError, match="a photograph"):
            decode_mask(as_medium(value, value_range=(0, 1) if value is not pixels else None), OPTIONS)


def test_masks_of_few_colours_are_masks_even_after_jpeg() -> None:
    rng = np.random.default_rng(0)
    drawn = Image.new("RGB", (256, 256))
    for _ in range(20):
        x, y = rng.integers(0, 200, 2)
        ImageDraw.Draw(drawn).ellipse([x, y, x + 50, y + 40], fill=tuple(int(v) for v in rng.integers(0, 256, 3)))
    for save in ({"format": "PNG"}, {"format": "JPEG", "quality": 30}):
        stream = io.BytesIO()
        drawn.save(stream, **save)
        picture = mask_medium(as_medium(stream.getvalue())).decode(OPTIONS)
        assert 0 < (picture.pixels[..., 0] == 255).mean() < 0.5
        assert picture.notes == ()


def test_shades_are_noted_where_there_are_more_of_them_than_of_black_and_white() -> None:
    ramp = np.tile(np.arange(256, dtype=np.uint8), (8, 1))
    assert mask_medium(as_medium(ramp)).decode(OPTIONS).notes == (SHADED,)  # 192 of 256 values lie between
    assert mask_medium(as_medium(ramp.astype(np.uint16) * 257)).decode(OPTIONS).notes == (SHADED,)
    edges = np.where(np.arange(256) % 8 == 0, 128, ramp // 128 * 255).astype(np.uint8)
    assert mask_medium(as_medium(edges)).decode(OPTIONS).notes == ()
    assert mask_medium(as_medium(ramp // 9)).decode(OPTIONS).notes == ()  # labels from 0 to 28
    assert mask_medium(as_medium(str(scene("camera.png")))).decode(OPTIONS).notes == (SHADED,)
