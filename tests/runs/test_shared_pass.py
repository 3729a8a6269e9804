"""Patch tokens and plain embeddings of one encoder come from one pass."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from beholder import evaluate
from beholder.backends.fake import FakeEncoder
from beholder.backends.pool import register_encoder


class Counting(FakeEncoder):
    """A fake encoder that counts what it is asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(name, dim=16)
        self.plain = self.patches = 0

    def encode_images(self, batch: np.ndarray) -> np.ndarray:
        self.plain += 1
        return super().encode_images(batch)

    def encode_patches(self, batch: np.ndarray) -> Mapping[str, Any]:
        self.patches += 1
        columns = super().encode_patches(batch)
        self.plain -= 1  # the call inside
        return columns


@pytest.fixture
def rows(tmp_path: Path) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    found = []
    for i in range(7):
        path = tmp_path / f"{i}.png"
        Image.fromarray(rng.integers(0, 256, (12, 12, 3), dtype=np.uint8)).save(path)
        found.append({"id": str(i), "output": str(path), "prompt": f"thing {i}"})
    return found


@pytest.mark.parametrize("order", [("clip_score", "ra_clip_score"), ("ra_clip_score", "clip_score")])
def test_one_pass_serves_both(rows: list[dict[str, Any]], tmp_path: Path, order: tuple[str, str]) -> None:
    name = f"counting-{order[0]}"
    encoder = Counting(name)
    register_encoder(name, encoder)
    store = str(tmp_path / "store")
    both = evaluate(rows, metrics=order, model=name, out=str(tmp_path / "both"), store=store)
    assert (encoder.plain, encoder.patches) == (0, 1)
    alone = evaluate(rows, metrics="clip_score", model=name, out=str(tmp_path / "a"), store=str(tmp_path / "other"))
    assert both.scores["clip_score"].to_pylist() == alone.scores["clip_score"].to_pylist()
    assert (encoder.plain, encoder.patches) == (1, 1)
    evaluate(rows, metrics=["clip_score(text=id)", "ra_clip_score(tau=30.0)"], model=name, out=str(tmp_path / "b"),
             store=store)  # fmt: skip
    assert (encoder.plain, encoder.patches) == (1, 1), "everything was stored"


def test_chunks_of_large_features_are_smaller(rows: list[dict[str, Any]]) -> None:
    from beholder.runs.config import make_config
    from beholder.runs.engine import CHUNK, LARGE_CHUNK, chunk_size
    from beholder.runs.plan import make_plan

    plans = [make_plan(make_config({"metrics": [m], "model": "fake"})) for m in ("clip_score", "ra_clip_score")]
    assert [chunk_size(plan) for plan in plans] == [CHUNK, LARGE_CHUNK]
