"""Metrics of other packages, through entry points: they work, and broken ones break nothing else."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.conftest import beholder as run_cli
from tests.cli.conftest import data as small_data

import beholder
from beholder._errors import UserError
from beholder.backends import engine_table
from beholder.metrics import catalog
from beholder.metrics.base import FeatureBatch, ScoreColumns, Slot
from beholder.metrics.clip import ClipT

cli, data = run_cli, small_data  # the fixtures of the command line's tests

VALUE = 5


def make(options: Any = None, **settings: Any) -> int:
    return 7


class TheirWidth(beholder.SampleMetric):
    """A metric as a plug-in would bring it."""

    info = dataclasses.replace(ClipT.info, name="their_width", range=(None, None), options=())
    slots = (Slot("image", "fake:dim=4", "image_embedding"),)

    def select(self, sample: Any) -> Any:
        return {"image": sample.output}

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        return ScoreColumns(batch.one("image")[:, 0].astype(np.float64))


class BadStart(TheirWidth):
    info = dataclasses.replace(TheirWidth.info, name="bad_start")

    def __init__(self) -> None:
        raise AssertionError("takes no options")


class NotStarting:
    def __init__(self) -> None:
        raise RuntimeError("no start")


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    targets = {
        "their_width": "TheirWidth", "clip_score": "TheirWidth", "number": "VALUE", "function": "make",
        "other_name": "TheirWidth", "no_attribute": "Nothing", "bad_start": "BadStart",
    }  # fmt: skip
    points = [importlib.metadata.EntryPoint(name, f"{__name__}:{a}", "beholder.metrics") for name, a in targets.items()]
    points.append(importlib.metadata.EntryPoint("no_module", "not_there:Metric", "beholder.metrics"))
    engine = importlib.metadata.EntryPoint("lame", f"{__name__}:NotStarting", "beholder.backends")
    found = {"beholder.metrics": points, "beholder.backends": [engine]}
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: found.get(group, []))
    for registry in (catalog.METRICS, engine_table.ENGINES):
        for name in ("_targets", "_loaded"):
            monkeypatch.setattr(registry, name, dict(getattr(registry, name)))
        monkeypatch.setattr(registry, "_broken", {})
        monkeypatch.setattr(registry, "_plugins_read", False)


@pytest.mark.usefixtures("plugins")
def test_a_plugin_scores_and_broken_ones_are_listed(cli: Callable[..., Any], data: Path) -> None:
    result = cli("run", data, "-m", "their_width", "-m", "clip_score", "--model", "fake:dim=4", "-o", "a")
    assert result.exit_code == 0, result.stderr
    assert "their_width" in cli("show", "a", "--by", "category").stdout
    listed = cli("list", "--json")
    assert listed.exit_code == 0, listed.stderr
    broken = {item["name"]: item["reason"] for item in json.loads(listed.stdout)["broken"]}
    assert set(broken) == {"clip_score", "number", "function", "other_name", "no_attribute", "no_module"}
    assert "taken by beholder.metrics.clip:ClipScore" in broken["clip_score"]
    assert "derived from SampleMetric; got 5" in broken["number"]
    assert "derived from SampleMetric" in broken["function"]
    assert "'other_name' and 'their_width'" in broken["other_name"]
    doctor = cli("doctor")
    assert "plug-in number" in doctor.stdout
    assert "plug-in lame" in doctor.stdout


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize("name", ["number", "function", "other_name", "no_attribute", "no_module", "bad_start"])
def test_a_broken_plugin_is_a_users_error_when_it_is_asked_for(cli: Callable[..., Any], data: Path, name: str) -> None:
    for args in (("info", name), ("run", data, "-m", name)):
        result = cli(*args)
        assert result.exit_code == 2, result.stderr
        assert "Mend or uninstall the package that provides it" in result.stderr
    with pytest.raises(UserError, match="Mend or uninstall"):
        beholder.evaluate(str(data), metrics=name)


@pytest.mark.usefixtures("plugins")
def test_an_engine_that_does_not_start_is_listed_as_broken(cli: Callable[..., Any]) -> None:
    assert [(item.name, item.reason) for item in engine_table.broken_engines()] == [("lame", "RuntimeError: no start")]
    assert "Broken plug-in lame" in cli("models").stderr


def test_what_ships_is_not_broken() -> None:
    assert engine_table.broken_engines() == []
    assert [info.name for info in beholder.list_metrics()] == catalog.METRICS.names()
    assert catalog.METRICS.broken() == []
