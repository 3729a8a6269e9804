"""Subject-driven benchmarks (KnowCusBench and its kin): concepts, copied surroundings, references beside outputs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from beholder.protocols.results import Results
from beholder.protocols.subject_tables import NAMES
from beholder.report.html.data import Samples, View
from beholder.report.numbers import format_estimate
from beholder.report.protocol import counts_text
from beholder.reporting.views.cells import table_data
from beholder.runs.results import Run
from beholder.stats.bootstrap import mean_interval

PROTOCOLS = ("knowcusbench", "dreambench", "dreambench++", "customconcept101")
_ENTRY = ("task", "knowledge_id", "prompt_id", "seed")


def subject_view(run: Run, name: str, results: Results, samples: Samples, sides: Sequence[int]) -> View:
    """The view of one run.

    Args:
        run: the run.
        name: how it is called.
        results: its tables.
        samples: all samples of the report.
        sides: which sides of the report are of this run.
    """
    tables = {table.name: table for table in results.tables}
    labels = _labels(run)
    titles = {label: NAMES.get(metric, label) for metric, label in labels.items()}
    data: dict[str, Any] = {
        "facts": [f"Counted in the data: {counts_text(results.counts)}.", *results.notices],
        "paper": table_data(tables["paper"]) if "paper" in tables else None,
        "cells": table_data(tables["cells"]) if "cells" in tables else None,
        "concepts": table_data(tables["concepts"], titles=titles) if "concepts" in tables else None,
        "outputs": _outputs(samples, sides),
        "sides": list(sides),
        "metrics": list(titles),
        "copied": _copied(run, labels, samples, sides),
    }
    title = "KnowCusBench" if results.protocol == "knowcusbench" else results.protocol
    return View("subjects", title, f"{title}: {name}", data)


def _labels(run: Run) -> dict[str, str]:
    """Metric's name → its label; the first where a metric stands twice."""
    found: dict[str, str] = {}
    for item in run.header["metrics"]:
        if item["label"] in run.sample_labels:
            found.setdefault(str(item["info"]["name"]), str(item["label"]))
    return found


def _column(samples: Samples, name: str) -> Sequence[Any]:
    return samples.columns.get(name) or [None] * samples.n


def _outputs(samples: Samples, sides: Sequence[int]) -> dict[str, list[dict[str, Any]]]:
    """By concept: its prompts and seeds, each with one sample a side (-1 where a side has none)."""
    place = {side: at for at, side in enumerate(sides)}
    columns = {name: _column(samples, name) for name in ("concept", *_ENTRY)}
    found: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {}
    for row in range(samples.n):
        side, concept = place.get(samples.sides[row]), columns["concept"][row]
        if side is None or concept is None:
            continue
        key = tuple(columns[name][row] for name in _ENTRY)
        # Without any of these columns the prompt tells the outputs apart.
        key = key if any(part is not None for part in key[1:3]) else (*key, samples.prompts[row])
        entry = found.setdefault(str(concept), {}).setdefault(key, _entry(columns, row, len(sides)))
        if entry["rows"][side] < 0:
            entry["rows"][side] = row
    return {concept: list(entries.values()) for concept, entries in found.items()}


def _entry(columns: Mapping[str, Sequence[Any]], row: int, count: int) -> dict[str, Any]:
    seed = columns["seed"][row]
    return {"task": columns["task"][row], "seed": None if seed is None else str(seed), "rows": [-1] * count}


_CORNERS = (
    (True, False, "the subject, surroundings of its own"),
    (True, True, "the subject in the references' surroundings"),
    (False, True, "another thing in the references' surroundings"),
    (False, False, "neither"),
)


def _copied(run: Run, labels: Mapping[str, str], samples: Samples, sides: Sequence[int]) -> dict[str, Any] | None:
    """The two-by-two of subject and surroundings: where is each above chance, and what do the metrics say there?"""
    share = labels.get("background_share")
    if share is None or share not in samples.evidence:
        return None
    corners: dict[tuple[int, bool, bool], list[int]] = {}
    for row, front, back in _parts(samples, share, set(sides)):
        corners.setdefault((samples.sides[row], front > 0, back > 0), []).append(row)
    shown = [labels[name] for name in ("clip_i", "clip_i_seg", "clip_t") if name in labels]
    units = np.asarray(samples.units)
    settings = {name: run.header["asked"][name] for name in ("seed", "resamples", "level")}
    lines = []
    for side in sides:
        total = sum(len(rows) for (at, *_), rows in corners.items() if at == side)
        for front, back, text in _CORNERS:
            rows = corners.get((side, front, back), [])
            means = [_mean(samples, label, rows, units, settings) for label in shown]
            lines.append({"side": side, "front": front, "back": back, "text": text, "n": len(rows), "of": total,
                          "rows": rows[:200], "means": means})  # fmt: skip
    return {"metrics": [{"label": label, "title": _title(labels, label)} for label in shown], "corners": lines}


def _title(labels: Mapping[str, str], label: str) -> str:
    return next((NAMES.get(name, label) for name, own in labels.items() if own == label), label)


def _parts(samples: Samples, label: str, sides: set[int]) -> Iterator[tuple[int, float, float]]:
    """(row, subject's similarity above chance, surroundings') of the samples for which both were measured."""
    for row, text in enumerate(samples.evidence[label]):
        if text is None or samples.sides[row] not in sides:
            continue
        found = json.loads(text)
        if isinstance(found, dict) and "s_fg" in found and "s_bg" in found:
            yield row, float(found["s_fg"]), float(found["s_bg"])


def _mean(
    samples: Samples, label: str, rows: Sequence[int], units: np.ndarray, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """A mean over some samples with its interval over prompts."""
    kept = [row for row in rows if samples.values[label][row] is not None]
    if not kept:
        return {"t": "—", "v": None, "n": 0}
    values = np.array([samples.values[label][row] for row in kept], dtype=np.float64)
    codes = np.unique(units[kept], return_inverse=True)[1]
    ends = mean_interval(np.bincount(codes, weights=values), np.bincount(codes), unit="prompt", **settings)
    value = float(values.mean())
    return {"t": format_estimate(value, ends.low, ends.high).replace("-", "−"), "v": value, "n": len(kept)}
