"""Three pixel operations of OpenCV, in its own fixed-point arithmetic, without OpenCV.

Face models were trained, and published numbers were made, on crops that OpenCV warped and resized. Pillow's filters
(which average while they shrink) give other pixels, so what OpenCV computes on 8-bit pictures is written out here.
Pictures are (H, W, C) uint8.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beholder._errors import NoValue, OptionError

_FRACTION_BITS = 5
_FRACTIONS = 1 << _FRACTION_BITS
_COORDINATE_BITS = 10
_RESIZE_BITS = 11


def warp_affine(pixels: np.ndarray, matrix: npt.ArrayLike, size: tuple[int, int]) -> np.ndarray:
    """The picture under an affine map, bilinear, black outside: `cv2.warpAffine` of OpenCV 4 with its defaults.

    OpenCV 5 no longer rounds places to 1/32 pixel; its crops differ by a few gray levels where a picture is sharp.

    For every pixel (x, y) of the result the map's inverse gives a place in the picture, rounded to 1/32 pixel; the
    four pixels around it are mixed by whole-number weights that add up to 1024.

    Args:
        pixels: (H, W, C) uint8.
        matrix: (2, 3): from places of the picture to places of the result.
        size: (width, height) of the result.

    Returns:
        (height, width, C) uint8.

    Raises:
        OptionError: not a picture, or a matrix of another shape.
        NoValue: `failed` for a matrix without an inverse, or one that throws places too far to be counted.

    >>> warp_affine(np.full((2, 2, 1), 7, np.uint8), [[1, 0, 1], [0, 1, 0]], (3, 2))[:, :, 0].tolist()
    [[0, 7, 7], [0, 7, 7]]
    """
    _check(pixels)
    inverse = _inverse(matrix)
    width, height = size
    scale = float(1 << _COORDINATE_BITS)
    columns = _rint(inverse[:, :1] * np.arange(width) * scale)
    rows = _rint((inverse[:, 1:2] * np.arange(height) + inverse[:, 2:]) * scale)
    half = (1 << _COORDINATE_BITS) // _FRACTIONS // 2
    shift = _COORDINATE_BITS - _FRACTION_BITS
    x = (columns[0][None, :] + rows[0][:, None] + half) >> shift
    y = (columns[1][None, :] + rows[1][:, None] + half) >> shift
    left, top = x >> _FRACTION_BITS, y >> _FRACTION_BITS
    right_part, lower_part = x & (_FRACTIONS - 1), y & (_FRACTIONS - 1)
    total = np.zeros((height, width, pixels.shape[2]), dtype=np.int64)
    for down, weight_y in ((0, _FRACTIONS - lower_part), (1, lower_part)):
        for right, weight_x in ((0, _FRACTIONS - right_part), (1, right_part)):
            total += (weight_x * weight_y)[..., None] * _taps(pixels, left + right, top + down)
    bits = 2 * _FRACTION_BITS
    result: np.ndarray = ((total + (1 << (bits - 1))) >> bits).astype(np.uint8)
    return result


def halve(pixels: np.ndarray) -> np.ndarray:
    """Half the size: (a + b + c + d + 2) >> 2 over blocks of 2×2, which is OpenCV's bilinear resize by exactly 2.

    Raises:
        OptionError: a side that is odd.

    >>> halve(np.array([[[1], [2]], [[2], [2]]], np.uint8)).tolist()
    [[[2]]]
    """
    _check(pixels)
    height, width, channels = pixels.shape
    if height % 2 or width % 2:
        raise OptionError("only pictures of even sides can be halved", got=f"{width}×{height}")
    blocks = pixels.reshape(height // 2, 2, width // 2, 2, channels).astype(np.uint16)
    result: np.ndarray = ((blocks.sum(axis=(1, 3)) + 2) >> 2).astype(np.uint8)
    return result


def resize_linear(pixels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """`cv2.resize` with bilinear interpolation: no averaging where the picture shrinks, edges repeated.

    Weights are whole numbers out of 2048; rows are mixed first along x, then along y, with OpenCV's roundings. A
    shrink by exactly 2 is `halve`, as in OpenCV.

    Args:
        pixels: (H, W, C) uint8.
        size: (width, height) of the result.

    Returns:
        (height, width, C) uint8.

    Raises:
        OptionError: not a picture, or a size below 1×1.

    >>> resize_linear(np.array([[[0], [100]]], np.uint8), (4, 1))[0, :, 0].tolist()
    [0, 25, 75, 100]
    """
    _check(pixels)
    width, height = size
    if width < 1 or height < 1:
        raise OptionError("a picture must have at least 1×1 pixels", got=f"{width}×{height}")
    if pixels.shape[:2] == (height, width):
        return pixels.copy()
    if pixels.shape[:2] == (2 * height, 2 * width):
        return halve(pixels)
    x0, x1, x_weight = _positions(pixels.shape[1], width, keep_outside=False)
    y0, y1, y_weight = _positions(pixels.shape[0], height, keep_outside=True)
    wide = pixels.astype(np.int32)
    along = wide[:, x0] * x_weight[0][None, :, None] + wide[:, x1] * x_weight[1][None, :, None]
    along >>= 4
    upper = (along[y0] * y_weight[0][:, None, None]) >> 16
    lower = (along[y1] * y_weight[1][:, None, None]) >> 16
    mixed: np.ndarray = np.clip((upper + lower + 2) >> 2, 0, 255).astype(np.uint8)
    return mixed


def pad_constant(pixels: np.ndarray, *, share: float, value: int) -> tuple[np.ndarray, tuple[int, int]]:
    """The picture with a border of one gray: int(share · side) pixels on each side of that direction.

    Returns:
        The padded picture, and (left, top): where the old picture begins in it.

    >>> pad_constant(np.zeros((5, 8, 3), np.uint8), share=0.25, value=128)[0].shape
    (7, 12, 3)
    """
    _check(pixels)
    top, left = int(pixels.shape[0] * share), int(pixels.shape[1] * share)
    padded = np.pad(pixels, ((top, top), (left, left), (0, 0)), constant_values=value)
    return padded, (left, top)


def _positions(have: int, want: int, *, keep_outside: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each place of the result: the two neighbours, and their weights (2, want) out of 2048.

    Places beyond the edge take the edge. Along x OpenCV gives the one neighbour all the weight; along y it mixes the
    edge row with itself (`keep_outside`), which differs by the rounding of the two products.
    """
    places = ((np.arange(want) + 0.5) * (have / want) - 0.5).astype(np.float32)
    first = np.floor(places).astype(np.int64)
    fraction = places - first.astype(np.float32)
    if not keep_outside:
        fraction[(first < 0) | (first >= have - 1)] = 0
    # Each weight is rounded by itself, as OpenCV does it: at ties the two add up to one less or more than 2048.
    parts = np.stack([np.float32(1) - fraction, fraction])
    weights = np.rint(parts * np.float32(1 << _RESIZE_BITS)).astype(np.int32)
    return np.clip(first, 0, have - 1), np.clip(first + 1, 0, have - 1), weights


def _taps(pixels: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    height, width = pixels.shape[:2]
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    values = pixels[np.where(inside, y, 0), np.where(inside, x, 0)].astype(np.int64)
    result: np.ndarray = values * inside[..., None]
    return result


def _inverse(matrix: npt.ArrayLike) -> np.ndarray:
    m = np.asarray(matrix, dtype=np.float64)
    if m.shape != (2, 3):
        raise OptionError("an affine map must be (2, 3)", got=f"shape {m.shape}")
    determinant = m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]
    if not np.isfinite(m).all() or determinant == 0:
        raise NoValue("failed", "an affine map without an inverse")
    linear = np.array([[m[1, 1], -m[0, 1]], [-m[1, 0], m[0, 0]]]) / determinant
    inverse = np.column_stack([linear, -linear @ m[:, 2]])
    if np.abs(inverse).max() > 1e5:
        raise NoValue("failed", "an affine map that leaves every sensible picture")
    return inverse


def _rint(values: np.ndarray) -> np.ndarray:
    result: np.ndarray = np.rint(values).astype(np.int64)
    return result


def _check(pixels: np.ndarray) -> None:
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or 0 in pixels.shape:
        raise OptionError("a picture must be (H, W, C) uint8", got=f"{pixels.dtype} of shape {pixels.shape}")
