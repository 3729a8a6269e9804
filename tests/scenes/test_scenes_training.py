"""The data that the demo encoder learns from, and that training goes on where it stopped."""

from __future__ import annotations

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
def batches() -> Any:
    sys.path.insert(0, TOOLS)
    try:
        from demo_training import batches

        return batches
    finally:
        sys.path.remove(TOOLS)


def test_patch_labels_follow_the_masks(batches: Any) -> None:
    scene = scenes.Scene((scenes.SceneObject("brick", 0.25, 0.25, 0.5),), scenes.Background("pink"))
    labels = batches.patch_labels(scene, INDEX).reshape(8, 8)
    assert (labels[1:3, 1:3] == INDEX["brick"]).all()
    assert (labels[5:, 5:] == len(INDEX) + list(scenes.COLORS).index("pink")).all()


def test_questions_about_places(batches: Any) -> None:
    pair = scenes.Scene(
        (scenes.SceneObject("cat", 0.2, 0.5, 0.3), scenes.SceneObject("dog", 0.8, 0.55, 0.3)), scenes.Background("red")
    )
    cat, dog = INDEX["cat"], INDEX["dog"]
    assert set(batches.seen_places(3, pair, INDEX)) == {
        (3, cat, -1, 0, 1),
        (3, dog, -1, 2, 1),
        (3, cat, dog, 0, 1),
        (3, dog, cat, 2, 1),
    }
    claim = scenes.Claim((scenes.Mention("cat"), scenes.Mention("dog")), relation="left of")
    assert set(batches.told_places(0, claim, INDEX)) == {(0, cat, dog, 0, -1), (0, dog, cat, 2, -1)}
    corner = scenes.Claim((scenes.Mention("cat", place="top left"),))
    assert batches.told_places(0, corner, INDEX) == [(0, cat, -2, 0, 0)]


def test_batches_tell_the_truth(batches: Any) -> None:
    """Captions are true, near misses false, and a caption that is true of another scene is no negative of it."""
    batch = batches.make_batch((1, 2), 48, INDEX)
    again = batches.make_batch((1, 2), 48, INDEX)
    assert batch.captions == again.captions
    assert np.array_equal(batch.pixels, again.pixels)
    assert batch.pixels.shape == (48, 64, 64, 3)
    rng = np.random.default_rng([1, 2])
    first = scenes.sample_scene(rng, batches.SCENES)
    assert true_of(batch.captions[0], first)
    assert np.flatnonzero(batch.shown[0]).tolist() == sorted(INDEX[name] for name in first.names)
    for good, ok in zip(batch.misses[: batches.NEAR_MISSES], batch.miss_ok[0]):
        assert true_of(good, first) != ok
    for other in np.flatnonzero(~batch.ignore[0, 1:]) + 1:
        assert not true_of(batch.captions[other], first)
    assert not batch.ignore.diagonal().any()
