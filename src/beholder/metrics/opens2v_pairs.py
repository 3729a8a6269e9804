"""Which references of an OpenS2V row are looked for in its video, and under which label."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from beholder.manifest.schema import Sample
from beholder.media.base import Medium

LABELS = "class_label"
"""Column with the references' labels: a list, or a JSON list in a cell. Manifests know it as `seg_prompt`."""
STEM = "stem"
"""Extra column with the video's name in the benchmark; the row's id where there is none."""
PEOPLE = ("Man", "Woman")


class Wanted(NamedTuple):
    """A reference that is looked for.

    Args:
        reference: its picture.
        label: its label, as it is used.
    """

    reference: Medium
    label: str


def labels_of(sample: Sample) -> list[str]:
    """The labels of a row's references; its class name where it has no list and one reference."""
    value: Any = sample.extras.get(LABELS, sample.seg_prompt)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = [value]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [str(item) for item in value]
    return [sample.class_name] if sample.class_name and len(sample.references) == 1 else []


def stem_of(sample: Sample) -> str:
    """The video's name in the benchmark."""
    stem = sample.extras.get(STEM)
    return str(stem) if stem else sample.id


def pairs_of(sample: Sample) -> list[Wanted]:
    """References with their labels, by OpenS2V's rules.

    People in a stem with "face" are left out (faces are FaceSim's); in one with "human" they become "human". Where the
    lists differ in length, the shorter one rules.
    """
    stem = stem_of(sample)
    found = []
    for reference, label in zip(sample.references, labels_of(sample)):
        if label in PEOPLE and "face" in stem:
            continue
        found.append(Wanted(reference, "human" if label in PEOPLE and "human" in stem else label))
    return found
