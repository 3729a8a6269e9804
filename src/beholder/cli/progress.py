"""Progress on stderr: bars with rate and time left on a terminal, plain lines elsewhere, nothing when quiet."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from beholder.cli.output import say

if TYPE_CHECKING:
    from beholder.runs.progress import Progress

LINE_SECONDS = 10.0
"""Plain lines come at least so far apart."""


@contextmanager
def progress_display(*, quiet: bool) -> Iterator[Progress]:
    """The display that fits stderr; closed when the block ends."""
    if quiet:
        yield Silent()
    elif sys.stderr.isatty():
        bars = Bars()
        try:
            yield bars
        finally:
            bars.close()
    else:
        lines = Lines()
        try:
            yield lines
        finally:
            lines.close()


class Silent:
    """Says nothing."""

    def stage(self, text: str, total: int | None) -> None: ...

    def advance(self, samples: int) -> None: ...

    def notice(self, text: str) -> None: ...


class Lines:
    """Plain lines, for log files.

    Args:
        every: seconds between two lines of one stage.
    """

    def __init__(self, every: float = LINE_SECONDS) -> None:
        self._every = every
        self._text = ""
        self._total: int | None = None
        self._done = 0
        self._begun = self._said = 0.0

    def stage(self, text: str, total: int | None) -> None:
        self.close()
        self._text, self._total, self._done = text, total, 0
        self._begun = self._said = time.monotonic()
        say(text + (f": {_samples(total)}" if total is not None else ""))

    def advance(self, samples: int) -> None:
        self._done += samples
        now = time.monotonic()
        if now - self._said < self._every:
            return
        self._said = now
        say("  " + describe_rate(self._done, self._total, now - self._begun))

    def notice(self, text: str) -> None:
        say(f"Note: {text}")

    def close(self) -> None:
        """Ends the stage with a line that says how long it took."""
        if self._text and self._done:
            seconds = time.monotonic() - self._begun
            say(f"  {_samples(self._done)} in {format_seconds(seconds)}{_rate(self._done, seconds)}")
        self._text, self._done = "", 0


class Bars:
    """Bars drawn with rich."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[state]}", markup=False),
            console=Console(stderr=True),
        )
        self._task: Any = None
        self._total: int | None = None
        self._done, self._begun = 0, 0.0
        self._bars.start()

    def stage(self, text: str, total: int | None) -> None:
        self._end_stage()
        self._total, self._done, self._begun = total, 0, time.monotonic()
        self._task = self._bars.add_task(text, total=total, state="" if total is None else _samples(total))

    def advance(self, samples: int) -> None:
        self._done += samples
        state = describe_rate(self._done, self._total, time.monotonic() - self._begun)
        self._bars.update(self._task, completed=self._done, state=state)

    def notice(self, text: str) -> None:
        from rich.text import Text

        self._bars.console.print(Text(f"Note: {text}"))

    def _end_stage(self) -> None:
        if self._task is not None:
            self._bars.update(self._task, total=self._done, completed=self._done)
            self._task = None

    def close(self) -> None:
        """Leaves the bars as they stand."""
        self._bars.stop()


def describe_rate(done: int, total: int | None, seconds: float) -> str:
    """How far, how fast and how long still.

    >>> describe_rate(50, 200, 10.0)
    '50 of 200 samples, 5.0 samples/s, 30 s left'
    """
    parts = [_samples(done) if total is None else f"{done} of {_samples(total)}"]
    if seconds > 0 and done:
        parts.append(f"{_number(done / seconds)} samples/s")
        if total is not None and total > done:
            parts.append(f"{format_seconds((total - done) * seconds / done)} left")
    return ", ".join(parts)


def format_seconds(seconds: float) -> str:
    """A duration for people.

    >>> [format_seconds(s) for s in (0.04, 8.24, 75, 8000)]
    ['0.0 s', '8.2 s', '1 min 15 s', '2 h 13 min']
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _rate(done: int, seconds: float) -> str:
    return f" ({_number(done / seconds)} samples/s)" if seconds > 0 else ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _samples(count: int) -> str:
    return f"{count} sample{'' if count == 1 else 's'}"
