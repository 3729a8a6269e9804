"""Scores a handful of samples in memory: no folder, no store on disk, batches no larger than the work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from beholder.manifest.schema import Sample
from beholder.runs.config import RunConfig
from beholder.runs.engine import Scorer
from beholder.runs.finish import with_final_scores
from beholder.runs.notices import notice_lines
from beholder.runs.plan import Plan
from beholder.runs.rows import conform, unify
from beholder.runs.store import FeatureStore


def score_in_memory(plan: Plan, config: RunConfig, parts: Iterable[Sequence[Sample]]) -> tuple[pa.Table, list[str]]:
    """Scores chunks of samples and returns their rows and the notices."""
    store = FeatureStore(None)
    scorer = Scorer(plan, config, store, pad=False)
    try:
        scored = []
        for samples in parts:
            chunk, columns = scorer.prepare(samples)
            scored.append(scorer.score(chunk, columns))
    finally:
        scorer.close()
        store.close()
    tables = [pa.Table.from_batches([batch]) for _, batch in scored]
    schema = unify([table.schema for table in tables])
    table = pa.concat_tables([conform(table, schema) for table in tables])
    for planned in plan.metrics:
        table = with_final_scores(table, planned.label, planned.metric)
    return table, notice_lines(header for header, _ in scored)
