"""Processor time and memory of each stage against the number of samples, with the fake encoder, and their slopes.

`python -m benchmarks.growth` measures 10² to 10⁶ samples (minutes), or up to `--most`, and writes growth.json
and growth.svg; `--plot` draws what was measured before. A slope is that of the line
through the logarithms of size and figure: 1 is growth in proportion, the target is 1.1 at most. Below 10⁴ samples
constant costs hide the growth, so slopes are fitted from there on. Processor time (of all threads) and not the clock's,
so that a shared machine gives the same figures; matrix products get one thread, since the others' waiting would count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
LIMIT = 1.1
FITTED_FROM = 10_000
FIGURES, PLOT = Path(__file__).with_name("growth.json"), Path(__file__).with_name("growth.svg")
Found = dict[int, dict[str, dict[str, float]]]
"""Number of samples → "times" or "memory" → stage → figure."""

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


def measure(sizes: Sequence[int]) -> Found:
    """Processor seconds and megabytes by stage, by number of samples; each size in a process of its own."""
    found = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", _SCRIPT, str(size), folder]
            alone = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            done = subprocess.run(command, check=True, capture_output=True, text=True, env=alone)
            found[size] = json.loads(done.stdout)
            sys.stderr.write(f"{size:,} samples: {json.dumps(found[size])}\n")
    return found


def slope(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The slope of the least-squares line through (log size, log value)."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def table(found: Found) -> str:
    """The figures as a Markdown table with the slopes."""
    sizes = list(found)
    lines = [f"| stage | {' | '.join(f'{size:,}' for size in sizes)} | slope | met |", "|---" * (len(sizes) + 3) + "|"]
    for kind, unit in (("times", "s"), ("memory", "MB")):
        for name in found[sizes[0]][kind]:
            values = [found[size][kind][name] for size in sizes]
            grows = fitted_slope(found, kind, name)
            cells = " | ".join(f"{value:.3g} {unit}" for value in values)
            lines.append(f"| {name} | {cells} | {grows:.2f} | {'yes' if grows <= LIMIT else '**no**'} |")
    return "\n".join(lines)


def fitted_slope(found: Found, kind: str, name: str) -> float:
    """The slope of one stage over the sizes that are fitted."""
    sizes = [size for size in found if size >= FITTED_FROM]
    return slope(sizes, [found[size][kind][name] for size in sizes])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=SIZES[-1], help="at least 100000")
    parser.add_argument("--plot", action="store_true", help="measure nothing: draw growth.svg from growth.json")
    asked = parser.parse_args()
    if not asked.plot:
        FIGURES.write_text(json.dumps(measure([size for size in SIZES if size <= asked.most]), indent=1) + "\n")
    found = {int(size): item for size, item in json.loads(FIGURES.read_text()).items()}
    sys.stdout.write(table(found) + "\n")
    draw(found, PLOT)


def draw(found: Found, path: Path) -> None:
    """The figures against the number of samples, both axes logarithmic, and what growth in proportion looks like.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    import matplotlib

    from beholder.report.attribute_plots import figure

    made = figure(11, 4.8)
    axes = made.subplots(1, 2)
    for axis, (kind, label) in zip(
        axes, (("times", "processor seconds"), ("memory", "peak memory in MB")), strict=True
    ):
        for (name, colour), mark in zip(_coloured(found, kind), "osD^vP", strict=False):
            values = [item[kind][name] for item in found.values()]
            text = f"{name} ({fitted_slope(found, kind, name):.2f})"
            axis.loglog(list(found), values, marker=mark, markersize=4, color=colour, linewidth=1.4, label=text)
        axis.set_xlabel("samples")
        axis.set_ylabel(label)
        axis.grid(True, which="major", color="#e4e4e4", linewidth=0.6)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    ends = np.array([FITTED_FROM, max(found)], dtype=float)
    axes[0].loglog(ends, 2e-4 * ends, color="#8f8f8f", linestyle=":", linewidth=1.4, label="in proportion (1.00)")
    axes[1].set_ylim(50, 2000)
    for axis in axes:
        axis.legend(fontsize=7.5, frameon=False, title="stage (slope from 10\u2074 on)", title_fontsize=7.5)
    with matplotlib.rc_context({"svg.hashsalt": "beholder", "svg.fonttype": "none"}):
        made.savefig(path, metadata={"Date": None})


def _coloured(found: Found, kind: str) -> list[tuple[str, list[float]]]:
    from beholder.report.palettes import SEQUENTIAL, palette

    names = list(next(iter(found.values()))[kind])
    colours = palette(SEQUENTIAL, 2 * len(names) + 1)[: 2 * len(names) : 2]
    return list(zip(names, colours.tolist(), strict=True))


if __name__ == "__main__":
    main()
