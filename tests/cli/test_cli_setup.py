"""`list`, `info`, `validate`, `manifest`, `models`, `cache`, `doctor`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import FAKE, read_rows, write_rows

from beholder.cli import checks
from beholder.metrics.catalog import METRICS
from beholder.runs import file_systems

Cli = Callable[..., Any]


def test_list_has_every_metric_with_its_facts(beholder: Cli) -> None:
    result = beholder("list")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()[2:]] == METRICS.names()
    line = next(line for line in result.stdout.splitlines() if line.startswith("clip_score "))
    assert line.split()[1:5] == ["clip", "↑", "cosine", "openai:ViT-L-14"]


def test_list_one_family_or_the_models(beholder: Cli) -> None:
    found = json.loads(beholder("list", "--family", "preference", "--json").stdout)
    assert {item["family"] for item in found["metrics"]} == {"preference"}
    assert found["broken"] == []
    models = json.loads(beholder("list", "--models", "--json").stdout)["models"]
    assert "hf:openai/clip-vit-large-patch14" in [item["id"] for item in models]
    for args in (("list", "--family", "clap"), ("models", "list", "--family", "clop")):
        result = beholder(*args)
        assert result.exit_code == 2
        assert "Did you mean clip" in result.stderr


def test_a_broken_plugin_is_listed_as_broken(beholder: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    METRICS.names()
    monkeypatch.setitem(METRICS._targets, "their_score", "their_package.scores:TheirScore")
    monkeypatch.setattr(METRICS, "_broken", {})
    result = beholder("list")
    assert result.exit_code == 0
    assert "clip_score" in result.stdout
    assert "Broken plug-in their_score (their_package.scores:TheirScore): ModuleNotFoundError" in result.stderr
    assert json.loads(beholder("list", "--json").stdout)["broken"][0]["name"] == "their_score"


def test_info_prints_the_whole_card(beholder: Cli) -> None:
    for name in METRICS.names():
        text = beholder("info", name).stdout
        info = METRICS.get(name).info
        for fact in (info.summary, info.formula, info.unit, info.degenerate, *(option.doc for option in info.options)):
            assert fact in text
        assert json.loads(beholder("info", name, "--json").stdout)["name"] == name


def test_info_prints_defaults_as_they_are_typed(beholder: Cli) -> None:
    text = " ".join(beholder("info", "hcs").stdout.split())
    assert 'Default: "a photo of {}".' in text
    assert 'Default: "".' in text
    assert "Default: []." in text
    assert "Default: true." in " ".join(beholder("info", "ra_clip_score").stdout.split())


def test_info_of_a_variant_shows_what_its_options_make(beholder: Cli) -> None:
    text = beholder("info", "clip_score,variant=hessel").stdout
    assert text.startswith("clip_score(variant=hessel)\n")
    assert "0 to 2.5" in text
    assert "model=openai:ViT-B-32" in text


@pytest.mark.parametrize(
    ("name", "unit", "ends", "model"),
    [
        ("clip_score", "cosine", [-1.0, 1.0], "openai:ViT-L-14"),
        ("clip_score(variant=hessel)", "2.5 × cosine, at least 0", [0.0, 2.5], "openai:ViT-B-32"),
        ("clip_score(variant=hessel,model=openai:ViT-B-16)", "2.5 × cosine, at least 0", [0.0, 2.5], "openai:ViT-B-32"),
        ("clip_score(variant=x100)", "100 × cosine", [-100.0, 100.0], "openai:ViT-L-14"),
        ("pick_score(output=probability)", "probability", [0.0, 1.0], "pickscore-v1"),
        ("itm_score(output=logit)", "logit", [None, None], "blip2-itm"),
        ("vqa_score(calibrate=prior)", "probability ratio", [0.0, None], "clip-flant5-xxl"),
    ],
)
def test_unit_range_and_default_model_are_those_of_the_options(
    beholder: Cli, name: str, unit: str, ends: list[float | None], model: str
) -> None:
    lines = {line.strip()[:18].strip(): line.strip()[18:].strip() for line in beholder("info", name).stdout.split("\n")}
    card = json.loads(beholder("info", name, "--json").stdout)
    assert (lines["unit"], card["unit"]) == (unit, unit)
    assert (lines["default model"], card["default_model"]) == (model, model)
    assert card["range"] == ends


@pytest.mark.parametrize("name", ["openai:ViT-L-14", "openai:ViT-L/14", "hf:openai/clip-vit-large-patch14"])
def test_info_of_a_model_by_any_of_its_names(beholder: Cli, name: str) -> None:
    text = beholder("info", name).stdout
    assert text.startswith("hf:openai/clip-vit-large-patch14\n")
    assert "MIT" in text
    assert json.loads(beholder("info", name, "--json").stdout)["arch"] == "ViT-L-14"


@pytest.mark.parametrize(
    ("name", "near"),
    [("clip_scoer", "clip_score"), ("openai:ViT-L-41", "openai:ViT-L-14"), ("clip_i(reduc=max)", "reduce")],
)
def test_info_suggests_near_names(beholder: Cli, name: str, near: str) -> None:
    result = beholder("info", name)
    assert result.exit_code == 2
    assert near in result.stderr


def test_validate_reports_both_kinds_of_faults_and_exits_2(beholder: Cli, data: Path) -> None:
    assert beholder("validate", data).exit_code == 0
    rows = read_rows(data)
    rows[2]["output"] = "out/none.png"
    rows[4]["id"] = rows[0]["id"]
    write_rows(data, rows)
    result = beholder("validate", data)
    assert result.exit_code == 2
    assert "row 3" in result.stdout
    assert "row 5" in result.stdout
    report = json.loads(beholder("validate", data, "--json").stdout)
    assert report["ok"] is False
    assert {fault["kind"] for fault in report["faults"]} == {"form", "row"}


def test_columns_can_be_renamed_on_the_command_line(beholder: Cli, data: Path) -> None:
    rows = [{"picture": row["output"], "words": row["prompt"]} for row in read_rows(data)]
    write_rows(data, rows)
    assert beholder("validate", data).exit_code == 2
    args = (data, "--map", "picture=output", "--map", "words=prompt")
    assert beholder("validate", *args).exit_code == 0
    assert beholder("manifest", *args, "-o", "new.jsonl").exit_code == 0
    assert {"output", "prompt"} <= set(read_rows(Path("new.jsonl"))[0])


@pytest.mark.parametrize("command", [("validate",), ("manifest", "-o", "new.jsonl")])
def test_input_options_are_checked_all_at_once(beholder: Cli, data: Path, command: tuple[str, ...]) -> None:
    result = beholder(*command, "none.jsonl", "--map", "x", "--prompts", "none.csv")
    assert result.exit_code == 2
    for said in ("none.jsonl", "none.csv", "--map", "--outputs"):
        assert said in result.stderr
    assert not Path("new.jsonl").exists()


def test_models_where_and_verify(beholder: Cli) -> None:
    assert beholder("models").stdout == beholder("list", "--models").stdout
    found = json.loads(beholder("models", "where", FAKE, "--json").stdout)
    assert (found["id"], len(found["weights_sha256"])) == (FAKE, 64)
    assert "The weights load completely." in beholder("models", "verify", FAKE).stderr
    result = beholder("models", "where", "openai:ViT-B-32")
    assert result.exit_code == 2
    assert "beholder models pull openai:ViT-B-32" in result.stderr


def test_models_verify_exits_1_when_weights_do_not_fit(beholder: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from beholder._errors import WeightsMismatchError
    from beholder.backends import pool

    def refuse(*args: Any, **settings: Any) -> None:
        raise WeightsMismatchError("every key must match", got="one too many")

    monkeypatch.setattr(pool, "load_model", refuse)
    result = beholder("models", "verify", FAKE)
    assert result.exit_code == 1
    assert "every key must match; got one too many" in result.stderr


def test_cache_info_and_prune(beholder: Cli, data: Path, own_cache: Path) -> None:
    assert "is empty" in beholder("cache").stderr
    assert not (own_cache / "features").exists(), "looking makes no folder"
    beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", "a")
    found = json.loads(beholder("cache", "info", "--json").stdout)
    assert sum(space["features"] for space in found["spaces"]) == 12 + 6
    assert FAKE in beholder("cache").stdout
    dry = json.loads(beholder("cache", "prune", "--unused-for", "0s", "--dry-run", "--json").stdout)
    assert dry["bytes"] == found["bytes"] > 0
    assert json.loads(beholder("cache", "info", "--json").stdout) == found
    assert "Removed 2 shards" in beholder("cache", "prune", "--max-size", "0").stdout
    assert json.loads(beholder("cache", "info", "--json").stdout)["bytes"] == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [((), "needs a bound"), (("--max-size", "ten"), "a size must be"), (("--unused-for", "3 moons"), "a time must be")],
)
def test_wrong_use_of_prune(beholder: Cli, args: tuple[str, ...], said: str) -> None:
    result = beholder("cache", "prune", *args)
    assert result.exit_code == 2
    assert said in result.stderr


def test_doctor_finds_this_machine_fit(beholder: Cli, own_cache: Path) -> None:
    result = beholder("doctor")
    assert result.exit_code == 0, result.stdout
    for said in ("python", "torch", "feature store", str(own_cache)):
        assert said in result.stdout
    found = json.loads(beholder("doctor", "--json").stdout)
    assert {item["verdict"] for item in found} <= {"ok", "note", "warn"}
    assert list(own_cache.iterdir()) == []


def test_doctor_exits_1_for_what_is_missing_and_warns_of_network_folders(
    beholder: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "NEEDED", ("torch", "no-such-package"))
    monkeypatch.setattr(file_systems, "file_system", lambda folder: "nfs4")
    monkeypatch.setenv("HF_TOKEN", "very secret")
    result = beholder("doctor")
    assert result.exit_code == 1
    assert "pip install no-such-package" in result.stdout
    assert "network file system (nfs4)" in result.stdout
    assert "secret" not in result.stdout


def test_doctor_tells_of_a_store_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**settings: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(checks.tempfile, "NamedTemporaryFile", refuse)
    check = next(item for item in checks.all_checks() if item.name == "feature store")
    assert check.verdict == "fail"
    assert "cannot be written: Permission denied" in check.text


def test_the_file_system_of_a_folder_is_found_through_its_mount() -> None:
    if not Path("/proc/mounts").exists():
        assert file_systems.file_system(Path("/")) is None
    else:
        assert file_systems.file_system(Path("/proc/self")) == "proc"
