"""A report of 10,000 samples against a bare loop that only makes their thumbnails, and its first paint against 100."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from PIL import Image
from tests.browser import browser, page_of, until
from tests.comparing.made_runs import made_metric, made_run

from beholder.report.html.thumbs import QUALITY, SIDE
from beholder.reporting import write_report
from benchmarks.pictures import write_pictures
from benchmarks.table import Row, at_most, not_runnable

COUNT, FEW, DISTINCT, PIXELS = 10_000, 100, 100, 512
LOADS = 7
METRICS = ("clip_score", "clip_i", "pick_score", "vqa_score")


def measure(folder: Path) -> list[Row]:
    """Two methods of 5,000 outputs each, four metrics, JPEG files of 512 pixels; processor time of all threads."""
    paths = _outputs(folder / "out")
    run = _run(folder / "run", paths)
    bare = _processor(lambda: _bare(paths, folder / "bare"))
    ours = _processor(lambda: write_report(run, out=folder / "report"))
    again = _processor(lambda: write_report(run, out=folder / "report"))
    few = write_report(_run(folder / "few", paths[: FEW // 2] + paths[-FEW // 2 :]), out=folder / "report-few")
    return [
        at_most("a report of 10,000 samples, against a bare loop of Pillow thumbnails", ours, bare, 1.5),
        at_most("the same report again, its thumbnails being there", again, bare, 0.75),
        *_paints(folder / "report" / "index.html", few),
    ]


def _processor(call: Callable[[], object]) -> float:
    """Processor seconds of a call: on a shared machine those of the clock are other people's too."""
    began = time.process_time()
    call()
    return time.process_time() - began


def _paints(many: Path, few: Path) -> list[Row]:
    """What a browser reads before its first paint (charts of many samples have more bins, up to a bound), and when that
    is: the least of some loads, in turn."""
    sizes = [path.stat().st_size / 1e6 for path in (many, few)]
    rows = [at_most("the page before any sample is read: 10,000 samples against 100", *sizes, 1.25, unit="MB")]
    told = "first paint: 10,000 samples against 100"
    if shutil.which("chromium") is None or find_spec("playwright") is None:
        return [*rows, not_runnable(told, "no Chromium")]
    with browser() as opened:
        paints = [[_paint(opened, path) for path in (many, few)] for _ in range(LOADS)]
    return [*rows, at_most(told, min(p[0] for p in paints), min(p[1] for p in paints), 1.25)]


def _paint(opened: Any, path: Path) -> float:
    with page_of(opened, path.resolve().as_uri(), viewport={"width": 1280, "height": 900}) as page:
        painted = "performance.getEntriesByName('first-contentful-paint').length > 0"
        until(page, painted)
        found = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        until(page, "B.done === true", seconds=120)
        return float(found) / 1000


def _outputs(folder: Path) -> list[Path]:
    """Distinct files by name and a hundred by content: making ten thousand would take longer than all else."""
    made = write_pictures(folder / "made", DISTINCT, PIXELS)
    paths = []
    for at in range(COUNT):
        path = folder / f"{at}.jpg"
        os.link(made[at % DISTINCT], path)
        paths.append(path)
    return paths


def _run(folder: Path, paths: list[Path]) -> Path:
    count = len(paths)
    draw = random.Random(0)
    rows = [
        {
            "output": str(path),
            "prompt": f"a photo of scene number {at % (count // 2)}",
            "prompt_id": str(at % (count // 2)),
            "method": "ab"[at // (count // 2)],
            "category": f"category {at % 12}",
            **{label: draw.gauss(0.3, 0.05) for label in METRICS},
        }
        for at, path in enumerate(paths)
    ]
    return made_run(folder, rows, [made_metric(label) for label in METRICS])


def _bare(paths: list[Path], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for at, path in enumerate(paths):
        with Image.open(path) as image:
            image.thumbnail((SIDE, SIDE))
            image.convert("RGB").save(folder / f"{at}.jpg", quality=QUALITY)
