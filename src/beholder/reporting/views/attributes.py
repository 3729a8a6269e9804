"""Attribute evaluations (`beholder attributes`): bars, matrix, maps and placements as data for a page."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import UserError
from beholder.attributing.files import AttributeRun
from beholder.functional.placement import excess, shares
from beholder.report.attributes import DIVERGENCES_LIE_HIGH, NONE_BY_KERNELS
from beholder.report.html.data import View
from beholder.report.palettes import DIVERGING, SEQUENTIAL, palette
from beholder.reporting.views.cells import estimate_cell, finite, number_cell, plain_table

MOST_FIGURES = 24
"""Figures of one evaluation that are shown; the others stay in its folder."""

MOST_IN_MATRIX = 40
"""Attributes that a matrix of pairs shows: those with the largest values."""

_PNG = b"\x89PNG\r\n\x1a\n"
_DRAWN_HERE = {"sad", "pad", "r_sad", "placement"}
_Row = Mapping[str, Any]


def attributes_view(path: Path) -> View:
    """The view of one evaluation."""
    run = AttributeRun(path)
    header, settings = run.header, run.header["settings"]
    rows, pairs = run.attributes.to_pylist(), run.pairs.to_pylist()
    data = {
        "facts": [
            f"{settings['score']} by {header['model']['id']}, {settings['density']} density, "
            f"KL({settings['direction']}), nats, seed {settings['seed']}.",
            *map(str, header.get("notices") or ()),
        ],
        "unit": "nats",
        "ranking": _ranking(run.sets.to_pylist(), settings["density"]),
        "sets": [_one_set(run, str(name), rows, pairs) for name in header["generated"]],
        "sequential": _colours(SEQUENTIAL),
        "diverging": _colours(DIVERGING),
        "figures": _figures(path / "pictures"),
        "identity": {name: header.get(name) for name in ("model", "settings", "attributes", "inputs", "beholder")},
    }
    return View("attributes", "Attributes", f"Attributes: {path.resolve().name}", data)


def _colours(anchors: Sequence[str], count: int = 33) -> list[str]:
    steps = (palette(anchors, count) * 255).round().astype(int)
    return ["#" + "".join(f"{part:02x}" for part in step) for step in steps]


def _ranking(sets: Sequence[_Row], density: str) -> dict[str, Any]:
    heads = (("rank", True), ("set", False), ("SaD, mean", True), ("null level", True),
             ("SaD, mean, corrected", True), ("PaD, mean", True), ("null level of PaD", True),
             ("PaD, mean, corrected", True), ("MAR, mean", True), ("significant attributes", True),
             ("images", True))  # fmt: skip
    lines = [
        [number_cell(str(row["rank"]), row["rank"]), str(row["set"]), _estimate(row, "sad_mean"),
         _plain(row.get("sad_mean_null_level")), _estimate(row, "sad_mean_corrected"), _estimate(row, "pad_mean"),
         _plain(row.get("pad_mean_null_level")), _estimate(row, "pad_mean_corrected"), _estimate(row, "mar_mean"),
         _count(row.get("significant_attributes"), row.get("n_attributes")), _count(row.get("n_gen"))]
        for row in sets
    ]  # fmt: skip
    notes = [
        "Null level: what a value stays under by chance in 95 % of cases when nothing differs.",
        DIVERGENCES_LIE_HIGH,
        *([NONE_BY_KERNELS] if density == "kde" else []),
    ]
    return plain_table("Sets, the nearest to the reference first", heads, lines, notes=notes)


def _estimate(row: _Row, name: str) -> dict[str, Any]:
    return estimate_cell(row.get(name), row.get(f"{name}_low"), row.get(f"{name}_high"), _tested(row, name))


def _plain(value: Any) -> dict[str, Any]:
    found = finite(value)
    return number_cell("—" if found is None else f"{found:.3g}", found)


def _count(value: Any, of: Any = None) -> dict[str, Any]:
    text = "—" if value is None else str(value)
    return number_cell(f"{text} of {of}" if of is not None and value is not None else text, value)


def _tested(row: _Row, name: str) -> str:
    """Null mean and level, p and q in words, and the corrected value where it has an interval."""
    told = [
        (f"{word} {found:.3g}")
        for word, end in (("null mean", "_null_mean"), ("null level", "_null_level"), ("p", "_p"), ("q", "_q"))
        if (found := finite(row.get(f"{name}{end}"))) is not None
    ]
    if finite(row.get(f"{name}_corrected_low")) is not None:
        value, low, high = (_short(row.get(f"{name}_corrected{end}")) for end in ("", "_low", "_high"))
        told.append(f"corrected {value} [{low}, {high}]")
    return ", ".join(told)


def _one_set(run: AttributeRun, name: str, rows: Sequence[_Row], pairs: Sequence[_Row]) -> dict[str, Any]:
    own = [row for row in rows if row["set"] == name]
    return {
        "name": name,
        "attributes": [_attribute(row) for row in own],
        "table": _table(own),
        "pairs": _pairs([row for row in pairs if row["set"] == name], [str(row["attribute"]) for row in own]),
        "maps": _maps(run, name, own),
    }


def _attribute(row: _Row) -> dict[str, Any]:
    """What the bars show of one attribute."""
    change = finite(row.get("mean_difference"))
    return {
        "name": str(row["attribute"]), "status": row["status"], "sad": finite(row.get("sad")),
        "low": finite(row.get("sad_low")), "high": finite(row.get("sad_high")),
        "null": finite(row.get("sad_null_level")), "change": change, "sure": _sure(row, "sad"),
        "irrelevant": bool(row.get("irrelevant")), "tip": _tested(row, "sad"),
    }  # fmt: skip


def _sure(row: _Row, name: str) -> bool:
    q = finite(row.get(f"{name}_q"))
    return q is not None and q < 0.05


def _table(rows: Sequence[_Row]) -> dict[str, Any]:
    heads = (("attribute", False), ("status", False), ("SaD", True), ("SaD, corrected", True),
             ("change", True), ("W1", True), ("JSD", True), ("prevalence ref → gen", True), ("MAR", True),
             ("placement JSD", True), ("shift right", True), ("shift down", True))  # fmt: skip
    lines = []
    for row in rows:
        before, after = finite(row.get("prevalence_ref")), finite(row.get("prevalence_gen"))
        both = None if before is None or after is None else after - before
        shown = "—" if both is None else f"{100 * (before or 0):.0f} → {100 * (after or 0):.0f} %"
        status = "irrelevant" if row.get("irrelevant") else str(row["status"])
        lines.append([
            str(row["attribute"]), status, _estimate(row, "sad"), _estimate(row, "sad_corrected"),
            _estimate(row, "mean_difference"),
            _estimate(row, "w1"), _estimate(row, "jsd"), number_cell(shown, both), _estimate(row, "mar"),
            _estimate(row, "placement_jsd"), _estimate(row, "placement_shift_x"), _estimate(row, "placement_shift_y"),
        ])  # fmt: skip
    notes = [
        "Change: mean score, generated minus reference. Shifts: shares of the crop, right and down. Irrelevant: in "
        "neither set often enough to say anything.",
        "A single normal (SaD) can miss changes of shape: see W1 and JSD.",
    ]
    return plain_table("All attributes", heads, lines, notes=notes)


def _pairs(rows: Sequence[_Row], names: Sequence[str]) -> dict[str, Any]:
    """The attributes of the matrix and its pairs: [first, second, PaD, dependence, significant, significant, tip]."""
    most: dict[str, float] = {}
    for row in rows:
        size = max(abs(finite(row.get("pad")) or 0.0), abs(finite(row.get("dependence")) or 0.0))
        for end in ("first", "second"):
            most[str(row[end])] = max(most.get(str(row[end]), 0.0), size)
    kept = sorted(most, key=lambda name: -most[name])[:MOST_IN_MATRIX]
    shown = [name for name in names if name in set(kept)]
    place = {name: at for at, name in enumerate(shown)}
    cells = [
        [place[str(row["first"])], place[str(row["second"])], finite(row.get("pad")), finite(row.get("dependence")),
         _sure(row, "pad"), _sure(row, "dependence"), f"PaD: {_tested(row, 'pad')}",
         f"dependence: {_tested(row, 'dependence')}"]
        for row in rows
        if str(row["first"]) in place and str(row["second"]) in place
    ]  # fmt: skip
    return {"names": shown, "left_out": len(most) - len(shown), "cells": cells}


def _maps(run: AttributeRun, name: str, rows: Sequence[_Row]) -> dict[str, Any] | None:
    """By attribute: mean maps, R-SaD, significant cells, and where the attribute's centre moved."""
    try:
        arrays = run.maps(name)
    except UserError:
        return None
    found = {}
    for at, row in enumerate(rows):
        if not arrays["valid"][at]:
            continue
        found[str(row["attribute"])] = {
            **{key: np.round(arrays[key][at], 5).tolist() for key in ("ref_mean", "gen_mean", "r_sad")},
            "significant": np.asarray(arrays["significant"][at]).astype(int).tolist(),
            "tip": f"MAR {_short(row.get('mar'))} ({_tested(row, 'mar')})",
            "move": _move(arrays["ref_mean"][at], row, run.header["settings"].get("background", "min")),
        }
    grid = arrays["r_sad"].shape[1:]
    return {"rows": int(grid[0]), "columns": int(grid[1]), "of": found} if found else None


def _short(value: Any) -> str:
    found = finite(value)
    return "—" if found is None else f"{found:.3g}"


def _move(ref_mean: np.ndarray, row: _Row, background: Any) -> dict[str, Any] | None:
    """From the centre of the reference's heat map by the shift that was measured; None without a placement."""
    if row.get("placement_status") != "ok":
        return None
    rows, columns = (int(count) for count in np.shape(ref_mean))
    heat = np.asarray(shares(excess(np.ravel(ref_mean).astype(np.float64), background=background)))
    heat = heat.reshape(rows, columns)
    down, across = (np.arange(rows) + 0.5) / rows, (np.arange(columns) + 0.5) / columns
    x, y = float((heat.sum(axis=0) * across).sum()), float((heat.sum(axis=1) * down).sum())
    return {"x": x, "y": y, "dx": finite(row["placement_shift_x"]), "dy": finite(row["placement_shift_y"]),
            "sure": _sure(row, "placement_jsd"), "tip": _tested(row, "placement_jsd")}  # fmt: skip


def _figures(home: Path) -> list[dict[str, str]]:
    """Figures that were drawn beside those of the page (`--pictures`): examples and overlays."""
    if not home.is_dir():
        return []
    inside = home.resolve()
    drawn = [
        item
        for item in sorted(home.rglob("*.png"))
        # A link that leads out of the folder would put a foreign file into the page.
        if item.stem not in _DRAWN_HERE and item.resolve().is_relative_to(inside)
    ]
    found = []
    for item in drawn[:MOST_FIGURES]:
        data = item.read_bytes()
        if data.startswith(_PNG):
            name = str(item.relative_to(home).with_suffix(""))
            found.append({"name": name, "data": b64encode(data).decode("ascii")})
    return found
