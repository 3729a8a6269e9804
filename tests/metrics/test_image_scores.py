"""HPS, aesthetic scores and ArtScore as metrics: scales, limits, probabilities, and whole runs on small real files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.metrics.test_pick_score import SCALE, batch, sample
from tests.models import make_tiny_clip, make_tiny_siglip
from tests.models_scores import make_artscore, make_head, make_tiny_hps
from tests.runs.helpers import cosine

import beholder
from beholder._errors import ModelError
from beholder.backends.pool import load_model, resolve_model
from beholder.media.base import DecodeOptions
from beholder.metrics.base import FeatureBatch
from beholder.metrics.image_scores import ArtScore, LaionAesthetic, LaionAestheticV25
from beholder.metrics.preference import HpsV2, HpsV21, PreferenceMetric
from beholder.records import Status
from beholder.score_table import media_list


@pytest.mark.parametrize("kind", [HpsV2, HpsV21])
def test_hps_is_the_plain_cosine(kind: type[PreferenceMetric]) -> None:
    found = kind().score(batch(0.2, -0.5, 1.0))
    np.testing.assert_allclose(found.values, [0.2, -0.5, 1.0], rtol=1e-6)
    assert not found.statuses
    # The scale takes no part, so a model without one serves.
    assert kind().score(batch(0.2, constants={})).values[0] == pytest.approx(0.2, rel=1e-6)
    assert kind().describe()["scale"] == 1.0


@pytest.mark.parametrize("kind", [HpsV2, HpsV21])
def test_hps_probabilities_are_softmaxes_of_scaled_cosines_of_one_prompt(kind: type[PreferenceMetric]) -> None:
    made = kind({"output": "probability"})
    raw = made.score(batch(0.25, 0.24, 0.3)).values
    np.testing.assert_allclose(raw, SCALE * np.array([0.25, 0.24, 0.3]), rtol=1e-5)
    final = made.score_groups(raw, [np.array([0, 1]), np.array([2])])
    odds = math.exp(SCALE * 0.01)
    np.testing.assert_allclose(final.values[:2], [odds / (1 + odds), 1 / (1 + odds)], rtol=1e-4)
    assert final.statuses[2][0] == Status.NOT_APPLICABLE
    assert made.group_key(sample("a")) != made.group_key(sample("b"))
    assert kind().group_key(sample("a")) is None
    with pytest.raises(ModelError, match=f"{kind.info.default_model.replace('.', '[.]')}"):  # type: ignore[union-attr]
        made.score(batch(0.2, constants={}))


def heads(values: list[float], **limits: float) -> FeatureBatch:
    scores = {"score": np.array(values)}
    return FeatureBatch({"image": {}, "score": scores}, {"score": limits}, len(values))


def test_a_value_beyond_what_the_head_can_give_is_a_fault() -> None:
    found = LaionAesthetic().score(heads([5.0, 25.0, -3.0], low=-2.0, high=12.0))
    assert {row: status for row, (status, _) in found.statuses.items()} == {1: Status.FAILED, 2: Status.FAILED}
    assert "from -2 to 12" in found.statuses[1][1]
    # A head of a user's own need not know its limits.
    assert not LaionAesthetic().score(heads([5.0, 25.0, -3.0])).statuses


def test_no_prompt_is_asked_for() -> None:
    for kind in (LaionAesthetic, LaionAestheticV25, ArtScore):
        assert kind.info.inputs == ("output",)
        assert not kind.takes_model()
    assert "ranks and differences" in " ".join(ArtScore.info.notes)
    assert ArtScore.info.range == (None, None)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    generator = np.random.default_rng(2)
    paths = []
    for at, size in enumerate(((40, 40, 3), (30, 60, 3))):
        path = tmp_path / f"{at}.png"
        Image.fromarray(generator.integers(0, 256, size, dtype=np.uint8)).save(path)
        paths.append(str(path))
    return paths


def test_aesthetic_from_files_to_the_number(files: list[str], tmp_path: Path) -> None:
    import torch

    clip, head = make_tiny_clip(tmp_path / "clip"), make_head(tmp_path / "head.pth", 16, seed=4)
    rows = [{"output": path, "prompt": ""} for path in files]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    run = beholder.evaluate(
        str(tmp_path / "s.jsonl"), metrics=f"laion_aesthetic(encoder={clip}, model=aesthetic:{head})",
        out=str(tmp_path / "run"),
    )  # fmt: skip
    encoder: Any = load_model(resolve_model(str(clip)), device="cpu")
    state = torch.load(head, weights_only=True)
    for path, found in zip(files, run.scores.column("laion_aesthetic").to_pylist(), strict=True):
        value = encoder.encode_images(encoder.prepare_image(media_list(path)[0].decode(DecodeOptions()))[None])[0]
        value = value.astype(np.float64) / np.linalg.norm(value.astype(np.float64))
        for place in (0, 2, 4, 6, 7):
            value = (
                state[f"layers.{place}.weight"].double().numpy() @ value
                + state[f"layers.{place}.bias"].double().numpy()
            )
        assert found == pytest.approx(value[0], abs=1e-6)
    ids = {model["id"] for model in run.header["models"].values()}
    assert ids == {"hf:./clip", "aesthetic:./head.pth"}


def test_aesthetic_v25_is_its_head_on_siglips_pooled_embedding(files: list[str], tmp_path: Path) -> None:
    import torch
    from transformers import SiglipModel

    folder, head = make_tiny_siglip(tmp_path / "siglip"), make_head(tmp_path / "head.pth", 32, layout="scoring_head")
    found = beholder.score(f"laion_aesthetic_v2.5(encoder={folder}, model=aesthetic:{head})", images=files)
    prepare: Any = load_model(resolve_model(str(folder)), device="cpu").prepare_image
    pixels = np.stack([prepare(media_list(path)[0].decode(DecodeOptions())) for path in files]).astype(np.float32)
    with torch.inference_mode():
        network = SiglipModel.from_pretrained(folder).vision_model.eval()
        pooled = network(torch.from_numpy((pixels / 255 - 0.5) / 0.5)).pooler_output.double()
        value = pooled / pooled.norm(dim=-1, keepdim=True)
        state = torch.load(head, weights_only=True)
        for place in (0, 2, 4, 6, 8):
            weight, bias = (state[f"scoring_head.{place}.{part}"].double() for part in ("weight", "bias"))
            value = value @ weight.T + bias
    assert [row.score.value for row in found] == pytest.approx(value[:, 0].tolist(), abs=1e-6)


def test_an_encoder_of_another_width_stops_the_run(files: list[str], tmp_path: Path) -> None:
    clip, head = make_tiny_clip(tmp_path / "clip"), make_head(tmp_path / "head.pth", 768)
    with pytest.raises(ModelError, match="embeddings of 768 numbers; got 16"):
        beholder.score(f"laion_aesthetic(encoder={clip}, model=aesthetic:{head})", images=files)


def test_hps_from_files_to_the_number(files: list[str], tmp_path: Path) -> None:
    name = f"hps:{make_tiny_hps(tmp_path / 'hps')}"
    found = float(beholder.score(f"hpsv2(model={name})", images=files[0], texts="a cat"))
    encoder: Any = load_model(resolve_model(name), device="cpu")
    image = encoder.encode_images(encoder.prepare_image(media_list(files[0])[0].decode(DecodeOptions()))[None])[0]
    text = encoder.encode_texts(["a cat"])["embedding"][0]
    assert found == pytest.approx(cosine(image, text), abs=1e-6)
    # It is an encoder like any other, and clip_score's cosine on it is the same number.
    assert float(beholder.score("clip_score", images=files[0], texts="a cat", model=name)) == found


def test_artscore_from_files_to_the_number(files: list[str], tmp_path: Path) -> None:
    checkpoint = make_artscore(tmp_path / "art.pth", seed=1)
    rows = [{"output": path} for path in files]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    metrics = [f"artscore(model=artscore:{checkpoint}, resize={way})" for way in ("train", "readme")]
    run = beholder.evaluate(str(tmp_path / "s.jsonl"), metrics=metrics, out=str(tmp_path / "run"))
    train, readme = (run.scores.column(label).to_pylist() for label in run.labels)
    assert train[0] == pytest.approx(readme[0], abs=1e-6), "a square picture"
    assert train[1] != readme[1]
    scorer: Any = load_model(resolve_model(f"artscore:{checkpoint}", capability="ImageScorer"), device="cpu")
    pictures = [media_list(path)[0].decode(DecodeOptions()) for path in files]
    for way, values in (("train", train), ("readme", readme)):
        own = [scorer.score_images([scorer.prepare([picture], resize=way)]).columns["score"][0] for picture in pictures]
        assert values == pytest.approx([float(value) for value in own], abs=1e-6)
