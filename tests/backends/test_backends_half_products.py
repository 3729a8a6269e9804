"""bfloat16 by name: products in bfloat16, sums in float32; a number of its own, nearer to float32 than a plain cast."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends.backends_pictures import noise_picture

from beholder.backends.half_products import ARITHMETIC, halve_products
from beholder.backends.pool import load_model, resolve_model
from beholder.backends.tensors import projected

TEXTS = ["a photo of a cat", "the red car", "cat " * 20]


def unit(rows: np.ndarray) -> np.ndarray:
    result: np.ndarray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return result


def test_embeddings_of_a_deep_tower_are_nearer_to_float32_than_those_of_a_plain_cast() -> None:
    import torch
    from transformers import CLIPConfig, CLIPModel

    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 12, "num_attention_heads": 4}
    torch.manual_seed(0)
    vision = {**sizes, "image_size": 32, "patch_size": 8}
    exact = CLIPModel(
        CLIPConfig(vision_config=vision, text_config={**sizes, "vocab_size": 64}, projection_dim=32)
    ).eval()
    pixels = torch.randn(16, 3, 32, 32)
    with torch.inference_mode():
        full = unit(projected(exact.get_image_features(pixel_values=pixels)).numpy())
        plain = copy.deepcopy(exact).to(torch.bfloat16)
        cast = unit(projected(plain.get_image_features(pixel_values=pixels.to(torch.bfloat16))).float().numpy())
        found = projected(halve_products(copy.deepcopy(exact)).get_image_features(pixel_values=pixels))
    assert found.dtype == torch.float32
    apart = np.linalg.norm(unit(found.numpy()) - full, axis=1).mean()
    assert 0 < apart < 0.6 * np.linalg.norm(cast - full, axis=1).mean()


@pytest.mark.parametrize("family", ["clip", "siglip", "metaclip2"])
def test_a_model_is_loaded_so_and_near_to_float32(family: str, tiny: Callable[[str], Path]) -> None:
    exact: Any = load_model(resolve_model(str(tiny(family))), device="cpu")
    half: Any = load_model(resolve_model(str(tiny(family)), dtype="bfloat16"), device="cpu")
    stack = np.stack([exact.prepare_image(noise_picture(40, 50, seed=seed)) for seed in range(4)])
    for one, other in (
        (exact.encode_images(stack), half.encode_images(stack)),
        (exact.encode_texts(TEXTS)["embedding"], half.encode_texts(TEXTS)["embedding"]),
    ):
        assert other.dtype == np.float32
        assert 0.995 < (unit(one) * unit(other)).sum(axis=1).min() < 1 - 1e-9


def test_the_number_has_an_identity_of_its_own(tiny: Callable[[str], Path]) -> None:
    full, half = (resolve_model(str(tiny("clip")), dtype=dtype) for dtype in ("float32", "bf16"))
    assert half.dtype == "bfloat16"
    assert half.preprocessing == {**full.preprocessing, "arithmetic": ARITHMETIC}
    assert half.key != full.key
    assert "arithmetic" not in resolve_model(str(tiny("altclip")), dtype="bf16").preprocessing


def test_a_network_of_another_kind_is_refused() -> None:
    import torch

    with pytest.raises(ValueError, match="Sequential has no blocks"):
        halve_products(torch.nn.Sequential(torch.nn.Linear(2, 2)))
