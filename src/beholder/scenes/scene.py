"""What a scene is: objects with place and size before a background, as plain frozen data that travels as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from beholder._errors import OptionError, UnknownNameError
from beholder.scenes.vocabulary import COLORS, TEXTURES, thing

SMALL, LARGE = 0.31, 0.45
"""An object is called small up to the first size and large from the second (share of the scene's side)."""
LEFT, RIGHT = 0.40, 0.60
"""A centre before the first share is "on the left" or "at the top", past the second on the other side."""
APART = 0.22
"""Two centres must differ by this share along an axis before one object is said to be left of, or above, the other."""


@dataclass(frozen=True)
class SceneObject:
    """One object of a scene.

    Args:
        name: a thing's name.
        x, y: its centre, as shares of the scene's side from the left and the top, in [0, 1].
        size: its side as a share of the scene's side, in (0, 1].
        flip: whether it is mirrored left to right.
    """

    name: str
    x: float
    y: float
    size: float
    flip: bool = False

    def __post_init__(self) -> None:
        thing(self.name)
        if not (0.0 <= self.x <= 1.0 and 0.0 <= self.y <= 1.0):
            raise OptionError("an object's centre must lie in the scene, x and y in [0, 1]", got=f"{self.x}, {self.y}")
        if not 0.0 < self.size <= 1.0:
            raise OptionError("an object's size must be in (0, 1]", got=repr(self.size))

    @property
    def size_word(self) -> str | None:
        """ "small", "large", or None between the two."""
        return "small" if self.size <= SMALL else "large" if self.size >= LARGE else None

    @property
    def column(self) -> str:
        """ "left", "middle" or "right", by the centre."""
        return "left" if self.x < LEFT else "right" if self.x > RIGHT else "middle"

    @property
    def row(self) -> str:
        """ "top", "middle" or "bottom", by the centre."""
        return "top" if self.y < LEFT else "bottom" if self.y > RIGHT else "middle"


@dataclass(frozen=True)
class Background:
    """What lies behind the objects.

    Args:
        color: a colour's name (see COLORS).
        texture: a texture's name (see TEXTURES); "plain" is one flat colour.
        rgb: the colour itself; the texture's second tone is derived from it.
        period: the texture's period as a share of the scene's side (stripes, squares, dots).
        angle: direction of stripes and shading: 0 across, 1 down, 2 diagonal.
        seed: of the grain; used by "grainy" only.
    """

    color: str
    texture: str = "plain"
    rgb: tuple[int, int, int] | None = None
    period: float = 0.125
    angle: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.color not in COLORS:
            raise UnknownNameError("background colour", self.color, COLORS)
        if self.texture not in TEXTURES:
            raise UnknownNameError("background texture", self.texture, TEXTURES)
        if self.rgb is None:
            object.__setattr__(self, "rgb", COLORS[self.color])
        object.__setattr__(self, "rgb", tuple(int(v) for v in self.rgb or ()))
        if len(self.rgb or ()) != 3 or not all(0 <= v <= 255 for v in self.rgb or ()):
            raise OptionError("rgb must be three values from 0 to 255", got=repr(self.rgb))
        if not 0.0 < self.period <= 1.0 or self.angle not in (0, 1, 2):
            raise OptionError("period must be in (0, 1] and angle 0, 1 or 2", got=f"{self.period}, {self.angle}")


@dataclass(frozen=True)
class Scene:
    """Objects before a background; later objects lie over earlier ones.

    Args:
        objects: the objects, from the back to the front; may be empty.
        background: what lies behind them.
    """

    objects: tuple[SceneObject, ...]
    background: Background

    def __post_init__(self) -> None:
        object.__setattr__(self, "objects", tuple(self.objects))

    @property
    def names(self) -> tuple[str, ...]:
        """The distinct names of its objects, in first-seen order."""
        return tuple(dict.fromkeys(item.name for item in self.objects))

    def count(self, name: str) -> int:
        """How many objects have this name."""
        return sum(item.name == name for item in self.objects)

    def to_json(self) -> str:
        """The scene as one line of JSON; `Scene.from_json` gives an equal scene back."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Scene:
        """The scene that `to_json` wrote.

        Raises:
            OptionError: when the text is not a scene.
        """
        try:
            data: dict[str, Any] = json.loads(text)
            objects = tuple(SceneObject(**item) for item in data["objects"])
            return cls(objects=objects, background=Background(**data["background"]))
        except (ValueError, TypeError, KeyError) as error:
            raise OptionError("a scene must be JSON as written by Scene.to_json", got=str(error)) from error
