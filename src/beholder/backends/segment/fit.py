"""How pictures enter segmenters and detectors: four ways to fit a size, all on Pillow or scipy, pinned as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from beholder._errors import ModelError

Kind = Literal["squash", "shortest", "longest", "square"]

_FILTERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
HALF = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


@dataclass(frozen=True)
class Fit:
    """A picture's way into a network.

    Args:
        kind: squash to `size`; shortest: the short side to size[0], the long one at most size[1], shape kept; longest:
            the long side to size[0], shape kept, then zeros (after normalising) on the right and below to size[1]
            squared; square: zeros on the right and below to a square, smoothed and resized to `size`.
        size: two numbers, see `kind`.
        interpolation: Pillow's filter, with antialiasing (square: scipy's linear zoom after a Gaussian).
        mean: per channel, subtracted after dividing by 255.
        std: per channel, divided by after that.
    """

    kind: Kind
    size: tuple[int, int]
    interpolation: str
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def as_json(self) -> dict[str, Any]:
        """All of it, JSON-ready."""
        facts = asdict(self)
        return {"library": "scipy" if self.kind == "square" else "pillow", **facts, "size": list(self.size),
                "mean": list(self.mean), "std": list(self.std)}  # fmt: skip

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Fit:
        """What `as_json` described."""
        return cls(
            facts["kind"], tuple(facts["size"]), facts["interpolation"], tuple(facts["mean"]), tuple(facts["std"])
        )

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """(H, W, 3) uint8 to (3, h, w) float32."""
        if self.kind == "square":
            return self._normalise(_owl_square(pixels, self.size))
        height, width = self.resized(*pixels.shape[:2])
        if (height, width) != pixels.shape[:2]:
            from PIL import Image

            code = next(code for code, name in _FILTERS.items() if name == self.interpolation)
            pixels = np.asarray(Image.fromarray(pixels).resize((width, height), resample=Image.Resampling(code)))
        made = self._normalise(pixels.astype(np.float32) * np.float32(1 / 255))
        if self.kind == "longest":
            side = self.size[1]
            made = np.pad(made, ((0, 0), (0, side - height), (0, side - width)))
        return made

    def resized(self, height: int, width: int) -> tuple[int, int]:
        """(height, width) of a picture inside the input, without what is filled up."""
        if self.kind == "squash":
            return self.size
        if self.kind == "longest":
            scale = self.size[0] / max(height, width)
            return int(height * scale + 0.5), int(width * scale + 0.5)
        if self.kind == "square":
            return height, width
        return _short_side(height, width, *self.size)

    def _normalise(self, values: np.ndarray) -> np.ndarray:
        mean, std = np.asarray(self.mean, dtype=np.float32), np.asarray(self.std, dtype=np.float32)
        return np.ascontiguousarray(((values - mean) / std).transpose(2, 0, 1), dtype=np.float32)


def _short_side(height: int, width: int, short: int, longest: int) -> tuple[int, int]:
    """DETR's rule: the short side to `short`, unless the long one would pass `longest`."""
    low, high = min(height, width), max(height, width)
    raw: float = short
    if high / low * short > longest:
        raw = longest * low / high
    side = round(raw)
    if low == side:
        return height, width
    other = int(raw * high / low)
    return (other, side) if width < height else (side, other)


def _owl_square(pixels: np.ndarray, size: Sequence[int]) -> np.ndarray:
    """OWLv2's square: zeros on the right and below, a Gaussian against aliasing, a linear zoom; values from 0 to 1."""
    from scipy import ndimage

    height, width = pixels.shape[:2]
    side = max(height, width)
    square = np.zeros((side, side, 3), dtype=np.float32)
    square[:height, :width] = pixels.astype(np.float32) * np.float32(1 / 255)
    factors = np.array([side / size[0], side / size[1], 1.0])
    smooth = ndimage.gaussian_filter(square, np.maximum(0, (factors - 1) / 2), mode="mirror")
    zoomed = ndimage.zoom(smooth, 1 / factors, order=1, mode="mirror", grid_mode=True)
    clipped: np.ndarray = np.clip(zoomed, square.min(), square.max())
    return clipped


def read_fit(config: Mapping[str, Any], default: Fit) -> Fit:
    """A fit from the image part of a folder's preprocessing configuration; `default` fills in what it leaves out.

    Raises:
        ModelError: a size that the kind does not take.
    """
    size = config.get("size")
    if size is None:
        numbers = default.size
    elif default.kind in ("squash", "square"):
        numbers = (size, size) if isinstance(size, int) else _pick(size, "height", "width")
    elif default.kind == "shortest":
        numbers = _pick(size, "shortest_edge", "longest_edge")
    else:
        pad = config.get("pad_size") or {"height": default.size[1]}
        numbers = (_pick(size, "longest_edge", "longest_edge")[0], int(pad["height"]))
    code = config.get("resample", next(code for code, name in _FILTERS.items() if name == default.interpolation))
    mean, std = config.get("image_mean", default.mean), config.get("image_std", default.std)
    return Fit(default.kind, numbers, _FILTERS[code], _three(mean), _three(std))


def _pick(size: Any, first: str, second: str) -> tuple[int, int]:
    if not isinstance(size, Mapping) or not {first, second} <= set(size):
        raise ModelError(f"a size must have {first} and {second}", got=repr(size))
    return int(size[first]), int(size[second])


def _three(values: Any) -> tuple[float, float, float]:
    red, green, blue = (float(value) for value in values)
    return red, green, blue
