"""Plain lines, bars and silence."""

from __future__ import annotations

from typing import Any

import pytest

from beholder.cli import progress
from beholder.cli.progress import Bars, Lines, describe_rate, format_seconds, progress_display


def test_lines_are_spaced_and_every_stage_ends_with_its_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = iter([0.0, 1.0, 10.0, 15.0, 20.0, 20.0, 21.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    lines = Lines(every=10.0)
    lines.stage("scoring", 200)
    for _ in range(3):
        lines.advance(50)
    lines.notice("look here")
    lines.stage("writing tables", None)
    lines.close()
    out = capsys.readouterr()
    assert out.out == ""
    assert out.err.splitlines() == [
        "scoring: 200 samples",
        "  100 of 200 samples, 10.0 samples/s, 10 s left",
        "Note: look here",
        "  150 samples in 20 s (7.5 samples/s)",
        "writing tables",
    ]


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_display(quiet=True) as silent:
        silent.stage("scoring", 3)
        silent.advance(3)
        silent.notice("look here")
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_there_are_lines_and_with_one_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    with progress_display(quiet=False) as shown:
        assert isinstance(shown, Lines)
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True, raising=False)
    with progress_display(quiet=False) as shown:
        assert isinstance(shown, Bars)


def test_bars_take_stages_of_known_and_unknown_length(monkeypatch: pytest.MonkeyPatch) -> None:
    bars = Bars()
    try:
        bars.stage("encoding", 4)
        bars.advance(3)
        task: Any = bars._bars.tasks[0]
        assert (task.completed, task.total) == (3, 4)
        assert task.fields["state"].startswith("3 of 4 samples")
        bars.stage("writing tables", None)
        bars.notice("[red]no markup[/]")
        assert bars._bars.tasks[0].finished
    finally:
        bars.close()


def test_rates_and_durations_are_for_people() -> None:
    assert describe_rate(0, 10, 0.0) == "0 of 10 samples"
    assert describe_rate(1, None, 2.0) == "1 sample, 0.5 samples/s"
    assert describe_rate(10, 10, 0.01) == "10 of 10 samples, 1,000 samples/s"
    assert [format_seconds(s) for s in (0.04, 9.96, 59.6, 75, 8000)] == [
        "0.0 s",
        "10.0 s",
        "1 min 0 s",
        "1 min 15 s",
        "2 h 13 min",
    ]
