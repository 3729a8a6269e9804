"""How fast a server is asked: an even rate, and pauses that it asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Pace:
    """Lets threads through one after another.

    Args:
        per_minute: requests in a minute, or None for as many as come.
        clock: seconds, rising.
        sleep: waits some seconds.
    """

    def __init__(
        self, per_minute: float | None, *, clock: Callable[[], float], sleep: Callable[[float], object]
    ) -> None:
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()
        self._next = self._held = float("-inf")

    def wait(self) -> None:
        """Waits for this request's turn."""
        with self._lock:
            now = self._clock()
            turn = max(now, self._next, self._held)
            self._next = turn + self._interval
        if turn > now:
            self._sleep(turn - now)

    def hold(self, seconds: float) -> None:
        """Lets nobody through for some seconds: what a server asks of one request is meant for all."""
        with self._lock:
            self._held = max(self._held, self._clock() + seconds)
