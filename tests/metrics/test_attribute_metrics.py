"""ra_clip_score and hcs: what goes into their slots, and their numbers against plain arithmetic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from beholder._errors import NoValue
from beholder.manifest.schema import Sample
from beholder.media.sources import as_medium
from beholder.metrics.attributes import Hcs, RaClipScore
from beholder.metrics.base import FeatureBatch, Ragged

PICTURE = as_medium(np.zeros((4, 4, 3), np.uint8))


def sample(**columns: Any) -> Sample:
    return Sample(id="a", output=PICTURE, **columns)


def patch_batch(n: int = 3, seed: int = 0) -> FeatureBatch:
    rng = np.random.default_rng(seed)
    image = {
        "embedding": rng.normal(size=(n, 8)).astype(np.float32),
        "embedding_bypassed": rng.normal(size=(n, 8)).astype(np.float32),
        "patches": rng.normal(size=(n, 4, 8)).astype(np.float16),
        "attention": rng.dirichlet(np.ones(5), (n, 4))[..., 1:].astype(np.float16),
        "grid": np.full((n, 2), 2, dtype=np.int32),
    }
    texts = {name: {"embedding": rng.normal(size=(n, 8)).astype(np.float32)} for name in ("positive", "negative")}
    return FeatureBatch({"image": image, **texts}, {"image": {"logit_scale": 20.0}}, n)


def plain(batch: FeatureBatch, row: int, tau: float, column: str = "embedding") -> float:
    """Equations 3 to 9 in loops."""
    image = batch.slots["image"]
    tokens = [image[column][row], *image["patches"][row].astype(float)]  # type: ignore[index]
    sides = [batch.one(name)[row] for name in ("positive", "negative")]

    def cos(a: Any, b: Any) -> float:
        return float(np.dot(a, b) / math.sqrt(float(np.dot(a, a)) * float(np.dot(b, b))))

    raw = [1 / (1 + math.exp(-tau * (cos(t, sides[0]) - cos(t, sides[1])))) for t in tokens]
    refined = [raw[0]]
    for weights in image["attention"][row].astype(float):  # type: ignore[index]
        refined.append(float(np.dot(weights, raw[1:]) / weights.sum()))
    parts = [math.exp(tau * cos(t, sides[0])) for t in tokens]
    return sum(p * r for p, r in zip(parts, refined)) / sum(parts)


def test_the_score_is_that_of_the_equations() -> None:
    batch = patch_batch()
    for options, tau, column in (
        ({}, 20.0, "embedding"),
        ({"tau": 7.0}, 7.0, "embedding"),
        ({"global_layer": "L-1"}, 20.0, "embedding_bypassed"),
    ):
        found = RaClipScore(options).score(batch).values
        assert found == pytest.approx([plain(batch, row, tau, column) for row in range(3)], abs=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"tau_agg": 1.0}, {"refine": "none"}, {"include_cls": False}, {"dual": False}, {"local": False},
        {"renormalize_rows": False}, {"global_layer": "L-1"}, {"tau": 3.0},
    ],
)  # fmt: skip
def test_every_option_moves_the_value(options: dict[str, Any]) -> None:
    batch = patch_batch()
    assert np.abs(RaClipScore(options).score(batch).values - RaClipScore().score(batch).values).max() > 1e-4


def test_frames_of_a_video() -> None:
    batch = patch_batch(4)
    both = Ragged(batch.slots["image"], np.array([0, 1, 4]))  # type: ignore[arg-type]
    texts = {name: {"embedding": batch.one(name)[[0, 2]]} for name in ("positive", "negative")}
    found = RaClipScore({"over_frames": "max"}).score(FeatureBatch({"image": both, **texts}, batch.constants, 2))
    one = {name: {"embedding": batch.one(name)[[0, 2, 2, 2]]} for name in ("positive", "negative")}
    each = RaClipScore().score(FeatureBatch({**batch.slots, **one}, batch.constants, 4)).values
    assert found.values.tolist() == [each[0], each[1:].max()]


def test_a_zero_token_is_degenerate() -> None:
    batch = patch_batch()
    batch.slots["image"]["patches"][1, 2] = 0.0  # type: ignore[index]
    found = RaClipScore().score(batch)
    assert {row: str(status) for row, (status, _) in found.statuses.items()} == {1: "degenerate_embedding"}


def test_prompts() -> None:
    named = RaClipScore({"attribute": "a cat"}).select(sample(prompt="something else"))
    assert (named["positive"], named["negative"]) == ("This is a photo of a cat.", "This is a photo without a cat.")
    column = RaClipScore({"text": "class_name"}).select(sample(class_name="an owl"))
    assert column["positive"] == "This is a photo of an owl."
    opposite = RaClipScore({"attribute": "open eyes", "counterpart": "closed eyes"}).select(sample())
    assert opposite["negative"] == "This is a photo of closed eyes."
    assert RaClipScore({"positive": "art: "}).select(sample(prompt="x"))["positive"] == "art: x"
    assert RaClipScore().scored_text(sample(prompt="x")) == "This is a photo of x."
    assert RaClipScore().scored_text(sample()) is None
    with pytest.raises(NoValue, match="empty"):
        RaClipScore().select(sample(prompt=" "))
    with pytest.raises(NoValue, match="must hold text"):
        RaClipScore({"text": "k"}).select(Sample(id="a", output=PICTURE, extras={"k": 3}))


def test_hcs_is_that_of_the_equation() -> None:
    rng = np.random.default_rng(0)
    image, text = rng.normal(size=(2, 8)), rng.normal(size=(2, 8))
    references, listed = rng.normal(size=(5, 8)), rng.normal(size=(6, 8))
    slots = {
        "image": {"embedding": image}, "text": {"embedding": text},
        "references": Ragged({"embedding": references}, np.array([0, 2, 5])),
        "list": Ragged({"embedding": listed}, np.array([0, 3, 6])),
    }  # fmt: skip
    found = Hcs().score(FeatureBatch(slots, {}, 2)).values
    for row, (a, b) in enumerate(((references[:2], listed[:3]), (references[2:], listed[3:]))):
        x, t = image[row] - a.mean(axis=0), text[row] - b.mean(axis=0)
        assert found[row] == pytest.approx(100 * x @ t / np.linalg.norm(x) / np.linalg.norm(t), abs=1e-4)


def test_what_hcs_needs() -> None:
    full = Hcs({"attribute": "a cat", "attributes": ("a cat", "an owl")})
    chosen = full.select(sample(references=(PICTURE,)))
    assert chosen["list"] == ["a photo of a cat", "a photo of an owl"]
    assert chosen["text"] == "a photo of a cat"
    bare = Hcs({"attribute": "a cat", "attributes": ("a cat",), "text_center": "bare"})
    assert bare.select(sample(references=(PICTURE,)))["list"] == ["a cat"]
    with pytest.raises(NoValue, match="no references"):
        full.select(sample())
    with pytest.raises(NoValue, match="needs its list"):
        Hcs({"attribute": "a cat"}).select(sample(references=(PICTURE,)))
    assert full.scored_text(sample()) == "a photo of a cat"
    assert Hcs().scored_text(sample()) is None
