"""Pictures and masks: exact to the pixel."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from PIL import Image

from beholder import scenes
from beholder._errors import OptionError
from beholder.scenes import Background, Scene, SceneObject, sprite

# Golden values of this project's own renderer (Pillow 13.0, numpy 2.4). The first scene shows sprites at their stored
# size, so no resampling takes part; the second is resampled by Pillow's fixed-point bicubic filter.
GOLDEN_STORED_SIZE = "ac4895220c510bb053999f4194615963f4103cca1e2c25a420d88a505677728e"
GOLDEN_RESAMPLED = "ac90203cf2f3589937acc384689daa667cb422c8612b0ff6e5ad977d9e3735e2"

OVERLAP = Scene(
    (SceneObject("cat", 0.4, 0.4, 0.5), SceneObject("pizza", 0.6, 0.6, 0.5, flip=True)), Background("green", "dotted")
)


def digest(pixels: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).hexdigest()


def test_golden_picture() -> None:
    assert digest(scenes.render_array(OVERLAP, 256)) == GOLDEN_STORED_SIZE
    assert digest(scenes.render_array(scenes.sample_scene(7), 64)) == GOLDEN_RESAMPLED


def test_render_is_the_array_as_an_rgb_image() -> None:
    image = scenes.render(OVERLAP, 96)
    assert (image.mode, image.size) == ("RGB", (96, 96))
    assert np.array_equal(np.asarray(image), scenes.render_array(OVERLAP, 96))


def test_composite_is_the_alpha_blend_of_its_parts() -> None:
    """The definition in float64, one object after the other, agrees to half a grey level and its rounding."""
    canvas = scenes.draw_background(OVERLAP.background, 256).astype(np.float64)
    for item in OVERLAP.objects:
        pixels = sprite(item.name, 128, item.flip).astype(np.float64)
        left, top = round(item.x * 256 - 64), round(item.y * 256 - 64)
        alpha = pixels[..., 3:] / 255
        part = canvas[top : top + 128, left : left + 128]
        part[:] = np.round(alpha * pixels[..., :3] + (1 - alpha) * part)
    assert np.abs(canvas - scenes.render_array(OVERLAP, 256)).max() <= 1


def test_masks_by_what_shines_through() -> None:
    """On black and on white, a pixel differs by 255 minus the alpha above it: an independent view of every mask."""
    for seed in range(30):
        drawn = scenes.sample_scene(seed)
        black, white = (
            scenes.render_array(Scene(drawn.objects[:1], Background(color)), 128).astype(int)
            for color in ("black", "white")
        )
        through = (white - black).max(axis=2)
        mask = scenes.masks(Scene(drawn.objects[:1], drawn.background), 128)[0]
        unsure = through == 127  # rounding may put alpha 128 on either side
        assert np.array_equal(mask[~unsure], (through < 127)[~unsure])


def test_masks_do_not_overlap_and_the_front_wins() -> None:
    back, front = scenes.masks(OVERLAP, 200)
    alone = scenes.masks(Scene(OVERLAP.objects[1:], OVERLAP.background), 200)[0]
    behind = scenes.masks(Scene(OVERLAP.objects[:1], OVERLAP.background), 200)[0]
    assert np.array_equal(front, alone)
    assert np.array_equal(back, behind & ~front)
    assert 0 < back.sum() < behind.sum()


def test_a_hidden_object_has_an_empty_mask() -> None:
    hidden = Scene((SceneObject("ant", 0.5, 0.5, 0.05), SceneObject("brick", 0.5, 0.5, 0.8)), Background("white"))
    small, large = scenes.masks(hidden, 256)
    assert not small.any()
    assert large.any()


def test_objects_are_cut_at_the_border() -> None:
    scene = Scene((SceneObject("cat", 0.0, 1.0, 0.5),), Background("red"))
    assert scenes.masks(scene, 100).shape == (1, 100, 100)
    whole = scenes.masks(Scene((SceneObject("cat", 0.5, 0.5, 0.5),), Background("red")), 100)[0]
    assert np.array_equal(scenes.masks(scene, 100)[0][75:, :25], whole[25:50, 50:75])


def test_no_objects() -> None:
    empty = Scene((), Background("gray"))
    assert scenes.masks(empty, 32).shape == (0, 32, 32)
    assert np.array_equal(scenes.render_array(empty, 32), np.full((32, 32, 3), 128))


@pytest.mark.parametrize("texture", scenes.TEXTURES)
@pytest.mark.parametrize("color", ["black", "white", "green"])
def test_backgrounds_stay_near_their_colour(texture: str, color: str) -> None:
    for angle in (0, 1, 2):
        pixels = scenes.draw_background(Background(color, texture, angle=angle, seed=3), 64).astype(int)
        assert np.abs(pixels - np.array(scenes.COLORS[color])).max() <= 26
        assert (len(np.unique(pixels.reshape(-1, 3), axis=0)) == 1) == (texture == "plain")


def test_spoil() -> None:
    image = scenes.render(OVERLAP, 128)
    assert np.array_equal(np.asarray(scenes.spoil(image)), np.asarray(image))
    first, again, other = (scenes.spoil(image, noise=20, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(np.asarray(first), np.asarray(again))
    assert not np.array_equal(np.asarray(first), np.asarray(other))
    change = np.asarray(first).astype(int) - np.asarray(image).astype(int)
    assert 25 < np.abs(change).max() <= 40
    sharpness = [
        np.abs(np.diff(np.asarray(x).astype(int), axis=1)).mean() for x in (image, scenes.spoil(image, blur=0.02))
    ]
    assert sharpness[1] < 0.6 * sharpness[0]


def test_sprites_are_read_only_and_mirrored() -> None:
    pixels = sprite("cat", 40)
    with pytest.raises(ValueError, match="read-only"):
        pixels[0, 0] = 0
    assert np.array_equal(sprite("cat", 128, True), sprite("cat", 128)[:, ::-1])


def test_too_small() -> None:
    with pytest.raises(OptionError, match="at least 8"):
        scenes.render(OVERLAP, 4)


def test_every_thing_has_its_own_picture() -> None:
    prints = {digest(sprite(name, 128)) for name in scenes.object_names()}
    assert len(prints) == len(scenes.object_names()) >= 300
    assert all((sprite(name, 128)[..., 3] >= 128).mean() > 0.03 for name in scenes.object_names())
    assert isinstance(scenes.render(OVERLAP), Image.Image)
