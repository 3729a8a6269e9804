"""Which attributes of a list occur at all: prevalence, spread, and a flag. Nothing is ever dropped by it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

PREVALENCE_FLOOR = 0.01
SPREAD_FLOOR = 0.02


class Relevance(NamedTuple):
    """Of each attribute, in both sets.

    Args:
        prevalence_ref: (C,) share of reference images that score above one half.
        prevalence_gen: (C,) share of generated images.
        spread_ref: (C,) standard deviation of the scores (ddof 1; 0 for one image).
        spread_gen: (C,) the same of the generated set.
        irrelevant: (C,) bool: both prevalences and both spreads are below their floors.
    """

    prevalence_ref: np.ndarray
    prevalence_gen: np.ndarray
    spread_ref: np.ndarray
    spread_gen: np.ndarray
    irrelevant: np.ndarray


def relevance(
    ref: npt.ArrayLike,
    gen: npt.ArrayLike,
    *,
    prevalence_floor: float = PREVALENCE_FLOOR,
    spread_floor: float = SPREAD_FLOOR,
) -> Relevance:
    """Prevalence and spread of scores in [0, 1], and who is below both floors in both sets.

    Args:
        ref: (N, C) scores.
        gen: (M, C) scores.
        prevalence_floor: an attribute that fewer images than this share show …
        spread_floor: … and whose scores vary less than this is flagged. Neither value is established: print them.

    Source: ours.

    >>> relevance([[0.0, 0.9], [0.0, 0.1]], [[0.0, 0.2], [0.0, 0.3]]).irrelevant.tolist()
    [True, False]
    """
    sides = [np.asarray(side, dtype=np.float64) for side in (ref, gen)]
    shares = [(side > 0.5).mean(axis=0) for side in sides]
    spreads = [side.std(axis=0, ddof=1) if len(side) > 1 else np.zeros(side.shape[1]) for side in sides]
    rare = (shares[0] < prevalence_floor) & (shares[1] < prevalence_floor)
    flat = (spreads[0] < spread_floor) & (spreads[1] < spread_floor)
    return Relevance(shares[0], shares[1], spreads[0], spreads[1], rare & flat)
