"""Pictures on their way into GME: two resizings to whole patches, then rows of patches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from beholder._errors import ModelError
from beholder.backends.preprocess import Preprocessing, read_preprocessor
from beholder.backends.vlm_video import PatchVideo

FIRST_TOKENS = (4, 16384)
"""Visual tokens that the first resizing keeps a picture between."""
TOKENS = (256, 1280)
"""Visual tokens that the second one does."""
MOST_OBLONG = 200
"""Longest side by shortest, at most."""


def whole_patches(height: int, width: int, *, unit: int, tokens: tuple[int, int]) -> tuple[int, int]:
    """(height, width) as multiples of `unit`, of `tokens[0]` to `tokens[1]` units squared, near the picture's shape.

    Each side is rounded to the nearest multiple (half to even); a picture of too many units shrinks, sides rounded
    down, and one of too few grows, sides rounded up. A side more than 200 times the other is cut to that.

    >>> whole_patches(720, 1280, unit=28, tokens=(256, 1280))
    (728, 1288)
    >>> whole_patches(1080, 1920, unit=28, tokens=(256, 1280))
    (728, 1316)
    """
    tall, wide = (max(unit, round(side / unit) * unit) for side in (height, width))
    low, high = (count * unit * unit for count in tokens)
    if tall * wide > high:
        scale = math.sqrt(height * width / high)
        tall, wide = (max(unit, math.floor(side / scale / unit) * unit) for side in (height, width))
    elif tall * wide < low:
        scale = math.sqrt(low / (height * width))
        tall, wide = (math.ceil(side * scale / unit) * unit for side in (height, width))
    return min(tall, wide * MOST_OBLONG), min(wide, tall * MOST_OBLONG)


class PatchPicture:
    """A picture at its own shape, cut into patches; bicubic, Pillow's antialiasing.

    Args:
        settings: the published preprocessing of pictures.

    Raises:
        ModelError: patches that are not two frames deep.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._cutter = PatchVideo(settings)
        if self._cutter.temporal_patch_size != 2:
            raise ModelError("patches must be two frames deep", got=str(self._cutter.temporal_patch_size))
        self.unit = self._cutter.patch_size * self._cutter.merge_size
        self.merge = self._cutter.merge_size**2
        self._settings = {
            key: settings[key]
            for key in ("do_rescale", "rescale_factor", "do_normalize", "image_mean", "image_std")
            if settings.get(key) is not None
        }

    def as_json(self) -> dict[str, Any]:
        """All of it, JSON-ready."""
        facts = self._pixels(self.unit, self.unit).as_json()
        return {
            **{key: facts[key] for key in ("library", "interpolation", "rescale", "mean", "std")},
            "resize": "whole patches, twice",
            "unit": self.unit,
            "tokens": [list(FIRST_TOKENS), list(TOKENS)],
            "patch": self._cutter.patch_size,
        }

    def __call__(self, pixels: np.ndarray) -> tuple[np.ndarray, tuple[int, int, int]]:
        """(H, W, 3) uint8 to patches (p, 3 · 2 · side²) float32 and their grid (1, rows, columns)."""
        for tokens in (FIRST_TOKENS, TOKENS):
            size = whole_patches(*pixels.shape[:2], unit=self.unit, tokens=tokens)
            prepared = self._pixels(*size).to_uint8(pixels)
            pixels = prepared.transpose(1, 2, 0)
        table = self._pixels(*size).table()
        image = np.stack([table[channel][prepared[channel]] for channel in range(3)])
        patches, grid = self._cutter.patches(np.stack([image, image]))
        return patches, (grid[0], grid[1], grid[2])

    def _pixels(self, height: int, width: int) -> Preprocessing:
        config = {**self._settings, "size": {"height": height, "width": width}, "resample": 3, "do_center_crop": False}
        config = {"image_mean": _MEAN, "image_std": _STD, **config}
        return read_preprocessor(config, model_type="siglip", image_size=height)


_MEAN = [0.48145466, 0.4578275, 0.40821073]
_STD = [0.26862954, 0.26130258, 0.27577711]
