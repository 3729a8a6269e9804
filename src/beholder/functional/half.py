"""Arithmetic of 16-bit floats as a GPU does it: results rounded to 16 bits, sums kept in 32 bits.

Published values were made so: OpenS2V's dot products of unit embeddings are multiples of 2⁻¹¹ in [0.5, 1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class HalfUnits(NamedTuple):
    """Rows scaled to about length 1 in 16 bits.

    Args:
        vectors: (n, d) float16; zeros where `degenerate`.
        degenerate: (n,) bool: the row was zero, not finite, or too large for 16 bits.
    """

    vectors: np.ndarray
    degenerate: np.ndarray


def half_units(features: npt.ArrayLike) -> HalfUnits:
    """x / |x| for every row in 16 bits: x and |x| are rounded to 16 bits before they are divided.

    Args:
        features: (n, d) of any real dtype.

    Degenerate: a row that is zero or not finite, or whose numbers or length 16 bits cannot hold, becomes zeros.

    >>> half_units([[3.0, 4.0]]).vectors.tolist()
    [[0.60009765625, 0.7998046875]]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rows = np.asarray(features).astype(np.float16).astype(np.float32)
        length = np.sqrt(np.add.reduce(rows * rows, axis=1, keepdims=True)).astype(np.float16).astype(np.float32)
        good = np.isfinite(rows).all(axis=1, keepdims=True) & np.isfinite(length) & (length > 0)
        vectors = (np.where(good, rows, 0) / np.where(good, length, 1)).astype(np.float16)
    return HalfUnits(vectors, ~good[:, 0])


def half_dots(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Σ a·b of every row: products rounded to 16 bits, added in 32 bits, the sum rounded to 16 bits.

    Args:
        a: (n, d) or (d,) float16.
        b: (n, d) float16.

    Returns:
        (n,) float64 that hold 16-bit numbers.
    """
    products = (a.astype(np.float32) * b.astype(np.float32)).astype(np.float16)
    sums: np.ndarray = np.add.reduce(products.astype(np.float32), axis=1).astype(np.float16).astype(np.float64)
    return sums


def half_mean(values: npt.ArrayLike) -> float:
    """The mean of 16-bit numbers: added in 32 bits, divided there, rounded to 16 bits.

    >>> half_mean([0.5, 0.50048828125])
    0.5
    """
    numbers = np.asarray(values, dtype=np.float32)
    return float(np.float16(np.add.reduce(numbers) / np.float32(len(numbers))))
