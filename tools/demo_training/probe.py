"""Quick held-out figures while training; the full ones come from `tools/evaluate_demo_encoder.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from PIL import Image

from beholder import scenes as S
from beholder.scenes.captions import relations_of
from demo_training.batches import COLOR_NAMES, patch_labels
from demo_training.losses import fill, fill_color
from demo_training.model import SIZE, tensor_ids, text_features, to_pixels, unit, vision_tokens
from demo_training.place_words import WORDS, lone_places, place_texts

FORM = "a photo of {a}"
PAIRS = S.SceneOptions(counts=(2,), count_weights=(), repeat=0.0)


def _pixels(scenes: list[S.Scene]) -> torch.Tensor:
    large = [S.render(scene, 256).resize((SIZE, SIZE), Image.Resampling.BICUBIC) for scene in scenes]
    return to_pixels(np.stack([np.asarray(image) for image in large]))


def probe(model: Any, tokenizer: Any, seed: int, count: int = 400) -> dict[str, float]:
    """Shares right, of `count` scenes with one object and 100 others.

    top1: objects; five: places of which one word of five is true; relation: which of two names comes first;
    i2t, t2i: retrieval among 100; patch_object, patch_color: labels of patches.
    """
    rng = np.random.default_rng([seed, 7])
    index = {name: i for i, name in enumerate(S.object_names())}
    one = [S.sample_scene(rng, S.SceneOptions(counts=(1,), count_weights=())) for _ in range(count)]
    many = [S.sample_scene(rng) for _ in range(100)]
    lines = [S.caption(scene, rng, detail=1.0) for scene in many]
    pairs = [s for s in (S.sample_scene(rng, PAIRS) for _ in range(120)) if relations_of(*s.objects)]
    orders = [line for scene in pairs for line in _orders(scene)]
    lone = lone_places(one, index)
    lone = lone[lone[:, 2:].sum(axis=1) == 1]
    bank_lines = [fill(FORM, n) for n in index] + [fill_color(FORM, c) for c in COLOR_NAMES]
    with torch.no_grad():
        tokens = unit(torch.cat([vision_tokens(model, part, None) for part in _pixels(one + many + pairs).split(100)]))
        bank, texts, order, places = (
            unit(
                torch.cat([text_features(model, tensor_ids(tokenizer, t[i : i + 500])) for i in range(0, len(t), 500)])
            )
            for t in (bank_lines, lines, orders, place_texts(lone, FORM))
        )
    images = tokens[:, 0]
    sims = images[count : count + 100] @ texts.T
    five = torch.einsum("kd,kwd->kw", images[lone[:, 0]], places.view(len(lone), len(WORDS), -1)).argmax(dim=1)
    first = torch.einsum("kd,kwd->kw", images[count + 100 :], order.view(len(pairs), 2, -1)).argmax(dim=1)
    labels = torch.from_numpy(np.stack([patch_labels(s, index) for s in one]))
    guess = (tokens[:count, 1:] @ bank.T).argmax(2)
    thing = (labels >= 0) & (labels < len(index))
    truth = torch.tensor([index[s.objects[0].name] for s in one])
    right = {
        "top1": (images[:count] @ bank[: len(index)].T).argmax(1) == truth,
        "five": five == torch.from_numpy(lone[:, 2:]).argmax(dim=1),
        "relation": first == 0,
        "i2t": sims.argmax(1) == torch.arange(100),
        "t2i": sims.argmax(0) == torch.arange(100),
        "patch_object": (guess == labels)[thing],
        "patch_color": (guess == labels)[labels >= len(index)],
    }
    return {key: float(value.float().mean()) for key, value in right.items()}


def _orders(scene: S.Scene) -> list[str]:
    relation = S.RELATIONS[relations_of(*scene.objects)[0]]
    names = scene.names
    return [f"{fill(FORM, a)} {relation} {S.thing(b).article} {b}" for a, b in (names, names[::-1])]
