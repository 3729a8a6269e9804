"""One run from start to finish: folder, store, journal, engine, tables. Also the loop that users feed themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from beholder._errors import BeholderError, UserError
from beholder.backends.pool import notices as model_notices
from beholder.manifest.schema import Sample, SampleSource
from beholder.media.arrays import kept_apart
from beholder.records import Summary
from beholder.runs.closing import write_results
from beholder.runs.config import RunConfig
from beholder.runs.decoders import check_decoders
from beholder.runs.engine import CHUNK, CHUNK_BYTES, Scorer, held_bytes
from beholder.runs.file_systems import network_kind
from beholder.runs.folder import RunFolder, check_whole, make_header
from beholder.runs.hash_memory import remembered_hashes
from beholder.runs.inputs import (
    check_columns,
    check_not_scores,
    config_source,
    default_out,
    group_columns,
    input_places,
)
from beholder.runs.journal import Frame, Journal
from beholder.runs.plan import AskedMetric, Plan, look_ahead, make_plan, of_sets
from beholder.runs.progress import NoProgress, Progress
from beholder.runs.real import (
    Real,
    RealKeys,
    check_sizes,
    describe_real,
    encode_real,
    open_real,
    set_spaces,
    share_of_real,
)
from beholder.runs.results import Run
from beholder.runs.set_features import OneShelf
from beholder.runs.set_parts import describe_sets, write_share
from beholder.runs.set_values import SetAsk, SetValues
from beholder.runs.shards import Shard, ShardSource, parse_shard, part_folder
from beholder.runs.store import FeatureStore, default_store
from beholder.runs.streaming import score_samples, stream


class Session:
    """An open run: everything that must be closed again, in one place.

    Args:
        config: the run's settings.
        plan: what to score.
        source_name: what the header calls the input.
        progress: who is told.
        part: what the header says of the part of the rows that is scored; None for all of them.
        real: the real set that metrics of whole sets compare with.
    """

    def __init__(
        self,
        config: RunConfig,
        plan: Plan,
        *,
        source_name: str,
        progress: Progress | None = None,
        part: dict[str, Any] | None = None,
        real: Real | None = None,
    ) -> None:
        self.config, self.plan, self.real = config, plan, real
        self._real_keys = RealKeys()
        self._loaded: dict[str, Any] = {}
        self.progress = progress or NoProgress()
        out = Path(config.out) if config.out else default_out(config, plan)
        if part is not None:
            check_whole(out, plan, overwrite=config.overwrite)
            out = part_folder(out, Shard(part["index"], part["count"]))
        header = make_header(config, plan, source=source_name, places=input_places(config, out))
        if part is not None:
            header["shard"] = part
        self.folder = RunFolder(out, header, overwrite=config.overwrite)
        try:
            self.store = self._open_store(out, alone=part is not None and config.store is None)
            self.journal = Journal(out / "journal.bin")
            self.scorer = Scorer(plan, config, self.store, loaded=self._loaded)
        except BaseException:
            for opened in ("journal", "store"):
                if hasattr(self, opened):
                    with suppress(Exception):  # what went wrong first is what is told
                        getattr(self, opened).close()
            self.folder.release()
            raise

    def _open_store(self, out: Path, *, alone: bool) -> FeatureStore:
        """The run's feature store; a part has one of its own, beside its journal, unless another was named."""
        if alone:
            return FeatureStore(out / "features", alone=True)
        folder = Path(self.config.store or default_store())
        store = FeatureStore(folder)
        kind = network_kind(folder)
        if kind is not None:
            self.progress.notice(
                f"the feature store {folder} lies on a network file system ({kind}), where SQLite's locks are not to "
                "be trusted: let no two machines use it at once"
            )
        return store

    def run(self, source: SampleSource, *, before: Callable[[Session, SampleSource], None] | None = None) -> Run:
        """Scores a whole source and finishes.

        Args:
            source: the samples.
            before: called first: makes features in another way than here (see `ray.py`).
        """
        try:
            with remembered_hashes(self.store):
                self.encode_real()
                if before is not None:
                    before(self, source)
                # There may be more shards than rows.
                empty = "shard" in self.folder.header and source.count() == 0
                return self.finish([] if empty else stream(self.scorer, source, self.journal, self.progress))
        except BaseException:
            with suppress(BeholderError, OSError):
                self.store.flush()
                self.folder.finish("interrupted")
            raise
        finally:
            self.close()

    def encode_real(self) -> None:
        """Makes the features of the real set, before those of the samples: what is wrong with it is told first."""
        if self.real is None:
            return
        self._real_keys = encode_real(
            self.real, self.plan, self.config, self.store, self._loaded, self.progress
        )  # fmt: skip
        self.folder.header["real"] = describe_real(self.real, self._real_keys.rows)

    def _set_values(self, frames: Sequence[Frame]) -> list[Summary]:
        """Values of the metrics of whole sets."""
        if not of_sets(self.plan.metrics):
            return []
        self.progress.stage("measuring sets", None)
        spaces = {planned.label: set_spaces(planned) for planned in of_sets(self.plan.metrics)}
        asked = SetAsk.of(self.config.model_dump())
        values = SetValues(asked, OneShelf(self.store), spaces, self.real, self._real_keys)
        return values.summaries(self.journal, frames, self.plan.metrics)

    def _keep_sets(self, frames: Sequence[Frame]) -> None:
        """Keeps what later looks at other groups of the sets need."""
        header, store = self.folder.header, str(self.store.folder) if self.store.folder is not None else None
        header.pop("sets", None)
        if store is not None:
            header.update(describe_sets(self.plan, self.config, self.real, Shard(0, 1), store))
        if "sets" in header:
            header["sets"]["frames"] = [frame.header["chunk"] for frame in frames]
        write_share(self.folder.path, self.real, self._real_keys, header.get("sets", {}).get("real"))

    def finish(self, frames: Sequence[Frame]) -> Run:
        """Writes tables and summary of the scored frames; of a part only which frames it has, for `merge`."""
        self.scorer.release()
        for key, model in self.folder.header["models"].items():
            model["ran"] = self.scorer.used.get(key)  # None: every feature was stored already
        damaged = (
            [f"{self.store.forgotten} damaged shard(s) of the feature store were dropped and computed anew"]
            if self.store.forgotten
            else []
        )
        if "shard" in self.folder.header:
            share = self.folder.header["shard"].get("sets", {}).get("real")
            write_share(self.folder.path, self.real, self._real_keys, share)
            self.folder.header["shard"]["frames"] = [frame.header["chunk"] for frame in frames]
            self.folder.header["notices"] = damaged
            self.journal.sync()
            self.folder.finish("part")
            return Run(self.folder.path)
        sets = self._set_values(frames)
        self._keep_sets(frames)
        told = damaged if self.real is None else [*damaged, *self._real_keys.notices(self.real.name)]
        self.progress.stage("writing tables", None)
        return write_results(
            self.folder, self.journal, frames, self.plan.metrics, by=self.config.by, notices=told, sets=sets
        )

    def close(self) -> None:
        """Closes everything, whatever of it fails; what was scored is on disk."""
        with ExitStack() as stack:
            for close in (self.folder.release, self.journal.close, self.store.close, self.scorer.close):
                stack.callback(close)


def execute(
    config: RunConfig,
    *,
    metrics: Sequence[AskedMetric] | None = None,
    source: SampleSource | None = None,
    progress: Progress | None = None,
    real: Any = None,
) -> Run:
    """Runs a config from its input to a finished run folder.

    Args:
        config: the settings.
        metrics: metrics to use instead of `config.metrics`; objects are taken too.
        source: samples to use instead of those that the config names.
        progress: who is told.
        real: the real set for metrics of whole sets, instead of the one that the config names.

    Raises:
        UserError: wrong settings, faults of the input's form, weights that are missing …: nothing was computed yet.
    """
    if config.in_processes:
        from beholder.runs.workers import run_on_all

        return run_on_all(config, metrics=metrics, source=source, progress=progress, real=real)
    config, plan, source = preflight(config, metrics=metrics, source=source)
    part = None
    opened = open_real(config, plan, real)
    check_sizes(opened, plan, config, source)
    if config.shard is not None:
        source = ShardSource(source, parse_shard(config.shard))
        opened = share_of_real(opened, source.shard)
        part = source.describe(config.data) | describe_sets(plan, config, opened, source.shard, config.store)
    session = Session(config, plan, source_name=source.name, progress=progress, part=part, real=opened)
    of_models = [text for model in plan.models.values() for text in model_notices(model, dtype=config.dtype)]
    for text in (*source.notices, *of_models):
        session.progress.notice(text)
    return session.run(source, before=_other_engine(config))


def preflight(
    config: RunConfig, *, metrics: Sequence[AskedMetric] | None = None, source: SampleSource | None = None
) -> tuple[RunConfig, Plan, SampleSource]:
    """Everything that can be wrong with a run and is told before it begins: settings, weights, the input's form.

    Returns:
        The config with canonical columns to group by, the plan, and the checked source.
    """
    ahead = look_ahead(config, metrics)
    source = source if source is not None else config_source(config)
    source.check()  # Before the plan, which may fetch gigabytes: a fault of the input must not be told after them.
    samples = source if ahead and source.replayable else None
    plan = make_plan(config, metrics=metrics, samples=samples)
    config = config.model_copy(update={"by": group_columns(config.by)})
    check_not_scores(config.by, [planned.label for planned in plan.metrics])
    check_columns(config.by, source)
    check_decoders(source, plan)
    return config, plan, source


def _other_engine(config: RunConfig) -> Callable[[Session, SampleSource], None] | None:
    """What makes features before this process scores, where that is not this process itself."""
    if config.engine != "ray":
        return None
    from beholder.runs.ray import make_features

    return make_features


class OpenRun:
    """A run that grows while a generation loop goes on; made by `beholder.open_run`.

    Samples are scored in chunks; leaving the `with` block scores the rest and writes the tables. When the block ends
    with an error, what was scored stays and the same code goes on from there.
    """

    def __init__(self, session: Session, make: Callable[[dict[str, object], int], Sample]) -> None:
        self._session, self._make = session, make
        self._waiting: list[Sample] = []
        self._frames: list[Frame] = []
        self._ids: set[str] = set()
        self._held = 0
        self._open = False
        self.run: Run | None = None

    def add(self, **columns: object) -> None:
        """Adds one sample: `output=` (path, PIL image, array …), `prompt=`, `references=`, `seed=`, any column.

        The output is copied where it is pixels in memory, so a loop may use its buffer again.

        Raises:
            UserError: outside the `with` block, a row without output, or an id that stands already.
        """
        if not self._open:
            raise UserError("samples are added inside the block", fix="Write: with beholder.open_run(…) as r: r.add(…)")
        sample = self._make(columns, len(self._ids) + 1)
        if sample.id in self._ids:
            raise UserError("ids must be unique over a run", got=f"{sample.id!r} twice", fix="Give each sample an id=")
        self._ids.add(sample.id)
        self._waiting.append(replace(sample, output=kept_apart(sample.output)))
        self._held += held_bytes(sample)
        if len(self._waiting) >= CHUNK or self._held >= CHUNK_BYTES:
            self._score_waiting()

    def _score_waiting(self) -> None:
        self._frames.append(score_samples(self._session.scorer, self._waiting, self._session.journal))
        self._waiting, self._held = [], 0

    def __enter__(self) -> OpenRun:
        self._session.encode_real()
        self._open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        try:
            if self._waiting:
                self._score_waiting()
            if error is not None:
                self._session.folder.finish("interrupted")
            elif self._frames:
                self.run = self._session.finish(self._frames)
            else:
                raise UserError("an open run needs at least one sample", fix="Call add() inside the with block")
        finally:
            self._session.close()
