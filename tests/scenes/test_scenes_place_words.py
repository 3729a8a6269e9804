"""The last stage of the demo encoder's training: scenes near boundaries, near misses of places, and the five words."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.scenes.scene_words import true_of

from beholder import scenes

TOOLS = str(Path(__file__).parents[2] / "tools")
INDEX = {name: i for i, name in enumerate(scenes.object_names())}


@pytest.fixture(scope="module")
def training() -> Any:
    sys.path.insert(0, TOOLS)
    try:
        from demo_training import batches, place_words

        return batches, place_words
    finally:
        sys.path.remove(TOOLS)


def lone(x: float, y: float, size: float = 0.3) -> scenes.Scene:
    return scenes.Scene((scenes.SceneObject("cat", x, y, size),), scenes.Background("red"))


def test_questions_name_the_true_words(training: Any) -> None:
    _, words = training
    pair = scenes.Scene(
        (scenes.SceneObject("cat", 0.2, 0.5, 0.3), scenes.SceneObject("dog", 0.8, 0.55, 0.3)), scenes.Background("red")
    )
    rows = words.lone_places([lone(0.5, 0.5), pair, lone(0.2, 0.5), lone(0.8, 0.2)], INDEX)
    cat = INDEX["cat"]
    assert words.WORDS == ("left", "right", "top", "bottom", "middle")
    assert rows.tolist() == [[0, cat, 0, 0, 0, 0, 1], [2, cat, 1, 0, 0, 0, 0], [3, cat, 0, 1, 1, 0, 0]]
    assert words.lone_places([pair], INDEX).shape == (0, 7)
    assert words.place_texts(rows[:1], "a photo of {a}") == [
        "a photo of a cat on the left",
        "a photo of a cat on the right",
        "a photo of a cat at the top",
        "a photo of a cat at the bottom",
        "a photo of a cat in the middle",
    ]


def test_objects_put_to_a_boundary_stay_in_the_picture(training: Any) -> None:
    _, words = training
    rng = np.random.default_rng(4)
    near = 0
    for seed in range(200):
        scene = scenes.sample_scene(seed, scenes.SceneOptions(counts=(1,), count_weights=()))
        moved = words.to_boundary(scene, rng).objects[0]
        old = scene.objects[0]
        assert (moved.name, moved.size, moved.flip) == (old.name, old.size, old.flip)
        assert all(old.size / 2 - 1e-4 <= v <= 1 - old.size / 2 + 1e-4 for v in (moved.x, moved.y))
        near += min(abs(v - edge) for v in (moved.x, moved.y) for edge in (0.4, 0.6)) < 0.1
    assert near >= 198


def test_near_places_are_false_and_may_be_the_middle(training: Any) -> None:
    """Unlike opposites, these misses say "in the middle" of an object on a side."""
    _, words = training
    rng, seen = np.random.default_rng(5), set()
    for seed in range(300):
        scene = scenes.sample_scene(seed)
        claim = scenes.describe(scene, seed, detail=1.0)
        wrong = words.near_place(claim, scene, rng)
        if wrong is None:
            assert not any(m.place for m in claim.mentions)
            continue
        assert not true_of(wrong.text(), scene)
        changed = [(a.place, b.place) for a, b in zip(claim.mentions, wrong.mentions) if a != b]
        assert len(changed) == 1
        seen.add(changed[0])
    assert ("left", "middle") in seen
    assert ("middle", "left") in seen


def test_loss_is_the_share_of_the_true_words(training: Any) -> None:
    import torch

    _, words = training
    rng = np.random.default_rng(6)
    rows = words.lone_places([lone(0.5, 0.5), lone(0.8, 0.2)], INDEX)
    image, texts = rng.normal(size=(2, 7)), rng.normal(size=(10, 7))
    got = words.place_word_loss(torch.from_numpy(image), torch.from_numpy(texts), rows)
    logits = [[float(image[i] @ texts[5 * i + k]) for k in range(5)] for i in range(2)]
    first = math.exp(logits[0][4]) / sum(map(math.exp, logits[0]))
    second = (math.exp(logits[1][1]) + math.exp(logits[1][2])) / sum(map(math.exp, logits[1]))
    assert float(got) == pytest.approx(-(math.log(first) + math.log(second)) / 2, rel=1e-9)


def test_centre_head_starts_amid_the_scene_and_counts_in_its_unit(training: Any) -> None:
    """Huber loss: |e| - 0.5 for errors of more than one unit, e^2 / 2 below; no gradient to the picture at first."""
    import torch

    _, words = training
    rows = words.lone_places([lone(0.5, 0.5), lone(0.8, 0.2)], INDEX)
    centre = np.array([[0.5, 0.51], [0.8, 0.2]], np.float32)
    image = torch.from_numpy(np.random.default_rng(7).normal(size=(2, 9)).astype(np.float32)).requires_grad_()
    loss = words.CentreHead(9)(image, rows, centre)
    far = 0.3 / words.FINE - 0.5
    assert float(loss.detach()) == pytest.approx((0.0 + (0.01 / words.FINE) ** 2 / 2 + 2 * far) / 4, rel=1e-4)
    loss.backward()
    assert float(image.grad.abs().max()) == 0.0


def test_batches_of_the_last_stage_tell_the_truth(training: Any) -> None:
    batches, _ = training
    batch = batches.make_batch((3, 1), 48, INDEX, batches.FINISH)
    again = batches.make_batch((3, 1), 48, INDEX, batches.FINISH)
    assert batch.captions == again.captions
    assert batch.misses == again.misses
    assert np.array_equal(batch.pixels, again.pixels)
    for row in batch.lone:
        assert batch.shown[row[0]].sum() == 1
        assert batch.shown[row[0], row[1]]
    assert batch.centre.shape == (len(batch.lone), 2)
    growth = batches.make_batch((3, 1), 48, INDEX)
    edge = [
        np.mean([min(abs(v - b) for v in (s.objects[0].x, s.objects[0].y) for b in (0.4, 0.6)) for s in drawn])
        for drawn in (
            [s for s in batches._scenes(192, np.random.default_rng(1), course) if len(s.objects) == 1]
            for course in (batches.GROWTH, batches.FINISH)
        )
    ]
    assert edge[1] < edge[0]
    assert growth.captions != batch.captions
