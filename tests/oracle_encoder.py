"""An encoder that knows everything: patch features made from where objects are, for proofs that need no network.

Attribute t has the direction u_t; the background has its own. A patch is the direction of what covers it, plus noise;
the global token is the mean direction of the objects that are there, or the background's. Prompts are directions too:
"this is t" is u_t, "this is without t" is the sum of all other directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from beholder.functional.patches import PatchScores, patch_cosines, ra_clip_scores

GRID = (8, 8)
TAU = 12.0


@dataclass(frozen=True)
class Thing:
    """One object: attribute, centre and half-width in cells."""

    attribute: int
    x: float
    y: float
    half: float = 1.0


Picture = Sequence[Thing]


def oracle_scores(pictures: Sequence[Picture], attributes: int, *, seed: int = 0, noise: float = 0.25) -> PatchScores:
    """RA-CLIPScores and maps (n, C, 64) of drawn pictures."""
    rng = np.random.default_rng(seed)
    width = attributes + 9
    directions = np.eye(width)
    background = directions[attributes]
    rows, columns = np.mgrid[: GRID[0], : GRID[1]] + 0.5
    patches = np.tile(background, (len(pictures), GRID[0] * GRID[1], 1))
    whole = np.tile(background, (len(pictures), 1))
    for i, picture in enumerate(pictures):
        for thing in picture:
            covered = (np.abs(columns - thing.x) <= thing.half) & (np.abs(rows - thing.y) <= thing.half)
            patches[i, covered.ravel()] = directions[thing.attribute]
        if picture:
            whole[i] = np.mean([directions[thing.attribute] for thing in picture], axis=0)
    patches = patches + noise * rng.normal(size=patches.shape)
    whole = whole + noise * rng.normal(size=whole.shape)
    near = np.exp(-np.square(_distances()) / 0.8)
    attention = np.broadcast_to(near / near.sum(axis=1, keepdims=True), (len(pictures), *near.shape))
    negative = directions[: attributes + 1].sum(axis=0) - directions[:attributes]
    cosines = patch_cosines(whole, patches, directions[:attributes], negative)
    return ra_clip_scores(cosines, attention, tau=TAU)


def _distances() -> np.ndarray:
    at = np.stack([axis.ravel() for axis in np.mgrid[: GRID[0], : GRID[1]]], axis=1).astype(np.float64)
    distances: np.ndarray = np.linalg.norm(at[:, None] - at[None], axis=2)
    return distances


def scatter(
    n: int, *, shares: Sequence[float], seed: int, x: float = 4.0, y: float = 4.0, spread: float = 0.6
) -> list[list[Thing]]:
    """n pictures; attribute t is in a share of them, near (x, y) in cells."""
    rng = np.random.default_rng(seed)
    pictures = []
    for _ in range(n):
        there = [t for t, share in enumerate(shares) if rng.random() < share]
        pictures.append([Thing(t, x + spread * rng.normal(), y + spread * rng.normal()) for t in there])
    return pictures
