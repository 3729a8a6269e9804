"""Scale, range and direction: S1 to S5 of the table in README.md."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.inputs.conftest import noise
from tests.models_scores import make_tiny_hps

import beholder


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Two pictures; encoder "known" gives them the cosines 0.3 and -0.2 with the text "t", with any prefix."""
    paths = [noise(tmp_path / f"{at}.png", seed=at) for at in range(2)]
    vectors = [[cosine, math.sqrt(1 - cosine**2)] for cosine in (0.3, -0.2)]
    encoder = beholder.FakeEncoder(
        "known", dim=2, texts={"t": [1, 0], "A photo depicts t": [1, 0]}, images=dict(zip(paths, vectors)),
        logit_scale=100.0,
    )  # fmt: skip
    beholder.register_encoder("known", encoder)
    return paths


def summary(rows: Any, metric: str, tmp_path: Path, **settings: Any) -> tuple[list[float], float, str]:
    settings.setdefault("model", "known")
    found = beholder.evaluate(rows, metrics=metric, out=str(tmp_path / f"out-{abs(hash(metric))}"), **settings)
    head = next(row for row in found.summary if row.headline and not row.group)
    assert head.value is not None
    return found.scores.column(found.labels[0]).to_pylist(), head.value, head.metric


@pytest.mark.parametrize(
    ("metric", "values", "mean"),
    [
        ("clip_score", [0.3, -0.2], 0.05),
        ("clip_score(variant=x100)", [30, -20], 5.0),
        ("clip_score(variant=hessel)", [0.75, 0.0], 0.375),
        ("clip_score(variant=torchmetrics)", [30, -20], 5.0),
    ],
)
def test_s1_s4_scale_and_clamp_of_each_variant(
    tmp_path: Path, files: list[str], metric: str, values: list[float], mean: float
) -> None:
    rows = [{"output": path, "prompt": "t"} for path in files]
    found, head, identity = summary(rows, metric, tmp_path)
    assert found == pytest.approx(values, abs=1e-5)
    assert head == pytest.approx(mean, abs=1e-5)
    assert identity == metric.replace("clip_score", "clip_score(model=known)", 1).replace(")(", ", ")


def test_s4_only_torchmetrics_clamps_the_mean_and_only_the_mean(tmp_path: Path, files: list[str]) -> None:
    rows = [{"output": path, "prompt": "t", "id": str(at)} for at, path in enumerate([files[0], files[1], files[1]])]
    values, mean, _ = summary(rows, "clip_score(variant=torchmetrics)", tmp_path)
    assert values == pytest.approx([30, -20, -20], abs=1e-5)
    assert mean == 0.0
    assert summary(rows, "clip_score(variant=x100)", tmp_path)[1] == pytest.approx(-10 / 3, abs=1e-5)
    assert summary(rows, "clip_score(variant=hessel)", tmp_path)[1] == pytest.approx(0.25, abs=1e-6)


def test_s1_the_variant_stands_beside_every_number(files: list[str], tmp_path: Path, cli: Any) -> None:
    (tmp_path / "s.jsonl").write_text(json.dumps({"output": files[0], "prompt": "t"}) + "\n")
    metric = "clip_score(variant=hessel)"
    run = cli("run", tmp_path / "s.jsonl", "-m", metric, "--model", "known", "-o", tmp_path / "r")
    assert run.exit_code == 0, run.stderr
    for form in ("text", "md", "csv", "json", "latex"):
        shown = cli("show", tmp_path / "r", "--as", form).stdout
        assert "variant=hessel" in shown.replace("\\", ""), form
    header = json.loads((tmp_path / "r" / "run.json").read_text())["metrics"][0]
    assert (header["settings"]["scale"], header["settings"]["template"]) == (2.5, "A photo depicts {text}")
    assert "variant=hessel" in cli("score", files[0], "-t", "t", "-m", metric, "--model", "known").stdout


def test_s2_a_score_is_the_scale_times_the_cosine_and_a_probability_needs_two(files: list[str]) -> None:
    raw = beholder.score("pick_score(model=known)", images=files, texts="t").matrix[:, 0]
    assert raw.tolist() == pytest.approx([30.0, -20.0], abs=1e-4)
    metric = "pick_score(model=known, output=probability)"
    both = beholder.score(metric, images=files, texts="t").matrix[:, 0]
    assert both.sum() == pytest.approx(1.0, abs=1e-12)
    assert both[1] == pytest.approx(1 / (1 + math.exp(50)), rel=1e-3)
    (alone,) = beholder.score(metric, images=files[0], texts="t")
    assert (alone.score.value, alone.score.status) == (None, "not_applicable")


def test_s3_the_version_of_hps_is_part_of_the_name(
    tmp_path: Path, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEHOLDER_CACHE", str(tmp_path / "cache"))
    hub = tmp_path / "cache" / "xswu" / "HPSv2"
    tokenizer = tmp_path / "cache" / "laion" / "CLIP-ViT-H-14-laion2B-s32B-b79K"
    make_tiny_hps(hub, name="HPS_v2_compressed.pt", seed=0)
    make_tiny_hps(hub, name="HPS_v2.1_compressed.pt", seed=1)
    shutil.copytree(hub, tokenizer, ignore=shutil.ignore_patterns("*.pt"))
    (tmp_path / "s.jsonl").write_text(json.dumps({"output": files[0], "prompt": "a cat"}) + "\n")
    run = beholder.evaluate(str(tmp_path / "s.jsonl"), metrics=["hpsv2", "hpsv2.1"], out=str(tmp_path / "run"))
    old, new = (run.scores.column(name)[0].as_py() for name in ("hpsv2", "hpsv2.1"))
    assert old != new
    assert run.labels == ["hpsv2", "hpsv2.1"]
    assert {model["id"] for model in run.header["models"].values()} == {"hps:v2.0", "hps:v2.1"}


def test_s5_encoder_and_preprocessing_are_part_of_the_identity_and_differences_are_told(
    tmp_path: Path, files: list[str], tiny_model: Any, cli: Any
) -> None:
    (tmp_path / "s.jsonl").write_text(json.dumps({"output": files[0], "prompt": "a cat"}) + "\n")
    for name, model in (("a", tiny_model("clip")), ("b", tiny_model("siglip"))):
        made = cli("run", tmp_path / "s.jsonl", "-m", "clip_score", "--model", model, "-o", tmp_path / name)
        assert made.exit_code == 0, made.stderr
    (one,), (other,) = (beholder.open_run_folder(tmp_path / name).header["models"].values() for name in "ab")
    assert one["weights_sha256"] != other["weights_sha256"]
    assert one["preprocessing"] != other["preprocessing"]
    shown = cli("show", tmp_path / "a", tmp_path / "b")
    assert shown.exit_code == 0
    assert "Warning" in shown.stderr
    clash = cli("run", tmp_path / "s.jsonl", "-m", "clip_score", "--model", tiny_model("siglip"), "-o", tmp_path / "a")
    assert clash.exit_code == 2
    assert "models" in clash.stderr
