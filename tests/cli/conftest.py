"""A tiny data set, and a way to run the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from beholder.cli.main import app

FAKE = "fake:dim=16"


@pytest.fixture
def beholder(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs the command line in this process: `.exit_code`, `.stdout`, `.stderr`."""
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS", "BEHOLDER_DEBUG"):
        monkeypatch.delenv(name, raising=False)

    def call(*args: object) -> Any:
        return CliRunner().invoke(app, [str(arg) for arg in args])

    return call


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A manifest of two methods, six outputs each, with references and a category; the working folder is its own."""
    monkeypatch.chdir(tmp_path)
    rows = []
    for at, method in enumerate(("good", "bad")):
        (tmp_path / "out" / method).mkdir(parents=True)
        for number in range(6):
            path = f"out/{method}/{number}.png"
            Image.new("RGB", (16, 16), (90 * at, 40 * number, 200)).save(tmp_path / path)
            rows.append(
                {
                    "id": f"{method}-{number}",
                    "output": path,
                    "prompt": f"colour number {number}",
                    "references": [f"out/good/{(number + 1) % 6}.png"],
                    "method": method,
                    "category": "even" if number % 2 == 0 else "odd",
                }
            )
    manifest = tmp_path / "samples.jsonl"
    write_rows(manifest, rows)
    return manifest


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
