"""A metric that asks an API model whether a picture shows its prompt, for runs from end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import beholder
from beholder.metrics.base import FeatureBatch, Pair, ScoreColumns, Slot
from beholder.records import MetricInfo


class SaysYes(beholder.SampleMetric):
    """P(yes) over all forms of yes, with the mass that was not told beside it."""

    info = MetricInfo(
        name="says_yes", family="test", kind="sample", summary="P(yes).", inputs=("output", "prompt"),
        formula="P(yes)", unit="probability", range=(0.0, 1.0), higher_is_better=True, degenerate="none", paper=None,
        reference_code=None, version="1", capability="AnswerScorer", default_model="api:openai/m",
    )  # fmt: skip
    slots = (Slot("answer", "api:openai/m", "answer", params=(("answer", "Yes"),)),)

    def select(self, sample: Any) -> Any:
        return {"answer": Pair(sample.output, f'Does this image show "{sample.prompt}"?')}

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        yes, rest = np.exp(batch.one("answer", "yes")), np.exp(batch.one("answer", "rest"))
        who = batch.one("answer", "model")
        return ScoreColumns(
            yes, {}, {row: {"rest": float(rest[row]), "model": str(who[row])} for row in range(batch.n)}
        )


def write_pictures(folder: Path, count: int) -> Path:
    """A manifest of pictures that all differ, with a prompt each."""
    rows = []
    for at in range(count):
        Image.new("RGB", (16, 16), (at * 20, 100, 200 - at * 10)).save(folder / f"p{at}.png")
        rows.append({"id": str(at), "output": f"p{at}.png", "prompt": f"thing {at}"})
    path = folder / "samples.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
