"""CLIP-I-Seg, DINO-I and DINO-I-Seg: how much the subject of an output looks like its real images."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from beholder._errors import NoValue, UserError
from beholder._identity import OptionValue
from beholder.functional.masks import CLIP_MEAN, IMAGENET_MEAN
from beholder.manifest.schema import Sample
from beholder.metrics.base import FeatureBatch, SampleMetric, ScoreColumns, Selection, Slot
from beholder.metrics.clip_image import DEFAULT_MODEL, ClipI, references_of
from beholder.metrics.frames import FRAME_OPTIONS
from beholder.metrics.outcome import make_scores
from beholder.metrics.segmented_rows import SegmentedRows, frames_evidence, of_frames, over_frames
from beholder.metrics.segmenting import (
    CROP_OPTIONS,
    GIVEN,
    REMARK,
    SEGMENTER_OPTIONS,
    has_masks,
    is_long_winded,
    mask_of,
    masked_item,
    phrases_of,
    segment_item,
    segmenter_defaults,
    segments_slot,
)
from beholder.metrics.text_image import output_of
from beholder.records import MetricInfo, OptionInfo, Status

DINO_MODEL = "hf:facebook/dino-vits16"
_NO_MASK = "no mask of the subject was found"
_NO_MASK_IN_FRAMES = "no mask of the subject was found in any frame"
_DINO_PAPER = "Caron et al., Emerging Properties in Self-Supervised Vision Transformers, arXiv 2104.14294"
_OWN_OPTIONS = (
    OptionInfo(
        "segment",
        "pred",
        "pred masks the output alone, as the published words say; both masks the references too.",
        choices=("pred", "both"),
    ),
    *SEGMENTER_OPTIONS,
    *CROP_OPTIONS,
    OptionInfo("invert", False, "True keeps the background and removes the subject: a diagnostic.", kind="bool"),
    OptionInfo(
        "on_missing",
        "skip",
        "What an output without a mask counts as: skip (status no_mask), zero, unsegmented (its plain value), or "
        "error, which stops the run.",
        choices=("skip", "zero", "unsegmented", "error"),
    ),
)


class SegmentedMetric(SampleMetric):
    """What metrics of segmented outputs share: the segmenter's options, and masks where the data set has them."""

    looks_ahead = True
    mean_colour = CLIP_MEAN

    def __init__(
        self, options: Mapping[str, OptionValue | None] | None = None, *, default_model: str | None = None
    ) -> None:
        self._given = dict(options or {})
        self._default_model = default_model
        super().__init__(options, default_model=default_model)

    @classmethod
    def dependent_defaults(cls, options: Mapping[str, OptionValue]) -> Mapping[str, OptionValue]:
        return segmenter_defaults(options)

    def fitted(self, samples: Iterable[Sample]) -> SampleMetric:
        """With the segmenter `masks`, where none was named and the data set has masks."""
        if self._given.get("segmenter") is None and has_masks(samples):
            return type(self)({**self._given, "segmenter": GIVEN}, default_model=self._default_model)
        return self

    @property
    def segmenter(self) -> str:
        """The segmenter's name."""
        return str(self.options["segmenter"])

    def sample_evidence(self, sample: Sample) -> Mapping[str, Any]:
        if self.segmenter.partition(":")[0] == GIVEN:
            return {}
        try:
            phrases = phrases_of(sample)
        except NoValue:
            return {}
        facts: dict[str, Any] = {"remark": REMARK} if is_long_winded(phrases) else {}
        return facts | ({"seg_prompt": list(phrases)} if len(phrases) > 1 else {})


class ClipISeg(SegmentedMetric):
    """`clip_i_seg`: see its card."""

    other_aggregates = ("skip", "zero", "unsegmented", "seg_found")
    other_missing = Status.NO_MASK

    info = MetricInfo(
        name="clip_i_seg",
        family="clip",
        kind="sample",
        summary="Subject fidelity without the background: clip_i of the output's segmented subject.",
        inputs=("output", "references", "masks", "seg_prompt", "class_name", "reference_masks"),
        formula=(
            "mean over the references r of cos(f(seg(x)), f(r)), with everything outside the subject's mask filled; "
            "segment=both: f(seg(r)) for f(r); instances=all-mean: the mean over the instances"
        ),
        unit="cosine",
        range=(-1.0, 1.0),
        higher_is_better=True,
        degenerate=(
            "An output without a mask (nothing found, or less than min_area) has the status no_mask, or what "
            "on_missing says; no references: no_reference, naming the concept; segment=both and no reference with a "
            "mask: failed; "
            "no phrase, or a mask of another size than its picture: failed; an embedding that is zero or not finite: "
            "degenerate_embedding."
        ),
        paper="MoKus, arXiv 2603.12743 (SAM 3 on the generated images); Ruiz et al., DreamBooth, arXiv 2208.12242",
        reference_code=None,
        version="1",
        capability="ImageTextEncoder",
        default_model=DEFAULT_MODEL,
        options=(
            OptionInfo("model", DEFAULT_MODEL, "Encoder."),
            *_OWN_OPTIONS,
            OptionInfo(
                "pairing", "all", "all compares with every reference of the row; zip demands exactly one.",
                choices=("all", "zip"),
            ),
            OptionInfo(
                "reduce", "mean", "How the references of one row become one value.", choices=("mean", "max", "first")
            ),
            *FRAME_OPTIONS,
        ),
        licence_note="The weights of SAM 3 are gated and have a licence of their own.",
        notes=(
            "Further aggregates, all from one pass: zero (missing masks as 0), unsegmented (as their plain value), "
            "skip, and seg_found, the detection rate.",
            "skip rewards hiding the subject, unsegmented rewards background; zero is the conservative bound.",
            "The segmenter belongs to the number: published values exist with SAM 3 and with Grounded SAM.",
            "Values may be above or below clip_i; neither is a fault.",
            "Every frame of a video is segmented and scored; those without a mask go by on_missing, as outputs do, "
            "and seg_found is the share of frames with one. Masks of the manifest go with still pictures.",
        ),
    )  # fmt: skip

    @property
    def slots(self) -> tuple[Slot, ...]:
        model = str(self.options["model"])
        frames = str(self.options["frames"])
        own = (
            segments_slot("segments", self.options, frames=frames),
            Slot("subject", model, "image_embedding", after=("segments",), frames=frames),
        )
        if self.options["segment"] == "pred":
            return (*own, Slot("references", model, "image_embedding", many=True))
        return (
            *own,
            segments_slot("reference_segments", self.options, many=True),
            Slot("references", model, "image_embedding", many=True, after=("reference_segments",)),
        )

    def select(self, sample: Sample) -> Selection:
        references = references_of(sample, pairing=str(self.options["pairing"]), reduce=str(self.options["reduce"]))
        output = output_of(sample)
        pair = segment_item(sample, output, self.segmenter, mask_of(sample))
        invert = bool(self.options["invert"])
        chosen: dict[str, Any] = {
            "segments": pair,
            "subject": masked_item(output, "segments", pair, self.options, mean=self.mean_colour, invert=invert),
            "references": references,
        }
        if self.options["segment"] == "both":
            masks = list(sample.reference_masks) or [None] * len(references)
            pairs = [
                segment_item(sample, reference, self.segmenter, mask) for reference, mask in zip(references, masks)
            ]
            chosen["reference_segments"] = pairs
            chosen["references"] = [
                masked_item(item, "reference_segments", own, self.options, mean=self.mean_colour, invert=invert)
                for item, own in zip(references, pairs, strict=True)
            ]
        return chosen

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        rows = SegmentedRows(batch, self.options)
        values, degenerate = np.zeros(batch.n), np.zeros(batch.n, dtype=bool)
        statuses: dict[int, tuple[Status, str]] = {}
        evidence: dict[int, Mapping[str, Any]] = {}
        for row in range(batch.n):
            lost, frames = rows.lost(row), rows.frames(row)
            facts: dict[str, Any] = {"references_without_mask": lost} if lost else {}
            if frames is None:
                statuses[row] = (Status.FAILED, "segment=both: none of the references has a mask")
                evidence[row] = facts
                continue
            still = frames[0] if len(frames) == 1 else None
            evidence[row] = (still.subject.evidence() if still is not None else frames_evidence(frames)) | facts
            if still is not None and not still.subject.found:
                plain = None if still.degenerate else round(still.value, 9)
                evidence[row] = {**evidence[row], "unsegmented": plain}
            counted = [frame for frame in frames if frame.subject.found or self._counts_missing()]
            if not counted:
                statuses[row] = (Status.NO_MASK, _NO_MASK if still is not None else _NO_MASK_IN_FRAMES)
                continue
            zero = self.options["on_missing"] == "zero"
            each = [0.0 if zero and not frame.subject.found else frame.value for frame in counted]
            values[row] = of_frames(each, str(self.options["over_frames"]))
            degenerate[row] = any(frame.degenerate for frame in counted)
        return make_scores(
            values, degenerate={"subject or of a reference": degenerate}, within=self.value_range, statuses=statuses,
            evidence=evidence,
        )  # fmt: skip

    def _counts_missing(self) -> bool:
        """True where a picture without a mask counts; an error where the run is to stop for it."""
        if self.options["on_missing"] == "error":
            raise UserError(
                f"on_missing=error: every output of {self.info.name} must have a mask", got="one without",
                fix="Run with on_missing=skip to see which rows have the status no_mask",
            )  # fmt: skip
        return self.options["on_missing"] != "skip"

    def other_values(
        self, value: float | None, status: Status, evidence: Mapping[str, Any]
    ) -> Mapping[str, float | None]:
        if "seg_found" not in evidence or status not in (Status.OK, Status.NO_MASK):
            return {}
        if "frame_scores" in evidence:
            return self._other_values_of_frames(evidence)
        if evidence["seg_found"]:
            return {"skip": value, "zero": value, "unsegmented": value, "seg_found": 1.0}
        return {"skip": None, "zero": 0.0, "unsegmented": evidence.get("unsegmented"), "seg_found": 0.0}

    def _other_values_of_frames(self, evidence: Mapping[str, Any]) -> Mapping[str, float | None]:
        how, scores, plain = str(self.options["over_frames"]), evidence["frame_scores"], evidence["frame_unsegmented"]
        return {
            "skip": over_frames(scores, how),
            "zero": over_frames([0.0 if score is None else score for score in scores], how),
            "unsegmented": over_frames([p if score is None else score for score, p in zip(scores, plain)], how),
            "seg_found": evidence["frames_found"] / len(scores),
        }

    def weight(self, sample: Sample) -> int | None:
        return len(sample.references) if self.options["reduce"] == "mean" else None

    def describe(self) -> dict[str, Any]:
        shown = ("segmenter", "threshold", "mask_threshold", "segment", "fill", "crop", "on_missing")
        return {
            "scale": 1.0, "clamp": "none", "range": list(self.value_range), "mean_colour": list(self.mean_colour),
            **{name: self.options[name] for name in shown},
        }  # fmt: skip


class _Dino:
    """What the DINO metrics change: `--model` names an encoder of images and texts, which they do not need."""

    @classmethod
    def takes_model(cls) -> bool:
        return False


def _dino_options(options: Sequence[OptionInfo]) -> tuple[OptionInfo, ...]:
    doc = "Encoder of pictures: dino-vits16, dino-vits8, DINOv2, DINOv3; --model keeps off."
    return tuple(OptionInfo("model", DINO_MODEL, doc) if item.name == "model" else item for item in options)


class DinoI(_Dino, ClipI):
    """`dino_i`: see its card."""

    info = dataclasses.replace(
        ClipI.info,
        name="dino_i",
        family="dino",
        summary="Subject fidelity: cosine of the output's DINO embedding with those of the sample's real images.",
        paper=f"{_DINO_PAPER}; {ClipI.info.paper}",
        capability="ImageEncoder",
        default_model=DINO_MODEL,
        options=_dino_options(ClipI.info.options),
        notes=(
            "The class token of the last layer, after its norm; for ViT-S/16 resized to 256, cropped to 224, as the "
            "published numbers were made.",
            "DreamBooth and CustomConcept101 use ViT-S/16, DreamBench++ ViT-S/8; values of different encoders cannot "
            "be compared.",
        ),
    )


class DinoISeg(_Dino, ClipISeg):
    """`dino_i_seg`: see its card."""

    mean_colour = IMAGENET_MEAN

    info = dataclasses.replace(
        ClipISeg.info,
        name="dino_i_seg",
        family="dino",
        summary="Subject fidelity without the background: dino_i of the output's segmented subject.",
        paper=f"{_DINO_PAPER}; Liu et al., Phantom, arXiv 2502.11079",
        capability="ImageEncoder",
        default_model=DINO_MODEL,
        options=_dino_options(ClipISeg.info.options),
        notes=(*ClipISeg.info.notes, "fill=mean is ImageNet's mean colour."),
    )
