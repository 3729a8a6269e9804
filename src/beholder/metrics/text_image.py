"""What metrics of one text and one image have in common: two slots, and rows that have no text or no output."""

from __future__ import annotations

import copy
import unicodedata
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from beholder._errors import NoValue
from beholder.manifest.schema import Sample
from beholder.media.base import Medium
from beholder.metrics.base import FeatureBatch, Pair, Ragged, SampleMetric, Selection, Slot
from beholder.metrics.frames import UnitScores, image_text_scores
from beholder.records import Status

RECONSTRUCTION = "reconstruction"
"""The task whose prompt names a subject and says nothing about the picture."""


class TextImageMetric(SampleMetric):
    """A metric of the output and a text about it; subclasses say which column the text comes from."""

    prompts_describe_reconstructions = True
    """False for metrics that have no value where the task is `reconstruction`."""

    pairs = False
    """True for the form that asks its model for a cosine of image and text together (see `on_pairs`)."""

    @property
    def slots(self) -> tuple[Slot, ...]:
        model, frames = str(self.options["model"]), str(self.options["frames"])
        if self.pairs:
            return (Slot("pair", model, "match", params=(("head", "itc"),), frames=frames),)
        return (Slot("image", model, "image_embedding", frames=frames), Slot("text", model, "text_embedding"))

    def on_pairs(self) -> SampleMetric:
        """The same metric on a model that gives the cosine of an image and a text, and no embeddings (BLIP-2's ITC)."""
        if not self.can_take_pairs:
            return super().on_pairs()
        made = copy.copy(self)
        made.pairs = True
        return made

    @property
    def can_take_pairs(self) -> bool:
        """True where the metric's value is made of the cosine alone."""
        return False

    def text_columns(self, batch: FeatureBatch) -> Mapping[str, Any]:
        """What is known of the texts, one row a sample ("truncated", "n_tokens")."""
        if not self.pairs:
            return cast("Mapping[str, Any]", batch.slots["text"])
        rows = batch.rows_of("pair")
        first = rows.offsets[:-1]
        return {name: array[first] for name, array in rows.columns.items() if name in ("truncated", "n_tokens")}

    def unit_scores(self, batch: FeatureBatch) -> UnitScores:
        """Cosines of every picture of a sample with the sample's text."""
        if not self.pairs:
            return image_text_scores(batch)
        found = batch.slots["pair"]
        offsets = found.offsets if isinstance(found, Ragged) else None
        columns = found.columns if isinstance(found, Ragged) else found
        values = np.asarray(columns["cosine"], dtype=np.float64)
        fine = np.zeros(batch.n, dtype=bool)
        return UnitScores(values, offsets, fine, fine)

    def over_frames(self, scores: UnitScores, values: np.ndarray) -> np.ndarray:
        """One value a sample, from the values of its pictures."""
        return scores.over_frames(values, str(self.options["over_frames"]))

    def select(self, sample: Sample) -> Selection:
        if self._is_foreign_task(sample):
            raise NoValue(
                Status.NOT_APPLICABLE,
                "the task is reconstruction: its prompt names a subject and says nothing about the picture",
            )
        name, text = self.source_text(sample)
        if text is not None and not isinstance(text, str):
            raise NoValue(Status.FAILED, f"column {name!r} must hold text, got {type(text).__name__}")
        if text is None or is_blank(text):
            raise NoValue(Status.EMPTY_PROMPT, f"column {name!r} is empty")
        output, text = output_of(sample), self.prefix + text
        return {"pair": Pair(output, text)} if self.pairs else {"image": output, "text": text}

    def source_text(self, sample: Sample) -> tuple[str, Any]:
        """The column that holds the text, and what stands in it."""
        return "prompt", sample.prompt

    @property
    def prefix(self) -> str:
        """What is put before the text."""
        return ""

    def scored_text(self, sample: Sample) -> str | None:
        if self._is_foreign_task(sample):
            return None
        _, text = self.source_text(sample)
        return self.prefix + text if isinstance(text, str) and not is_blank(text) else None

    def _is_foreign_task(self, sample: Sample) -> bool:
        return not self.prompts_describe_reconstructions and sample.task == RECONSTRUCTION


def output_of(sample: Sample) -> Medium:
    """The sample's output; a row that names none is a fault."""
    if sample.output is None:
        raise NoValue(Status.MISSING, "the row names no output")
    return sample.output


def is_blank(text: Any) -> bool:
    """True for None and for text without a visible character (spaces, line breaks, zero-width marks)."""
    if text is None:
        return True
    if not isinstance(text, str):
        return False
    if text[:1].isalnum():
        return False  # what nearly every prompt is: decided by its first character
    return not any(not (char.isspace() or unicodedata.category(char) in ("Cc", "Cf")) for char in text)
