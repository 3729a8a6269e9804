"""What one training step sees: scenes, pictures, captions, near misses, patch labels, questions about places."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from beholder import scenes as S
from beholder._errors import OptionError
from beholder.scenes.captions import relations_of
from demo_training.model import GRID, PATCH, SIZE
from demo_training.place_words import lone_places, near_place, to_boundary

EDIT_ODDS = (*["move_object"] * 5, *S.EDITS)
SCENES = S.SceneOptions(count_weights=(0.5, 0.37, 0.13), repeat=0.2)
COLOR_NAMES = tuple(S.COLORS)
NEAR_MISSES = 3


@dataclass(frozen=True)
class Course:
    """How a stage of training draws its batches.

    Args:
        boundary: share of the scenes with one object in which it is put close to where its place word changes.
        any_place: chance that a near miss of a place takes any false place word, and not only the opposite one.
        drawn_at: chance that a picture of one object is drawn at 64, at 128 and at 256 pixels before it is made 64.
            Drawn at 64, an object lies up to half a pixel off its place, and place words change within less than that.
    """

    boundary: float = 0.0
    any_place: float = 0.0
    drawn_at: tuple[float, float, float] = (0.7, 0.23, 0.07)


GROWTH = Course()
FINISH = Course(boundary=0.5, any_place=0.5, drawn_at=(0.2, 0.4, 0.4))


@dataclass
class Batch:
    """One step's data, as arrays."""

    pixels: np.ndarray
    patches: np.ndarray
    shown: np.ndarray
    color: np.ndarray
    captions: list[str]
    misses: list[str]
    miss_ok: np.ndarray
    ignore: np.ndarray
    seen: np.ndarray
    told: np.ndarray
    lone: np.ndarray
    centre: np.ndarray


def picture(scene: S.Scene, rng: np.random.Generator, course: Course = GROWTH) -> np.ndarray:
    """A scene at the model's size, sometimes through a larger picture, sometimes lightly spoiled or compressed."""
    draw = rng.random(4)
    small, medium, _ = (course if len(scene.objects) == 1 else GROWTH).drawn_at
    size = SIZE if draw[0] < small else 128 if draw[0] < small + medium else 256
    if size == SIZE and draw[1] >= 0.2:
        return S.render_array(scene, SIZE)
    image = S.render(scene, size)
    if draw[1] < 0.12:
        image = S.spoil(
            image, blur=float(rng.uniform(0, 0.012)), noise=int(rng.integers(0, 14)), seed=int(rng.integers(2**31))
        )
    elif draw[1] < 0.2:
        data = io.BytesIO()
        image.save(data, "JPEG", quality=int(rng.integers(50, 96)))
        image = Image.open(data).convert("RGB")
    if size != SIZE:
        image = image.resize((SIZE, SIZE), Image.Resampling.BICUBIC)
    return np.asarray(image)


def patch_labels(scene: S.Scene, index: dict[str, int]) -> np.ndarray:
    """(64,) what each patch shows: an object's index, len(index) + colour index, or -1 where neither is clear."""
    share = S.masks(scene, SIZE).reshape(-1, GRID, PATCH, GRID, PATCH).mean(axis=(2, 4)).reshape(-1, GRID * GRID)
    labels = np.full(GRID * GRID, -1, np.int64)
    total = share.sum(axis=0)
    labels[total <= 0.03] = len(index) + COLOR_NAMES.index(scene.background.color)
    for row, item in zip(share, scene.objects):
        labels[row >= 0.4] = index[item.name]
    return labels


COLUMNS = {"left": 0, "middle": 1, "right": 2}
ROWS = {"top": 0, "middle": 1, "bottom": 2}


def seen_places(number: int, scene: S.Scene, index: dict[str, int]) -> list[tuple[int, ...]]:
    """Questions about places with their answers: (scene, object, other object or -1, column or side, row or side).

    For two objects the answers are which side the first lies on, 1 where that is not clear.
    """
    single = [o for o in scene.objects if scene.count(o.name) == 1]
    lone = -2 if len(scene.objects) == 1 else -1
    rows = [(number, index[o.name], lone, COLUMNS[o.column], ROWS[o.row]) for o in single]
    for a in single:
        for b in single:
            if a is not b:
                relations = relations_of(a, b)
                across = 0 if "left of" in relations else 2 if "right of" in relations else 1
                down = 0 if "above" in relations else 2 if "below" in relations else 1
                rows.append((number, index[a.name], index[b.name], across, down))
    return rows


def told_places(number: int, claim: S.Claim, index: dict[str, int]) -> list[tuple[int, ...]]:
    """The same questions, answered by a claim; -1 where it does not say."""
    rows = []
    for mention in claim.mentions:
        words = (mention.place or "").split()
        if words:
            both = words == ["middle"]
            column = next((COLUMNS[w] for w in words if w in ("left", "right")), 1 if both else -1)
            row = next((ROWS[w] for w in words if w in ("top", "bottom")), 1 if both else -1)
            rows.append((number, index[mention.name], -2 if len(claim.mentions) == 1 else -1, column, row))
    if claim.relation:
        answer = {"left of": (0, -1), "right of": (2, -1), "above": (-1, 0), "below": (-1, 2)}[claim.relation]
        a, b = (index[m.name] for m in claim.mentions[:2])
        rows.append((number, a, b, *answer))
        rows.append((number, b, a, *(2 - v if v >= 0 else v for v in answer)))
    return rows


def say(scene: S.Scene, rng: np.random.Generator) -> S.Claim:
    """A claim to train on: sometimes terse, sometimes detailed, sometimes about one object or the background only."""
    draw = rng.random(4)
    if draw[0] < 0.05 or not scene.objects:
        return S.Claim(color=scene.background.color, texture=scene.background.texture if draw[1] < 0.5 else None)
    claim = S.describe(scene, rng, detail=(0.3, 1.0, 1.0, 1.0)[int(rng.integers(4))])
    if len(claim.mentions) > 1 and claim.relation is None and draw[2] < 0.15:
        claim = replace(claim, mentions=(claim.mentions[int(rng.integers(len(claim.mentions)))],))
    return claim


def _scenes(size: int, rng: np.random.Generator, course: Course) -> list[S.Scene]:
    """One step's scenes; a third of them are edits of others."""
    base = size - size // 3
    drawn = [S.sample_scene(rng, SCENES) for _ in range(base)]
    if course.boundary:
        lone = [i for i, scene in enumerate(drawn) if len(scene.objects) == 1]
        for i in lone:
            if rng.random() < course.boundary:
                drawn[i] = to_boundary(drawn[i], rng)
    while len(drawn) < size:
        origin = drawn[int(rng.integers(base))]
        try:
            drawn.append(S.edit(origin, EDIT_ODDS[int(rng.integers(len(EDIT_ODDS)))], rng))
        except OptionError:  # an object that fits nowhere else
            drawn.append(S.sample_scene(rng))
    return drawn


def make_batch(seed: tuple[int, int], size: int, index: dict[str, int], course: Course = GROWTH) -> Batch:
    """Draw one step's scenes, pictures, captions and near misses."""
    rng = np.random.default_rng(list(seed))
    drawn = _scenes(size, rng, course)
    names = list(S.TEMPLATES)
    claims = [say(scene, rng) for scene in drawn]
    forms = [names[int(i)] for i in rng.integers(len(names), size=size)]
    misses, ok = [], np.zeros((size, NEAR_MISSES), np.bool_)
    for i, (scene, claim, form) in enumerate(zip(drawn, claims, forms)):
        for k in range(NEAR_MISSES):
            kind = (
                None
                if k == 2
                else "place"
                if k == 0
                else ("place", "place", "count", "texture", "absent", "color", "object")[int(rng.integers(7))]
            )
            wrong = None
            if kind == "place" and course.any_place and rng.random() < course.any_place:
                wrong = near_place(claim, scene, rng)
            wrong = wrong or S.contradict(claim, scene, rng, kind=kind)
            wrong = wrong or (S.contradict(claim, scene, rng) if k == 1 else None)
            ok[i, k] = wrong is not None
            misses.append((wrong or claim).text(form))
    ignore = np.zeros((size, size), np.bool_)
    sets = [set(scene.names) for scene in drawn]
    for j, claim in enumerate(claims):
        wanted = {m.name for m in claim.mentions}
        for i, scene in enumerate(drawn):
            if i != j and wanted <= sets[i] and claim.holds(scene):
                ignore[i, j] = True
    shown = np.zeros((size, len(index)), np.bool_)
    for i, scene in enumerate(drawn):
        shown[i, [index[n] for n in scene.names]] = True
    return Batch(
        pixels=np.stack([picture(scene, rng, course) for scene in drawn]),
        patches=np.stack([patch_labels(scene, index) for scene in drawn]),
        shown=shown,
        color=np.array([COLOR_NAMES.index(scene.background.color) for scene in drawn]),
        captions=[claim.text(form) for claim, form in zip(claims, forms)],
        misses=misses,
        miss_ok=ok,
        ignore=ignore,
        seen=np.array([row for i, scene in enumerate(drawn) for row in seen_places(i, scene, index)]),
        told=np.array([row for i, claim in enumerate(claims) for row in told_places(i, claim, index)]),
        lone=lone_places(drawn, index),
        centre=np.array([(s.objects[0].x, s.objects[0].y) for s in drawn if len(s.objects) == 1], np.float32).reshape(
            -1, 2
        ),
    )
