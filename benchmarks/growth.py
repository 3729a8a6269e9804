"""Processor time and memory of each stage against the number of samples, with the fake encoder, and their slopes.

`python -m benchmarks.growth` measures 10² to 10⁶ samples (minutes), or up to `--most`. A slope is that of the line
through the logarithms of size and figure: 1 is growth in proportion, the target is 1.1 at most. Below 10⁴ samples
constant costs hide the growth, so slopes are fitted from there on. Processor time (of all threads) and not the clock's,
so that a shared machine gives the same figures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
LIMIT = 1.1
FITTED_FROM = 10_000

_SCRIPT = """
import json, sys, time
from pathlib import Path
from beholder.manifest import open_source
from beholder.runs.config import make_config
from beholder.runs.session import execute
from beholder.runs.progress import NoProgress
from benchmarks.sources import TinySamples

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1024

class Stages(NoProgress):
    def __init__(self):
        self.began, self.name, self.found, self.memory = time.process_time(), "plan", {}, {}
    def stage(self, text, total):
        now = time.process_time()
        self.found[self.name], self.memory[self.name] = now - self.began, peak()
        self.began, self.name = now, text
    def end(self):
        self.stage("", None)

count, folder = int(sys.argv[1]), Path(sys.argv[2])
manifest = folder / "rows.jsonl"
with open(manifest, "w") as out:
    for at in range(count):
        out.write(json.dumps({"id": str(at), "output": f"{at}.png", "prompt": f"prompt {at}", "seed": at}) + "\\n")
began = time.process_time()
source = open_source(str(manifest))
source.check()
times = {"read and check a manifest": time.process_time() - began}
settings = {"metrics": ("clip_score",), "model": "fake:dim=32", "store": str(folder / "store")}
for name in ("run", "again", "part"):
    more = {"shard": "0/1"} if name == "part" else {}
    stages = Stages()
    out = str(folder / ("run" if name == "again" else name))
    execute(make_config({**settings, "out": out, **more}), source=TinySamples(count), progress=stages)
    stages.end()
    prefix = {"run": "", "again": "again: ", "part": "part: "}[name]
    if name == "run":
        times["encode and score"] = stages.found["scoring"]
        times["write tables and summary"] = stages.found["writing tables"]
        memory = {"while scoring": stages.memory["scoring"], "at the end": stages.memory["writing tables"]}
    elif name == "again":
        times["score again from the journal"] = stages.found["scoring"]
    else:
        times["score a part from stored features"] = stages.found["scoring"]
from beholder.runs.merge import merge
began = time.process_time()
merge(folder / "part")
times["merge"] = time.process_time() - began
print(json.dumps({"times": times, "memory": memory}))
"""


def measure(sizes: Sequence[int]) -> dict[int, dict[str, dict[str, float]]]:
    """Processor seconds and megabytes by stage, by number of samples; each size in a process of its own."""
    found = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", _SCRIPT, str(size), folder]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found[size] = json.loads(done.stdout)
            sys.stderr.write(f"{size:,} samples: {json.dumps(found[size])}\n")
    return found


def slope(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The slope of the least-squares line through (log size, log value)."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def table(found: dict[int, dict[str, dict[str, float]]]) -> str:
    """The figures as a Markdown table with the slopes."""
    sizes = list(found)
    fitted = [size for size in sizes if size >= FITTED_FROM]
    lines = [f"| stage | {' | '.join(f'{size:,}' for size in sizes)} | slope | met |", "|---" * (len(sizes) + 3) + "|"]
    for kind, unit in (("times", "s"), ("memory", "MB")):
        for name in found[sizes[0]][kind]:
            values = [found[size][kind][name] for size in sizes]
            grows = slope(fitted, [found[size][kind][name] for size in fitted])
            cells = " | ".join(f"{value:.3g} {unit}" for value in values)
            lines.append(f"| {name} | {cells} | {grows:.2f} | {'yes' if grows <= LIMIT else '**no**'} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=SIZES[-1], help="at least 100000")
    parser.add_argument("--plot", type=Path, help="also draw the figures, where matplotlib is installed")
    asked = parser.parse_args()
    found = measure([size for size in SIZES if size <= asked.most])
    sys.stdout.write(table(found) + "\n")
    if asked.plot is not None:
        _plot(found, asked.plot)


def _plot(found: dict[int, dict[str, dict[str, float]]], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5))
    for axis, (kind, label) in zip(axes, (("times", "seconds"), ("memory", "megabytes")), strict=True):
        for name in next(iter(found.values()))[kind]:
            axis.loglog(list(found), [item[kind][name] for item in found.values()], marker="o", label=name)
        axis.set_xlabel("samples")
        axis.set_ylabel(label)
        axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    main()
