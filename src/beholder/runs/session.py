"""One run from start to finish: folder, store, journal, engine, tables. Also the loop that users feed themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from beholder._errors import BeholderError, UserError
from beholder.backends.pool import notices as model_notices
from beholder.manifest.schema import Sample, SampleSource
from beholder.media.arrays import kept_apart
from beholder.runs.config import RunConfig
from beholder.runs.engine import CHUNK, CHUNK_BYTES, Scorer, held_bytes, score_samples, stream
from beholder.runs.finish import write_tables
from beholder.runs.folder import RunFolder, make_header
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
from beholder.runs.notices import notice_lines
from beholder.runs.plan import AskedMetric, Plan, is_registered, look_ahead, make_plan
from beholder.runs.progress import NoProgress, Progress
from beholder.runs.results import Run
from beholder.runs.store import FeatureStore, default_store


class Session:
    """An open run: everything that must be closed again, in one place.

    Args:
        config: the run's settings.
        plan: what to score.
        source_name: what the header calls the input.
        progress: who is told.
    """

    def __init__(self, config: RunConfig, plan: Plan, *, source_name: str, progress: Progress | None = None) -> None:
        self.config, self.plan = config, plan
        self.progress = progress or NoProgress()
        out = Path(config.out) if config.out else default_out(config, plan)
        header = make_header(config, plan, source=source_name, places=input_places(config, out))
        self.folder = RunFolder(out, header, overwrite=config.overwrite)
        try:
            self.store = FeatureStore(config.store or default_store())
            self.journal = Journal(out / "journal.bin")
            self.scorer = Scorer(plan, config, self.store)
        except BaseException:
            self.folder.release()
            raise

    def run(self, source: SampleSource) -> Run:
        """Scores a whole source and finishes."""
        try:
            with remembered_hashes(self.store):
                return self.finish(stream(self.scorer, source, self.journal, self.progress))
        except BaseException:
            with suppress(BeholderError, OSError):
                self.store.flush()
                self.folder.finish("interrupted")
            raise
        finally:
            self.close()

    def finish(self, frames: Sequence[Frame]) -> Run:
        """Writes tables and summary of the scored frames."""
        self.scorer.release()
        self.progress.stage("writing tables", None)
        # A summary of older tables must not be taken for one of these; without one it is made from the tables.
        (self.folder.path / "summary.json").unlink(missing_ok=True)
        write_tables(self.folder.path, self.journal, frames, self.plan.metrics)
        self.folder.finish("finished")
        self.folder.header["notices"] = notice_lines(frame.header for frame in frames)
        if self.store.forgotten:
            self.folder.header["notices"].append(
                f"{self.store.forgotten} damaged shard(s) of the feature store were dropped and computed anew"
            )
        own = {item.label: item.metric for item in self.plan.metrics if not is_registered(item.metric)}
        run = Run(self.folder.path, metrics=own)
        by = [name for name in self.config.by if name in run.columns]
        if len(by) < len(self.config.by):
            gone = ", ".join(sorted(set(self.config.by) - set(by)))
            self.folder.header["notices"].append(f"no row has the column {gone}: the summary is not grouped by it")
        run.save_summary(run.summarise(by=by))
        for key, model in self.folder.header["models"].items():
            model["ran"] = self.scorer.used.get(key)  # None: every feature was stored already
        self.folder.header["n"], self.folder.header["n_faults"] = run.n, run.n_faults
        self.folder.finish("finished")
        return Run(self.folder.path, metrics=own)

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
) -> Run:
    """Runs a config from its input to a finished run folder.

    Args:
        config: the settings.
        metrics: metrics to use instead of `config.metrics`; objects are taken too.
        source: samples to use instead of those that the config names.
        progress: who is told.

    Raises:
        UserError: wrong settings, faults of the input's form, weights that are missing …: nothing was computed yet.
    """
    ahead = look_ahead(config, metrics)
    plan = None if ahead else make_plan(config, metrics=metrics)
    source = source if source is not None else config_source(config)
    source.check()
    if plan is None:
        plan = make_plan(config, metrics=metrics, source=source)
    config = config.model_copy(update={"by": group_columns(config.by)})
    check_not_scores(config.by, [planned.label for planned in plan.metrics])
    check_columns(config.by, source)
    session = Session(config, plan, source_name=source.name, progress=progress)
    for text in (*source.notices, *(text for model in plan.models.values() for text in model_notices(model))):
        session.progress.notice(text)
    return session.run(source)


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
