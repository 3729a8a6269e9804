"""nexus_score: whether the references' subjects are in the video, and look like them (OpenS2V's NexusScore)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from beholder._errors import NoValue
from beholder.functional.half import half_dots, half_units
from beholder.functional.nexus import FrameBoxes, Nexus, frame_boxes, nexus
from beholder.functional.similarity import cosine, normalise
from beholder.manifest.schema import Sample
from beholder.media.base import Picture
from beholder.metrics.base import Derived, FeatureBatch, Pair, SampleMetric, ScoreColumns, Selection, Slot
from beholder.metrics.opens2v_pairs import labels_of, pairs_of
from beholder.metrics.outcome import make_scores
from beholder.metrics.text_image import output_of
from beholder.records import MetricInfo, OptionInfo, Status

DETECTOR = "yolo-world-v2-l-image"
EMBEDDER = "gme-qwen2-vl-7b"

_VARIANTS = {
    "official": "official",
    "mean_similarity": "mean_similarity",
    "coverage": "coverage",
    "corrected": "corrected",
}


class NexusScore(SampleMetric):
    """`nexus_score`: see its card."""

    other_aggregates: ClassVar[tuple[str, ...]] = ("zeros_included",)

    info = MetricInfo(
        name="nexus_score",
        family="opens2v",
        kind="sample",
        summary="Whether the references' subjects are found in the video and look like them, by detector and embedder.",
        inputs=("output", "references", "class_label"),
        formula=(
            "official: mean of <e(reference), e(crop)> over the boxes that count, divided by the number of frames with "
            "a box; a box counts with confidence > 0.6, <e(label), e(crop)> > 0.30 and a similarity that is not 0"
        ),
        unit="cosine a frame",
        range=(-1.01, 1.01),
        higher_is_better=True,
        degenerate=(
            "No reference that is looked for: not_applicable; no box in any frame: no_detection; boxes, but none that "
            "counts: all_filtered. OpenS2V leaves all of these out of its mean."
        ),
        paper="Yuan et al., OpenS2V-Nexus, arXiv 2505.20292; Cheng et al., YOLO-World, arXiv 2401.17270",
        reference_code="https://github.com/PKU-YuanGroup/OpenS2V-Nexus",
        version="1",
        capability="ExampleDetector",
        default_model=EMBEDDER,
        options=(
            OptionInfo("detector", DETECTOR, "Finds what looks like an example picture; yolo-world is official."),
            OptionInfo("model", EMBEDDER, "Embedder of crops, references and labels; --model keeps off."),
            OptionInfo(
                "variant",
                "official",
                "official divides by the frames with a box, so that flicker pays; mean_similarity does not; coverage "
                "is the share of frames with a box; corrected weighs each reference's similarity with its coverage.",
                choices=tuple(_VARIANTS),
            ),
            OptionInfo("frames", "uniform:32", "Which frames of a video are looked at; 32 is official."),
            OptionInfo(
                "dot", "fp16", "fp16 rounds similarities and their mean to 16 bits (official); fp32 does not.",
                choices=("fp16", "fp32"),
            ),
            OptionInfo("box", 0.5, "Least score of a box; strict.", kind="float"),
            OptionInfo("confidence", 0.6, "Least score of a box that counts; strict.", kind="float"),
            OptionInfo("label", 0.3, "Least similarity of a crop to the label; strict.", kind="float"),
        ),
        licence_note="YOLO-World's code and weights are under GPL-3.0; GME's weights are under Apache-2.0.",
        notes=(
            "Under the official rule one frame with the subject gives about 0.4 and 32 of 32 about 0.0125: compare the "
            "companions in the evidence.",
            "People are left out where the row's name has face in it, and are labelled human where it has human.",
            "The aggregate zeros_included counts no_detection and all_filtered as 0; the mean leaves them out, as "
            "OpenS2V does.",
            "OpenS2V's authors found agreement with people in about 75 % of cases.",
        ),
    )  # fmt: skip

    @classmethod
    def takes_model(cls) -> bool:
        """`--model` names the encoder of CLIP-like metrics; with another embedder this is another metric."""
        return False

    @property
    def value_range(self) -> tuple[float | None, float | None]:
        return (0.0, 1.0) if self.options["variant"] == "coverage" else self.info.range

    @property
    def slots(self) -> tuple[Slot, ...]:
        detector, model, frames = (str(self.options[name]) for name in ("detector", "model", "frames"))
        return (
            Slot("boxes", detector, "example_detections", many=True, frames=frames),
            Slot("crops", model, "image_embedding", many=True, frames=frames, after=("boxes",), may_fail=True),
            Slot("references", model, "image_embedding", many=True, frames=frames),
            Slot("labels", model, "text_embedding", many=True),
        )

    def select(self, sample: Sample) -> Selection:
        output, wanted = output_of(sample), pairs_of(sample)
        if not sample.references:
            raise NoValue(Status.NO_REFERENCE, "the row has no references")
        if not wanted:
            told = labels_of(sample)
            why = f"all of its labels are left out: {', '.join(told)}" if told else "it has no class_label"
            raise NoValue(Status.NOT_APPLICABLE, f"no_pairs: no reference is looked for; {why}")
        pairs = [Pair(output, item.reference) for item in wanted]
        limits = self._limits
        return {
            "boxes": pairs,
            "crops": [Derived(output, "boxes", pair, cut_boxes, limits) for pair in pairs],
            "references": [item.reference for item in wanted],
            "labels": [item.label for item in wanted],
        }

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        values = np.zeros(batch.n)
        statuses: dict[int, tuple[Status, str]] = {}
        evidence: dict[int, Mapping[str, Any]] = {}
        for row in range(batch.n):
            try:
                found, flat = self._score_row(batch, row)
            except NoValue as missing:
                statuses[row] = (Status(missing.status), missing.reason)
                continue
            evidence[row] = self._evidence(found, flat, batch, row)
            verdict = _verdict(found)
            if verdict is not None and not (self.options["variant"] == "coverage" and found.f_obj):
                statuses[row] = verdict
                continue
            values[row] = float(getattr(found, _VARIANTS[str(self.options["variant"])]) or 0.0)
        return make_scores(values, degenerate={}, within=self.value_range, statuses=statuses, evidence=evidence)

    def other_values(
        self, value: float | None, status: Status, evidence: Mapping[str, Any]
    ) -> Mapping[str, float | None]:
        if status in (Status.NO_DETECTION, Status.ALL_FILTERED):
            return {"zeros_included": 0.0}
        return {"zeros_included": value}

    def describe(self) -> dict[str, Any]:
        return {"scale": 1.0, "clamp": "none", "dot": self.options["dot"], "range": list(self.value_range)}

    @property
    def _limits(self) -> tuple[tuple[str, float], ...]:
        return tuple((name, float(str(self.options[name]))) for name in ("box", "confidence"))

    def _score_row(self, batch: FeatureBatch, row: int) -> tuple[Nexus, int]:
        """The value of a video, and how many of its boxes have no area."""
        references, labels = _rows(batch, "references", row), _rows(batch, "labels", row)
        boxes = _rows(batch, "boxes", row)
        pairs = len(references["embedding"])
        frames = len(boxes["scores"]) // pairs
        found = [
            [self._frame_boxes(boxes, pair * frames + at) for at in range(frames)] for pair in range(pairs)
        ]  # fmt: skip
        for at, (status, reason) in (batch.lost.get("crops") or [{}] * batch.n)[row].items():
            if any(len(item.cropped) for item in found[at]):
                raise NoValue(status, reason)
        counts = [sum(len(item.cropped) for item in own) for own in found]
        crops = _rows(batch, "crops", row).get("embedding", np.zeros((0, references["embedding"].shape[1])))
        if len(crops) != sum(counts):
            raise NoValue(Status.FAILED, f"{sum(counts)} crops were cut out, and {len(crops)} embeddings came back")
        owner = np.repeat(np.arange(pairs), counts)
        image = self._similar(references["embedding"], crops, owner, "a reference or crop")
        text = self._similar(labels["embedding"], crops, owner, "a label or crop")
        result = nexus(
            found,
            [image[owner == pair] for pair in range(pairs)],
            [text[owner == pair] for pair in range(pairs)],
            least_text=float(str(self.options["label"])),
            half=self.options["dot"] == "fp16",
        )
        return result, sum(item.flat for own in found for item in own)

    def _frame_boxes(self, boxes: Mapping[str, np.ndarray], at: int) -> FrameBoxes:
        height, width = (int(side) for side in boxes["size"][at])
        return frame_boxes(boxes["boxes"][at], boxes["scores"][at], (width, height), **dict(self._limits))

    def _similar(self, one: np.ndarray, crops: np.ndarray, owner: np.ndarray, what: str) -> np.ndarray:
        """Similarity of each crop to its own reference or label."""
        if self.options["dot"] == "fp16":
            a, b = half_units(one), half_units(crops)
            values = half_dots(a.vectors[owner], b.vectors)
        else:
            whole, part = normalise(one), normalise(crops)
            values = cosine(whole.vectors[owner], part).values if len(crops) else np.zeros(0)
            a, b = whole, part  # type: ignore[assignment]
        if a.degenerate.any() or b.degenerate.any():
            raise NoValue(Status.DEGENERATE_EMBEDDING, f"the embedding of {what} has no direction")
        return values

    def _evidence(self, found: Nexus, flat: int, batch: FeatureBatch, row: int) -> dict[str, Any]:
        wanted = pairs_of(batch.samples[row]) if row < len(batch.samples) else []
        names = [item.label for item in wanted] if len(wanted) == len(found.pairs) else [None] * len(found.pairs)
        facts = {
            name: getattr(found, name)
            for name in ("mean_similarity", "coverage", "coverage_kept", "n_boxes", "n_kept", "f_obj", "n_frames")
        }
        return {
            "official": found.official,
            "official_included": bool(found.official),
            "nexus_corrected": found.corrected,
            **facts,
            "n_without_area": flat,
            "thresholds": {**dict(self._limits), "label": float(str(self.options["label"]))},
            "references": [{"label": name, **pair._asdict()} for name, pair in zip(names, found.pairs, strict=True)],
        }


def cut_boxes(picture: Picture, columns: Mapping[str, Any], *, box: float, confidence: float) -> list[Picture]:
    """The confident boxes of a frame as pictures, the best first."""
    found = frame_boxes(columns["boxes"], columns["scores"], picture.size, box=box, confidence=confidence)
    return [
        Picture(np.ascontiguousarray(picture.pixels[y0:y1, x0:x1]), (int(x1 - x0), int(y1 - y0)), picture.source_mode)
        for x0, y0, x1, y1 in found.corners.tolist()
    ]


def _rows(batch: FeatureBatch, slot: str, row: int) -> Mapping[str, np.ndarray]:
    """A row's own part of a slot's columns."""
    ragged = batch.many(slot)
    own = slice(int(ragged.offsets[row]), int(ragged.offsets[row + 1]))
    return {name: array[own] for name, array in ragged.columns.items()}


def _verdict(found: Nexus) -> tuple[Status, str] | None:
    if not found.f_obj:
        return Status.NO_DETECTION, f"no box of any reference in {found.n_frames} frames"
    if not found.n_kept:
        return Status.ALL_FILTERED, f"{found.n_boxes} boxes in {found.f_obj} frames, none of which counts (official 0)"
    return None
