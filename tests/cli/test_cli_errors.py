"""A bug is never hidden, and a user error never shows a traceback unless it is asked for."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import beholder.runs.closing as closing
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


def test_a_full_disk_is_no_bug(beholder: Callable[..., Any], data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **settings: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "scores.parquet")

    monkeypatch.setattr(closing, "write_tables", full)
    result = beholder("run", data, "-m", "clip_score", "--model", "fake:dim=16", "-o", "a")
    assert result.exit_code == 2
    assert "No space left on device" in result.stderr
    assert "bug" not in result.stderr


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ("data=['s']\nmetrics=5\nby=3\nmapping=[1]\n", {"data", "metrics", "by", "mapping"}),
        ('data="samples.jsonl"\nmetric="x"\nbackground=[300,0,0]\ndevice="gpu"', {"metric", "background", "device"}),
    ],
)
def test_wrong_settings_of_a_file_are_told_at_once(
    beholder: Callable[..., Any], data: Path, toml: str, told: set[str]
) -> None:
    (data.parent / "e.toml").write_text(toml)
    result = beholder("run", "e.toml")
    assert result.exit_code == 2
    assert told <= {line.strip().partition(":")[0].partition(".")[0] for line in result.stderr.splitlines()[1:]}


def test_a_file_that_cannot_be_read_is_the_only_fault(beholder: Callable[..., Any], data: Path) -> None:
    (data.parent / "broken.toml").write_text("x = = 1")
    for name in ("none.toml", "broken.toml"):
        result = beholder("run", name)
        assert result.exit_code == 2
        assert result.stderr.count("\n") == 1
        assert name in result.stderr
    like = beholder("run", data, "--like", "none")
    assert (like.exit_code, like.stderr.count("\n")) == (2, 1)


def test_a_settings_file_may_have_a_byte_order_mark(beholder: Callable[..., Any], data: Path) -> None:
    text = 'data = "samples.jsonl"\nmetrics = "clip_score"\nmodel = "fake:dim=16"\nout = "a"\n'
    (data.parent / "e.toml").write_text(text, encoding="utf-8-sig")
    assert beholder("run", "e.toml").exit_code == 0


def test_score_tells_of_all_wrong_arguments_at_once(beholder: Callable[..., Any], data: Path) -> None:
    args = ("-m", "clip_score", "--background", "q", "--max-pixels", "0", "--dtype", "q", "--device", "q")
    result = beholder("score", "out/good/1.png", *args)
    assert result.exit_code == 2
    for told in ("--text", "R,G,B", "--max-pixels", "--dtype", "--device"):
        assert told in result.stderr, told


@pytest.mark.parametrize(("out", "said"), [(".", "directory"), ("samples.jsonl", "its own input"), ("x" * 300, "long")])
def test_a_manifest_that_cannot_be_written_there(beholder: Callable[..., Any], data: Path, out: str, said: str) -> None:
    before = data.read_bytes()
    result = beholder("manifest", data, "-o", out)
    assert result.exit_code == 2, result.stderr
    assert said in result.stderr
    assert data.read_bytes() == before


@pytest.mark.parametrize("out", ["samples.jsonl", "samples.jsonl/below"])
def test_a_run_folder_that_cannot_be_made(beholder: Callable[..., Any], data: Path, out: str) -> None:
    result = beholder("run", data, "-m", "clip_score", "--model", "fake:dim=16", "-o", out)
    assert result.exit_code == 2
    assert "Name another with -o" in result.stderr
