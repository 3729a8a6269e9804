"""Features made by Ray: a run's missing features are planned as Parquet, made by pools of actors, and kept here.

The process that was started plans and scores; Ray does what costs: hashing files, decoding, encoding. For each model in
turn the features that are missing (an anti-join of what the rows need with what the feature store has) are written to a
Parquet file of work: content keys with paths and texts, never pixels. Ray Data shares out its groups of rows. On GPUs
tasks decode and hand prepared pictures to a pool of actors that load the model once each; without GPUs an actor decodes
in its own threads. The pool grows with the cluster. What actors make comes back
under its content key and goes into the store, whose first writer of a key wins: work that is done twice because an
actor died counts once. At the end the run is scored as ever, from the store: so its rows are those of a local run, and
what was made before a kill is never made again.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import shutil
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beholder._errors import MissingExtraError, NoValue, UserError
from beholder.backends.base import ResolvedModel
from beholder.backends.pool import registered
from beholder.manifest.schema import SampleSource
from beholder.media.files import LocalFile, recall, remember, stat_key
from beholder.runs.engine import chunk_size, chunks
from beholder.runs.file_states import State, paths_of
from beholder.runs.item_codec import NotWritten, read_columns, write_item, write_source
from beholder.runs.maker import needing_items
from beholder.runs.remote_work import WORK, DecodeStage, ModelStage, Recipe, hash_files, judge, read_hash_key
from beholder.runs.streaming import scored_frame

if TYPE_CHECKING:
    from beholder.runs.session import Session

ROWS = 256
"""Items that an actor is handed at once."""

MOST_BLOCKS = 8192
"""Pieces into which a model's work is cut at most; each is a task that the cluster keeps account of."""

FEW_FILES = 2000
"""So few files are hashed by the run itself, sooner than a cluster has begun."""


def make_features(session: Session, source: SampleSource) -> None:
    """Makes all features that a run misses on a Ray cluster; called before the run scores.

    Raises:
        MissingExtraError: Ray is not installed.
        UserError: the source can be read only once, the cluster cannot be reached, or its work failed.
    """
    if not source.replayable:
        raise UserError(
            "engine ray needs an input that can be read again", got=source.name, fix="Write it to a manifest"
        )
    folder = (session.folder.path / "ray").absolute()
    folder.mkdir(exist_ok=True)
    try:
        with _cluster(session.config.ray_address) as ray:
            try:
                _learn_hashes(ray, session, source, folder)
                for model in session.plan.models.values():
                    if model.dtype == "remote":
                        continue  # a model behind an HTTP interface: nothing to spread
                    for needing in (False, True):
                        _make(ray, session, source, model, folder, needing=needing)
            except ray.exceptions.RayError as error:
                raise UserError(
                    "the work on the Ray cluster must end well",
                    got=_first_line(error),
                    fix="What was made is kept: the same command goes on from here",
                ) from error
    finally:
        session.store.flush()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _cluster(address: str | None) -> Iterator[Any]:
    """The connected package `ray`; a cluster that was started here is ended too.

    Raises:
        MissingExtraError: Ray is not installed.
        UserError: no cluster at that address.
    """
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
        import ray.data
        import ray.exceptions
    except ImportError as error:
        raise MissingExtraError("engine ray", "ray[data]", "ray") from error
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    if ray.is_initialized():
        yield ray
        return
    # Decoding and a model need a processor each.
    local = {"num_cpus": max(2, os.cpu_count() or 2), "include_dashboard": False} if address is None else {}
    # `ray.init` puts a handler of its own in the place of the program's, which it leaves there for good.
    before = signal.getsignal(signal.SIGTERM)
    try:
        try:
            ray.init(address or "local", log_to_driver=False, logging_level="ERROR", **local)
        except Exception as error:
            where = address or "local"
            raise UserError("a Ray cluster must be reachable", got=f"{where}: {_first_line(error)}") from error
        if callable(before):
            _handle_sigterm(before)
        try:
            yield ray
        finally:
            ray.shutdown()
    finally:
        _handle_sigterm(before)


def _handle_sigterm(handler: Any) -> None:
    """Sets the program's handler of SIGTERM, where it may: signals are the main thread's."""
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def _first_line(error: BaseException) -> str:
    """What an error from another process says: its last line names the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1].removeprefix("beholder._errors.UserError: ").rstrip(".") if lines else type(error).__name__


def _learn_hashes(ray: Any, session: Session, source: SampleSource, folder: Path) -> None:
    """Hashes local files whose hashes are not remembered, on the cluster; the run itself then reads none of them."""
    path = folder / "files.parquet"
    seen: set[str] = set()
    schema = pa.schema([("path", pa.string())])
    with pq.ParquetWriter(path, schema) as writer:
        for samples in chunks(source, chunk_size(session.plan)):
            unknown = []
            for sample in samples:
                for medium in (sample.output, *sample.references):
                    if isinstance(medium, LocalFile) and medium.path not in seen:
                        seen.add(medium.path)
                        with suppress(NoValue):
                            if recall(stat_key(medium.path, medium.name)) is None:
                                unknown.append(os.path.abspath(medium.path))
            if unknown:
                writer.write_table(pa.table([unknown], schema=schema), row_group_size=ROWS)
    count = pq.read_metadata(path).num_rows
    if count < FEW_FILES:
        return
    session.progress.stage("hashing files on Ray", count)
    found = _numbers(ray, path).map_batches(
        _hashed, batch_size=None, batch_format="pyarrow", num_cpus=1, fn_kwargs={"path": str(path)}
    )
    own = {os.path.abspath(name): name for name in seen}
    for table in found.iter_batches(batch_size=None, batch_format="pyarrow"):
        for text, sha in zip(table.column("key").to_pylist(), table.column("sha256").to_pylist()):
            key = read_hash_key(text)
            remember(key._replace(path=own[key.path]), sha)
        session.progress.advance(table.num_rows)


def _make(
    ray: Any, session: Session, source: SampleSource, model: ResolvedModel, folder: Path, *, needing: bool
) -> None:
    """Makes a model's missing features: of items that need no other feature, or of those that do."""
    path = folder / f"work-{model.key[:12]}-{int(needing)}.parquet"
    count = _plan(session, source, model, path, needing=needing)
    if not count:
        return
    session.progress.stage(f"encoding with {model.id} on Ray", count)
    spaces = {name: space for name, (space, its) in session.plan.spaces().items() if its.key == model.key}
    gpus = _gpus(ray, session.config.device)
    recipe = Recipe(
        model, spaces, session.config.decode, session.config.device, session.config.batch_size,
        session.config.workers, registered(), str(folder), ROWS,
    )  # fmt: skip
    for table in _shared_out(ray, path, recipe, gpus).iter_batches(batch_size=None, batch_format="pyarrow"):
        for row in table.to_pylist():
            _keep(session, model, row)
    path.unlink(missing_ok=True)


def _numbers(ray: Any, path: Path) -> Any:
    """The numbers of a Parquet file's groups of rows, as a Ray dataset: what is shared out.

    The file itself is one task to Ray however many blocks it is asked for, and one task is one actor's.
    """
    groups = pq.read_metadata(path).num_row_groups
    blocks = np.array_split(np.arange(groups), min(groups, MOST_BLOCKS))
    return ray.data.from_arrow([pa.table([block], names=["group"]) for block in blocks])


def _shared_out(ray: Any, path: Path, recipe: Recipe, gpus: int) -> Any:
    """What actors make of a file of work, as a Ray dataset of `MADE`."""
    work = _numbers(ray, path)
    processors = max(1, int(ray.cluster_resources().get("CPU", 1)))
    # An actor holds a processor for as long as there is work: where none would be left for tasks, it does all itself.
    tasks = gpus and processors > gpus and DecodeStage(recipe).works
    if tasks:
        work = work.map_batches(
            _decoded, batch_size=None, batch_format="pyarrow", num_cpus=1,
            fn_kwargs={"path": str(path), "recipe": recipe},
        )  # fmt: skip
    # Actors begin on all that the cluster has now; nodes that join later may add as many as there is work.
    groups = pq.read_metadata(path).num_row_groups
    least = min(groups, gpus or processors)
    return work.map_batches(
        ModelStage if tasks else ReadingStage,
        batch_size=ROWS if tasks else 1,  # rows are items, or numbers of groups of them
        batch_format="pyarrow",
        fn_constructor_kwargs={"recipe": recipe} if tasks else {"recipe": recipe, "path": str(path)},
        compute=ray.data.ActorPoolStrategy(min_size=least, max_size=groups),
        num_cpus=1,
        num_gpus=1 if gpus else 0,
    )


def _read(table: pa.Table, path: str) -> Iterator[pa.Table]:
    """The items of some groups of rows of a file of work.

    Raises:
        UserError: this machine does not see the run folder.
    """
    if not os.path.isfile(path):
        raise UserError(
            "every machine of the cluster must see the run folder at the same path",
            got=f"no {path} on {platform.node()}",
        )
    with pq.ParquetFile(path) as file:
        for group in table.column("group").to_pylist():
            yield file.read_row_group(group)


def _hashed(table: pa.Table, path: str) -> Iterator[pa.Table]:
    for part in _read(table, path):
        yield hash_files(part)


def _decoded(table: pa.Table, path: str, recipe: Recipe) -> Iterator[pa.Table]:
    stage = DecodeStage(recipe)
    for part in _read(table, path):
        yield stage(part)


class ReadingStage:
    """A `ModelStage` that reads its items itself, and decodes them in threads of its own."""

    def __init__(self, recipe: Recipe, path: str) -> None:
        self._stage, self._path = ModelStage(recipe), path

    def __call__(self, table: pa.Table) -> Iterator[pa.Table]:
        for part in _read(table, self._path):
            yield from self._stage(part)


def _gpus(ray: Any, device: str) -> int:
    """GPUs of the cluster that the run may use."""
    return 0 if device in ("cpu", "mps") else int(ray.cluster_resources().get("GPU", 0))


def _plan(session: Session, source: SampleSource, model: ResolvedModel, path: Path, *, needing: bool) -> int:
    """Writes the work of a model that is not stored yet; how many items.

    Items that cannot be written down (pixels in memory, secrets in URLs) are left to the run itself.
    """
    scorer = session.scorer
    mine = [name for name, (_, its) in session.plan.spaces().items() if its.key == model.key]
    mine.sort(key=lambda name: name not in scorer.gives)
    planned: set[tuple[str, bytes]] = set()
    with pq.ParquetWriter(path, WORK) as writer, _Grouped(writer) as work:
        for samples in chunks(source, chunk_size(session.plan)):
            chunk, _ = scorer.prepare(samples)
            if scored_frame(session.journal, chunk) is not None:
                continue
            for name in mine:
                wanted = {
                    key: item
                    for key, item in chunk.wanted[name].items()
                    if (name, key) not in planned and any(True for _ in needing_items(item)) is needing
                }
                missing = scorer.missing(name, wanted)
                # What a pass gives beside its own features needs no pass of its own.
                given = scorer.gives.get(name)
                planned.update((space, key) for key in missing for space in (name, given) if space is not None)
                work.add(name, _work(name, missing, scorer.sources(missing) if needing else {}, scorer.states))
    return int(pq.read_metadata(path).num_rows)


def _work(
    name: str,
    missing: Mapping[bytes, Any],
    sources: Mapping[tuple[str, bytes], Any],
    states: Mapping[str, State | None],
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for key, item in missing.items():
        with suppress(NotWritten):
            source = None
            for needing in needing_items(item):
                source = write_source(sources[needing.source[2], needing.source[0]])
            files = {os.path.abspath(path): states[path] for path in paths_of(item) if path in states}
            rows.append(
                {"space": name, "key": key, "item": write_item(item), "source": source, "states": json.dumps(files)}
            )
    return rows


class _Grouped:
    """Writes rows of work in groups of `ROWS` of one space; what is left of each comes last."""

    def __init__(self, writer: pq.ParquetWriter) -> None:
        self._writer = writer
        self._rows: dict[str, list[dict[str, Any]]] = {}

    def add(self, space: str, rows: list[dict[str, Any]]) -> None:
        waiting = self._rows.setdefault(space, [])
        waiting += rows
        while len(waiting) >= ROWS:
            self._write(waiting[:ROWS])
            del waiting[:ROWS]

    def _write(self, rows: list[dict[str, Any]]) -> None:
        self._writer.write_table(pa.Table.from_pylist(rows, schema=WORK))

    def __enter__(self) -> _Grouped:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        for rows in self._rows.values():
            if rows and kind is None:
                self._write(rows)


def _keep(session: Session, model: ResolvedModel, row: Mapping[str, Any]) -> None:
    """Puts what an actor made under its keys, and remembers what failed.

    Raises:
        UserError: what an actor said of all its work: a device that lacks memory, a model that breaks its contract;
            or a machine that does not see the data.
    """
    if row["error"] is not None:
        must, got, fix = json.loads(row["error"])
        raise UserError(must, got=got, fix=fix)
    failures, faults = {}, []
    for told in json.loads(row["failures"]):
        key, verdict, fault = judge(told)
        failures[key] = verdict
        faults += [fault] if fault is not None else []
    if faults and len(faults) == len(row["keys"]) + len(failures):
        # It would have all work that is left fail, and faster than the others do theirs.
        raise UserError(
            "every machine of the cluster must see the data at the same path",
            got=faults[0],
            fix="Mount it there, or take that machine out of the cluster; what was made is kept",
        )
    about = json.loads(row["told"])
    columns = read_columns(row["data"]) if row["keys"] else {}
    session.scorer.take(row["space"], row["keys"], columns, failures, about["constants"])
    session.scorer.used[model.key] = about["ran"]
    session.progress.advance(len(row["keys"]) + len(failures))
