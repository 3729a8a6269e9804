"""What the import and the first commands cost over a bare Python start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.table import Row, difference, median_seconds

TIMES = 9


def measure(folder: Path) -> list[Row]:
    bare = _python("-c", "pass")
    return [
        difference("`import beholder` over a bare Python start", _python("-c", "import beholder"), bare, 0.2),
        difference("`beholder --help` over a bare Python start", _python("-m", "beholder", "--help"), bare, 0.5),
        difference("`beholder list` over a bare Python start", _python("-m", "beholder", "list"), bare, 1.0),
    ]


def _python(*arguments: str) -> float:
    def call() -> None:
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

    call()
    return median_seconds(call, times=TIMES)
