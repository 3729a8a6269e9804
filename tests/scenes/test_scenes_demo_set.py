"""The demo data set: its shape, its faults, and the files that are written."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.scenes.scene_words import true_of

from beholder import scenes
from beholder.manifest.schema import COLUMNS

ITEMS = scenes.demo_set(0)


def test_shape() -> None:
    assert len(ITEMS) == 240
    assert Counter(item.method for item in ITEMS) == {"faithful": 80, "swapper": 80, "noisy": 80}
    assert len({item.id for item in ITEMS}) == 240
    assert len({item.concept for item in ITEMS}) == 80
    assert {item.task for item in ITEMS} == {"single", "pair", "count"}
    by_prompt: dict[str, set[str]] = {}
    for item in ITEMS:
        by_prompt.setdefault(item.prompt_id, set()).add(item.prompt)
    assert len(by_prompt) == 80
    assert all(len(prompts) == 1 for prompts in by_prompt.values())


def test_generators_are_as_good_as_they_say() -> None:
    true = {name: [true_of(i.prompt, i.scene) for i in ITEMS if i.method == name] for name in scenes.GENERATORS}
    assert all(true["faithful"])
    assert true["swapper"].count(False) == round(80 / 3)
    assert true["noisy"].count(False) == 40
    for item in ITEMS:
        assert bool(item.blur or item.noise) == (item.method == "noisy")
        assert ("remove_object" in item.faults) == (item.scene.count(item.concept) == 0 and item.method == "noisy")
        if item.method == "swapper":
            assert bool(item.faults) == (not true_of(item.prompt, item.scene))
    assert {f for i in ITEMS if i.method == "swapper" for f in i.faults} == {
        "swap_object",
        "change_background",
        "move_object",
    }


def test_references_show_the_concept_alone_elsewhere() -> None:
    for item in ITEMS:
        assert len(item.references) == 3
        for scene in item.references:
            assert scene.names == (item.concept,)
            assert len(scene.objects) == 1
            assert not true_of(f"a {ITEMS[0].scene.background.color} background", scene) or item.prompt_id != "p000"


def test_equal_seeds_give_equal_sets() -> None:
    assert scenes.demo_set(0) == ITEMS
    assert scenes.demo_set(1) != ITEMS
    assert scenes.demo_set(0, generators=("noisy",)) == tuple(i for i in ITEMS if i.method == "noisy")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scenes.write_demo_set(scenes.demo_set(3, prompts=6), tmp_path_factory.mktemp("demo"), size=96)


def rows_of(manifest: Path) -> list[dict]:
    return [json.loads(line) for line in manifest.read_text(encoding="utf-8").splitlines()]


def test_manifest_and_files(written: Path) -> None:
    items, rows = scenes.demo_set(3, prompts=6), rows_of(written)
    assert [row["id"] for row in rows] == [item.id for item in items]
    files = {"manifest.jsonl"}
    for row, item in zip(rows, items):
        assert set(row) - set(COLUMNS) == {"category", "faults", "scene"}
        assert np.array_equal(np.asarray(Image.open(written.parent / row["output"])), np.asarray(item.image(96)))
        assert scenes.Scene.from_json(row["scene"]) == item.scene
        assert (row["prompt"], row["concept"], row["method"], row["seed"]) == (
            item.prompt,
            item.concept,
            item.method,
            item.seed,
        )
        for path, mask in zip(row["references"], row["reference_masks"]):
            assert np.asarray(Image.open(written.parent / path)).shape == (96, 96, 3)
            values = np.asarray(Image.open(written.parent / mask))
            assert set(np.unique(values)) == {0, 255}
        files |= {row["output"], *row["references"], *row["reference_masks"], *(row["masks"] or {}).values()}
    assert {p.relative_to(written.parent).as_posix() for p in written.parent.rglob("*") if p.is_file()} == files


def test_masks_are_exact_and_missing_objects_have_none(written: Path) -> None:
    lacking = 0
    for row, item in zip(rows_of(written), scenes.demo_set(3, prompts=6)):
        paths = row["masks"] or {}
        assert set(paths) == set(item.scene.names)
        each = scenes.masks(item.scene, 96)
        for name, path in paths.items():
            own = [mask for mask, thing in zip(each, item.scene.objects) if thing.name == name]
            assert np.array_equal(np.asarray(Image.open(written.parent / path)) == 255, np.any(own, axis=0))
        if item.concept not in item.scene.names:
            lacking += 1
            assert item.mask_of(item.concept) is None
    assert lacking >= 3


def test_bytes_are_the_same_again(written: Path, tmp_path: Path) -> None:
    done: list[int] = []
    again = scenes.write_demo_set(scenes.demo_set(3, prompts=6), tmp_path / "a", size=96, progress=done.append)
    assert done == list(range(1, 19))
    for path in written.parent.rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (again.parent / path.relative_to(written.parent)).read_bytes()
