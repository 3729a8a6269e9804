"""A KnowCusBench-shaped data set: concepts with references, knowledge, two tasks, and methods of known quality.

In its first form every concept's references show one surrounding: a background with two other things in it. `copycat`
draws that surrounding with another subject: a metric of whole pictures is flattered, one of the subject alone is not.
In the neutral form everything stands alone before plain gray, and there is nothing to be flattered by.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from beholder._errors import OptionError
from beholder.scenes.render import BoolArray, masks, render
from beholder.scenes.sample import SceneOptions, place_object, sample_background, sample_scene
from beholder.scenes.scene import Background, Scene
from beholder.scenes.vocabulary import COLORS, object_names, thing

SUBJECT_METHODS: tuple[str, ...] = ("faithful", "wavering", "copycat")
"""The methods, best first: "faithful" always draws the subject; "wavering" draws another thing in half of its outputs;
"copycat" always draws another thing, in the references' surroundings."""

KNOWLEDGE: tuple[str, ...] = (
    "my birthday present", "the thing that my aunt repaired", "what I found in the attic", "the gift from Lisbon",
    "the one that makes me laugh", "the oldest thing on my desk",
)  # fmt: skip
"""What the concepts are called by, in turn."""

RECONSTRUCTION, GENERATION = "reconstruction", "generation"
_ALONE = SceneOptions(counts=(1,), count_weights=(), sizes=(0.45, 0.62), crowded_size=0.5)
_AMONG = SceneOptions(counts=(3,), count_weights=(), sizes=(0.28, 0.48), crowded_size=0.36)
_SUBJECT_AMONG = 0.46
_TEXTURES = ("striped", "checkered", "dotted")
_NEUTRAL = Background("gray")


@dataclass(frozen=True)
class SubjectConcept:
    """A subject and what is known of it.

    Args:
        name: its id, and its object's name.
        knowledge: text by id.
        surroundings: a scene without the subject; without anything in the neutral form.
        references: scenes of the subject in its surroundings; the subject is the last object.
        prompts: colour of the background that each generation prompt asks for, by prompt id.
    """

    name: str
    knowledge: dict[str, str]
    surroundings: Scene
    references: tuple[Scene, ...]
    prompts: dict[str, str]


@dataclass(frozen=True)
class SubjectItem:
    """One output of one method.

    Args:
        concept: the concept's name.
        method: one of `SUBJECT_METHODS`.
        task: "reconstruction" or "generation".
        knowledge_id: the knowledge that the prompt names.
        prompt_id: the prompt; "rec" for reconstructions.
        prompt: the knowledge alone, or in a template.
        eval_prompt: the prompt with the class in the knowledge's place; None for reconstructions.
        seed: of this output.
        scene: what was drawn.
        right: whether the subject was drawn.
    """

    concept: str
    method: str
    task: str
    knowledge_id: str
    prompt_id: str
    prompt: str
    eval_prompt: str | None
    seed: int
    scene: Scene
    right: bool

    def image(self, size: int = 224) -> Image.Image:
        """The output: RGB, size × size."""
        return render(self.scene, size)

    def mask(self, size: int = 224) -> BoolArray:
        """(size, size) bool: the pixels of the object that was drawn, whatever it is."""
        return np.asarray(masks(self.scene, size)[-1], dtype=np.bool_)


@dataclass(frozen=True)
class SubjectSet:
    """Concepts and outputs."""

    concepts: tuple[SubjectConcept, ...]
    items: tuple[SubjectItem, ...]


def subject_set(
    seed: int = 0, *, concepts: int = 16, references: int = 4, knowledge: int = 2, seeds: int = 3, neutral: bool = False
) -> SubjectSet:
    """Describe the data set; nothing is drawn or written.

    Args:
        seed: equal seeds give equal sets on every platform.
        concepts: how many; every second has two generation prompts, the others one.
        references: pictures of each concept.
        knowledge: knowledge items of each concept, up to 6.
        seeds: outputs of each prompt and method.
        neutral: True puts everything before plain gray.

    Raises:
        OptionError: a number is below 1, or more knowledge or concepts than there are.
    """
    names = object_names()
    if min(concepts, references, knowledge, seeds) < 1 or knowledge > len(KNOWLEDGE) or 4 * concepts > len(names):
        raise OptionError(
            f"concepts must be 1 to {len(names) // 4}, knowledge 1 to {len(KNOWLEDGE)}, the rest at least 1",
            got=f"{concepts}, {references}, {knowledge}, {seeds}",
        )
    rng = np.random.default_rng([seed, 41])
    drawn = [names[int(at)] for at in rng.permutation(len(names))[: 4 * concepts]]
    subjects, strangers, around = drawn[:concepts], drawn[concepts : 2 * concepts], drawn[2 * concepts :]
    made = tuple(
        _concept(seed, at, name, around[2 * at : 2 * at + 2], references, knowledge, neutral)
        for at, name in enumerate(subjects)
    )
    items = tuple(
        item
        for at, concept in enumerate(made)
        for method in SUBJECT_METHODS
        for item in _items(seed, at, concept, method, strangers[at], seeds, neutral)
    )
    return SubjectSet(made, items)


def _concept(
    seed: int, at: int, name: str, around: Sequence[str], references: int, knowledge: int, neutral: bool
) -> SubjectConcept:
    rng = np.random.default_rng([seed, 42, at])
    color = tuple(COLORS)[int(rng.integers(len(COLORS)))]
    behind = sample_background(rng, SceneOptions(colors=(color,), textures=_TEXTURES, plain=0.0))
    surroundings = Scene((), _NEUTRAL) if neutral else replace(_crowd(rng, [*around, name]), background=behind)
    others = [other for other in COLORS if other != color]
    wanted = [others[int(pick)] for pick in rng.permutation(len(others))[: 1 + at % 2]]
    texts = [KNOWLEDGE[(at + number) % len(KNOWLEDGE)] for number in range(knowledge)]
    return SubjectConcept(
        name,
        {f"k{number}": text for number, text in enumerate(texts)},
        surroundings,
        tuple(_within(rng, surroundings, name) for _ in range(references)),
        {f"p{number}": color for number, color in enumerate(wanted)},
    )


def _crowd(rng: np.random.Generator, names: Sequence[str]) -> Scene:
    """A scene of things that leave room for one more, the last of the names."""
    scene = sample_scene(rng, _AMONG, names=list(names))
    return replace(scene, objects=scene.objects[:-1])


def _within(rng: np.random.Generator, surroundings: Scene, name: str) -> Scene:
    """The surroundings with one more thing, in front."""
    size = _SUBJECT_AMONG if surroundings.objects else None
    while True:
        placed = place_object(rng, name, surroundings.objects, _AMONG if size else _ALONE, size=size)
        if placed is not None:
            return replace(surroundings, objects=(*surroundings.objects, placed))
        size = (size or _SUBJECT_AMONG) * 0.95


def _items(
    seed: int, at: int, concept: SubjectConcept, method: str, stranger: str, seeds: int, neutral: bool
) -> Iterator[SubjectItem]:
    asked = [(RECONSTRUCTION, "rec", key) for key in concept.knowledge]
    keys = list(concept.knowledge)
    asked += [(GENERATION, name, keys[number % len(keys)]) for number, name in enumerate(concept.prompts)]
    entry = thing(concept.name)
    for number, (task, prompt_id, knowledge_id) in enumerate(asked):
        color = concept.prompts.get(prompt_id)
        text = concept.knowledge[knowledge_id]
        for output in range(seeds):
            rng = np.random.default_rng([seed, 43, at, SUBJECT_METHODS.index(method), number, output])
            right = method == "faithful" or (method == "wavering" and (number + output) % 2 == 0)
            drawn = concept.name if right else stranger
            if neutral or method == "copycat":
                scene = _within(rng, concept.surroundings, drawn)
            else:
                own = concept.surroundings.background.color
                others = [name for name in COLORS if name != own]
                wanted = color or others[int(rng.integers(len(others)))]
                scene = replace(
                    sample_scene(rng, _ALONE, names=[drawn]), background=sample_background(rng, color=wanted)
                )
            yield SubjectItem(
                concept.name,
                method,
                task,
                knowledge_id,
                prompt_id,
                text if color is None else f"{text} on a {color} background",
                None if color is None else f"a photo of {entry.article} {entry.name} on a {color} background",
                output,
                scene,
                right,
            )
