"""CLIPScore and CLIP-T: how well an image fits a text, by the cosine of their embeddings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from beholder._errors import NoValue
from beholder._identity import OptionValue
from beholder.functional.clip import HESSEL_WEIGHT, Variant, clamp_aggregate, ref_clip_score, scale_cosine
from beholder.functional.similarity import cosine_ragged, normalise, reduce_ragged
from beholder.manifest.schema import Sample
from beholder.metrics.base import FeatureBatch, ScoreColumns, Selection, Slot
from beholder.metrics.frames import FRAME_OPTIONS
from beholder.metrics.outcome import Range, make_scores, truncation_evidence
from beholder.metrics.text_image import TextImageMetric, is_blank
from beholder.records import MetricInfo, OptionInfo, Status

DEFAULT_MODEL = "openai:ViT-L-14"
HESSEL_MODEL = "openai:ViT-B-32"
HESSEL_PREFIX = "A photo depicts "
REFERENCE_TEXTS = "reference_texts"
"""Extra column with the reference captions of `variant=ref_hessel`: a list of texts, or one text."""

_CLIPSCORE_PAPER = "Hessel et al., CLIPScore: A Reference-free Evaluation Metric for Image Captioning, arXiv 2104.08718"

_RANGES: Mapping[str, Range] = {
    "raw": (-1.0, 1.0),
    "x100": (-100.0, 100.0),
    "hessel": (0.0, HESSEL_WEIGHT),
    "ref_hessel": (0.0, 2 * HESSEL_WEIGHT / (HESSEL_WEIGHT + 1)),
    "torchmetrics": (-100.0, 100.0),
}
_SCALES = {"raw": 1.0, "x100": 100.0, "hessel": HESSEL_WEIGHT, "ref_hessel": HESSEL_WEIGHT, "torchmetrics": 100.0}
_UNITS = {
    "raw": "cosine",
    "x100": "100 × cosine",
    "hessel": "2.5 × cosine, at least 0",
    "ref_hessel": "harmonic mean of 2.5 × cosine and cosine, at least 0",
    "torchmetrics": "100 × cosine",
}
_CLAMPS = {"hessel": "sample_min0", "ref_hessel": "sample_min0", "torchmetrics": "aggregate_min0"}


class ClipScore(TextImageMetric):
    """`clip_score`: see its card."""

    info = MetricInfo(
        name="clip_score",
        family="clip",
        kind="sample",
        summary="How well the output fits the text: the cosine of their CLIP embeddings, on a named scale.",
        inputs=("output", "prompt"),
        formula=(
            "raw: cos(f(x), g(t)); x100: 100 cos; hessel: 2.5 max(cos, 0); "
            "ref_hessel: 2ab/(a+b) with a = hessel, b = max(max_r cos(g(t), g(r)), 0); "
            "torchmetrics: 100 cos, the aggregate max(mean, 0)"
        ),
        unit="cosine",
        range=_RANGES["raw"],
        higher_is_better=True,
        degenerate=(
            "A blank text has the status empty_prompt; an embedding that is zero or not finite has the status "
            "degenerate_embedding; ref_hessel without reference captions has the status no_reference."
        ),
        paper=_CLIPSCORE_PAPER,
        reference_code="https://github.com/jmhessel/clipscore",
        version="1",
        capability="ImageTextEncoder",
        default_model=DEFAULT_MODEL,
        options=(
            OptionInfo(
                "model", None, f"Encoder; {DEFAULT_MODEL}, or {HESSEL_MODEL} for the variants hessel and ref_hessel."
            ),
            OptionInfo(
                "variant",
                "raw",
                "Scale and clamp of the value, and whether reference captions take part.",
                choices=tuple(_RANGES),
            ),
            OptionInfo(
                "prefix",
                None,
                'Put before every text; "A photo depicts " for the variants hessel and ref_hessel, else nothing.',
            ),
            OptionInfo("text", "prompt", "Column that holds the text."),
            *FRAME_OPTIONS,
        ),
        notes=(
            "Values of different encoders cannot be compared.",
            "A video is scored frame by frame; ref_hessel takes the mean (over_frames) of the frames' hessel values.",
            "Ranges: raw -1 to 1; x100 and torchmetrics -100 to 100; hessel 0 to 2.5; ref_hessel 0 to 10/7.",
            "torchmetrics clamps the mean of the samples at 0, not each sample; the other variants never clamp a mean.",
            "torchmetrics cuts a long text and loses its end token; here the end token stays, so texts over the limit "
            "differ from it and are flagged.",
            f"ref_hessel reads reference captions from the column {REFERENCE_TEXTS} (a list of texts, or one text); "
            "the prefix is put before them too, and the clamp of b follows the paper.",
        ),
    )

    @classmethod
    def dependent_defaults(cls, options: Mapping[str, OptionValue]) -> Mapping[str, OptionValue]:
        if options["variant"] in ("hessel", "ref_hessel"):
            return {"model": HESSEL_MODEL, "prefix": HESSEL_PREFIX}
        return {"model": DEFAULT_MODEL, "prefix": ""}

    @property
    def variant(self) -> str:
        """The named variant."""
        return str(self.options["variant"])

    @property
    def unit(self) -> str:
        return _UNITS[self.variant]

    @property
    def prefix(self) -> str:
        return str(self.options["prefix"])

    @property
    def value_range(self) -> Range:
        return _RANGES[self.variant]

    @property
    def slots(self) -> tuple[Slot, ...]:
        if self.variant != "ref_hessel":
            return super().slots
        return (*super().slots, Slot("references", str(self.options["model"]), "text_embedding", many=True))

    def source_text(self, sample: Sample) -> tuple[str, Any]:
        name = str(self.options["text"])
        return name, sample.column(name)

    def select(self, sample: Sample) -> Selection:
        chosen = super().select(sample)
        if self.variant != "ref_hessel":
            return chosen
        return {**chosen, "references": [self.prefix + text for text in reference_texts(sample)]}

    @property
    def can_take_pairs(self) -> bool:
        return self.variant != "ref_hessel"

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        units = self.unit_scores(batch)
        flags = {"image": units.image, "text": units.text}
        statuses: dict[int, tuple[Status, str]] = {}
        if self.variant == "ref_hessel":
            text, references = normalise(batch.one("text")), batch.many("references")
            best = reduce_ragged(
                cosine_ragged(text, references.columns["embedding"], references.offsets),
                references.offsets,
                reduce="max",
            )
            plain = self.over_frames(units, scale_cosine(units.values, variant="hessel"))
            values = ref_clip_score(plain, best.values)
            empty = np.diff(references.offsets) == 0
            flags["reference captions"] = best.degenerate & ~text.degenerate & ~empty
            statuses = {int(row): (Status.NO_REFERENCE, "no reference captions") for row in np.flatnonzero(empty)}
        else:
            values = self.over_frames(units, scale_cosine(units.values, variant=cast("Variant", self.variant)))
        return make_scores(
            values,
            degenerate=flags,
            within=self.value_range,
            statuses=statuses,
            evidence=truncation_evidence(self.text_columns(batch)),
        )

    def finish_aggregate(self, mean: float) -> float:
        return clamp_aggregate(mean, variant="torchmetrics") if self.variant == "torchmetrics" else mean

    def describe(self) -> dict[str, Any]:
        return {
            "variant": self.variant,
            "scale": _SCALES[self.variant],
            "clamp": _CLAMPS.get(self.variant, "none"),
            "template": self.prefix + "{text}",
            "text": self.options["text"],
            "range": list(self.value_range),
        }


class ClipT(TextImageMetric):
    """`clip_t`: see its card."""

    prompts_describe_reconstructions = False

    info = MetricInfo(
        name="clip_t",
        family="clip",
        kind="sample",
        summary="Prompt fidelity of customised generation: cosine of the output with eval_prompt, else the prompt.",
        inputs=("output", "eval_prompt", "prompt", "task"),
        formula="cos(f(x), g(t)) with t = eval_prompt where the row has one, else prompt",
        unit="cosine",
        range=(-1.0, 1.0),
        higher_is_better=True,
        degenerate=(
            "The task reconstruction has the status not_applicable; a blank text has the status empty_prompt; an "
            "embedding that is zero or not finite has the status degenerate_embedding."
        ),
        paper=(
            "Ruiz et al., DreamBooth: Fine Tuning Text-to-Image Diffusion Models for Subject-Driven Generation, "
            "arXiv 2208.12242"
        ),
        reference_code="https://github.com/adobe-research/custom-diffusion",
        version="1",
        capability="ImageTextEncoder",
        default_model=DEFAULT_MODEL,
        options=(OptionInfo("model", DEFAULT_MODEL, "Encoder."), *FRAME_OPTIONS),
        notes=(
            "The same value as clip_score where no row has an eval_prompt.",
            "Values of different encoders cannot be compared.",
            "CustomConcept101 prints 2.5 max(cos, 0) for it by default; here it is the cosine.",
        ),
    )

    def source_text(self, sample: Sample) -> tuple[str, Any]:
        if is_blank(sample.eval_prompt):
            return "prompt", sample.prompt
        return "eval_prompt", sample.eval_prompt

    can_take_pairs = True

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        units = self.unit_scores(batch)
        return make_scores(
            self.over_frames(units, units.values),
            degenerate={"image": units.image, "text": units.text},
            within=self.value_range,
            evidence=truncation_evidence(self.text_columns(batch)),
        )

    def describe(self) -> dict[str, Any]:
        return {
            "scale": 1.0,
            "clamp": "none",
            "template": "{text}",
            "text": "eval_prompt, else prompt",
            "range": list(self.value_range),
        }


def reference_texts(sample: Sample) -> list[str]:
    """The reference captions of a sample: blank ones left out; a cell may hold a JSON list of texts.

    Raises:
        NoValue: `no_reference` when there are none, `failed` when the column holds something else than text.
    """
    found = sample.column(REFERENCE_TEXTS)
    texts = _text_list(found)
    if texts is None:
        raise NoValue(Status.FAILED, f"column {REFERENCE_TEXTS!r} must hold texts, got {type(found).__name__}")
    kept = [text for text in texts if not is_blank(text)]
    if not kept:
        raise NoValue(Status.NO_REFERENCE, f"column {REFERENCE_TEXTS!r} holds no reference captions")
    return kept


def _text_list(cell: Any) -> list[str] | None:
    if cell is None:
        return []
    if isinstance(cell, str):
        # A CSV cell cannot hold a list in any other way; a caption is hardly ever a JSON list of strings.
        parsed = _json_list(cell) if cell.lstrip().startswith("[") else None
        return [cell] if parsed is None else parsed
    if isinstance(cell, (list, tuple)) and all(text is None or isinstance(text, str) for text in cell):
        return [text for text in cell if text is not None]
    return None


def _json_list(cell: str) -> list[str] | None:
    try:
        parsed = json.loads(cell)
    except json.JSONDecodeError:
        return None
    return parsed if isinstance(parsed, list) and all(isinstance(text, str) for text in parsed) else None
