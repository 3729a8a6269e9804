"""Metrics on videos: every frame is scored as a picture, then the frames' scores become one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from beholder.functional.similarity import Reduce, Scores, Units, cosine, cosine_ragged, normalise, reduce_ragged
from beholder.metrics.base import FeatureBatch, Ragged
from beholder.records import OptionInfo

FRAMES = OptionInfo(
    "frames",
    "uniform:8",
    "Which frames of a video are scored: uniform:n, fps:x, first, all or stride:k. A model of "
    "whole clips takes as many as it was trained on, unless another policy is named.",
)
OVER_FRAMES = OptionInfo(
    "over_frames", "mean", "How the frames' scores become one value.", choices=("mean", "max", "min", "median")
)
FRAME_OPTIONS = (FRAMES, OVER_FRAMES)


@dataclass(frozen=True)
class UnitScores:
    """Scores of pictures: one a sample, or one a frame where samples are videos.

    Args:
        values: (k,) scores.
        offsets: (n + 1,) where each sample's own begin, or None where every sample has exactly one.
        image: (n,) bool: an embedding of the sample's pictures has no direction.
        text: (n,) bool: that of its text has none.
    """

    values: np.ndarray
    offsets: np.ndarray | None
    image: np.ndarray
    text: np.ndarray

    def over_frames(self, values: np.ndarray, how: str) -> np.ndarray:
        """One value a sample, from (k,) values made of `self.values`."""
        return reduce_frames(values, self.offsets, how)


def reduce_frames(values: np.ndarray, offsets: np.ndarray | None, how: str) -> np.ndarray:
    """(k,) values of frames to (n,) values of samples; as they are where `offsets` is None."""
    if offsets is None:
        return values
    plain = Scores(np.asarray(values, dtype=np.float64), np.zeros(len(values), dtype=bool))
    return reduce_ragged(plain, offsets, reduce=cast("Reduce", how)).values


def image_text_scores(batch: FeatureBatch, *, image: str = "image", text: str = "text") -> UnitScores:
    """Cosines of every picture of a sample with the sample's text."""
    texts = normalise(batch.one(text))
    pictures = batch.slots[image]
    if not isinstance(pictures, Ragged):
        units = normalise(pictures["embedding"])
        return UnitScores(cosine(units, texts).values, None, units.degenerate, texts.degenerate)
    units = normalise(pictures.columns["embedding"])
    cosines = cosine_ragged(texts, units, pictures.offsets)
    return UnitScores(cosines.values, pictures.offsets, any_of(units, pictures.offsets), texts.degenerate)


def any_of(units: Units, offsets: np.ndarray) -> np.ndarray:
    """(n,) bool: one of a sample's pictures has an embedding without direction."""
    return np.logical_or.reduceat(units.degenerate, offsets[:-1]) if len(units.degenerate) else np.zeros(0, bool)
