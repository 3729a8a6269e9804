"""PickScore: learned human preference of an image for a prompt, and the win probability among candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from beholder._errors import ModelError
from beholder.functional.preference import grouped_win_probabilities
from beholder.manifest.schema import Sample
from beholder.metrics.base import FeatureBatch, ScoreColumns
from beholder.metrics.frames import FRAME_OPTIONS
from beholder.metrics.outcome import Range, make_scores, truncation_evidence
from beholder.metrics.text_image import TextImageMetric
from beholder.records import MetricInfo, OptionInfo, Status

DEFAULT_MODEL = "pickscore-v1"


class PickScore(TextImageMetric):
    """`pick_score`: see its card."""

    prompts_describe_reconstructions = False

    info = MetricInfo(
        name="pick_score",
        family="preference",
        kind="sample",
        summary="How much people would prefer the output for its prompt: PickScore, or its win probability.",
        inputs=("output", "prompt", "task"),
        formula=(
            "score: exp(logit_scale) cos(f(x), g(t)); "
            "probability: softmax of the scores over the candidates of one prompt"
        ),
        unit="logit",
        range=(None, None),
        higher_is_better=True,
        degenerate=(
            "The task reconstruction has the status not_applicable, and so has the probability of a prompt's only "
            "candidate; a blank prompt has the status empty_prompt; an embedding that is zero or not finite has the "
            "status degenerate_embedding."
        ),
        paper=(
            "Kirstain et al., Pick-a-Pic: An Open Dataset of User Preferences for Text-to-Image Generation, "
            "arXiv 2305.01569"
        ),
        reference_code="https://github.com/yuvalkirstain/PickScore",
        version="1",
        capability="ImageTextEncoder",
        default_model=DEFAULT_MODEL,
        options=(
            OptionInfo("model", DEFAULT_MODEL, "Checkpoint; --model does not change it, since it is the metric."),
            OptionInfo(
                "output",
                "score",
                "The score itself, or its softmax over the candidates of one prompt.",
                choices=("score", "probability"),
            ),
            *FRAME_OPTIONS,
        ),
        licence_note="The licence of the weights stands in the model's card.",
        notes=(
            "The score lies between -s and s, s = exp(logit_scale) being read from the checkpoint; a value outside is "
            "a fault. It does not lie between 0 and 1. A probability does.",
            "The candidates of a prompt are all scored rows of the run with the same text; scores of different prompts "
            "are not compared.",
            "A probability depends on which candidates the run holds: compare probabilities of equal sets only.",
        ),
    )

    @classmethod
    def takes_model(cls) -> bool:
        return False

    @property
    def unit(self) -> str:
        return "probability" if self._gives_probability else self.info.unit

    @property
    def value_range(self) -> Range:
        return (0.0, 1.0) if self._gives_probability else self.info.range

    @property
    def _gives_probability(self) -> bool:
        return self.options["output"] == "probability"

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        scale = self._scale(batch)
        units = self.unit_scores(batch)
        return make_scores(
            self.over_frames(units, scale * units.values),
            degenerate={"image": units.image, "text": units.text},
            within=(-scale, scale),
            evidence=truncation_evidence(self.text_columns(batch)),
        )

    def group_key(self, sample: Sample) -> str | None:
        return self.scored_text(sample) if self._gives_probability else None

    def score_groups(self, values: np.ndarray, groups: Sequence[np.ndarray]) -> ScoreColumns:
        if not self._gives_probability:
            return ScoreColumns(values)
        result = np.zeros(len(values))
        sizes = np.array([len(group) for group in groups], dtype=np.intp)
        several = [group for group in groups if len(group) > 1]
        if several:
            rows = np.concatenate(several)
            edges = np.concatenate(([0], np.cumsum(sizes[sizes > 1])))
            result[rows] = grouped_win_probabilities(values[rows], edges)
        alone = "a win probability needs two or more candidates of one prompt, and this prompt has one scored row"
        single = {int(group[0]): (Status.NOT_APPLICABLE, alone) for group in groups if len(group) == 1}
        return make_scores(result, degenerate={}, within=(0.0, 1.0), statuses=single)

    def describe(self) -> dict[str, Any]:
        return {
            "output": self.options["output"],
            "scale": "exp(logit_scale)",
            "clamp": "none",
            "template": "{text}",
            "text": "prompt",
            "range": [0.0, 1.0] if self._gives_probability else ["-exp(logit_scale)", "exp(logit_scale)"],
        }

    def _scale(self, batch: FeatureBatch) -> float:
        constants = batch.constants.get("text", {})
        if "logit_scale" not in constants:
            raise ModelError(
                "pick_score needs a model whose checkpoint holds a logit scale",
                got=str(self.options["model"]),
                fix=f"Use the default model, {DEFAULT_MODEL}",
            )
        scale = float(constants["logit_scale"])
        if not (math.isfinite(scale) and scale > 0):
            raise ModelError("a checkpoint's logit scale must be a positive finite number", got=repr(scale))
        return scale
