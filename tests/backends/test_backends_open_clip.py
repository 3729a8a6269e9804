"""The "open_clip" engine, in the environment that has it; and that both engines give the same numbers."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.backends.backends_pictures import noise_picture
from tests.models import write_preprocessor

from beholder._errors import ModelError, PlannedError, UnknownNameError, WeightsMismatchError, WeightsMissingError
from beholder.backends.base import ImageTextEncoder, LoadOptions
from beholder.backends.pool import load_model, resolve_model

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("open_clip") is None, reason="open_clip is not installed (base environment)"
)

CONFIG: dict[str, Any] = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 30, "layers": 2, "width": 64, "head_width": 32, "patch_size": 6},
    "text_cfg": {"context_length": 20, "vocab_size": 49408, "width": 32, "heads": 4, "layers": 2},
}


def make_open_clip(folder: Path, *, quick_gelu: bool = True, seed: int = 0) -> Path:
    """A tiny model in open_clip's own layout."""
    import open_clip
    import torch
    from safetensors.torch import save_file

    config = {**CONFIG, "quick_gelu": quick_gelu}
    folder.mkdir(parents=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = open_clip.CLIP(**config)
        with torch.no_grad():
            for parameter in network.parameters():
                if parameter.ndim >= 2:
                    parameter.normal_(0.0, 0.15)
    state = {key: value.contiguous() for key, value in network.state_dict().items()}
    save_file(state, folder / "open_clip_model.safetensors")
    settings = {"model_cfg": config, "preprocess_cfg": {"interpolation": "bicubic", "resize_mode": "shortest"}}
    (folder / "open_clip_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_open_clip(tmp_path_factory.mktemp("open_clip") / "tiny")


@pytest.fixture(scope="module")
def encoder(model_folder: Path) -> ImageTextEncoder:
    return load_model(resolve_model(str(model_folder)), device="cpu")


def embed(encoder: ImageTextEncoder, *sizes: tuple[int, int]) -> np.ndarray:
    return encoder.encode_images(np.stack([encoder.prepare_image(noise_picture(*size)) for size in sizes]))


def to_hf_layout(folder: Path, target: Path) -> Path:
    """The same weights in transformers' layout, by our own map of keys, with a tokenizer made from the same merges."""
    from safetensors.numpy import load_file, save_file

    state = dict(load_file(folder / "open_clip_model.safetensors"))
    target.mkdir(parents=True)
    named = {"logit_scale": state["logit_scale"]}
    named["visual_projection.weight"] = state["visual.proj"].T
    named["text_projection.weight"] = state["text_projection"].T
    embeddings = "vision_model.embeddings"
    named[f"{embeddings}.class_embedding"] = state["visual.class_embedding"]
    named[f"{embeddings}.patch_embedding.weight"] = state["visual.conv1.weight"]
    named[f"{embeddings}.position_embedding.weight"] = state["visual.positional_embedding"]
    named["text_model.embeddings.token_embedding.weight"] = state["token_embedding.weight"]
    named["text_model.embeddings.position_embedding.weight"] = state["positional_embedding"]
    norms = {
        "visual.ln_pre": "vision_model.pre_layrnorm",
        "visual.ln_post": "vision_model.post_layernorm",
        "ln_final": "text_model.final_layer_norm",
    }
    for source, name in norms.items():
        for part in ("weight", "bias"):
            named[f"{name}.{part}"] = state[f"{source}.{part}"]
    for tower, prefix in (("vision_model", "visual.transformer"), ("text_model", "transformer")):
        for layer in range(2):
            named |= _block(state, f"{prefix}.resblocks.{layer}", f"{tower}.encoder.layers.{layer}")
    contiguous = {key: value.copy(order="C") for key, value in named.items()}
    save_file(contiguous, target / "model.safetensors", metadata={"format": "pt"})
    _write_hf_config(target)
    write_preprocessor(target)
    _write_tokenizer(target)
    return target


def _block(state: dict[str, np.ndarray], source: str, name: str) -> dict[str, np.ndarray]:
    parts = {"ln_1": "layer_norm1", "ln_2": "layer_norm2", "attn.out_proj": "self_attn.out_proj"}
    parts |= {"mlp.c_fc": "mlp.fc1", "mlp.c_proj": "mlp.fc2"}
    result = {
        f"{name}.{to}.{part}": state[f"{source}.{old}.{part}"]
        for old, to in parts.items()
        for part in ("weight", "bias")
    }
    for part in ("weight", "bias"):
        for letter, piece in zip("qkv", np.split(state[f"{source}.attn.in_proj_{part}"], 3), strict=True):
            result[f"{name}.self_attn.{letter}_proj.{part}"] = piece
    return result


def _write_hf_config(target: Path) -> None:
    shared = {"num_hidden_layers": 2, "hidden_act": "quick_gelu", "layer_norm_eps": 1e-5}
    text = {
        **shared, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 49408,
        "max_position_embeddings": 20, "bos_token_id": 49406, "eos_token_id": 49407, "pad_token_id": 1,
    }  # fmt: skip
    vision = {
        **shared, "hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 256,
        "image_size": 30, "patch_size": 6,
    }  # fmt: skip
    config = {"model_type": "clip", "projection_dim": 16, "text_config": text, "vision_config": vision}
    (target / "config.json").write_text(json.dumps(config), encoding="utf-8")


def _write_tokenizer(target: Path) -> None:
    from open_clip.tokenizer import SimpleTokenizer

    simple = SimpleTokenizer()
    special = {"<start_of_text>": "<|startoftext|>", "<end_of_text>": "<|endoftext|>"}
    vocabulary = {special.get(token, token): index for token, index in simple.encoder.items()}
    merges = sorted(simple.bpe_ranks, key=lambda pair: simple.bpe_ranks[pair])
    (target / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (target / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings = {
        "tokenizer_class": "CLIPTokenizer", "model_max_length": 20, "bos_token": "<|startoftext|>",
        "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>", "unk_token": "<|endoftext|>",
    }  # fmt: skip
    (target / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def test_both_engines_give_the_same_numbers_on_equal_weights(
    model_folder: Path, encoder: ImageTextEncoder, tmp_path: Path
) -> None:
    # float32 over two layers in another order of operations: 2e-5 on numbers of size 1 to 10.
    other = load_model(resolve_model(str(to_hf_layout(model_folder, tmp_path / "hf"))), device="cpu")
    sizes = [(30, 30), (64, 64), (60, 92), (120, 82), (30, 31)]
    ours, theirs = embed(encoder, *sizes), embed(other, *sizes)
    assert np.abs(ours).max() > 0.5
    np.testing.assert_allclose(ours, theirs, atol=2e-5)
    texts = ["a photo of a cat", "The RED car!", "x " * 200, "it's   two  spaces", ""]
    first, second = encoder.encode_texts(texts), other.encode_texts(texts)
    assert first["n_tokens"].tolist() == second["n_tokens"].tolist()
    assert first["truncated"].tolist() == second["truncated"].tolist() == [False, False, True, False, False]
    np.testing.assert_allclose(first["embedding"], second["embedding"], atol=2e-5)
    assert encoder.constants["logit_scale"] == pytest.approx(other.constants["logit_scale"])


def test_the_engines_crop_an_odd_margin_as_their_libraries_do(
    model_folder: Path, encoder: ImageTextEncoder, tmp_path: Path
) -> None:
    other = load_model(resolve_model(str(to_hf_layout(model_folder, tmp_path / "hf"))), device="cpu")
    picture = noise_picture(30, 33)
    ours, theirs = encoder.prepare_image(picture), other.prepare_image(picture)
    # A margin of 3: torchvision rounds 1.5 to 2, transformers takes 1. On equal input both give equal numbers.
    np.testing.assert_array_equal(ours, picture.pixels[:, 2:32].transpose(2, 0, 1))
    np.testing.assert_array_equal(theirs, picture.pixels[:, 1:31].transpose(2, 0, 1))
    assert encoder.model.preprocessing["crop_rounding"] == "even"
    assert other.model.preprocessing["crop_rounding"] == "floor"
    np.testing.assert_allclose(encoder.encode_images(theirs[None]), other.encode_images(theirs[None]), atol=2e-5)


def test_embeddings_and_preprocessing_equal_open_clip_itself(model_folder: Path, encoder: ImageTextEncoder) -> None:
    import open_clip
    import torch

    network, _, transform = open_clip.create_model_and_transforms(f"local-dir:{model_folder}")
    tokenizer = open_clip.get_tokenizer(f"local-dir:{model_folder}")
    network.eval()
    for size in [(30, 30), (41, 63), (90, 35), (31, 30), (200, 31)]:
        picture = noise_picture(*size)
        expected = transform(Image.fromarray(picture.pixels)).numpy()
        pixels = encoder._pixels.to_float(picture.pixels)  # type: ignore[attr-defined]
        np.testing.assert_array_equal(pixels, expected)
        with torch.inference_mode():
            image = network.encode_image(torch.from_numpy(expected)[None]).numpy()
        np.testing.assert_allclose(embed(encoder, size), image, atol=2e-5)
    texts = ["a photo of a cat", "x " * 100, "一只猫 🐱", ""]
    with torch.inference_mode():
        expected = network.encode_text(tokenizer(texts)).numpy()
    np.testing.assert_allclose(encoder.encode_texts(texts)["embedding"], expected, atol=2e-5)


def test_batches_do_not_matter(encoder: ImageTextEncoder) -> None:
    sizes = [(30 + i, 60 - i) for i in range(16)]
    one_by_one = np.concatenate([embed(encoder, size) for size in sizes])
    np.testing.assert_allclose(embed(encoder, *sizes), one_by_one, atol=1e-5)


def test_the_end_token_is_kept(encoder: ImageTextEncoder) -> None:
    tokens = encoder._tokenize([" ".join(["x"] * count) for count in (17, 18, 19, 200)])  # type: ignore[attr-defined]
    assert tokens.n_tokens.tolist() == [19, 20, 21, 202]
    assert tokens.truncated.tolist() == [False, False, True, True]
    assert tokens.ids[1:, -1].tolist() == [49407] * 3


def test_openai_weights_need_the_quickgelu_architecture() -> None:
    with pytest.raises(WeightsMismatchError, match="open_clip:ViT-B-32-quickgelu/openai"):
        resolve_model("open_clip:ViT-B-32/openai")
    with pytest.raises(WeightsMissingError, match=r"timm/vit_base_patch32_clip_224\.openai"):
        resolve_model("open_clip:ViT-B-32-quickgelu/openai", options=LoadOptions(offline=True))


def test_unknown_architectures_and_tags_suggest_near_ones() -> None:
    with pytest.raises(UnknownNameError, match="ViT-L-14"):
        resolve_model("laion2b_s32b_b82k:ViT-L-15")
    with pytest.raises(UnknownNameError, match="laion2b_s32b_b82k"):
        resolve_model("laion2b_s32b_b82x:ViT-L-14")


def test_all_pairs_of_our_cards_exist_in_open_clip() -> None:
    import open_clip

    from beholder.backends.cards import all_cards

    for card in (card for card in all_cards() if card.engine == "open_clip"):
        settings = open_clip.get_pretrained_cfg(card.arch, card.weights)
        assert settings, card.id
        assert settings["hf_hub"].rstrip("/") == card.source, card.id


def test_a_pair_is_found_in_the_caches(model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import open_clip

    monkeypatch.setattr(open_clip, "get_model_config", lambda arch: {**CONFIG, "quick_gelu": True})
    target = tmp_path / "timm" / "vit_base_patch32_clip_224.openai"
    target.parent.mkdir(parents=True)
    shutil.copytree(model_folder, target)
    resolved = resolve_model("open_clip:ViT-B-32-quickgelu/openai", options=LoadOptions(str(tmp_path)))
    assert resolved.id == "open_clip:ViT-B-32-quickgelu/openai"
    assert resolved.card.embed_dim == 16
    assert load_model(resolved, device="cpu").encode_texts(["a cat"])["embedding"].shape == (1, 16)


def test_text_towers_of_transformers_are_refused() -> None:
    with pytest.raises(PlannedError, match="xlm-roberta-base"):
        resolve_model("laion5b_s13b_b90k:xlm-roberta-base-ViT-B-32")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda state: state.pop("visual.proj"), "1 missing: visual.proj"),
        (lambda state: state.update(extra=np.zeros(1, np.float32)), "1 unexpected: extra"),
        (lambda state: state.update(text_projection=np.zeros((2, 2), np.float32)), "instead of"),
    ],
)
def test_weights_must_fit_completely(
    model_folder: Path, tmp_path: Path, change: Callable[[dict[str, Any]], Any], words: str
) -> None:
    from safetensors.numpy import load_file, save_file

    folder = Path(shutil.copytree(model_folder, tmp_path / "m"))
    state = dict(load_file(folder / "open_clip_model.safetensors"))
    change(state)
    save_file(state, folder / "open_clip_model.safetensors")
    with pytest.raises(WeightsMismatchError, match=words):
        load_model(resolve_model(str(folder)), device="cpu")


def test_local_checkpoints_of_an_architecture(
    model_folder: Path, encoder: ImageTextEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import open_clip
    import torch
    from safetensors.torch import load_file

    monkeypatch.setattr(open_clip, "get_model_config", lambda arch: {**CONFIG, "quick_gelu": True})
    state = {f"module.{key}": value for key, value in load_file(model_folder / "open_clip_model.safetensors").items()}
    torch.save({"epoch": 3, "state_dict": state}, tmp_path / "epoch_3.pt")
    other = load_model(resolve_model(f"open_clip:ViT-B-32/{tmp_path / 'epoch_3.pt'}"), device="cpu")
    assert other.model.id == "open_clip:ViT-B-32/./epoch_3.pt"
    np.testing.assert_allclose(embed(other, (40, 40)), embed(encoder, (40, 40)), atol=1e-5)
    assert other.constants["logit_scale"] == pytest.approx(encoder.constants["logit_scale"])


def test_a_folder_without_weights_or_configuration_is_refused(model_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(model_folder, tmp_path / "m"))
    (folder / "open_clip_config.json").unlink()
    with pytest.raises(ModelError, match=r"open_clip_config\.json"):
        resolve_model(f"open_clip:{folder}")
    folder = Path(shutil.copytree(model_folder, tmp_path / "n"))
    (folder / "open_clip_model.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(WeightsMismatchError, match="damaged"):
        resolve_model(str(folder))
