"""OpenCV's warp and resize: OpenCV's own results, and what must hold of any warp."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beholder._errors import NoValue, OptionError
from beholder.functional.opencv_pixels import halve, pad_constant, resize_linear, warp_affine

GOLDEN = json.loads((Path(__file__).parents[1] / "reference" / "opencv_pixels.json").read_text())


def picture(height: int = 29, width: int = 37) -> np.ndarray:
    """The picture of the golden values; OpenCV saw the same numbers."""
    y, x = np.mgrid[:height, :width]
    return np.stack([(7 * x + 3 * y) % 256, (x * y) % 256, (255 - 5 * x + 11 * y) % 256], axis=-1).astype(np.uint8)


@pytest.mark.parametrize("case", GOLDEN["warp"], ids=lambda case: str(case["size"]))
def test_warp_is_opencvs(case: dict[str, Any]) -> None:
    warped = warp_affine(picture(), case["matrix"], tuple(case["size"]))
    assert warped[7].tolist() == case["row"]
    assert hashlib.sha256(warped.tobytes()).hexdigest() == case["sha256"]


@pytest.mark.parametrize("case", GOLDEN["resize"], ids=lambda case: str(case["size"]))
def test_resize_is_opencvs(case: dict[str, Any]) -> None:
    small = resize_linear(picture(), tuple(case["size"]))
    assert small[min(3, len(small) - 1)][:12].tolist() == case["row"]
    assert hashlib.sha256(small.tobytes()).hexdigest() == case["sha256"]


def exact_warp(pixels: np.ndarray, matrix: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Bilinear at the exact places, in floating point, black outside."""
    inverse = np.linalg.inv(np.vstack([matrix, [0, 0, 1]]))
    out = np.zeros((size[1], size[0], pixels.shape[2]))
    for row in range(size[1]):
        for column in range(size[0]):
            x, y, _ = inverse @ [column, row, 1]
            left, top = int(np.floor(x)), int(np.floor(y))
            for at_y, weight_y in ((top, 1 - (y - top)), (top + 1, y - top)):
                for at_x, weight_x in ((left, 1 - (x - left)), (left + 1, x - left)):
                    if 0 <= at_x < pixels.shape[1] and 0 <= at_y < pixels.shape[0]:
                        out[row, column] += weight_x * weight_y * pixels[at_y, at_x]
    return out


def test_warp_is_bilinear_to_a_thirty_second_of_a_pixel() -> None:
    y, x = np.mgrid[:20, :24]
    smooth = np.stack([4 * x + 2 * y, 255 - 5 * x - 3 * y, 6 * y + x], axis=-1).astype(np.uint8)
    matrix = np.array([[0.9, -0.35, 6.2], [0.35, 0.9, -1.7]])
    inside = exact_warp(np.full_like(smooth, 255), matrix, (18, 16))[..., :1] > 254.999
    difference = np.abs(warp_affine(smooth, matrix, (18, 16)) - exact_warp(smooth, matrix, (18, 16)))
    # A place may be off by 1/64 in x and in y; these slopes sum to 8 a pixel. Rounding adds a half.
    assert (difference * inside).max() <= 8 / 64 + 0.5 + 1e-6


def test_warp_by_whole_pixels_moves_pixels() -> None:
    np.testing.assert_array_equal(warp_affine(picture(), [[1, 0, 0], [0, 1, 0]], (37, 29)), picture())
    moved = warp_affine(picture(), [[1, 0, 3], [0, 1, -2]], (37, 29))
    np.testing.assert_array_equal(moved[:-2, 3:], picture()[2:, :-3])
    assert not moved[-2:].any()
    assert not moved[:, :3].any()


def test_halving_is_the_rounded_mean_of_blocks() -> None:
    pixels = picture(28, 36)
    for row, column in ((0, 0), (5, 9), (13, 17)):
        block = pixels[2 * row : 2 * row + 2, 2 * column : 2 * column + 2].reshape(4, 3).astype(int)
        assert halve(pixels)[row, column].tolist() == [(int(total) + 2) // 4 for total in block.sum(axis=0)]
    np.testing.assert_array_equal(resize_linear(pixels, (18, 14)), halve(pixels))
    with pytest.raises(OptionError, match="even sides"):
        halve(picture(5, 4))


@pytest.mark.parametrize(("height", "width", "top", "left"), [(5, 6, 1, 1), (6, 7, 1, 1), (7, 8, 1, 2), (3, 3, 0, 0)])
def test_padding_of_odd_sizes(height: int, width: int, top: int, left: int) -> None:
    padded, origin = pad_constant(picture(height, width), share=0.25, value=128)
    assert origin == (left, top)
    assert padded.shape == (height + 2 * top, width + 2 * left, 3)
    np.testing.assert_array_equal(padded[top : top + height, left : left + width], picture(height, width))
    border = np.ones(padded.shape[:2], dtype=bool)
    border[top : top + height, left : left + width] = False
    assert (padded[border] == 128).all()


def test_what_is_no_picture_is_refused() -> None:
    for wrong in (np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3), np.float32), np.zeros((0, 4, 3), np.uint8)):
        with pytest.raises(OptionError, match="uint8"):
            warp_affine(wrong, [[1, 0, 0], [0, 1, 0]], (4, 4))
    with pytest.raises(OptionError, match=r"\(2, 3\)"):
        warp_affine(picture(), np.eye(3), (4, 4))
    with pytest.raises(OptionError, match="at least 1×1"):
        resize_linear(picture(), (0, 4))
    for matrix in (np.zeros((2, 3)), [[1e-9, 0, 0], [0, 1e-9, 0]], [[np.nan, 0, 0], [0, 1, 0]]):
        with pytest.raises(NoValue, match="failed"):
            warp_affine(picture(), matrix, (4, 4))
