"""`python -m benchmarks [NAME …]`: runs benchmarks, prints their rows, and writes RESULTS.md when all were run."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.table import Row, format_rows

NAMES: tuple[str, ...] = (
    "start", "ideal_loop", "reruns", "matrix", "overhead", "memory", "vqa_sharing", "comparing", "attributes", "report",
    "planning", "against", "engines",
)  # fmt: skip
if importlib.util.find_spec("av") is not None:
    NAMES = (*NAMES, "video", "shared_frames")
RESULTS = Path(__file__).with_name("RESULTS.md")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], help="benchmarks to run; all when none is named")
    names = parser.parse_args().names or list(NAMES)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    rows: list[Row] = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            found = importlib.import_module(f"benchmarks.{name}").measure(Path(folder))
            sys.stderr.write(f"{name}: {time.perf_counter() - began:.0f} s\n")
        rows += found
        sys.stdout.write(format_rows(found) + "\n\n")
        sys.stdout.flush()
    if list(names) == list(NAMES):
        RESULTS.write_text(_page(rows), encoding="utf-8")


def _page(rows: list[Row]) -> str:
    from beholder.runs.folder import versions

    packages = ", ".join(f"{name} {version}" for name, version in versions().items() if name != "platform")
    return f"""# Benchmark results

Made by `make bench` on {time.strftime("%Y-%m-%d")}: {os.cpu_count()} processors, {platform.machine()}, no GPU.
{packages}.

Only the ratios mean something: both sides of each were measured in the same run. The seconds are those of one shared
machine. What each row measures is said in [README.md](README.md).

{format_rows(rows)}
"""


if __name__ == "__main__":
    main()
