"""Cosines of embeddings: arrays in, arrays out.

Embeddings may be float16, float32 or float64 and need no normalisation: every function normalises both sides itself,
in float32, and multiplies in float32. Values come back as float64. A row that has no direction (all zeros, or a number
that is not finite) is flagged `degenerate`; its value is 0.0 and must not be read.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Union, get_args

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError

Reduce = Literal["mean", "max", "min", "median", "first"]

ROUNDING = 1e-5
"""By how much a float32 cosine may leave [-1, 1] through rounding; such a value is set to -1 or 1."""


class Scores(NamedTuple):
    """Values with the places where there is none.

    Args:
        values: float64; 0.0 where `degenerate`, to be left unread.
        degenerate: bool, same shape: True where a side has no direction.
    """

    values: np.ndarray
    degenerate: np.ndarray


class Units(NamedTuple):
    """Rows scaled to length 1.

    Args:
        vectors: (n, d) float32; zeros where `degenerate`.
        degenerate: (n,) bool: the row was zero or not finite.
    """

    vectors: np.ndarray
    degenerate: np.ndarray


Embeddings = Union[npt.ArrayLike, Units]
"""Embeddings (n, d), or what `normalise` made of them, which is then taken as it is."""


def normalise(features: Embeddings) -> Units:
    """x / |x| for every row, in float32.

    A row is first divided by its largest magnitude, so neither very large nor very small features overflow, and
    scaling a feature by a power of two changes nothing at all.

    Args:
        features: (n, d), any real dtype; unit rows are given back as they are.

    Returns:
        Unit rows and the flag of the rows that have no direction.

    Raises:
        OptionError: not a matrix.

    Degenerate: a zero or non-finite row becomes zeros and is flagged.

    >>> normalise([[3.0, 4.0], [0.0, 0.0]])
    Units(vectors=array([[0.6, 0.8],
           [0. , 0. ]], dtype=float32), degenerate=array([False,  True]))
    """
    if isinstance(features, Units):
        return features
    array = matrix(features)
    peak = np.max(np.abs(array), axis=1, initial=0.0, keepdims=True)
    good = np.isfinite(peak) & (peak > 0)
    # The division is by a number of the input's own precision: float64 features far outside float32 keep their ratios.
    scaled = np.where(good, array, 0) / np.where(good, peak, 1)
    vectors = np.ascontiguousarray(scaled, dtype=np.float32)
    length = np.sqrt(np.add.reduce(vectors * vectors, axis=1, keepdims=True))
    vectors /= np.where(good, length, np.float32(1))
    return Units(vectors, ~good[:, 0])


def cosine(a: Embeddings, b: Embeddings) -> Scores:
    """cos(a_i, b_i) for every row i.

    Each row's value depends on that row alone, bit for bit, whatever stands beside it in the batch.

    Args:
        a: (n, d) embeddings.
        b: (n, d) embeddings.

    Returns:
        (n,) cosines in [-1, 1]; only rounding (at most `ROUNDING`) is clipped.

    Raises:
        OptionError: shapes differ.

    Degenerate: flagged where either side is zero or not finite.

    >>> cosine([[1.0, 0.0], [2.0, 0.0]], [[3.0, 4.0], [-5.0, 0.0]]).values.round(6)
    array([ 0.6, -1. ])
    """
    left, right = normalise(a), normalise(b)
    if left.vectors.shape != right.vectors.shape:
        raise OptionError(
            "paired embeddings must have equal shapes (n, d)",
            got=f"{left.vectors.shape} and {right.vectors.shape}",
            fix="Use cosine_matrix for every row with every row",
        )
    return _dots(left, right)


def cosine_matrix(a: Embeddings, b: Embeddings) -> Scores:
    """cos(a_i, b_j) for every pair of rows, by one matrix product.

    Args:
        a: (m, d) embeddings.
        b: (n, d) embeddings.

    Returns:
        (m, n) cosines in [-1, 1].

    Raises:
        OptionError: widths differ.

    Degenerate: flagged where either side is zero or not finite.

    Differs from `cosine` by at most a few float32 units in the last place: the matrix product sums in another order.

    >>> cosine_matrix([[1.0, 0.0]], [[3.0, 4.0], [0.0, 2.0]]).values.round(6)
    array([[0.6, 0. ]])
    """
    left, right = normalise(a), normalise(b)
    _same_width(left, right)
    values = _bounded(left.vectors @ right.vectors.T)
    return Scores(values, np.logical_or.outer(left.degenerate, right.degenerate))


def cosine_ragged(a: Embeddings, b: Embeddings, offsets: npt.ArrayLike) -> Scores:
    """cos(a_i, b_k) for every k with offsets[i] <= k < offsets[i+1]: each row with its own list.

    Args:
        a: (n, d) embeddings.
        b: (k, d) embeddings, the lists one after another.
        offsets: (n + 1,) integers from 0 to k, never falling.

    Returns:
        (k,) cosines in [-1, 1], in the order of `b`.

    Raises:
        OptionError: widths differ, or the offsets do not fit.

    Degenerate: flagged where either side is zero or not finite; an empty list has no values.

    >>> cosine_ragged([[1.0, 0.0], [0.0, 1.0]], [[3.0, 4.0], [1.0, 0.0], [0.0, 2.0]], [0, 2, 3]).values.round(6)
    array([0.6, 1. , 1. ])
    """
    left, right = normalise(a), normalise(b)
    _same_width(left, right)
    owner = owners(offsets, rows=len(left.vectors), items=len(right.vectors))
    return _dots(Units(left.vectors[owner], left.degenerate[owner]), right)


def reduce_ragged(scores: Scores, offsets: npt.ArrayLike, *, reduce: Reduce = "mean") -> Scores:
    """One value a list: the mean, the largest, the smallest, the median or the first of its values.

    Args:
        scores: (k,) values of all lists, one after another.
        offsets: (n + 1,) integers, see `cosine_ragged`.
        reduce: how a list becomes one value; a mean is taken in float64.

    Returns:
        (n,) values in the range of the values that came in.

    Raises:
        OptionError: an unknown `reduce`, or offsets that do not fit.

    Degenerate: a list with a degenerate member, or with none, is flagged.

    >>> reduce_ragged(Scores(np.array([0.2, 0.6, 1.0]), np.zeros(3, bool)), [0, 2, 3], reduce="max").values
    array([0.6, 1. ])
    """
    choice("reduce", reduce, Reduce)
    edges = np.asarray(offsets, dtype=np.intp)
    owners(edges, rows=len(edges) - 1, items=len(scores.values))
    starts, sizes = edges[:-1], np.diff(edges)
    filled = sizes > 0
    values, bad = np.zeros(len(starts)), ~filled
    # An empty list would make reduceat return its neighbour's value, so only filled lists take part.
    begin = starts[filled]
    if len(begin):
        if reduce == "first":
            values[filled] = scores.values[begin]
        elif reduce == "max":
            values[filled] = np.maximum.reduceat(scores.values, begin)
        elif reduce == "min":
            values[filled] = np.minimum.reduceat(scores.values, begin)
        elif reduce == "median":
            parts = np.split(scores.values, begin[1:])
            values[filled] = [np.median(part) for part in parts]
        else:
            values[filled] = np.add.reduceat(scores.values, begin) / sizes[filled]
        bad[filled] = np.logical_or.reduceat(scores.degenerate, begin)
    return Scores(np.where(bad, 0.0, values), bad)


def matrix(features: npt.ArrayLike) -> np.ndarray:
    """Embeddings as a real floating matrix (n, d); half precision is widened to float32."""
    array = np.asarray(features)
    if array.ndim != 2:
        raise OptionError("embeddings must be a matrix (n, d)", got=f"shape {array.shape}")
    if array.dtype.kind not in "fiub":
        raise OptionError("embeddings must be real numbers", got=f"dtype {array.dtype}")
    if array.dtype.kind != "f":
        return array.astype(np.float64)
    return array.astype(np.float32) if array.dtype.itemsize < 4 else array


def _dots(left: Units, right: Units) -> Scores:
    # A row-wise sum, not a matrix product: a row's bits then do not depend on how many rows the batch has.
    dots = np.add.reduce(left.vectors * right.vectors, axis=1)
    return Scores(_bounded(dots), np.logical_or(left.degenerate, right.degenerate))


def _bounded(dots: np.ndarray) -> np.ndarray:
    values: np.ndarray = dots.astype(np.float64)
    rounded = (np.abs(values) > 1) & (np.abs(values) <= 1 + ROUNDING)
    return np.where(rounded, np.sign(values), values)


def _same_width(left: Units, right: Units) -> None:
    if left.vectors.shape[1] != right.vectors.shape[1]:
        raise OptionError(
            "embeddings must have one width d",
            got=f"{left.vectors.shape[1]} and {right.vectors.shape[1]}",
            fix="Compare embeddings of one model only",
        )


def owners(offsets: npt.ArrayLike, *, rows: int, items: int) -> np.ndarray:
    """The row that each item of a ragged list belongs to; offsets that do not fit are an error."""
    edges = np.asarray(offsets, dtype=np.intp)
    fits = edges.ndim == 1 and len(edges) == rows + 1 and len(edges) > 0 and edges[0] == 0 and edges[-1] == items
    if not fits or (np.diff(edges) < 0).any():
        raise OptionError(
            f"offsets must hold {rows + 1} integers that rise from 0 to {items}",
            got=np.array2string(edges, threshold=8),
        )
    return np.repeat(np.arange(rows), np.diff(edges))


def choice(name: str, value: str, allowed: Any) -> None:
    """Refuses a value that is not one of a Literal's."""
    if value not in get_args(allowed):
        raise OptionError(f"{name} must be one of: {', '.join(get_args(allowed))}", got=repr(value))
