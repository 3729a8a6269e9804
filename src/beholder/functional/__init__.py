"""Pure maths: arrays in, arrays out; no files, models, devices or global state."""

from __future__ import annotations

from beholder.functional.clip import clamp_aggregate, clip_i, clip_score, ref_clip_score, scale_cosine
from beholder.functional.matching import match_probability
from beholder.functional.preference import grouped_win_probabilities, pick_score, win_probabilities
from beholder.functional.similarity import (
    Scores,
    Units,
    cosine,
    cosine_matrix,
    cosine_ragged,
    normalise,
    reduce_ragged,
)

__all__ = [
    "Scores",
    "Units",
    "clamp_aggregate",
    "clip_i",
    "clip_score",
    "cosine",
    "cosine_matrix",
    "cosine_ragged",
    "grouped_win_probabilities",
    "match_probability",
    "normalise",
    "pick_score",
    "reduce_ragged",
    "ref_clip_score",
    "scale_cosine",
    "win_probabilities",
]
