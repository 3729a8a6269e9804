"""Segmenters without a network: known answers on flat art, on scenes with exact masks, and on bad input."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import beholder
from beholder._errors import NoValue, OptionError
from beholder.backends.base import Made
from beholder.backends.pool import load_model, resolve_model
from beholder.functional.masks import decode_masks, mask_boxes
from beholder.media.base import Picture
from beholder.scenes import Background, Scene, SceneObject, masks, render_array


def picture_of(pixels: np.ndarray) -> Picture:
    return Picture(np.ascontiguousarray(pixels), (pixels.shape[1], pixels.shape[0]), "RGB")


def make(name: str) -> Any:
    return load_model(resolve_model(name, capability="Segmenter"), device="cpu")


def masks_of(made: Made, row: int = 0) -> np.ndarray:
    columns = made.columns
    return decode_masks(columns["counts"][row], columns["lengths"][row], columns["size"][row])


def flat(*squares: tuple[int, int, int, tuple[int, int, int]]) -> np.ndarray:
    """A white picture of 40 by 60 pixels with squares: left, top, side, colour."""
    pixels = np.full((40, 60, 3), 255, np.uint8)
    for x, y, side, colour in squares:
        pixels[y : y + side, x : x + side] = colour
    return pixels


RED, BLUE = (220, 50, 47), (50, 100, 220)


def test_color_finds_a_named_colour_and_else_what_differs_from_the_border() -> None:
    model = make("color")
    pixels = flat((5, 5, 10, RED), (30, 20, 5, RED), (40, 2, 8, BLUE))
    visual = model.prepare([picture_of(pixels)])
    made = model.segment([visual], [(0, "the red square"), (0, "#3264dc"), (0, "dog"), (0, "green")])
    assert not made.failures
    areas = [masks_of(made, row).sum(axis=(1, 2)).tolist() for row in range(4)]
    assert areas == [[100, 25], [64], [100, 64, 25], []]
    assert made.columns["scores"][0].tolist() == pytest.approx([0.8, 0.2])
    assert made.columns["boxes"][0].tolist() == [[5, 5, 15, 15], [30, 20, 35, 25]]
    assert made.columns["boxes"][3].shape == (0, 4)
    assert made.columns["size"].tolist() == [[40, 60]] * 4
    assert (masks_of(made, 1)[0] == (pixels == BLUE).all(axis=2)).all()


def test_color_finds_the_object_of_a_plain_scene() -> None:
    scene = Scene((SceneObject("apple", 0.4, 0.6, 0.4, False),), Background("white", "plain", (255, 255, 255)))
    exact = masks(scene, 128)[0]
    model = make("color:tolerance=24")
    made = model.segment([model.prepare([picture_of(render_array(scene, 128))])], [(0, "apple")])
    found = masks_of(made).any(axis=0)
    assert (found & exact).sum() / (found | exact).sum() > 0.9
    assert np.abs(mask_boxes(found[None])[0] - mask_boxes(exact[None])[0]).max() <= 2


def test_phrases_are_tried_in_turn() -> None:
    model = make("color")
    visual = model.prepare([picture_of(flat((5, 5, 10, RED)))])
    made = model.segment([visual], [(0, "green\nblue\nred"), (0, "red\nblue"), (0, "green\nblue"), (0, " \n ")])
    assert made.columns["phrase"].tolist()[:3] == [2, 0, 1]
    assert [len(row) for row in made.columns["scores"]] == [1, 1, 0, 0]
    assert "blank" in made.failures[3].reason


def test_given_masks() -> None:
    model = make("masks")
    pixels = flat((5, 5, 10, RED))
    mask = (pixels == RED).all(axis=2)
    drawn = picture_of(np.repeat(mask[..., None] * np.uint8(255), 3, axis=2))
    visuals = [model.prepare([picture_of(pixels), drawn]), model.prepare([picture_of(pixels)])]
    made = model.segment(visuals, [(0, ""), (1, ""), (0, "whatever")])
    assert [len(row) for row in made.columns["scores"]] == [1, 0, 1]
    assert (masks_of(made)[0] == mask).all()
    with pytest.raises(NoValue, match="the mask is 60×39 pixels, its picture 60×40"):
        model.prepare([picture_of(pixels), picture_of(drawn.pixels[:39])])
    empty = model.prepare([picture_of(pixels), picture_of(np.zeros_like(pixels))])
    assert len(model.segment([empty], [(0, "")]).columns["scores"][0]) == 0


@pytest.mark.parametrize(
    ("boxes", "expected"),
    [
        ([5, 10, 25, 30], [[5, 10, 25, 30]]),
        ([[5, 10, 25, 30], [-3, 0, 200, 5]], [[5, 10, 25, 30], [0, 0, 60, 5]]),
        ({"bbox": [5, 10, 20, 20]}, [[5, 10, 25, 30]]),
        ([{"bbox": [5, 10, 20, 20], "score": 0.4}, {"bbox": [0, 0, 2, 2], "score": 0.9}], [[0, 0, 2, 2]]),
        (
            [{"bbox": [5, 10, 20, 20], "label": "Dog"}, {"bbox": [0, 0, 2, 2], "category_name": "cat"}],
            [[5, 10, 25, 30]],
        ),
        ("0 0.25 0.5 0.3333333333 0.5\n0 0.5 0.5 1 1 0.2", [[5, 10, 25, 30]]),
        ("[[5, 10, 25, 30]]", [[5, 10, 25, 30]]),
        (None, []),
        ([], []),
    ],
)
def test_given_boxes(boxes: Any, expected: list[list[float]]) -> None:
    model = make("boxes")
    visual = model.prepare([picture_of(flat())])
    made = model.segment([visual], [(0, json.dumps({"boxes": boxes, "label": "dog"}))], threshold=0.5)
    assert not made.failures
    np.testing.assert_allclose(made.columns["boxes"][0], np.array(expected).reshape(-1, 4), atol=1e-5)
    found = masks_of(made)
    assert found.sum(axis=(1, 2)).tolist() == [(x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in expected]


@pytest.mark.parametrize("boxes", [["a b"], [[1, 2, 3]], [{"bbox": [1, 2]}], [[1, 2, 3, "x"]], "0 0.5", [7]])
def test_what_is_no_box_is_said(boxes: Any) -> None:
    model = make("boxes")
    made = model.segment([model.prepare([picture_of(flat())])], [(0, json.dumps({"boxes": boxes, "label": ""}))])
    assert "is no box" in made.failures[0].reason


def test_a_function_of_the_users_own() -> None:
    asked = []

    def mine(image: Any, phrase: str) -> Any:
        asked.append((image.size, phrase))
        if phrase == "none":
            return None
        if phrase == "wrong":
            return np.ones((3, 3))
        mask = np.zeros((40, 60), int)
        mask[3:6, 10:20] = 1
        return mask

    beholder.register_segmenter("mine", mine)
    model = make("mine")
    visual = model.prepare([picture_of(flat())])
    made = model.segment([visual], [(0, "dog"), (0, "none"), (0, "wrong")], threshold=0.5, mask_threshold=0.5)
    assert asked[0] == ((60, 40), "dog")
    assert masks_of(made).sum() == 30
    assert len(made.columns["scores"][1]) == 0
    assert "shape (3, 3)" in made.failures[2].reason
    first = resolve_model("mine", capability="Segmenter").key
    beholder.register_segmenter("mine", mine, version="2")
    assert resolve_model("mine", capability="Segmenter").key != first
    with pytest.raises(OptionError, match="function"):
        beholder.register_segmenter("mine", "no function")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="name of its own"):
        beholder.register_segmenter("sam3", mine)


def test_the_fake_is_the_same_for_the_same() -> None:
    model, other = make("fake"), make("fake:seed=1")
    visual = model.prepare([picture_of(flat((5, 5, 10, RED)))])
    one, two = (model.segment([visual], [(0, "dog")], threshold=0.5) for _ in range(2))
    assert (masks_of(one) == masks_of(two)).all()
    assert one.columns["scores"][0].min() > 0.5
    assert not np.array_equal(masks_of(one), masks_of(other.segment([visual], [(0, "dog")])))
    assert len(model.segment([visual], [(0, "nothing here")]).columns["scores"][0]) == 0


@pytest.mark.parametrize("name", ["color:tolerance=x", "masks:what", "fake:size=3", "color:seed=1"])
def test_settings_that_make_no_sense(name: str) -> None:
    with pytest.raises(OptionError, match="is written"):
        resolve_model(name, capability="Segmenter")


def test_a_folder_named_masks_is_no_rival(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "masks").mkdir()
    monkeypatch.chdir(tmp_path)
    assert resolve_model("masks", capability="Segmenter").id == "masks"
