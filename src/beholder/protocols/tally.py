"""From a run's columns to a protocol's numbers: means over chosen rows with intervals over prompts or concepts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beholder.protocols.base import Finished, Scored
from beholder.protocols.results import Number
from beholder.records import Status, Summary
from beholder.stats.aggregate import summarise
from beholder.stats.bootstrap import mean_interval

_STATUSES = [status.value for status in Status]
_CODES = {name: code for code, name in enumerate(_STATUSES)}


def unit_codes(finished: Finished) -> np.ndarray:
    """(n,) code of each row's prompt: its prompt id within its concept, else its text; −1 where it has none."""
    concepts, ids, texts = (finished.column(name) for name in ("concept", "prompt_id", "prompt"))
    keys: dict[Any, int] = {}
    found = []
    for concept, name, text in zip(concepts, ids, texts):
        key = (concept, name) if name is not None else None if text is None else (None, text)
        found.append(-1 if key is None else keys.setdefault(key, len(keys)))
    return np.array(found, dtype=np.intp)


def codes(values: Sequence[Any]) -> tuple[np.ndarray, list[Any]]:
    """(n,) codes of values, −1 for None, and the values by code."""
    known: dict[Any, int] = {}
    found = [-1 if value is None else known.setdefault(value, len(known)) for value in values]
    return np.array(found, dtype=np.intp), list(known)


def summaries(
    finished: Finished, scored: Scored, *, rows: np.ndarray | None = None, by: Sequence[Sequence[str]] = ()
) -> list[Summary]:
    """Macro, micro and pairs means of one metric over chosen rows, and over their groups.

    Args:
        finished: the run.
        scored: one of its metrics.
        rows: numbers of the rows; all when None.
        by: column lists to group by.
    """
    chosen = np.arange(finished.n) if rows is None else rows
    concepts, _ = codes(finished.column("concept"))
    names = dict.fromkeys([*(name for columns in by for name in columns), "concept"])
    groups = {}
    for name in names:
        found, labels = codes(finished.column(name))
        groups[name] = (found[chosen], labels)
    statuses = np.array([_CODES[status] for status in scored.statuses], dtype=np.intp)
    return summarise(
        scored.identity,
        scored.label,
        scored.values[chosen],
        statuses[chosen],
        _STATUSES,
        unit_codes(finished)[chosen],
        concepts[chosen],
        groups,
        by=by,
        weights=None if scored.weights is None else scored.weights[chosen],
        finish=scored.finish,
        seed=finished.seed,
        resamples=finished.resamples,
        level=finished.level,
    )


def number_of(summary: Summary, row: Sequence[str], column: str, **changes: Any) -> Number:
    """A summary as a number of a table."""
    facts: dict[str, Any] = {
        "value": summary.value,
        "low": summary.low,
        "high": summary.high,
        "n": summary.n,
        "n_units": summary.n_units,
        "unit": summary.unit,
        "n_missing": dict(summary.n_missing),
        "aggregate": summary.aggregate,
        "note": summary.note,
    }
    return Number(tuple(row), column, **{**facts, **changes})


def mean_number(
    values: np.ndarray, units: np.ndarray, finished: Finished, row: Sequence[str], column: str, **facts: Any
) -> Number:
    """The mean of values, with an interval over their units.

    Args:
        values: (n,) finite values.
        units: (n,) code of each value's unit; −1 is a unit of its own.
        finished: gives seed, resamples and level.
        row: the number's row.
        column: its column.
        facts: other fields of the number.
    """
    return ratio_number(values, np.ones(len(values)), units, finished, row, column, **facts)


def ratio_number(
    sums: np.ndarray,
    counts: np.ndarray,
    units: np.ndarray,
    finished: Finished,
    row: Sequence[str],
    column: str,
    **facts: Any,
) -> Number:
    """Σ sums / Σ counts over rows (right questions of all questions), with an interval over the rows' units.

    Degenerate: without rows the value is None, and a note says so.
    """
    kept = counts > 0
    sums, counts, units = sums[kept].astype(np.float64), counts[kept].astype(np.float64), units[kept]
    if not len(sums):
        return Number(tuple(row), column, None, n=0, **{"note": "nothing to count", **facts})
    own = units < 0
    units = np.where(own, np.cumsum(own) + units.max(initial=-1), units)
    _, place = np.unique(units, return_inverse=True)
    interval = mean_interval(
        np.bincount(place, weights=sums),
        np.bincount(place, weights=counts),
        unit="prompt",
        seed=finished.seed,
        resamples=finished.resamples,
        level=finished.level,
    )
    found: dict[str, Any] = {
        "low": interval.low, "high": interval.high, "n": round(counts.sum()), "n_units": interval.n_units,
        "unit": "prompt", "note": interval.note,
    }  # fmt: skip
    return Number(tuple(row), column, float(sums.sum() / counts.sum()), **{**found, **facts})


def cell_list(cell: Any) -> list[Any]:
    """A cell that holds a list: a list, one as JSON text (as runs keep it), text with `|` or `,` between items."""
    if cell is None:
        return []
    if isinstance(cell, (list, tuple)):
        return list(cell)
    if isinstance(cell, Mapping):
        return list(cell.values())
    text = str(cell).strip()
    if text[:1] in ("[", "{"):
        try:
            return cell_list(json.loads(text))
        except ValueError:
            # Python's own form of a list, as data frames write it.
            text = text.strip("[]").replace("'", "").replace('"', "")
    return [part.strip() for part in text.replace("|", ",").split(",") if part.strip()]
