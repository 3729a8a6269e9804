"""A way to run the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from beholder.cli.main import app


@pytest.fixture
def beholder(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs the command line in this process: `.exit_code`, `.stdout`, `.stderr`."""
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS", "BEHOLDER_DEBUG"):
        monkeypatch.delenv(name, raising=False)

    def call(*args: object) -> Any:
        return CliRunner().invoke(app, [str(arg) for arg in args])

    return call
