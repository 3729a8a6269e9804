"""Sums without rounding: states that merge exactly, so shards, blocks and row order cannot change a mean.

A float64 is an integer of 53 bits times a power of two. Numbers with one exponent are added as integers, one total an
exponent, so adding and merging are integer additions; only reading the result rounds, once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

_LOW_BITS = 26
_BLOCK = 1 << 16
"""Rows a block: what is held beside the values. Up to 2**24 of them, 27-bit halves of mantissas sum to less than 2**53
and stay exact in float64."""
_SPLIT = float((1 << 27) + 1)


class ExactSum:
    """The exact sum of any number of float64 values.

    >>> total = ExactSum([1e16, 1.0, -1e16])
    >>> float(total)
    1.0
    """

    def __init__(self, values: npt.ArrayLike = ()) -> None:
        self._by_exponent: dict[int, int] = {}
        self.add(values)

    def add(self, values: npt.ArrayLike) -> None:
        """Adds an array of finite numbers.

        Raises:
            ValueError: a number is not finite.
        """
        flat = np.asarray(values, dtype=np.float64).ravel()
        if not np.isfinite(flat).all():
            raise ValueError("an exact sum takes finite numbers only")
        for start in range(0, len(flat), _BLOCK):
            self._add_block(flat[start : start + _BLOCK])

    def add_products(self, a: npt.ArrayLike, b: npt.ArrayLike) -> None:
        """Adds a_i · b_i without rounding the products (magnitudes between 1e-140 and 1e140, or 0)."""
        first, second = (np.asarray(side, dtype=np.float64).ravel() for side in (a, b))
        for start in range(0, len(first), _BLOCK):
            block = slice(start, start + _BLOCK)
            for part in _exact_products(first[block], second[block]):
                self.add(part)

    def merge(self, other: ExactSum) -> None:
        """Adds another sum; exact, so the order of merging does not matter."""
        for exponent, total in other._by_exponent.items():
            self._by_exponent[exponent] = self._by_exponent.get(exponent, 0) + total

    def ratio(self) -> tuple[int, int]:
        """The sum as numerator and denominator (a power of two, not reduced)."""
        if not self._by_exponent:
            return 0, 1
        lowest = min(self._by_exponent)
        total = sum(part << (exponent - lowest) for exponent, part in self._by_exponent.items())
        shift = lowest - 53
        return (total << shift, 1) if shift >= 0 else (total, 1 << -shift)

    def __float__(self) -> float:
        numerator, denominator = self.ratio()
        return numerator / denominator

    def _add_block(self, values: np.ndarray) -> None:
        if not len(values):
            return
        fraction, exponent = np.frexp(values)
        mantissa = np.ldexp(fraction, 53).astype(np.int64)
        first = int(exponent.min())
        codes = exponent - first
        # bincount adds floats; halves of a mantissa keep its totals below 2**53, where float64 is exact.
        high = np.bincount(codes, weights=mantissa >> _LOW_BITS)
        low = np.bincount(codes, weights=mantissa & ((1 << _LOW_BITS) - 1))
        for code in np.flatnonzero((high != 0) | (low != 0)):
            key = first + int(code)
            total = (int(high[code]) << _LOW_BITS) + int(low[code])
            self._by_exponent[key] = self._by_exponent.get(key, 0) + total


class Moments:
    """Count, mean and standard deviation of values that arrive in any order and in any number of parts.

    >>> whole, part = Moments([1.0, 2.0]), Moments([6.0])
    >>> whole.merge(part)
    >>> whole.n, whole.mean(), round(whole.sd(), 6)
    (3, 3.0, 2.645751)
    """

    def __init__(self, values: npt.ArrayLike = ()) -> None:
        self.n = 0
        self._sum, self._squares = ExactSum(), ExactSum()
        self.add(values)

    def add(self, values: npt.ArrayLike) -> None:
        """Adds an array of finite numbers."""
        flat = np.asarray(values, dtype=np.float64).ravel()
        self._sum.add(flat)
        self._squares.add_products(flat, flat)
        self.n += len(flat)

    def merge(self, other: Moments) -> None:
        """Takes in another state; exact, so the order of merging does not matter."""
        self.n += other.n
        self._sum.merge(other._sum)
        self._squares.merge(other._squares)

    @classmethod
    def merged(cls, parts: Iterable[Moments]) -> Moments:
        """One state of many."""
        result = cls()
        for part in parts:
            result.merge(part)
        return result

    def mean(self) -> float | None:
        """The mean, rounded once; None without values."""
        if not self.n:
            return None
        numerator, denominator = self._sum.ratio()
        return numerator / (denominator * self.n)

    def sd(self) -> float | None:
        """The standard deviation with ddof 1; None for fewer than two values."""
        if self.n < 2:
            return None
        (total, below), (squares, below_squares) = self._sum.ratio(), self._squares.ratio()
        # n·Σv² − (Σv)² over n·(n − 1), in integers: nothing cancels.
        numerator = self.n * squares * below * below - total * total * below_squares
        return math.sqrt(numerator / (below_squares * below * below * self.n * (self.n - 1)))


def weighted_mean(values: npt.ArrayLike, weights: npt.ArrayLike) -> float | None:
    """Σ w·v / Σ w, rounded once; None where the weights sum to 0.

    >>> weighted_mean([1.0, 0.0], [6, 12])
    0.3333333333333333
    """
    total, weight = ExactSum(), ExactSum(weights)
    total.add_products(weights, values)
    (numerator, below), (weight_numerator, weight_below) = total.ratio(), weight.ratio()
    return numerator * weight_below / (below * weight_numerator) if weight_numerator else None


def _exact_products(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a·b as two arrays whose sum is the exact product (Dekker's product)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


def _halves(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    spread = _SPLIT * values
    high = spread - (spread - values)
    return high, values - high
