"""Processes of one run: whatever befalls one of them, the run ends, says so, and its command goes on."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.runs.helpers import write_set
from tests.runs.troubles import (
    Killed,
    OddError,
    OnLoad,
    close_sockets,
    exit_with_a_thread,
    fail_to_import,
    leave_a_child,
    raise_odd,
    tell_of_interrupts,
    terminate_itself,
)

import beholder
from beholder._errors import OptionError, UserError
from beholder.runs import workers
from beholder.runs.config import RunConfig
from beholder.runs.shards import Shard
from beholder.runs.worker_messages import Ear, describe_error, read_error, say

ROOT = str(Path(__file__).parents[2])


class Told:
    """Progress that keeps what it was told."""

    def __init__(self) -> None:
        self.notices: list[str] = []
        self.samples = 0

    def stage(self, text: str, total: int | None) -> None: ...

    def advance(self, samples: int) -> None:
        self.samples += samples

    def notice(self, text: str) -> None:
        self.notices.append(text)


def evaluate(tmp_path: Path, data: Path, name: str, **more: Any) -> beholder.Run:
    given = {"metrics": ["clip_score", "clip_i"], "model": "killed", "store": str(tmp_path / f"s-{name}")}
    return beholder.evaluate(str(data), **given | {"out": str(tmp_path / name)} | more)


@pytest.mark.slow
@pytest.mark.parametrize("talking", [False, True], ids=["while it encodes", "in the middle of a message"])
def test_a_process_that_is_killed_is_told_and_the_same_command_ends_identical(tmp_path: Path, talking: bool) -> None:
    data = write_set(tmp_path, 40)
    (tmp_path / "flag").touch()
    beholder.register_encoder("killed", Killed(tmp_path / "flag", talking=talking))
    one = evaluate(tmp_path, data, "one")
    (tmp_path / "flag").unlink()
    with pytest.raises(UserError, match=r"shard [01] \(cpu\) must end well; got killed by SIGKILL.*goes on from here"):
        evaluate(tmp_path, data, "two", device="cpu:2")
    assert (tmp_path / "flag").exists()
    states = [beholder.open_run_folder(tmp_path / "two" / "parts" / f"{at}-of-2").header["status"] for at in (0, 1)]
    assert sorted(states) == ["part", "running"]  # the other one went on to its end
    two = evaluate(tmp_path, data, "two", device="cpu:2")
    assert two.scores.equals(one.scores)
    assert two.summary == one.summary
    assert (two.path / "scores.csv").read_bytes() == (one.path / "scores.csv").read_bytes()


def befall(act: Callable[..., Any], *given: Any, count: int = 1) -> Told:
    """Processes that all load an object which does something."""
    told = Told()
    work = [(Shard(index, count), "cpu") for index in range(count)]
    workers._Workers(RunConfig(), None, None, OnLoad(act, *given), work).run(told)
    return told


def test_an_error_that_cannot_be_made_again_is_told_by_its_text() -> None:
    with pytest.raises(UserError, match=r"shard 0 \(cpu\) must end well; got the number must be odd; it is 2"):
        befall(raise_odd)


def test_a_run_in_the_background_is_not_the_terminals_to_interrupt() -> None:
    with pytest.raises(UserError, match="ignored: False"):
        befall(tell_of_interrupts)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(UserError, match="ignored: True"):
            befall(tell_of_interrupts)
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_cannot_be_loaded_in_a_process_is_told() -> None:
    with pytest.raises(UserError, match="No module named 'nowhere'"):
        befall(fail_to_import)


def test_a_thread_that_never_ends_does_not_keep_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_END_SECONDS", 0.5)
    with pytest.raises(UserError, match="SystemExit: 7"):
        befall(exit_with_a_thread)


def test_a_process_that_loses_its_connection_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_END_SECONDS", 0.5)
    with pytest.raises(UserError, match="closed its connection"):
        befall(close_sockets)


def test_a_child_that_outlives_a_killed_process_holds_nobody_up(tmp_path: Path) -> None:
    try:
        with pytest.raises(UserError, match="killed by SIGKILL"):
            befall(leave_a_child, tmp_path)
    finally:
        (child,) = tmp_path.iterdir()
        os.kill(int(child.name), signal.SIGKILL)


def test_a_process_that_never_begins_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "work", OnLoad(fail_to_import))
    with pytest.raises(UserError, match=r"exit code 1, without a message.*__main__"):
        befall(raise_odd)


def test_a_process_that_cannot_be_started_ends_those_that_were(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    start = workers.SpawnProcess.start

    def once(self: Any) -> None:
        if started:
            raise OSError(11, "Resource temporarily unavailable")
        started.append(self)
        start(self)

    monkeypatch.setattr(workers.SpawnProcess, "start", once)
    with pytest.raises(UserError, match="start 2 processes; got Resource temporarily unavailable, at shard 1"):
        befall(raise_odd, count=2)
    assert not started[0].is_alive()


SCRIPT = """
import sys
sys.path.insert(0, {root!r})
import beholder, numpy as np
rows = [{{"id": str(at), "output": np.full((128, 128, 3), at, np.uint8), "prompt": "a"}} for at in range(8)]
beholder.evaluate(rows, metrics="clip_score", model="fake", out={out!r}, store={out!r} + "-s", device="cpu:2")
"""


@pytest.mark.slow
def test_a_script_without_its_guard_ends_with_a_message(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(root=ROOT, out=str(tmp_path / "o")))  # more data than a pipe holds
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "A script calls beholder under: if __name__" in done.stderr.splitlines()[-1]


PARENT = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from beholder.runs import workers
from beholder.runs.config import RunConfig
from beholder.runs.progress import NoProgress
from beholder.runs.shards import Shard
from tests.runs import troubles
if __name__ == "__main__":
    workers._END_SECONDS = 2.0
    work = [(Shard(at, 2), "cpu") for at in range(2)]
    load = troubles.OnLoad(troubles.{act}, Path({folder!r}))
    workers._Workers(RunConfig(), None, None, load, work).run(NoProgress())
"""


@contextmanager
def started(script: Path) -> Iterator[subprocess.Popen[str]]:
    """A script in a process of its own, which ends with the test whatever happens."""
    with subprocess.Popen([sys.executable, str(script)], stderr=subprocess.PIPE, text=True) as parent:
        try:
            yield parent
        finally:
            parent.kill()


@pytest.mark.parametrize(
    ("act", "number"), [("sleep_on", signal.SIGINT), ("sleep_deaf", signal.SIGINT), ("sleep_on", signal.SIGKILL)]
)
def test_no_process_outlives_its_parent(tmp_path: Path, act: str, number: int) -> None:
    folder = tmp_path / "pids"
    folder.mkdir()
    path = tmp_path / "script.py"
    path.write_text(PARENT.format(root=ROOT, folder=str(folder), act=act))
    with started(path) as parent:
        until(lambda: len(list(folder.iterdir())) == 2)
        parent.send_signal(number)
        _, said = parent.communicate(timeout=60)
    assert ("KeyboardInterrupt" in said) == (number == signal.SIGINT)
    until(lambda: not any(running(int(path.name)) for path in folder.iterdir()))


IN_THE_BACKGROUND = """
import signal
def terminate(*_):
    raise KeyboardInterrupt("SIGTERM")
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, terminate)
"""


def test_processes_of_a_run_in_the_background_do_their_last_writes(tmp_path: Path) -> None:
    folder = tmp_path / "pids"
    folder.mkdir()
    path = tmp_path / "script.py"
    text = PARENT.format(root=ROOT, folder=str(folder), act="end_well").replace(
        "_END_SECONDS = 2.0", "_END_SECONDS = 60.0"
    )
    path.write_text(IN_THE_BACKGROUND + text)
    with started(path) as parent:
        until(lambda: len(list(folder.iterdir())) == 2)
        parent.send_signal(signal.SIGTERM)
        _, said = parent.communicate(timeout=60)
    assert "KeyboardInterrupt: SIGTERM" in said
    assert len(list(folder.glob("*.ended"))) == 2


def test_a_process_that_gets_sigterm_ends_as_one_that_is_interrupted() -> None:
    with pytest.raises(UserError, match=r"shard 0 \(cpu\) must end well; got interrupted.*goes on from here"):
        befall(terminate_itself)


def until(holds: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_an_ear_hears_whole_messages_and_never_waits() -> None:
    mine, its = socket.socketpair()
    ear = Ear(mine)
    assert list(ear.messages()) == []
    say(its, "advance", 3)
    data = pickle.dumps(("notice", "x" * 100_000))
    its.sendall(struct.pack("!Q", len(data)) + data[:50_000])
    assert list(ear.messages()) == [("advance", 3)]
    its.sendall(data[50_000:])
    assert list(ear.messages()) == [("notice", "x" * 100_000)]
    its.sendall(struct.pack("!Q", 9) + b"no pickle")
    say(its, "done")
    its.sendall(b"\0\0\0")
    its.close()
    (broken, last) = ear.messages()
    assert (broken[0], last) == ("error", ("done", None))
    assert ear.ended
    ear.answer(b"nobody reads this")
    ear.close()


def test_errors_travel_as_they_are_or_by_their_text() -> None:
    option = read_error(describe_error(OptionError("a must be b", got="c", fix="Write b")))
    assert (type(option), str(option)) == (OptionError, "a must be b; got c. Write b.")
    assert str(read_error(describe_error(OddError(number=4)))) == "the number must be odd; it is 4."
    assert str(read_error(describe_error(KeyboardInterrupt()))) == "interrupted"
    assert str(read_error(describe_error(ValueError("no")))) == "ValueError: no"

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert "cannot be printed" in str(read_error(describe_error(Mute())))
