"""From a metric's scores of some rows to columns over all rows of a chunk: values, statuses, reasons, evidence."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from beholder.manifest.schema import Sample
from beholder.metrics.base import SampleMetric, ScoreColumns
from beholder.records import Status
from beholder.runs.chunk import MetricWork, SpaceFeatures, feature_batch
from beholder.runs.plan import PlannedMetric, group_name, score_names
from beholder.stats.bootstrap import LARGEST

_STATUSES = [status.value for status in Status]
CODES = {status: code for code, status in enumerate(Status)}


def add_evidence(planned: PlannedMetric, samples: Sequence[Sample], scored: Sequence[int], evidence: list[Any]) -> None:
    """What a metric says of scored samples from their columns alone."""
    if type(planned.metric).sample_evidence is SampleMetric.sample_evidence:
        return
    for row in scored:
        more = planned.metric.sample_evidence(samples[row])
        if more:
            evidence[row] = {**more, **(evidence[row] or {})}


def remarks(evidence: Sequence[Any]) -> dict[str, int]:
    """How often each remark stands in the evidence."""
    found: dict[str, int] = {}
    for item in evidence:
        if item and "remark" in item:
            found[item["remark"]] = found.get(item["remark"], 0) + 1
    return found


def add_sample_columns(planned: PlannedMetric, samples: Sequence[Sample], out: dict[str, pa.Array]) -> None:
    """What a metric says of samples beside their scores: group keys and numbers of pairs."""
    metric, label = planned.metric, planned.label
    keys = [metric.group_key(sample) for sample in samples]
    if any(key is not None for key in keys):
        out[group_name(label)] = pa.array(keys, pa.string())
    weights = [metric.weight(sample) for sample in samples]
    if any(weight is not None for weight in weights):
        out[score_names(label)[4]] = pa.array(weights, pa.int64())


def status_array(codes: np.ndarray) -> pa.Array:
    """Status codes as text."""
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(_STATUSES)).cast(pa.string())


def spread(
    work: MetricWork, scored: Sequence[int], result: ScoreColumns, rows: int
) -> tuple[np.ndarray, np.ndarray, list[str | None], list[Any]]:
    """Scores of the rows that were scored and verdicts of the others, as columns over the whole chunk."""
    values = np.zeros(rows, dtype=np.float64)
    codes = np.zeros(rows, dtype=np.int8)
    reasons: list[str | None] = [None] * rows
    evidence: list[Any] = [None] * rows
    values[scored] = result.values
    for at, (status, reason) in result.statuses.items():
        work.verdicts[scored[at]] = (status, reason)
    for at, item in result.evidence.items():
        evidence[scored[at]] = dict(item)
    for row, (status, reason) in work.verdicts.items():
        codes[row], reasons[row] = CODES[Status(status)], reason
    broken = (codes == 0) & ~(np.abs(values) <= LARGEST)
    for row in np.flatnonzero(broken).tolist():
        what = f"beyond ±{LARGEST:g}" if np.isfinite(values[row]) else "that is not a finite number"
        codes[row], reasons[row] = CODES[Status.FAILED], f"the metric gave a value {what}"
    return values, codes, reasons, evidence


def refuse_truncated(
    work: MetricWork, rows: list[int], batch: Any, spaces: Mapping[str, SpaceFeatures], constants: Any
) -> tuple[list[int], Any]:
    """Under `truncation = error`: rows with a text that was cut get a status instead of a score."""
    bad: set[int] = set()
    for name, columns in batch.slots.items():
        if not isinstance(columns, Mapping) or "truncated" not in columns:
            continue
        for at in np.flatnonzero(columns["truncated"]):
            tokens = int(columns["n_tokens"][at])
            reason = f"the text of slot {name!r} has {tokens} tokens, more than the model takes (truncation=error)"
            work.verdicts[rows[at]] = (Status.FAILED, reason)
            bad.add(rows[at])
    if not bad:
        return rows, batch
    keep = [at for at, row in enumerate(work.rows) if row not in bad]
    for slot in work.slots.values():
        spans = [(slot.offsets[at], slot.offsets[at + 1]) for at in keep]
        slot.keys = [key for start, end in spans for key in slot.keys[start:end]]
        slot.offsets = [0, *itertools.accumulate(end - start for start, end in spans)]
    work.rows = [work.rows[at] for at in keep]
    return feature_batch(work, spaces, constants)
