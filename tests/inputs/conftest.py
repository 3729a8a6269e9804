"""Small inputs that broke other tools, scored from end to end with a tiny real CLIP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.models import TINY_FAMILIES
from typer.testing import CliRunner

import beholder
from beholder.cli.main import app

Rows = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The name of a tiny model of a family: a folder, made at the first request."""
    made: dict[str, str] = {}

    def name(family: str = "clip") -> str:
        if family not in made:
            made[family] = str(TINY_FAMILIES[family](tmp_path_factory.mktemp("tiny") / family))
        return made[family]

    return name


@pytest.fixture
def picture(tmp_path: Path) -> str:
    """A picture file with something in it."""
    return noise(tmp_path / "picture.png")


@pytest.fixture
def scored(tmp_path: Path) -> Rows:
    """Scores rows and gives the table's rows; settings as in `beholder.evaluate`."""

    def run(rows: Any, metrics: Any = "clip_score", *, out: str = "out", **settings: Any) -> list[dict[str, Any]]:
        settings.setdefault("model", "fake")
        found = beholder.evaluate(rows, metrics=metrics, out=str(tmp_path / out), **settings)
        table: list[dict[str, Any]] = found.scores.to_pylist()
        return table

    return run


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The command line in this process."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(*args: object) -> Any:
        return CliRunner().invoke(app, [str(arg) for arg in args])

    return call


def noise(path: Path, size: tuple[int, int] = (40, 48), seed: int = 0) -> str:
    """A file with random pixels; its path."""
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return str(path)
