"""OpenS2V: what makes each total, sub-tracks, official values beside their companions, and why a video counts 0."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from beholder.protocols.opens2v.board import PARTS, weights
from beholder.protocols.opens2v.tables import COMPANIONS
from beholder.protocols.results import Number, Results, ResultTable
from beholder.report.html.data import Samples, View
from beholder.report.protocol import counts_text
from beholder.reporting.views.cells import estimate_cell, number_cell, number_tip, plain_table, table_data
from beholder.runs.results import Run

_TOTAL = re.compile(r"Total v(\S+) (\S+)$")


def opens2v_view(run: Run, name: str, results: Results, samples: Samples, sides: Sequence[int]) -> View:
    """The view of one run; the arguments as in `subject_view`."""
    tables = {table.name: table for table in results.tables}
    data: dict[str, Any] = {
        "facts": [f"Counted in the data: {counts_text(results.counts)}.", *results.notices],
        "board": table_data(tables["board"]) if "board" in tables else None,
        "bars": _bars(tables["board"]) if "board" in tables else None,
        "subtracks": table_data(tables["subtracks"]) if "subtracks" in tables else None,
        "companions": _companions(run, tables["companions"]) if "companions" in tables else None,
        "why": _why(tables["why"], samples, sides) if "why" in tables else None,
    }
    return View("opens2v", "OpenS2V", f"OpenS2V: {name}", data)


def _bars(board: ResultTable) -> dict[str, Any] | None:
    """How each total is put together: weight times part, with the bounds that a part is cut to."""
    total = next((match for column in board.columns if (match := _TOTAL.match(column))), None)
    if total is None:
        return None
    own = weights(total[1], total[2])
    parts = [
        {"title": PARTS[key].title, "weight": weight, "metric": PARTS[key].metric, "bounds": _bounds(key)}
        for key, weight in own.items()
    ]
    models = []
    for labels, theirs in board.rows:
        found = {n.column: n for n in board.numbers if n.row == labels and n.is_published is theirs}
        whole = found.get(total[0])
        partial = found.get("Partial sum")
        models.append({
            "name": labels[0], "published": theirs, "total": None if whole is None else whole.value,
            "partial": None if partial is None else partial.value,
            "note": (whole.note if whole is not None else None) or "",
            "parts": [_part(found.get(PARTS[key].title), weight) for key, weight in own.items()],
        })  # fmt: skip
    return {"title": total[0], "parts": parts, "models": models}


def _bounds(key: str) -> str:
    part = PARTS[key]
    told = f"{part.low:g} to {part.high:g}"
    return told + (", zeros left out" if part.drop_zeros else "") + (", without sign" if part.absolute else "")


def _part(number: Number | None, weight: float) -> dict[str, Any]:
    value = None if number is None else number.value
    return {"value": value, "adds": None if value is None else weight * value,
            "tip": "" if number is None else number_tip(number)}  # fmt: skip


def _companions(run: Run, table: ResultTable) -> dict[str, Any]:
    """A row a model and measure: the official mean, what stands beside it, and each one's place among the models."""
    labels = {str(item["info"]["name"]): str(item["label"]) for item in run.header["metrics"]}
    official = _official(run)
    models = list(dict.fromkeys(number.row[0] for number in table.numbers))
    lines, swaps = [], []
    for key, title, _ in COMPANIONS:
        label = labels.get(PARTS[key].metric)
        if title not in table.columns or label is None:
            continue
        beside = {n.row[0]: n for n in table.numbers if n.column == title}
        first = {model: official.get((model, label)) for model in models}
        values = {model: None if (found := first[model]) is None else found.value for model in models}
        seconds = {model: None if (found := beside.get(model)) is None else found.value for model in models}
        places = _places(values), _places(seconds)
        for model in models:
            one, other = first[model], beside.get(model)
            lines.append([
                PARTS[key].title, title, model,
                estimate_cell(None, tip="no value") if one is None
                else estimate_cell(one.value, one.low, one.high, f"n {one.n}"),
                estimate_cell(None) if other is None else estimate_cell(
                    other.value, other.low, other.high, number_tip(other)),
                _place(places[0].get(model)), _place(places[1].get(model)),
            ])  # fmt: skip
        if _rises_with_quality(title) and _leader(places[0]) != _leader(places[1]) and all(map(_leader, places)):
            swaps.append(
                f"{PARTS[key].title} puts {_leader(places[0])} first, {title} puts {_leader(places[1])} first."
            )
    heads = (("measure", False), ("beside it", False), ("model", False), ("official, mean", True), ("companion", True),
             ("place, official", True), ("place, companion", True))  # fmt: skip
    return plain_table("Official values and their companions", heads, lines, notes=list(table.notes), swaps=swaps)


def _official(run: Run) -> dict[tuple[str, str], Any]:
    """(model, label) → the headline mean."""
    found: dict[tuple[str, str], Any] = {}
    for item in run.summary:
        if item.headline and set(item.group) <= {"method"}:
            model = item.group.get("method")
            found[str(model) if model is not None else "(all videos)", item.label] = item
    return found


def _rises_with_quality(title: str) -> bool:
    """Spreads and jumps say how steady a value is, not how good a video is."""
    return "std" not in title and "jump" not in title and "coverage" not in title


def _places(values: Mapping[str, float | None]) -> dict[str, int]:
    """Place of each model, the highest first; equal values share a place."""
    known = [value for value in values.values() if value is not None]
    return {name: 1 + sum(other > value for other in known) for name, value in values.items() if value is not None}


def _place(place: int | None) -> dict[str, Any]:
    return number_cell("—" if place is None else f"{place}.", place)


def _leader(places: Mapping[str, int]) -> str | None:
    """The model in the first place; None where several share it."""
    first = [name for name, place in places.items() if place == 1]
    return first[0] if len(first) == 1 else None


def _why(table: ResultTable, samples: Samples, sides: Sequence[int]) -> dict[str, Any]:
    """A row a video and metric, with the reason as a column of its own and the sample that it is about."""
    rows = _samples_of(samples, set(sides))
    lines = []
    for number in table.numbers:
        model, video, metric, status = number.row
        worth = "left out" if number.value is None else "counts 0" if number.value == 0 else f"{number.value:.1f} %"
        line: dict[str, Any] = {"cells": [model, video, metric, status, worth, number.note or ""], "published": False}
        row = rows.get((model, video), rows.get(("", video)))
        lines.append(line if row is None else {**line, "row": row})
    heads = (("model", False), ("video", False), ("metric", False), ("status", False), ("in the mean", False),
             ("why", False))  # fmt: skip
    return {**plain_table("Why a video counts 0, or not at all", heads, []), "rows": lines,
            "notes": ["A video that is left out is left out of the mean, as OpenS2V does."]}  # fmt: skip


def _samples_of(samples: Samples, sides: set[int]) -> dict[tuple[str, str], int]:
    methods, stems = (samples.columns.get(name) or [None] * samples.n for name in ("method", "stem"))
    found: dict[tuple[str, str], int] = {}
    for row in range(samples.n):
        if samples.sides[row] in sides:
            name = stems[row] if stems[row] is not None else samples.ids[row]
            found.setdefault((str(methods[row] or ""), str(name)), row)
    return found
