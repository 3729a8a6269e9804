"""Metrics of the output alone, without a text: LAION's aesthetic predictor, its v2.5, and ArtScore."""

from __future__ import annotations

from typing import Any

import numpy as np

from beholder.manifest.schema import Sample
from beholder.metrics.base import FeatureBatch, FromFeature, SampleMetric, ScoreColumns, Selection, Slot
from beholder.metrics.frames import FRAME_OPTIONS, reduce_frames
from beholder.metrics.outcome import Range, make_scores
from beholder.metrics.text_image import output_of
from beholder.records import MetricInfo, OptionInfo

CLIP, SIGLIP = "openai:ViT-L-14", "hf:google/siglip-so400m-patch14-384"


class ImageScoreMetric(SampleMetric):
    """A number a picture that a model gives; the slot "score" holds it."""

    @classmethod
    def takes_model(cls) -> bool:
        """`--model` names an encoder of images and texts; these metrics are their checkpoints."""
        return False

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        found = batch.rows_of("score")
        values = np.asarray(found.columns["score"], dtype=np.float64)
        still = len(values) == batch.n
        return make_scores(
            reduce_frames(values, None if still else found.offsets, str(self.options["over_frames"])),
            degenerate={},
            within=self.limits(batch),
        )

    def limits(self, batch: FeatureBatch) -> Range:
        """What no value can lie outside of."""
        return self.value_range

    def describe(self) -> dict[str, Any]:
        return {"scale": 1.0, "clamp": "none", "range": list(self.value_range)}


class Aesthetic(ImageScoreMetric):
    """A head on the embedding that an encoder makes of the output; that embedding serves other metrics too."""

    @property
    def slots(self) -> tuple[Slot, ...]:
        frames = str(self.options["frames"])
        return (
            Slot("image", str(self.options["encoder"]), "image_embedding", frames=frames),
            Slot("score", str(self.options["model"]), "head_score", frames=frames, after=("image",)),
        )

    def select(self, sample: Sample) -> Selection:
        output = output_of(sample)
        return {"image": output, "score": FromFeature("image", output)}

    def limits(self, batch: FeatureBatch) -> Range:
        """The least and the largest value that the head can give any embedding; beyond them something is broken."""
        known = batch.constants.get("score", {})
        return known.get("low"), known.get("high")

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "embedding": "L2-normalised"}


def _info(name: str, *, summary: str, encoder: str, model: str, code: str, notes: tuple[str, ...]) -> MetricInfo:
    return MetricInfo(
        name=name,
        family="aesthetic",
        kind="sample",
        summary=summary,
        inputs=("output",),
        formula="h(f(x) / |f(x)|), h being the trained head (five linear maps) and f(x) the encoder's image embedding",
        unit="rating",
        range=(None, None),
        higher_is_better=True,
        degenerate="An embedding that is zero or not finite has the status degenerate_embedding.",
        paper=None,
        reference_code=code,
        version="1",
        capability="EmbeddingHead",
        default_model=model,
        options=(
            OptionInfo("model", model, "Head; --model does not change it, since it is the metric."),
            OptionInfo("encoder", encoder, "What the head was trained on; another place of the same weights."),
            *FRAME_OPTIONS,
        ),
        licence_note="The licences of head and encoder stand in the models' cards.",
        notes=(
            "Made to lie between 1 and 10; nothing is cut. The head allows values between two limits that are read "
            "from its weights; one beyond them is a fault.",
            *notes,
        ),
    )


class LaionAesthetic(Aesthetic):
    """`laion_aesthetic`: see its card."""

    info = _info(
        "laion_aesthetic",
        summary="How well people rate pictures like the output: LAION's aesthetic predictor v2 on CLIP ViT-L/14.",
        encoder=CLIP,
        model="laion-aesthetic-v2",
        code="https://github.com/christophschuhmann/improved-aesthetic-predictor",
        notes=(
            "No prompt is involved: rows with a blank prompt and reconstructions have a value too.",
            "Shares its pass with all metrics on openai:ViT-L-14.",
            "OpenS2V's aes_score is laion_aesthetic(frames=uniform:32).",
            "Most pictures get 4 to 7; not comparable with laion_aesthetic_v2.5.",
        ),
    )


class LaionAestheticV25(Aesthetic):
    """`laion_aesthetic_v2.5`: see its card."""

    info = _info(
        "laion_aesthetic_v2.5",
        summary="How well people rate pictures like the output: aesthetic predictor v2.5 on SigLIP so400m-384.",
        encoder=SIGLIP,
        model="laion-aesthetic-v2.5",
        code="https://github.com/discus0434/aesthetic-predictor-v2-5",
        notes=(
            "Another model by another author than laion_aesthetic, whose values it does not share; by its author 5.5 "
            "and more is a great picture.",
            "No prompt is involved.",
        ),
    )


class ArtScore(ImageScoreMetric):
    """`artscore`: see its card."""

    info = MetricInfo(
        name="artscore",
        family="aesthetic",
        kind="sample",
        summary="How much the output looks like an artwork rather than a photograph: ArtScore.",
        inputs=("output",),
        formula="r(x), r being a ResNet trained to rank series of pictures from a photograph to an artwork (ListMLE)",
        unit="rank score",
        range=(None, None),
        higher_is_better=True,
        degenerate="None: every picture that can be read has a value.",
        paper="Chen et al., Learning to Evaluate the Artness of AI-generated Images, arXiv 2305.04923",
        reference_code="https://github.com/jchen175/ArtScore",
        version="1",
        capability="ImageScorer",
        default_model="artscore",
        options=(
            OptionInfo("model", "artscore", "Checkpoint; --model does not change it, since it is the metric."),
            OptionInfo(
                "resize",
                "train",
                "train squashes to 224×224, as training and the batch script do; readme brings the short side to 224 "
                "and keeps the shape.",
                choices=("train", "readme"),
            ),
            *FRAME_OPTIONS,
        ),
        licence_note="The licence of the weights stands in the model's card.",
        notes=(
            "Only ranks and differences mean anything: the loss does not see a shift of all scores, so there is no "
            "zero, no range, and no threshold between art and no art.",
            "It is no score of beauty. It was trained on faces, landscapes and horses, and is biased to them.",
            "The two resizings agree on square pictures only.",
        ),
    )

    @property
    def slots(self) -> tuple[Slot, ...]:
        params = (("resize", str(self.options["resize"])),)
        model, frames = str(self.options["model"]), str(self.options["frames"])
        return (Slot("score", model, "image_score", params=params, frames=frames),)

    def select(self, sample: Sample) -> Selection:
        return {"score": output_of(sample)}

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "resize": self.options["resize"], "meaning": "ranks and differences only"}
