"""Resizing by area against OpenCV itself, and against plain averages."""

from __future__ import annotations

import numpy as np
import pytest

from beholder._errors import OptionError
from beholder.functional.area_resize import fit_longer_side, resize_area

SIZES = [
    ((720, 1280), (512, 288)), ((100, 60), (30, 50)), ((48, 64), (512, 384)), ((37, 91), (45, 18)),
    ((37, 91), (512, 208)), ((10, 10), (20, 20)), ((300, 400), (200, 320)), ((9, 9), (9, 9)), ((5, 700), (512, 3)),
]  # fmt: skip


@pytest.mark.parametrize(("have", "want"), SIZES)
def test_against_opencv(have: tuple[int, int], want: tuple[int, int]) -> None:
    cv2 = pytest.importorskip("cv2")
    pixels = np.random.default_rng(0).integers(0, 256, (*have, 3), dtype=np.uint8)
    wanted = cv2.resize(pixels, want, interpolation=cv2.INTER_AREA)
    # OpenCV adds in another order and rounds halves up for whole factors: one level at most.
    assert np.abs(wanted.astype(int) - resize_area(pixels, want)).max() <= 1


def test_plain_averages() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (12, 18, 2), dtype=np.uint8)
    found = resize_area(pixels, (6, 3))
    for y in range(3):
        for x in range(6):
            block = pixels[4 * y : 4 * y + 4, 3 * x : 3 * x + 3].astype(float).mean(axis=(0, 1))
            assert np.abs(found[y, x] - block).max() <= 0.5 + 1e-3


@pytest.mark.parametrize(
    ("size", "wanted"),
    [((1280, 720), (512, 288)), ((480, 832), (295, 512)), ((64, 64), (512, 512)), ((999, 1), (512, 1))],
)
def test_the_longer_side(size: tuple[int, int], wanted: tuple[int, int]) -> None:
    assert fit_longer_side(*size, 512) == wanted


def test_wrong_pictures() -> None:
    with pytest.raises(OptionError):
        resize_area(np.zeros((3, 3), np.uint8), (2, 2))
    with pytest.raises(OptionError):
        resize_area(np.zeros((3, 3, 3), np.uint8), (0, 2))
