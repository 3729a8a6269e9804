"""Features of features: a small head on an embedding shares the encoder's one pass with every other metric."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.runs.helpers import CountingEncoder, counting, write_set

import beholder
from beholder._errors import NoValue, OptionError
from beholder.backends.base import Made, ResolvedModel
from beholder.media.base import DecodeOptions
from beholder.records import ModelCard, Status
from beholder.score_table import media_list


class SumHead:
    """A head without weights: the sum of the first two numbers of an embedding; it keeps count of its calls."""

    batch = 4

    def __init__(self, name: str = "sum-head", *, refuse: float | None = None) -> None:
        card = ModelCard(id=name, engine="test", family="test", arch="sum", weights="")
        self.model = ResolvedModel(name, name, card, "", name, {}, "float32", capability="EmbeddingHead")
        self.constants: dict[str, float] = {}
        self.sizes: list[int] = []
        self.refuse = refuse

    def score_embeddings(self, embeddings: Sequence[np.ndarray]) -> Made:
        self.sizes.append(len(embeddings))
        values = np.array([float(row[0]) + float(row[1]) for row in embeddings])
        failures: dict[int, Any] = {}
        if self.refuse is not None:
            lost = np.flatnonzero(values > self.refuse)
            failures = {int(row): NoValue(Status.DEGENERATE_EMBEDDING, "refused") for row in lost}
        return Made({"score": values}, failures)

    def close(self) -> None:
        """Nothing."""


def head(name: str = "sum-head", **options: Any) -> SumHead:
    made = SumHead(name, **options)
    beholder.register_model(name, made)
    return made


def expected(encoder: CountingEncoder, path: Path) -> float:
    prepared = encoder.prepare_image(media_list(str(path))[0].decode(DecodeOptions()))
    first = encoder.encode_images(prepared[None])[0]
    return float(first[0]) + float(first[1])


METRIC = "laion_aesthetic(encoder=counting, model=sum-head)"


def test_one_pass_serves_the_head_and_other_metrics(tmp_path: Path) -> None:
    encoder, scorer = counting(), head()
    manifest = write_set(tmp_path, 6)
    run = beholder.evaluate(
        str(manifest), metrics=[METRIC, "clip_score(model=counting)"], out=str(tmp_path / "run"),
        store=str(tmp_path / "store"),
    )  # fmt: skip
    assert encoder.prepared == 6
    assert set(scorer.sizes) == {4}  # batches of one shape
    found = run.scores.column("laion_aesthetic").to_pylist()
    np.testing.assert_allclose(found, [expected(encoder, tmp_path / "img" / f"{at}.png") for at in range(6)], rtol=1e-6)


def test_stored_embeddings_and_stored_scores_load_nothing(tmp_path: Path) -> None:
    encoder, scorer = counting(), head()
    manifest, store = str(write_set(tmp_path, 5)), str(tmp_path / "store")
    beholder.evaluate(manifest, metrics="clip_score(model=counting)", out=str(tmp_path / "a"), store=store)
    assert encoder.prepared == 5
    first = beholder.evaluate(manifest, metrics=METRIC, out=str(tmp_path / "b"), store=store)
    assert encoder.prepared == 5, "the embeddings were stored"
    calls = len(scorer.sizes)
    again = beholder.evaluate(manifest, metrics=METRIC, out=str(tmp_path / "c"), store=store)
    assert len(scorer.sizes) == calls, "the head's scores were stored"
    assert again.scores.column("laion_aesthetic").to_pylist() == first.scores.column("laion_aesthetic").to_pylist()


def test_another_encoder_or_head_is_another_feature(tmp_path: Path) -> None:
    counting()
    counting("other", seed=3)
    head()
    beholder.register_model("second", SumHead("second", refuse=-100.0))
    manifest = str(write_set(tmp_path, 3))
    run = beholder.evaluate(
        manifest,
        metrics=[METRIC, "laion_aesthetic(encoder=other, model=sum-head)",
                 "laion_aesthetic(encoder=counting, model=second)"],
        out=str(tmp_path / "run"), store=str(tmp_path / "store"),
    )  # fmt: skip
    values = [run.scores.column(label).to_pylist() for label in run.labels]
    assert values[0] != values[1]
    assert values[2] == [None] * 3


def test_videos_have_a_score_a_frame_and_the_frames_used_are_told(tmp_path: Path) -> None:
    encoder = counting()
    head()
    folder = tmp_path / "clip"
    folder.mkdir()
    generator = np.random.default_rng(5)
    for at in range(3):
        Image.fromarray(generator.integers(0, 256, (12, 16, 3), dtype=np.uint8)).save(folder / f"{at}.png")
    each = [expected(encoder, folder / f"{at}.png") for at in range(3)]
    manifest = tmp_path / "samples.jsonl"
    manifest.write_text(json.dumps({"id": "v", "output": "clip", "prompt": "x"}) + "\n", encoding="utf-8")
    encoder.prepared = 0
    run = beholder.evaluate(
        str(manifest),
        metrics=[
            "laion_aesthetic(encoder=counting, frames=uniform:5, model=sum-head)",
            "laion_aesthetic(encoder=counting, frames=uniform:5, model=sum-head, over_frames=max)",
            "clip_score(frames=uniform:5, model=counting)",
        ],
        out=str(tmp_path / "run"), store=str(tmp_path / "store"),
    )  # fmt: skip
    assert encoder.prepared == 3, "each distinct frame once, for the head and for clip_score"
    first, second = (run.scores.column(label)[0].as_py() for label in run.labels[:2])
    # uniform:5 of 3 frames takes 0, 0, 1, 1, 2.
    weights = np.array([2, 2, 1]) / 5
    assert first == pytest.approx(float(weights @ each), rel=1e-6)
    assert second == pytest.approx(max(each), rel=1e-6)
    evidence = json.loads(run.scores.column(f"{run.labels[0]}_evidence")[0].as_py())
    assert list(evidence["frames"]["indices"]) == [0, 0, 1, 1, 2]


def test_what_the_encoder_cannot_read_and_what_the_head_refuses(tmp_path: Path) -> None:
    encoder = counting()
    (tmp_path / "img").mkdir()
    manifest = write_set(tmp_path, 4)
    (tmp_path / "img" / "1.png").write_bytes(b"no picture")
    values = [expected(encoder, tmp_path / "img" / f"{at}.png") for at in (0, 2, 3)]
    beholder.register_model("sum-head", SumHead(refuse=sorted(values)[1] + 1e-6))
    run = beholder.evaluate(
        str(manifest), metrics=METRIC, out=str(tmp_path / "run"), store=str(tmp_path / "store"), max_failed=1.0
    )
    statuses = run.scores.column("laion_aesthetic_status").to_pylist()
    assert statuses[1] == "unreadable"
    assert sorted(statuses) == ["degenerate_embedding", "ok", "ok", "unreadable"]


def test_a_head_needs_its_method_and_no_pixels() -> None:
    made = SumHead("whole")
    beholder.register_model("whole", made)
    del SumHead.close
    try:
        with pytest.raises(OptionError, match="without close"):
            beholder.register_model("part", SumHead("part"))
    finally:
        SumHead.close = lambda self: None  # type: ignore[method-assign]


def test_quick_scores_of_single_pictures(tmp_path: Path) -> None:
    encoder = counting()
    head()
    write_set(tmp_path, 2)
    paths = [str(tmp_path / "img" / f"{at}.png") for at in range(2)]
    table = beholder.score(METRIC, images=paths)
    np.testing.assert_allclose(
        np.asarray(table.matrix).reshape(-1), [expected(encoder, Path(path)) for path in paths], rtol=1e-6
    )
