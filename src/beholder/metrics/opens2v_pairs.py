"""Which references of an OpenS2V row are looked for in its video, under which label, and which one is its person."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from beholder._errors import NoValue
from beholder.manifest.schema import Sample
from beholder.media.base import Medium
from beholder.records import Status

LABELS = "class_label"
"""Column with the references' labels: a list, or a JSON list in a cell. Manifests know it as `seg_prompt`."""
STEM = "stem"
"""Extra column with the video's name in the benchmark; the row's id where there is none."""
PEOPLE = ("Man", "Woman")
ONE_PERSON = ("singlehuman", "singleface", "faceobj", "humanobj")
"""What the names of videos hold whose face is compared; with several people nobody knows whose face is whose."""
PEOPLE_FOLDERS = ("/man/", "/woman/", "/crop_man/", "/crop_woman/")
"""The first reference whose path holds one of these is the person."""


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


def person_of(sample: Sample) -> Medium:
    """The person whose face is compared.

    Raises:
        NoValue: `not_applicable`: another kind of row, or no person among its references.
    """
    stem = stem_of(sample)
    if not any(kind in stem for kind in ONE_PERSON):
        raise NoValue(Status.NOT_APPLICABLE, f"{stem}: only {', '.join(ONE_PERSON)} show one person")
    for reference in sample.references:
        path = "/" + reference.name.replace("\\", "/")
        if any(part in path for part in PEOPLE_FOLDERS):
            return reference
    raise NoValue(Status.NOT_APPLICABLE, f"no reference is a person: none has {', '.join(PEOPLE_FOLDERS)} in its path")
