"""Run folders made by hand: rows and metrics as a test needs them, without any model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def made_metric(label: str, *, higher: bool | None = True, **changes: Any) -> dict[str, Any]:
    """A metric's entry in a header."""
    info = {"name": label, "inputs": ["output"], "unit": "cosine", "higher_is_better": higher, "version": "1"}
    slots = {"image": {"model": "hf:openai/clip-vit-large-patch14", "model_key": "k1"}}
    entry = {"label": label, "identity": label, "info": info, "settings": {}, "slots": slots, "plain_mean": True}
    return entry | changes


def made_run(
    folder: Path,
    rows: Sequence[Mapping[str, Any]],
    metrics: Sequence[dict[str, Any]] | None = None,
    **header: Any,
) -> Path:
    """A finished run folder of rows like {"id": …, "prompt": …, "clip_score": 0.3}; a value None has a status.

    A row may name the status of a metric in "<label>_status"; without it a value is ok and None is `unreadable`.
    """
    metrics = [made_metric("clip_score")] if metrics is None else metrics
    labels = [item["label"] for item in metrics]
    kept = list(dict.fromkeys(name for row in rows for name in row if name.removesuffix("_status") not in labels))
    columns: dict[str, Any] = {name: [row.get(name) for row in rows] for name in kept}
    columns.setdefault("id", [f"{folder.name}-{at}" for at in range(len(rows))])
    for label in labels:
        values = [row.get(label) for row in rows]
        columns[label] = pa.array(values, pa.float64())
        given = [row.get(f"{label}_status") for row in rows]
        columns[f"{label}_status"] = [
            status or ("unreadable" if value is None else "ok") for status, value in zip(given, values)
        ]
    folder.mkdir(parents=True, exist_ok=True)
    facts = {
        "schema": 1,
        "status": "finished",
        "asked": {"by": [], "max_failed": 0.0, "seed": 0, "resamples": 200, "level": 0.95},
        "metrics": list(metrics),
        "models": {"k1": {"weights_sha256": "a" * 64, "dtype": "float32", "preprocessing": {"size": 224}}},
        "notices": [],
        "decode": {},
        "truncation": "truncate",
        "versions": {"beholder": "0.1.0"},
    }
    (folder / "run.json").write_text(json.dumps(facts | header), encoding="utf-8")
    pq.write_table(pa.table(columns), folder / "scores.parquet")
    return folder
