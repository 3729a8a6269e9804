"""Plans, labels, settings and dry runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.runs.helpers import counting, write_set

import beholder
from beholder._errors import InputError, OptionError, UnknownNameError, UserError, WeightsMissingError
from beholder.runs.config import PRESETS, make_config, preset_settings, read_toml, settings_like
from beholder.runs.dry_run import dry_run
from beholder.runs.plan import make_labels, make_metrics, make_plan


@pytest.mark.parametrize(
    ("asked", "labels"),
    [
        (["clip_score"], ["clip_score"]),
        (["clip_score,as=c", "clip_i"], ["c", "clip_i"]),
        (["clip_score", "clip_score(variant=x100)"], ["clip_score", "clip_score(variant=x100)"]),
        (
            ["clip_score(model=fake:dim=8, variant=x100)", "clip_score(model=fake:dim=4, variant=x100)"],
            ["clip_score(model=fake:dim=8)", "clip_score(model=fake:dim=4)"],
        ),
        (
            ["clip_i(model=fake)", "clip_i(model=fake, reduce=max)", "clip_i,model=fake,reduce=first,as=f"],
            ["clip_i", "clip_i(reduce=max)", "f"],
        ),
        (
            [
                "clip_i(model=a:1, reduce=max)",
                "clip_i(model=a:1, reduce=first)",
                "clip_i(model=b:1, reduce=max)",
                "clip_i(model=b:1, reduce=first)",
            ],
            [
                "clip_i(model=a:1, reduce=max)",
                "clip_i(model=a:1, reduce=first)",
                "clip_i(model=b:1, reduce=max)",
                "clip_i(model=b:1, reduce=first)",
            ],
        ),
    ],
)
def test_labels_are_short_and_tell_metrics_apart(asked: list[str], labels: list[str]) -> None:
    assert make_labels(make_metrics(asked)) == labels


def test_equal_labels_are_refused() -> None:
    with pytest.raises(OptionError, match="as=LABEL"):
        make_labels(make_metrics(["clip_score,as=a", "clip_i,as=a"]))


def test_metrics_on_one_encoder_share_its_spaces() -> None:
    counting()
    plan = make_plan(make_config({"metrics": ["clip_score", "clip_i", "clip_t"], "model": "counting"}))
    assert len(plan.models) == 1
    spaces = [(space.feature, "frames" in space.params) for space, _ in plan.spaces().values()]
    assert sorted(spaces) == [("image_embedding", False), ("image_embedding", True), ("text_embedding", False)]


def test_what_moves_numbers_moves_the_key() -> None:
    base: dict[str, Any] = {"metrics": ["clip_score"], "model": "fake:dim=8"}
    key = make_plan(make_config(base)).key
    assert make_plan(make_config({**base, "device": "cpu", "workers": 3, "seed": 5})).key == key
    for change in (
        {"model": "fake:dim=9"}, {"metrics": ["clip_score(variant=x100)"]}, {"background": (0, 0, 0)},
        {"first_frame": True}, {"max_pixels": 1000}, {"truncation": "error"},
    ):  # fmt: skip
        assert make_plan(make_config({**base, **change})).key != key, change


def test_all_wrong_settings_are_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        make_config({"metrcs": ["clip_score"], "max_failed": 3, "truncation": "maybe", "level": 0}, source="eval.toml")
    text = str(caught.value)
    assert text.startswith("eval.toml has 4 faults")
    assert "Did you mean metrics?" in text
    for name in ("max_failed", "truncation", "level"):
        assert name in text


def test_a_toml_file_is_read_relative_to_itself(tmp_path: Path) -> None:
    path = tmp_path / "eval.toml"
    path.write_text('data = "samples.jsonl"\nmetrics = "clip_score"\nout = "s3://bucket/run"\nby = ["method"]\n')
    settings = read_toml(path)
    assert settings["data"] == str(tmp_path / "samples.jsonl")
    assert settings["out"] == "s3://bucket/run"
    config = make_config(settings)
    assert (config.metrics, config.by) == (("clip_score",), ("method",))
    path.write_text("metrics = [")
    with pytest.raises(UserError, match="valid TOML"):
        read_toml(path)
    with pytest.raises(UserError, match="readable"):
        read_toml(tmp_path / "none.toml")


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_presets_name_metrics_that_exist(name: str) -> None:
    settings, about = preset_settings(name)
    identities = [metric.identity for metric, _ in make_metrics(settings["metrics"])]
    assert identities == list(settings["metrics"])
    assert about.endswith(".")


def test_an_unknown_preset_suggests_one() -> None:
    with pytest.raises(UnknownNameError, match="dreambooth"):
        preset_settings("dreamboth")


def test_like_takes_the_identity_of_a_run_and_nothing_else(tmp_path: Path) -> None:
    counting()
    data = write_set(tmp_path, 4)
    run = beholder.evaluate(
        str(data), metrics="clip_score(variant=x100)", model="counting", background=(0, 0, 0), level=0.9,
        max_failed=0.5, out=str(tmp_path / "o"), store=str(tmp_path / "s"),
    )  # fmt: skip
    settings = settings_like(run.path)
    assert settings["metrics"] == ["clip_score(variant=x100)"]
    assert (settings["model"], settings["level"], settings["background"]) == ("counting", 0.9, [0, 0, 0])
    assert not {"out", "data", "max_failed", "store"} & set(settings)
    assert make_plan(make_config(settings)).key == run.header["plan_key"]
    with pytest.raises(OptionError, match="run folder"):
        settings_like(tmp_path)


def test_a_dry_run_counts_what_is_stored_and_computes_nothing(tmp_path: Path) -> None:
    encoder = counting()
    data = write_set(tmp_path, 10)
    settings: dict[str, Any] = {
        "data": str(data), "metrics": ["clip_score", "clip_i"], "model": "counting", "store": str(tmp_path / "s"),
        "out": str(tmp_path / "o"),
    }  # fmt: skip
    before = dry_run(make_config(settings))
    assert encoder.prepared == 0
    assert not (tmp_path / "o").exists()
    work = {item.feature: item for item in before.work}
    assert (work["image_embedding"].needed, work["image_embedding"].stored) == (16, 0)
    assert (work["text_embedding"].needed, work["text_embedding"].stored) == (5, 0)
    assert work["text_embedding"].seconds is None
    beholder.evaluate(
        str(data), metrics="clip_score", model="counting", out=str(tmp_path / "o"), store=str(tmp_path / "s")
    )
    after = {item.feature: item for item in dry_run(make_config(settings)).work}
    assert (after["image_embedding"].needed, after["image_embedding"].stored) == (16, 10)
    assert after["text_embedding"].seconds == 0.0
    assert after["image_embedding"].seconds is not None
    json.dumps(before.to_dict(), allow_nan=False)
    assert "10 samples, metrics: clip_score(model=counting), clip_i(model=counting)" in before.lines()


def test_a_dry_run_names_what_would_be_fetched(tmp_path: Path) -> None:
    data = write_set(tmp_path, 3)
    plan = dry_run(make_config({"data": str(data), "metrics": ["clip_score"], "store": str(tmp_path / "s")}))
    (model,) = plan.models
    assert (model.id, model.here) == ("hf:openai/clip-vit-large-patch14", False)
    assert model.size_bytes is not None
    assert any("would be downloaded, 1.7 GB" in line for line in plan.lines())


def test_an_automatic_batch_is_the_models_own() -> None:
    assert make_config({"batch_size": "auto"}).batch_size is None
    assert make_config({"batch_size": "8"}).batch_size == 8


def test_all_missing_weights_are_told_of_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("BEHOLDER_CACHE", str(tmp_path / "cache"))
    data = write_set(tmp_path, 2)
    settings: dict[str, Any] = {"out": str(tmp_path / "run"), "offline": True}
    with pytest.raises(WeightsMissingError, match="needs all its models; got 3") as caught:
        beholder.evaluate(str(data), metrics=["clip_score", "clip_t", "pick_score", "dino_i"], **settings)
    for name in ("openai/clip-vit-large-patch14", "PickScore_v1", "facebook/dino-vits16"):
        assert f"hub repository {name}" in str(caught.value).replace("yuvalkirstain/", "")
    assert not (tmp_path / "run").exists()
    with pytest.raises(WeightsMissingError, match=r"^the weights of .*dino-vits16 must be on this machine"):
        beholder.evaluate(str(data), metrics=["clip_score(model=fake)", "dino_i"], **settings)
