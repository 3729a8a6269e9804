"""The card of the hasher of pictures, which is arithmetic without weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from beholder.records import ModelCard

RECIPE: dict[str, Any] = {
    "library": "pillow",
    "gray": "L",
    "resize": [32, 32],
    "interpolation": "lanczos",
    "hash": "dct64",
    "version": 1,
}


def cards() -> Iterator[ModelCard]:
    """The one card."""
    yield ModelCard(
        id="pixels:dct64",
        engine="pixels",
        family="hash",
        arch="dct64",
        weights="dct64",
        preprocessing=RECIPE,
        licence="none needed: arithmetic without weights",
        commercial=True,
        aliases=("pixels",),
        capabilities=("PictureHasher",),
        notes=("Arithmetic only, no weights. Near copies differ in at most 6 of 64 bits.",),
    )
