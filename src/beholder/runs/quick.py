"""Scores a handful of samples in memory: no folder, no store on disk, batches no larger than the work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from beholder.manifest.schema import Sample
from beholder.runs.config import RunConfig
from beholder.runs.engine import Scorer, chunks
from beholder.runs.finish import with_final_scores
from beholder.runs.notices import notice_lines
from beholder.runs.plan import Plan, refuse_sets
from beholder.runs.rows import conform, unify
from beholder.runs.store import FeatureStore


def score_in_memory(plan: Plan, config: RunConfig, parts: Iterable[Sequence[Sample]]) -> tuple[pa.Table, list[str]]:
    """Scores chunks of samples and returns their rows and the notices."""
    quick = QuickScorer(plan, config)
    try:
        return quick.score(sample for part in parts for sample in part)
    finally:
        quick.release()


class QuickScorer:
    """Scores handfuls of samples one after another; models stay loaded in between, features do not.

    Args:
        plan: what to score.
        config: the settings.
        keep_features: True keeps features in memory from one handful to the next, for handfuls that share pictures or
            texts.
    """

    def __init__(self, plan: Plan, config: RunConfig, *, keep_features: bool = False) -> None:
        refuse_sets(plan, "a score", "Give it a set: beholder run DATA -m fid --real DIR")
        self._plan, self._config = plan, config
        self._loaded: dict[str, Any] = {}
        self._kept = FeatureStore(None) if keep_features else None

    def score(self, samples: Iterable[Sample]) -> tuple[pa.Table, list[str]]:
        """The rows of samples, and the notices."""
        store = self._kept or FeatureStore(None)
        scorer = Scorer(self._plan, self._config, store, pad=False, loaded=self._loaded)
        try:
            scored = []
            for part in chunks(samples):
                chunk, columns = scorer.prepare(part)
                scored.append(scorer.score(chunk, columns))
        finally:
            scorer.close(keep_models=True)
            if store is not self._kept:
                store.close()
        tables = [pa.Table.from_batches([batch]) for _, batch in scored]
        schema = unify([table.schema for table in tables])
        table = pa.concat_tables([conform(table, schema) for table in tables])
        for planned in self._plan.metrics:
            table = with_final_scores(table, planned.label, planned.metric)
        return table, notice_lines(header for header, _ in scored)

    def load(self) -> dict[str, Any]:
        """Loads all models now, by key, so that what is wrong with them shows before the first picture."""
        from beholder.backends.pool import load_model

        for key, model in self._plan.models.items():
            if key not in self._loaded:
                self._loaded[key] = load_model(model, device=self._config.device)
        return self._loaded

    def release(self) -> None:
        """Unloads the models and lets go of kept features."""
        if self._kept is not None:
            self._kept.close()
            self._kept = FeatureStore(None)
        for model in self._loaded.values():
            model.close()
        self._loaded.clear()
