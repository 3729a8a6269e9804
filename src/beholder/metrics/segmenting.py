"""What metrics of segmented subjects have in common: options, phrases, masks from the manifest, masked pictures."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from beholder._errors import NoValue
from beholder._identity import OptionValue
from beholder.backends.base import Columns
from beholder.functional.masks import (
    Crop,
    Fill,
    Instances,
    choose_instances,
    crop_to_mask,
    decode_masks,
    fill_colour,
    fill_outside,
    run_areas,
)
from beholder.manifest.schema import Sample, is_written_mask
from beholder.media.base import Medium, Picture
from beholder.metrics.base import Derived, Joined, Pair, Slot
from beholder.metrics.text_image import is_blank
from beholder.records import OptionInfo, Status

DEFAULT_SEGMENTER = "sam3"
GIVEN = "masks"
"""The segmenter that takes the masks of the manifest."""

BOXES = "boxes"
"""The segmenter that takes the column `boxes`."""

_THRESHOLDS = {
    "gdino+sam": (0.25, 0.5), "gdino+sam2": (0.25, 0.5), "mm-gdino+sam": (0.25, 0.5), "mm-gdino+sam2": (0.25, 0.5),
    "omdet+sam": (0.3, 0.5), "owlv2+sam": (0.1, 0.5), "clipseg": (0.4, 0.4),
}  # fmt: skip
_LOOKED_AT = 100
"""Rows at the start of a data set among which one with a mask makes `masks` the default segmenter."""

MOST_WORDS = 30
"""Words of a phrase, at most: no open-vocabulary segmenter takes as many (SAM 3 reads 32 tokens)."""

_SHORT = 5
_PLACE = re.compile(
    r"\b(left|right|top|bottom|upper|lower|corner|above|below|beneath|behind|front|next to|beside|between|under|over|"
    r"middle|cent(?:re|er)|background|foreground)\b",
    re.IGNORECASE,
)
REMARK = (
    "its segmentation prompt has more than 5 words, or words of place; segmenters take short noun phrases and look "
    "past the rest"
)

SEGMENTER_OPTIONS = (
    OptionInfo(
        "segmenter",
        None,
        "What finds the subject (docs/segmentation.md); masks where the manifest has them, else sam3.",
    ),
    OptionInfo(
        "threshold", None, "Score that an instance must exceed; 0.5, or the segmenter's published value.", kind="float"
    ),
    OptionInfo(
        "mask_threshold", None, "Probability that a pixel of a mask must exceed; 0.5, for clipseg 0.4.", kind="float"
    ),
    OptionInfo(
        "instances",
        "best",
        "Which instances are the subject: best (highest score), union, largest, or all-mean (each by itself).",
        choices=("best", "union", "largest", "all-mean"),
    ),
    OptionInfo("min_area", 1e-4, "Share of the picture that an instance must cover.", kind="float"),
    OptionInfo(
        "fill",
        "black",
        "What takes the background's place; mean is the encoder's mean colour, keep leaves it as it is.",
        choices=("black", "white", "gray", "mean", "noise", "keep"),
    ),
    OptionInfo("seed", 0, "Seed of fill=noise.", kind="int"),
)
CROP_OPTIONS = (
    OptionInfo("crop", "none", "What part of the picture is encoded.", choices=("none", "bbox", "square")),
    OptionInfo("pad", 0.0, "Share of the mask's box that crop adds on each side.", kind="float"),
)


def segmenter_defaults(options: Mapping[str, OptionValue]) -> dict[str, OptionValue]:
    """The defaults of the segmenter and of its thresholds."""
    segmenter = options["segmenter"] if options["segmenter"] is not None else DEFAULT_SEGMENTER
    threshold, mask_threshold = _THRESHOLDS.get(str(segmenter).partition(":")[0], (0.5, 0.5))
    return {"segmenter": DEFAULT_SEGMENTER, "threshold": threshold, "mask_threshold": mask_threshold}


def has_masks(samples: Iterable[Sample]) -> bool:
    """True when one of the first rows has a mask."""
    return any(sample.masks is not None for sample in itertools.islice(samples, _LOOKED_AT))


def segments_slot(
    name: str, options: Mapping[str, OptionValue], *, many: bool = False, frames: str | None = None
) -> Slot:
    """The slot of a segmenter's instances; `frames` says which frames of a video are looked at, if any."""
    params = tuple((key, options[key]) for key in ("threshold", "mask_threshold"))
    return Slot(name, str(options["segmenter"]), "segments", many=many, params=params, frames=frames)


# what is looked for


def phrases_of(sample: Sample) -> tuple[str, ...]:
    """The phrases that name the subject, first tried first: `seg_prompt`, else `class_name`; never the prompt.

    Raises:
        NoValue: there is none, or one is far too long.
    """
    given = sample.seg_prompt if not is_blank_list(sample.seg_prompt) else sample.class_name
    items = given.split("|") if isinstance(given, str) else list(given or ())
    phrases = tuple(" ".join(str(item).split()) for item in items if not is_blank(item))
    if not phrases:
        raise NoValue(Status.FAILED, f"{_owner(sample)} has neither seg_prompt nor class_name to segment by")
    for phrase in phrases:
        words = len(phrase.split())
        if words > MOST_WORDS:
            raise NoValue(
                Status.FAILED,
                f"the segmentation prompt of {_owner(sample)} has {words} words, more than {MOST_WORDS}: a segmenter "
                "takes a short noun phrase (seg_prompt)",
            )
    return phrases


def is_blank_list(value: Any) -> bool:
    """True for nothing, blank text, and a list of nothing else."""
    return all(is_blank(item) for item in value) if isinstance(value, (list, tuple)) else is_blank(value)


def is_long_winded(phrases: Sequence[str]) -> bool:
    """True when a phrase looks like a sentence, or says where the subject is."""
    return any(len(phrase.split()) > _SHORT or _PLACE.search(phrase) for phrase in phrases)


def segment_item(sample: Sample, medium: Medium, segmenter: str, mask: Any) -> Pair:
    """What a segmenter is given of a picture.

    Args:
        sample: the row.
        medium: the picture.
        segmenter: the segmenter's name; `masks` takes `mask`, `boxes` the row's column `boxes`.
        mask: what the manifest has as the picture's mask, or None.
    """
    engine = segmenter.partition(":")[0]
    if engine == GIVEN:
        from beholder.media.mask import mask_medium

        return Pair(medium if mask is None else Joined((medium, mask_medium(mask))), "")
    if engine == BOXES:
        boxes = sample.extras.get(BOXES) if medium is sample.output else None
        label = "" if is_blank_list(sample.seg_prompt) and is_blank(sample.class_name) else phrases_of(sample)[0]
        return Pair(medium, json.dumps({"boxes": boxes, "label": label}, sort_keys=True, default=str))
    return Pair(medium, "\n".join(phrases_of(sample)))


def mask_of(sample: Sample) -> Any:
    """The mask of a row's output: of its concept, where the row has one for each; None where there is none."""
    masks = sample.masks
    if not isinstance(masks, Mapping) or is_written_mask(masks):
        return masks
    if sample.concept is not None:
        return masks.get(sample.concept)
    return next(iter(masks.values())) if len(masks) == 1 else None


def _owner(sample: Sample) -> str:
    return f"concept {sample.concept!r}" if sample.concept else "the row"


# what was found


@dataclass(frozen=True)
class Subject:
    """The subject in one picture.

    Args:
        masks: one mask for each picture that is made of it; [] where nothing was found.
        area: share of the picture that they cover together.
        score: the highest score of their instances; 0 where nothing was found.
        phrase: number of the phrase that found it.
        size: (height, width) of the picture.
    """

    masks: list[np.ndarray]
    area: float
    score: float
    phrase: int
    size: tuple[int, int]

    @property
    def found(self) -> bool:
        return bool(self.masks)

    def evidence(self) -> dict[str, Any]:
        """What is said of it beside a score."""
        if not self.found:
            return {"seg_found": False}
        facts: dict[str, Any] = {
            "seg_found": True, "seg_area": round(self.area, 6), "seg_score": round(self.score, 6)
        }  # fmt: skip
        return facts | ({"seg_phrase": self.phrase + 1} if self.phrase else {})


def subject_of(feature: Mapping[str, Any], *, instances: str, min_area: float, invert: bool = False) -> Subject:
    """The subject by a segmenter's columns, one picture's row.

    Args:
        feature: scores, counts, lengths, size (see `backends.base.Segmenter`).
        instances: see `functional.masks.choose_instances`.
        min_area: share of the picture that an instance must cover.
        invert: True gives the background instead; one that is smaller than `min_area` counts as not found.
    """
    height, width = (int(side) for side in np.ravel(feature["size"]))
    counts, lengths = np.asarray(feature["counts"]), np.asarray(feature["lengths"], dtype=np.int64)
    scores, least = np.asarray(feature["scores"], dtype=np.float64), min_area * height * width
    groups = choose_instances(run_areas(counts, lengths), scores, instances=cast("Instances", instances), least=least)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    masks: list[np.ndarray] = []
    for group in groups:
        runs = [counts[starts[at] : starts[at + 1]] for at in group]
        mask: np.ndarray = np.logical_or.reduce(decode_masks(np.concatenate(runs), lengths[group], (height, width)))
        mask = ~mask if invert else mask
        if mask.any() and mask.sum() >= least:
            masks.append(mask)
    area = float(np.logical_or.reduce(masks).mean()) if masks else 0.0
    score = max((float(scores[group].max()) for group in groups), default=0.0) if masks else 0.0
    return Subject(masks, area, score, int(np.ravel(feature.get("phrase", 0))[0]), (height, width))


def subjects_of(columns: Columns, options: Mapping[str, OptionValue], *, invert: bool = False) -> list[Subject]:
    """The subjects of several pictures, by columns of a segmenter."""
    n = len(columns["scores"])
    rows = ({name: array[at] for name, array in columns.items()} for at in range(n))
    return [
        subject_of(row, instances=str(options["instances"]), min_area=float(str(options["min_area"])), invert=invert)
        for row in rows
    ]


# pictures of it


def masked_pictures(
    picture: Picture,
    feature: Mapping[str, Any],
    *,
    instances: str,
    min_area: float,
    fill: str,
    seed: int,
    crop: str,
    pad: float,
    invert: bool,
    mean: tuple[int, int, int],
) -> list[Picture]:
    """Pictures of the subject alone; the picture as it is where nothing was found (then it is the unsegmented one)."""
    found = subject_of(feature, instances=instances, min_area=min_area, invert=invert)
    height, width = picture.pixels.shape[:2]
    if found.size != (height, width):
        raise NoValue(Status.FAILED, f"masks of {found.size[1]}×{found.size[0]} for a picture of {width}×{height}")
    made = []
    for mask in found.masks:
        colour = tuple(int(value) for value in mean)
        pixels = fill_outside(picture.pixels, mask, fill=cast("Fill", fill), mean=cast("Any", colour), seed=seed)
        beyond = fill_colour(cast("Fill", fill), cast("Any", colour))
        pixels = np.ascontiguousarray(crop_to_mask(pixels, mask, crop=cast("Crop", crop), pad=pad, colour=beyond))
        made.append(Picture(pixels, (pixels.shape[1], pixels.shape[0]), picture.source_mode, picture.notes))
    return made or [picture]


def masked_item(
    medium: Medium, slot: str, source: Pair, options: Mapping[str, OptionValue], *, mean: tuple[int, int, int],
    invert: bool = False,
) -> Derived:  # fmt: skip
    """The item of a picture's subject alone (or of its background alone), from the instances in a slot."""
    names = ("instances", "min_area", "fill", "seed", "crop", "pad")
    defaults: Mapping[str, OptionValue] = {"crop": "none", "pad": 0.0}
    params: dict[str, OptionValue] = {name: options.get(name, defaults.get(name, 0)) for name in names}
    if params["fill"] != "noise":
        params["seed"] = 0
    params |= {"invert": invert, "mean": tuple(mean)}
    return Derived(medium, slot, source, masked_pictures, tuple(params.items()))
