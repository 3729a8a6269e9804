"""The words for the place of an object that stands alone: scenes near their boundaries, near misses, and two losses.

Learned from opposites alone, "in the middle" is never wrong of an object on a side, and so it wins near the boundary.
Here the five words stand against each other, in the prompts themselves. Which word is true changes within less than a
pixel of 64, and a word says little of that; so a linear head that is thrown away afterwards asks for the centre too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F

from beholder import scenes as S
from beholder.scenes.captions import places_of
from beholder.scenes.scene import LEFT, RIGHT

WORDS = ("left", "right", "top", "bottom", "middle")
CLOSE = 0.03
FINE = 0.02


def to_boundary(scene: S.Scene, rng: np.random.Generator) -> S.Scene:
    """The scene with its one object put close to a boundary along one axis, and half of the time amid the other."""
    item = scene.objects[0]
    first, second = int(rng.integers(2)), rng.random()
    at = [item.x, item.y]
    at[first] = (LEFT, RIGHT)[int(rng.integers(2))] + float(rng.normal(0, CLOSE))
    if second < 0.5:
        at[1 - first] = float(rng.uniform(LEFT, RIGHT))
    x, y = (round(min(max(v, item.size / 2), 1 - item.size / 2), 4) for v in at)
    return replace(scene, objects=(replace(item, x=x, y=y),))


def near_place(claim: S.Claim, scene: S.Scene, rng: np.random.Generator) -> S.Claim | None:
    """The claim with one of its places made any other that is false of the scene; None when it names no place."""
    placed = [i for i, mention in enumerate(claim.mentions) if mention.place]
    if not placed:
        return None
    chosen = placed[int(rng.integers(len(placed)))]
    names = tuple(S.PLACES)
    for number in rng.permutation(len(names)):
        mention = replace(claim.mentions[chosen], place=names[int(number)])
        wrong = replace(claim, mentions=(*claim.mentions[:chosen], mention, *claim.mentions[chosen + 1 :]))
        if not wrong.holds(scene):
            return wrong
    return None


def lone_places(drawn: Sequence[S.Scene], index: dict[str, int]) -> np.ndarray:
    """(k, 7) questions about objects that stand alone: scene, object, and which of WORDS are true (two in a corner)."""
    rows = [
        (number, index[scene.objects[0].name], *(word in places_of(scene.objects[0]) for word in WORDS))
        for number, scene in enumerate(drawn)
        if len(scene.objects) == 1
    ]
    return np.array(rows, np.int64).reshape(-1, 2 + len(WORDS))


def place_texts(lone: np.ndarray, form: str) -> list[str]:
    """The prompts of the questions, five for each: a form's words with the object and each of WORDS."""
    names = S.object_names()
    subjects = [(names[i], S.thing(names[i]).article) for i in lone[:, 1]]
    places = [S.PLACES[word] for word in WORDS]
    return [form.format(a=f"{article} {name} {at}", b=f"{name} {at}") for name, article in subjects for at in places]


def place_word_loss(image: torch.Tensor, texts: torch.Tensor, lone: np.ndarray) -> torch.Tensor:
    """Mean negative logarithm of the true words' share of the softmax over the five prompts of each lone object.

    `image` (B, D) times the temperature, `texts` (5 k, D) unit, as of `place_texts`.
    """
    rows = torch.from_numpy(lone)
    logits = torch.einsum("kd,kwd->kw", image[rows[:, 0]], texts.view(len(rows), len(WORDS), -1))
    true = logits.masked_fill(rows[:, 2:] == 0, -1e4)
    return (logits.logsumexp(dim=1) - true.logsumexp(dim=1)).mean()


class CentreHead(torch.nn.Module):
    """Reads a lone object's centre off a picture's embedding, linearly as prompts do; used in training only.

    It starts at the scene's middle without regard to the embedding, so that it disturbs nothing while it is raw.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.read = torch.nn.Linear(width, 2)
        torch.nn.init.zeros_(self.read.weight)
        torch.nn.init.constant_(self.read.bias, 0.5)

    def forward(self, image: torch.Tensor, lone: np.ndarray, centre: np.ndarray) -> torch.Tensor:
        """Mean Huber loss of the centres (k, 2) in units of FINE, for unit embeddings `image` (B, D)."""
        error = self.read(image[torch.from_numpy(lone[:, 0])] * 14) - torch.from_numpy(centre)
        return F.smooth_l1_loss(error / FINE, torch.zeros_like(error))
