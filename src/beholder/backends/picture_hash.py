"""Engine "pixels": hashes of pictures, exact and perceptual, by which copies are known. No weights, no torch.

The perceptual hash's gray picture: Pillow's luma (L = 0.299 R + 0.587 G + 0.114 B in its whole-number arithmetic),
then Pillow's Lanczos filter to 32×32, whatever the picture's shape. What happens to the gray values stands in
`functional.picture_hash`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beholder._errors import OptionError, UnknownNameError
from beholder._hashing import hash_json
from beholder.backends.base import LoadOptions, Made, ResolvedModel
from beholder.backends.cards_pixels import RECIPE, cards
from beholder.backends.names import BUILT_IN, parse_name
from beholder.functional.picture_hash import SIDE, perceptual_hash
from beholder.media.base import Picture
from beholder.records import ModelCard


class PictureHasher:
    """A `PictureHasher` (see `backends.base`): pictures to hashes."""

    batch = 64
    takes_video = False

    def __init__(self, model: ResolvedModel) -> None:
        self.model = model
        self.constants: Mapping[str, float] = {}

    def prepare(self, pictures: Sequence[Picture]) -> tuple[bytes, np.ndarray]:
        """sha256 over size and pixels, and the small gray picture; thread-safe."""
        from PIL import Image

        if len(pictures) != 1:
            raise OptionError("a hash is of one picture", got=str(len(pictures)))
        pixels = np.ascontiguousarray(pictures[0].pixels)
        digest = hashlib.sha256(repr(pixels.shape).encode())
        digest.update(pixels.data)
        small = Image.fromarray(pixels).convert("L").resize((SIDE, SIDE), Image.Resampling.LANCZOS)
        return digest.digest(), np.asarray(small)

    def hash_pictures(self, visuals: Sequence[Any]) -> Made:
        """Columns "pixels" (n, 32) uint8, "hash" and "mirrored" (n,) uint64."""
        grays = [gray for _, gray in visuals]
        return Made(
            {
                "pixels": np.array([list(digest) for digest, _ in visuals], dtype=np.uint8).reshape(-1, 32),
                "hash": np.array([perceptual_hash(gray) for gray in grays], dtype=np.uint64),
                "mirrored": np.array([perceptual_hash(gray[:, ::-1]) for gray in grays], dtype=np.uint64),
            }
        )

    def close(self) -> None:
        """Nothing to release."""


class PixelsEngine:
    """Gives the hasher; its name is its recipe."""

    name = "pixels"

    def cards(self) -> Sequence[ModelCard]:
        return tuple(cards())

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        parsed, (card,) = parse_name(name, engines=(*BUILT_IN, self.name)), tuple(cards())
        if parsed.id != card.id:
            raise UnknownNameError("recipe of hashes", name, [card.id])
        return ResolvedModel(name, card.id, card, "", hash_json(RECIPE), RECIPE, "float32", capability="PictureHasher")

    def load(self, model: ResolvedModel, *, device: str) -> PictureHasher:
        return PictureHasher(model)


PIXELS = PixelsEngine()
