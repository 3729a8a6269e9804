"""GME: the string, the sizes, plain positions, the last token; against transformers' own padding and processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.models_opens2v import make_gme

from beholder._errors import ModelError, WeightsMissingError
from beholder.backends.gme import PLAIN, QUERY, prompt_form
from beholder.backends.gme_pixels import PatchPicture, whole_patches
from beholder.backends.pool import load_model, resolve_model
from beholder.media.base import Picture


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_gme(tmp_path_factory.mktemp("gme") / "gme")


@pytest.fixture(scope="module")
def encoder(folder: Path) -> Any:
    return load_model(resolve_model(f"gme:{folder}"), device="cpu")


def picture(width: int, height: int, seed: int = 0) -> Picture:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Picture(pixels, (width, height), "RGB")


def embed(encoder: Any, *pictures: Picture) -> np.ndarray:
    result: np.ndarray = encoder.encode_images(np.stack([encoder.prepare_image(item) for item in pictures]))
    return result


def test_the_strings() -> None:
    assert prompt_form("a cat", instruction=QUERY) == (
        "<|im_start|>system\nFind an image that matches the given text.<|im_end|>\n"
        "<|im_start|>user\na cat<|im_end|>\n<|im_start|>assistant\n<|endoftext|>"
    )
    assert prompt_form(tokens=2) == (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
        "<|vision_start|><|image_pad|><|image_pad|><|vision_end|><|im_end|>\n<|im_start|>assistant\n<|endoftext|>"
    )
    assert prompt_form("a cat", instruction=PLAIN, tokens=1) == (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
        "<|vision_start|><|image_pad|><|vision_end|>a cat<|im_end|>\n<|im_start|>assistant\n<|endoftext|>"
    )


@pytest.mark.parametrize(
    ("size", "tokens", "wanted"),
    [
        ((28, 28), (4, 16384), (56, 56)),  # too few: grows to four tokens
        ((42, 42), (1, 16384), (56, 56)),  # 1.5 units: half to even
        ((70, 70), (1, 16384), (56, 56)),  # 2.5 units: half to even
        ((720, 1280), (256, 1280), (728, 1288)),  # 1196 tokens: rounding only
        ((1080, 1920), (256, 1280), (728, 1316)),  # too many: rounded down
        ((448, 448), (256, 1280), (448, 448)),  # exactly the least
        ((447, 447), (256, 1280), (448, 448)),
        ((420, 420), (256, 1280), (448, 448)),  # 225 tokens: grows, rounded up
        ((28, 28 * 300), (4, 16384), (28, 28 * 200)),  # too oblong: cut
    ],
)
def test_sizes(size: tuple[int, int], tokens: tuple[int, int], wanted: tuple[int, int]) -> None:
    assert whole_patches(*size, unit=28, tokens=tokens) == wanted


@pytest.mark.parametrize("shape", [(90, 60), (300, 200), (1000, 2200)])
def test_the_pixels_are_those_of_transformers(folder: Path, shape: tuple[int, int]) -> None:
    from PIL import Image
    from transformers import AutoImageProcessor

    item = picture(shape[1], shape[0])
    height, width = whole_patches(*shape, unit=28, tokens=(4, 16384))
    first = Image.fromarray(item.pixels).resize((width, height))
    processor = AutoImageProcessor.from_pretrained(
        str(folder), local_files_only=True, backend="pil", min_pixels=200704, max_pixels=1003520
    )
    wanted = processor(images=[first], return_tensors="np")
    settings = {"patch_size": 14, "image_mean": processor.image_mean, "image_std": processor.image_std}
    patches, grid = PatchPicture(settings)(item.pixels)
    assert list(grid) == wanted["image_grid_thw"][0].tolist()
    # Both compute (v/255 - mean)/std in float32, in another order.
    np.testing.assert_allclose(patches, wanted["pixel_values"], rtol=0, atol=1e-6)


def reference(encoder: Any, texts: list[str], side: str) -> np.ndarray:
    """Texts through transformers' model with its own padding and masks; positions count every place, as published."""
    import torch

    network, tokenizer = encoder._network, encoder._tokenizer
    ids = [tokenizer(prompt_form(text, instruction=QUERY), add_special_tokens=False)["input_ids"] for text in texts]
    longest = max(map(len, ids))
    rows, masks, at = [], [], []
    for item in ids:
        pad, real = [0] * (longest - len(item)), [1] * len(item)
        rows.append(pad + item if side == "left" else item + pad)
        masks.append(pad + real if side == "left" else real + pad)
        at.append(longest - 1 if side == "left" else len(item) - 1)
    tokens = torch.tensor(rows)
    with torch.no_grad():
        states = network.model.language_model(
            inputs_embeds=network.get_input_embeddings()(tokens), attention_mask=torch.tensor(masks)
        ).last_hidden_state
    return np.stack([states[row, place].numpy() for row, place in enumerate(at)])


@pytest.mark.parametrize("side", ["left", "right"])
def test_texts_equal_either_padding(encoder: Any, side: str) -> None:
    texts = ["a cat", "a red car in the rain, seen from far above", "x"]
    found = encoder.encode_texts(texts)
    # Rotary positions are relative, so the places that left padding shifts by do not matter.
    np.testing.assert_allclose(found["embedding"], reference(encoder, texts, side), rtol=0, atol=2e-5)
    assert found["embedding"].dtype == np.float32
    assert not found["truncated"].any()


def test_positions_are_plain_and_the_state_is_the_last(encoder: Any) -> None:
    import torch

    item = picture(70, 100)
    patches, grid = encoder.prepare_image(item)[()]
    network = encoder._network
    ids = torch.tensor([encoder._ids(prompt_form(tokens=grid[1] * grid[2] // 4))])
    pixels, grids = torch.from_numpy(patches), torch.tensor([grid])
    kinds = (ids == network.config.image_token_id).int()
    plain = torch.arange(ids.shape[1]).expand(3, 1, -1)
    with torch.no_grad():
        given = {"input_ids": ids, "pixel_values": pixels, "image_grid_thw": grids, "mm_token_type_ids": kinds}
        one = network.model(**given, position_ids=plain).last_hidden_state[0]
        three = network.model(**given).last_hidden_state[0]
    found = embed(encoder, item)[0]
    np.testing.assert_allclose(found, one[-1].numpy(), rtol=0, atol=2e-5)
    assert np.abs(found - three[-1].numpy()).max() > 1e-3, "positions in three dimensions give another state"
    assert np.abs(found - one[-2].numpy()).max() > 1e-3


def test_neighbours_do_not_matter(encoder: Any) -> None:
    pictures = [picture(100, 80, 1), picture(80, 100, 2), picture(100, 80, 3), picture(300, 90, 4)]
    together = embed(encoder, *pictures)
    alone = np.concatenate([embed(encoder, item) for item in pictures])
    np.testing.assert_allclose(together, alone, rtol=0, atol=2e-5)
    texts = ["one", "two", "a longer one"]
    many = encoder.encode_texts(texts)["embedding"]
    each = np.concatenate([encoder.encode_texts([text])["embedding"] for text in texts])
    np.testing.assert_allclose(many, each, rtol=0, atol=2e-5)


def test_a_text_over_the_limit(encoder: Any) -> None:
    found = encoder.encode_texts(["a " * 3000, "short"])
    assert found["truncated"].tolist() == [True, False]
    assert found["n_tokens"][0] > 1800
    assert np.isfinite(found["embedding"]).all()


def test_the_environment_names_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLDFOUNDRY_GME_MODEL_PATH", str(folder))
    model = resolve_model("gme-qwen2-vl-7b")
    assert model.id == "gme:Alibaba-NLP/gme-Qwen2-VL-7B-Instruct"
    assert model.weights_sha256 == resolve_model(f"gme:{folder}").weights_sha256
    assert model.preprocessing["positions"] == "plain"
    monkeypatch.setenv("WORLDFOUNDRY_GME_MODEL_PATH", str(folder / "nowhere"))
    with pytest.raises(WeightsMissingError, match="WORLDFOUNDRY_GME_MODEL_PATH"):
        resolve_model("gme-qwen2-vl-7b")


def test_another_model_is_refused(tmp_path: Path) -> None:
    from tests.models_vlm import TINY_VLMS

    other = TINY_VLMS["qwen25_vl"](tmp_path / "other")
    with pytest.raises(ModelError, match="qwen2_5_vl"):
        resolve_model(f"gme:{other}")
