"""gme_score: 16-bit arithmetic, frames, statuses; a whole run on a tiny model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beholder._errors import NoValue
from beholder._identity import parse_spec
from beholder.functional.half import half_dots, half_mean, half_units
from beholder.manifest.schema import Sample
from beholder.metrics.base import FeatureBatch, Ragged, make_metric

SPECS = ["gme_score", "gme_score(dot=fp32)"]


def batch(frames: list[np.ndarray], texts: np.ndarray) -> FeatureBatch:
    offsets = np.cumsum([0, *(len(item) for item in frames)])
    text = {"embedding": texts, "n_tokens": np.full(len(texts), 9, np.int32), "truncated": np.zeros(len(texts), bool)}
    return FeatureBatch({"image": Ragged({"embedding": np.concatenate(frames)}, offsets), "text": text}, {}, len(texts))


def test_half_arithmetic_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(40, 64)).astype(np.float32) for _ in range(2))
    b += a
    one, other = (torch.nn.functional.normalize(torch.from_numpy(x).half(), p=2, dim=1) for x in (a, b))
    mine, its = half_units(a), half_units(b)
    assert np.array_equal(mine.vectors, one.numpy())
    wanted = (one * other).sum(-1)
    found = half_dots(mine.vectors, its.vectors)
    # The order of the 32-bit sum may differ, which moves a value by one step of 16 bits at most.
    np.testing.assert_allclose(found, wanted.numpy(), rtol=0, atol=2**-11)
    assert abs(half_mean(found) - wanted.mean().item()) <= 2**-11
    inside = np.abs(found[(found >= 0.5) & (found < 1)] * 2048)
    assert len(inside)
    assert np.array_equal(inside, np.round(inside)), "values in [0.5, 1) are multiples of 2^-11"


@pytest.mark.parametrize("spec", SPECS)
def test_the_mean_over_frames(spec: str) -> None:
    rng = np.random.default_rng(1)
    frames = [rng.normal(size=(32, 24)).astype(np.float32) for _ in range(3)]
    texts = rng.normal(size=(3, 24)).astype(np.float32)
    found = make_metric(parse_spec(spec)).score(batch(frames, texts))
    for row in range(3):
        plain = [
            float(np.dot(frame.astype(float), texts[row].astype(float)))
            / (np.linalg.norm(frame.astype(float)) * np.linalg.norm(texts[row].astype(float)))
            for frame in frames[row]
        ]
        np.testing.assert_allclose(found.values[row], np.mean(plain), rtol=0, atol=1e-3 if spec == SPECS[0] else 1e-6)
        evidence = found.evidence[row]
        np.testing.assert_allclose(evidence["std"], np.std(plain), rtol=0, atol=1e-3)
        np.testing.assert_allclose(evidence["min"], np.min(plain), rtol=0, atol=1e-3)
        assert evidence["n_frames"] == 32
    assert (found.values < 0).any() or (found.values > -1).all()
    shuffled = make_metric(parse_spec(spec)).score(batch([item[::-1] for item in frames], texts))
    np.testing.assert_allclose(shuffled.values, found.values, rtol=0, atol=1e-3)


def test_a_negative_cosine_is_not_cut() -> None:
    text = np.array([[1.0, 0.0]], dtype=np.float32)
    found = make_metric(parse_spec("gme_score")).score(batch([np.array([[-0.6, 0.8]] * 4, np.float32)], text))
    assert found.values[0] == pytest.approx(-0.6, abs=2**-11)


def test_frames_without_direction_are_left_out() -> None:
    text = np.array([[1.0, 0.0]] * 2, dtype=np.float32)
    good, bad = [1.0, 0.0], [0.0, 0.0]
    mixed = np.array([good, bad, [np.nan, 1.0], good], np.float32)
    found = make_metric(parse_spec("gme_score")).score(batch([mixed, np.array([bad, bad], np.float32)], text))
    assert found.values[0] == 1.0
    assert found.evidence[0]["n_degenerate"] == 2
    assert found.statuses[1][0].value == "degenerate_embedding"


@pytest.mark.parametrize("prompt", [None, "", "  \n"])
def test_a_missing_prompt(prompt: Any) -> None:
    with pytest.raises(NoValue) as caught:
        make_metric(parse_spec("gme_score")).select(Sample("a", None, prompt=prompt))
    assert caught.value.status == "empty_prompt"


def test_a_run_on_videos(tmp_path: Path) -> None:
    from PIL import Image
    from tests.models_opens2v import make_gme

    import beholder

    gme = make_gme(tmp_path / "gme")
    rng = np.random.default_rng(2)
    frames = [Image.fromarray(rng.integers(0, 256, (60, 80, 3), dtype=np.uint8)) for _ in range(3)]
    table = beholder.score(f"gme_score(model=gme:{gme},frames=uniform:8)", images=[frames], texts="a cat", device="cpu")
    each = [
        float(beholder.score(f"gme_score(model=gme:{gme},dot=fp32)", images=frame, texts="a cat", device="cpu"))
        for frame in frames
    ]
    weights = np.bincount([0, 0, 0, 0, 1, 1, 1, 2]) / 8
    assert float(table) == pytest.approx(float(np.dot(weights, each)), abs=1e-3)
