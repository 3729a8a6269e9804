"""What a run would do, without doing it: what is stored, what is missing, what would be fetched, how long it takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from beholder._errors import WeightsMissingError
from beholder.backends.base import LoadOptions, ResolvedModel
from beholder.backends.kinds import kind_of
from beholder.manifest.schema import SampleSource
from beholder.runs.chunk import read_chunk
from beholder.runs.config import RunConfig
from beholder.runs.engine import chunks
from beholder.runs.hash_memory import remembered_hashes
from beholder.runs.inputs import config_source, default_out, group_columns
from beholder.runs.make import default_workers
from beholder.runs.plan import Plan, make_metrics, make_plan, of_sets
from beholder.runs.real import Real, check_sizes, open_real, set_metric, share_of_real
from beholder.runs.rows import sample_columns
from beholder.runs.shards import ShardSource, parse_shard, part_folder
from beholder.runs.store import FeatureStore, default_store


@dataclass(frozen=True)
class PlannedWork:
    """The work for one kind of feature.

    Args:
        model: canonical model id.
        feature: kind of feature.
        needed: distinct items that the samples need.
        stored: those that the feature store holds.
        rate: items a second as measured by earlier runs on this machine, or None when none was measured.
    """

    model: str
    feature: str
    needed: int
    stored: int
    rate: float | None

    @property
    def seconds(self) -> float | None:
        """Estimated time for what is missing; None when no rate was measured."""
        missing = self.needed - self.stored
        if missing == 0:
            return 0.0
        return None if not self.rate else missing / self.rate


@dataclass(frozen=True)
class PlannedModel:
    """A model that the run needs.

    Args:
        id: canonical id, or the name asked for when the model is not here.
        here: True when its files are on this machine.
        size_bytes: size of its weights, None when not known.
        licence: its licence, None when not checked.
        dtype: dtype of its forward pass.
    """

    id: str
    here: bool
    size_bytes: int | None
    licence: str | None
    dtype: str


@dataclass(frozen=True)
class DryRun:
    """The answer of `beholder run --dry-run`."""

    out: str | None
    samples: int
    metrics: tuple[str, ...]
    models: tuple[PlannedModel, ...]
    work: tuple[PlannedWork, ...]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Plain text."""
        lines = [f"{self.samples} samples, metrics: {', '.join(self.metrics)}"]
        if self.out:
            lines.append(f"run folder: {self.out}")
        for model in self.models:
            if model.dtype == "remote":
                lines.append(f"model {model.id}: asked over HTTP, where each request may cost money")
                continue
            where = "on this machine" if model.here else "would be downloaded"
            size = "size not known" if model.size_bytes is None else _size(model.size_bytes)
            licence = model.licence or "licence not checked"
            lines.append(f"model {model.id}: {where}, {size}, {model.dtype}, {licence}")
        for item in self.work:
            missing = item.needed - item.stored
            seconds = item.seconds
            time = (
                "" if missing == 0 else (", no rate measured yet" if seconds is None else f", about {_time(seconds)}")
            )
            lines.append(f"{item.feature} by {item.model}: {missing} to compute, {item.stored} stored{time}")
        return [*lines, *self.notes]


def dry_run(config: RunConfig, *, source: SampleSource | None = None) -> DryRun:
    """Plans a run: reads all rows and hashes their files, computes and fetches nothing."""
    source = source if source is not None else config_source(config)
    source.check()
    try:
        # Plans are made where jobs are sent off from too, on machines without their GPU.
        settings = config.model_copy(update={"offline": True, "device": "auto"})
        plan = make_plan(settings, samples=source if source.replayable else None)
    except WeightsMissingError:
        return _without_weights(config, source)
    out = config.out or str(default_out(config, plan))
    config = config.model_copy(update={"by": group_columns(config.by)})
    real = open_real(config, plan)
    check_sizes(real, plan, config, source)
    if config.shard is not None:
        shard = parse_shard(config.shard)
        source, real = ShardSource(source, shard), share_of_real(real, shard)
    samples, needed, stored, rates = _count(plan, config, source, real, out)
    work = tuple(
        PlannedWork(model.id, space.feature, needed[name], stored[name], rates[name])
        for name, (space, model) in plan.spaces().items()
        if needed[name] or "frames" not in space.params  # without videos, nothing is said about them
    )
    models = tuple(_planned(model) for model in plan.models.values())
    weights = sum(model.size_bytes or 0 for model in models)
    notes = (f"memory: about {_size(weights)} for the largest set of weights held at once",) if weights else ()
    labels = tuple(item.metric.identity for item in plan.metrics)
    return DryRun(out, samples, labels, models, work, (*_told_of_real(real), *notes))


def _told_of_real(real: Real | None) -> tuple[str, ...]:
    """What a plan says of the real set."""
    if real is None:
        return ()
    if real.source is None:
        return (f"real set {real.name}: its mean and covariance, nothing to encode",)
    count = real.source.count()
    size = sum(1 for _ in real.source) if count is None else count
    return (f"real set {real.name}: {size} pictures, counted above",)


def _planned(model: ResolvedModel) -> PlannedModel:
    return PlannedModel(model.id, True, model.card.size_bytes, model.card.licence, model.dtype)


def _without_weights(config: RunConfig, source: SampleSource) -> DryRun:
    """The answer when weights are not here: which ones would be fetched; counts need their hashes first."""
    from beholder.backends.pool import find_card, resolve_model

    metrics = [metric for metric, _ in make_metrics(config.metrics, model=config.model, segmenter=config.segmenter)]
    models = []
    slots = [(slot.model, kind_of(slot.feature).capability) for metric in metrics for slot in metric.slots]
    for name, capability in dict.fromkeys(slots):
        try:
            options = LoadOptions(config.cache_dir, True, config.api_options())
            found = resolve_model(name, dtype=config.dtype, options=options, capability=capability)
            models.append(_planned(found))
        except WeightsMissingError:
            card = find_card(name)
            size, licence = (None, None) if card is None else (card.size_bytes, card.licence)
            models.append(PlannedModel(name if card is None else card.id, False, size, licence, config.dtype))
    notes = ("what is stored can be counted once the weights are here",)
    count = sum(1 for _ in source)
    return DryRun(config.out, count, tuple(metric.identity for metric in metrics), tuple(models), (), notes)


def _count(
    plan: Plan, config: RunConfig, source: SampleSource, real: Real | None, out: str
) -> tuple[int, Mapping[str, int], Mapping[str, int], Mapping[str, float | None]]:
    """Samples; and by space: distinct items of outputs and real set, those that are stored, items a second."""
    store = _store(config, out)
    spaces = plan.spaces()
    numbers = {name: store.space(space) for name, (space, _) in spaces.items()}
    seen: dict[str, set[bytes]] = {name: set() for name in spaces}
    stored = dict.fromkeys(spaces, 0)
    total = 0
    sides = [(plan, source)]
    if real is not None and real.source is not None:
        needing = tuple(item for item in of_sets(plan.metrics) if set_metric(item).needs_real)
        sides.append((dataclasses.replace(plan, metrics=needing), real.source))
    try:
        with remembered_hashes(store), ThreadPoolExecutor(config.workers or default_workers()) as pool:
            for part, rows in sides:
                for samples in chunks(rows):
                    total += len(samples) if part is plan else 0
                    chunk = read_chunk(samples, sample_columns(samples), part, pool)
                    for name, wanted in chunk.wanted.items():
                        fresh = [key for key in wanted if key not in seen[name]]
                        seen[name].update(fresh)
                        stored[name] += len(store.has(numbers[name], fresh))
        rates = {name: store.rate(number) for name, number in numbers.items()}
    finally:
        store.close()
    return total, {name: len(keys) for name, keys in seen.items()}, stored, rates


def _store(config: RunConfig, out: str) -> FeatureStore:
    """The store that the run would use; a part's own is not made for this."""
    if config.shard is None or config.store is not None:
        return FeatureStore(config.store or default_store())
    folder = part_folder(Path(out), parse_shard(config.shard)) / "features"
    return FeatureStore(folder if (folder / "index.sqlite").exists() else None, alone=True)


def _size(size: int) -> str:
    value = float(size)
    for unit in ("B", "KB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
