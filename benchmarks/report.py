"""A report of 10,000 samples against a bare loop that only makes their thumbnails."""

from __future__ import annotations

import os
import random
from pathlib import Path

from PIL import Image
from tests.comparing.made_runs import made_metric, made_run

from beholder.report.html.thumbs import QUALITY, SIDE
from beholder.reporting import write_report
from benchmarks.pictures import write_pictures
from benchmarks.table import Row, at_most, seconds

COUNT, DISTINCT, PIXELS = 10_000, 100, 512
METRICS = ("clip_score", "clip_i", "pick_score", "vqa_score")


def measure(folder: Path) -> list[Row]:
    """Two methods of 5,000 outputs each, four metrics, JPEG files of 512 pixels."""
    paths = _outputs(folder / "out")
    run = _run(folder, paths)
    # The bare loop goes first and last, so that neither side alone finds the files in memory.
    before = seconds(lambda: _bare(paths, folder / "bare"))
    ours = seconds(lambda: write_report(run, out=folder / "report"))
    after = seconds(lambda: _bare(paths, folder / "bare"))
    again = seconds(lambda: write_report(run, out=folder / "report"))
    bare = (before + after) / 2
    return [
        at_most("a report of 10,000 samples, against a bare loop of Pillow thumbnails", ours, bare, 1.5),
        at_most("the same report again, its thumbnails being there", again, bare, 0.75),
    ]


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
    draw = random.Random(0)
    rows = [
        {
            "output": str(path),
            "prompt": f"a photo of scene number {at % (COUNT // 2)}",
            "prompt_id": str(at % (COUNT // 2)),
            "method": "ab"[at // (COUNT // 2)],
            "category": f"category {at % 12}",
            **{label: draw.gauss(0.3, 0.05) for label in METRICS},
        }
        for at, path in enumerate(paths)
    ]
    return made_run(folder / "run", rows, [made_metric(label) for label in METRICS])


def _bare(paths: list[Path], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for at, path in enumerate(paths):
        with Image.open(path) as image:
            image.thumbnail((SIDE, SIDE))
            image.convert("RGB").save(folder / f"{at}.jpg", quality=QUALITY)
