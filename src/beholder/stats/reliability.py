"""How far people agree with one another: Krippendorff's alpha. No metric can be asked to agree better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from beholder._errors import OptionError

Scale = Literal["nominal", "ordinal", "interval"]
SCALES = ("nominal", "ordinal", "interval")


@dataclass(frozen=True)
class Alpha:
    """Krippendorff's alpha.

    Args:
        value: 1 for full agreement, 0 for that of chance, below 0 for worse; None where it is not defined.
        n_items: items with two or more ratings.
        n_ratings: ratings of those items.
        n_raters: people.
        note: why there is no value, or None.
    """

    value: float | None
    n_items: int
    n_ratings: int
    n_raters: int
    note: str | None = None


def krippendorff_alpha(
    ratings: np.ndarray, items: np.ndarray, raters: np.ndarray, *, scale: Scale = "ordinal"
) -> Alpha:
    """Agreement of raters beyond chance, with any number of ratings an item.

    alpha = 1 − D_o/D_e with D = Σ o_ck δ²_ck over the coincidences o of values c and k (observed: pairs of ratings of
    one item, each item's pairs weighing 1/(m_u − 1); expected: n_c n_k/(n − 1)). δ² is 1 for unequal values (nominal),
    (c − k)² (interval), or (Σ from c to k of n_g − (n_c + n_k)/2)² (ordinal).

    Args:
        ratings: (n,) finite.
        items: (n,) code of the rated item.
        raters: (n,) code of the person.
        scale: what differences between ratings mean.

    Degenerate: one rater, no item with two ratings, or only one value used: no alpha, and a note that says why.

    Source: Krippendorff, Content Analysis, 2004, chapter 11.

    >>> import numpy as np
    >>> krippendorff_alpha(np.array([1.0, 1.0, 2.0, 2.0]), np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])).value
    1.0
    """
    if scale not in SCALES:
        raise OptionError(f"a scale must be one of: {', '.join(SCALES)}", got=repr(scale))
    people = len(np.unique(raters))
    codes = np.unique(items, return_inverse=True)[1]
    sizes = np.bincount(codes, minlength=1)
    pairable = sizes[codes] > 1
    kept, codes = np.asarray(ratings, dtype=np.float64)[pairable], codes[pairable]
    shared = int((sizes > 1).sum())
    if people < 2 or not len(kept):
        note = "there is one rater" if people < 2 else "no item was rated by two people"
        return Alpha(None, shared, len(kept), people, note)
    values, levels = np.unique(kept, return_inverse=True)
    if len(values) < 2:
        return Alpha(None, shared, len(kept), people, "all ratings are equal: there is nothing to agree on")
    counts = np.bincount(levels).astype(np.float64)
    place = _places(values, counts, scale)
    observed = _observed(place[levels], codes, sizes, nominal=scale == "nominal")
    n = len(kept)
    if scale == "nominal":
        expected = (n * n - float(np.square(counts).sum())) / (n - 1)
    else:
        centred = place - float((counts * place).sum()) / n
        expected = 2 * n * float((counts * centred**2).sum()) / (n - 1)
    return Alpha(1.0 - observed / expected, shared, n, people)


def _places(values: np.ndarray, counts: np.ndarray, scale: Scale) -> np.ndarray:
    """Numbers whose squared differences are δ²: the values, or for ordinal ratings the middles of their ranks."""
    if scale == "ordinal":
        return np.cumsum(counts) - counts / 2
    return values if scale == "interval" else np.arange(len(values), dtype=np.float64)


def _observed(place: np.ndarray, codes: np.ndarray, sizes: np.ndarray, *, nominal: bool) -> float:
    """Σ over items of (Σ over ordered pairs of δ²)/(m − 1)."""
    m = sizes.astype(np.float64)
    inner = m > 1
    if nominal:
        both, counts = np.unique(np.column_stack([codes, place]), axis=0, return_counts=True)
        equal = np.bincount(both[:, 0].astype(np.intp), weights=np.square(counts), minlength=len(m))
        return float(((np.square(m) - equal)[inner] / (m[inner] - 1)).sum())
    mean = np.bincount(codes, weights=place, minlength=len(m)) / np.maximum(m, 1)
    squares = np.bincount(codes, weights=np.square(place - mean[codes]), minlength=len(m))
    return float((2 * m[inner] * squares[inner] / (m[inner] - 1)).sum())
