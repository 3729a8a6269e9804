"""A device that is not there is refused before anything else, wherever it is asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.runs.helpers import write_set

import beholder
from beholder._errors import DeviceError
from beholder.backends import devices
from beholder.runs import plan as planning
from beholder.runs.config import make_config
from beholder.runs.dry_run import dry_run


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(devices, "_has_mps", lambda: False)


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize("device", ["cuda", "cuda:1", "mps"])
def test_a_run_whose_features_are_all_stored_is_refused_too(tmp_path: Path, device: str) -> None:
    data = write_set(tmp_path, 4)
    given = {"metrics": ["clip_score"], "model": "fake", "store": str(tmp_path / "store")}
    assert beholder.evaluate(str(data), out=str(tmp_path / "one"), **given).n == 4
    with pytest.raises(DeviceError, match=rf"device .{device}. needs an? .*GPU.*Use device auto"):
        beholder.evaluate(str(data), out=str(tmp_path / "two"), device=device, **given)
    assert not (tmp_path / "two").exists()


@pytest.mark.usefixtures("no_gpu")
def test_it_is_told_before_weights_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(*args: object) -> None:
        raise AssertionError(args)

    monkeypatch.setattr(planning, "resolve_all", fetch)
    (tmp_path / "a.png").touch()
    with pytest.raises(DeviceError):
        beholder.score("clip_score", images=[tmp_path / "a.png"], texts=["a"], device="cuda")
    with pytest.raises(DeviceError):
        beholder.attributes(real=str(tmp_path), gen=str(tmp_path), attributes="faces", device="cuda")


@pytest.mark.usefixtures("no_gpu")
def test_a_dry_run_plans_for_another_machine(tmp_path: Path) -> None:
    given = {"data": str(write_set(tmp_path, 4)), "metrics": ["clip_score"], "model": "fake", "device": "cuda"}
    found = dry_run(make_config({**given, "out": str(tmp_path / "o"), "store": str(tmp_path / "s")}))
    assert found.samples == 4


def test_auto_and_cpu_need_no_torch(tmp_path: Path) -> None:
    code = (
        "import json, sys\n"
        "from beholder.backends.devices import require_device\n"
        "for name in ('auto', 'cpu', 'cpu:2', 'cuda:all'): require_device(name)\n"
        "print(json.dumps('torch' in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) is False
