"""What metrics of one text and one image have in common: two slots, and rows that have no text or no output."""

from __future__ import annotations

import unicodedata
from typing import Any

from beholder._errors import NoValue
from beholder.manifest.schema import Sample
from beholder.media.base import Medium
from beholder.metrics.base import SampleMetric, Selection, Slot
from beholder.records import Status

RECONSTRUCTION = "reconstruction"
"""The task whose prompt names a subject and says nothing about the picture."""


class TextImageMetric(SampleMetric):
    """A metric of the output and a text about it; subclasses say which column the text comes from."""

    prompts_describe_reconstructions = True
    """False for metrics that have no value where the task is `reconstruction`."""

    @property
    def slots(self) -> tuple[Slot, ...]:
        model = str(self.options["model"])
        return (Slot("image", model, "image_embedding"), Slot("text", model, "text_embedding"))

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
        return {"image": output_of(sample), "text": self.prefix + text}

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
