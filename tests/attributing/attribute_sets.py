"""Small sets of drawn scenes for attribute evaluations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from beholder.scenes import SceneOptions, render, sample_scene

Prior = Callable[[np.random.Generator], tuple[float, float]]
PLAIN = SceneOptions(textures=("plain",), sizes=(0.3, 0.5), crowded_size=0.4)


def draw_set(
    folder: Path, n: int, shares: Mapping[str, float], *, seed: int, prior: Prior | None = None, side: int = 64
) -> Path:
    """n scenes of 64 pixels; each thing is in its share of them."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    options = SceneOptions(textures=("plain",), sizes=(0.3, 0.5), crowded_size=0.4, prior=prior)
    for i in range(n):
        names = [name for name, share in shares.items() if rng.random() < share]
        render(sample_scene(rng, options, names=names), side).save(folder / f"{i:04d}.png")
    return folder


def draw_exact(folder: Path, n: int, things: Mapping[str, float], injected: str, share: float, *, seed: int) -> Path:
    """The same scenes for every share, with one thing added to exactly a share of them."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    order = np.random.default_rng(seed + 1).permutation(n)
    for i in range(n):
        names = [name for name, chance in things.items() if rng.random() < chance]
        if order[i] < round(share * n):
            names.append(injected)
        scene_rng = np.random.default_rng([seed, i])
        render(sample_scene(scene_rng, PLAIN, names=names), 64).save(folder / f"{i:04d}.png")
    return folder
