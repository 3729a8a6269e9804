"""Metrics with models of whole clips, from files to scores: what the model gives for the frames of the policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.models_video import make_tiny_umt, make_tiny_xclip

import beholder
from beholder.backends import pool
from beholder.media.base import Picture

PROMPTS = ("a cat", "a dog")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Two folders of six frames, and a picture."""
    folder = tmp_path_factory.mktemp("frames")
    rows = []
    for number, prompt in enumerate(PROMPTS):
        clip = folder / f"clip{number}"
        clip.mkdir()
        for at in range(6):
            Image.fromarray(pixels(number, at)).save(clip / f"{at}.png")
        rows.append({"id": str(number), "output": str(clip), "prompt": prompt})
    Image.fromarray(pixels(0, 0)).save(folder / "still.png")
    return [*rows, {"id": "still", "output": str(folder / "still.png"), "prompt": "a cat"}]


@pytest.fixture(scope="module")
def umt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_umt(tmp_path_factory.mktemp("umt"))


def pixels(clip: int, at: int) -> np.ndarray:
    return np.random.default_rng([clip, at]).integers(0, 256, (40, 60, 3), dtype=np.uint8)


def visuals(model: Any, frames: tuple[int, ...]) -> list[Any]:
    chosen = [[Picture(pixels(clip, at), (60, 40), "RGB") for at in frames] for clip in range(2)]
    still = [Picture(pixels(0, 0), (60, 40), "RGB")]
    return [model.prepare(clip) for clip in (*chosen, still)]


def scores(data: list[dict[str, Any]], metric: str) -> tuple[np.ndarray, list[Any]]:
    table = beholder.run(data, metrics=[f"{metric},as=value"], device="cpu").scores
    rows = {row["id"]: row for row in table.to_pylist()}
    assert [row["value_status"] for row in rows.values()] == ["ok"] * 3
    ordered = [rows[key] for key in ("0", "1", "still")]
    return np.asarray([row["value"] for row in ordered]), [row["value_evidence"] for row in ordered]


def test_a_clip_model_compares(data: list[dict[str, Any]], umt: Path) -> None:
    found, evidence = scores(data, f"clip_score,model=umt:{umt}")
    model = pool.load_model(pool.resolve_model(f"umt:{umt}"), device="cpu")
    videos = model.encode_videos(visuals(model, (0, 1, 3, 5))).columns["embedding"]
    texts = model.encode_texts([*PROMPTS, "a cat"])["embedding"]
    expected = (videos * texts).sum(1) / np.linalg.norm(videos, axis=1) / np.linalg.norm(texts, axis=1)
    np.testing.assert_allclose(found, expected, atol=2e-6)
    assert '"policy": "uniform:4"' in evidence[0]
    assert '"indices": [0, 1, 3, 5]' in evidence[0]


def test_another_policy_is_followed(data: list[dict[str, Any]], umt: Path) -> None:
    found, evidence = scores(data, f"itm_score,model=umt:{umt},output=logit,frames=stride:2")
    model = pool.load_model(pool.resolve_model(f"umt:{umt}", capability="Matcher"), device="cpu")
    pairs = [(0, "a cat"), (1, "a dog"), (2, "a cat")]
    logits = model.match(visuals(model, (0, 3)), pairs).columns["logit"]
    np.testing.assert_allclose(found, logits, atol=2e-5)
    assert '"indices": [0, 3]' in evidence[0]
    again, _ = scores(data, f"itm_score,model=umt:{umt},frames=stride:2")
    np.testing.assert_allclose(again, 1 / (1 + np.exp(-logits.astype(np.float64))), atol=1e-5)


def test_a_model_of_pairs_compares(data: list[dict[str, Any]], tmp_path: Path) -> None:
    name = f"xclip:{make_tiny_xclip(tmp_path / 'xclip')}"
    found, _ = scores(data, f"clip_score,model={name}")
    model = pool.load_model(pool.resolve_model(name), device="cpu")
    pairs = [(0, "a cat"), (1, "a dog"), (2, "a cat")]
    cosines = model.match(visuals(model, (0, 1, 3, 5)), pairs, head="itc").columns["cosine"]
    np.testing.assert_allclose(found, cosines, atol=2e-6)
