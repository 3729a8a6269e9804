"""Graded changes of a picture: from hardly seen to severe."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageFilter

Pixels = np.ndarray
"""(H, W, 3) uint8."""


@dataclass(frozen=True)
class Scene:
    """A picture that is to be changed.

    Args:
        pixels: (H, W, 3) uint8.
        mask: (H, W) bool, True where the subject is; None where no mask is known.
        seed: seed of what is random about the change; made of the sample's id.
    """

    pixels: Pixels
    mask: np.ndarray | None
    seed: int


@dataclass(frozen=True)
class Distortion:
    """A change by several degrees.

    Args:
        name: what tables call it.
        levels: degrees in rising order, with what each means as its text.
        apply: from a scene and a level to pixels; None where the scene lacks what the change needs (a mask).
        says: what is changed, in one phrase.
        place: from a mask of the picture (H, W) bool, the scene and a level to the mask of the changed picture; None
            where everything stays in its place.
    """

    name: str
    levels: Mapping[str, float]
    apply: Callable[[Scene, float], Pixels | None]
    says: str
    place: Callable[[np.ndarray, Scene, float], np.ndarray] | None = None


def blur(scene: Scene, share: float) -> Pixels:
    """Gaussian blur; the standard deviation is a share of the short side."""
    radius = share * min(scene.pixels.shape[:2])
    return np.asarray(Image.fromarray(scene.pixels).filter(ImageFilter.GaussianBlur(radius)))


def noise(scene: Scene, deviation: float) -> Pixels:
    """Gaussian noise of that standard deviation (of 255), from the scene's seed."""
    drawn = np.random.default_rng(scene.seed).normal(0, deviation, scene.pixels.shape)
    return np.clip(np.rint(scene.pixels + drawn), 0, 255).astype(np.uint8)


def jpeg(scene: Scene, quality: float) -> Pixels:
    """Compressed as JPEG of that quality and decoded again."""
    held = io.BytesIO()
    Image.fromarray(scene.pixels).save(held, "JPEG", quality=int(quality))
    return np.asarray(Image.open(held).convert("RGB"))


def resize(scene: Scene, share: float) -> Pixels:
    """Made smaller to that share of its size and larger again, both bicubic."""
    image = Image.fromarray(scene.pixels)
    small = (max(1, round(image.width * share)), max(1, round(image.height * share)))
    bicubic = Image.Resampling.BICUBIC
    return np.asarray(image.resize(small, bicubic).resize(image.size, bicubic))


def crop(scene: Scene, share: float) -> Pixels:
    """The middle, of that share of each side."""
    return _middle(scene.pixels, scene, share)


def _middle(array: np.ndarray, _: Scene, share: float) -> np.ndarray:
    height, width = array.shape[:2]
    rows, columns = max(1, round(height * share)), max(1, round(width * share))
    top, left = (height - rows) // 2, (width - columns) // 2
    return np.ascontiguousarray(array[top : top + rows, left : left + columns])


def hue(scene: Scene, degrees: float) -> Pixels:
    """All hues turned by that angle."""
    hsv = np.asarray(Image.fromarray(scene.pixels).convert("HSV")).copy()
    hsv[..., 0] = (hsv[..., 0].astype(np.int32) + round(degrees * 256 / 360)) % 256
    return np.asarray(Image.fromarray(hsv, "HSV").convert("RGB")) if degrees else scene.pixels


def flip(scene: Scene, _: float) -> Pixels:
    """Mirrored, left for right."""
    return _mirrored(scene.pixels, scene, 1.0)


def _mirrored(array: np.ndarray, _: Scene, __: float) -> np.ndarray:
    return np.ascontiguousarray(array[:, ::-1])


def background(scene: Scene, _: float) -> Pixels | None:
    """Everything outside the mask replaced by checks of two grays."""
    if scene.mask is None or not scene.mask.any() or scene.mask.all():
        return None
    height, width = scene.pixels.shape[:2]
    cell = max(1, min(height, width) // 8)
    rows, columns = np.arange(height) // cell, np.arange(width) // cell
    checks = np.where((rows[:, None] + columns) % 2, 200, 90).astype(np.uint8)
    return np.where(scene.mask[..., None], scene.pixels, checks[..., None])


def move(scene: Scene, share: float) -> Pixels | None:
    """The subject moved sideways by that share of the width, towards the side with more room.

    The hole is filled with the median colour around it. None where the subject would leave the picture.
    """
    shift = _shift(scene, share)
    if scene.mask is None or not shift:
        return None
    moved = scene.pixels.copy()
    moved[scene.mask] = np.median(scene.pixels[~scene.mask], axis=0).astype(np.uint8)
    rows, places = np.nonzero(scene.mask)
    moved[rows, places + shift] = scene.pixels[rows, places]
    return moved


def _shift(scene: Scene, share: float) -> int:
    """By how many columns the subject moves to the right; 0 where it has no mask or would leave the picture."""
    if scene.mask is None or not scene.mask.any() or scene.mask.all():
        return 0
    width = scene.pixels.shape[1]
    columns = np.flatnonzero(scene.mask.any(axis=0))
    right = width - 1 - columns[-1] >= columns[0]
    room = int(width - 1 - columns[-1] if right else columns[0])
    shift = round(share * width)
    return 0 if shift > room else shift if right else -shift


def _moved_mask(mask: np.ndarray, scene: Scene, share: float) -> np.ndarray:
    # What moves stays inside the picture, so nothing wraps around.
    return np.roll(mask, _shift(scene, share), axis=1)


def _shares(*values: float) -> dict[str, float]:
    return {f"{100 * value:g} %": value for value in values}


PICTURES = (
    Distortion("blur", _shares(0.005, 0.01, 0.02, 0.04), blur, "Gaussian blur, σ as a share of the short side"),
    Distortion("noise", {f"sd {d:g}": d for d in (5.0, 15.0, 40.0, 80.0)}, noise, "Gaussian noise"),
    Distortion("jpeg", {f"quality {q:g}": q for q in (70.0, 30.0, 10.0, 3.0)}, jpeg, "JPEG compression"),
    Distortion("resize", _shares(0.5, 0.25, 0.125, 0.0625), resize, "made smaller and larger again"),
    Distortion("crop", _shares(0.9, 0.75, 0.6, 0.4), crop, "the middle of the picture alone", _middle),
    Distortion("colour", {f"{d:g}°": d for d in (15.0, 45.0, 90.0, 180.0)}, hue, "hues turned"),
    Distortion("flip", {"mirrored": 1.0}, flip, "left and right exchanged", _mirrored),
    Distortion("background", {"replaced": 1.0}, background, "everything but the subject replaced (needs masks)"),
    Distortion("moved", _shares(0.1, 0.2, 0.35), move, "the subject moved sideways (needs masks)", _moved_mask),
)


def as_picture(pixels: Pixels) -> Any:
    """Pixels as a medium that a sample can hold."""
    from beholder.media.sources import as_medium

    return as_medium(np.ascontiguousarray(pixels))
