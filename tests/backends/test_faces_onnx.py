"""Where onnxruntime runs a face model, and how it computes there; a stand-in for the package says what it was asked."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beholder.backends.faces.onnx import open_session

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"


def asked(monkeypatch: pytest.MonkeyPatch, device: str, have: list[str]) -> list[Any]:
    """The providers that a session is opened with."""
    found: list[Any] = []

    def session(path: str, *, sess_options: Any, providers: list[Any]) -> None:
        found.extend(providers)

    stand_in = SimpleNamespace(
        SessionOptions=SimpleNamespace, get_available_providers=lambda: have, InferenceSession=session
    )
    monkeypatch.setitem(sys.modules, "onnxruntime", stand_in)
    open_session(Path("det_10g.onnx"), device=device, name="insightface")
    return found


@pytest.mark.parametrize(("device", "number"), [("cuda", 0), ("cuda:0", 0), ("cuda:3", 3)])
def test_on_a_gpu_float32_is_whole(monkeypatch: pytest.MonkeyPatch, device: str, number: int) -> None:
    assert asked(monkeypatch, device, [CUDA, CPU]) == [(CUDA, {"device_id": number, "use_tf32": 0}), CPU]


@pytest.mark.parametrize(("device", "have"), [("cpu", [CUDA, CPU]), ("cuda:1", [CPU]), ("mps", [CUDA, CPU])])
def test_else_it_runs_on_the_cpu(monkeypatch: pytest.MonkeyPatch, device: str, have: list[str]) -> None:
    assert asked(monkeypatch, device, have) == [CPU]
