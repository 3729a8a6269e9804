"""Calls a metric's own code and holds it to its contract: what it raises costs the rows concerned, never the run."""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from beholder._errors import BeholderError, NoValue
from beholder.backends.base import Columns
from beholder.manifest.schema import Sample
from beholder.metrics.base import FeatureBatch, Ragged, SampleMetric, ScoreColumns, Selection, Slot
from beholder.records import Status


def select_items(metric: SampleMetric, slots: tuple[Slot, ...], sample: Sample) -> Selection:
    """What a metric selects of a sample, with an item, or a list of items, for each of its slots.

    Raises:
        NoValue: what the metric says, or `failed` with what it raised.
    """
    try:
        selection = metric.select(sample)
        for slot in slots:
            if isinstance(selection[slot.name], (list, tuple)) is not slot.many:
                wanted = "a list of items" if slot.many else "one item"
                raise TypeError(f"select must give {wanted} for the slot {slot.name!r}")
    except BeholderError:
        raise
    except Exception as error:
        raise NoValue(Status.FAILED, raised("metric", error)) from error
    return selection


def score_batch(metric: SampleMetric, batch: FeatureBatch) -> ScoreColumns:
    """A metric's scores of a batch; when scoring raises, each row is scored alone, so that a bad one costs itself."""
    try:
        return _checked(metric.score(batch), batch.n)
    except BeholderError:
        raise
    except Exception as error:
        if batch.n == 1:
            return ScoreColumns(np.zeros(1), {0: (Status.FAILED, raised("metric", error))})
    parts = [score_batch(metric, _row(batch, at)) for at in range(batch.n)]
    return ScoreColumns(
        np.concatenate([part.values for part in parts]),
        {at: part.statuses[0] for at, part in enumerate(parts) if part.statuses},
        {at: part.evidence[0] for at, part in enumerate(parts) if part.evidence},
    )


def raised(who: str, error: Exception) -> str:
    """The reason of a row for which somebody's code raised."""
    return f"the {who} raised {type(error).__name__}: {error}"


def _checked(result: Any, n: int) -> ScoreColumns:
    if not isinstance(result, ScoreColumns):
        raise TypeError(f"score must give ScoreColumns, got {type(result).__name__}")
    values = np.asarray(result.values, dtype=np.float64)
    if values.shape != (n,):
        raise ValueError(f"score must give one value for each of {n} rows, got shape {values.shape}")
    for what, by_row in (("statuses", result.statuses), ("evidence", result.evidence)):
        wrong = [row for row in by_row if not 0 <= operator.index(row) < n]
        if wrong:
            raise ValueError(f"{what} must be of rows 0 to {n - 1}, got row {wrong[0]}")
    statuses = {int(row): (Status(status), str(reason)) for row, (status, reason) in result.statuses.items()}
    for item in result.evidence.values():
        # JSON-ready is what evidence must be; NaN and infinity are not.
        json.dumps(dict(item), allow_nan=False)
    return ScoreColumns(values, statuses, {int(row): item for row, item in result.evidence.items()})


def _row(batch: FeatureBatch, at: int) -> FeatureBatch:
    """A batch of one of the rows of a batch."""
    slots: dict[str, Columns | Ragged] = {}
    for name, value in batch.slots.items():
        if isinstance(value, Ragged):
            start, end = value.offsets[at], value.offsets[at + 1]
            slots[name] = Ragged(_part(value.columns, start, end), np.array([0, end - start]))
        else:
            slots[name] = _part(value, at, at + 1)
    lost = {name: rows[at : at + 1] for name, rows in batch.lost.items()}
    return FeatureBatch(slots, batch.constants, 1, batch.samples[at : at + 1], lost)


def _part(columns: Mapping[str, np.ndarray], start: int, end: int) -> dict[str, np.ndarray]:
    return {name: array[start:end] for name, array in columns.items()}
