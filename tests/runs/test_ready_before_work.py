"""A model that cannot be used, for want of a key, is told of before anything is made; stored replies need no key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.metrics.test_natural_score import Judge
from tests.runs.helpers import counting
from tests.runs.test_decoded_once import decodes  # noqa: F401  (a fixture)
from tests.runs.test_visuals import frames_folder
from typer.testing import CliRunner

import beholder
from beholder._errors import ModelError, WeightsMissingError
from beholder.backends import pool
from beholder.cli.main import app

RUN_TWO = ["clip_score(model=counting,frames=uniform:4)", "natural_score"]


def rows_for(tmp_path: Path, count: int = 2) -> list[dict[str, Any]]:
    return [
        {"id": str(at), "output": str(frames_folder(tmp_path / f"{at}.clip", 5, seed=at)), "prompt": f"a {at}"}
        for at in range(count)
    ]


def evaluate(rows: Any, tmp_path: Path, metrics: Any, name: str = "out") -> Any:
    return beholder.evaluate(rows, metrics=metrics, out=str(tmp_path / name), store=str(tmp_path / "store"))


@pytest.mark.parametrize("stream", [False, True])
def test_a_missing_key_costs_no_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decodes: Any, stream: bool  # noqa: F811
) -> None:  # fmt: skip
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    encoder = counting()
    rows = rows_for(tmp_path)
    with pytest.raises(ModelError, match="OPENAI_API_KEY"):
        evaluate(iter(rows) if stream else rows, tmp_path, RUN_TWO)
    assert (encoder.prepared, encoder.texts, dict(decodes)) == (0, [], {})


def test_two_models_without_a_key_are_named_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    both = ["natural_score", "vqa_score(model=api:gemini/gemini-2.5-pro)"]
    with pytest.raises(ModelError) as caught:
        evaluate(rows_for(tmp_path), tmp_path, both)
    assert "OPENAI_API_KEY" in str(caught.value)
    assert "GEMINI_API_KEY" in str(caught.value)


def test_weights_that_are_missing_are_named_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    for variable in ("WORLDFOUNDRY_GME_MODEL_PATH", "WORLDFOUNDRY_YOLO_WORLD_CKPT", "WORLDFOUNDRY_OPENS2V_WEIGHT_DIR"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(WeightsMissingError) as caught:
        evaluate(rows_for(tmp_path), tmp_path, ["nexus_score", "laion_aesthetic"])
    told = str(caught.value)
    assert "WORLDFOUNDRY_GME_MODEL_PATH" in told
    assert "WORLDFOUNDRY_YOLO_WORLD_CKPT" in told
    assert "clip-vit-large-patch14" in told


def test_stored_replies_need_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting()
    Judge(["4", "4", "4"])
    rows = rows_for(tmp_path)
    metrics = ["clip_score(model=counting,frames=uniform:4)", "natural_score(model=judge)"]
    first = evaluate(rows, tmp_path, metrics)
    fault = ModelError("judge needs a key")
    monkeypatch.setattr(pool, "not_ready", lambda model: fault if model.id == "judge" else None)
    again = evaluate(rows, tmp_path, metrics, "again")
    assert again.scores.to_pylist() == first.scores.to_pylist()
    encoder = counting()
    with pytest.raises(ModelError, match="needs a key"):
        more = {"id": "9", "output": str(frames_folder(tmp_path / "9.clip", 5, seed=9)), "prompt": "a 9"}
        evaluate([*rows, more], tmp_path, metrics, "other")
    assert encoder.prepared == 0, "something was stored, but the new video would need the judge"


def test_the_benchmark_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decodes: Any  # noqa: F811
) -> None:  # fmt: skip
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("BEHOLDER_CACHE", str(tmp_path / "cache"))
    frames_folder(tmp_path / "frames", 4)
    from PIL import Image

    pictures = [Image.open(tmp_path / "frames" / f"{at}.png") for at in range(4)]
    (tmp_path / "data" / "videos").mkdir(parents=True)
    pictures[0].save(tmp_path / "data" / "videos" / "singleobj_1.webp", save_all=True, append_images=pictures[1:])
    entry = {"singleobj_1": {"img_paths": [], "class_label": [], "prompt": "a cup"}}
    (tmp_path / "data" / "Open-Domain_Eval.json").write_text(json.dumps(entry), encoding="utf-8")
    asked = ["bench", "opens2v", str(tmp_path / "data"), "-o", str(tmp_path / "run"), "--only", "-m", "natural_score"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 2
    told = done.output
    assert "OPENAI_API_KEY" in told
    assert "Traceback" not in told
    assert not decodes
