"""R-SaD: where in the picture an attribute is more prominent in one set than in the other.

A map has P cells, row by row over the grid. Everything here is a function of mean maps, and takes batches of them:
leading dimensions (resamples, attributes) go through.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError

STEP = 2.0**-30
"""Refined patch scores are counted in steps of this size, so sums of them are sums of integers."""


class MapSums:
    """Number of images, sum and sum of squares of refined patch scores: exact in any order, for any number of images.

    Args:
        shape: (C, P).

    >>> whole, part = MapSums((1, 2)), MapSums((1, 2))
    >>> whole.add([[[0.0, 0.5]]]); part.add([[[1.0, 0.5]]])
    >>> whole.merge(part)
    >>> whole.n, whole.mean().tolist(), whole.variance().tolist()
    (2, [[0.5, 0.5]], [[0.5, 0.0]])
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self.n, self.shape = 0, shape
        self._sum = np.zeros(shape, dtype=np.int64)
        self._high = np.zeros(shape, dtype=np.int64)
        self._low = np.zeros(shape, dtype=np.int64)

    def add(self, maps: npt.ArrayLike) -> None:
        """Adds maps (n, C, P) of numbers in [0, 1].

        Raises:
            OptionError: another shape, or numbers outside [0, 1].
        """
        rows = np.asarray(maps, dtype=np.float64)
        if rows.shape[1:] != self.shape:
            raise OptionError(f"maps must be (n, {self.shape[0]}, {self.shape[1]})", got=str(rows.shape))
        if rows.size and not (rows.min() >= 0 and rows.max() <= 1):
            raise OptionError("refined patch scores must lie between 0 and 1", got=f"{rows.min():g} to {rows.max():g}")
        counts = np.rint(rows / STEP).astype(np.int64)
        squares = counts * counts
        self.n += len(rows)
        self._sum += counts.sum(axis=0)
        self._high += (squares >> 30).sum(axis=0)
        self._low += (squares & ((1 << 30) - 1)).sum(axis=0)

    def merge(self, other: MapSums) -> None:
        """Takes in another state; exact.

        Raises:
            OptionError: another shape.
        """
        if other.shape != self.shape:
            raise OptionError("maps that merge must have one shape", got=f"{self.shape} and {other.shape}")
        self.n += other.n
        self._sum, self._high, self._low = self._sum + other._sum, self._high + other._high, self._low + other._low

    def mean(self) -> np.ndarray:
        """(C, P) float64.

        Raises:
            OptionError: no images.
        """
        if not self.n:
            raise OptionError("a mean map needs at least one image", got="none")
        mean: np.ndarray = self._sum * (STEP / self.n)
        return mean

    def variance(self) -> np.ndarray:
        """(C, P) float64 with ddof 1.

        Raises:
            OptionError: fewer than two images.
        """
        if self.n < 2:
            raise OptionError("a variance needs at least two images", got=str(self.n))
        squares = self._high.astype(object) * (1 << 30) + self._low.astype(object)
        total = self._sum.astype(object)
        centred = self.n * squares - total * total
        variance: np.ndarray = (centred / (self.n * (self.n - 1))).astype(np.float64) * STEP**2
        return variance


def r_sad(ref_mean: npt.ArrayLike, gen_mean: npt.ArrayLike) -> np.ndarray:
    """R-SaD: mean refined patch scores of the reference set minus those of the generated set.

    Args:
        ref_mean: (…, P) mean map of the reference set.
        gen_mean: (…, P) mean map of the generated set.

    Returns:
        (…, P) in [−1, 1]; above 0 where the attribute is more prominent in the *reference*. A signed mean difference,
        no divergence; it mixes how often with where.

    Source: arXiv 2608.12088, eqs. 14 and 20.

    >>> r_sad([0.5, 0.25], [0.25, 0.5]).tolist()
    [0.25, -0.25]
    """
    result: np.ndarray = np.asarray(ref_mean, dtype=np.float64) - np.asarray(gen_mean, dtype=np.float64)
    return result


class MapSize(NamedTuple):
    """How large a difference map is.

    Args:
        mar: (…) mean absolute R-SaD.
        level: (…) signed mean: an offset that all cells share, mostly prevalence.
        shape: (…) mean absolute deviation from the level. A change of prevalence of a localised object stays in it.
    """

    mar: np.ndarray
    level: np.ndarray
    shape: np.ndarray


def map_size(difference: npt.ArrayLike) -> MapSize:
    """MAR = mean|R|, level b = mean R, MAR_shape = mean|R − b| over the cells of maps (…, P).

    >>> [round(float(part), 6) for part in map_size([0.3, 0.1])]
    [0.2, 0.2, 0.1]
    """
    maps = np.asarray(difference, dtype=np.float64)
    level = maps.mean(axis=-1)
    return MapSize(np.abs(maps).mean(axis=-1), level, np.abs(maps - level[..., None]).mean(axis=-1))


def mar_noise_floor(ref_variance: npt.ArrayLike, gen_variance: npt.ArrayLike, n: int, m: int) -> np.ndarray:
    """What MAR is on average when nothing differs: sqrt(2/π)·mean_j sqrt(s_j²/N + s'_j²/M).

    >>> mar_noise_floor([1.0], [1.0], 2, 2).round(4).tolist()
    0.7979
    """
    spread = np.sqrt(np.asarray(ref_variance) / n + np.asarray(gen_variance) / m)
    result: np.ndarray = np.sqrt(2.0 / np.pi) * spread.mean(axis=-1)
    return result


def pool_cells(maps: npt.ArrayLike, grid: tuple[int, int], size: int) -> np.ndarray:
    """(…, P) maps averaged to (…, size·size) cells; the grid's sides must be multiples of `size`.

    Raises:
        OptionError: sides that do not divide.

    >>> pool_cells([1.0, 3.0, 5.0, 7.0], (2, 2), 1).tolist()
    [4.0]
    """
    rows, columns = grid
    array = np.asarray(maps, dtype=np.float64)
    if rows % size or columns % size or array.shape[-1] != rows * columns:
        raise OptionError(
            f"maps of {array.shape[-1]} cells must be a grid whose sides are multiples of {size}",
            got=f"{rows} × {columns}",
        )
    cut = array.reshape(*array.shape[:-1], size, rows // size, size, columns // size)
    pooled: np.ndarray = cut.mean(axis=(-3, -1)).reshape(*array.shape[:-1], size * size)
    return pooled


def regions_of(grid: tuple[int, int], size: int) -> tuple[int, int]:
    """Rows and columns of regions: `size` × `size` where the grid's sides are multiples of it, else the grid's own.

    >>> regions_of((14, 14), 7), regions_of((8, 8), 7)
    ((7, 7), (8, 8))
    """
    return grid if grid[0] % size or grid[1] % size else (size, size)


def with_squares(maps: npt.ArrayLike, grid: tuple[int, int], size: int) -> np.ndarray:
    """(…, 2R): maps (…, P) averaged over regions, and the squares of these averages; sums of both give variances.

    >>> with_squares([1.0, 0.0, 0.5, 0.5], (2, 2), 1).tolist()
    [0.5, 0.25]
    """
    regions = regions_of(grid, size)
    pooled = np.asarray(maps, dtype=np.float64) if regions == grid else pool_cells(maps, grid, size)
    return np.concatenate([pooled, pooled * pooled], axis=-1)


def regional_kl(
    ref_mean: npt.ArrayLike, ref_variance: npt.ArrayLike, gen_mean: npt.ArrayLike, gen_variance: npt.ArrayLike,
    *, direction: str = "gen||ref", floor: float = 1e-6,
) -> np.ndarray:  # fmt: skip
    """KL between normal distributions of the patch scores of one cell, cell by cell: ours, not the paper's R-SaD.

    Args:
        ref_mean: (…, P) means over the reference images.
        ref_variance: (…, P) variances.
        gen_mean: the same of the generated set.
        gen_variance: the same of the generated set.
        direction: see `divergence.sad`.
        floor: added to variances.

    Returns:
        (…, P) nats, at least 0.

    >>> regional_kl([0.0], [1.0], [1.0], [1.0], floor=1e-12).round(6).tolist()
    [0.5]
    """
    from beholder.functional.divergence import sad
    from beholder.functional.score_sums import Gaussian

    sides = []
    for mean, variance in ((ref_mean, ref_variance), (gen_mean, gen_variance)):
        column = np.asarray(variance, dtype=np.float64)[..., None, None]
        sides.append(Gaussian(np.asarray(mean, dtype=np.float64)[..., None], column))
    return sad(sides[0], sides[1], direction=direction, floor=floor)[..., 0]  # type: ignore[arg-type]
