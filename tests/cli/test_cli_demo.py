"""`beholder demo` as a command; what it builds and how well it ranks is tested with the demo itself."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import FAKE


def test_demo_hands_its_options_on_and_prints_the_table(
    beholder: Callable[..., Any], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import beholder as package

    seen: dict[str, Any] = {}

    def run_demo(out: str, *, seed: int, model: str, progress: Any) -> Any:
        seen.update(out=out, seed=seed, model=model)
        return package.run(str(data), metrics="clip_score", model=model, out=out, progress=progress)

    build = types.ModuleType("beholder.demo.build")
    build.run_demo = run_demo  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "beholder.demo.build", build)
    result = beholder("demo", "-o", "here", "--seed", "3", "--model", FAKE)
    assert result.exit_code == 0, result.stderr
    assert seen == {"out": "here", "seed": 3, "model": FAKE}
    assert result.stdout.startswith("metric ")
    assert "Run folder: here" in result.stderr


def test_demo_can_be_interrupted(beholder: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def run_demo(*args: Any, **settings: Any) -> None:
        raise KeyboardInterrupt

    build = types.ModuleType("beholder.demo.build")
    build.run_demo = run_demo  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "beholder.demo.build", build)
    result = beholder("demo")
    assert result.exit_code == 130
    assert "the same command goes on" in result.stderr


def test_a_seed_below_zero_is_wrong_use(beholder: Callable[..., Any]) -> None:
    assert beholder("demo", "--seed", "-1").exit_code == 2


@pytest.mark.parametrize(
    ("out", "said"), [("samples.jsonl", "Name another with -o"), (".", "must be empty or hold a demo")]
)
def test_a_demo_takes_the_place_of_nothing_else(beholder: Callable[..., Any], data: Path, out: str, said: str) -> None:
    before = {path: path.read_bytes() for path in data.parent.rglob("*") if path.is_file()}
    result = beholder("demo", "-o", out, "--model", FAKE)
    assert result.exit_code == 2, result.stderr
    assert said in result.stderr
    assert {path: path.read_bytes() for path in data.parent.rglob("*") if path.is_file()} == before
