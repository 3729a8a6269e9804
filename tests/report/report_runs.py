"""Runs with pictures, references, masks, evidence and texts that nobody should trust, for tests of the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image
from tests.comparing.made_runs import made_metric, made_run

EVIL = "</script><script>window.evil=1</script><img src=x onerror=\"window.evil=1\"> & 'quoted' \u2028"
"""A text that would run if any part of a page took it for HTML or JavaScript."""

PROMPTS = 12


def pictured_run(folder: Path, *, methods: tuple[str, ...] = ("base", "better"), evil: bool = False) -> Path:
    """A run of some methods on twelve prompts: `quality` rises by 0.2 with each method, `other` knows no direction.

    The last output of every method is not there; the prompts 0 to 5 are of the category "cats", the rest "dogs".
    """
    rows, lines = [], []
    text = EVIL if evil else "a plain text"
    for at, method in enumerate(methods):
        for number in range(PROMPTS):
            row = _row(folder, at, method, number, text)
            missing = number == PROMPTS - 1
            lines.append(row | {"references": [_picture(folder, "reference.png", (9, 9, 200))], "masks": _mask(folder)})
            rows.append(
                row
                | {
                    "quality": None if missing else 0.3 + 0.2 * at + 0.01 * number,
                    "quality_status": "missing" if missing else "ok",
                    "other": 0.5 - 0.02 * number + 0.1 * at,
                }
            )
    manifest = folder / "manifest.jsonl"
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    metrics = [made_metric("quality"), made_metric("other", higher=None)]
    asked = {"by": [], "max_failed": 0.2, "seed": 0, "resamples": 200, "level": 0.95, "data": str(manifest)}
    places = {"absolute": [str(manifest)], "from_run": ["../manifest.jsonl"]}
    notices = [text] if evil else []
    run = made_run(folder / "run", rows, metrics, asked=asked, input=places, notices=notices)
    _add_evidence(run, text)
    return run


def _row(folder: Path, at: int, method: str, number: int, text: str) -> dict[str, Any]:
    name = f"{method}-{number}.png"
    if number < PROMPTS - 1:
        _picture(folder, name, (20 * number, 80 * at, 120))
    return {
        "id": f"{method} {number} {text}",
        "output": name,
        "prompt": f"prompt number {number} {text}",
        "prompt_id": f"p{number}",
        "method": method if text != EVIL else f"{method} {EVIL}",
        "category": f"{'cats' if number < 6 else 'dogs'} {text if text == EVIL else ''}".strip(),
        "note": text,
    }


def _picture(folder: Path, name: str, colour: tuple[int, int, int]) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / name).exists():
        Image.new("RGB", (320, 240), colour).save(folder / name)
    return name


def _mask(folder: Path) -> str:
    if not (folder / "mask.png").exists():
        mask = Image.new("L", (320, 240), 0)
        mask.paste(255, (80, 60, 240, 180))
        mask.save(folder / "mask.png")
    return "mask.png"


def _add_evidence(run: Path, text: str) -> None:
    path = run / "scores.parquet"
    table = pq.read_table(path)
    evidence = json.dumps({"said": text, "frames": {"policy": "first", "indices": [0], "frame_count": 9}})
    table = table.append_column("quality_evidence", pa.array([evidence] * table.num_rows))
    reasons = [f"no file {text}" if value is None else None for value in table.column("quality").to_pylist()]
    pq.write_table(table.append_column("quality_reason", pa.array(reasons, pa.string())), path)


def set_run(folder: Path, values: dict[str, float], **more: Any) -> Path:
    """A run with metrics of whole sets alone: `fid`, lower being better, from halves with a spread of 1."""
    rows = [{"id": f"{folder.name} {at}", "output": f"{at}.png", "prompt": f"p{at}"} for at in range(10)]
    metrics = [
        {**made_metric(label, higher=False), "info": {**made_metric(label, higher=False)["info"], "kind": "set"}}
        for label in values
    ]
    run = made_run(folder, [row | {f"{label}_status": "ok" for label in values} for row in rows], metrics, **more)
    table = pq.read_table(run / "scores.parquet")
    pq.write_table(table.drop_columns([name for name in values if name in table.column_names]), run / "scores.parquet")
    found = [
        {"metric": label, "label": label, "aggregate": "set", "value": value, "low": value - 2, "high": value + 2,
         "level": 0.95, "ci_method": "half-sampling", "unit": "picture", "n": 10, "n_units": 10, "n_missing": {},
         "sd": 1.0, "headline": True}
        for label, value in values.items()
    ]  # fmt: skip
    (run / "sets.json").write_text(json.dumps(found), encoding="utf-8")
    return run
