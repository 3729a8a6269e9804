"""Ends that come from outside: Ctrl-C, and the SIGTERM of a scheduler, of `timeout` or of `docker stop`."""

from __future__ import annotations

import signal
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
    """While the block runs, SIGTERM raises `Terminated`: once, since a second one must not disturb the last writes.

    Signals are the main thread's, and a process that ignores SIGTERM or has a handler of its own keeps it.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate(*_: Any) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated


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
