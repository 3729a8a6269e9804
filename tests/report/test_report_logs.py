"""What trackers are sent: recorded by stand-ins for three of them, read back from the real files of TensorBoard."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.report.report_runs import PROMPTS, pictured_run

from beholder._errors import MissingExtraError, OptionError, UserError
from beholder.reporting.logs import FOLDER, collect_log, log_runs
from beholder.runs.results import Run


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **parts: Any) -> None:
    module = ModuleType(name)
    for key, value in parts.items():
        setattr(module, key, value)
    monkeypatch.setitem(sys.modules, name, module)


def test_what_is_sent_of_a_run(tmp_path: Path) -> None:
    logged = collect_log(Run(pictured_run(tmp_path)), "mine")
    # 0.3 + 0.01 k over k = 0 … 10, and 0.2 more for the other method
    assert logged.numbers["quality.method=base"] == pytest.approx(0.35)
    assert logged.numbers["quality.method=better"] == pytest.approx(0.55)
    assert logged.numbers["quality"] == pytest.approx(0.45)
    assert logged.numbers["quality.n"] == 2 * (PROMPTS - 1)
    assert (logged.numbers["quality.missing"], logged.numbers["quality.missing.missing"]) == (2, 2)
    for name in ("quality", "quality.method=base"):
        assert logged.numbers[f"{name}.low"] < logged.numbers[name] < logged.numbers[f"{name}.high"]
    assert logged.numbers["other.missing"] == 0
    assert logged.columns == ["id", "method", "prompt", "output", "quality", "quality_status", "other", "other_status"]
    assert len(logged.rows) == 2 * PROMPTS
    assert logged.rows[11][4:6] == [None, "missing"]
    assert logged.pictures[0][0] == "quality 0.3: prompt number 0 a plain text"
    assert logged.pictures[0][1].size == (192, 144)
    assert not any("/" in name for name in logged.numbers)
    assert logged.config["quality"] == "quality"


def test_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict[str, Any] = {"summary": {}}

    class Opened:
        summary = sent["summary"]

        def __enter__(self) -> Opened:
            return self

        def __exit__(self, *_: object) -> None:
            sent["finished"] = True

        def log(self, values: dict[str, Any]) -> None:
            sent["logged"] = values

    def init(**asked: Any) -> Opened:
        sent["asked"] = asked
        return Opened()

    stand_in(monkeypatch, "wandb", init=init, Table=SimpleNamespace, Image=lambda image, caption: caption)
    log_runs("wandb", pictured_run(tmp_path), project="p")
    assert (sent["asked"]["project"], sent["asked"]["name"], sent["finished"]) == ("p", "run", True)
    assert sent["summary"]["quality"] == pytest.approx(0.45)
    assert len(sent["logged"]["samples"].data) == 2 * PROMPTS
    assert sent["logged"]["worst"][0].startswith("quality 0.3")


def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Open:
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    files: dict[str, Any] = {}
    numbers: dict[str, float] = {}
    stand_in(
        monkeypatch,
        "mlflow",
        set_experiment=lambda name: files.update(experiment=name),
        start_run=lambda run_name: Open(),
        log_metrics=numbers.update,
        **{name: lambda value, place: files.update({place: value}) for name in ("log_dict", "log_image", "log_text")},
    )
    log_runs("mlflow", pictured_run(tmp_path))
    assert files["experiment"] == "beholder"
    assert numbers["quality.method_better"] == pytest.approx(0.55)
    assert len(files["samples.json"]["data"]) == 2 * PROMPTS
    assert files["worst/0.txt"].startswith("quality 0.3")
    assert files["worst/0.png"].size == (192, 144)


def test_trackio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    stand_in(
        monkeypatch,
        "trackio",
        init=lambda **asked: sent.append(asked["project"]),
        log=sent.append,
        finish=lambda: sent.append("finished"),
        Table=lambda dataframe: dataframe,
        Image=lambda image, caption: caption,
    )
    log_runs("trackio", pictured_run(tmp_path), project="p")
    assert (sent[0], sent[2]) == ("p", "finished")
    assert sent[1]["quality"] == pytest.approx(0.45)
    assert sent[1]["samples"].shape == (2 * PROMPTS, 8)
    assert sent[1]["worst/0"].startswith("quality 0.3")


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed (base environment)")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = pictured_run(tmp_path)
    log_runs("tensorboard", run)
    found = EventAccumulator(str(run / FOLDER)).Reload()
    assert found.Scalars("quality")[0].value == pytest.approx(0.45)
    image = found.Images("worst/0")[0]
    assert (image.width, image.height) == (192, 144)
    (text,) = found.Tensors("samples/text")[0].tensor_proto.string_val
    assert text.decode().count("prompt number") == 2 * PROMPTS


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = pictured_run(tmp_path)
    with pytest.raises(OptionError, match="wandb, mlflow, tensorboard, trackio"):
        log_runs("comet", run)
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtraError, match=r"beholder\[wandb\]"):
        log_runs("wandb", run)

    def init(**_: Any) -> None:
        raise RuntimeError("no account")

    stand_in(monkeypatch, "wandb", init=init)
    with pytest.raises(UserError, match="no account"):
        log_runs("wandb", run)
