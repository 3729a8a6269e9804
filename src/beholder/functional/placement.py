"""Where an attribute is placed, apart from how often it occurs: normalised heat maps and how they differ."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError
from beholder.functional.divergence import jensen_shannon
from beholder.functional.similarity import choice

Background = Literal["min", "q05"]
MASS_FLOOR = 0.002
"""Least mean of a heat map above its background: below it, place is not told. Tuned on drawn scenes (see the docs)."""


class Placement(NamedTuple):
    """How the place of an attribute differs between two sets; generated minus reference.

    Args:
        jsd: (…) Jensen-Shannon divergence of the heat maps, nats.
        w1_x: (…) W1 of the column marginals, in image widths.
        w1_y: (…) W1 of the row marginals, in image heights.
        shift_x: (…) shift of the centroid to the right, in image widths.
        shift_y: (…) shift downwards, in image heights.
        spread_ratio: (…) root mean square distance from the centroid, generated over reference.
        mass_ref: (…) mean of the reference heat map above its background.
        mass_gen: (…) the same of the generated set.
        enough: (…) bool: both masses are above the floor; elsewhere nothing else must be read.
    """

    jsd: np.ndarray
    w1_x: np.ndarray
    w1_y: np.ndarray
    shift_x: np.ndarray
    shift_y: np.ndarray
    spread_ratio: np.ndarray
    mass_ref: np.ndarray
    mass_gen: np.ndarray
    enough: np.ndarray


def excess(mean_maps: npt.ArrayLike, *, background: Background = "min") -> np.ndarray:
    """(…, P) mean maps above their own background, at least 0.

    Args:
        mean_maps: (…, P) mean refined patch scores.
        background: "min", the least cell, or "q05", the 5 % quantile over cells.

    >>> excess([0.25, 0.5]).tolist()
    [0.0, 0.25]
    """
    choice("background", background, Background)
    maps = np.asarray(mean_maps, dtype=np.float64)
    level = np.quantile(maps, 0.0 if background == "min" else 0.05, axis=-1, keepdims=True)
    return np.maximum(maps - level, 0.0)


def shares(heat: npt.ArrayLike) -> np.ndarray:
    """(…, P) heat maps as distributions over cells; an empty map becomes the even one.

    >>> shares([1.0, 3.0]).tolist()
    [0.25, 0.75]
    """
    maps = np.asarray(heat, dtype=np.float64)
    total = maps.sum(axis=-1, keepdims=True)
    return np.where(total > 0, maps / np.where(total > 0, total, 1.0), 1.0 / maps.shape[-1])


def placement(
    ref_mean: npt.ArrayLike,
    gen_mean: npt.ArrayLike,
    grid: tuple[int, int],
    *,
    background: Background = "min",
    mass_floor: float = MASS_FLOOR,
) -> Placement:
    """How the place of an attribute differs, whatever its frequency.

    Each mean map is taken above its background and divided by its sum: p. Then JSD(p_ref, p_gen); W1 along an axis =
    sum|cumsum(p − q)| / number of cells, of the marginals; shifts of the centroid.

    Args:
        ref_mean: (…, P) mean maps of the reference set.
        gen_mean: (…, P) mean maps of the generated set.
        grid: (rows, columns), rows·columns = P.
        background: see `excess`.
        mass_floor: least mean of a map above its background.

    Degenerate: too little mass in a set leaves `enough` False (status `not_enough_evidence`).

    Source: ours. Objects that the border cuts make W1 a little less than the true shift. Positions are shares of the
    crop that the encoder saw.

    >>> found = placement([1.0, 0.0], [0.0, 1.0], (1, 2))
    >>> found.shift_x.tolist(), found.w1_x.tolist(), found.jsd.round(4).tolist()
    (0.5, 0.5, 0.6931)
    """
    first, second = (excess(side, background=background) for side in (ref_mean, gen_mean))
    masses = first.mean(axis=-1), second.mean(axis=-1)
    p, q = shares(first), shares(second)
    enough = (masses[0] > mass_floor) & (masses[1] > mass_floor)
    return Placement(*compare_shares(p, q, grid), masses[0], masses[1], enough)


def compare_shares(
    p: np.ndarray, q: np.ndarray, grid: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The first six parts of `Placement` for two distributions over cells."""
    rows, columns = grid
    if p.shape[-1] != rows * columns:
        raise OptionError(f"maps of {p.shape[-1]} cells must fill the grid", got=f"{rows} × {columns}")
    cut = [side.reshape(*side.shape[:-1], rows, columns) for side in (p, q)]
    across = [side.sum(axis=-2) for side in cut]
    down = [side.sum(axis=-1) for side in cut]
    w1 = [np.abs(np.cumsum(a - b, axis=-1)).sum(axis=-1) / a.shape[-1] for a, b in (across, down)]
    centres = [[_centroid(side) for side in axis] for axis in (across, down)]
    shifts = [axis[1] - axis[0] for axis in centres]
    spreads = [np.sqrt(_variance(across[k], centres[0][k]) + _variance(down[k], centres[1][k])) for k in (0, 1)]
    ratio = spreads[1] / np.where(spreads[0] > 0, spreads[0], 1.0)
    return jensen_shannon(p, q), w1[0], w1[1], shifts[0], shifts[1], ratio


def _middles(count: int) -> np.ndarray:
    middles: np.ndarray = (np.arange(count) + 0.5) / count
    return middles


def _centroid(marginal: np.ndarray) -> np.ndarray:
    centre: np.ndarray = (marginal * _middles(marginal.shape[-1])).sum(axis=-1)
    return centre


def _variance(marginal: np.ndarray, centre: np.ndarray) -> np.ndarray:
    away = np.square(_middles(marginal.shape[-1]) - centre[..., None])
    variance: np.ndarray = (marginal * away).sum(axis=-1)
    return variance
