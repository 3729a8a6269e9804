"""Small stand-ins for OpenS2V's models, so that its whole path runs on drawn scenes without weights: arithmetic on
colours. Their numbers say nothing about other videos.

    stand-in-detector    for YOLO-World: where the example's own colours lie together
    stand-in-faces       for the face models: the colours of the whole picture as its one face
    stand-in-judge       for the judge: how steadily the frames run
    stand-in-head        for the aesthetic head: an angle of the embedding
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from beholder._hashing import hash_json
from beholder.backends.base import Made, ResolvedModel
from beholder.backends.columns import object_column
from beholder.backends.pool import register_model
from beholder.media.base import Picture
from beholder.records import ModelCard

DETECTOR, FACES, JUDGE, HEAD = "stand-in-detector", "stand-in-faces", "stand-in-judge", "stand-in-head"

_NOTE = "A stand-in for trying things out on drawn scenes: its values mean nothing elsewhere."


class _StandIn:
    """What all of them have in common."""

    batch = pair_batch = 16
    takes_video = False

    def __init__(self, name: str, capability: str, recipe: Mapping[str, Any]) -> None:
        card = ModelCard(
            id=name, engine="stand-in", family="stand-in", arch=name, weights="", size_bytes=0, notes=(_NOTE,),
            capabilities=(capability,), commercial=True,
        )  # fmt: skip
        self.constants: Mapping[str, float] = {}
        self.model = ResolvedModel(
            name, name, card, "", hash_json({"name": name, **recipe}), dict(recipe), "float32", capability=capability
        )  # fmt: skip

    def close(self) -> None:
        """Nothing to release."""


class ColourDetector(_StandIn):
    """An `ExampleDetector`: the box of the largest patch of pixels that have the example's own colours.

    Colours are counted in 8 levels a channel. Those of the example's border are its background and do not count. The
    score is the overlap of the two histograms, inside the box and in the example.
    """

    def __init__(self) -> None:
        super().__init__(DETECTOR, "ExampleDetector", {"levels": 8, "version": 1})

    def prepare(self, pictures: Sequence[Picture]) -> np.ndarray:
        """A frame's colour numbers."""
        return _levels(pictures[0].pixels)

    def prepare_example(self, picture: Picture) -> np.ndarray:
        """(512,) shares of the example's own colours."""
        numbers = _levels(picture.pixels)
        edge = np.concatenate([numbers[0], numbers[-1], numbers[:, 0], numbers[:, -1]])
        return _shares(numbers[~np.isin(numbers, np.unique(edge))])

    def detect_examples(self, visuals: Sequence[np.ndarray], pairs: Sequence[tuple[int, np.ndarray]]) -> Made:
        """One box a pair, or none."""
        found = [_find(visuals[at], example) for at, example in pairs]
        return Made({
            "boxes": object_column([box for box, _ in found]),
            "scores": object_column([score for _, score in found]),
            "size": np.array([visuals[at].shape for at, _ in pairs], dtype=np.int32),
        })  # fmt: skip


class WholeFace(_StandIn):
    """A `FaceAnalyser`: the whole picture is one face, and the shares of its own colours are its embedding."""

    def __init__(self) -> None:
        super().__init__(FACES, "FaceAnalyser", {"levels": 8, "version": 1})

    def prepare(self, pictures: Sequence[Picture]) -> tuple[np.ndarray, tuple[int, int]]:
        """Colour shares and size."""
        numbers = _levels(pictures[0].pixels)
        edge = np.concatenate([numbers[0], numbers[-1], numbers[:, 0], numbers[:, -1]])
        return _shares(numbers[~np.isin(numbers, np.unique(edge))]), pictures[0].size

    def analyse(self, visuals: Sequence[Any], **settings: Any) -> Made:
        """One face a picture; none where it has no colours of its own."""
        there = [bool(shares.any()) for shares, _ in visuals]
        boxes = [np.array([[0, 0, *size]], np.float32)[: int(seen)] for seen, (_, size) in zip(there, visuals)]
        return Made({
            "boxes": object_column(boxes),
            "scores": object_column([np.ones(len(own), np.float32) for own in boxes]),
            "landmarks": object_column([np.zeros((len(own), 5, 2), np.float32) for own in boxes]),
            "areas": object_column([np.prod(own[:, 2:], axis=1, dtype=np.float64) for own in boxes]),
            "embedding": object_column([
                shares[None][: int(seen)].astype(np.float32) for seen, (shares, _) in zip(there, visuals)
            ]),
        })  # fmt: skip


class SteadyJudge(_StandIn):
    """A `Judge`: 5 for frames that hardly change from one to the next, down to 1 for frames that jump."""

    takes_video = True

    def __init__(self) -> None:
        super().__init__(JUDGE, "Judge", {"limits": list(_LIMITS), "version": 1})

    def prepare(self, pictures: Sequence[Picture]) -> float:
        """The largest mean difference of neighbouring frames."""
        steps = (
            np.abs(before.pixels.astype(np.int16) - after.pixels.astype(np.int16))
            for before, after in pairwise(pictures)
        )
        return max((float(step.mean()) for step in steps), default=0.0)

    def reply(self, visuals: Sequence[float], pairs: Sequence[tuple[int, str]], **settings: Any) -> Made:
        """The mark as text."""
        marks = [5 - sum(visuals[at] > limit for limit in _LIMITS) for at, _ in pairs]
        return Made({"text": object_column([str(mark) for mark in marks])})


_LIMITS = (8.0, 14.0, 20.0, 30.0)
"""Levels over which a judge takes off one mark each."""


class AngleHead(_StandIn):
    """An `EmbeddingHead`: 5.5 and the first number of the embedding of length 1."""

    def __init__(self) -> None:
        super().__init__(HEAD, "EmbeddingHead", {"version": 1})
        self.constants = {"low": 4.5, "high": 6.5}

    def score_embeddings(self, embeddings: Sequence[np.ndarray]) -> Made:
        """Values between 4.5 and 6.5."""
        rows = np.stack(list(embeddings)).astype(np.float64)
        length = np.linalg.norm(rows, axis=1)
        return Made({"score": 5.5 + rows[:, 0] / np.where(length > 0, length, 1)})


def register_stand_ins() -> None:
    """Makes all of them known by name in this process."""
    for model in (ColourDetector(), WholeFace(), SteadyJudge(), AngleHead()):
        register_model(model.model.id, model)


def _levels(pixels: np.ndarray) -> np.ndarray:
    """(H, W) number of each pixel's colour, 8 levels a channel."""
    parts = pixels.astype(np.int16) >> 5
    numbers: np.ndarray = (parts[..., 0] << 6) | (parts[..., 1] << 3) | parts[..., 2]
    return numbers


def _shares(numbers: np.ndarray) -> np.ndarray:
    counts = np.bincount(numbers.reshape(-1), minlength=512).astype(np.float64)
    return counts / counts.sum() if counts.sum() else counts


def _find(numbers: np.ndarray, example: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The box of the example's colours in a frame, and its score; none where there are none."""
    from scipy import ndimage

    own = np.flatnonzero(example > 0.01)
    mask = ndimage.binary_closing(np.isin(numbers, own), iterations=2)
    labelled, count = ndimage.label(mask)
    if not count:
        return np.zeros((0, 4), np.float32), np.zeros(0, np.float32)
    sizes = np.bincount(labelled.reshape(-1))[1:]
    rows, columns = np.nonzero(labelled == int(sizes.argmax()) + 1)
    box = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    inside = numbers[box[1] : box[3], box[0] : box[2]]
    shares = _shares(inside[np.isin(inside, own)])
    score = float(np.minimum(shares, example / max(example[own].sum(), 1e-9)).sum())
    return np.array([box], np.float32), np.array([score], np.float32)
