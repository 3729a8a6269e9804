"""PickScore and HPS: learned human preference of an image for a prompt, and win probabilities among candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

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
OUTPUT = OptionInfo(
    "output",
    "score",
    "The score itself, or its softmax over the candidates of one prompt.",
    choices=("score", "probability"),
)


class PreferenceMetric(TextImageMetric):
    """A cosine of image and prompt by a model trained on what people preferred; subclasses bring card and scale."""

    prompts_describe_reconstructions = False

    scale_name: ClassVar[Any] = "exp(logit_scale)"
    described_range: ClassVar[Any] = ["-exp(logit_scale)", "exp(logit_scale)"]

    @classmethod
    def takes_model(cls) -> bool:
        return False

    @property
    def unit(self) -> str:
        return "probability" if self.gives_probability else self.info.unit

    @property
    def value_range(self) -> Range:
        return (0.0, 1.0) if self.gives_probability else self.info.range

    @property
    def gives_probability(self) -> bool:
        """True for the win probability, False for the score."""
        return self.options["output"] == "probability"

    def factor(self, batch: FeatureBatch) -> float:
        """What a cosine is multiplied by to become the score."""
        return self.scale(batch)

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        # A probability is a softmax of scaled cosines, whatever the score's own scale is.
        factor = self.scale(batch) if self.gives_probability else self.factor(batch)
        units = self.unit_scores(batch)
        return make_scores(
            self.over_frames(units, factor * units.values),
            degenerate={"image": units.image, "text": units.text},
            within=(-factor, factor),
            evidence=truncation_evidence(self.text_columns(batch)),
        )

    def group_key(self, sample: Sample) -> str | None:
        return self.scored_text(sample) if self.gives_probability else None

    def score_groups(self, values: np.ndarray, groups: Sequence[np.ndarray]) -> ScoreColumns:
        if not self.gives_probability:
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
            "scale": self.scale_name,
            "clamp": "none",
            "template": "{text}",
            "text": "prompt",
            "range": [0.0, 1.0] if self.gives_probability else self.described_range,
        }

    def scale(self, batch: FeatureBatch) -> float:
        """The checkpoint's logit scale, exp of the stored parameter.

        Raises:
            ModelError: the model has none, or one that is no positive number.
        """
        constants = batch.constants.get("text", {})
        if "logit_scale" not in constants:
            raise ModelError(
                f"{self.info.name} needs a model whose checkpoint holds a logit scale",
                got=str(self.options["model"]),
                fix=f"Use the default model, {self.info.default_model}",
            )
        scale = float(constants["logit_scale"])
        if not (math.isfinite(scale) and scale > 0):
            raise ModelError("a checkpoint's logit scale must be a positive finite number", got=repr(scale))
        return scale


class PickScore(PreferenceMetric):
    """`pick_score`: see its card."""

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
            OUTPUT,
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


def _hps_info(name: str, version: str, other: str) -> MetricInfo:
    return MetricInfo(
        name=name,
        family="preference",
        kind="sample",
        summary=f"How much people would prefer the output for its prompt: HPS {version}, or its win probability.",
        inputs=("output", "prompt", "task"),
        formula=(
            "score: cos(f(x), g(t)); "
            "probability: softmax of exp(logit_scale) cos(f(x), g(t)) over the candidates of one prompt"
        ),
        unit="cosine",
        range=(-1.0, 1.0),
        higher_is_better=True,
        degenerate=PickScore.info.degenerate,
        paper=(
            "Wu et al., Human Preference Score v2: A Solid Benchmark for Evaluating Human Preferences of Text-to-Image "
            "Synthesis, arXiv 2306.09341"
        ),
        reference_code="https://github.com/tgxs002/HPSv2",
        version="1",
        capability="ImageTextEncoder",
        default_model=name,
        options=(
            OptionInfo("model", name, "Checkpoint; --model does not change it, since it is the metric."),
            OUTPUT,
            *FRAME_OPTIONS,
        ),
        licence_note="The licence of the weights stands in the model's card.",
        notes=(
            "The plain cosine, without the logit scale: mostly 0.20 to 0.35. Published tables show it times 100.",
            f"Compare scores of one prompt only, and never with those of {other}.",
            "The authors' package scores in mixed precision; here it is float32, which differs by about 0.001.",
            "A probability depends on which candidates the run holds: compare probabilities of equal sets only.",
        ),
    )


class Hps(PreferenceMetric):
    """What both versions of HPS have in common."""

    scale_name: ClassVar[Any] = 1.0
    described_range: ClassVar[Any] = [-1.0, 1.0]

    def factor(self, batch: FeatureBatch) -> float:
        return 1.0


class HpsV2(Hps):
    """`hpsv2`: see its card."""

    info = _hps_info("hpsv2", "v2.0", "hpsv2.1")


class HpsV21(Hps):
    """`hpsv2.1`: see its card."""

    info = _hps_info("hpsv2.1", "v2.1", "hpsv2")
