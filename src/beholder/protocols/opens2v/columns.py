"""From a run's scores to the board's columns: the official value of every video, and why one has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from beholder.protocols.base import Finished, Scored
from beholder.protocols.opens2v.board import PARTS

_OFFICIAL_FIELD = {"face": "official", "nexus": "official", "ampl": "motion_fb"}
"""Parts whose evidence holds the official value; of the others the value is the official one."""


class PartColumn(NamedTuple):
    """One part of the board over the rows of a run.

    Args:
        key: the part.
        label: the scores' column.
        identity: the metric, printed; where it is not the default, the number is not OpenS2V's.
        values: (n,) official value of each row; NaN where OpenS2V writes none.
        statuses: (n,).
        evidence: (n,).
        reasons: (n,) why a row has no value; may be empty.
        runs: for natural, the marks of each row's passes.
    """

    key: str
    label: str
    identity: str
    values: np.ndarray
    statuses: Sequence[str]
    evidence: Sequence[Mapping[str, Any] | None]
    reasons: Sequence[str | None] = ()
    runs: Sequence[Sequence[float | None]] = ()

    def reason(self, row: int) -> str | None:
        """Why a row has no value."""
        return self.reasons[row] if self.reasons else None


def part_columns(finished: Finished, keys: Sequence[str]) -> dict[str, PartColumn]:
    """The parts that a run has scored. Of two metrics of one name the first one counts."""
    found: dict[str, PartColumn] = {}
    for key in keys:
        scored = next((item for item in finished.metrics if item.name == PARTS[key].metric), None)
        if scored is not None:
            found[key] = _column(key, scored)
    return found


def _column(key: str, scored: Scored) -> PartColumn:
    official = _OFFICIAL_FIELD.get(key)
    values = np.full(len(scored.statuses), np.nan)
    for row, status in enumerate(scored.statuses):
        evidence = scored.evidence[row] or {}
        if official is not None and official in evidence:
            told = evidence[official]
            values[row] = np.nan if told is None else float(told)
        elif status == "ok":
            values[row] = scored.values[row]
    runs = [list((item or {}).get("runs", [])) for item in scored.evidence] if key == "natural" else []
    return PartColumn(
        key, scored.label, scored.identity, values, scored.statuses, scored.evidence, scored.reasons, runs
    )


def missing_of(column: PartColumn, rows: np.ndarray) -> dict[str, int]:
    """How many of some rows have no official value, or one that does not count, by status."""
    counts: dict[str, int] = {}
    own = column.values[rows]
    gone = ~np.isfinite(own) | (own == 0 if PARTS[column.key].drop_zeros else np.zeros(len(rows), dtype=bool))
    for row in rows[gone]:
        status = column.statuses[row]
        counts[status] = counts.get(status, 0) + 1
    return counts
