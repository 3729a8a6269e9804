"""From a decoded picture to a model's input, pinned to Pillow and described in plain JSON.

Resizing and cropping happen on uint8 pixels. What follows (rescale, subtract the mean, divide by the standard
deviation) maps each of the 256 values of a channel to one float32, so it is a table, and looking values up gives
the same bits as computing them. Prepared images therefore stay uint8 until the model takes them: a quarter of the
memory and of the transfer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from beholder._errors import ModelError

_FILTERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
_CODES = {name: code for code, name in _FILTERS.items()}


@dataclass(frozen=True)
class Preprocessing:
    """How a picture becomes an input tensor.

    Args:
        resize: "shortest" keeps the aspect ratio and brings the short side to `size[0]`; "squash" resizes to `size`;
            "longest" brings the long side to it (rounding the other); "none" leaves the picture as it is.
        size: (height, width) after resizing; for "shortest" and "longest" both are that side.
        crop: (height, width) of the centre crop, or None. A smaller picture is padded with zeros.
        crop_rounding: where the crop begins when the margin is odd: "floor" (transformers) or "even" (half to even,
            torchvision and so OpenAI's own transform).
        interpolation: Pillow's filter, always with antialiasing.
        rescale: factor that brings 0..255 to the model's range.
        mean: per channel, subtracted after rescaling.
        std: per channel, divided by after that.
    """

    resize: Literal["shortest", "longest", "squash", "none"]
    size: tuple[int, int]
    crop: tuple[int, int] | None
    crop_rounding: Literal["floor", "even"]
    interpolation: str
    rescale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def input_size(self) -> tuple[int, int]:
        """(height, width) of the input tensor."""
        return self.crop or self.size

    def as_json(self) -> dict[str, Any]:
        """All of it, JSON-ready, with the library that does the work."""
        return {
            "library": "pillow",
            "resize": self.resize,
            "size": list(self.size),
            "crop": list(self.crop) if self.crop else None,
            "crop_rounding": self.crop_rounding,
            "interpolation": self.interpolation,
            "rescale": self.rescale,
            "mean": list(self.mean),
            "std": list(self.std),
        }

    @classmethod
    def from_json(cls, description: Mapping[str, Any]) -> Preprocessing:
        """The preprocessing that `as_json` described; other keys are looked past."""
        size, crop = description["size"], description["crop"]
        return cls(
            resize=description["resize"],
            size=(size[0], size[1]),
            crop=(crop[0], crop[1]) if crop else None,
            crop_rounding=description["crop_rounding"],
            interpolation=description["interpolation"],
            rescale=description["rescale"],
            mean=tuple(description["mean"]),
            std=tuple(description["std"]),
        )

    def to_uint8(self, pixels: np.ndarray) -> np.ndarray:
        """(H, W, 3) uint8 to the model's pixels before rescaling, (3, h, w) uint8, C-contiguous.

        Raises:
            ModelError: a picture of another size for a model that does not resize.
        """
        height, width = pixels.shape[:2]
        target = self.resized(height, width)
        if target != (height, width):
            from PIL import Image

            picture = Image.fromarray(pixels)
            pixels = np.asarray(
                picture.resize((target[1], target[0]), resample=Image.Resampling(_CODES[self.interpolation]))
            )
        if self.crop is not None:
            pixels = _centre_crop(pixels, self.crop, self.crop_rounding)
        if pixels.shape[:2] != self.input_size:
            raise ModelError(f"the model takes pictures of {self.input_size} only", got=f"{pixels.shape[:2]}")
        return np.ascontiguousarray(pixels.transpose(2, 0, 1))

    def table(self) -> np.ndarray:
        """(3, 256) float32: what each pixel value of each channel becomes."""
        values = (np.arange(256, dtype=np.float64) * self.rescale).astype(np.float32)
        mean = np.asarray(self.mean, dtype=np.float32)[:, None]
        std = np.asarray(self.std, dtype=np.float32)[:, None]
        result: np.ndarray = (values[None, :] - mean) / std
        return result

    def to_float(self, pixels: np.ndarray) -> np.ndarray:
        """(H, W, 3) uint8 to the model's input, (3, h, w) float32: `to_uint8` and `table` together."""
        table, prepared = self.table(), self.to_uint8(pixels)
        return np.stack([table[channel][prepared[channel]] for channel in range(3)])

    def resized(self, height: int, width: int) -> tuple[int, int]:
        """(height, width) that a picture of that size is resized to, before any crop."""
        if self.resize == "none":
            return height, width
        if self.resize == "squash":
            return self.size
        if self.resize == "longest":
            scale = self.size[0] / max(height, width)
            return max(1, round(height * scale)), max(1, round(width * scale))
        short = self.size[0]
        if width <= height:
            return max(1, int(short * height / width)), short
        return short, max(1, int(short * width / height))


def _centre_crop(pixels: np.ndarray, crop: tuple[int, int], rounding: str) -> np.ndarray:
    height, width = pixels.shape[:2]
    if height < crop[0] or width < crop[1]:
        pad = [max(0, crop[0] - height), max(0, crop[1] - width)]
        first = [(p + 1) // 2 if rounding == "floor" else p // 2 for p in pad]
        pixels = np.pad(pixels, ((first[0], pad[0] - first[0]), (first[1], pad[1] - first[1]), (0, 0)))
        height, width = pixels.shape[:2]
    top, left = (_margin(full - kept, rounding) for full, kept in zip((height, width), crop))
    return pixels[top : top + crop[0], left : left + crop[1]]


def _margin(spare: int, rounding: str) -> int:
    return spare // 2 if rounding == "floor" else round(spare / 2)


def read_preprocessor(config: Mapping[str, Any], *, model_type: str, image_size: int) -> Preprocessing:
    """What a `preprocessor_config.json` asks for, defaults of its model family filled in.

    Args:
        config: the file's content (image part).
        model_type: transformers' model type; SigLIP squashes to a square and does not crop.
        image_size: the vision tower's input size, the default for sizes that the file does not give.

    Raises:
        ModelError: a step that is not understood.
    """
    siglip = model_type.startswith("siglip")
    size = config.get("size", {"height": image_size, "width": image_size} if siglip else image_size)
    kind, target = _size(size, square=siglip)
    resize: Literal["shortest", "squash", "none"] = kind if config.get("do_resize", True) else "none"
    crop: tuple[int, int] | None = None
    if config.get("do_center_crop", not siglip):
        crop = _size(config.get("crop_size", image_size), square=True)[1]
    if resize == "shortest" and crop is None:
        raise ModelError("a model that resizes the short side must crop", got="a preprocessor_config.json that doesn't")
    if resize == "none" and crop is None:
        target = (image_size, image_size)
    if config.get("do_pad"):
        raise ModelError("padding is not among the preprocessing steps that are supported", got="do_pad: true")
    code = config.get("resample", 3)
    if code not in _FILTERS:
        raise ModelError("resample must be one of Pillow's filters, 0 to 5", got=repr(code))
    normalise = config.get("do_normalize", True)
    default_mean, default_std = _family_mean(siglip)
    mean = _three(config.get("image_mean", default_mean)) if normalise else (0.0, 0.0, 0.0)
    std = _three(config.get("image_std", default_std)) if normalise else (1.0, 1.0, 1.0)
    rescale = float(config.get("rescale_factor", 1 / 255)) if config.get("do_rescale", True) else 1.0
    return Preprocessing(resize, target, crop, "floor", _FILTERS[code], rescale, mean, std)


def _size(value: Any, *, square: bool) -> tuple[Literal["shortest", "squash"], tuple[int, int]]:
    if isinstance(value, bool):
        raise ModelError("a size must be a number or an object", got=repr(value))
    if isinstance(value, int):
        return ("squash" if square else "shortest"), (value, value)
    if isinstance(value, Mapping):
        if "height" in value and "width" in value:
            return "squash", (int(value["height"]), int(value["width"]))
        if set(value) == {"shortest_edge"}:
            return "shortest", (int(value["shortest_edge"]), int(value["shortest_edge"]))
    raise ModelError("a size must be a number, {height, width} or {shortest_edge}", got=repr(value))


def _family_mean(siglip: bool) -> tuple[Sequence[float], Sequence[float]]:
    if siglip:
        return (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)
    return OPENAI_MEAN, OPENAI_STD


def _three(values: Any) -> tuple[float, ...]:
    if isinstance(values, (int, float)):
        values = [values] * 3
    result = tuple(float(value) for value in values)
    if len(result) != 3:
        raise ModelError("mean and standard deviation must have one value for each of three channels", got=repr(values))
    return result


OPENAI_MEAN = (0.48145466, 0.4578275, 0.40821073)
OPENAI_STD = (0.26862954, 0.26130258, 0.27577711)
