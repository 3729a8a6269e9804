"""CLIP-I: how much an output looks like the real images of its subject."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from beholder._errors import NoValue
from beholder.functional.similarity import Reduce, cosine_ragged, normalise, reduce_ragged
from beholder.manifest.schema import Sample
from beholder.media.base import Medium
from beholder.metrics.base import FeatureBatch, Ragged, SampleMetric, ScoreColumns, Selection, Slot
from beholder.metrics.frames import FRAME_OPTIONS, any_of, reduce_frames
from beholder.metrics.outcome import make_scores
from beholder.metrics.text_image import output_of
from beholder.records import MetricInfo, OptionInfo, Status

DEFAULT_MODEL = "openai:ViT-L-14"


def references_of(sample: Sample, *, pairing: str, reduce: str) -> list[Medium]:
    """The references that an output is compared with.

    Raises:
        NoValue: there are none, or with `pairing=zip` not exactly one.
    """
    references = list(sample.references)
    if not references:
        owner = f"concept {sample.concept!r}" if sample.concept else "the row"
        raise NoValue(Status.NO_REFERENCE, f"{owner} has no references")
    if pairing == "zip" and len(references) != 1:
        raise NoValue(
            Status.FAILED,
            f"pairing=zip needs one reference for each output, got 1 vs {len(references)}; use pairing=all",
        )
    # The other references of `first` would only be encoded to be thrown away.
    return references[:1] if reduce == "first" else references


class ClipI(SampleMetric):
    """`clip_i`: see its card."""

    info = MetricInfo(
        name="clip_i",
        family="clip",
        kind="sample",
        summary="Subject fidelity: cosine of the output's CLIP embedding with those of the sample's real images.",
        inputs=("output", "references"),
        formula="mean over the references r of cos(f(x), f(r)); reduce=max and first take the largest or the first",
        unit="cosine",
        range=(-1.0, 1.0),
        higher_is_better=True,
        degenerate=(
            "A row without references has the status no_reference; an embedding of the output or of a reference that "
            "is zero or not finite has the status degenerate_embedding; pairing=zip with another number of references "
            "than one has the status failed."
        ),
        paper=(
            "Ruiz et al., DreamBooth: Fine Tuning Text-to-Image Diffusion Models for Subject-Driven Generation, "
            "arXiv 2208.12242"
        ),
        reference_code="https://github.com/adobe-research/custom-diffusion",
        version="1",
        capability="ImageTextEncoder",
        default_model=DEFAULT_MODEL,
        options=(
            OptionInfo("model", DEFAULT_MODEL, "Encoder."),
            OptionInfo(
                "pairing",
                "all",
                "all compares the output with every reference of its row; zip demands exactly one.",
                choices=("all", "zip"),
            ),
            OptionInfo(
                "reduce",
                "mean",
                "How the references of one row become one value.",
                choices=("mean", "max", "first"),
            ),
            *FRAME_OPTIONS,
        ),
        notes=(
            "The mean over the rows of one subject equals the published average over all pairs of generated and real "
            "images; the aggregate pairs weights each row by its number of references.",
            "reduce=max is the closest view of the subject, not CLIP-I as published.",
            "Values of different encoders cannot be compared.",
        ),
    )

    @property
    def slots(self) -> tuple[Slot, ...]:
        model, frames = str(self.options["model"]), str(self.options["frames"])
        return (
            Slot("image", model, "image_embedding", frames=frames),
            Slot("references", model, "image_embedding", many=True, frames=frames),
        )

    def select(self, sample: Sample) -> Selection:
        kept = references_of(sample, pairing=str(self.options["pairing"]), reduce=str(self.options["reduce"]))
        return {"image": output_of(sample), "references": kept}

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        found, references = batch.slots["image"], batch.many("references")
        pictures, frames = (
            (found.columns["embedding"], found.offsets) if isinstance(found, Ragged) else (found["embedding"], None)
        )
        image, offsets, items = normalise(pictures), references.offsets, references.columns["embedding"]
        if frames is not None:
            # Every frame meets all references of its sample.
            owner = np.repeat(np.arange(batch.n), np.diff(frames))
            items = items[np.concatenate([np.arange(offsets[row], offsets[row + 1]) for row in owner]).astype(np.intp)]
            offsets = np.concatenate([[0], np.cumsum(np.diff(references.offsets)[owner])])
        each = reduce_ragged(
            cosine_ragged(image, items, offsets), offsets, reduce=cast("Reduce", self.options["reduce"])
        )
        bad_image, bad = image.degenerate, each.degenerate
        if frames is not None:
            bad_image, bad = any_of(image, frames), np.logical_or.reduceat(bad, frames[:-1])
        empty = np.diff(references.offsets) == 0
        return make_scores(
            reduce_frames(each.values, frames, str(self.options["over_frames"])),
            degenerate={"image": bad_image, "references": bad & ~bad_image & ~empty},
            within=self.value_range,
            statuses={int(row): (Status.NO_REFERENCE, "the row has no references") for row in np.flatnonzero(empty)},
        )

    def weight(self, sample: Sample) -> int | None:
        return len(sample.references) if self.options["reduce"] == "mean" else None

    def describe(self) -> dict[str, Any]:
        return {"scale": 1.0, "clamp": "none", "range": list(self.value_range)}
