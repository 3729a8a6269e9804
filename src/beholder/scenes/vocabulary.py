"""The things and colours that scenes are made of: names, plurals, colours, textures, and their sprites."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from beholder._errors import UnknownNameError

Uint8Array = npt.NDArray[np.uint8]

COLORS: dict[str, tuple[int, int, int]] = {
    "black": (0, 0, 0),
    "gray": (128, 128, 128),
    "white": (255, 255, 255),
    "red": (212, 40, 40),
    "orange": (245, 140, 30),
    "yellow": (245, 220, 60),
    "green": (50, 160, 70),
    "blue": (50, 90, 210),
    "purple": (130, 60, 180),
    "pink": (250, 160, 195),
    "brown": (130, 82, 45),
}
"""Background colours by name, as the RGB value around which a scene's own colour is drawn."""

TEXTURES: tuple[str, ...] = ("plain", "striped", "checkered", "dotted", "grainy", "shaded")
"""Background textures by the adjective that captions use."""


@dataclass(frozen=True)
class Thing:
    """One nameable object.

    Args:
        name: the canonical English name; unique.
        plural: its plural.
        article: "a" or "an".
        category: coarse kind ("animal", "food", "vehicle" …).
        character: the emoji.
        cldr_name: the Unicode CLDR short name.
        keywords: the Unicode CLDR keywords.
        cell: index of its cell in the sprite sheet.
    """

    name: str
    plural: str
    article: str
    category: str
    character: str
    cldr_name: str
    keywords: tuple[str, ...]
    cell: int


@functools.cache
def _table() -> dict[str, Any]:
    path = resources.files("beholder") / "assets" / "scenes" / "objects.json"
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


@functools.cache
def things() -> dict[str, Thing]:
    """All things by name, in the fixed order of the vocabulary file."""
    return {row["name"]: Thing(**{**row, "keywords": tuple(row["keywords"])}) for row in _table()["objects"]}


def thing(name: str) -> Thing:
    """One thing by its name.

    Raises:
        UnknownNameError: for a name that is not in the vocabulary (with near names).
    """
    try:
        return things()[name]
    except KeyError:
        raise UnknownNameError("scene object", name, things()) from None


def object_names(category: str | Iterable[str] | None = None) -> tuple[str, ...]:
    """Names of all things, or of those in one or several categories, in vocabulary order."""
    if category is None:
        return tuple(things())
    wanted = {category} if isinstance(category, str) else set(category)
    if unknown := wanted - set(categories()):
        raise UnknownNameError("object category", min(unknown), categories())
    return tuple(name for name, entry in things().items() if entry.category in wanted)


def categories() -> tuple[str, ...]:
    """The categories that things belong to, in vocabulary order."""
    return tuple(dict.fromkeys(entry.category for entry in things().values()))


@functools.cache
def _sheet() -> Image.Image:
    with (resources.files("beholder") / "assets" / "scenes" / "sprites.png").open("rb") as handle:
        return Image.open(handle).convert("RGBA")


@functools.cache
def _cell(name: str) -> Image.Image:
    side, columns, index = int(_table()["cell"]), int(_table()["columns"]), thing(name).cell
    left, top = index % columns * side, index // columns * side
    return _sheet().crop((left, top, left + side, top + side))


@functools.lru_cache(maxsize=32768)
def sprite(name: str, size: int, flip: bool = False) -> Uint8Array:
    """The picture of a thing at a size in pixels.

    Args:
        name: a thing's name.
        size: side of the square in pixels, at least 1.
        flip: mirror it left to right.

    Returns:
        (size, size, 4) uint8 RGBA, read-only; alpha is straight (not premultiplied).
    """
    image = _cell(name)
    if flip:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if image.width != size:
        image = image.resize((size, size), Image.Resampling.BICUBIC)
    pixels = np.asarray(image, dtype=np.uint8)
    pixels.setflags(write=False)
    return pixels
