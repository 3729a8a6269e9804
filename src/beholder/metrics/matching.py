"""itm_score and image_reward: what a model says that looks at a picture and a text together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from beholder._errors import OptionError
from beholder._identity import OptionValue
from beholder.functional.matching import match_probability
from beholder.manifest.schema import Sample
from beholder.metrics.base import FeatureBatch, Ragged, ScoreColumns, Slot
from beholder.metrics.frames import FRAME_OPTIONS, reduce_frames
from beholder.metrics.outcome import Range, make_scores, truncation_evidence
from beholder.metrics.text_image import TextImageMetric
from beholder.records import MetricInfo, OptionInfo

DEFAULT_MODEL = "blip2-itm"
REWARD_MODEL = "image-reward-v1"
_REWARD_ENGINE = "image_reward:"
_REWARD_UNIT = "standardised reward"


class MatchMetric(TextImageMetric):
    """A metric of one matching value of the output and its text."""

    pairs = True

    @classmethod
    def takes_model(cls) -> bool:
        """`--model` names an encoder; a matcher is another kind of model."""
        return False

    @property
    def slots(self) -> tuple[Slot, ...]:
        return (Slot("pair", str(self.options["model"]), "match", frames=str(self.options["frames"])),)

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        found = batch.slots["pair"]
        offsets = found.offsets if isinstance(found, Ragged) else None
        columns = found.columns if isinstance(found, Ragged) else found
        values = self.value_of(np.asarray(columns["logit"], dtype=np.float64))
        return make_scores(
            reduce_frames(values, offsets, str(self.options["over_frames"])),
            degenerate={},
            within=self.value_range,
            evidence=truncation_evidence(self.text_columns(batch)),
        )

    def value_of(self, logits: np.ndarray) -> np.ndarray:
        """Values of pictures from the model's numbers."""
        return logits

    def describe(self) -> dict[str, Any]:
        return {
            "output": self.unit,
            "scale": 1.0,
            "clamp": "none",
            "template": "{text}",
            "text": self.options.get("text", "prompt"),
            "range": list(self.value_range),
        }


class ItmScore(MatchMetric):
    """`itm_score`: see its card."""

    info = MetricInfo(
        name="itm_score",
        family="matching",
        kind="sample",
        summary="How likely the output and the text belong together, by a model trained to tell: BLIP-2 and its kin.",
        inputs=("output", "prompt"),
        formula=(
            "probability: softmax of the matching head's two logits, its match entry; "
            "logit: match logit minus no-match logit (probability = sigmoid of it)"
        ),
        unit="probability",
        range=(0.0, 1.0),
        higher_is_better=True,
        degenerate="A blank text has the status empty_prompt.",
        paper="Li et al., BLIP-2: Bootstrapping Language-Image Pre-training, arXiv 2301.12597",
        reference_code="https://github.com/salesforce/LAVIS",
        version="1",
        capability="Matcher",
        default_model=DEFAULT_MODEL,
        options=(
            OptionInfo("model", DEFAULT_MODEL, "Matcher; --model does not change it, since that names an encoder."),
            OptionInfo(
                "output",
                "probability",
                "The probability, or the logit behind it, which tells near-certain matches apart.",
                choices=("probability", "logit"),
            ),
            OptionInfo("text", "prompt", "Column that holds the text."),
            *FRAME_OPTIONS,
        ),
        licence_note="The licence of the weights stands in the model's card.",
        notes=(
            "BLIP-2 averages its logits over 32 query tokens before the softmax.",
            "Probabilities crowd near 0 and 1; the logit ranks the same pictures with more room.",
            f"{REWARD_MODEL} has no probability: with it the value is image_reward's, in its own unit.",
            "Values of different models cannot be compared.",
            "Texts are cut at 35 tokens and flagged.",
        ),
    )

    def __init__(
        self, options: Mapping[str, OptionValue | None] | None = None, *, default_model: str | None = None
    ) -> None:
        super().__init__(options, default_model=default_model)
        if self.is_reward and self.options["output"] != "probability":
            raise OptionError(
                f"{self.options['model']} gives a reward, which is no logit of a probability",
                got=f"output={self.options['output']}",
                fix="Leave output away",
            )

    @property
    def is_reward(self) -> bool:
        """True for a model whose number is a reward."""
        model = str(self.options["model"])
        return model == REWARD_MODEL or model.startswith(_REWARD_ENGINE)

    @property
    def unit(self) -> str:
        return _REWARD_UNIT if self.is_reward else str(self.options["output"])

    @property
    def value_range(self) -> Range:
        return (0.0, 1.0) if self.unit == "probability" else (None, None)

    def source_text(self, sample: Sample) -> tuple[str, Any]:
        name = str(self.options["text"])
        return name, sample.column(name)

    def value_of(self, logits: np.ndarray) -> np.ndarray:
        return match_probability(logits) if self.unit == "probability" else logits


class ImageReward(MatchMetric):
    """`image_reward`: see its card."""

    prompts_describe_reconstructions = False

    info = MetricInfo(
        name="image_reward",
        family="preference",
        kind="sample",
        summary="How much people would prefer the output for its prompt: ImageReward.",
        inputs=("output", "prompt", "task"),
        formula="(h − 0.16717362830052426) / 1.0333394966054072, h being the head's output for image and text",
        unit=_REWARD_UNIT,
        range=(None, None),
        higher_is_better=True,
        degenerate="The task reconstruction has the status not_applicable; a blank prompt has the status empty_prompt.",
        paper=(
            "Xu et al., ImageReward: Learning and Evaluating Human Preferences for Text-to-Image Generation, "
            "arXiv 2304.05977"
        ),
        reference_code="https://github.com/THUDM/ImageReward",
        version="1",
        capability="Matcher",
        default_model=REWARD_MODEL,
        options=(
            OptionInfo("model", REWARD_MODEL, "Checkpoint; --model does not change it, since it is the metric."),
            *FRAME_OPTIONS,
        ),
        licence_note="The licence of the weights stands in the model's card.",
        notes=(
            "Standardised by its authors: values have about mean 0 and standard deviation 1 on pictures of their time, "
            "and most lie between -2 and 2. A negative value is no error, and no limit is set.",
            "The centre of the picture is cropped to a square: the edges of wide pictures are not seen.",
            "Rewards of different prompts differ by the prompt too; compare candidates of one prompt.",
            "Texts are cut at 35 tokens and flagged.",
        ),
    )
