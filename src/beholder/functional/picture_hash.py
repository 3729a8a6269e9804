"""Perceptual hashes: 64 bits that change little when a picture is resized, recompressed or slightly recoloured."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError

SIDE = 32
"""Side of the small gray picture that is hashed."""

NEAR = 6
"""Largest Hamming distance of two hashes that count as near copies."""

_KEPT = 8


def perceptual_hash(gray: npt.ArrayLike) -> np.uint64:
    """64 bits of a small gray picture by its lowest frequencies.

    The recipe: the orthonormal two-dimensional DCT-II of the 32×32 gray values; its 8×8 block of lowest
    frequencies, the constant term included in the block but not in the median; bit = 1 where a coefficient is
    greater than the median of the 63 others than the constant term. Bits are read row by row (rows are vertical
    frequencies), the first being the highest bit of the number. The constant term's own bit is always 0, so that
    brightness plays no part.

    Args:
        gray: (32, 32) gray values, any scale; how pixels become these stands where they are made.

    Returns:
        The hash.

    Raises:
        OptionError: another shape.

    Degenerate: a picture of one colour has no frequencies; all bits are 0, so all such pictures are alike. Numbers
    within 1e-9 of the largest value count as 0, so that rounding does not decide.

    Source: the DCT hash described in Zauner 2010, Implementation and Benchmarking of Perceptual Image Hash Functions.

    >>> int(perceptual_hash(np.full((32, 32), 200.0)))
    0
    """
    from scipy.fft import dctn

    array = np.asarray(gray, dtype=np.float64)
    if array.shape != (SIDE, SIDE):
        raise OptionError(f"a picture to hash must be {SIDE}×{SIDE} gray values", got=f"shape {array.shape}")
    block = dctn(array, norm="ortho")[:_KEPT, :_KEPT].ravel()
    block[np.abs(block) <= 1e-9 * max(1.0, float(np.abs(array).max()))] = 0.0
    bits = block > np.median(block[1:])
    bits[0] = False
    return np.uint64(int("".join("1" if bit else "0" for bit in bits), 2))


def hamming(a: npt.ArrayLike, b: npt.ArrayLike) -> np.ndarray:
    """How many bits differ between hashes, broadcast; int64 in 0..64.

    >>> hamming(np.uint64(0b1011), np.array([0b1011, 0b0010], np.uint64)).tolist()
    [0, 2]
    """
    different = np.atleast_1d(np.bitwise_xor(np.asarray(a, dtype=np.uint64), np.asarray(b, dtype=np.uint64)))
    # numpy 1.26 has no bit count of its own.
    bits = np.unpackbits(np.ascontiguousarray(different)[..., None].view(np.uint8), axis=-1)
    result: np.ndarray = bits.sum(axis=-1, dtype=np.int64)
    return result
