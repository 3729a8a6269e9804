"""A bug is never hidden, and a user error never shows a traceback unless it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import beholder.runs.session as session


def boom(*args: Any, **settings: Any) -> None:
    raise ZeroDivisionError("broken inside")


def test_a_bug_exits_70_and_asks_for_a_report(
    beholder: Callable[..., Any], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "execute", boom)
    args = ("run", data, "-m", "clip_score", "--model", "fake:dim=16")
    result = beholder(*args)
    assert result.exit_code == 70
    assert "ZeroDivisionError: broken inside" in result.stderr
    assert "in cli/run.py, line" in result.stderr
    assert "BEHOLDER_DEBUG=1" in result.stderr
    assert "Traceback" not in result.stderr
    monkeypatch.setenv("BEHOLDER_DEBUG", "1")
    result = beholder(*args)
    assert result.exit_code == 70
    assert "Traceback" in result.stderr
    assert "the traceback above" in result.stderr


def test_debug_shows_the_traceback_of_user_errors_too(
    beholder: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Traceback" not in beholder("info", "nothing_like_it").stderr
    monkeypatch.setenv("BEHOLDER_DEBUG", "1")
    result = beholder("info", "nothing_like_it")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr


def test_an_interrupt_anywhere_exits_130(beholder: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from beholder.backends import pool

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pool, "list_models", interrupt)
    result = beholder("models")
    assert result.exit_code == 130
    assert result.stderr == "Interrupted.\n"
