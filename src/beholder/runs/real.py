"""The real set that metrics of whole sets compare with: opened, checked, and made into features in the same store."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beholder._errors import OptionError
from beholder.manifest.schema import SampleSource
from beholder.metrics.sets import FittedSet, SetMetric
from beholder.runs.config import RunConfig
from beholder.runs.engine import Scorer, chunk_size, chunks
from beholder.runs.fitted import check_model, is_fitted, read_fitted
from beholder.runs.passes import passes_of
from beholder.runs.plan import Plan, PlannedMetric, key_name, of_sets, score_names
from beholder.runs.progress import Progress
from beholder.runs.set_features import SetRow, SetSpaces
from beholder.runs.shards import Shard, ShardSource
from beholder.runs.store import FeatureStore

REAL_STAGE = "real set"
"""How the stages of progress begin that go through the real set instead of the samples."""


@dataclass(frozen=True)
class Real:
    """A real set.

    Args:
        name: what messages call it.
        source: its pictures, or None where only mean and covariance are known.
        fitted: these, or None.
    """

    name: str
    source: SampleSource | None = None
    fitted: FittedSet | None = None


@dataclass
class RealKeys:
    """The keys of a real set's features.

    Args:
        rows: by label of a metric: every picture that has a feature, in the order of the set.
        lost: by label: pictures without one, by status.
    """

    rows: dict[str, list[SetRow]] = field(default_factory=dict)
    lost: dict[str, Counter[str]] = field(default_factory=dict)

    def notices(self, name: str) -> list[str]:
        """What to say of pictures without features."""
        told = {label: dict(counts) for label, counts in self.lost.items() if counts}
        lines = [
            f"{sum(counts.values())} pictures of the real set {name} take no part: "
            + ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
            for counts in told.values()
        ]
        return list(dict.fromkeys(lines))


def set_metric(planned: PlannedMetric) -> SetMetric:
    """The metric of a plan as one of whole sets."""
    if not isinstance(planned.metric, SetMetric):
        raise TypeError(f"{planned.metric.identity} is no metric of whole sets")
    return planned.metric


def open_real(config: RunConfig, plan: Plan, given: Any = None) -> Real | None:
    """The real set that a run was given, checked against the metrics that need one.

    Args:
        config: names it, unless it is given.
        plan: the metrics.
        given: a set in memory (DataFrame, list of dicts …).

    Raises:
        OptionError: a metric needs one and there is none, or there is one that no metric needs; mean and covariance
            alone for a metric that needs pictures, or of another encoder.
    """
    needing = [planned for planned in of_sets(plan.metrics) if set_metric(planned).needs_real]
    for planned in of_sets(plan.metrics):
        _ = set_metric(planned).least  # refuses options that no set can serve
    asked = given if given is not None else config.real
    if asked is None:
        if needing:
            raise OptionError(
                f"{needing[0].metric.identity} compares with a real set",
                got="none",
                fix="Name it with --real DIR, MANIFEST or stats.npz (real=…)",
            )
        if config.n is not None and not of_sets(plan.metrics):
            raise OptionError("--n goes with a metric of whole sets", got=f"n = {config.n}")
        return None
    if not needing:
        raise OptionError(
            "--real goes with a metric that compares with a real set", got="none", fix="Like: -m fid, -m kid, -m recall"
        )
    if is_fitted(asked):
        return _fitted(str(asked), needing)
    from beholder.manifest import open_source

    source = open_source(asked)
    if not source.replayable:
        raise OptionError("a real set must be readable twice: a folder, manifest, table or list", got="a stream")
    source.check()
    return Real(source.name, source)


def set_spaces(planned: PlannedMetric) -> SetSpaces:
    """Where the features of a set metric lie."""
    slot = planned.slots[0]
    texts = next((item.space for item in planned.slots if item.kind.item == "text"), slot.space)
    return SetSpaces(slot.space, slot.space if slot.several is None else slot.several, texts)


def share_of_real(real: Real | None, shard: Shard) -> Real | None:
    """A shard's share of the real set's pictures; mean and covariance are whole in every shard."""
    if real is None or real.source is None:
        return real
    return Real(real.name, ShardSource(real.source, shard))


def _fitted(path: str, needing: Sequence[PlannedMetric]) -> Real:
    found = read_fitted(path)
    for planned in needing:
        if not set_metric(planned).takes_fit:
            raise OptionError(
                f"{planned.metric.identity} needs the real pictures, not their mean and covariance",
                got=path,
                fix="Name the folder or manifest of the real set",
            )
        check_model(path, found.about, planned.slots[0].model)
    return Real(path, fitted=found.fitted)


def encode_real(
    real: Real, plan: Plan, config: RunConfig, store: FeatureStore, loaded: dict[str, Any], progress: Progress
) -> RealKeys:
    """Makes the features of a real set that are not stored yet.

    Several models are released again before the samples come; one alone stays loaded for them.
    """
    needing = [planned for planned in of_sets(plan.metrics) if set_metric(planned).needs_real]
    found = RealKeys({planned.label: [] for planned in needing}, {planned.label: Counter() for planned in needing})
    if real.source is None:
        return found
    keys = {slot.model.key for planned in needing for slot in planned.slots}
    part = dataclasses.replace(
        plan, metrics=tuple(needing), models={key: model for key, model in plan.models.items() if key in keys}
    )
    scorer = Scorer(part, config, store, loaded=loaded)
    try:
        for models in passes_of(part, config.device):
            progress.stage(
                f"{REAL_STAGE}: encoding with {', '.join(model.id for model in models)}", real.source.count()
            )
            for samples in chunks(real.source, chunk_size(part)):
                scorer.ensure(scorer.prepare(samples)[0], {model.key for model in models})
                progress.advance(len(samples))
            store.flush()
            if len(plan.models) > 1:
                scorer.release()
        _read_keys(scorer, real.source, needing, found)
    finally:
        scorer.close(keep_models=True)
    return found


def _read_keys(scorer: Scorer, source: SampleSource, needing: Sequence[PlannedMetric], found: RealKeys) -> None:
    for samples in chunks(source, chunk_size(scorer.plan)):
        _, batch = scorer.score(*scorer.prepare(samples))
        for planned in needing:
            keys = batch.column(key_name(planned.label)).to_pylist()
            statuses = batch.column(score_names(planned.label)[1]).to_pylist()
            found.rows[planned.label] += [
                SetRow(key) for key, status in zip(keys, statuses) if status == "ok" and key is not None
            ]  # fmt: skip
            found.lost[planned.label].update(status for status in statuses if status != "ok")


def check_sizes(real: Real | None, plan: Plan, config: RunConfig, source: SampleSource) -> None:
    """Says of sets that are too small or unequal before anything is computed, as far as rows can tell.

    Raises:
        OptionError: no group of rows could get a value.
    """
    metrics = [set_metric(planned) for planned in of_sets(plan.metrics)]
    if not metrics or not source.replayable:
        return
    groups = _group_sizes(source, config.by)
    for metric in metrics:
        sizes = [size for size in groups if size >= metric.least]
        if not sizes:
            raise OptionError(
                f"{metric.identity} needs at least {metric.least} pictures in each set",
                got=f"n = {max(groups, default=0)} generated",
            )
        count = None if real is None or not metric.needs_real else _size(real)
        if count is None:
            continue
        fitted = real is not None and real.fitted is not None
        faults = [size_fault(metric, size, count, config.n, fitted=fitted) for size in sizes]
        if faults[0] is not None and all(faults):
            raise OptionError(faults[0][0], got=faults[0][1], fix=faults[0][2])


def _size(real: Real) -> int | None:
    if real.fitted is not None:
        return real.fitted.n
    return None if real.source is None else sum(1 for _ in real.source)


def _group_sizes(source: SampleSource, by: Sequence[str]) -> list[int]:
    """Rows of all, of each method, and of each group of `by`."""
    counts: Counter[Any] = Counter()
    for sample in source:
        counts["all"] += 1
        counts["method", sample.method] += 1
        if by:
            counts["by", tuple(str(sample.column(name)) for name in by)] += 1
    return list(counts.values())


Fault = tuple[str, str, str]
"""What must hold, what was got, how to mend it."""


def size_fault(metric: SetMetric, gen: int, real: int | None, n: int | None, *, fitted: bool) -> Fault | None:
    """Why two sets have no value, or None.

    Args:
        metric: the metric.
        gen: generated pictures.
        real: real pictures; None where there are none, or their number is not known.
        n: pictures that are drawn of each set, or None.
        fitted: True where the real set is known by mean and covariance alone, so none can be drawn of it.
    """
    what = metric.identity
    if n is not None and n < metric.least:
        return f"{what} needs at least {metric.least} pictures in each set", f"--n {n}", "Draw more"
    short = [size for size in (gen, None if fitted else real) if size is not None and size < (n or metric.least)]
    if short:
        told = f"{gen} generated" + ("" if real is None else f" and {real} real")
        if n is not None:
            return f"--n {n} needs {n} pictures in each set", told, "Draw fewer"
        return (
            f"{what} needs at least {metric.least} pictures in each set",
            f"n = {min(short)} ({told})",
            "Add pictures",
        )
    if n is None and real is not None and gen != real and metric.equal_sizes:
        told = f"{gen} generated and {real} real pictures"
        return f"{what} needs sets of equal size", told, f"Draw equal ones with --n {min(gen, real)}"
    return None


def describe_real(real: Real | None, rows: Mapping[str, Sequence[SetRow]]) -> dict[str, Any] | None:
    """What a run's header says of the real set: its name, its size, and a hash of its content."""
    from beholder._hashing import hash_json

    if real is None:
        return None
    if real.fitted is not None:
        fit = real.fitted.fit
        digest = hash_json([fit.mean.tolist(), fit.cov.sum(axis=0).tolist()])
        return {"name": real.name, "n": real.fitted.n, "sha256": digest, "kind": "mean and covariance"}
    content = sorted({row.key.hex() for own in rows.values() for row in own})
    return {
        "name": real.name, "n": max((len(own) for own in rows.values()), default=0), "sha256": hash_json(content),
        "kind": "pictures",
    }  # fmt: skip
