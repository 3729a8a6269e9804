"""From a scene to pixels: the picture, the exact masks, and the ways in which a picture is spoiled.

All arithmetic on pixels is integer arithmetic, so a scene has the same bytes on every platform.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFilter

from beholder._errors import OptionError
from beholder.scenes.scene import Background, Scene, SceneObject
from beholder.scenes.vocabulary import Uint8Array, sprite

Int32Array = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]
_CONTRAST = 26


def _second_tone(rgb: tuple[int, int, int]) -> tuple[int, int, int]:
    """A tone near the colour: darker for light colours, lighter for dark ones, so that the name stays true."""
    step = -_CONTRAST if sum(rgb) >= 384 else _CONTRAST
    return (min(255, max(0, rgb[0] + step)), min(255, max(0, rgb[1] + step)), min(255, max(0, rgb[2] + step)))


def _blend_weights(background: Background, size: int) -> Int32Array:
    """(size, size) weights 0..256 of the second tone."""
    y, x = np.mgrid[0:size, 0:size].astype(np.int32)
    step = max(1, round(background.period * size))
    along = (y, x, x + y)[background.angle]
    weights: Int32Array
    if background.texture == "striped":
        weights = along // step % 2 * 256
    elif background.texture == "checkered":
        weights = (x // step + y // step) % 2 * 256
    elif background.texture == "dotted":
        dx, dy = x % (2 * step) - step, y % (2 * step) - step
        weights = (9 * (dx * dx + dy * dy) <= 4 * step * step).astype(np.int32) * 256
    elif background.texture == "shaded":
        weights = along * 256 // (2 * size if background.angle == 2 else size)
    else:
        grid = np.random.default_rng(background.seed).integers(0, 257, (64, 64), dtype=np.int32)
        weights = grid[y * 64 // size, x * 64 // size]
    return weights


def draw_background(background: Background, size: int) -> Uint8Array:
    """The background alone: (size, size, 3) uint8."""
    rgb = background.rgb or (0, 0, 0)
    first = np.asarray(rgb, np.int32)
    if background.texture == "plain":
        return np.broadcast_to(first.astype(np.uint8), (size, size, 3)).copy()
    second = np.asarray(_second_tone(rgb), np.int32)
    weight = _blend_weights(background, size)[..., None]
    mixed: Uint8Array = ((first * (256 - weight) + second * weight + 128) >> 8).astype(np.uint8)
    return mixed


def _place(item: SceneObject, size: int) -> tuple[Uint8Array, tuple[slice, slice]]:
    """An object's pixels and where they go, cut at the borders of the picture."""
    side = max(1, round(item.size * size))
    left, top = round(item.x * size - side / 2), round(item.y * size - side / 2)
    x0, y0, x1, y1 = max(0, left), max(0, top), min(size, left + side), min(size, top + side)
    pixels = sprite(item.name, side, item.flip)[
        max(0, y0 - top) : max(0, y1 - top), max(0, x0 - left) : max(0, x1 - left)
    ]
    return pixels, (slice(y0, max(y0, y1)), slice(x0, max(x0, x1)))


def render_array(scene: Scene, size: int = 256) -> Uint8Array:
    """The picture of a scene as an array: (size, size, 3) uint8 RGB. See `render`."""
    if size < 8:
        raise OptionError("a scene's picture must be at least 8 pixels wide", got=repr(size))
    canvas = draw_background(scene.background, size)
    for item in scene.objects:
        pixels, where = _place(item, size)
        alpha = pixels[..., 3:].astype(np.int32)
        below = canvas[where].astype(np.int32)
        canvas[where] = ((pixels[..., :3] * alpha + below * (255 - alpha) + 127) // 255).astype(np.uint8)
    return canvas


def render(scene: Scene, size: int = 256) -> Image.Image:
    """The picture of a scene.

    Objects are drawn in order, each over what is there: out = (a·object + (255 − a)·below + 127) // 255.

    Args:
        scene: what to draw.
        size: side in pixels, at least 8.

    Returns:
        A PIL image, RGB, size × size.
    """
    return Image.fromarray(render_array(scene, size))


def masks(scene: Scene, size: int = 256) -> BoolArray:
    """Which pixels show which object.

    A pixel belongs to the frontmost object whose alpha there is at least 128 of 255.

    Args:
        scene: the scene.
        size: side in pixels, as given to `render`.

    Returns:
        (n, size, size) bool, one mask an object in the scene's order; no pixel is set in two masks. An object that is
        hidden has an empty mask; a scene without objects gives shape (0, size, size).
    """
    out = np.zeros((len(scene.objects), size, size), np.bool_)
    for index, item in enumerate(scene.objects):
        pixels, where = _place(item, size)
        solid = pixels[..., 3] >= 128
        out[(slice(0, index), *where)] &= ~solid
        out[(index, *where)] = solid
    return out


def spoil(image: Image.Image, *, blur: float = 0.0, noise: int = 0, seed: int = 0) -> Image.Image:
    """A blurred and noisy copy of a picture.

    Args:
        image: an RGB picture.
        blur: radius of the Gaussian blur as a share of the picture's side; 0 for none.
        noise: half-width of the noise added to every channel of every pixel (sum of two uniform integers); 0 for none.
        seed: of the noise.

    Returns:
        A picture of the same size; the same picture when both are 0.
    """
    if blur > 0:
        image = image.filter(ImageFilter.GaussianBlur(blur * image.width))
    if noise > 0:
        pixels = np.asarray(image, np.int32)
        rng = np.random.default_rng(seed)
        dither = rng.integers(-noise, noise + 1, (2, *pixels.shape), dtype=np.int32).sum(axis=0)
        image = Image.fromarray(np.clip(pixels + dither, 0, 255).astype(np.uint8))
    return image
