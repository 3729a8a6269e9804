"""From a clip's frames, one after another, to numbers: consistency, flicker, smoothness."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError
from beholder.functional.similarity import Embeddings, normalise

JUMP = 0.025
"""How far the quality of two neighbouring frames may differ before both count as artefacts."""


class Consistency(NamedTuple):
    """How alike the frames of a clip are.

    Args:
        value: mean of the other two.
        to_previous: mean over the frames behind the first of max(0, cosine with the frame before).
        to_first: mean over them of max(0, cosine with the first frame).
        worst: number of the frame, from 0, with the least value.
        degenerate: True where a frame's embedding has no direction; then nothing else is to be read.
    """

    value: float
    to_previous: float
    to_first: float
    worst: int
    degenerate: bool


def consistency(embeddings: Embeddings) -> Consistency:
    """VBench's consistency of a clip.

    Args:
        embeddings: (n, d) of the frames in their order, n of 2 or more.

    Returns:
        Values in [0, 1].

    Raises:
        OptionError: fewer than two frames.

    >>> consistency([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]).value
    0.25
    """
    units = normalise(embeddings)
    vectors = units.vectors
    if len(vectors) < 2:
        raise OptionError("consistency needs two frames", got=str(len(vectors)))
    before = _cosines(vectors[1:], vectors[:-1])
    first = _cosines(vectors[1:], np.broadcast_to(vectors[:1], vectors[1:].shape))
    each = (before + first) / 2
    return Consistency(
        float(each.mean()), float(before.mean()), float(first.mean()), int(each.argmin()) + 1,
        bool(units.degenerate.any()),
    )  # fmt: skip


def _cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(n,) float64 cosines of unit rows, cut to [0, 1]."""
    values: np.ndarray = np.clip(np.add.reduce(a * b, axis=1), 0, 1).astype(np.float64)
    return values


def windows(n: int) -> list[tuple[int, int, int]]:
    """The three frames in which each of n frames is seen: it and its neighbours.

    The first frame is seen with itself alone; the last one with the frame before, twice.

    >>> windows(3)
    [(0, 0, 0), (0, 1, 2), (1, 1, 2)]
    """
    return [(0, 0, 0) if at == 0 else (at - 1, at - 1, at) if at == n - 1 else (at - 1, at, at + 1) for at in range(n)]


class Smoothness(NamedTuple):
    """How smoothly the quality of a clip's frames runs.

    Args:
        value: 1 - share of artefact frames.
        artefacts: numbers of the artefact frames, from 0.
        largest_jump: the largest difference of neighbours.
    """

    value: float
    artefacts: tuple[int, ...]
    largest_jump: float


def smoothness(scores: npt.ArrayLike, *, jump: float = JUMP) -> Smoothness:
    """OpenS2V's motion smoothness from the quality of each frame.

    Both frames of every pair of neighbours whose scores differ by more than `jump` are artefacts.

    Args:
        scores: (n,) quality of the frames, n of 2 or more.
        jump: what is still smooth; strict.

    Raises:
        OptionError: fewer than two frames.

    >>> smoothness([0.5, 0.5, 0.6, 0.6])
    Smoothness(value=0.5, artefacts=(1, 2), largest_jump=0.09999999999999998)
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2:
        raise OptionError("smoothness needs the scores of two frames", got=f"shape {values.shape}")
    steps = np.abs(np.diff(values))
    at = np.flatnonzero(steps > jump)
    marked = np.unique(np.concatenate([at, at + 1]))
    return Smoothness(1.0 - len(marked) / len(values), tuple(int(place) for place in marked), float(steps.max()))
