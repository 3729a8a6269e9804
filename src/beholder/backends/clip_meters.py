"""What measures clips frame by frame, without a network: Farnebäck's flow, differences of frames, sharpness.

All of them read a stream: two or three frames are held at a time, however long a clip is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

from beholder._errors import MissingExtraError, NoValue, PlannedError, UnknownNameError
from beholder._hashing import hash_json
from beholder.backends.base import LoadOptions, Made, ResolvedModel
from beholder.backends.cards_clips import FARNEBACK, cards
from beholder.backends.columns import object_column
from beholder.backends.names import BUILT_IN, parse_name
from beholder.media.base import Picture
from beholder.records import ModelCard, Status


class _Meter:
    """What all of them have in common."""

    batch = 8
    takes_video = True
    streams = True

    def __init__(self, model: ResolvedModel) -> None:
        self.model = model
        self.constants: Mapping[str, float] = {}

    def close(self) -> None:
        """Nothing to release."""


class FarnebackMeter(_Meter):
    """Optical flow of neighbouring frames; a `ClipMeter`. Needs OpenCV."""

    def __init__(self, model: ResolvedModel) -> None:
        super().__init__(model)
        self._cv2 = _opencv()

    def prepare(self, pictures: Iterable[Picture]) -> tuple[float, float, int]:
        """(mean of both flow components, mean length of the flow, frames) of a clip; 0 for fewer than two frames.

        The first follows OpenS2V: gray levels with the weights of red and blue exchanged, each flow resized by area
        to 16 columns, the mean over time, space and both signed components. The second is of the flow of proper gray
        levels at full size.

        Raises:
            NoValue: frames of several sizes, or more than 16 times as wide as high.
        """
        flow = length = 0.0
        count = 0
        for before, after in _neighbours(pictures):
            count += 1
            if before is None:
                continue
            rows = int(after.shape[0] * (FARNEBACK["width"] / after.shape[1]))
            if rows < 1:
                raise NoValue(Status.NOT_APPLICABLE, "the frames are more than 16 times as wide as high")
            exchanged = self._flow(before, after, self._cv2.COLOR_BGR2GRAY)
            small = self._cv2.resize(exchanged, (FARNEBACK["width"], rows), interpolation=self._cv2.INTER_AREA)
            flow += float(small.mean(dtype=np.float64))
            proper = self._flow(before, after, self._cv2.COLOR_RGB2GRAY).astype(np.float64)
            length += float(np.sqrt((proper**2).sum(axis=2)).mean())
        pairs = max(count - 1, 1)
        return flow / pairs, length / pairs, count

    def measure_clips(self, visuals: Sequence[Any]) -> Made:
        """Columns "flow", "magnitude" (n,) float64 in pixels a frame, and "n_frames" (n,) int32."""
        flow, length, count = zip(*visuals)
        return Made({
            "flow": np.array(flow), "magnitude": np.array(length), "n_frames": np.array(count, dtype=np.int32),
        })  # fmt: skip

    def _flow(self, before: np.ndarray, after: np.ndarray, gray: int) -> np.ndarray:
        one, other = (self._cv2.cvtColor(frame, gray) for frame in (before, after))
        settings = {name: FARNEBACK[name] for name in ("pyr_scale", "levels", "winsize", "iterations", "poly_n")}
        flow: np.ndarray = self._cv2.calcOpticalFlowFarneback(
            one, other, None, **settings, poly_sigma=FARNEBACK["poly_sigma"], flags=0
        )
        return flow


class DifferenceMeter(_Meter):
    """Differences of neighbouring frames; a `ClipMeter`."""

    def prepare(self, pictures: Iterable[Picture]) -> tuple[float, int]:
        """(mean absolute difference of levels, frames) of a clip; 0 for fewer than two frames.

        Raises:
            NoValue: frames of several sizes.
        """
        found = [
            float(np.abs(before.astype(np.int16) - after.astype(np.int16)).mean()) if before is not None else None
            for before, after in _neighbours(pictures)
        ]
        steps = [step for step in found if step is not None]
        return (float(np.mean(steps)) if steps else 0.0), len(found)

    def measure_clips(self, visuals: Sequence[Any]) -> Made:
        """Columns "difference" (n,) float64 in levels of 255, and "n_frames" (n,) int32."""
        step, count = zip(*visuals)
        return Made({"difference": np.array(step), "n_frames": np.array(count, dtype=np.int32)})


class SharpnessScorer(_Meter):
    """Sharpness of each frame, averaged over the three frames that it is seen in; a `FrameScorer`. A stand-in."""

    def prepare(self, pictures: Iterable[Picture]) -> np.ndarray:
        """(frames,) scores in [0, 1)."""
        each = (_sharpness(picture.pixels) for picture in pictures)
        return np.array([float(np.mean(window)) for window in in_windows(each)])

    def score_frames(self, visuals: Sequence[Any]) -> Made:
        """The object column "scores"."""
        return Made({"scores": object_column(list(visuals))})


def in_windows(items: Iterable[Any]) -> Iterator[tuple[Any, Any, Any]]:
    """The items of a stream, each in its window of three (see `functional.temporal.windows`); holds three of them."""
    source = iter(items)
    before: Any = None
    now = next(source, _END)
    first = True
    while now is not _END:
        after = next(source, _END)
        if first:
            yield now, now, now
        elif after is _END:
            yield before, before, now
        else:
            yield before, now, after
        before, now, first = now, after, False


_END = object()


class ClipEngine:
    """Gives one of these by its name, which is its recipe."""

    def __init__(self, name: str, kind: type[_Meter]) -> None:
        self.name, self._kind = name, kind

    def cards(self) -> Sequence[ModelCard]:
        return [card for card in cards() if card.engine == self.name]

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        parsed, (card,) = parse_name(name, engines=(*BUILT_IN, self.name)), self.cards()
        if parsed.id != card.id:
            raise UnknownNameError("recipe", name, [card.id])
        recipe = {**(card.preprocessing or {}), "version": 1}
        (capability,) = card.capabilities
        return ResolvedModel(name, card.id, card, "", hash_json(recipe), recipe, "float32", capability=capability)

    def load(self, model: ResolvedModel, *, device: str) -> Any:
        return self._kind(model)


class QAlignEngine:
    """Q-Align: listed, not built."""

    name = "qalign"

    def cards(self) -> Sequence[ModelCard]:
        return [card for card in cards() if card.engine == self.name]

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        raise PlannedError(f"{name} is listed but cannot be used yet: {self.cards()[0].planned}")

    def load(self, model: ResolvedModel, *, device: str) -> Any:
        raise PlannedError(f"{model.asked} is listed but cannot be used yet: {self.cards()[0].planned}")


FARNEBACK_ENGINE = ClipEngine("farneback", FarnebackMeter)
DIFFERENCES_ENGINE = ClipEngine("differences", DifferenceMeter)
SHARPNESS_ENGINE = ClipEngine("sharpness", SharpnessScorer)
QALIGN_ENGINE = QAlignEngine()


def _neighbours(pictures: Iterable[Picture]) -> Iterator[tuple[np.ndarray | None, np.ndarray]]:
    """Each frame's pixels with those of the frame before; None before the first.

    Raises:
        NoValue: frames of several sizes.
    """
    for before, after in pairwise(chain((None,), pictures)):
        assert after is not None
        if before is not None and before.pixels.shape != after.pixels.shape:
            raise NoValue(Status.FAILED, f"frames must have one size; got {before.size} and {after.size}")
        yield (before.pixels if before is not None else None), after.pixels


def _sharpness(pixels: np.ndarray) -> float:
    gray = pixels.astype(np.float64) @ np.array([0.299, 0.587, 0.114])
    inner = gray[1:-1, 1:-1]
    laplacian = gray[:-2, 1:-1] + gray[2:, 1:-1] + gray[1:-1, :-2] + gray[1:-1, 2:] - 4 * inner
    size = float(np.abs(laplacian).mean()) if laplacian.size else 0.0
    return size / (size + 4)


def _opencv() -> Any:
    try:
        import cv2
    except ImportError as error:
        raise MissingExtraError("optical flow", "cv2", "motion") from error
    return cv2
