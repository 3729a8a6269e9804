"""Summaries of score columns: what of the rows all metrics share is read once, then one metric after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from beholder.records import Summary
from beholder.runs.columns import STATUSES, PartedTable, numbered
from beholder.runs.other_means import other_summaries, other_values
from beholder.stats.aggregate import summarise


class Summaries:
    """Aggregates of the metrics of some rows.

    The unit that intervals are made over is the prompt: rows that share a concept and a `prompt_id`, or, of rows
    without one, the prompt's text. Where the rows have several methods, the aggregates by method are given too.

    Args:
        table: the columns of a run.
        by: columns whose combinations are aggregated apart.
        seed: seed of the bootstrap.
        resamples: its resamples.
        level: level of the intervals.
    """

    def __init__(
        self, table: PartedTable, *, by: Sequence[str] = (), seed: int = 0, resamples: int = 1000, level: float = 0.95
    ) -> None:
        self._table = table
        self._seed, self._resamples, self._level = seed, resamples, level
        grouped = dict.fromkeys(["method", "concept", *by])
        self._groups = {name: table.labels(name) for name in grouped if name in table.names}
        self._concepts = self._groups["concept"][0] if "concept" in self._groups else None
        self._units = _units(table, self._concepts)
        self._by: list[tuple[str, ...]] = [("method",)] if len(self._groups.get("method", ((), ()))[1]) > 1 else []
        if by and tuple(by) not in self._by:
            self._by.append(tuple(by))

    def of(self, identity: str, label: str, finish: Callable[[float], float]) -> list[Summary]:
        """The summaries of one metric.

        Args:
            identity: its printed identity.
            label: its label.
            finish: what it does to an aggregate.
        """
        statuses = self._table.statuses(f"{label}_status")
        return self._made(identity, label, finish, lambda: self._table.numbers(label), statuses)

    def of_others(self, identity: str, label: str, finish: Callable[[float], float], metric: Any) -> list[Summary]:
        """Those of its further aggregates (see `other_means.py`)."""
        found = []
        for aggregate, (values, statuses) in other_values(self._table, label, metric).items():
            rows = self._made(identity, label, finish, lambda: values, statuses)  # noqa: B023 - called at once
            found += other_summaries(rows, aggregate)
        return found

    def _made(
        self,
        identity: str,
        label: str,
        finish: Callable[[float], float],
        read: Callable[[], np.ndarray],
        statuses: np.ndarray,
    ) -> list[Summary]:
        pairs = f"{label}_pairs"
        return summarise(
            identity,
            label,
            read(),  # nobody here holds the values: `summarise` lets go of them when it has them in its order
            statuses,
            STATUSES,
            self._units,
            self._concepts,
            self._groups,
            by=self._by,
            weights=self._table.numbers(pairs) if pairs in self._table.names else None,
            finish=finish,
            seed=self._seed,
            resamples=self._resamples,
            level=self._level,
        )


def _units(table: PartedTable, concepts: np.ndarray | None) -> np.ndarray | None:
    """(n,) code of the prompt, −1 for none; None where no column tells.

    A row without a `prompt_id` goes by its prompt's text; one without either is a unit of its own.
    """
    texts = table.codes("prompt") if "prompt" in table.names else None
    if "prompt_id" not in table.names:
        return texts
    units = table.codes("prompt_id").astype(np.int64)
    none = units < 0
    if texts is not None and none.any():
        units = np.where(none & (texts >= 0), units.max(initial=-1) + 1 + texts, units)
        none = units < 0
    if concepts is None:
        return units
    units = numbered(units * (int(concepts.max(initial=0)) + 2) + concepts + 1)
    return np.where(none, -1, units)


def summarise_table(
    table: pa.Table,
    metrics: Sequence[tuple[str, str]],
    finish: Mapping[str, Callable[[float], float]],
    **settings: Any,
) -> list[Summary]:
    """Aggregates of the score columns of a table in memory.

    Args:
        table: the columns of a run.
        metrics: (identity, label) of each metric.
        finish: by label: what the metric does to an aggregate.
        settings: as `Summaries` takes them.
    """
    summaries = Summaries(PartedTable(table), **settings)
    return [row for identity, label in metrics for row in summaries.of(identity, label, finish[label])]
