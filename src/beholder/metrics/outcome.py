"""From raw values to score columns: degenerate embeddings and values out of range become statuses with reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from beholder.backends.base import Columns
from beholder.metrics.base import ScoreColumns
from beholder.records import Status

TOLERANCE = 1e-6
"""By how much rounding may carry a value over its declared range."""

Range = tuple[float | None, float | None]


def make_scores(
    values: np.ndarray,
    *,
    degenerate: Mapping[str, np.ndarray],
    within: Range,
    statuses: Mapping[int, tuple[Status, str]] | None = None,
    evidence: Mapping[int, Mapping[str, Any]] | None = None,
) -> ScoreColumns:
    """Score columns of a batch.

    Args:
        values: (n,) raw values.
        degenerate: what an embedding is of ("image", "text") → (n,) bool, True where it has no direction.
        within: the declared range; a value outside it is a fault, never clipped.
        statuses: rows that have a status already.
        evidence: evidence by row.
    """
    values = np.asarray(values, dtype=np.float64)
    found: dict[int, tuple[Status, str]] = {}
    for row in np.flatnonzero(_outside(values, within)):
        found[int(row)] = (Status.FAILED, _out_of_range(float(values[row]), within))
    for what, flags in degenerate.items():
        for row in np.flatnonzero(flags):
            reason = f"the embedding of the {what} is zero or not finite, so it has no direction"
            found[int(row)] = (Status.DEGENERATE_EMBEDDING, reason)
    found.update(statuses or {})
    return ScoreColumns(values, found, dict(evidence or {}))


def truncation_evidence(text: Columns, offsets: np.ndarray | None = None) -> dict[int, dict[str, Any]]:
    """Evidence for the rows whose text was longer than the model takes: {"truncated": true, "n_tokens": n}.

    Args:
        text: what is known of the texts ("truncated", "n_tokens").
        offsets: (n + 1,) where each row's texts begin, for rows of several (questions, or one a frame); None for one a
            row. `n_tokens` is that of the longest.
    """
    if "truncated" not in text:
        return {}
    tokens = text.get("n_tokens")
    found: dict[int, dict[str, Any]] = {}
    for unit in np.flatnonzero(text["truncated"]):
        row = int(unit) if offsets is None else int(np.searchsorted(offsets, unit, side="right")) - 1
        entry = found.setdefault(row, {"truncated": True})
        if tokens is not None:
            entry["n_tokens"] = max(int(tokens[unit]), entry.get("n_tokens", 0))
    return found


def _outside(values: np.ndarray, within: Range) -> np.ndarray:
    low, high = within
    outside: np.ndarray = ~np.isfinite(values)
    if low is not None:
        outside |= values < low - TOLERANCE
    if high is not None:
        outside |= values > high + TOLERANCE
    return outside


def _out_of_range(value: float, within: Range) -> str:
    if not np.isfinite(value):
        return "the value is not a finite number"
    low, high = ("no limit" if end is None else f"{end:g}" for end in within)
    return f"the value {value:.9g} lies outside the declared range from {low} to {high}"
