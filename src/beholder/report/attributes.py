"""What `beholder attributes` prints: the ranking of sets, and each set's attributes by what is above chance."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
SHOWN = 15


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
        f"{'rank':>4}  {'set':<24} {'SaD':>28} {'null':>8} {'PaD':>28} {'null':>8} {'MAR':>28} {'images':>7}",
    ]
    for row in sets:
        numbers = " ".join(
            f"{_estimate(row, name):>28} {_number(row.get(f'{name}_null_level')):>8}"
            for name in ("sad_mean", "pad_mean")
        )
        lines.append(
            f"{row['rank']:>4}  {row['set'][:24]:<24} {numbers} {_estimate(row, 'mar_mean'):>28} {row['n_gen']:>7}"
        )
    for one in sets:
        lines += ["", *_attribute_lines([row for row in rows if row["set"] == one["set"]], str(one["set"]))]
    lines += [
        "",
        *_remarks(sets, rows),
        "null: what a value stays under by chance. MAR: mean |R-SaD|. change: generated minus reference.",
        "*: significant at 5 % after Benjamini-Hochberg over the attributes.",
    ]
    if settings["density"] == "gaussian":
        lines.append("A single normal (SaD) can miss changes of shape: see W1 and JSD.")
    return "\n".join(line if width is None else line[:width] for line in lines) + "\n"


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


def _attribute_lines(rows: Sequence[Row], name: str) -> list[str]:
    """One set's attributes, those furthest above their null first."""

    def above(row: Row) -> float:
        value = row.get("sad_corrected")
        return -float(value if value is not None else row.get("sad") or 0.0)

    lines = [
        name,
        f"  {'attribute':<32} {'SaD':>28}  {'null':>8} {'change':>8} {'W1':>7} {'JSD':>7} {'MAR':>8}  "
        f"{'moved right, down':>18}",
    ]
    for row in sorted(rows, key=above)[:SHOWN]:
        if row["status"] != "ok":
            lines.append(f"  {row['attribute'][:32]:<32} {row['status']}")
            continue
        place = row.get("placement_status")
        moved = place if place != "ok" else f"{row['placement_shift_x']:+.2f} {row['placement_shift_y']:+.2f}"
        lines.append(
            f"  {row['attribute'][:32]:<32} {_estimate(row, 'sad'):>28}{_star(row, 'sad')} "
            f"{_number(row.get('sad_null_level')):>8} {row['mean_difference']:>+8.3f} {row['w1']:>7.3f} "
            f"{row['jsd']:>7.3f} {_number(row.get('mar')):>8}{_star(row, 'mar')} {moved or '':>17}"
            + _star(row, "placement_jsd")
            + (" irrelevant" if row.get("irrelevant") else "")
        )
    if len(rows) > SHOWN:
        lines.append(f"  … and {len(rows) - SHOWN} more in attributes.parquet")
    return lines


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
