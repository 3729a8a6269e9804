"""2,000 samples again, with 1 % new ones, and with a second metric; each against the first run.

The encoder is the small embedded one: the cheaper the first run, the harder the targets.
"""

from __future__ import annotations

from pathlib import Path

import beholder
from beholder.backends.pool import load_model, resolve_model
from benchmarks.pictures import write_manifest, write_pictures
from benchmarks.table import Row, at_most, seconds

NAME = "embedded"
COUNT, NEW, SIZE, PROMPTS = 2000, 20, 256, 500


def measure(folder: Path) -> list[Row]:
    beholder.register_encoder(NAME, load_model(resolve_model("demo:emoji"), device="cpu"))
    pictures = write_pictures(folder / "out", COUNT + NEW, SIZE)
    references = write_pictures(folder / "ref", 16, SIZE, first=COUNT + NEW)
    manifest = folder / "samples.jsonl"
    write_manifest(manifest, pictures[:COUNT], references, PROMPTS)

    def run(*metrics: str, out: str) -> None:
        beholder.evaluate(
            str(manifest), metrics=metrics, model=NAME, out=str(folder / out), store=str(folder / "store")
        )

    beholder.score("clip_score", images=str(pictures[0]), texts="warm", model=NAME)
    first = seconds(lambda: run("clip_score", "clip_i", out="first"))
    again = seconds(lambda: run("clip_score", "clip_i", out="first"))
    second = seconds(lambda: run("clip_score", "clip_i", "clip_t", out="second"))
    write_manifest(manifest, pictures, references, PROMPTS)
    grown = seconds(lambda: run("clip_score", "clip_i", out="first"))
    return [
        at_most(f"{COUNT:,} samples: the same run again, against the first", again, first, 0.05),
        at_most(f"{COUNT:,} samples: a second metric on the same encoder, against the first run", second, first, 0.05),
        at_most(f"{COUNT:,} samples: 1 % new ones, against the first run", grown, first, 0.06),
    ]
