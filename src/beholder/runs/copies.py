"""Copies of references in the tables of fidelity metrics: a copied reference must not pass for fidelity."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from beholder.records import Summary

COPY_CHECK = "copy_check"


def with_copies(rows: Sequence[Summary], metrics: Sequence[Mapping[str, Any]]) -> list[Summary]:
    """The summaries, where those of metrics that look at references carry what `copy_check` found.

    Args:
        rows: summaries of a run.
        metrics: the run's metrics as its header describes them.
    """
    checks = {item["label"] for item in metrics if item["info"]["name"] == COPY_CHECK}
    fidelity = {item["label"] for item in metrics if "references" in item["info"]["inputs"]} - checks
    if not checks or not fidelity:
        return list(rows)
    label = sorted(checks)[0]
    told = {_group(row): _sentence(row, rows) for row in rows if row.label == label and row.headline}
    result = []
    for row in rows:
        sentence = told.get(_group(row)) if row.label in fidelity and row.headline else None
        note = "; ".join(part for part in (row.note, sentence) if part)
        result.append(replace(row, note=note) if sentence else row)
    return result


def _group(row: Summary) -> str:
    return json.dumps(dict(row.group), sort_keys=True, default=str)


def _sentence(copied: Summary, rows: Sequence[Summary]) -> str | None:
    """What the check found in one group, as a note."""
    if copied.value is None:
        return None
    same = {row.aggregate: row.value for row in rows if row.label == copied.label and _group(row) == _group(copied)}
    shares = [f"{name} {share:.1%}" for name in ("exact", "near") if (share := same.get(name)) is not None]
    return f"copies of references: {copied.value:.1%}" + (f" ({', '.join(shares)})" if shares else "")
