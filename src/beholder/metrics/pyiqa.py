"""`pyiqa:NAME`: a metric of the package pyiqa, as pyiqa computes it.

The metrics are made when they are asked for, from what pyiqa says of them: with or without a reference, and which
direction is better.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from beholder._errors import NoValue
from beholder._identity import parse_spec
from beholder.manifest.schema import Sample
from beholder.metrics.base import FeatureBatch, Pair, SampleMetric, ScoreColumns, Selection, Slot, make_metric
from beholder.metrics.frames import FRAME_OPTIONS
from beholder.metrics.image_scores import ImageScoreMetric
from beholder.metrics.outcome import make_scores
from beholder.metrics.text_image import output_of
from beholder.pyiqa_facts import LICENCE, Facts, facts_of
from beholder.records import MetricInfo, Status


class PyiqaMetric(ImageScoreMetric):
    """A metric of pyiqa without a reference; of a video, its frames are scored."""

    facts: ClassVar[Facts]

    @property
    def slots(self) -> tuple[Slot, ...]:
        return (Slot("score", self.info.name, "image_score", frames=str(self.options["frames"])),)

    def select(self, sample: Sample) -> Selection:
        return {"score": output_of(sample)}

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "pyiqa": self.facts.version}

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.identity,)


class PyiqaReferenceMetric(SampleMetric):
    """A metric of pyiqa with a reference: the mean over the row's references."""

    facts: ClassVar[Facts]

    @classmethod
    def takes_model(cls) -> bool:
        """`--model` names an encoder of images and texts."""
        return False

    @property
    def slots(self) -> tuple[Slot, ...]:
        return (Slot("score", self.info.name, "reference_score", many=True),)

    def select(self, sample: Sample) -> Selection:
        if not sample.references:
            raise NoValue(Status.NO_REFERENCE, "the row has no references")
        output = output_of(sample)
        return {"score": [Pair(output, reference) for reference in sample.references]}

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        found = batch.many("score")
        counts = np.diff(found.offsets)
        sums = np.add.reduceat(np.asarray(found.columns["score"], dtype=np.float64), found.offsets[:-1])
        return make_scores(sums / counts, degenerate={}, within=self.value_range)

    def weight(self, sample: Sample) -> int | None:
        return len(sample.references) or None

    def describe(self) -> dict[str, Any]:
        return {"scale": 1.0, "clamp": "none", "range": list(self.value_range), "pyiqa": self.facts.version}

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.identity,)


def _again(identity: str) -> SampleMetric:
    """The metric of a printed name, in another process."""
    return make_metric(parse_spec(identity))


def metric_class(name: str) -> type[SampleMetric]:
    """The class of `pyiqa:NAME`.

    Args:
        name: pyiqa's own name of it.

    Raises:
        MissingExtraError: pyiqa is not installed.
        UnknownNameError: it has no metric of that name.
        OptionError: a metric of whole sets, or one that needs captions.
    """
    facts = facts_of(name)
    base = PyiqaReferenceMetric if facts.with_reference else PyiqaMetric
    body: Mapping[str, Any] = {"facts": facts, "info": _info(facts), "__doc__": f"`pyiqa:{name}`: see its card."}
    return type(f"Pyiqa_{name}", (base,), dict(body))


def _info(facts: Facts) -> MetricInfo:
    rough = f"pyiqa gives its range as {facts.score_range}, a rough estimate: no value is refused for it."
    return MetricInfo(
        name=f"pyiqa:{facts.name}",
        family="pyiqa",
        kind="sample",
        summary=f"pyiqa's metric {facts.name}"
        + (", of the output and its reference." if facts.with_reference else " of the output."),
        inputs=("output", "references") if facts.with_reference else ("output",),
        formula=f"pyiqa.create_metric({facts.name!r}) on the decoded pictures, RGB from 0 to 1"
        + ("; the mean over the references" if facts.with_reference else ""),
        unit="pyiqa's",
        range=(None, None),
        higher_is_better=not facts.lower_is_better,
        degenerate="What pyiqa refuses (pictures that are too small for it) has the status failed, with its reason"
        + ("; a reference of another size, not_applicable." if facts.with_reference else "."),
        paper=None,
        reference_code="https://github.com/chaofengc/IQA-PyTorch",
        version="1",
        capability=facts.capability,
        default_model=f"pyiqa:{facts.name}",
        options=() if facts.with_reference else FRAME_OPTIONS,
        licence_note=LICENCE,
        notes=(f"Of pyiqa {facts.version}; other versions are other metrics.", *([rough] if facts.score_range else [])),
    )
