"""Encoders of pictures alone: DINO, DINOv2, DINOv3, on tiny random models in their published layouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.models_segment import ENCODERS, make_tiny_dino, make_tiny_dinov2

import beholder
from beholder._errors import OptionError, WeightsMismatchError, WeightsMissingError
from beholder.backends.base import LoadOptions
from beholder.backends.pool import find_card, load_model, resolve_model
from beholder.media.base import Picture

MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (50, 71, 3), dtype=np.uint8)


def picture(pixels: np.ndarray) -> Picture:
    return Picture(pixels, (pixels.shape[1], pixels.shape[0]), "RGB")


def resized(pixels: np.ndarray, width: int, height: int, how: Image.Resampling) -> np.ndarray:
    return np.asarray(Image.fromarray(pixels).resize((width, height), how), dtype=np.float64)


def plain_input(kind: str, pixels: np.ndarray) -> np.ndarray:
    """A picture's way in, step by step, as each family's evaluation has it."""
    if kind == "vit":  # short side to 8/7 of 32, then the middle 32 by 32 (torchvision rounds 10.5 to the even side)
        small = resized(pixels, int(37 * 71 / 50), 37, Image.Resampling.BICUBIC)
        left, top = round((small.shape[1] - 32) / 2), round((37 - 32) / 2)
        small = small[top : top + 32, left : left + 32]
    elif kind == "dinov2":
        small = resized(pixels, int(48 * 71 / 50), 48, Image.Resampling.BICUBIC)
        left = (small.shape[1] - 42) // 2
        small = small[3:45, left : left + 42]
    else:
        small = resized(pixels, 32, 32, Image.Resampling.BILINEAR)
    ready: np.ndarray = ((small / 255 - MEAN) / STD).transpose(2, 0, 1)
    return ready


@pytest.mark.parametrize("kind", ENCODERS)
def test_the_embedding_is_the_class_token(kind: str, tmp_path: Path, pixels: np.ndarray) -> None:
    import torch

    folder = ENCODERS[kind](tmp_path / kind, seed=1)
    model = resolve_model(str(folder))
    assert model.capability == "ImageEncoder"
    encoder: Any = load_model(model, device="cpu")
    found = encoder.encode_images(encoder.prepare_image(picture(pixels))[None])
    ready = torch.from_numpy(plain_input(kind, pixels)[None].astype(np.float32))
    with torch.inference_mode():
        expected = encoder._network(pixel_values=ready).last_hidden_state[:, 0].numpy()
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=2e-4)
    assert model.card.embed_dim == found.shape[1]
    other = resolve_model(str(ENCODERS[kind](tmp_path / "other", seed=2)))
    assert other.key != model.key


def test_golden_values(tmp_path: Path, pixels: np.ndarray) -> None:
    # Made with transformers 5.24, torch 2.13 on a CPU; the tolerance covers other versions' sums.
    golden = {
        "vit": [0.633, -0.6703, -1.2284, 0.6509],
        "dinov2": [-0.5295, -0.7387, -0.6158, -0.6187],
        "dinov3_vit": [-1.0604, -1.0509, 2.7999, 0.0747],
    }
    for kind, values in golden.items():
        encoder: Any = load_model(resolve_model(str(ENCODERS[kind](tmp_path / kind, seed=1))), device="cpu")
        found = encoder.encode_images(encoder.prepare_image(picture(pixels))[None])[0, :4]
        np.testing.assert_allclose(found, values, atol=2e-3)


def test_a_stored_pooler_plays_no_part_and_anything_else_must_fit(tmp_path: Path, pixels: np.ndarray) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    def embedding(folder: Path) -> np.ndarray:
        encoder: Any = load_model(resolve_model(str(folder)), device="cpu")
        found: np.ndarray = encoder.encode_images(encoder.prepare_image(picture(pixels))[None])
        return found

    plain = make_tiny_dino(tmp_path / "plain", seed=1)
    pooled = make_tiny_dino(tmp_path / "pooled", seed=1)
    state = load_file(pooled / "model.safetensors")
    extra = {"pooler.dense.weight": torch.ones(32, 32), "pooler.dense.bias": torch.ones(32)}
    save_file({**state, **extra}, pooled / "model.safetensors", metadata={"format": "pt"})
    assert embedding(plain).tolist() == embedding(pooled).tolist()
    save_file({**state, "head.weight": torch.ones(3, 3)}, pooled / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(WeightsMismatchError, match="unexpected"):
        embedding(pooled)


def test_metrics_of_texts_refuse_an_encoder_of_pictures(tmp_path: Path) -> None:
    folder = make_tiny_dinov2(tmp_path / "dinov2")
    image = np.zeros((40, 40, 3), np.uint8)
    with pytest.raises(OptionError, match="needs a model that embeds texts"):
        beholder.score("clip_score", images=image, texts="a dog", model=str(folder))
    value = float(beholder.score(f"clip_i(model={folder})", images=image, references=[image]))
    assert value == pytest.approx(1.0, abs=1e-6)


def test_dino_i(tmp_path: Path) -> None:
    folder = make_tiny_dino(tmp_path / "dino")
    rng = np.random.default_rng(2)
    image, *real = (rng.integers(0, 256, (40, 40, 3), dtype=np.uint8) for _ in range(3))
    encoder: Any = load_model(resolve_model(str(folder)), device="cpu")
    one, *others = (encoder.encode_images(encoder.prepare_image(picture(p))[None])[0] for p in (image, *real))
    expected = np.mean([one @ r / np.linalg.norm(one) / np.linalg.norm(r) for r in others])
    value = float(beholder.score(f"dino_i(model={folder})", images=image, references=real))
    assert value == pytest.approx(expected, abs=1e-5)
    largest = float(beholder.score(f"dino_i(model={folder}, reduce=max)", images=image, references=real))
    assert largest >= value
    with pytest.raises(OptionError, match="Name another model in the metric: -m dino_i,model=NAME"):
        beholder.score("dino_i", images=image, references=real, model="fake")


def test_cards_and_missing_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    card = find_card("dino-vits16")
    assert card is not None
    assert (card.id, card.embed_dim, card.capabilities) == ("hf:facebook/dino-vits16", 384, ("ImageEncoder",))
    assert find_card("hf:facebook/dinov2-base") is not None
    with pytest.raises(WeightsMissingError, match="dinov3"):
        resolve_model("dinov3-vitb16", options=LoadOptions(offline=True))
