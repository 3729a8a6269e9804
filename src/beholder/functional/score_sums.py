"""Sufficient statistics of attribute scores: counts, sums and products that merge without rounding.

Scores are put on a fine grid first (2⁻²² of their unit: what float32 cosines are worth). On a grid sums are sums of
integers, so parts, order and shards cannot change a bit of the result.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError

GRID_BITS = 22
_BLOCK = 512
"""Rows a block: products of grid numbers below 2²² then sum to at most 2⁵³ and are exact in float64."""
_SPAN = 1 << 18
"""Rows whose block sums stay below 2⁶³ in int64."""


class Gaussian(NamedTuple):
    """A normal distribution fitted to scores; leading dimensions are batches of such fits.

    Args:
        mean: (…, C).
        cov: (…, C, C), with ddof 1.
    """

    mean: np.ndarray
    cov: np.ndarray


class ScoreSums:
    """Counts, sums and products of scores of C attributes.

    Args:
        width: C.
        unit: a power of two that no score's magnitude exceeds (1 for scores in [0, 1], 128 for 100·cosines).

    >>> whole, part = ScoreSums(1), ScoreSums(1)
    >>> whole.add([[0.25], [0.5]]); part.add([[0.75]])
    >>> whole.merge(part)
    >>> whole.n, whole.gaussian().mean.tolist(), whole.gaussian().cov.tolist()
    (3, [0.5], [[0.0625]])
    """

    def __init__(self, width: int, *, unit: float = 1.0) -> None:
        if unit <= 0 or np.frexp(unit)[0] != 0.5:
            raise OptionError("the unit of scores must be a power of two", got=repr(unit))
        self.n, self.width, self.unit = 0, width, float(unit)
        self._sum = np.zeros(width, dtype=object)
        self._products = np.zeros((width, width), dtype=object)

    def add(self, scores: npt.ArrayLike) -> None:
        """Adds scores (n, C).

        Raises:
            OptionError: another width, numbers that are not finite or larger than the unit.
        """
        rows = np.asarray(scores, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise OptionError(f"scores must be (n, {self.width})", got=str(rows.shape))
        for start in range(0, len(rows), _SPAN):
            self._add_span(rows[start : start + _SPAN])

    def _add_span(self, rows: np.ndarray) -> None:
        n = len(rows)
        blocks = -(-n // _BLOCK)
        grid = np.zeros((blocks * _BLOCK, self.width))
        np.rint(rows * (2.0**GRID_BITS / self.unit), out=grid[:n])
        if n and not max(grid.max(), -grid.min()) <= 2.0**GRID_BITS:
            raise OptionError(f"scores must be finite and at most {self.unit:g}", got=f"{np.abs(rows).max():g}")
        cut = grid.reshape(blocks, _BLOCK, self.width)
        products = np.matmul(np.swapaxes(cut, 1, 2), cut).astype(np.int64).sum(axis=0)
        self._sum += grid.sum(axis=0).astype(np.int64).astype(object)
        self._products += products.astype(object)
        self.n += n

    def merge(self, other: ScoreSums) -> None:
        """Takes in another state; exact, so the order of merging does not matter.

        Raises:
            OptionError: another width or unit.
        """
        if (other.width, other.unit) != (self.width, self.unit):
            raise OptionError("sums that merge must have one width and one unit", got=f"{other.width}, {other.unit}")
        self.n += other.n
        self._sum = self._sum + other._sum
        self._products = self._products + other._products

    def gaussian(self) -> Gaussian:
        """Mean and covariance (ddof 1), each rounded once.

        Raises:
            OptionError: fewer than two rows.
        """
        if self.n < 2:
            raise OptionError("a distribution of scores needs at least two images", got=str(self.n))
        step = self.unit / 2.0**GRID_BITS
        centred = self.n * self._products - np.multiply.outer(self._sum, self._sum)
        cov = (centred / (self.n * (self.n - 1))).astype(np.float64) * step**2
        return Gaussian((self._sum / self.n).astype(np.float64) * step, cov)


def fit(scores: npt.ArrayLike, *, unit: float = 1.0) -> Gaussian:
    """Mean and covariance of scores (n, C); see `ScoreSums`.

    >>> fit([[0.0], [1.0]]).cov.tolist()
    [[0.5]]
    """
    rows = np.asarray(scores, dtype=np.float64)
    sums = ScoreSums(rows.shape[1], unit=unit)
    sums.add(rows)
    return sums.gaussian()
