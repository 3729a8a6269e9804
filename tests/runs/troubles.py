"""Troubles that befall one process of a run: encoders, and objects that do something when a process loads them."""

from __future__ import annotations

import os
import pickle
import signal
import stat
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import UserError
from beholder.backends.fake import FakeEncoder
from beholder.runs import worker_process


def first(flag: Path) -> bool:
    """True for one caller in one process only."""
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


class Killed(FakeEncoder):
    """Kills its process, once: in its second batch, or while it tells of its first chunk."""

    image_batch = 4

    def __init__(self, flag: Path, *, talking: bool) -> None:
        super().__init__("killed", dim=16)
        self.flag, self.talking, self.batches = flag, talking, 0

    def encode_images(self, batch: np.ndarray) -> np.ndarray:
        self.batches += 1
        if self.batches >= 2 and first(self.flag):
            if not self.talking:
                os.kill(os.getpid(), signal.SIGKILL)
            worker_process.say = break_off
        return super().encode_images(batch)


def break_off(end: Any, what: str, value: Any = None) -> None:
    """Dies in the middle of a message."""
    data = pickle.dumps((what, value))
    end.sendall(struct.pack("!Q", len(data)) + data[: len(data) // 2])
    os.kill(os.getpid(), signal.SIGKILL)


class OnLoad:
    """Calls a function in every process that loads it."""

    def __init__(self, act: Callable[..., Any], *given: Any) -> None:
        self.act, self.given = act, given

    def __reduce__(self) -> tuple[Any, ...]:
        return (self.act, self.given)


class OddError(UserError):
    """An error that its own pickle cannot make again."""

    def __init__(self, *, number: int) -> None:
        super().__init__(f"the number must be odd; it is {number}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (2,))


def raise_odd() -> None:
    raise OddError(number=2)


def tell_of_interrupts() -> None:
    raise UserError(f"ignored: {signal.getsignal(signal.SIGINT) is signal.SIG_IGN}")


def fail_to_import() -> None:
    raise ModuleNotFoundError("No module named 'nowhere'")


def exit_with_a_thread() -> None:
    """Leaves a thread that keeps its process from ending."""
    threading.Thread(target=time.sleep, args=(3600,)).start()
    sys.exit(7)


def close_sockets() -> None:
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                os.close(int(name))
    time.sleep(3600)


def leave_a_child(folder: Path) -> None:
    """Leaves a process that holds all that its parent had open, and dies."""
    child = os.fork()
    if child == 0:
        time.sleep(3600)
    (folder / str(child)).touch()
    os.kill(os.getpid(), signal.SIGKILL)


def sleep_on(folder: Path, *, deaf: bool = False) -> None:
    if deaf:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    (folder / str(os.getpid())).touch()
    time.sleep(3600)


def end_well(folder: Path) -> None:
    """Sleeps until it is interrupted, and then has something to write."""
    path = folder / str(os.getpid())
    path.touch()
    try:
        time.sleep(3600)
    finally:
        path.with_suffix(".ended").touch()


def terminate_itself() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(3600)


def sleep_deaf(folder: Path) -> None:
    sleep_on(folder, deaf=True)
