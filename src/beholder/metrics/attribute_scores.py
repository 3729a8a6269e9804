"""From features to scores of a list of attributes: what `beholder attributes` and the metrics of sets share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from beholder.backends.base import Columns
from beholder.functional.patches import Refine, global_column, patch_cosines, ra_clip_scores
from beholder.metrics.attribute_lists import Attribute


def fill(template: str, text: str) -> str:
    """A template with its braces replaced; one without braces is put before the text.

    >>> fill("This is a photo of {}.", "a cat")
    'This is a photo of a cat.'
    """
    return template.replace("{}", text) if "{}" in template else template + text


def prompt_pair(attribute: Attribute, positive: str, negative: str) -> tuple[str, str]:
    """The two prompts of an attribute; a counterpart takes the positive template.

    >>> prompt_pair(Attribute("open eyes", "closed eyes"), "{}!", "no {}!")
    ('open eyes!', 'closed eyes!')
    """
    if attribute.counterpart:
        return fill(positive, attribute.positive), fill(positive, attribute.counterpart)
    return fill(positive, attribute.positive), fill(negative, attribute.positive)


@dataclass(frozen=True)
class RaOptions:
    """How RA-CLIPScores are made: the options of `ra_clip_score` that are no prompts.

    Args:
        tau, tau_agg: temperatures; 0 or less takes the model's, and `tau`.
        refine, renormalize_rows, include_cls, dual, local, global_layer: see `ra_clip_score`.
    """

    tau: float = 0.0
    tau_agg: float = 0.0
    refine: str = "mean"
    renormalize_rows: bool = True
    include_cls: bool = True
    dual: bool = True
    local: bool = True
    global_layer: str = "L"

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> RaOptions:
        """From options or settings of these names."""
        return cls(**{name: options[name] for name in cls.__dataclass_fields__})

    def arguments(self, logit_scale: float) -> dict[str, Any]:
        """What `ra_clip_scores` takes."""
        tau = self.tau if self.tau > 0 else logit_scale
        return {
            "tau": tau, "tau_agg": self.tau_agg if self.tau_agg > 0 else tau, "refine_by": cast("Refine", self.refine),
            "renormalize_rows": self.renormalize_rows, "include_cls": self.include_cls, "dual": self.dual,
            "local": self.local,
        }  # fmt: skip


class ScoredPictures(NamedTuple):
    """Attributes of n pictures.

    Args:
        scores: (n, C) RA-CLIPScores.
        maps: (n, C, P) refined patch scores.
        degenerate: (n,) bool: a token or a text has no direction; the rest must not be read.
        grid: rows and columns of the patches.
    """

    scores: np.ndarray
    maps: np.ndarray
    degenerate: np.ndarray
    grid: tuple[int, int]


def score_pictures(
    columns: Columns, positive: np.ndarray, negative: np.ndarray, options: RaOptions, logit_scale: float
) -> ScoredPictures:
    """RA-CLIPScores of pictures for C attributes.

    Args:
        columns: features of the kind "patches".
        positive, negative: (C, d) embeddings of the prompts.
        options: how.
        logit_scale: the model's.
    """
    cosines = patch_cosines(columns[global_column(options.global_layer)], columns["patches"], positive, negative)
    found = ra_clip_scores(cosines, columns["attention"], **options.arguments(logit_scale))
    grid = int(columns["grid"][0, 0]), int(columns["grid"][0, 1])
    return ScoredPictures(found.scores, found.maps, cosines.degenerate, grid)


def pair_texts(attributes: Sequence[Attribute], positive: str, negative: str) -> list[str]:
    """All positive prompts, then all negative ones."""
    pairs = [prompt_pair(item, positive, negative) for item in attributes]
    return [pair[0] for pair in pairs] + [pair[1] for pair in pairs]
