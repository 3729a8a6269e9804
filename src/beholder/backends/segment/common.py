"""What all segmenters share: phrases in turn, a picture's own work done once, and the columns of the result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beholder._errors import ModelError, NoValue
from beholder.backends.base import Made, ResolvedModel
from beholder.backends.columns import object_column
from beholder.functional.masks import encode_masks, mask_boxes
from beholder.media.base import Picture
from beholder.records import Status


@dataclass(frozen=True)
class Instances:
    """What was found in one picture.

    Args:
        masks: (k, H, W) bool, of the decoded picture's size.
        scores: (k,) how sure each is.
        boxes: (k, 4) x0 y0 x1 y1 in pixels; None takes the masks' own.
    """

    masks: np.ndarray
    scores: np.ndarray
    boxes: np.ndarray | None = None

    @classmethod
    def none(cls, size: Sequence[int]) -> Instances:
        """Nothing, in a picture of (height, width)."""
        return cls(np.zeros((0, *size), dtype=bool), np.zeros(0, dtype=np.float32))


class SegmenterModel(ABC):
    """A `Segmenter` (see `backends.base`); subclasses say how a picture is looked at and how a phrase is found in it.

    What `prepare` gives is (height, width, payload).
    """

    batch = 4
    pair_batch = 64
    takes_video = False

    def __init__(self, model: ResolvedModel) -> None:
        self.model = model
        self.constants: Mapping[str, float] = {}

    def prepare(self, pictures: Sequence[Picture]) -> tuple[int, int, Any]:
        """One picture's size and what the model needs of it; thread-safe."""
        if len(pictures) != 1:
            raise ModelError("this segmenter takes one picture at a time", got=f"{len(pictures)}")
        height, width = pictures[0].pixels.shape[:2]
        return height, width, self.payload(pictures[0])

    def segment(
        self,
        visuals: Sequence[Any],
        pairs: Sequence[tuple[int, str]],
        *,
        threshold: float = 0.5,
        mask_threshold: float = 0.5,
    ) -> Made:
        """Instances of pairs; see `backends.base.Segmenter`."""
        found: list[tuple[Instances, int]] = []
        failures: dict[int, NoValue] = {}
        seen: dict[int, Any] = {}
        for row, (at, text) in enumerate(pairs):
            size = visuals[at][:2]
            try:
                phrases = self.phrases(text)
                if at not in seen:
                    seen = {at: self.look(visuals[at][2])}  # one picture's features at a time
                found.append(self._first(seen[at], size, phrases, threshold, mask_threshold))
            except NoValue as error:
                failures[row] = error
                found.append((Instances.none(size), 0))
        sizes = [visuals[at][:2] for at, _ in pairs]
        return Made(_columns(found, sizes), failures)

    def _first(
        self, seen: Any, size: Sequence[int], phrases: Sequence[str], threshold: float, mask_threshold: float
    ) -> tuple[Instances, int]:
        """What the first phrase that finds something finds, and its number; else nothing, and the last number."""
        for number, phrase in enumerate(phrases):
            instances = _tidy(self.find(seen, size, phrase, threshold, mask_threshold))
            if len(instances.scores):
                return instances, number
        return Instances.none(size), len(phrases) - 1

    def phrases(self, text: str) -> list[str]:
        """The phrases of a pair's text, one a line, all checked before the model runs.

        Raises:
            NoValue: a text without a phrase, or a phrase that the model does not take.
        """
        phrases = [line.strip() for line in text.split("\n") if line.strip()]
        if not phrases:
            raise NoValue(Status.FAILED, "the segmentation prompt is blank")
        for phrase in phrases:
            self.check(phrase)
        return phrases

    def check(self, phrase: str) -> None:  # noqa: B027 - most models take any phrase
        """Raises `NoValue` for a phrase that the model does not take."""

    @abstractmethod
    def payload(self, picture: Picture) -> Any:
        """What the model needs of a picture; thread-safe."""

    def look(self, payload: Any) -> Any:
        """A picture's own work, shared by all its phrases."""
        return payload

    @abstractmethod
    def find(self, seen: Any, size: Sequence[int], phrase: str, threshold: float, mask_threshold: float) -> Instances:
        """The instances of a phrase in a picture."""

    def close(self) -> None:  # noqa: B027 - most models hold nothing
        """Releases what was loaded."""


def _tidy(found: Instances) -> Instances:
    """By falling score, without empty masks, with boxes."""
    scores = np.asarray(found.scores, dtype=np.float32)
    order = np.argsort(-scores, kind="stable")
    order = order[found.masks[order].any(axis=(1, 2))] if len(order) else order
    masks = found.masks[order]
    boxes = mask_boxes(masks) if found.boxes is None else np.asarray(found.boxes, dtype=np.float32)[order]
    return Instances(masks, scores[order], boxes)


def _columns(found: Sequence[tuple[Instances, int]], sizes: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
    runs = [encode_masks(item.masks) for item, _ in found]
    empty = np.zeros((0, 4), dtype=np.float32)
    return {
        "scores": object_column([np.asarray(item.scores, dtype=np.float32) for item, _ in found]),
        "boxes": object_column([empty if item.boxes is None else item.boxes for item, _ in found]),
        "counts": object_column([counts for counts, _ in runs]),
        "lengths": object_column([lengths for _, lengths in runs]),
        "size": np.asarray(sizes, dtype=np.int32).reshape(len(found), 2),
        "phrase": np.asarray([number for _, number in found], dtype=np.int32),
    }
