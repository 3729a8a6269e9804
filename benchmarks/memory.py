"""Peak memory of a run, in two figures: of the engine's stream, and to the end, with tables and summary written.

Every sample has a prompt of its own, which is the hardest case: the end keeps some numbers a row and a prompt.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.table import Row, at_most

_SCRIPT = """
import json, sys
from pathlib import Path
from beholder.runs.config import make_config
from beholder.runs.session import execute
from beholder.runs.progress import NoProgress
from benchmarks.sources import TinySamples

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1024

class Watch(NoProgress):
    streamed = 0
    def stage(self, text, total):
        if text == "writing tables":
            self.streamed = peak()

count, folder = int(sys.argv[1]), sys.argv[2]
watch = Watch()
settings = {"metrics": ("clip_score",), "model": "fake:dim=32", "out": folder + "/run", "store": folder + "/store"}
config = make_config(settings)
execute(config, source=TinySamples(count), progress=watch)
print(json.dumps([watch.streamed, peak()]))
"""


class Peaks(NamedTuple):
    """Megabytes of one run.

    Args:
        streamed: the peak until all samples are scored.
        end: the peak to the end.
    """

    streamed: float
    end: float


def measure(folder: Path) -> list[Row]:
    small, middle, large = (_peaks(count, folder / str(count)) for count in (10_000, 100_000, 1_000_000))
    stream = "peak memory, 100,000 samples against 10,000"
    whole = "peak memory with tables and summary, 1,000,000 samples against 100,000"
    return [
        at_most(stream, middle.streamed, small.streamed, 1.1, unit="MB"),
        at_most(whole, large.end, middle.end, 1.2, unit="MB"),
    ]


def _peaks(count: int, folder: Path) -> Peaks:
    folder.mkdir()
    command = [sys.executable, "-c", _SCRIPT, str(count), str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Peaks(*json.loads(done.stdout))
