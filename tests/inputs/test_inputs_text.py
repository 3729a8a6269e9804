"""Text that broke other tools: T1 to T5 of the table in README.md."""

from __future__ import annotations

import json
from typing import Any

import pytest

import beholder
from beholder.media.base import DecodeOptions
from beholder.media.sources import as_medium

LONG = "x " * 100


def test_t1_a_long_text_is_scored_flagged_and_counted_or_refused(
    tiny_model: Any, picture: str, scored: Any, tmp_path: Any
) -> None:
    rows = [{"output": picture, "prompt": text, "id": text[:9]} for text in (LONG, "a cat")]
    found = beholder.evaluate(rows, metrics="clip_score", model=tiny_model(), out=str(tmp_path / "cut"))
    cut, whole = found.scores.to_pylist()
    assert (cut["clip_score_status"], whole["clip_score_status"]) == ("ok", "ok")
    assert json.loads(cut["clip_score_evidence"]) == {"truncated": True, "n_tokens": 102}
    assert whole["clip_score_evidence"] is None
    assert [text for text in found.notices if "truncated" in text] == [
        "clip_score: 1 row has a text longer than the model takes; it was truncated and its row is marked"
    ]
    refused, kept = scored(rows, model=tiny_model(), truncation="error")
    assert (refused["clip_score_status"], refused["clip_score"]) == ("failed", None)
    assert "102 tokens" in refused["clip_score_reason"]
    assert kept["clip_score"] == pytest.approx(whole["clip_score"], abs=1e-6)


def test_t2_the_score_crosses_the_limit_without_a_jump(tiny_model: Any, picture: str) -> None:
    counts = (72, 73, 74, 75, 76, 77, 100)
    table = beholder.score(
        "clip_score", images=picture, texts=[" ".join(["x"] * count) for count in counts], model=tiny_model()
    )
    values = dict(zip(counts, table.matrix[0].tolist()))
    flagged = [bool(row.score.evidence and row.score.evidence["truncated"]) for row in table]
    # 75 words with a start and an end token fill the 77 places; from there on the text is the same.
    assert flagged == [False] * 4 + [True] * 3
    assert [values[count] for count in (76, 77, 100)] == pytest.approx([values[75]] * 3, abs=1e-6)
    steps = [abs(values[b] - values[a]) for a, b in ((72, 73), (73, 74), (74, 75))]
    assert max(steps) < 0.1  # losing the end token moves this model by more, as the next line shows
    assert abs(_without_end_token(tiny_model(), picture) - values[75]) > max(steps)


def _without_end_token(model: str, picture: str) -> float:
    """The cosine that a tool gets which cuts the ids at 77 and loses the end token."""
    import numpy as np
    import torch
    from transformers import CLIPModel, CLIPTokenizer

    from beholder.backends.pool import load_model, resolve_model

    network, tokenizer = CLIPModel.from_pretrained(model).eval(), CLIPTokenizer.from_pretrained(model)
    ids = torch.tensor([tokenizer("x " * 76)["input_ids"][:77]])
    with torch.no_grad():
        found = network.get_text_features(input_ids=ids)
    text = getattr(found, "pooler_output", found)[0].numpy()
    encoder = load_model(resolve_model(model), device="cpu")
    pixels = encoder.prepare_image(as_medium(picture).decode(DecodeOptions()))
    image = encoder.encode_images(np.stack([pixels]))[0]
    return float(image @ text / np.linalg.norm(image) / np.linalg.norm(text))


@pytest.mark.parametrize(
    ("family", "words", "tokens"), [("clip", 75, 77), ("siglip", 15, 16), ("altclip", 22, 24), ("chinese_clip", 22, 24)]
)
def test_t3_the_limit_comes_from_the_model(tiny_model: Any, picture: str, family: str, words: int, tokens: int) -> None:
    texts = [" ".join(["cat"] * count) for count in (words, words + 1)]
    table = beholder.score("clip_score", images=picture, texts=texts, model=tiny_model(family))
    fits, cut = (row.score for row in table)
    assert (fits.status, fits.evidence) == ("ok", None)
    assert (cut.status, dict(cut.evidence or {})) == ("ok", {"truncated": True, "n_tokens": tokens + 1})
    assert cut.value == pytest.approx(fits.value, abs=1e-6)


def test_t4_other_scripts_emoji_and_blanks(tiny_model: Any, picture: str, scored: Any) -> None:
    texts = ["一只猫", "🐱🐱", "", "   ", None, "\u200b", "e\u0301", "\x00", "a\nb"]
    rows = [{"output": picture, "prompt": text, "id": str(at)} for at, text in enumerate(texts)]
    found = scored(rows, model=tiny_model())
    statuses = [row["clip_score_status"] for row in found]
    assert statuses[:5] == ["ok", "ok", "empty_prompt", "empty_prompt", "empty_prompt"]
    assert set(statuses[5:]) <= {"ok", "empty_prompt"}
    for row in found:
        assert (row["clip_score"] is not None) == (row["clip_score_status"] == "ok")
        assert row["clip_score"] is None or -1 <= row["clip_score"] <= 1


def test_t4_an_english_model_and_another_script_are_told_of(picture: str, tmp_path: Any) -> None:
    from dataclasses import replace

    encoder = beholder.FakeEncoder("english", dim=8)
    encoder.model = replace(encoder.model, card=replace(encoder.model.card, english_only=True))
    beholder.register_encoder("english", encoder)
    rows = [{"output": picture, "prompt": text, "id": text} for text in ("一只猫", "кошка", "café", "a cat")]
    for _ in range(2):  # the second run finds every feature in the store and must not keep silent
        found = beholder.evaluate(rows, metrics="clip_score", model="english", out=str(tmp_path / "out"))
        assert any("english was trained on English only; 2 texts in another script" in text for text in found.notices)
    card = next(card for card in beholder.list_models() if card.id == "hf:openai/clip-vit-large-patch14")
    assert card.english_only


def test_t5_prompts_of_two_lengths_score_the_same_alone_and_together(tiny_model: Any, picture: str) -> None:
    texts = ["a cat", "a photo of a red car in the street"]
    for family in ("clip", "siglip", "metaclip2", "altclip", "chinese_clip"):
        together = beholder.score("clip_score", images=picture, texts=texts, model=tiny_model(family)).matrix[0]
        alone = [
            float(beholder.score("clip_score", images=picture, texts=text, model=tiny_model(family))) for text in texts
        ]
        assert together.tolist() == pytest.approx(alone, abs=1e-6), family
