"""Drawing scenes from a seed, and changing one thing about a scene."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from beholder._errors import OptionError, UnknownNameError
from beholder.scenes.scene import Background, Scene, SceneObject
from beholder.scenes.vocabulary import COLORS, TEXTURES, object_names

SpatialPrior = Callable[[np.random.Generator], tuple[float, float]]
_DIGITS = 4
_TRIES = 60
EDITS: tuple[str, ...] = ("swap_object", "move_object", "remove_object", "change_background")
"""The kinds of change that `edit` makes."""


@dataclass(frozen=True)
class SceneOptions:
    """What scenes are drawn from.

    Args:
        names: the objects to draw from; empty for the whole vocabulary.
        counts: how many objects a scene may have, with `count_weights` their odds.
        count_weights: odds of each count; empty for equal odds.
        repeat: chance that an object of a scene with several has the name of the one before ("two cats").
        sizes: least and greatest size of a lone object (share of the side); several are at most `crowded_size`.
        crowded_size: greatest size when there are two or three objects.
        colors: background colours to draw from; empty for all.
        textures: background textures to draw from; empty for all.
        plain: chance of a plain background, before a texture is drawn.
        jitter: greatest change of each colour channel of a background; black, gray and white stay exact in half of
            the plain scenes.
        prior: draws an object's centre from a generator, as (x, y) in [0, 1]; None for uniform over all places
            where the object fits.
    """

    names: tuple[str, ...] = ()
    counts: tuple[int, ...] = (1, 2, 3)
    count_weights: tuple[float, ...] = (0.40, 0.40, 0.20)
    repeat: float = 0.3
    sizes: tuple[float, float] = (0.26, 0.66)
    crowded_size: float = 0.48
    colors: tuple[str, ...] = ()
    textures: tuple[str, ...] = ()
    plain: float = 0.5
    jitter: int = 18
    prior: SpatialPrior | None = None

    def __post_init__(self) -> None:
        known = object_names()
        for kind, chosen, pool in (
            ("scene object", self.names, known),
            ("background colour", self.colors, tuple(COLORS)),
            ("background texture", self.textures, TEXTURES),
        ):
            for name in chosen:
                if name not in pool:
                    raise UnknownNameError(kind, name, pool)
        if not self.counts or min(self.counts) < 0 or max(self.counts) > 9:
            raise OptionError("counts must be some of 0 to 9", got=repr(self.counts))
        if self.count_weights and len(self.count_weights) != len(self.counts):
            raise OptionError(
                "count_weights must be one weight a count",
                got=f"{len(self.count_weights)} for {len(self.counts)} counts",
                fix="Give count_weights=() for equal odds",
            )
        if not 0.0 < self.sizes[0] <= self.crowded_size <= self.sizes[1] <= 1.0:
            raise OptionError(
                "sizes must rise within (0, 1]: least <= crowded_size <= greatest",
                got=f"{self.sizes}, {self.crowded_size}",
            )


DEFAULT_OPTIONS = SceneOptions()


def _choose(rng: np.random.Generator, pool: Sequence[str]) -> str:
    return pool[int(rng.integers(len(pool)))]


def sample_background(
    rng: np.random.Generator, options: SceneOptions = DEFAULT_OPTIONS, *, color: str | None = None
) -> Background:
    """Draw a background; `color` fixes its colour's name."""
    color = color or _choose(rng, options.colors or tuple(COLORS))
    pool = options.textures or TEXTURES
    texture = "plain" if "plain" in pool and rng.random() < options.plain else _choose(rng, pool)
    shift = rng.integers(-options.jitter, options.jitter + 1, 3)
    if color in ("black", "gray", "white"):
        shift[:] = 0 if texture == "plain" and rng.random() < 0.5 else shift[0]
    red, green, blue = (int(v) for v in np.clip(np.asarray(COLORS[color]) + shift, 0, 255))
    return Background(
        color=color,
        texture=texture,
        rgb=(red, green, blue),
        period=(0.0625, 0.09375, 0.125, 0.1875)[int(rng.integers(4))],
        angle=int(rng.integers(3)),
        seed=int(rng.integers(2**31)),
    )


def _fits(item: SceneObject, others: Sequence[SceneObject]) -> bool:
    """Whether an object leaves the others in sight: centres at least 0.85 of the mean side apart along an axis."""
    return all(max(abs(item.x - o.x), abs(item.y - o.y)) >= 0.85 * (item.size + o.size) / 2 for o in others)


def place_object(
    rng: np.random.Generator,
    name: str,
    others: Sequence[SceneObject] = (),
    options: SceneOptions = DEFAULT_OPTIONS,
    *,
    size: float | None = None,
) -> SceneObject | None:
    """Draw a place and a size for one object beside others; None when no place was found."""
    low, high = options.sizes[0], options.sizes[1] if not others else options.crowded_size
    for attempt in range(_TRIES):
        top = high if size is None else size
        side = float(rng.uniform(low, max(low, top - (top - low) * attempt / _TRIES))) if size is None else size
        if options.prior is None:
            x, y = (float(v) for v in rng.uniform(side / 2, 1 - side / 2, 2))
        else:
            x, y = options.prior(rng)
            x, y = (min(max(float(v), side / 2), 1 - side / 2) for v in (x, y))
        item = SceneObject(name, round(x, _DIGITS), round(y, _DIGITS), round(side, _DIGITS), bool(rng.integers(2)))
        if _fits(item, others):
            return item
    return None


def sample_scene(
    seed: int | np.random.Generator, options: SceneOptions = DEFAULT_OPTIONS, *, names: Sequence[str] | None = None
) -> Scene:
    """Draw one scene.

    Args:
        seed: a seed, or a numpy generator to draw from.
        options: what to draw from.
        names: the objects' names; None draws them too.

    Returns:
        A scene. The same seed and options give the same scene on every platform.
    """
    rng = np.random.default_rng(seed) if isinstance(seed, int) else seed
    if names is None:
        names = _draw_names(rng, options)
    background = sample_background(rng, options)
    crowd = options if len(names) < 2 else replace(options, sizes=(options.sizes[0], options.crowded_size))
    while True:
        placed: list[SceneObject] = []
        for name in names:
            item = place_object(rng, name, placed, crowd)
            if item is None:
                break
            placed.append(item)
        else:
            return Scene(tuple(placed), background)
        crowd = replace(
            crowd,
            crowded_size=max(crowd.sizes[0], crowd.crowded_size * 0.9),
            sizes=(crowd.sizes[0] * 0.97, max(crowd.sizes[0], crowd.sizes[1] * 0.9)),
        )


def _draw_names(rng: np.random.Generator, options: SceneOptions) -> list[str]:
    weights = np.asarray(options.count_weights or [1.0] * len(options.counts), np.float64)
    count = options.counts[
        int(np.searchsorted(np.cumsum(weights / weights.sum()), rng.random(), side="right").clip(max=len(weights) - 1))
    ]
    pool = options.names or object_names()
    names: list[str] = []
    for _ in range(count):
        fresh = [n for n in pool if n not in names] or list(pool)
        names.append(names[-1] if names and rng.random() < options.repeat else _choose(rng, fresh))
    return names


def edit(scene: Scene, kind: str, seed: int | np.random.Generator, options: SceneOptions = DEFAULT_OPTIONS) -> Scene:
    """A scene with one thing changed and everything else the same.

    Args:
        scene: the scene to change; all but "change_background" need at least one object.
        kind: "swap_object" (one object becomes another thing, same place and size), "move_object" (one object goes
            where its column or row changes), "remove_object", or "change_background" (another colour name).
        seed: a seed, or a numpy generator to draw from.
        options: what replacements are drawn from.

    Returns:
        The changed scene.

    Raises:
        OptionError: for an unknown kind, for a scene without objects, or when there is nowhere to move to.
    """
    rng = np.random.default_rng(seed) if isinstance(seed, int) else seed
    if kind not in EDITS:
        raise UnknownNameError("edit", kind, EDITS)
    if kind == "change_background":
        colors = [c for c in options.colors or tuple(COLORS) if c != scene.background.color]
        return replace(scene, background=sample_background(rng, options, color=_choose(rng, colors)))
    if not scene.objects:
        raise OptionError(f"{kind} needs a scene with an object", got="a scene without objects")
    index = int(rng.integers(len(scene.objects)))
    chosen, others = scene.objects[index], scene.objects[:index] + scene.objects[index + 1 :]
    if kind == "remove_object":
        return replace(scene, objects=others)
    if kind == "swap_object":
        pool = [n for n in options.names or object_names() if n not in scene.names]
        return _with(scene, index, replace(chosen, name=_choose(rng, pool)))
    for _ in range(4 * _TRIES):
        moved = place_object(rng, chosen.name, others, options, size=chosen.size)
        if moved is not None and (moved.column, moved.row) != (chosen.column, chosen.row):
            return _with(scene, index, replace(moved, flip=chosen.flip))
    raise OptionError(
        "move_object needs another place where the object fits",
        got=f"size {chosen.size}",
        fix="Take a smaller object or fewer objects",
    )


def _with(scene: Scene, index: int, item: SceneObject) -> Scene:
    return replace(scene, objects=(*scene.objects[:index], item, *scene.objects[index + 1 :]))
