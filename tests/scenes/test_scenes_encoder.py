"""The embedded encoder: it loads completely, its card is true of its files, and its figures hold on fresh scenes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beholder import scenes

FOLDER = Path(str(resources.files("beholder") / "assets" / "demo_emoji"))
CARD = json.loads((FOLDER / "card.json").read_text(encoding="utf-8"))

# Golden value of the shipped weights in float32 on a CPU; the tolerance leaves room for other matrix kernels.
GOLDEN_TEXTS = ("a photo of a cat on a blue background", "a photo of a dog on a blue background")
GOLDEN_COSINES = (0.46100, 0.07311)
TOLERANCE = 2e-4


class Encoder:
    def __init__(self) -> None:
        import torch
        from transformers import AutoTokenizer, CLIPImageProcessorPil, CLIPModel

        self.torch = torch
        self.model, self.loading = CLIPModel.from_pretrained(FOLDER, output_loading_info=True, dtype=torch.float32)
        self.model.eval()
        self.tokenizer = AutoTokenizer.from_pretrained(FOLDER)
        self.processor = CLIPImageProcessorPil.from_pretrained(FOLDER)

    def images(self, drawn: Sequence[scenes.Scene]) -> np.ndarray:
        pixels = self.processor([scenes.render(scene) for scene in drawn], return_tensors="pt")["pixel_values"]
        with self.torch.inference_mode():
            return self._unit(self.model.get_image_features(pixel_values=pixels).pooler_output)

    def texts(self, lines: Sequence[str]) -> np.ndarray:
        ids = self.tokenizer(list(lines), padding=True, truncation=True, return_tensors="pt")
        with self.torch.inference_mode():
            return self._unit(self.model.get_text_features(**ids).pooler_output)

    def patches(self, drawn: Sequence[scenes.Scene]) -> np.ndarray:
        pixels = self.processor([scenes.render(scene) for scene in drawn], return_tensors="pt")["pixel_values"]
        tower = self.model.vision_model
        with self.torch.inference_mode():
            hidden = tower(pixels, output_hidden_states=True).hidden_states[-2]
            mask = self.torch.full((hidden.shape[1],) * 2, -self.torch.inf).fill_diagonal_(0)
            mask[0] = 0
            done = tower.encoder.layers[-1](hidden, mask[None, None])
            done = done[0] if isinstance(done, tuple) else done
            return self._unit(self.model.visual_projection(tower.post_layernorm(done)))[:, 1:]

    @staticmethod
    def _unit(x: Any) -> np.ndarray:
        return (x / x.norm(dim=-1, keepdim=True)).numpy()


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder()


def named(name: str) -> str:
    return f"{scenes.thing(name).article} {name}"


def test_weights_load_completely(encoder: Encoder) -> None:
    assert not any(encoder.loading.values()), encoder.loading
    assert encoder.model.config.text_config.eos_token_id == encoder.tokenizer.eos_token_id != 2


def test_card_is_true_of_the_files() -> None:
    assert hashlib.sha256((FOLDER / "model.safetensors").read_bytes()).hexdigest() == CARD["weights_sha256"]
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 12 * 2**20
    assert CARD["data"]["objects"] == len(scenes.object_names()) >= 300
    assert "nothing" in CARD["what_it_is_not"]


def test_every_word_of_the_captions_is_one_token(encoder: Encoder) -> None:
    for seed in range(200):
        text = scenes.caption(scenes.sample_scene(seed), seed, detail=1.0)
        words = text.lower().replace(".", " .").replace(",", " ,").replace("-", " - ").split()
        ids = encoder.tokenizer(text)["input_ids"]
        assert len(ids) == len(words) + 2, text
        assert encoder.tokenizer.decode(ids[1:-1]).split() == words


def test_headline_figures_hold_on_fresh_scenes(encoder: Encoder) -> None:
    """Recognition, colours and retrieval on scenes of this test's own seed, against floors below the card's figures."""
    names, colors = scenes.object_names(), tuple(scenes.COLORS)
    rng = np.random.default_rng([5, 1])
    lone = scenes.SceneOptions(counts=(1,), count_weights=())
    one = [scenes.sample_scene(rng, lone) for _ in range(150)]
    images = encoder.images(one)
    top = (images @ encoder.texts([f"a photo of {named(n)}" for n in names]).T).argmax(axis=1)
    assert np.mean([names[i] == scene.names[0] for i, scene in zip(top, one)]) >= 0.95
    right = 0
    for scene, image in zip(one[:60], images):
        lines = [scenes.Claim((scenes.Mention(scene.names[0]),), color=c).text("photo") for c in colors]
        right += colors[int(np.argmax(encoder.texts(lines) @ image))] == scene.background.color
    assert right >= 57
    many = [scenes.sample_scene(rng) for _ in range(100)]
    sims = encoder.images(many) @ encoder.texts([scenes.caption(scene, rng, detail=1.0) for scene in many]).T
    assert (sims.argmax(axis=1) == np.arange(100)).mean() >= 0.95
    assert (sims.argmax(axis=0) == np.arange(100)).mean() >= 0.95


def test_patches_point_at_the_object(encoder: Encoder) -> None:
    rng = np.random.default_rng([5, 2])
    drawn = [scenes.sample_scene(rng) for _ in range(50)]
    hits = []
    for scene, tokens in zip(drawn, encoder.patches(drawn)):
        best = int(np.argmax(tokens @ encoder.texts([f"This is a photo of {named(scene.names[0])}."])[0]))
        share = scenes.masks(scene, 64).reshape(-1, 8, 8, 8, 8).mean(axis=(2, 4)).reshape(-1, 64)
        hits.append(any(s[best] >= 0.25 for s, o in zip(share, scene.objects) if o.name == scene.names[0]))
    assert np.mean(hits) >= 0.94


def test_places_are_told_apart(encoder: Encoder) -> None:
    """True captions that name a place or a relation score above the same captions with it turned round."""
    rng = np.random.default_rng([5, 4])
    right = []
    while len(right) < 120:
        scene = scenes.sample_scene(rng)
        claim = scenes.describe(scene, rng, detail=1.0)
        wrong = scenes.contradict(claim, scene, rng, kind="place")
        if wrong is not None:
            good, bad = encoder.texts([claim.text("photo"), wrong.text("photo")]) @ encoder.images([scene])[0]
            right.append(good > bad)
    assert np.mean(right) >= 0.9


def test_the_place_word_of_a_lone_object_is_found_among_five(encoder: Encoder) -> None:
    """The true word scores above the four others, for centres at least 0.02 off where the word changes."""
    words = ("left", "right", "top", "bottom", "middle")
    rng = np.random.default_rng([5, 5])
    right: list[bool] = []
    while len(right) < 100:
        scene = scenes.sample_scene(rng, scenes.SceneOptions(counts=(1,), count_weights=()))
        item = scene.objects[0]
        column = "left" if item.x < 0.38 else "right" if item.x > 0.62 else "middle" if 0.42 < item.x < 0.58 else None
        row = "top" if item.y < 0.38 else "bottom" if item.y > 0.62 else "middle" if 0.42 < item.y < 0.58 else None
        if None in (column, row) or "middle" not in (column, row):
            continue
        truth = row if column == "middle" else column
        lines = [f"a photo of {named(item.name)} {scenes.PLACES[word]}" for word in words]
        right.append(words[int(np.argmax(encoder.texts(lines) @ encoder.images([scene])[0]))] == truth)
    assert np.mean(right) >= 0.95


def test_with_and_without(encoder: Encoder) -> None:
    rng = np.random.default_rng([5, 3])
    drawn = [scenes.sample_scene(rng) for _ in range(60)]
    right = []
    for scene, image in zip(drawn, encoder.images(drawn)):
        for name in (scene.names[0], "anchor" if "anchor" not in scene.names else "owl"):
            yes, no = (
                encoder.texts([f"This is a photo of {named(name)}.", f"This is a photo without {named(name)}."]) @ image
            )
            right.append((yes > no) == (name in scene.names))
    assert np.mean(right) >= 0.9


def test_generators_rank_in_the_right_order(encoder: Encoder) -> None:
    """Mean cosines of the demo set differ by more than two standard errors of the paired differences."""
    items = scenes.demo_set(0)
    scores: dict[str, np.ndarray] = {}
    for method in scenes.GENERATORS:
        own = [item for item in items if item.method == method]
        pixels = encoder.processor([item.image() for item in own], return_tensors="pt")["pixel_values"]
        with encoder.torch.inference_mode():
            images = encoder._unit(encoder.model.get_image_features(pixel_values=pixels).pooler_output)
        scores[method] = (images * encoder.texts([item.prompt for item in own])).sum(axis=1)
    for better, worse in zip(scenes.GENERATORS, scenes.GENERATORS[1:]):
        gap = scores[better] - scores[worse]
        assert gap.mean() > 2 * gap.std(ddof=1) / len(gap) ** 0.5


def test_golden_similarities(encoder: Encoder) -> None:
    scene = scenes.Scene((scenes.SceneObject("cat", 0.5, 0.5, 0.5),), scenes.Background("blue"))
    cosines = encoder.texts(GOLDEN_TEXTS) @ encoder.images([scene])[0]
    assert cosines == pytest.approx(GOLDEN_COSINES, abs=TOLERANCE)
    assert cosines[0] > cosines[1] + 0.2
