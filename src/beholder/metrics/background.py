"""background_share: how much of a subject-fidelity score the background earns."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from beholder._errors import NoValue
from beholder._identity import OptionValue
from beholder.functional.similarity import Units, cosine_matrix, normalise
from beholder.manifest.schema import Sample
from beholder.media.base import Medium
from beholder.metrics.base import FeatureBatch, SampleMetric, ScoreColumns, Selection, Slot
from beholder.metrics.clip_image import DEFAULT_MODEL, references_of
from beholder.metrics.outcome import make_scores
from beholder.metrics.segmenting import (
    SEGMENTER_OPTIONS,
    mask_of,
    masked_item,
    segment_item,
    segments_slot,
    subjects_of,
)
from beholder.metrics.subject import SegmentedMetric
from beholder.metrics.text_image import output_of
from beholder.records import MetricInfo, OptionInfo, Status

_NOTHING = "neither the subject nor the background alone is more like the references than other concepts' are"


class BackgroundShare(SegmentedMetric):
    """`background_share`: see its card."""

    info = MetricInfo(
        name="background_share",
        family="clip",
        kind="sample",
        summary="Share of the likeness to the references that the output's background earns: a check on clip_i.",
        inputs=("output", "references", "masks", "seg_prompt", "class_name", "concept"),
        formula=(
            "s_bg / (s_bg + s_fg); s_fg = max(0, C(subject alone) - c), s_bg = max(0, C(background alone) - c); C is "
            "clip_i with the row's references and c the chance level: C of references of other concepts, as their mean"
        ),
        unit="share",
        range=(0.0, 1.0),
        higher_is_better=False,
        degenerate=(
            "No mask, or one of the whole picture: no_mask; no other concept in the data set, or both parts at the "
            "chance level: not_enough_evidence; no references: no_reference; an embedding that is zero or not finite: "
            "degenerate_embedding."
        ),
        paper=None,
        reference_code=None,
        version="1",
        capability="ImageTextEncoder",
        default_model=DEFAULT_MODEL,
        options=(
            OptionInfo("model", DEFAULT_MODEL, "Encoder."),
            *SEGMENTER_OPTIONS,
            OptionInfo(
                "others",
                24,
                "References of other concepts that make the chance level, at most; taken in turn.",
                kind="int",
            ),
        ),
        notes=(
            "A diagnostic of ours: 0 is all subject, 1 all background.",
            "It needs a data set with several concepts that can be read twice; the chance level is one for a concept.",
            "Where clip_i is high and this is near 1, the output copied the references' background.",
        ),
    )

    _concepts: Mapping[str, tuple[Medium, ...]] = {}

    def fitted(self, samples: Iterable[Sample]) -> SampleMetric:
        """With the references of all concepts of the data set."""
        concepts: dict[str, tuple[Medium, ...]] = {}
        for sample in samples:
            if sample.concept is not None and sample.references:
                concepts.setdefault(sample.concept, sample.references)
        suited = super().fitted(samples)
        made = BackgroundShare(suited.options, default_model=self._default_model)
        made._concepts = concepts
        return made

    @property
    def slots(self) -> tuple[Slot, ...]:
        model = str(self.options["model"])
        return (
            segments_slot("segments", self.options),
            Slot("subject", model, "image_embedding", after=("segments",)),
            Slot("background", model, "image_embedding", after=("segments",)),
            Slot("references", model, "image_embedding", many=True),
            Slot("others", model, "image_embedding", many=True),
        )

    def select(self, sample: Sample) -> Selection:
        references = references_of(sample, pairing="all", reduce="mean")
        others = self._others(sample.concept)
        if not others:
            raise NoValue(
                Status.NOT_ENOUGH_EVIDENCE, "no references of another concept are known, so there is no chance level"
            )
        output = output_of(sample)
        pair = segment_item(sample, output, self.segmenter, mask_of(sample))
        masked: dict[str, Any] = {
            name: masked_item(output, "segments", pair, self._one, mean=self.mean_colour, invert=name == "background")
            for name in ("subject", "background")
        }
        return {"segments": pair, **masked, "references": references, "others": others}

    @property
    def _one(self) -> Mapping[str, OptionValue]:
        """Options with all instances as one subject for all-mean: a background has no instances."""
        union = "union" if self.options["instances"] == "all-mean" else self.options["instances"]
        return {**self.options, "instances": union}

    def _others(self, concept: str | None) -> list[Medium]:
        """References of other concepts: the first of each in the order of their names, then the second of each …"""
        lists = [media for name, media in sorted(self._concepts.items()) if name != concept]
        if concept is None:
            return []
        turns = itertools.chain.from_iterable(itertools.zip_longest(*lists))
        return list(itertools.islice((item for item in turns if item is not None), int(str(self.options["others"]))))

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        subjects = subjects_of(batch.rows_of("segments").columns, self._one)
        rests = subjects_of(batch.rows_of("segments").columns, self._one, invert=True)
        units = {name: normalise(batch.rows_of(name).columns["embedding"]) for name in ("subject", "background")}
        lists = {name: batch.many(name) for name in ("references", "others")}
        values, degenerate = np.zeros(batch.n), np.zeros(batch.n, dtype=bool)
        statuses: dict[int, tuple[Status, str]] = {}
        evidence: dict[int, Mapping[str, Any]] = {}
        for row in range(batch.n):
            evidence[row] = subjects[row].evidence()
            if not subjects[row].found or not rests[row].found:
                reason = (
                    "the mask covers the whole picture" if subjects[row].found else "no mask of the subject was found"
                )
                statuses[row] = (Status.NO_MASK, reason)
                continue
            real, other = (
                normalise(item.columns["embedding"][item.offsets[row] : item.offsets[row + 1]])
                for item in lists.values()
            )
            means = [_mean(_row(units["subject"], row), real), _mean(_row(units["background"], row), real)]
            means.append(_mean(other, real))
            degenerate[row] = any(bad for _, bad in means)
            chance = means[2][0]
            front, back = (max(0.0, value - chance) for value, _ in means[:2])
            evidence[row] = {
                **evidence[row], "s_fg": round(front, 9), "s_bg": round(back, 9), "chance": round(chance, 9)
            }  # fmt: skip
            if front + back > 0:
                values[row] = back / (front + back)
            elif not degenerate[row]:
                statuses[row] = (Status.NOT_ENOUGH_EVIDENCE, _NOTHING)
        return make_scores(
            values, degenerate={"subject, background or a reference": degenerate}, within=self.value_range,
            statuses=statuses, evidence=evidence,
        )  # fmt: skip

    def describe(self) -> dict[str, Any]:
        return {"range": list(self.value_range), "segmenter": self.segmenter, "fill": self.options["fill"]}


def _row(units: Units, row: int) -> Units:
    return Units(units.vectors[row : row + 1], units.degenerate[row : row + 1])


def _mean(left: Units, right: Units) -> tuple[float, bool]:
    """The mean cosine of all pairs, and whether a vector has no direction."""
    found = cosine_matrix(left, right)
    return float(found.values.mean()), bool(found.degenerate.any())
