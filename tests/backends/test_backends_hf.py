"""The "hf" engine: right embeddings for every family, texts of every kind, and no dependence on the batch."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.backends import numpy_clip
from tests.backends.backends_pictures import noise_picture
from tests.models import TINY_FAMILIES, make_tiny_clip

from beholder.backends.base import ImageTextEncoder
from beholder.backends.pool import load_model, resolve_model
from beholder.backends.tensors import projected
from beholder.media.base import Picture

Encoders = Callable[[str], ImageTextEncoder]
Folder = Callable[[str], Path]
FAMILIES = sorted(TINY_FAMILIES)
TEXTS = ["a photo of a cat", "the red car x street", "一只猫", "🐱🐱", "", "   ", "cat " * 3]


def prepared(encoder: ImageTextEncoder, pictures: list[Picture]) -> np.ndarray:
    return np.stack([encoder.prepare_image(picture) for picture in pictures])


def read_weights(folder: Path) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    return dict(load_file(folder / "model.safetensors"))


@pytest.mark.parametrize("activation", ["quick_gelu", "gelu"])
def test_clip_equals_the_paper_in_numpy(tmp_path: Path, activation: str) -> None:
    # float32 against float64 over two layers: 1e-4 on numbers of size 1 to 10.
    folder = make_tiny_clip(tmp_path / "m", seed=3, activation=activation)
    encoder, weights, quick = (
        load_model(resolve_model(str(folder)), device="cpu"),
        read_weights(folder),
        activation == "quick_gelu",
    )
    picture = noise_picture(41, 63)
    ours = encoder.encode_images(prepared(encoder, [picture]))[0]
    pixels = encoder._pixels.to_float(picture.pixels)  # type: ignore[attr-defined]
    np.testing.assert_allclose(ours, numpy_clip.image_embedding(weights, pixels, heads=4, quick=quick), atol=1e-4)
    ids = np.array([514, *clip_ids("a cat"), 515])
    text = encoder.encode_texts(["a cat"])["embedding"][0]
    expected = numpy_clip.text_embedding(weights, ids, heads=4, quick=quick, end_id=515)
    np.testing.assert_allclose(text, expected, atol=1e-4)
    assert np.abs(expected).max() > 0.1


def clip_ids(text: str) -> list[int]:
    """Ids by hand: "a" is the final form of its byte, "cat" is the second merge."""
    vocabulary = json.loads((VOCABULARY).read_text(encoding="utf-8"))
    return [vocabulary["cat</w>"] if word == "cat" else vocabulary[word + "</w>"] for word in text.split()]


@pytest.fixture(autouse=True)
def _vocabulary(tiny: Folder) -> None:
    global VOCABULARY
    VOCABULARY = tiny("clip") / "vocab.json"


VOCABULARY = Path()


@pytest.mark.parametrize("family", FAMILIES)
def test_embeddings_equal_the_stock_class(family: str, tiny: Folder, encoders: Encoders) -> None:
    import torch
    import transformers

    encoder, folder = encoders(family), tiny(family)
    class_name = encoder._family.model_class  # type: ignore[attr-defined]
    stock = getattr(transformers, class_name).from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    length = encoder.model.card.context_length
    assert length is not None
    texts = ["a photo of a cat", "red car", "x " * 200]
    tokens = tokenizer(texts, padding="max_length", truncation=True, max_length=length, return_tensors="pt")
    pixels = torch.from_numpy(encoder._pixels.to_float(noise_picture(50, 40).pixels))[None]  # type: ignore[attr-defined]
    inputs = {"input_ids": tokens["input_ids"]}
    if family != "siglip":
        inputs["attention_mask"] = tokens["attention_mask"]
    with torch.inference_mode():
        text = projected(stock.get_text_features(**inputs)).numpy()
        image = projected(stock.get_image_features(pixel_values=pixels)).numpy()
    np.testing.assert_allclose(encoder.encode_texts(texts)["embedding"], text, atol=2e-5)
    np.testing.assert_allclose(encoder.encode_images(prepared(encoder, [noise_picture(50, 40)])), image, atol=2e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_batch_order_and_neighbours_do_not_matter(family: str, encoders: Encoders, pictures: list[Picture]) -> None:
    # Tolerance: matrix products of another shape may add up in another order.
    encoder = encoders(family)
    stack = prepared(encoder, pictures)
    together = encoder.encode_images(stack)
    one_by_one = np.concatenate([encoder.encode_images(stack[i : i + 1]) for i in range(16)])
    threes = np.concatenate([encoder.encode_images(stack[i : i + 3]) for i in range(0, 16, 3)])
    np.testing.assert_allclose(together, one_by_one, atol=1e-5)
    np.testing.assert_allclose(together, threes, atol=1e-5)
    np.testing.assert_allclose(encoder.encode_images(stack[::-1].copy())[::-1], together, atol=1e-5)
    texts = encoder.encode_texts(TEXTS)["embedding"]
    alone = np.concatenate([encoder.encode_texts([text])["embedding"] for text in TEXTS])
    np.testing.assert_allclose(texts, alone, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_one_item_twice_in_a_batch_gives_one_embedding(family: str, encoders: Encoders) -> None:
    encoder = encoders(family)
    same = encoder.encode_images(prepared(encoder, [noise_picture(33, 44)] * 2))
    # The last bits may depend on the row of a matrix product; a run encodes equal content once, so it can't see them.
    np.testing.assert_allclose(same[0], same[1], atol=1e-5)
    texts = encoder.encode_texts(["a cat", "a cat"])["embedding"]
    np.testing.assert_allclose(texts[0], texts[1], atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_text_gives_finite_float32(family: str, encoders: Encoders) -> None:
    columns = encoders(family).encode_texts([*TEXTS, "x " * 100])
    assert columns["embedding"].dtype == np.float32
    assert np.isfinite(columns["embedding"]).all()
    assert columns["n_tokens"].dtype == np.int32
    assert columns["truncated"].tolist() == [False] * len(TEXTS) + [True]


@pytest.mark.parametrize("family", FAMILIES)
def test_truncation_is_the_tokenizers_own_and_keeps_the_end(family: str, tiny: Folder, encoders: Encoders) -> None:
    import transformers

    tokenizer = encoders(family)._tokenizer  # type: ignore[attr-defined]
    stock = transformers.AutoTokenizer.from_pretrained(tiny(family))
    length = tokenizer.length
    for text in ("x " * 200, "a photo of the red car " * 30):
        ids = tokenizer([text]).ids[0]
        assert ids.tolist() == stock(text, truncation=True, max_length=length)["input_ids"]
        assert ids[-1] == tokenizer.ending[-1]


def test_words_around_the_limit(encoders: Encoders) -> None:
    encoder = encoders("clip")
    columns = encoder.encode_texts([" ".join(["x"] * count) for count in (74, 75, 76, 200)])
    assert columns["n_tokens"].tolist() == [76, 77, 78, 202]
    assert columns["truncated"].tolist() == [False, False, True, True]
    ids = encoder._tokenizer([" ".join(["x"] * count) for count in (74, 75, 76)]).ids  # type: ignore[attr-defined]
    assert ids[:, -1].tolist() == [515, 515, 515]
    # 76 and 200 words keep the same 75 words and the end token, as 75 words do.
    np.testing.assert_allclose(columns["embedding"][2], columns["embedding"][1], atol=1e-5)
    np.testing.assert_allclose(columns["embedding"][3], columns["embedding"][1], atol=1e-5)
    assert np.abs(columns["embedding"][0] - columns["embedding"][1]).max() > 1e-3


@pytest.mark.parametrize(
    ("family", "limit"), [("clip", 77), ("siglip", 16), ("metaclip2", 24), ("altclip", 24), ("chinese_clip", 24)]
)
def test_the_limit_comes_from_the_model(family: str, limit: int, encoders: Encoders) -> None:
    encoder = encoders(family)
    assert encoder.model.card.context_length == limit
    assert encoder._tokenizer(["a cat"]).ids.shape == (1, limit)  # type: ignore[attr-defined]


def test_a_gemma_vocabulary_means_lowercased_texts() -> None:
    from beholder.backends.hf_config import read_config

    def read(vocabulary: int) -> bool:
        return read_config(
            {"model_type": "siglip", "text_config": {"vocab_size": vocabulary}}, name="m", token_limit=None
        ).lowercase

    assert read(256_000)
    assert not read(32_000)


def test_constants_are_those_of_the_checkpoint(tiny: Folder) -> None:
    resolved = resolve_model(str(tiny("clip")))
    stored = float(read_weights(tiny("clip"))["logit_scale"])
    assert resolved.constants["logit_scale"] == pytest.approx(math.exp(stored), rel=1e-12)
    assert load_model(resolved, device="cpu").constants == resolved.constants
    assert set(resolve_model(str(tiny("siglip"))).constants) == {"logit_scale", "logit_bias"}


def test_bfloat16_gives_float32_embeddings_near_those_of_float32(tiny: Folder, encoders: Encoders) -> None:
    half = load_model(resolve_model(str(tiny("clip")), dtype="bf16"), device="cpu")
    stack = prepared(half, [noise_picture(40, 40)])
    result, exact = half.encode_images(stack)[0], encoders("clip").encode_images(stack)[0]
    assert result.dtype == np.float32
    cosine = float(result @ exact / np.linalg.norm(result) / np.linalg.norm(exact))
    assert 0.99 < cosine <= 1.0 + 1e-6
    assert half.model.key != encoders("clip").model.key


def test_the_projected_embedding_is_taken_from_either_form() -> None:
    import torch

    tensor = torch.ones(2, 3)
    assert projected(tensor) is tensor
    assert projected(SimpleNamespace(pooler_output=tensor)) is tensor
    for wrong in (("tuple",), SimpleNamespace(pooler_output=None), torch.ones(2), None):
        with pytest.raises(TypeError, match=type(wrong).__name__):
            projected(wrong)


def test_loading_leaves_torch_as_it_was(tiny: Folder) -> None:
    import torch
    from transformers.utils import logging

    before = (torch.get_num_threads(), torch.get_default_dtype(), torch.random.get_rng_state(), logging.get_verbosity())
    encoder: Any = load_model(resolve_model(str(tiny("clip"))), device="cpu")
    after = (torch.get_num_threads(), torch.get_default_dtype(), torch.random.get_rng_state(), logging.get_verbosity())
    assert before[:2] == after[:2]
    assert torch.equal(before[2], after[2])
    assert before[3] == after[3]
    assert not encoder._network.training
    assert not any(parameter.requires_grad for parameter in encoder._network.parameters())
    assert encoder._network.config._attn_implementation == "sdpa"
    encoder.close()


def test_resolving_imports_no_torch(tiny: Folder) -> None:
    code = (
        "import sys; from beholder.backends.pool import resolve_model, list_models; list_models();"
        f"resolve_model({str(tiny('clip'))!r}); resolve_model('fake');"
        "print([m for m in ('torch', 'transformers', 'open_clip', 'huggingface_hub') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_preparing_runs_in_threads(encoders: Encoders, pictures: list[Picture]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    encoder = encoders("clip")
    with ThreadPoolExecutor(4) as pool:
        threaded = list(pool.map(encoder.prepare_image, pictures * 4))
    for got, picture in zip(threaded, pictures * 4, strict=True):
        np.testing.assert_array_equal(got, encoder.prepare_image(picture))


def test_a_resolved_model_tells_no_path_but_its_location(tiny: Folder) -> None:
    folder = tiny("clip")
    resolved = resolve_model(str(folder))
    text = json.dumps([resolved.id, dict(resolved.preprocessing), dict(resolved.details), resolved.card.weights])
    assert str(folder.parent) not in text
    assert resolved.id == "hf:./clip"
    assert resolved.card.embed_dim == 16
    assert resolved.card.input_size == (30, 30)
