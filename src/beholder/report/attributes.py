"""What `beholder attributes` prints: the ranking of sets, and each set's attributes by what is above chance."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from beholder.report.render import fits, to_text
from beholder.report.tables import Column, Table
from beholder.report.visible import visible

Row = Mapping[str, Any]
SHOWN = 15
DIVERGENCES_LIE_HIGH = (
    "SaD and PaD cannot be below 0, so draws of them lie high: an interval may even leave its value out, that of a "
    "mean most of all. Corrected: the value less its null mean (_corrected), and both ends less twice that, cut at 0 "
    "(_corrected_low, _corrected_high; the lower end is a negative value itself); read that interval where differences "
    "are small, and of means."
)
"""What to know of the intervals; measured in docs/attributes.md."""
NONE_BY_KERNELS = (
    "Corrected values by kernels have no interval: kernels add more than the null mean, the more the sets differ."
)


def attributes_json(header: Mapping[str, Any], sets: Sequence[Row], rows: Sequence[Row]) -> dict[str, Any]:
    """Everything of the tables of sets and attributes, with the settings."""
    return {"settings": header["settings"], "model": header["model"], "sets": list(sets), "attributes": list(rows)}


def attributes_text(
    header: Mapping[str, Any], sets: Sequence[Row], rows: Sequence[Row], *, width: int | None = None
) -> str:
    """Plain tables. A star marks what is significant after Benjamini-Hochberg over the attributes (5 %)."""
    settings = header["settings"]
    lines = [
        f"{settings['score']} by {header['model']['id']}, {settings['density']} density, KL({settings['direction']}), "
        f"{header['unit']}, seed {settings['seed']}",
        *_how(header),
        "",
        _widest(functools.partial(_set_table, sets), sets, ("sad_mean", "pad_mean"), width),
    ]
    for one in sets:
        mine = [row for row in rows if row["set"] == one["set"]]
        table = functools.partial(_attribute_table, mine)
        lines += [str(one["set"]), "", _widest(table, mine, ("sad",), width)]
    lines += [
        *_remarks(sets, rows),
        "null: what a value stays under by chance. MAR: mean |R-SaD|. change: generated minus reference.",
        DIVERGENCES_LIE_HIGH,
        "*: significant at 5 % after Benjamini-Hochberg over the attributes.",
    ]
    if settings["density"] == "kde":
        lines.append(NONE_BY_KERNELS)
    if settings["density"] == "gaussian":
        lines.append("A single normal (SaD) can miss changes of shape: see W1 and JSD.")
    return "\n".join(map(visible, lines)) + "\n"


def _widest(table: Callable[[bool], Table], rows: Sequence[Row], names: Sequence[str], width: int | None) -> str:
    """A table with corrected values where any have an interval and there is room, else without.

    Where not even the table without them has room, rows are blocks of lines, which have room for all.
    """
    has_any = any(row.get(f"{name}_corrected_low") is not None for row in rows for name in names)
    without = table(False)
    if not has_any:
        return to_text(without, width=width)
    whole = table(True)
    return to_text(whole if fits(whole, width) or not fits(without, width) else without, width=width)


def _set_table(sets: Sequence[Row], corrected: bool) -> Table:
    titles = [Column("rank", True), Column("set")]
    shown = [
        title for name in ("SaD", "PaD") for title in (name, "null", *([f"{name} corrected"] if corrected else []))
    ]
    titles += [Column(title, True) for title in (*shown, "MAR", "images")]
    rows = []
    for row in sets:
        numbers = []
        for name in ("sad_mean", "pad_mean"):
            numbers += [_estimate(row, name), _number(row.get(f"{name}_null_level"))]
            numbers += [_estimate(row, f"{name}_corrected")] if corrected else []
        rows.append((str(row["rank"]), str(row["set"]), *numbers, _estimate(row, "mar_mean"), str(row["n_gen"])))
    return Table(tuple(titles), tuple(rows))


def _how(header: Mapping[str, Any]) -> list[str]:
    """What else the scores were made with; all of it stands in the header."""
    settings, pixels = header["settings"], header["model"].get("preprocessing") or {}
    if settings["score"] != "ra_clip_score":
        told = [f'prompt "{settings["prompt"]}"']
    else:
        told = [f'"{settings["positive"]}" against "{settings["negative"]}"']
        pair = settings["tau"] if settings["tau"] > 0 else header.get("logit_scale")
        tokens = settings["tau_agg"] if settings["tau_agg"] > 0 else pair
        told += [] if pair is None else [f"temperatures {pair:.4g} and {tokens:.4g}"]
        told.append(f"refinement {settings['refine']}")
    shown = [f"{name} {pixels[name]}" for name in ("resize", "size", "crop", "interpolation") if name in pixels]
    return ["; ".join([*told, *([f"pixels: {', '.join(shown)}"] if shown else [])])]


def _remarks(sets: Sequence[Row], rows: Sequence[Row]) -> list[str]:
    """What has no number, and why."""
    found = []
    sides = [
        ("the reference", sets[0].get("n_missing_ref") if sets else None),
        *((str(row["set"]), row.get("n_missing")) for row in sets),
    ]
    for name, missing in sides:
        counts = json.loads(missing) if isinstance(missing, str) else missing or {}
        if counts:
            told = ", ".join(f"{status} {count}" for status, count in sorted(counts.items()))
            found.append(f"Images of {name} that were left out: {told} (see scores.parquet).")
    reasons = dict.fromkeys((str(row["set"]), row["reason"]) for row in rows if row.get("reason"))
    found += [f"{name}: {reason}." for name, reason in list(reasons)[:SHOWN]]
    return [*found, ""] if found else []


def _attribute_table(rows: Sequence[Row], corrected: bool) -> Table:
    """One set's attributes, those furthest above their null first."""

    def above(row: Row) -> float:
        value = row.get("sad_corrected")
        return -float(value if value is not None else row.get("sad") or 0.0)

    titles = [Column("attribute")]
    first = ("SaD", "null", *(("SaD corrected",) if corrected else ()))
    titles += [Column(title, True) for title in (*first, "change", "W1", "JSD", "MAR", "moved right, down")]
    notes = (f"… and {len(rows) - SHOWN} more in attributes.parquet",) if len(rows) > SHOWN else ()
    shown = sorted(rows, key=above)[:SHOWN]
    return Table((*titles, Column("")), tuple(_attribute_cells(row, corrected) for row in shown), notes)


def _attribute_cells(row: Row, corrected: bool) -> tuple[str, ...]:
    name = str(row["attribute"])
    if row["status"] != "ok":
        return (name, str(row["status"]), *([""] * (7 + corrected)))
    moved = row.get("placement_status")
    if moved == "ok":
        moved = f"{row['placement_shift_x']:+.2f} {row['placement_shift_y']:+.2f}"
    return (
        name,
        _estimate(row, "sad") + _star(row, "sad"),
        _number(row.get("sad_null_level")),
        *((_estimate(row, "sad_corrected"),) if corrected else ()),
        f"{row['mean_difference']:+.3f}",
        f"{row['w1']:.3f}",
        f"{row['jsd']:.3f}",
        _number(row.get("mar")) + _star(row, "mar"),
        (moved or "") + _star(row, "placement_jsd"),
        "irrelevant" if row.get("irrelevant") else "",
    )


def _star(row: Row, name: str) -> str:
    q = row.get(f"{name}_q")
    return "*" if q is not None and q < 0.05 else " "


def _estimate(row: Row, name: str) -> str:
    """A value with its interval, where it has one."""
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    value = _number(row.get(name))
    return value if not value or low is None or high is None else f"{value} [{_number(low)}, {_number(high)}]"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if value == 0 or abs(value) >= 1e-4 else f"{value:.0e}"
