"""Batches, types, determinism: D1 to D4 of the table in README.md."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.inputs.conftest import noise

import beholder

METRICS = ["clip_score", "clip_i"]


@pytest.fixture
def rows(tmp_path: Path) -> list[dict[str, Any]]:
    paths = [noise(tmp_path / f"{at}.png", (31 + 5 * (at % 4), 47 - 3 * (at % 3)), at) for at in range(16)]
    return [
        {"id": str(at), "output": path, "prompt": f"a {['cat', 'dog', 'car'][at % 3]} {'x ' * at}",
         "references": [paths[at - 1], paths[at - 2]]}
        for at, path in enumerate(paths)
    ]  # fmt: skip


def test_d1_numbers_do_not_depend_on_batch_order_or_chunk(
    rows: Any, scored: Any, tiny_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tolerance 1e-5 on the CPU in float32: matrix products of other shapes add in another order."""
    straight = {row["id"]: row for row in scored(rows, METRICS, model=tiny_model(), batch_size=16, out="o16")}
    shuffled = random.Random(3).sample(rows, len(rows))
    for size, order, chunk in ((1, rows, 1024), (3, rows, 1024), (5, shuffled, 7), (16, rows[::-1], 1)):
        monkeypatch.setattr("beholder.runs.engine.CHUNK", chunk)
        found = scored(
            order,
            METRICS,
            model=tiny_model(),
            batch_size=size,
            out=f"o{size}{chunk}",
            store=tmp_path / f"s{size}{chunk}",
        )
        assert [row["id"] for row in found] == [row["id"] for row in order]
        for row in found:
            for name in METRICS:
                assert row[name] == pytest.approx(straight[row["id"]][name], abs=1e-5)


def test_d1_the_summary_does_not_depend_on_the_order(rows: Any, tmp_path: Path) -> None:
    runs = [
        beholder.evaluate(order, metrics=METRICS, model="fake", out=str(tmp_path / name))
        for name, order in (("a", rows), ("b", rows[::-1]))
    ]
    assert [row.value for row in runs[0].summary] == [row.value for row in runs[1].summary]


def test_d2_one_picture_twice_scores_the_same(rows: Any, scored: Any, tiny_model: Any) -> None:
    twin = {**rows[5], "id": "twin", "output": Path(rows[5]["output"]).read_bytes()}
    found = scored([*rows[:9], twin], METRICS, model=tiny_model(), batch_size=4)
    assert [found[9][name] for name in METRICS] == [found[5][name] for name in METRICS]
    again = scored([*rows[:9], twin], METRICS, model=tiny_model(), batch_size=4, out="again")
    assert again == found


def test_d3_cosines_of_half_precision_features_stay_within_one(tmp_path: Path) -> None:
    """512 dimensions in float16, picture equal to text and opposite: multiplied in float16 this reaches 1.0005."""
    direction = np.random.default_rng(0).standard_normal(512).astype(np.float16)

    class Half(beholder.FakeEncoder):
        def encode_images(self, batch: np.ndarray) -> np.ndarray:
            signs = np.where(batch[:, 1] > 127, 1, -1).astype(np.float16)
            return signs[:, None] * direction * np.float16(3)

        def encode_texts(self, texts: Any) -> Any:
            return {**super().encode_texts(texts), "embedding": np.tile(direction, (len(texts), 1))}

    beholder.register_encoder("half", Half("half", dim=512))
    images = [np.full((4, 4, 3), value, np.uint8) for value in (255, 0)]
    values = beholder.score("clip_score", images=images, texts="a", model="half").matrix[:, 0]
    assert values.tolist() == pytest.approx([1.0, -1.0], abs=1e-6)
    assert (abs(values) <= 1 + 1e-6).all()


def test_d4_a_zero_embedding_is_counted_and_not_averaged(rows: Any, tmp_path: Path) -> None:
    encoder = beholder.FakeEncoder("zeros", dim=8, zero_on="hollow")
    beholder.register_encoder("zeros", encoder)
    rows[2]["prompt"] = "a hollow cat"
    found = beholder.evaluate(rows, metrics="clip_score", model="zeros", out=str(tmp_path / "out"))
    table = found.scores.to_pylist()
    assert (table[2]["clip_score"], table[2]["clip_score_status"]) == (None, "degenerate_embedding")
    head = next(row for row in found.summary if row.headline and not row.group)
    values = [row["clip_score"] for row in table if row["clip_score"] is not None]
    assert (head.n, dict(head.n_missing)) == (15, {"degenerate_embedding": 1})
    assert head.value == pytest.approx(np.mean(values), abs=1e-12)
    assert found.exit_code == 3
