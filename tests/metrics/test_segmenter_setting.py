"""The run's segmenter: what metrics take that name none, from the call, the command line, a TOML file and `--like`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import beholder
from beholder._errors import InputError, OptionError, WeightsMissingError
from beholder.cli.main import app
from beholder.runs.config import make_config, preset_settings
from beholder.runs.plan import make_metrics
from beholder.runs.results import open_run_folder


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A red square of a quarter of the picture; its mask in the manifest is the upper half."""
    monkeypatch.chdir(tmp_path)
    pixels = np.full((32, 32, 3), 255, np.uint8)
    pixels[8:24, 8:24] = (220, 50, 47)
    Image.fromarray(pixels).save("a.png")
    half = np.zeros((32, 32), np.uint8)
    half[:16] = 255
    Image.fromarray(half).save("mask.png")
    row = {"id": "a", "output": "a.png", "references": ["a.png"], "seg_prompt": "red", "masks": "mask.png"}
    Path("rows.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    return "rows.jsonl"


def area(run: Any, label: str = "clip_i_seg") -> float:
    return float(json.loads(run.scores.to_pylist()[0][f"{label}_evidence"])["seg_area"])


def test_it_sets_the_segmenter_of_metrics_that_name_none_even_beside_masks(data: str) -> None:
    metrics = ["clip_i_seg", "clip_i_seg,segmenter=fake,as=own", "clip_i"]
    run = beholder.evaluate(data, metrics=metrics, segmenter="color", model="fake", out="a", store="s")
    assert [item["identity"] for item in run.header["metrics"]] == [
        "clip_i_seg(model=fake, segmenter=color)", "clip_i_seg(model=fake, segmenter=fake)", "clip_i(model=fake)"
    ]  # fmt: skip
    assert area(run) == pytest.approx(0.25)  # the square, not the manifest's half
    plain = beholder.evaluate(data, metrics="clip_i_seg", model="fake", out="b", store="s")
    assert area(plain) == pytest.approx(0.5)


def test_its_thresholds_are_the_segmenters_own() -> None:
    (metric, _), (other, _) = make_metrics(["dino_i_seg", "background_share,threshold=0.9"], segmenter="owlv2+sam")
    assert (metric.options["threshold"], other.options["threshold"]) == (0.1, 0.9)
    assert metric.identity == "dino_i_seg(segmenter=owlv2+sam)"


def test_it_needs_a_metric_that_segments() -> None:
    with pytest.raises(OptionError, match=r"--segmenter needs a metric that segments.*clip_i"):
        make_metrics(["clip_i"], segmenter="color")
    with pytest.raises(InputError, match="segmenter"):
        make_config({"metrics": ["clip_i_seg"], "segmenter": ""})


def test_the_command_line_a_toml_file_and_like(data: str) -> None:
    Path("eval.toml").write_text(
        'data = "rows.jsonl"\nmetrics = "clip_i_seg"\nmodel = "fake"\nsegmenter = "masks"\nout = "file"\nstore = "s"\n'
    )

    def call(*args: str) -> Any:
        return CliRunner().invoke(app, ["run", *args])

    assert call("eval.toml").exit_code == 0
    assert area(open_run_folder("file")) == pytest.approx(0.5)
    assert call("eval.toml", "--segmenter", "color", "-o", "line").exit_code == 0
    assert area(open_run_folder("line")) == pytest.approx(0.25)
    assert call(data, "--like", "line", "-o", "like").exit_code == 0
    assert open_run_folder("like").header["plan_key"] == open_run_folder("line").header["plan_key"]
    wrong = call(data, "-m", "clip_i", "--model", "fake", "--segmenter", "color", "-o", "none")
    assert wrong.exit_code == 2
    assert "segments" in wrong.stderr
    assert not Path("none").exists()


def test_bench_gives_it_to_added_metrics_and_refuses_it_where_nothing_segments(data: str) -> None:
    settings: Any = {"segmenter": "color", "model": "fake", "store": "s"}
    found = beholder.bench("dreambench", data, metrics=["clip_i_seg"], only=True, out="a", **settings)
    assert [item["identity"] for item in found.run.header["metrics"]] == ["clip_i_seg(model=fake, segmenter=color)"]
    with pytest.raises(OptionError, match="segments"):
        beholder.bench("dreambench", data, metrics=["clip_i"], only=True, out="b", **settings)


def test_missing_weights_name_the_flag(data: str) -> None:
    for name, other in (("sam3", "--segmenter gdino\\+sam2"), ("gdino+sam", "--segmenter sam3")):
        with pytest.raises(WeightsMissingError, match=other):
            beholder.evaluate(data, metrics="clip_i_seg", segmenter=name, model="fake", offline=True, out="a")


def test_presets_of_subjects_and_of_prompts() -> None:
    metrics, about = preset_settings("dreambooth")
    assert metrics["metrics"][0] == "dino_i"
    assert "not built" not in about
    from beholder.protocols.catalog import PROTOCOLS

    protocol = PROTOCOLS.get("genai-bench")()
    assert list(preset_settings("genai-bench")[0]["metrics"]) == [use.spec for use in protocol.uses]


def test_score_takes_a_segmenter_a_mask_and_a_phrase(data: str) -> None:
    def share(**more: Any) -> float:
        table = beholder.score("clip_i_seg", images="a.png", references="a.png", model="fake", **more)
        return float(table.rows[0].score.evidence["seg_area"])

    assert share(seg_prompt="red", segmenter="color") == pytest.approx(0.25)
    assert share(masks="mask.png") == pytest.approx(0.5)
    assert share(masks="mask.png", seg_prompt="red", segmenter="color") == pytest.approx(0.25)
    with pytest.raises(OptionError, match="--segmenter needs a metric that segments"):
        beholder.score("clip_score", images="a.png", texts="red", model="fake", segmenter="color")


def test_score_takes_them_on_the_command_line(data: str) -> None:
    def share(*more: str) -> float:
        line = ["score", "a.png", "-m", "clip_i_seg", "-r", "a.png", "--model", "fake", "--json", *more]
        result = CliRunner().invoke(app, line)
        assert result.exit_code == 0, result.stderr
        return float(json.loads(result.stdout)["rows"][0]["evidence"]["seg_area"])

    # The first phrase finds nothing, the second the square.
    assert share("--seg-prompt", "green", "--seg-prompt", "red", "--segmenter", "color") == pytest.approx(0.25)
    assert share("--mask", "mask.png") == pytest.approx(0.5)
    wrong = CliRunner().invoke(app, ["score", "a.png", "-t", "red", "--model", "fake", "--segmenter", "color"])
    assert (wrong.exit_code, "--segmenter needs a metric that segments" in wrong.stderr) == (2, True)
    two = CliRunner().invoke(app, ["score", "a.png", "-m", "clip_i_seg", "-r", "a.png", "--mask", "b", "--mask", "c"])
    assert two.exit_code == 2
