"""Texts are padded as far as their own length asks for, where a tower does not look behind the end token."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import beholder
from beholder.backends.base import ImageTextEncoder
from beholder.backends.fake import FakeEncoder
from beholder.backends.hf_config import FAMILIES, text_padding
from beholder.backends.tensors import projected

Encoders = Callable[[str], ImageTextEncoder]
Folder = Callable[[str], Path]
TEXTS = ["a cat", "cat " * 14, "cat " * 15, "cat " * 30, "cat " * 46, "cat " * 75, "cat " * 200]
LENGTHS = [16, 16, 24, 32, 48, 77, 77]
"""Start and end token are counted: 14 words are 16 tokens, 15 words are 17."""


def test_each_text_gets_the_first_length_that_holds_it(encoders: Encoders) -> None:
    clip: Any = encoders("clip")
    assert clip.text_lengths(TEXTS) == LENGTHS
    assert clip.encode_texts(TEXTS)["n_tokens"].tolist() == [4, 16, 17, 32, 48, 77, 202]
    assert clip.model.preprocessing["text"]["padding"] == [16, 24, 32, 48, 77]
    assert text_padding("clip", 24) == [16, 24]
    assert text_padding("clip", 8) == [8]


def test_towers_that_look_at_their_padding_keep_all_of_it(encoders: Encoders) -> None:
    assert {name for name in FAMILIES if text_padding(name, 77) != "max_length"} == {"clip", "metaclip_2"}
    siglip: Any = encoders("siglip")
    assert set(siglip.text_lengths(["a", "a b c"])) == {siglip.model.card.context_length}


@pytest.mark.parametrize("family", ["clip", "metaclip2"])
def test_the_embedding_is_that_of_the_stock_class_with_all_padding(
    family: str, tiny: Folder, encoders: Encoders
) -> None:
    import torch
    import transformers

    encoder: Any = encoders(family)
    length = encoder.model.card.context_length
    stock = getattr(transformers, encoder._family.model_class).from_pretrained(tiny(family)).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny(family))
    tokens = tokenizer(TEXTS, padding="max_length", truncation=True, max_length=length, return_tensors="pt")
    with torch.inference_mode():
        full = projected(stock.get_text_features(input_ids=tokens["input_ids"])).numpy()
    ours = encoder.encode_texts(TEXTS)["embedding"]
    assert len(set(encoder.text_lengths(TEXTS))) > 1
    assert np.abs(ours - full).max() <= 1e-5 * np.abs(full).max()
    order = [5, 0, 3, 6, 1, 4, 2]
    mixed = encoder.encode_texts([TEXTS[at] for at in order])["embedding"]
    np.testing.assert_allclose(mixed, ours[order], atol=1e-5)


class Measuring(FakeEncoder):
    """A fake encoder with lengths (its words, to the next ten) that notes its batches."""

    text_batch = 4

    def __init__(self) -> None:
        super().__init__("measuring", dim=8)
        self.batches: list[list[int]] = []

    def text_lengths(self, texts: Sequence[str]) -> list[int]:
        if any(text == "unmeasurable" for text in texts):
            raise ValueError("no length")
        return [-(-len(text.split()) // 10) * 10 for text in texts]

    def encode_texts(self, texts: Sequence[str]) -> Any:
        self.batches.append([-(-len(text.split()) // 10) * 10 for text in texts])
        return super().encode_texts(texts)


def _run(folder: Path, prompts: list[str]) -> tuple[Measuring, Any]:
    encoder = Measuring()
    beholder.register_encoder("measuring", encoder)
    Image.new("RGB", (8, 8), (9, 99, 200)).save(folder / "a.png")
    rows = [{"id": str(at), "output": "a.png", "prompt": text} for at, text in enumerate(prompts)]
    (folder / "m.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    made = beholder.evaluate(
        str(folder / "m.jsonl"), metrics="clip_score", model="measuring", out=str(folder / "o"), store=str(folder / "s")
    )
    return encoder, made.scores.column("clip_score").to_pylist()


def test_a_run_gives_the_encoder_batches_of_one_length(tmp_path: Path) -> None:
    prompts = [" ".join(f"w{at}" for _ in range(words)) for at, words in enumerate([3, 25, 12, 4, 5, 11, 6, 2, 19])]
    encoder, scores = _run(tmp_path, prompts)
    assert encoder.batches == [[30] * 4, [20] * 4, [10] * 4, [10] * 4]
    plain = FakeEncoder("plain", dim=8)
    beholder.register_encoder("plain", plain)
    expected = beholder.score("clip_score(model=plain)", images=str(tmp_path / "a.png"), texts=prompts)
    assert scores == pytest.approx([row.score.value for row in expected.rows], abs=1e-6)
    assert None not in scores


def test_texts_that_cannot_be_measured_are_encoded_all_the_same(tmp_path: Path) -> None:
    encoder, scores = _run(tmp_path, ["unmeasurable", "a b", " ".join("abcdefghijklmnop")])
    assert encoder.batches == [[10, 10, 20, 20]]
    assert None not in scores
