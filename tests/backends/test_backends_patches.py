"""Patch tokens (U1 of their definition): the masked last block against the stock modules, and what is refused."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends.backends_pictures import noise_picture

from beholder._errors import ModelError
from beholder.backends.fake import FakeEncoder
from beholder.backends.patch_pass import hf_tower, open_clip_tower, patch_pass
from beholder.backends.pool import load_model, register_encoder, resolve_model

FAMILIES = ("clip", "metaclip2", "altclip", "chinese_clip")
needs_open_clip = pytest.mark.skipif(
    importlib.util.find_spec("open_clip") is None, reason="open_clip is not installed (base environment)"
)


def batch_of(encoder: Any, count: int = 4) -> np.ndarray:
    return np.stack([encoder.prepare_image(noise_picture(40 + i, 50, seed=i)) for i in range(count)])


def pixels_of(encoder: Any, batch: np.ndarray) -> Any:
    from beholder.backends.tensors import normalise, to_torch

    return normalise(to_torch(batch), encoder._table)


def by_masked_block(network: Any, pixels: Any) -> tuple[Any, Any]:
    """Transformers' own modules: eager attentions, and the last layer under an additive mask of its inputs."""
    import torch

    vision = network.vision_model
    network.set_attn_implementation("eager")
    try:
        out = vision(pixel_values=pixels, output_hidden_states=True, output_attentions=True)
        hidden = out.hidden_states[-2]
        count = hidden.shape[1]
        mask = torch.full((count, count), float("-inf"))
        mask[0] = 0.0
        mask.fill_diagonal_(0.0)
        found = vision.encoder.layers[-1](hidden, mask[None, None])
        tokens = found[0] if isinstance(found, tuple) else found
    finally:
        network.set_attn_implementation("sdpa")
    projected = network.visual_projection(vision.post_layernorm(tokens))
    attention = torch.stack(out.attentions[:-1]).mean(dim=(0, 2))[:, 1:, 1:]
    return projected, attention


@pytest.mark.parametrize("family", FAMILIES)
def test_the_pass_is_that_of_the_stock_modules(encoders: Callable[[str], Any], family: str) -> None:
    import torch

    encoder = encoders(family)
    pixels = pixels_of(encoder, batch_of(encoder))
    with torch.inference_mode():
        found = patch_pass(hf_tower(encoder._network), pixels)
        tokens, attention = by_masked_block(encoder._network, pixels)
    scale = float(tokens.abs().max())
    np.testing.assert_allclose(found.patches, tokens[:, 1:], atol=2e-6 * scale)
    np.testing.assert_allclose(found.embedding, tokens[:, 0], atol=2e-6 * scale)
    np.testing.assert_allclose(found.attention, attention, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_embedding_is_the_plain_one(encoders: Callable[[str], Any], family: str) -> None:
    encoder = encoders(family)
    batch = batch_of(encoder)
    columns = encoder.encode_patches(batch)
    plain = encoder.encode_images(batch)
    assert np.abs(columns["embedding"] - plain).max() <= 1e-5 * np.abs(plain).max()
    n, count = len(batch), 25
    assert columns["patches"].shape == (n, count, plain.shape[1])
    assert columns["patches"].dtype == columns["attention"].dtype == np.float16
    assert columns["attention"].shape == (n, count, count)
    assert columns["grid"].tolist() == [[5, 5]] * n
    rows = columns["attention"].astype(np.float64).sum(axis=2)
    assert ((rows > 0) & (rows < 1)).all(), "what the global token takes is missing"
    assert np.linalg.norm(columns["patches"].astype(np.float32), axis=2) == pytest.approx(np.ones((n, count)), abs=1e-3)


def test_the_bypassed_token_by_the_equations(encoders: Callable[[str], Any]) -> None:
    """H^ = H + W_O (W_V LN(H) + b_V) + b_O, then H^ + MLP(LN(H^)), for every token in plain arithmetic."""
    import torch

    encoder = encoders("clip")
    pixels = pixels_of(encoder, batch_of(encoder))
    network, vision = encoder._network, encoder._network.vision_model
    with torch.inference_mode():
        found = patch_pass(hf_tower(network), pixels)
        hidden = vision(pixel_values=pixels, output_hidden_states=True).hidden_states[-2]
        layer = vision.encoder.layers[-1]
        attention = layer.self_attn
        values = layer.layer_norm1(hidden) @ attention.v_proj.weight.T + attention.v_proj.bias
        dense = hidden + values @ attention.out_proj.weight.T + attention.out_proj.bias
        dense = dense + layer.mlp(layer.layer_norm2(dense))
        tokens = network.visual_projection(vision.post_layernorm(dense))
    scale = float(tokens.abs().max())
    np.testing.assert_allclose(found.bypassed, tokens[:, 0], atol=2e-6 * scale)
    np.testing.assert_allclose(found.patches, tokens[:, 1:], atol=2e-6 * scale)
    assert float((found.bypassed - found.embedding).abs().max()) > 1e-2 * scale


def test_rows_do_not_depend_on_the_batch(encoders: Callable[[str], Any]) -> None:
    encoder = encoders("clip")
    batch = batch_of(encoder, 6)
    whole = encoder.encode_patches(batch)
    part = encoder.encode_patches(batch[[4, 1]])
    for name, tolerance in (("embedding", 1e-5), ("patches", 2e-3), ("attention", 2e-3)):
        np.testing.assert_allclose(part[name], whole[name][[4, 1]], atol=tolerance * np.abs(whole[name]).max())


def test_bfloat16(tiny: Callable[[str], Path]) -> None:
    encoder = load_model(resolve_model(str(tiny("clip")), dtype="bfloat16"), device="cpu")
    exact = load_model(resolve_model(str(tiny("clip"))), device="cpu")
    batch = batch_of(exact)
    a, b = encoder.encode_patches(batch), exact.encode_patches(batch)
    cosines = (a["patches"].astype(np.float32) * b["patches"].astype(np.float32)).sum(axis=2)
    assert cosines.min() > 0.97


def test_asked_for_patches_a_model_is_the_same_model(tiny: Callable[[str], Path]) -> None:
    name = str(tiny("clip"))
    plain, patches = resolve_model(name), resolve_model(name, capability="PatchEncoder")
    assert plain.key == patches.key
    assert patches.capability == "ImageTextEncoder"
    assert resolve_model("fake", capability="PatchEncoder").key == resolve_model("fake").key


def test_what_is_refused(tiny: Callable[[str], Path]) -> None:
    with pytest.raises(ModelError, match="SigLIP has no global token"):
        resolve_model(str(tiny("siglip")), capability="PatchEncoder")

    class Plain:
        """An encoder of someone's own, without patches."""

        def __init__(self) -> None:
            self._fake = FakeEncoder("plain-of-mine")

        def __getattr__(self, name: str) -> Any:
            if name == "encode_patches":
                raise AttributeError(name)
            return getattr(self._fake, name)

    register_encoder("plain-of-mine", Plain())  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="has no encode_patches"):
        resolve_model("plain-of-mine", capability="PatchEncoder")
    register_encoder("patchy", FakeEncoder("patchy", dim=8))
    kept = load_model(resolve_model("patchy", capability="PatchEncoder"))
    assert kept.encode_patches(np.zeros((2, 65), np.uint8))["patches"].shape == (2, 16, 8)


def test_a_tower_of_one_block_and_other_sizes(encoders: Callable[[str], Any]) -> None:
    import dataclasses

    import torch

    encoder = encoders("clip")
    tower = hf_tower(encoder._network)
    pixels = pixels_of(encoder, batch_of(encoder))
    with torch.inference_mode():
        with pytest.raises(ModelError, match="two blocks"):
            patch_pass(dataclasses.replace(tower, blocks=tower.blocks[:1]), pixels)
        with pytest.raises(ModelError, match="16 patches"):
            patch_pass(dataclasses.replace(tower, grid=(4, 4)), pixels)


# open_clip

CONFIG: dict[str, Any] = {
    "embed_dim": 16,
    "quick_gelu": True,
    "vision_cfg": {"image_size": 30, "layers": 3, "width": 64, "head_width": 32, "patch_size": 6},
    "text_cfg": {"context_length": 20, "vocab_size": 49408, "width": 32, "heads": 4, "layers": 2},
}


def write_open_clip(folder: Path, **vision: Any) -> Path:
    """A tiny open_clip model with a changed vision tower, in its own layout."""
    import open_clip
    import torch
    from safetensors.torch import save_file

    config = {**CONFIG, "vision_cfg": {**CONFIG["vision_cfg"], **vision}}
    folder.mkdir(parents=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = open_clip.CLIP(**config)
        with torch.no_grad():
            for parameter in network.parameters():
                if parameter.ndim >= 2:
                    parameter.normal_(0.0, 0.15)
    save_file({k: v.contiguous() for k, v in network.state_dict().items()}, folder / "open_clip_model.safetensors")
    settings = {"model_cfg": config, "preprocess_cfg": {"interpolation": "bicubic", "resize_mode": "shortest"}}
    (folder / "open_clip_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


@needs_open_clip
@pytest.mark.parametrize("vision", [{}, {"ls_init_value": 0.3}, {"no_ln_pre": True}])
def test_open_clip_is_that_of_its_stock_modules(tmp_path: Path, vision: dict[str, Any]) -> None:
    import torch

    encoder = load_model(resolve_model(str(write_open_clip(tmp_path / "m", **vision))), device="cpu")
    batch = batch_of(encoder)
    pixels = pixels_of(encoder, batch)
    visual = encoder._network.visual
    with torch.inference_mode():
        found = patch_pass(open_clip_tower(encoder._network, "m"), pixels)
        hidden, weights = visual._embeds(pixels), []
        for block in visual.transformer.resblocks[:-1]:
            normed = block.ln_1(hidden)
            weights.append(block.attn(normed, normed, normed, need_weights=True, average_attn_weights=True)[1])
            hidden = block(hidden)
        mask = torch.full((26, 26), float("-inf"))
        mask[0] = 0.0
        mask.fill_diagonal_(0.0)
        tokens = visual.ln_post(visual.transformer.resblocks[-1](hidden, attn_mask=mask)) @ visual.proj
    scale = float(tokens.abs().max())
    np.testing.assert_allclose(found.embedding, tokens[:, 0], atol=3e-6 * scale)
    np.testing.assert_allclose(found.patches, tokens[:, 1:], atol=3e-6 * scale)
    np.testing.assert_allclose(found.attention, torch.stack(weights).mean(dim=0)[:, 1:, 1:], atol=1e-6)
    plain = encoder.encode_images(batch)
    assert np.abs(encoder.encode_patches(batch)["embedding"] - plain).max() <= 1e-5 * np.abs(plain).max()


@needs_open_clip
@pytest.mark.parametrize(
    ("vision", "why"),
    [
        ({"layers": [1, 1, 1, 1], "image_size": 64}, "ResNet"),
        ({"attentional_pool": True}, "pools by attention"),
        ({"final_ln_after_pool": True}, "norms after pooling"),
        ({"pool_type": "avg"}, "no global token"),
    ],
)
def test_open_clip_towers_that_are_refused(tmp_path: Path, vision: dict[str, Any], why: str) -> None:
    name = str(write_open_clip(tmp_path / "m", **vision))
    assert resolve_model(name).capability == "ImageTextEncoder"
    with pytest.raises(ModelError, match=why):
        resolve_model(name, capability="PatchEncoder")
