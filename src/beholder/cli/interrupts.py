"""Ends that come from outside: Ctrl-C, and the SIGTERM of a scheduler, of `timeout` or of `docker stop`."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer

from beholder.cli.output import say

INTERRUPTED, TERMINATED = 130, 143
"""128 and the signal's number, as a shell tells of a process that a signal ended."""


class Terminated(KeyboardInterrupt):
    """SIGTERM as an exception that goes the way of Ctrl-C, so that last writes are done."""


@contextmanager
def terminable() -> Iterator[None]:
    """While the block runs, SIGTERM raises `Terminated`; a second one must not disturb the last writes.

    Where the exception was lost, as one in a destructor is, the next SIGTERM raises it again.
    Signals are the main thread's, and a process that ignores SIGTERM or has a handler of its own keeps it.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    told = False

    def terminate(*_: Any) -> None:
        nonlocal told
        if not (told and _ending()):
            told = True
            raise Terminated

    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _ending() -> bool:
    """Whether last writes are being done: the exception is on its way, or a generator is closed because of it."""
    error = sys.exc_info()[1]
    while error is not None and not isinstance(error, (Terminated, GeneratorExit)):
        error = error.__context__
    return error is not None


@contextmanager
def keeping(what: str) -> Iterator[None]:
    """A block after whose early end the same command goes on.

    Args:
        what: what is there already ("What was scored").
    """
    try:
        yield
    except KeyboardInterrupt as error:
        end_early(error, f"{what} is kept: the same command goes on from here.")


def end_early(error: KeyboardInterrupt, kept: str = "") -> NoReturn:
    """Ends the command with a line that says what ended it and what is kept."""
    how, code = ("Ended by SIGTERM.", TERMINATED) if isinstance(error, Terminated) else ("Interrupted.", INTERRUPTED)
    say(f"{how} {kept}".rstrip())
    raise typer.Exit(code) from None
