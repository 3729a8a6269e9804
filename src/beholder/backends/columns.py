"""Columns whose rows differ in length: how they are made, and how they become flat arrays and back."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_OFFSETS = "//offsets"
_TEXT = "//text"


def object_column(rows: Sequence[Any]) -> np.ndarray:
    """A column with one array, or one text, a row.

    >>> object_column([np.zeros((2, 4)), np.zeros((0, 4))]).shape
    (2,)
    """
    column = np.empty(len(rows), dtype=object)
    for at, row in enumerate(rows):
        column[at] = row
    return column


def nbytes(array: np.ndarray) -> int:
    """Bytes that a column takes in memory."""
    if array.dtype != object:
        return int(array.nbytes)
    return sum(row.nbytes if isinstance(row, np.ndarray) else len(row) for row in array)


def flatten(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Columns as plain arrays: an object column becomes its rows one behind the other, and where each begins."""
    flat: dict[str, np.ndarray] = {}
    for name, array in columns.items():
        if array.dtype != object:
            flat[name] = np.ascontiguousarray(array)
            continue
        texts = len(array) > 0 and all(isinstance(row, str) for row in array)
        rows = [_bytes(row) if texts else np.asarray(row) for row in array]
        flat[name + (_TEXT if texts else "")] = np.ascontiguousarray(np.concatenate(rows)) if rows else np.zeros(0)
        flat[name + _OFFSETS] = np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64)
    return flat


def unflatten(flat: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The columns that `flatten` was given."""
    columns: dict[str, np.ndarray] = {}
    for name, array in flat.items():
        if name.endswith(_OFFSETS):
            continue
        plain = name.removesuffix(_TEXT)
        offsets = flat.get(plain + _OFFSETS)
        if offsets is None:
            columns[name] = array
            continue
        parts: list[Any] = [array[start:end] for start, end in itertools.pairwise(offsets)]
        columns[plain] = object_column([part.tobytes().decode("utf-8", "surrogatepass") for part in parts]
                                       if name.endswith(_TEXT) else parts)  # fmt: skip
    return columns


def _bytes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8)
