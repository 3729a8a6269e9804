"""Segmenters without a network.

masks      the masks of the manifest: files, run lengths, polygons (docs/segmentation.md)
boxes      rectangles in the column `boxes`: x0 y0 x1 y1, COCO's, or YOLO's
color      flat art and tests: a colour that is named, else all that differs from the border's colour
fake       tests of your own code: a rectangle from checksums, which means nothing
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from beholder._errors import NoValue, OptionError
from beholder._hashing import hash_json
from beholder.backends.base import LoadOptions, ResolvedModel
from beholder.backends.cards import card_of
from beholder.backends.names import ModelName, parse_name
from beholder.backends.segment.common import Instances, SegmenterModel
from beholder.functional.masks import box_masks
from beholder.media.base import Picture
from beholder.records import ModelCard, Status

COLOURS = {
    "red": (220, 50, 47), "orange": (245, 150, 40), "yellow": (245, 220, 60), "green": (60, 160, 70),
    "blue": (50, 100, 220), "purple": (140, 70, 180), "pink": (245, 150, 190), "brown": (130, 85, 50),
    "black": (0, 0, 0), "white": (255, 255, 255), "gray": (128, 128, 128), "grey": (128, 128, 128),
}  # fmt: skip
_TOLERANCE = 48
_HEX = re.compile(r"#([0-9a-fA-F]{6})\b")


class GivenMasks(SegmenterModel):
    """The masks of the manifest: a visual is a picture and, where the row has one, its mask. The phrase is not read."""

    def prepare(self, pictures: Sequence[Picture]) -> tuple[int, int, Any]:
        height, width = pictures[0].pixels.shape[:2]
        if len(pictures) == 1:
            return height, width, None
        mask = pictures[1].pixels[..., 0] > 0
        if mask.shape != (height, width):
            raise NoValue(
                Status.FAILED, f"the mask is {mask.shape[1]}×{mask.shape[0]} pixels, its picture {width}×{height}"
            )
        return height, width, mask

    def payload(self, picture: Picture) -> Any:
        return None

    def phrases(self, text: str) -> list[str]:
        return [text]

    def find(self, seen: Any, size: Sequence[int], phrase: str, threshold: float, mask_threshold: float) -> Instances:
        return Instances.none(size) if seen is None else Instances(seen[None], np.ones(1, dtype=np.float32))


class GivenBoxes(SegmenterModel):
    """Rectangles of the column `boxes`, which come as the text, JSON {"boxes", "label"}.

    A box is [x0, y0, x1, y1] in pixels; {"bbox": [x, y, width, height]} as COCO's, with "score" and "label" (or
    "category_name", "name") where known; or a line "class x y width height (score)" of YOLO's, centre and sides as
    shares of the picture. Boxes whose label is another one than the phrase are left out, and so are those with a score
    not above the threshold.
    """

    def payload(self, picture: Picture) -> Any:
        return None

    def phrases(self, text: str) -> list[str]:
        return [text]

    def find(self, seen: Any, size: Sequence[int], phrase: str, threshold: float, mask_threshold: float) -> Instances:
        given = json.loads(phrase)
        boxes, scores = read_boxes(given["boxes"], str(given["label"]), size)
        kept = scores > threshold
        height, width = size
        limits = np.array([width, height, width, height], dtype=np.float64)
        boxes = np.clip(boxes[kept], 0, limits)
        return Instances(box_masks(boxes, size), scores[kept], boxes)


def read_boxes(value: Any, label: str, size: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Boxes (k, 4) in pixels and scores (k,) of what stands in the column `boxes`.

    Raises:
        NoValue: something that is no box.
    """
    height, width = size
    if isinstance(value, str):
        text = value.strip()
        value = json.loads(text) if text.startswith(("[", "{")) else text.splitlines()
    items = [value] if isinstance(value, Mapping) or _is_box(value) else list(value or ())
    boxes, scores = [], []
    for item in items:
        score, own = 1.0, ""
        try:
            if isinstance(item, str):
                numbers = [float(part) for part in item.split()]
                x, y, w, h = (n * side for n, side in zip(numbers[1:5], (width, height, width, height), strict=True))
                box, score = [x - w / 2, y - h / 2, x + w / 2, y + h / 2], numbers[5] if len(numbers) > 5 else 1.0
            elif isinstance(item, Mapping):
                x, y, w, h = (float(number) for number in item["bbox"])
                box, score = [x, y, x + w, y + h], float(item.get("score", 1.0))
                own = str(next((item[key] for key in ("label", "category_name", "name") if item.get(key)), ""))
            else:
                box = [float(number) for number in item]
            if len(box) != 4 or not np.isfinite(box).all():
                raise ValueError("four finite numbers are needed")
        except (TypeError, ValueError, KeyError, IndexError) as error:
            raise NoValue(Status.FAILED, f"column 'boxes' holds what is no box: {item!r} ({error})") from error
        if not own or not label or own.casefold() == label.casefold():
            boxes.append(box)
            scores.append(score)
    return np.asarray(boxes, dtype=np.float64).reshape(-1, 4), np.asarray(scores, dtype=np.float32)


def _is_box(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 4 and all(isinstance(n, (int, float)) for n in value)


class ColorSegmenter(SegmenterModel):
    """Connected areas of one colour.

    A phrase that names a colour ("red", "a red square", "#dc322f") finds the pixels whose channels all lie within
    `tolerance` of it; any other phrase finds what differs by more than that, in a channel, from the border's most
    frequent colour. Instances are areas connected by sides; the score is an area's share of all that was found.
    """

    def __init__(self, model: ResolvedModel, *, tolerance: int = _TOLERANCE) -> None:
        super().__init__(model)
        self._tolerance = tolerance

    def payload(self, picture: Picture) -> np.ndarray:
        return picture.pixels

    def find(self, seen: Any, size: Sequence[int], phrase: str, threshold: float, mask_threshold: float) -> Instances:
        from scipy.ndimage import label

        colour = _named_colour(phrase)
        base = _border_colour(seen) if colour is None else np.asarray(colour)
        near = (np.abs(seen.astype(np.int16) - base.astype(np.int16)) <= self._tolerance).all(axis=2)
        labels, count = label(~near if colour is None else near)
        masks = np.stack([labels == number for number in range(1, count + 1)]) if count else Instances.none(size).masks
        areas = masks.sum(axis=(1, 2)).astype(np.float64)
        return Instances(masks, (areas / max(areas.sum(), 1)).astype(np.float32))


def _named_colour(phrase: str) -> tuple[int, ...] | None:
    written = _HEX.search(phrase)
    if written:
        return tuple(bytes.fromhex(written[1]))
    return next((COLOURS[word] for word in re.findall(r"[a-z]+", phrase.lower()) if word in COLOURS), None)


def _border_colour(pixels: np.ndarray) -> np.ndarray:
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    colours, counts = np.unique(border, axis=0, return_counts=True)
    best: np.ndarray = colours[np.argmax(counts)]
    return best


class FakeSegmenter(SegmenterModel):
    """One or two rectangles from checksums of picture and phrase; a phrase with the word "nothing" finds none."""

    def __init__(self, model: ResolvedModel, *, seed: int = 0) -> None:
        super().__init__(model)
        self._seed = seed

    def payload(self, picture: Picture) -> int:
        return zlib.crc32(picture.pixels.tobytes())

    def find(self, seen: Any, size: Sequence[int], phrase: str, threshold: float, mask_threshold: float) -> Instances:
        if "nothing" in phrase.lower().split():
            return Instances.none(size)
        rng = np.random.default_rng([self._seed, seen, zlib.crc32(phrase.encode("utf-8", "surrogatepass"))])
        height, width = size
        boxes = []
        for _ in range(int(rng.integers(1, 3))):
            y, x = int(rng.integers(0, max(1, height // 2))), int(rng.integers(0, max(1, width // 2)))
            boxes.append([x, y, x + max(1, width // 2), y + max(1, height // 2)])
        scores = threshold + (1 - threshold) * rng.uniform(0.1, 1, len(boxes))
        return Instances(box_masks(boxes, size), scores.astype(np.float32), np.asarray(boxes))


class CallableSegmenter(SegmenterModel):
    """A user's function of (PIL image, phrase) to a mask (H, W), or to None where there is nothing.

    The mask may be a bool array or one of 0 and another number, also (n, H, W) for several instances.
    """

    def __init__(self, model: ResolvedModel, function: Callable[[Any, str], Any]) -> None:
        super().__init__(model)
        self._function = function

    def payload(self, picture: Picture) -> np.ndarray:
        return picture.pixels

    def find(self, seen: Any, size: Sequence[int], phrase: str, threshold: float, mask_threshold: float) -> Instances:
        from PIL import Image

        given = self._function(Image.fromarray(seen), phrase)
        if given is None:
            return Instances.none(size)
        masks = np.asarray(given)
        masks = masks[None] if masks.ndim == 2 else masks
        if masks.ndim != 3 or masks.shape[1:] != tuple(size):
            raise NoValue(
                Status.FAILED,
                f"the segmenter gave a mask of shape {np.shape(given)} for a picture of {size[1]}×{size[0]} pixels",
            )
        return Instances(masks.astype(bool), np.ones(len(masks), dtype=np.float32))


def register_segmenter(name: str, function: Callable[[Any, str], Any], *, version: str = "") -> None:
    """Makes a function of yours available as a segmenter, for this process: `clip_i_seg(segmenter=NAME)`.

    Args:
        name: how metrics ask for it.
        function: (PIL image, phrase) to a mask (H, W) or masks (n, H, W), bool or 0 and another number, or None.
        version: of what it does. Masks are remembered under the name, the function's code and this, so give another
            one when something changes that does not stand in the code (the weights that it uses).

    Raises:
        OptionError: something that cannot be called, or a name that stands for another model.
    """
    from beholder.backends.pool import register_model

    if not callable(function):
        raise OptionError("a segmenter must be a function of (image, phrase)", got=type(function).__name__)
    card = ModelCard(
        id=name, engine="callable", family="callable", arch=name, weights="", capabilities=("Segmenter",),
        notes=("A function of the user's own.",),
    )  # fmt: skip
    sha = hash_json({"name": name, "version": version, "code": _code_hash(function)})
    model = ResolvedModel(name, name, card, "", sha, {"library": "none"}, "float32", capability="Segmenter")
    register_model(name, CallableSegmenter(model, function))


def _code_hash(function: Callable[..., Any]) -> str:
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        text = getattr(function, "__qualname__", type(function).__qualname__)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_KINDS: dict[str, tuple[int, Callable[..., SegmenterModel], str | None]] = {
    "masks": (1, GivenMasks, None),
    "boxes": (1, GivenBoxes, None),
    "color": (1, ColorSegmenter, "tolerance"),
    "fake": (1, FakeSegmenter, "seed"),
}
"""Name → version of its rule, class, and the one whole number that it takes."""


class PlainEngine:
    """The engine of a segmenter without files."""

    def __init__(self, name: str) -> None:
        self.name = name

    def cards(self) -> Sequence[ModelCard]:
        card = card_of(self.name)
        return [] if card is None else [card]

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        parsed = parse_name(name, engines=(self.name,))
        version, _, _ = _KINDS[self.name]
        facts = {"segmenter": self.name, "version": version, **self._settings(parsed)}
        card = card_of(self.name) or ModelCard(
            id=self.name, engine=self.name, family=self.name, arch=self.name, weights="", capabilities=("Segmenter",)
        )
        return ResolvedModel(
            name, parsed.id, card, "", hash_json(facts), {"library": "numpy"}, "float32", capability="Segmenter"
        )

    def load(self, model: ResolvedModel, *, device: str) -> SegmenterModel:
        return _KINDS[self.name][1](model, **self._settings(parse_name(model.asked, engines=(self.name,))))

    def _settings(self, parsed: ModelName) -> dict[str, int]:
        allowed = _KINDS[self.name][2]
        if not parsed.weights:
            return {}
        key, _, value = parsed.weights.partition("=")
        if key != allowed or not value.isdigit():
            form = self.name if allowed is None else f"{self.name} or {self.name}:{allowed}=NUMBER"
            raise OptionError(f"this segmenter is written {form}", got=repr(parsed.asked))
        return {key: int(value)}


MASKS = PlainEngine("masks")
BOXES = PlainEngine("boxes")
COLOR = PlainEngine("color")
FAKE = PlainEngine("fake")
