"""What a process of a run in several processes does: its shard on its device, told to the process that started it."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import socket
import threading
from contextlib import suppress
from typing import Any, NoReturn

from beholder.runs.worker_messages import describe_error, receive_bytes, say

_LOOK_SECONDS = 1.0


def work(end: socket.socket, shard: str, device: str, threads: int) -> None:
    """One process from its start to its end.

    What it is to do is not among the arguments but asked for: the arguments go through a pipe that blocks its writer
    when this process dies before it has read them, as it does where a script lacks its guard.

    Args:
        end: where it tells and asks.
        shard: its share of the rows, as "i/N".
        device: where its models run.
        threads: how many threads a model on a processor gets.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGTERM, _interrupt_once)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # a job in the background is not the terminal's to end
        signal.signal(signal.SIGINT, _interrupt_once)
    try:
        say(end, "ready")
        _score(receive_bytes(end), shard, device, threads, _Teller(end))
    except BaseException as error:  # SystemExit too: nobody else would tell of it
        with suppress(OSError):
            say(end, "error", describe_error(error))
    else:
        with suppress(OSError):
            say(end, "done")


def _score(payload: bytes, shard: str, device: str, threads: int, progress: _Teller) -> None:
    config, metrics, source, real, models = pickle.loads(payload)  # what the parent process just made
    from beholder.backends.devices import limit_threads
    from beholder.backends.pool import registered_all
    from beholder.runs.session import execute

    limit_threads(threads)
    registered_all(models)
    config = config.model_copy(update={"shard": shard, "device": device})
    execute(config, metrics=metrics, source=source, progress=progress, real=real)


class _Teller:
    """Progress that is told to the parent process; pictures of a real set are not among the samples it counts."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._counts = True

    def stage(self, text: str, total: int | None) -> None:
        from beholder.runs.real import REAL_STAGE

        self._counts = not text.startswith(REAL_STAGE)

    def advance(self, samples: int) -> None:
        if self._counts:
            self._tell("advance", samples)

    def notice(self, text: str) -> None:
        self._tell("notice", text)

    def _tell(self, what: str, value: Any) -> None:
        try:
            say(self._end, what, value)
        except OSError:
            _interrupt_once()  # nobody listens: the run is being ended


def _interrupt_once(*_: Any) -> NoReturn:
    """An end is told by the terminal or the scheduler and by the parent; the second must not disturb last writes."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _end_with_parent() -> None:
    """A killed parent must not leave processes that hold the folders' locks."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    # The sentinel stays open where the parent had forked other processes; the parent's number changes all the same.
    while os.getppid() == parent.pid and parent.is_alive():
        parent.join(timeout=_LOOK_SECONDS)
    os._exit(1)
