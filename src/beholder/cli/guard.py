"""From exceptions to messages and exit codes.

0    fine
1    a gate was not met (`gate`, `doctor`, `models verify`)
2    wrong use or bad input
3    more samples with a fault than allowed
70   a bug in beholder
130  interrupted
141  whoever read the output closed it, as `| head` does
143  ended by SIGTERM
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import typer

from beholder._errors import UserError
from beholder.cli.interrupts import end_early, terminable
from beholder.cli.output import say

GATE_NOT_MET, WRONG_USE, TOO_MANY_FAULTS, BUG, OUTPUT_CLOSED = 1, 2, 3, 70, 141

_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EMFILE, errno.ENFILE}
"""What a disk, a quota or a permission says; no bug."""


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a command, with its exceptions turned into messages and exit codes."""

    @functools.wraps(function)
    def call(*args: Any, **settings: Any) -> Any:
        try:
            with terminable():
                return function(*args, **settings)
        except (typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:
            _close_output()
        except UserError as error:
            fail(error)
        except KeyboardInterrupt as error:
            end_early(error)
        except OSError as error:
            if error.errno not in _MACHINE:
                _report_bug(error)
            fail(UserError("this machine must let beholder read and write its files", got=str(error)))
        except Exception as error:
            _report_bug(error)

    return call


def fail(error: UserError) -> NoReturn:
    """Ends the command with a user error's message and exit code, without a traceback."""
    _show_traceback()
    say(f"Error: {error}")
    raise typer.Exit(error.exit_code) from None


def _close_output() -> NoReturn:
    """Ends quietly when nobody reads on; left alone it would be exit code 1, which says that a gate was not met."""
    with open(os.devnull, "w") as nowhere:
        for stream in (sys.stdout, sys.stderr):
            # What is still buffered must not fail again when Python closes.
            with contextlib.suppress(OSError, ValueError):
                os.dup2(nowhere.fileno(), stream.fileno())
    raise typer.Exit(OUTPUT_CLOSED) from None


def _report_bug(error: Exception) -> NoReturn:
    shown = _show_traceback()
    say(f"beholder failed unexpectedly{_place(error)}: {type(error).__name__}: {error}")
    say("This is a bug in beholder, not in your input. Please report it with the output of `beholder doctor`")
    say(
        "and the traceback above." if shown else "and the traceback that the same command prints with BEHOLDER_DEBUG=1."
    )
    raise typer.Exit(BUG) from None


def _show_traceback() -> bool:
    """Prints the exception at hand in full when BEHOLDER_DEBUG asks for it."""
    if os.environ.get("BEHOLDER_DEBUG", "") in ("", "0"):
        return False
    say(traceback.format_exc().rstrip())
    return True


def _place(error: Exception) -> str:
    """Where in beholder it happened: " in runs/engine.py, line 12"."""
    root = Path(__file__).parent.parent
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if root in path.parents and path.name != "guard.py":
            return f" in {path.relative_to(root).as_posix()}, line {frame.lineno}"
    return ""
