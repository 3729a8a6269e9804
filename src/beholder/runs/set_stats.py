"""Mean and covariance of a set's features, streamed: the call behind `beholder stats`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from beholder._errors import OptionError
from beholder._identity import MetricSpec
from beholder.functional.gaussians import FeatureSums
from beholder.metrics.base import make_metric
from beholder.metrics.sets import FittedSet
from beholder.runs.config import make_config
from beholder.runs.engine import Scorer, chunk_size, chunks
from beholder.runs.fitted import about_model, write_fitted
from beholder.runs.hash_memory import remembered_hashes
from beholder.runs.plan import make_plan
from beholder.runs.progress import NoProgress, Progress
from beholder.runs.store import FeatureStore, default_store


def make_stats(
    data: Any,
    *,
    out: str | None = None,
    model: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    batch_size: int | None = None,
    workers: int | None = None,
    store: str | None = None,
    cache_dir: str | None = None,
    offline: bool | None = None,
    max_failed: float = 0.0,
    progress: Progress | None = None,
) -> FittedSet:
    """Mean and covariance (ddof 1, float64) of the features of a set; memory does not grow with the set.

    Args:
        data: folder, manifest, DataFrame, list of dicts.
        out: an `.npz` to write: `mu` (d,), `sigma` (d, d), `n` and `about` (JSON: which encoder). Other tools read the
            first two.
        model: encoder; that of `fid` when None.
        device, dtype, batch_size, workers, store, cache_dir, offline, progress: as in `evaluate`.
        max_failed: share of pictures that may have no features; they are left out.

    Raises:
        UserError: an input that cannot be read, fewer than 2 pictures, or more without features than allowed.
    """
    from beholder.manifest import open_source

    progress = progress or NoProgress()
    metric = make_metric(MetricSpec("fd", {"model": model}) if model else MetricSpec("fid"))
    config = make_config(
        {
            "device": device, "dtype": dtype, "batch_size": batch_size, "workers": workers, "store": store,
            "cache_dir": cache_dir, "offline": offline, "metrics": (metric.identity,),
        }
    )  # fmt: skip
    source = open_source(data)
    source.check()
    plan = make_plan(config, metrics=[metric])
    lost: list[str] = []
    sums: FeatureSums | None = None
    rows = 0
    with ExitStack() as stack:
        features = FeatureStore(config.store or default_store())
        stack.callback(features.close)
        scorer = Scorer(plan, config, features)
        stack.callback(scorer.close)
        stack.enter_context(remembered_hashes(features))
        progress.stage("encoding", source.count())
        for samples in chunks(source, chunk_size(plan)):
            block, why = _features(scorer, samples)
            rows += len(samples)
            lost += why
            if len(block):
                sums = sums or FeatureSums(block.shape[1])
                sums.add(block)
            progress.advance(len(samples))
    if lost and len(lost) > max_failed * rows:
        raise OptionError(
            "every picture of the set must have features", got=f"{len(lost)} of {rows} without; the first: {lost[0]}",
            fix="Mend or remove them, or allow a share with --max-failed",
        )  # fmt: skip
    if sums is None or sums.n < 2:
        raise OptionError("a covariance needs at least 2 pictures", got=f"n = {0 if sums is None else sums.n}")
    fit = sums.fit()
    if out is not None:
        write_fitted(out, fit, sums.n, about_model(plan.metrics[0].slots[0].model))
    return FittedSet(fit, sums.n)


def _features(scorer: Scorer, samples: Sequence[Any]) -> tuple[np.ndarray, list[str]]:
    """(k, d) features of the samples' pictures, and of those without any: id, status and reason."""
    chunk, _ = scorer.prepare(samples)
    ((work, rows, batch),) = scorer.feature_batches(chunk)
    verdicts = dict(work.verdicts)
    if not rows:
        return np.zeros((0, 0)), [f"{samples[row].id}: {status}: {why}" for row, (status, why) in verdicts.items()]
    scored = work.planned.metric.score(batch)
    verdicts |= {rows[at]: verdict for at, verdict in scored.statuses.items()}
    found = batch.rows_of("image")
    keep = np.ones(len(rows), dtype=bool)
    keep[list(scored.statuses)] = False
    picked = np.repeat(keep, np.diff(found.offsets))
    told = [f"{samples[row].id}: {status}: {why}" for row, (status, why) in sorted(verdicts.items())]
    return np.asarray(found.columns["embedding"])[picked], told
