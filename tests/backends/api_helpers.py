"""Time without waiting, and loaded API models, for the tests of API models."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from tests.backends.api_server import OPENED

from beholder.backends.api.client import Timing
from beholder.backends.api.engine import ApiEngine
from beholder.backends.api.options import ApiOptions
from beholder.backends.base import LoadOptions
from beholder.media.base import Picture

KEY = "sk-test-4f9aKq7ZrT2mVx8Lw3Bn"


class FakeTime:
    """A clock that moves only when somebody sleeps."""

    def __init__(self, start: float = 1_000.0) -> None:
        self.at, self.slept = start, []  # type: ignore[var-annotated]
        self._lock = threading.Lock()

    def clock(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.slept.append(seconds)
            self.at += seconds

    def timing(self) -> Timing:
        return Timing(clock=self.clock, now=self.clock, sleep=self.sleep)


def picture(colour: tuple[int, int, int] = (200, 30, 30), size: tuple[int, int] = (24, 16)) -> Picture:
    """A picture of one colour, (width, height)."""
    pixels = np.zeros((size[1], size[0], 3), dtype=np.uint8)
    pixels[:] = colour
    return Picture(pixels, size, "RGB")


def load(
    name: str = "gpt-4o",
    *,
    capability: str = "AnswerScorer",
    url: str | None = None,
    time: FakeTime | None = None,
    offline: bool | None = None,
    **settings: Any,
) -> Any:
    """An API model, ready to ask."""
    options = ApiOptions(base_url=url, **{"api_key": KEY, "concurrency": 4, **settings})
    engine = ApiEngine(capability, (time or FakeTime()).timing())
    resolved = engine.resolve(name, dtype="auto", options=LoadOptions(offline=offline, api=options))
    OPENED.append(engine.load(resolved, device="cpu"))
    return OPENED[-1]


def ask(scorer: Any, questions: list[str], **settings: Any) -> Any:
    """Questions about one picture."""
    return scorer.answer([scorer.prepare([picture()])], [(0, text) for text in questions], **settings)


def judge(judged: Any, instructions: list[str], **settings: Any) -> Any:
    """Instructions about one picture."""
    return judged.reply([judged.prepare([picture()])], [(0, text) for text in instructions], **settings)
