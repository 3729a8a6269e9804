"""The demo data set: the same prompts drawn by three "generators" of known quality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from beholder._errors import OptionError, UnknownNameError
from beholder.scenes.captions import Claim, describe
from beholder.scenes.render import BoolArray, masks, render, spoil
from beholder.scenes.sample import SceneOptions, edit, sample_background, sample_scene
from beholder.scenes.scene import Scene, SceneObject
from beholder.scenes.vocabulary import COLORS, object_names, thing

GENERATORS: tuple[str, ...] = ("faithful", "swapper", "noisy")
"""The three generators, best first: "faithful" draws what the prompt says; "swapper" gets an object, the background's
colour or a place wrong in a third of its scenes; "noisy" blurs, adds noise and leaves the object out of half."""

TASKS: tuple[str, ...] = ("single", "pair", "count")
"""What a prompt asks for: one object with place and background, two objects, or several of one."""

_SHARE_SWAPPED = 3
_REFERENCE_OPTIONS = SceneOptions(counts=(1,), count_weights=(), sizes=(0.45, 0.7), crowded_size=0.6)


@dataclass(frozen=True)
class DemoItem:
    """One output of one generator, as data; `image`, `mask_of` and `reference_images` draw it.

    Args:
        id: unique over the set: generator and prompt.
        method: the generator.
        prompt_id: the prompt's id; equal over the generators.
        prompt: the prompt's text.
        claim: what the prompt says.
        concept: name of the object that the prompt is about.
        category: that object's category.
        task: one of TASKS.
        seed: of this output.
        scene: what was drawn.
        faults: what the generator got wrong on purpose: some of "swap_object", "change_background", "move_object",
            "remove_object", "blur"; empty when the output is faithful.
        blur, noise: how the picture was spoiled (see `spoil`).
        references: scenes that show the concept alone on other backgrounds.
    """

    id: str
    method: str
    prompt_id: str
    prompt: str
    claim: Claim
    concept: str
    category: str
    task: str
    seed: int
    scene: Scene
    faults: tuple[str, ...]
    blur: float
    noise: int
    references: tuple[Scene, ...]

    def image(self, size: int = 256) -> Image.Image:
        """The output: RGB, size × size."""
        return spoil(render(self.scene, size), blur=self.blur, noise=self.noise, seed=self.seed)

    def mask_of(self, name: str, size: int = 256) -> BoolArray | None:
        """(size, size) bool: the pixels that show objects of a name, before blur and noise; None if none do."""
        rows = [mask for item, mask in zip(self.scene.objects, masks(self.scene, size)) if item.name == name]
        union: BoolArray = np.logical_or.reduce(rows) if rows else np.zeros((size, size), np.bool_)
        return union if union.any() else None

    def reference_images(self, size: int = 256) -> tuple[Image.Image, ...]:
        """Pictures of the concept alone: RGB, size × size."""
        return tuple(render(scene, size) for scene in self.references)


def demo_set(
    seed: int = 0, *, prompts: int = 80, generators: Sequence[str] = GENERATORS, references: int = 3
) -> tuple[DemoItem, ...]:
    """Describe the demo data set; nothing is drawn or written.

    Args:
        seed: equal seeds give equal sets on every platform.
        prompts: how many prompts; each is drawn once by every generator.
        generators: some of GENERATORS.
        references: how many pictures of the concept alone each prompt has.

    Returns:
        prompts × generators items, prompt by prompt. "faithful" scenes fulfil their prompts; exactly a third (rounded)
        of the "swapper" scenes and none of the others fail theirs by a swap.

    Raises:
        UnknownNameError: for an unknown generator.
        OptionError: when a number is below 1 (references: below 0).
    """
    if prompts < 1 or references < 0:
        raise OptionError("prompts must be at least 1 and references at least 0", got=f"{prompts}, {references}")
    for name in generators:
        if name not in GENERATORS:
            raise UnknownNameError("demo generator", name, GENERATORS)
    rng = np.random.default_rng([seed, 1])
    concepts = _concepts(rng, prompts)
    swapped = {int(i) for i in rng.permutation(prompts)[: round(prompts / _SHARE_SWAPPED)]}
    lacking = {int(i) for i in rng.permutation(prompts)[: prompts // 2]}
    items = []
    for index, concept in enumerate(concepts):
        draw = np.random.default_rng([seed, 2, index])
        task = TASKS[index % len(TASKS)]
        asked = _asked(draw, concept, task)
        claim = _prompt(asked, draw)
        shown = tuple(
            sample_scene(draw, replace(_REFERENCE_OPTIONS, colors=_other_colors(asked)), names=[concept])
            for _ in range(references)
        )
        for method in generators:
            own = np.random.default_rng([seed, 3, index, GENERATORS.index(method)])
            scene, faults, blur, noise = _generate(
                method, asked, claim, own, wrong=index in swapped, lacks=concept if index in lacking else None
            )
            items.append(
                DemoItem(
                    id=f"{method}-{index:03d}",
                    method=method,
                    prompt_id=f"p{index:03d}",
                    prompt=claim.text("photo"),
                    claim=claim,
                    concept=concept,
                    category=thing(concept).category,
                    task=task,
                    seed=int(own.integers(2**31)),
                    scene=scene,
                    faults=faults,
                    blur=blur,
                    noise=noise,
                    references=shown,
                )
            )
    return tuple(items)


def _concepts(rng: np.random.Generator, count: int) -> list[str]:
    names = object_names()
    out: list[str] = []
    while len(out) < count:
        out += [names[int(i)] for i in rng.permutation(len(names))]
    return out[:count]


def _other_colors(scene: Scene) -> tuple[str, ...]:
    return tuple(color for color in COLORS if color != scene.background.color)


def _asked(rng: np.random.Generator, concept: str, task: str) -> Scene:
    """The scene that a prompt has in mind."""
    names = [concept]
    if task == "count":
        names = [concept] * int(rng.integers(2, 4))
    elif task == "pair":
        pool = object_names()
        while names[-1] == concept:
            names = [concept, pool[int(rng.integers(len(pool)))]]
    return sample_scene(rng, SceneOptions(sizes=(0.3, 0.6)), names=names)


def _prompt(scene: Scene, rng: np.random.Generator) -> Claim:
    """A true claim with a background colour, nothing absent, and a place or relation where one object stands alone."""
    claim = replace(describe(scene, rng, detail=1.0), absent=None, color=scene.background.color, texture=None)
    return replace(claim, mentions=tuple(replace(m, size=None, article=True) for m in claim.mentions))


def _redraw(scene: Scene, claim: Claim, rng: np.random.Generator) -> Scene:
    """Another scene that the claim holds of: places, sizes, flips and background drawn anew around the asked ones."""
    background = sample_background(rng, color=scene.background.color)
    while True:
        items = tuple(
            replace(
                item,
                x=round(float(np.clip(item.x + rng.uniform(-0.06, 0.06), item.size / 2, 1 - item.size / 2)), 4),
                y=round(float(np.clip(item.y + rng.uniform(-0.06, 0.06), item.size / 2, 1 - item.size / 2)), 4),
                size=round(item.size * float(rng.uniform(0.9, 1.05)), 4),
                flip=bool(rng.integers(2)),
            )
            for item in scene.objects
        )
        drawn = Scene(items, background)
        if claim.holds(drawn) and _apart(items):
            return drawn


def _apart(items: tuple[SceneObject, ...]) -> bool:
    return all(
        max(abs(a.x - b.x), abs(a.y - b.y)) >= 0.7 * (a.size + b.size) / 2
        for i, a in enumerate(items)
        for b in items[i + 1 :]
    )


def _generate(
    method: str, asked: Scene, claim: Claim, rng: np.random.Generator, *, wrong: bool, lacks: str | None
) -> tuple[Scene, tuple[str, ...], float, int]:
    """What a generator makes of a prompt: scene, faults, blur, noise."""
    scene = _redraw(asked, claim, rng)
    if method == "swapper" and wrong:
        changed, fault = _swap(scene, claim, rng)
        return changed, (fault,), 0.0, 0
    if method == "noisy":
        faults = ["blur"]
        if lacks is not None:
            scene = replace(scene, objects=tuple(item for item in scene.objects if item.name != lacks))
            faults.append("remove_object")
        return scene, tuple(faults), round(float(rng.uniform(0.008, 0.02)), 4), int(rng.integers(20, 50))
    return scene, (), 0.0, 0


def _swap(scene: Scene, claim: Claim, rng: np.random.Generator) -> tuple[Scene, str]:
    """One change that makes the claim false: another object, another colour, or places exchanged."""
    kinds = ("swap_object", "change_background", "move_object")
    while True:
        kind = kinds[int(rng.integers(len(kinds)))]
        if kind == "move_object":
            if len(scene.names) != 2 or len(scene.objects) != 2:
                continue
            a, b = scene.objects
            changed = replace(scene, objects=(replace(a, x=b.x, y=b.y), replace(b, x=a.x, y=a.y)))
        elif kind == "swap_object":
            changed = edit(scene, kind, rng)
            for old, new in zip(scene.objects, changed.objects):
                if old != new:
                    changed = replace(
                        scene,
                        objects=tuple(replace(o, name=new.name) if o.name == old.name else o for o in scene.objects),
                    )
        else:
            changed = edit(scene, kind, rng)
        if not claim.holds(changed):
            return changed, kind
