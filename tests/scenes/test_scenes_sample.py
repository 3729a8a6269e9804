"""Drawing, editing and writing down scenes."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beholder import scenes
from beholder._errors import OptionError, UnknownNameError
from beholder.scenes import Background, Scene, SceneObject, SceneOptions

# Golden value of this project's own sampler over numpy's PCG64, whose streams are stable.
GOLDEN_SCENES = "443584640e04a7a1f98731f9badd3358cd5eac846d19c4b1708ca11282089c35"
FILLED = Scene((SceneObject("cat", 0.5, 0.5, 1.0),), Background("red"))


def test_golden_scenes() -> None:
    text = "\n".join(scenes.sample_scene(seed).to_json() for seed in range(50))
    assert hashlib.sha256(text.encode()).hexdigest() == GOLDEN_SCENES


def test_drawing_leaves_the_global_generator_alone() -> None:
    before = np.random.get_state()[1].tolist()
    for seed in range(20):
        scenes.caption(scenes.edit(scenes.sample_scene(seed), "change_background", seed), seed)
    scenes.demo_set(1, prompts=3)
    assert np.random.get_state()[1].tolist() == before


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**63))
def test_json_round_trip(seed: int) -> None:
    scene = scenes.sample_scene(seed)
    assert Scene.from_json(scene.to_json()) == scene
    assert Scene.from_json(scene.to_json()).to_json() == scene.to_json()


def test_objects_are_whole_and_in_sight() -> None:
    for seed in range(200):
        scene = scenes.sample_scene(seed)
        assert all(o.size / 2 - 1e-3 <= v <= 1 - o.size / 2 + 1e-3 for o in scene.objects for v in (o.x, o.y))
        for alone, mask in zip(scene.objects, scenes.masks(scene, 96)):
            whole = scenes.masks(Scene((alone,), scene.background), 96)[0]
            assert mask.sum() >= 0.5 * whole.sum()


def test_options_are_kept() -> None:
    options = SceneOptions(
        names=("cat", "dog"), counts=(2,), count_weights=(), colors=("black",), textures=("plain",), repeat=0.0
    )
    for seed in range(30):
        scene = scenes.sample_scene(seed, options)
        assert sorted(scene.names) == ["cat", "dog"]
        assert (scene.background.color, scene.background.texture) == ("black", "plain")
    twins = scenes.sample_scene(3, SceneOptions(counts=(3,), count_weights=(), repeat=1.0))
    assert len(twins.objects) == 3
    assert len(twins.names) == 1
    assert scenes.sample_scene(3, names=["owl", "owl", "ant"]).count("owl") == 2


def test_count_weights() -> None:
    counts = [
        len(scenes.sample_scene(seed, SceneOptions(counts=(1, 3), count_weights=(0.8, 0.2))).objects)
        for seed in range(300)
    ]
    assert set(counts) == {1, 3}
    assert 0.7 < np.mean(np.array(counts) == 1) < 0.9


def test_spatial_prior_moves_the_mass() -> None:
    def corner(rng: np.random.Generator) -> tuple[float, float]:
        return float(rng.normal(0.25, 0.05)), float(rng.normal(0.75, 0.05))

    options = SceneOptions(counts=(1,), count_weights=(), sizes=(0.2, 0.3), crowded_size=0.25, prior=corner)
    places = np.array([[s.objects[0].x, s.objects[0].y] for s in (scenes.sample_scene(i, options) for i in range(200))])
    assert np.allclose(places.mean(axis=0), [0.25, 0.75], atol=0.02)
    uniform = replace(options, prior=None)
    spread = np.array([scenes.sample_scene(i, uniform).objects[0].x for i in range(200)])
    assert spread.std() > 3 * places[:, 0].std()


@pytest.mark.parametrize("kind", scenes.EDITS)
def test_an_edit_changes_one_thing(kind: str) -> None:
    done = 0
    for seed in range(80):
        scene = scenes.sample_scene(seed)
        try:
            other = scenes.edit(scene, kind, seed)
        except OptionError:
            assert kind == "move_object"
            continue
        done += 1
        assert other != scene
        if kind == "change_background":
            assert other.objects == scene.objects
            assert other.background.color != scene.background.color
            continue
        assert other.background == scene.background
        gone = [o for o in scene.objects if o not in other.objects]
        new = [o for o in other.objects if o not in scene.objects]
        assert len(gone) == 1
        assert len(new) == (0 if kind == "remove_object" else 1)
        if kind == "swap_object":
            assert replace(new[0], name=gone[0].name) == gone[0]
            assert new[0].name not in scene.names
        if kind == "move_object":
            assert (new[0].name, new[0].size, new[0].flip) == (gone[0].name, gone[0].size, gone[0].flip)
            assert (new[0].column, new[0].row) != (gone[0].column, gone[0].row)
    assert done > 50
    assert scenes.edit(scenes.sample_scene(1), kind, 9) == scenes.edit(scenes.sample_scene(1), kind, 9)


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: SceneObject("elephnt", 0.5, 0.5, 0.3), UnknownNameError, "elephant"),
        (lambda: SceneObject("cat", 1.5, 0.5, 0.3), OptionError, "centre"),
        (lambda: SceneObject("cat", 0.5, 0.5, 0.0), OptionError, "size"),
        (lambda: Background("mauve"), UnknownNameError, "background colour"),
        (lambda: Background("red", "furry"), UnknownNameError, "background texture"),
        (lambda: Background("red", rgb=(1, 2, 300)), OptionError, "0 to 255"),
        (lambda: Background("red", period=0.0), OptionError, "period"),
        (lambda: SceneOptions(names=("kat",)), UnknownNameError, "scene object"),
        (lambda: SceneOptions(counts=()), OptionError, "counts"),
        (lambda: SceneOptions(counts=(1,)), OptionError, "count_weights"),
        (lambda: SceneOptions(sizes=(0.5, 0.4)), OptionError, "rise"),
        (lambda: Scene.from_json("{}"), OptionError, "to_json"),
        (lambda: Scene.from_json("no"), OptionError, "to_json"),
        (lambda: scenes.edit(Scene((), Background("red")), "remove_object", 0), OptionError, "needs a scene"),
        (lambda: scenes.edit(scenes.sample_scene(0), "paint", 0), UnknownNameError, "edit"),
        (lambda: scenes.edit(FILLED, "move_object", 0), OptionError, "another place"),
        (lambda: scenes.object_names("furniture"), UnknownNameError, "object category"),
        (lambda: scenes.demo_set(0, prompts=0), OptionError, "at least 1"),
        (lambda: scenes.demo_set(0, generators=("best",)), UnknownNameError, "demo generator"),
    ],
)  # fmt: skip
def test_refusals(build, error, words) -> None:
    with pytest.raises(error, match=re.escape(words)):
        build()


def test_vocabulary() -> None:
    names = scenes.object_names()
    assert len(names) >= 300
    assert len(set(names)) == len(names)
    assert len({t.plural for t in scenes.things().values()}) == len(names)
    assert set(scenes.object_names("animal")) < set(names)
    assert scenes.object_names(("animal", "food")) == tuple(
        n for n in names if scenes.thing(n).category in ("animal", "food")
    )
    words = (
        set(scenes.COLORS)
        | set(scenes.TEXTURES)
        | {"left", "right", "top", "bottom", "middle", "small", "large", "and"}
    )
    for name, entry in scenes.things().items():
        assert not set(name.split()) & words, name
        assert entry.article == ("an" if re.match("[aeio]|u(?!ni)", name) else "a"), name
    for word, plural in {
        "mouse": "mice",
        "box of fries": "boxes of fries",
        "cherry": "cherries",
        "wolf": "wolves",
    }.items():
        assert scenes.thing(word).plural == plural


def test_scenes_need_no_torch() -> None:
    code = "import sys, beholder.scenes as s; s.render(s.sample_scene(0), 64); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
