"""Peak memory of the engine's stream at 10,000 and at 100,000 samples; the result table is written after it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.table import Row, at_most

_SCRIPT = """
import sys
from pathlib import Path
from beholder.runs.config import make_config
from beholder.runs.session import execute
from beholder.runs.progress import NoProgress
from benchmarks.sources import TinySamples

class Watch(NoProgress):
    peak = 0
    def stage(self, text, total):
        if text == "writing tables":
            lines = Path("/proc/self/status").read_text().splitlines()
            self.peak = int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))

count, folder = int(sys.argv[1]), sys.argv[2]
watch = Watch()
settings = {"metrics": ("clip_score",), "model": "fake:dim=32", "out": folder + "/run", "store": folder + "/store"}
config = make_config(settings)
execute(config, source=TinySamples(count), progress=watch)
print(watch.peak / 1024)
"""


def measure(folder: Path) -> list[Row]:
    small, large = _peak(10_000, folder / "small"), _peak(100_000, folder / "large")
    return [at_most("peak memory, 100,000 samples against 10,000", large, small, 1.1, unit="MB")]


def _peak(count: int, folder: Path) -> float:
    folder.mkdir()
    command = [sys.executable, "-c", _SCRIPT, str(count), str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)
