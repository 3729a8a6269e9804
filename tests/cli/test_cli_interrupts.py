"""Ends that come from outside, where no run is under way."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from beholder.cli.interrupts import Terminated, terminable

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals work otherwise there")


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    """A program that nobody gave a handler: a test that was before, as one that starts Ray, may have left one."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


def terminate(*args: Any, **settings: Any) -> None:
    signal.raise_signal(signal.SIGTERM)


def test_sigterm_anywhere_exits_143(beholder: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from beholder.backends import pool

    monkeypatch.setattr(pool, "list_models", terminate)
    result = beholder("models")
    assert result.exit_code == 143
    assert result.stderr == "Ended by SIGTERM.\n"


@pytest.mark.parametrize(
    ("place", "args"),
    [
        ("beholder.attributing.call.attributes", ("attributes", "--real", "a", "--gen", "b", "--attributes", "faces")),
        ("beholder.protocol_runs.run_protocol", ("bench", "genai-bench", ".")),
        ("beholder.demo.build.run_demo", ("demo", "-o", "d")),
    ],
)
def test_commands_that_go_on_say_so(
    beholder: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, args: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(place, terminate)
    result = beholder(*args)
    assert result.exit_code == 143
    assert "is kept: the same command goes on from here." in result.stderr


def test_a_second_sigterm_does_not_disturb_last_writes() -> None:
    written = []
    with pytest.raises(Terminated), terminable():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)
            written.append("all")
    assert written == ["all"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_nor_one_that_comes_while_an_error_of_theirs_is_handled() -> None:
    written = []
    with pytest.raises(Terminated), terminable(), ExitStack() as last:
        last.callback(lambda: written.append("all"))
        last.callback(signal.raise_signal, signal.SIGTERM)
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            try:
                raise OSError
            except OSError:
                signal.raise_signal(signal.SIGTERM)
    assert written == ["all"]


def test_a_sigterm_that_was_lost_makes_no_command_deaf() -> None:
    with pytest.raises(Terminated), terminable():
        with suppress(BaseException):  # what Python does with an exception in a destructor
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)


def test_another_thread_leaves_signals_alone() -> None:
    found: list[Any] = []

    def look() -> None:
        with terminable():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [signal.SIG_DFL]


def test_a_process_that_ignores_sigterm_goes_on_ignoring_it() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with terminable():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
