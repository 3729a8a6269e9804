"""RA-CLIPScore and HCS of one attribute: how much of it an image shows."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from beholder._errors import NoValue
from beholder.functional.patches import PatchCosines, global_column, patch_cosines, ra_clip_scores
from beholder.functional.similarity import cosine, normalise
from beholder.manifest.schema import Sample
from beholder.metrics.attribute_lists import Attribute
from beholder.metrics.attribute_scores import RaOptions, fill, prompt_pair
from beholder.metrics.base import FeatureBatch, Ragged, SampleMetric, ScoreColumns, Selection, Slot
from beholder.metrics.frames import FRAME_OPTIONS, reduce_frames
from beholder.metrics.outcome import make_scores, truncation_evidence
from beholder.metrics.text_image import is_blank, output_of
from beholder.records import MetricInfo, OptionInfo, Status

DEFAULT_MODEL = "openai:ViT-B-16"
POSITIVE, NEGATIVE = "This is a photo of {}.", "This is a photo without {}."
HCS_PROMPT = "a photo of {}"
_PAPER = "Lu et al., RA-CLIPScore and R-SaD, arXiv 2608.12088"

RA_OPTIONS = (
    OptionInfo("tau", 0.0, "Temperature of the pair of prompts; 0 or less: the model's.", kind="float"),
    OptionInfo("tau_agg", 0.0, "Temperature over tokens; 0 or less: as tau.", kind="float"),
    OptionInfo("refine", "mean", "Spread patch scores by attention, or not.", choices=("mean", "none")),
    OptionInfo("renormalize_rows", True, "Rows of attention among patches sum to 1.", kind="bool"),
    OptionInfo("include_cls", True, "The global token takes part in the sum.", kind="bool"),
    OptionInfo("dual", True, "Use the negative prompt; else scores are (cos + 1)/2.", kind="bool"),
    OptionInfo("local", True, "Use patches; else the global token's score alone.", kind="bool"),
    OptionInfo("global_layer", "L", "Layer of the global token's attention.", choices=("L", "L-1")),
)
"""Options of everything that is made of RA-CLIPScores."""
_ATTRIBUTE = OptionInfo("attribute", "", "The attribute that is scored; empty for what stands in the row's column.")
_TEXT = OptionInfo("text", "prompt", "Column that holds the attribute where none is named.")


class AttributeMetric(SampleMetric):
    """A metric of the output and one attribute, named or in a column of the row."""

    def attribute_of(self, sample: Sample) -> str:
        """The attribute of a row.

        Raises:
            NoValue: `empty_prompt` where none is named and the column is empty, `failed` where it holds no text.
        """
        if self.options["attribute"]:
            return str(self.options["attribute"])
        name = str(self.options["text"])
        found = sample.column(name)
        if found is not None and not isinstance(found, str):
            raise NoValue(Status.FAILED, f"column {name!r} must hold text, got {type(found).__name__}")
        if is_blank(found):
            raise NoValue(Status.EMPTY_PROMPT, f"column {name!r} is empty")
        return str(found)


class RaClipScore(AttributeMetric):
    """`ra_clip_score`: see its card."""

    info = MetricInfo(
        name="ra_clip_score",
        family="attributes",
        kind="sample",
        summary="How surely the output shows an attribute, from its patches and the whole, each attribute by itself.",
        inputs=("output", "prompt"),
        formula=(
            "sum_j softmax_j(tau_agg cos(f_j, u+)) r~_j with r_j = sigmoid(tau (cos(f_j, u+) - cos(f_j, u-))) and "
            "r~ = r spread along the encoder's mean attention"
        ),
        unit="probability",
        range=(0.0, 1.0),
        higher_is_better=None,
        degenerate=(
            "No attribute has the status empty_prompt; a token or text that is zero or not finite has the status "
            "degenerate_embedding."
        ),
        paper=_PAPER,
        reference_code=None,
        version="1",
        capability="PatchEncoder",
        default_model=DEFAULT_MODEL,
        options=(
            OptionInfo("model", DEFAULT_MODEL, "Encoder: a CLIP vision transformer with a global token."),
            _ATTRIBUTE,
            _TEXT,
            OptionInfo("positive", POSITIVE, "Prompt of an image that shows it; {} stands for the attribute."),
            OptionInfo("negative", NEGATIVE, "Prompt of an image that does not."),
            OptionInfo("counterpart", "", "What the image shows instead (eyes closed): replaces the negative prompt."),
            *RA_OPTIONS,
            *FRAME_OPTIONS,
        ),
        notes=(
            "Made from the paper's text; the authors' code was not available. The paper states neither the backbone "
            "nor temperatures, head averaging, row normalisation, or the global token's part: these are options.",
            "Prompts with 'without' are negations, which CLIP handles poorly: a counterpart says it positively.",
            "It measures the encoder as well as the image. Values of different encoders cannot be compared.",
        ),
    )

    @property
    def slots(self) -> tuple[Slot, ...]:
        model, frames = str(self.options["model"]), str(self.options["frames"])
        return (
            Slot("image", model, "patches", frames=frames),
            Slot("positive", model, "text_embedding"),
            Slot("negative", model, "text_embedding"),
        )

    def prompts(self, attribute: str) -> tuple[str, str]:
        """The two prompts of an attribute."""
        item = Attribute(attribute, str(self.options["counterpart"]) or None)
        return prompt_pair(item, str(self.options["positive"]), str(self.options["negative"]))

    def select(self, sample: Sample) -> Selection:
        positive, negative = self.prompts(self.attribute_of(sample))
        return {"image": output_of(sample), "positive": positive, "negative": negative}

    def scored_text(self, sample: Sample) -> str | None:
        try:
            return self.prompts(self.attribute_of(sample))[0]
        except NoValue:
            return None

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        rows = batch.rows_of("image")
        ragged = isinstance(batch.slots["image"], Ragged)
        owner = np.repeat(np.arange(batch.n), np.diff(rows.offsets))
        cosines = self._cosines(rows.columns, batch, owner)
        values = self._values(cosines, rows.columns["attention"], batch.constants["image"])
        bad = np.zeros(batch.n, dtype=bool)
        np.logical_or.at(bad, owner, cosines.degenerate)
        how = str(self.options["over_frames"])
        return make_scores(
            reduce_frames(values, rows.offsets if ragged else None, how),
            degenerate={"image or its texts": bad},
            within=self.value_range,
            evidence=truncation_evidence(cast("Mapping[str, Any]", batch.slots["positive"])),
        )

    def _cosines(self, columns: Mapping[str, np.ndarray], batch: FeatureBatch, owner: np.ndarray) -> PatchCosines:
        whole = columns[global_column(str(self.options["global_layer"]))]
        texts = [batch.one(name)[owner][:, None] for name in ("positive", "negative")]
        return patch_cosines(whole, columns["patches"], texts[0], texts[1])

    def _values(self, cosines: PatchCosines, attention: np.ndarray, constants: Mapping[str, float]) -> np.ndarray:
        own = float(constants.get("logit_scale", 100.0))
        return ra_clip_scores(cosines, attention, **RaOptions.of(self.options).arguments(own)).scores[:, 0]

    def describe(self) -> dict[str, Any]:
        return {
            "positive": self.options["positive"],
            "negative": self.options["negative"],
            "range": list(self.value_range),
        }


class Hcs(AttributeMetric):
    """`hcs`: see its card."""

    info = MetricInfo(
        name="hcs",
        family="attributes",
        kind="sample",
        summary="Heterogeneous CLIPScore: the cosine after centring by the references and by a list of attributes.",
        inputs=("output", "references", "prompt"),
        formula="100 cos(f(x) - mean f(references), g(prompt(t)) - mean g(prompts of the list))",
        unit="100 × cosine",
        range=(-100.0, 100.0),
        higher_is_better=None,
        degenerate=(
            "No list of attributes has the status not_applicable; no references no_reference; an embedding that is "
            "zero, not finite, or equal to its centre has the status degenerate_embedding."
        ),
        paper="Kim et al., Attribute Based Interpretable Evaluation Metrics for Generative Models, arXiv 2310.17261",
        reference_code="https://github.com/notou10/sadpad",
        version="1",
        capability="ImageTextEncoder",
        default_model=DEFAULT_MODEL,
        options=(
            OptionInfo("model", DEFAULT_MODEL, "Encoder; the public code uses openai:ViT-B-32."),
            _ATTRIBUTE,
            _TEXT,
            OptionInfo("attributes", (), "The list of attributes that centres the texts.", kind="list"),
            OptionInfo("prompt", HCS_PROMPT, "Prompt of an attribute; {} stands for it."),
            OptionInfo(
                "text_center",
                "prompt",
                "What the texts' centre is the mean of: the prompts, or the bare attributes as in the public code.",
                choices=("prompt", "bare"),
            ),
            *FRAME_OPTIONS,
        ),
        notes=(
            "A score depends on the whole list: adding an attribute moves all scores, and of two attributes one score "
            "is the negative of the other.",
            "The centre of images is the mean of the row's references: give every row the same ones (beholder "
            "attributes takes the whole reference set).",
        ),
    )

    @property
    def slots(self) -> tuple[Slot, ...]:
        model = str(self.options["model"])
        return (
            Slot("image", model, "image_embedding", frames=str(self.options["frames"])),
            Slot("references", model, "image_embedding", many=True),
            Slot("text", model, "text_embedding"),
            Slot("list", model, "text_embedding", many=True),
        )

    def select(self, sample: Sample) -> Selection:
        attribute = self.attribute_of(sample)
        listed = [str(text) for text in cast("tuple[str, ...]", self.options["attributes"]) if str(text).strip()]
        if not listed:
            raise NoValue(Status.NOT_APPLICABLE, "hcs needs its list of attributes: hcs(attributes=[…])")
        if not sample.references:
            raise NoValue(Status.NO_REFERENCE, "the row has no references to centre images by")
        prompt = str(self.options["prompt"])
        bare = self.options["text_center"] == "bare"
        return {
            "image": output_of(sample),
            "references": list(sample.references),
            "text": fill(prompt, attribute),
            "list": [text if bare else fill(prompt, text) for text in listed],
        }

    def scored_text(self, sample: Sample) -> str | None:
        try:
            return fill(str(self.options["prompt"]), self.attribute_of(sample))
        except NoValue:
            return None

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        rows = batch.rows_of("image")
        ragged = isinstance(batch.slots["image"], Ragged)
        owner = np.repeat(np.arange(batch.n), np.diff(rows.offsets))
        centres = {name: _means(batch.many(name)) for name in ("references", "list")}
        images, texts = rows.columns["embedding"].astype(np.float64), batch.one("text").astype(np.float64)
        left = normalise((images - centres["references"][0][owner]).astype(np.float32))
        right = normalise((texts - centres["list"][0]).astype(np.float32))
        found = cosine(left, type(right)(right.vectors[owner], right.degenerate[owner]))
        bad = {"image": np.zeros(batch.n, dtype=bool), "text": normalise(texts).degenerate | right.degenerate}
        np.logical_or.at(bad["image"], owner, left.degenerate | normalise(images).degenerate)
        bad |= {"references": centres["references"][1], "list": centres["list"][1]}
        values = reduce_frames(100.0 * found.values, rows.offsets if ragged else None, str(self.options["over_frames"]))
        return make_scores(
            values,
            degenerate=bad,
            within=self.value_range,
            evidence=truncation_evidence(cast("Mapping[str, Any]", batch.slots["text"])),
        )

    def describe(self) -> dict[str, Any]:
        return {"prompt": self.options["prompt"], "scale": 100.0, "range": list(self.value_range)}


def _means(ragged: Ragged) -> tuple[np.ndarray, np.ndarray]:
    """(n, d) means of each row's raw embeddings, and (n,) bool where one of them has no direction."""
    embeddings, offsets = ragged.columns["embedding"].astype(np.float64), ragged.offsets
    flags = normalise(embeddings).degenerate
    count = len(offsets) - 1
    sums = np.zeros((count, embeddings.shape[1]))
    for row, (start, end) in enumerate(itertools.pairwise(offsets)):
        sums[row] = embeddings[start:end].sum(axis=0)
    bad = np.asarray([bool(flags[a:b].any()) for a, b in itertools.pairwise(offsets)], dtype=bool)
    return sums / np.maximum(np.diff(offsets), 1)[:, None], bad
