"""Scores of learned human preference, and what they say about the candidates of one prompt."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError
from beholder.functional.similarity import Embeddings, Scores, cosine, owners


def pick_score(images: Embeddings, texts: Embeddings, *, scale: float) -> Scores:
    """PickScore of image i with text i: scale · cos, where scale = exp(logit_scale) of the checkpoint.

    Args:
        images: (n, d) image embeddings.
        texts: (n, d) text embeddings of the same model.
        scale: exp of the checkpoint's stored logit scale; always read, never assumed.

    Returns:
        (n,) values in [-scale, scale].

    Raises:
        OptionError: shapes differ, or the scale is no positive finite number.

    Degenerate: flagged where either side is zero or not finite.
    Source: arXiv 2305.01569.

    >>> pick_score([[3.0, 4.0]], [[1.0, 0.0]], scale=100.0).values.round(4)
    array([60.])
    """
    if not (np.isfinite(scale) and scale > 0):
        raise OptionError("the logit scale of a checkpoint must be a positive finite number", got=repr(scale))
    found = cosine(images, texts)
    return Scores(scale * found.values, found.degenerate)


def win_probabilities(scores: npt.ArrayLike) -> np.ndarray:
    """The chance that each candidate of one prompt is preferred: softmax over their scores.

    Args:
        scores: (k,) scores of k >= 2 candidates of one prompt, finite.

    Returns:
        (k,) float64 in [0, 1] that sum to 1.

    Raises:
        OptionError: fewer than two candidates, or a score that is not finite.

    Source: arXiv 2305.01569.

    >>> win_probabilities([21.0, 21.0])
    array([0.5, 0.5])
    """
    values = np.asarray(scores, dtype=np.float64)
    return grouped_win_probabilities(values, [0, values.shape[0] if values.ndim == 1 else 0])


def grouped_win_probabilities(scores: npt.ArrayLike, offsets: npt.ArrayLike) -> np.ndarray:
    """`win_probabilities` of many prompts at once.

    Args:
        scores: (k,) scores, the candidates of each prompt one after another.
        offsets: (p + 1,) integers: prompt j owns scores offsets[j]:offsets[j+1], two or more.

    Returns:
        (k,) float64 in [0, 1] that sum to 1 over each prompt.

    Raises:
        OptionError: a prompt with fewer than two candidates, offsets that do not fit, a score that is not finite.

    >>> grouped_win_probabilities([0.0, 0.0, 5.0, 5.0], [0, 2, 4])
    array([0.5, 0.5, 0.5, 0.5])
    """
    values, edges = np.asarray(scores, dtype=np.float64), np.asarray(offsets, dtype=np.intp)
    owner = owners(edges, rows=len(edges) - 1, items=len(values) if values.ndim == 1 else -1)
    sizes = np.diff(edges)
    if len(sizes) and sizes.min() < 2:
        raise OptionError("a win probability needs two or more candidates of one prompt", got=f"{sizes.min()}")
    if not np.isfinite(values).all():
        raise OptionError("the scores of all candidates must be finite", got="one that is not")
    if not len(sizes):
        return values.copy()
    begin = edges[:-1]
    power = np.exp(values - np.maximum.reduceat(values, begin)[owner])
    result: np.ndarray = power / np.add.reduceat(power, begin)[owner]
    return result
