"""The engine: samples in chunks, every feature once, scores into the journal, tables at the end.

A chunk goes through five steps: select items, find their content keys, look the features up, make the missing ones,
score. Features live in the store and scores in the journal, both on disk after every chunk, so a killed run goes on
where it stopped. With several models the samples are streamed in passes, each with the models that have room beside one
another, so that two large ones are never in memory together; a source that can be read only once is scored in one pass
with all its models loaded.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from beholder._errors import NoValue
from beholder.backends.base import Columns, ResolvedModel
from beholder.backends.kinds import kind_of
from beholder.manifest.schema import Sample
from beholder.metrics.base import FeatureBatch, ScoreColumns
from beholder.records import Status
from beholder.runs.batching import BatchSize, Failures
from beholder.runs.chunk import Chunk, MetricWork, SpaceFeatures, feature_batch, frame_records, join, leaks, read_chunk
from beholder.runs.config import RunConfig
from beholder.runs.file_states import CHANGED, State, states_of, unchanged
from beholder.runs.make import default_workers
from beholder.runs.maker import FeatureMaker, needing_items
from beholder.runs.notices import foreign_texts
from beholder.runs.plan import Plan, group_name, key_name, of_sets, score_names, spaces_filled_too
from beholder.runs.readable import unreadable_before_first
from beholder.runs.readiness import refuse_unready
from beholder.runs.rows import sample_columns, typed_array
from beholder.runs.score_columns import (
    CODES,
    add_evidence,
    add_sample_columns,
    refuse_truncated,
    remarks,
    spread,
    status_array,
)
from beholder.runs.scoring import score_batch
from beholder.runs.set_features import row_keys
from beholder.runs.shared_pixels import SharedPixels
from beholder.runs.store import FeatureStore
from beholder.runs.windows import shared, windows

CHUNK_BYTES = 256 << 20
"""Bytes of in-memory pictures that end a chunk early."""

CHUNK = 1024
"""Samples in a chunk: what a kill can cost at most in scoring (features are flushed every few seconds)."""


LARGE_CHUNK = 128
"""The same where features are large: those of a chunk stand in memory together."""


class Scorer:
    """Turns chunks of samples into scores.

    Args:
        plan: what to score.
        config: the run's settings.
        store: where features are.
        pad: False makes a batch no larger than what there is to encode, for quick looks at a few files.
        loaded: models by key that are loaded already; those that are loaded later are added.

    `used` tells, by model key, on which device and in which batches the models ran; a model whose features were all
    stored is not in it. `states` are those of the files of the chunk that was read last.
    """

    def __init__(
        self,
        plan: Plan,
        config: RunConfig,
        store: FeatureStore,
        *,
        pad: bool = True,
        loaded: dict[str, Any] | None = None,
    ) -> None:
        self.plan, self.config, self.store = plan, config, store
        self._pad = pad
        self.pool = ThreadPoolExecutor(config.workers or default_workers(), thread_name_prefix="beholder-decode")
        self._spaces = plan.spaces()
        self._numbers = {name: store.space(space) for name, (space, _) in self._spaces.items()}
        self._gives = spaces_filled_too(self._spaces)
        self._pixels = SharedPixels(config.decode)
        self._loaded: dict[str, Any] = {} if loaded is None else loaded
        self._sizes: dict[tuple[str, str], BatchSize] = {}
        self._failures: dict[str, Failures] = {name: {} for name in self._spaces}
        self._constants: dict[str, Mapping[str, float]] = {}
        self.states: Mapping[str, State | None] = {}
        self._disturbed = False
        self.used: dict[str, dict[str, Any]] = {}
        self._reserved = [
            name for planned in plan.metrics for name in (*score_names(planned.label), group_name(planned.label))
        ] + [key_name(planned.label) for planned in of_sets(plan.metrics)]

    def check(self) -> None:
        """Refuses models that cannot be used and of which nothing is stored, before anything is made."""
        fresh = [name for name in self._spaces if self.store.constants(self._numbers[name]) is None]
        refuse_unready(self._spaces[name][1] for name in fresh)

    # one chunk

    def prepare(self, samples: Sequence[Sample]) -> tuple[Chunk, dict[str, pa.Array]]:
        """Reads a chunk: its kept columns, selections and keys."""
        self.states, self._disturbed = states_of(samples), False
        columns = sample_columns(samples, self._reserved)
        chunk = read_chunk(samples, columns, self.plan, self.pool)
        return chunk, columns

    def ensure(self, chunk: Chunk, models: Collection[str]) -> None:
        """Makes the chunk's missing features of some models, for a pass that does not score."""
        names = [name for name in self._ordered(chunk) if self._spaces[name][1].key in models]
        self._make_all({name: self.missing(name, chunk.wanted[name]) for name in names if chunk.wanted[name]})

    def _ordered(self, chunk: Chunk) -> list[str]:
        """The chunk's spaces; those whose pass fills another space too come first."""
        return sorted(chunk.wanted, key=lambda name: name not in self._gives)

    def _make_all(self, todo: Mapping[str, Mapping[bytes, Any]]) -> None:
        """Makes missing features by space; where spaces share media, in windows in which each is decoded once."""
        refuse_unready(self._spaces[name][1] for name, items in todo.items() if items)
        for part in windows(todo, self._pixels) if shared(todo) else [todo]:
            for name, items in part.items():
                left = self.missing(name, items) if items else {}  # a space before it may have filled this one
                if left:
                    self.make(name, left)

    def missing(self, name: str, wanted: Mapping[bytes, Any]) -> dict[bytes, Any]:
        """Those of a space's items that have neither a stored feature nor a failure."""
        there = self.store.has(self._numbers[name], list(wanted)) | self._failures[name].keys()
        return {key: item for key, item in wanted.items() if key not in there}

    @property
    def gives(self) -> Mapping[str, str]:
        """Spaces whose pass fills another space too, with that one."""
        return self._gives

    def take(
        self, name: str, keys: Sequence[bytes], columns: Columns, failures: Failures, constants: Mapping[str, float]
    ) -> None:
        """Takes features of a space that were made elsewhere, and why some items have none."""
        given = self._gives.get(name)
        if keys:
            self.store.put(self._numbers[name], keys, columns)
            if given is not None:
                self.store.put(self._numbers[given], keys, {"embedding": columns["embedding"]})
        self._failures[name].update(failures)
        for space in (name,) if given is None else (name, given):
            if space not in self._constants:
                self._constants[space] = dict(constants)
                self.store.set_constants(self._numbers[space], constants)

    def score(self, chunk: Chunk, columns: dict[str, pa.Array]) -> tuple[dict[str, Any], pa.RecordBatch]:
        """Scores a chunk, making the features that are not there: a journal header, and the rows with scores."""
        spaces = self._features(chunk)
        rows = len(chunk.samples)
        out = dict(columns)
        header: dict[str, Any] = {"chunk": chunk.key, "rows": rows, "retry": False, "truncated": {}, "remarks": {}}
        for work in chunk.work:
            scored, result = self._score_metric(work, spaces, chunk.samples)
            values, codes, reasons, evidence = spread(work, scored, result, rows)
            label = work.planned.label
            names = score_names(label)
            add_evidence(work.planned, chunk.samples, scored, evidence)
            for row, record in frame_records(work, spaces, scored).items():
                evidence[row] = {**(evidence[row] or {}), "frames": record}
            if work.planned.metric.info.kind == "set":
                out[key_name(label)] = pa.array(row_keys(work, rows), pa.binary())
            else:
                out[names[0]] = pa.array(values, pa.float64(), mask=codes != 0)
            out[names[1]] = status_array(codes)
            if any(reason is not None for reason in reasons):
                out[names[2]] = pa.array(reasons, pa.string())
            if any(item is not None for item in evidence):
                out[names[3]] = typed_array(evidence)
            header["truncated"][label] = sum(1 for item in result.evidence.values() if item.get("truncated"))
            header["retry"] = header["retry"] or bool((codes == CODES[Status.FAILED]).any())
            header["remarks"][label] = remarks(evidence)
            add_sample_columns(work.planned, chunk.samples, out)
        header["leaks"] = leaks(chunk)
        header["foreign"] = {
            model.id: foreign_texts(model, chunk.wanted[name].values())
            for name, (space, model) in self._spaces.items()
            if kind_of(space.feature).item == "text"
        }
        header["halved"] = self._halved()
        # A file that was there when it was hashed and then no more may be back the next time.
        header["retry"] = header["retry"] or self._disturbed
        return header, pa.record_batch(out)

    def feature_batches(self, chunk: Chunk) -> list[tuple[MetricWork, list[int], FeatureBatch]]:
        """The features of a chunk by metric, with the rows that have them all, for statistics of sets.

        Rows without features have their verdict in the work.
        """
        spaces = self._features(chunk)
        return [(work, *feature_batch(work, spaces, self._space_constants)) for work in chunk.work]

    def _features(self, chunk: Chunk) -> dict[str, SpaceFeatures]:
        """Features of all spaces: from the store, and what is not there made now."""
        names = self._ordered(chunk)
        there = {name: self.store.get(self._numbers[name], list(chunk.wanted[name])) for name in names}
        self._make_all({name: self._lacking(name, chunk.wanted[name], there[name][0]) for name in names})
        return {name: self._found(name, chunk.wanted[name], *there[name]) for name in names}

    def _score_metric(
        self, work: MetricWork, spaces: Mapping[str, SpaceFeatures], samples: Sequence[Sample]
    ) -> tuple[list[int], ScoreColumns]:
        rows, batch = feature_batch(work, spaces, self._space_constants)
        if self.plan.truncation == "error":
            rows, batch = refuse_truncated(work, rows, batch, spaces, self._space_constants)
        if not rows:
            return [], ScoreColumns(np.zeros(0))
        batch = dataclasses.replace(batch, samples=[samples[row] for row in rows])
        return rows, score_batch(work.planned.metric, batch)

    # features

    def make(self, name: str, missing: Mapping[bytes, Any]) -> None:
        """Makes features and puts them into the store; what fails is remembered."""
        space, model = self._spaces[name]
        number = self._numbers[name]
        sources = self.sources(missing)
        if model.key not in self._loaded:
            missing = self._readable(name, missing, sources)
            if not missing:
                return
        backend = self.load(model)
        self._remember_constants(name, backend)

        given = self._gives.get(name)
        if given is not None:
            self._remember_constants(given, backend)

        def done(made: list[bytes], columns: Columns) -> None:
            made, columns = self._undisturbed(name, missing, made, columns)
            if not made:
                return
            self.store.put(number, made, columns, at_once=model.dtype == "remote")
            if given is not None:
                self.store.put(self._numbers[given], made, {"embedding": columns["embedding"]})

        began = time.perf_counter()
        maker = FeatureMaker(kind_of(space.feature), backend, space.params, self._pixels, self.pool)
        size = self._size(maker, model, len(missing))
        lost = maker.make(missing, size=size, sources=sources, done=done)
        self.store.add_rate(number, len(missing), time.perf_counter() - began)
        self._failures[name].update(lost)
        self._disturbed = self._disturbed or any(not unchanged(missing[key], self.states) for key in lost)

    def _readable(self, name: str, missing: Mapping[bytes, Any], sources: Mapping[tuple[str, bytes], Any]) -> Any:
        """The items without those at their head that cannot be read: nothing is left where no model is needed."""
        lost = unreadable_before_first(missing, self._pixels, sources)
        self._failures[name].update(lost)
        self._disturbed = self._disturbed or any(not unchanged(missing[key], self.states) for key in lost)
        return {key: item for key, item in missing.items() if key not in lost} if lost else missing

    def _undisturbed(
        self, name: str, items: Mapping[bytes, Any], made: list[bytes], columns: Columns
    ) -> tuple[list[bytes], Columns]:
        """What was made of files that are as they were when they were hashed; the rest fails."""
        good = [row for row, key in enumerate(made) if unchanged(items[key], self.states)]
        if len(good) == len(made):
            return made, columns
        self._failures[name].update(dict.fromkeys(set(made) - {made[row] for row in good}, (Status.FAILED, CHANGED)))
        return [made[row] for row in good], {part: array[good] for part, array in columns.items()}

    def sources(self, missing: Mapping[bytes, Any]) -> Mapping[tuple[str, bytes], Any]:
        """The features that items need of others, made first where they are not there: rows or failures by key."""
        wanted: dict[str, dict[bytes, Any]] = {}
        for item in missing.values():
            for needing in needing_items(item):
                key, source, space = needing.source
                wanted.setdefault(space, {})[key] = source
        found: dict[tuple[str, bytes], Any] = {}
        for space, items in wanted.items():
            features = self._lookup(space, items)
            for key in items:
                verdict = features.failures.get(key)
                row = None if verdict else {n: array[features.rows[key]] for n, array in features.columns.items()}
                found[space, key] = NoValue(*verdict) if verdict else row
        return found

    def _size(self, maker: FeatureMaker, model: ResolvedModel, missing: int) -> BatchSize:
        """The batch of a model for a kind of feature; small where a quick look has less to do than one batch."""
        texts = maker.kind.item == "text"
        asked = None if texts else self.config.batch_size
        wanted = asked or maker.batch_size()
        if not self._pad:
            return BatchSize(min(wanted, max(1, missing)), fixed=asked is not None)
        key = (model.key, "text" if texts else "visual")
        if key not in self._sizes:
            self._sizes[key] = BatchSize(wanted, fixed=asked is not None)
        return self._sizes[key]

    def _halved(self) -> dict[str, list[int]]:
        """Models whose batch did not fit into memory: the size before and now."""
        ids = {model.key: model.id for model in self.plan.models.values()}
        return {ids[key]: [size.first, size.size] for (key, _), size in self._sizes.items() if size.size != size.first}

    def _lookup(self, name: str, wanted: Mapping[bytes, Any]) -> SpaceFeatures:
        """Features of one space: from the store, and what is not there made now."""
        rows, columns = self.store.get(self._numbers[name], list(wanted))
        missing = self._lacking(name, wanted, rows)
        if missing:
            self.make(name, missing)
        return self._found(name, wanted, rows, columns)

    def _lacking(self, name: str, wanted: Mapping[bytes, Any], rows: Mapping[bytes, int]) -> dict[bytes, Any]:
        return {key: item for key, item in wanted.items() if key not in rows and key not in self._failures[name]}

    def _found(self, name: str, wanted: Mapping[bytes, Any], rows: dict[bytes, int], columns: Columns) -> SpaceFeatures:
        """Features that were there, those that have been made since, and why others have none."""
        since = self._lacking(name, wanted, rows)
        if since:
            rows, columns = join(rows, columns, *self.store.get(self._numbers[name], list(since)))
        unread = (Status.FAILED, "its feature could not be read back from the feature store")
        lost = [key for key in wanted if key not in rows]
        return SpaceFeatures(rows, columns, {key: self._failures[name].get(key, unread) for key in lost})

    def _space_constants(self, name: str) -> Mapping[str, float]:
        if name not in self._constants:
            stored = self.store.constants(self._numbers[name])
            if stored is None:
                self._remember_constants(name, self.load(self._spaces[name][1]))
            else:
                self._constants[name] = stored
        return self._constants[name]

    def _remember_constants(self, name: str, backend: Any) -> None:
        if name not in self._constants:
            self._constants[name] = dict(backend.constants)
            self.store.set_constants(self._numbers[name], backend.constants)

    # models

    def load(self, model: ResolvedModel) -> Any:
        """The loaded model; loaded when it is first asked for."""
        if model.key not in self._loaded:
            from beholder.backends.pool import load_model

            backend = self._loaded[model.key] = load_model(model, device=self.config.device)
            sizes = {
                name: getattr(backend, name, None) for name in ("image_batch", "text_batch", "batch", "pair_batch")
            }
            if self.config.batch_size:
                sizes |= {name: self.config.batch_size for name in ("image_batch", "batch") if sizes[name]}
            self.used[model.key] = {
                "device": getattr(backend, "device", None),
                **{name: size for name, size in sizes.items() if size is not None},
            }
        return self._loaded[model.key]

    def release(self) -> None:
        """Unloads every model."""
        for encoder in self._loaded.values():
            encoder.close()
        self._loaded.clear()

    def close(self, *, keep_models: bool = False) -> None:
        """Unloads the models, unless they are to be kept, and ends the decode threads."""
        if not keep_models:
            self.release()
        self.pool.shutdown(cancel_futures=True)


def chunk_size(plan: Plan) -> int:
    """Samples in a chunk: fewer where a sample's features are large (patch tokens: a quarter of a megabyte)."""
    large = any(space.feature == "patches" for space, _ in plan.spaces().values())
    return min(CHUNK, LARGE_CHUNK) if large else CHUNK


def chunks(samples: Iterable[Sample], size: int | None = None, most_bytes: int = CHUNK_BYTES) -> Iterator[list[Sample]]:
    """Samples in lists of `size` (`CHUNK` when None); shorter where their pictures in memory take `most_bytes`."""
    size = size or CHUNK
    part: list[Sample] = []
    held = 0
    for sample in samples:
        part.append(sample)
        held += held_bytes(sample)
        if len(part) == size or held >= most_bytes:
            yield part
            part, held = [], 0
    if part:
        yield part


def held_bytes(sample: Sample) -> int:
    """Bytes that a sample's pictures take in memory."""
    return sum(getattr(medium, "nbytes", 0) for medium in (sample.output, *sample.references))
