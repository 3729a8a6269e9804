"""One chunk of samples on its way: what each metric selects, the content keys, and the features by slot."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from beholder._errors import NoValue
from beholder.backends.base import Columns
from beholder.manifest.schema import Sample
from beholder.media.base import Medium
from beholder.metrics.base import FeatureBatch, Item, Ragged
from beholder.records import Status
from beholder.runs.make import Failures, fingerprints
from beholder.runs.plan import Plan, PlannedMetric
from beholder.runs.scoring import select_items

KEY_BYTES = 16

Verdict = tuple[Status, str]


@dataclass
class SlotItems:
    """The items of one slot of one metric: flat content keys, and for each row where its own begin and end."""

    keys: list[bytes] = field(default_factory=list)
    offsets: list[int] = field(default_factory=lambda: [0])


@dataclass
class MetricWork:
    """One metric's share of a chunk.

    Args:
        planned: the metric.
        rows: rows of the chunk that have all items.
        slots: items by slot name, aligned with `rows`.
        verdicts: row → why it has no value.
    """

    planned: PlannedMetric
    rows: list[int] = field(default_factory=list)
    slots: dict[str, SlotItems] = field(default_factory=dict)
    verdicts: dict[int, Verdict] = field(default_factory=dict)


@dataclass
class Chunk:
    """A chunk of samples, ready for features.

    Args:
        samples: the rows.
        work: one entry a metric.
        wanted: space hash → content key → item, all distinct.
        key: hash of everything that the chunk's scores and kept columns depend on.
    """

    samples: Sequence[Sample]
    work: list[MetricWork]
    wanted: dict[str, dict[bytes, Item]]
    key: str


def read_chunk(
    samples: Sequence[Sample], columns: Mapping[str, pa.Array], plan: Plan, pool: ThreadPoolExecutor
) -> Chunk:
    """Selects every metric's items and finds their content keys.

    A medium that is not there costs the rows that need it, with its own status; the other rows go on.
    """
    selections = [_select(samples, planned) for planned in plan.metrics]
    keys = _media_keys([chosen for chosen, _ in selections], pool)
    wanted: dict[str, dict[bytes, Item]] = {item.space.hash: {} for p in plan.metrics for item in p.slots}
    work = [
        _lay_out(planned, chosen, verdicts, keys, wanted)
        for planned, (chosen, verdicts) in zip(plan.metrics, selections, strict=True)
    ]
    return Chunk(samples, work, wanted, _chunk_key(columns, work, plan))


def _select(samples: Sequence[Sample], planned: PlannedMetric) -> tuple[dict[int, Any], dict[int, Verdict]]:
    chosen: dict[int, Any] = {}
    verdicts: dict[int, Verdict] = {}
    metric, slots = planned.metric, tuple(item.slot for item in planned.slots)
    for row, sample in enumerate(samples):
        try:
            chosen[row] = select_items(metric, slots, sample)
        except NoValue as error:
            verdicts[row] = (Status(error.status), error.reason)
    return chosen, verdicts


def _media_keys(selections: Sequence[Mapping[int, Any]], pool: ThreadPoolExecutor) -> dict[int, bytes | NoValue]:
    """Content keys of all media by object identity; each medium is read once."""
    media: dict[int, Medium] = {}
    for chosen in selections:
        for selection in chosen.values():
            for items in selection.values():
                if isinstance(items, str):
                    continue
                for item in items if isinstance(items, (list, tuple)) else (items,):
                    if not isinstance(item, str):
                        media[id(item)] = item
    found = fingerprints(list(media.values()), pool)
    return {name: key[:KEY_BYTES] if isinstance(key, bytes) else key for name, key in zip(media, found, strict=True)}


def _lay_out(
    planned: PlannedMetric,
    chosen: Mapping[int, Any],
    verdicts: dict[int, Verdict],
    media_keys: Mapping[int, bytes | NoValue],
    wanted: Mapping[str, dict[bytes, Item]],
) -> MetricWork:
    """Turns selections into flat keys; a row with an item that has no key gets that item's status."""
    work = MetricWork(planned, verdicts=verdicts)
    work.slots = {item.slot.name: SlotItems() for item in planned.slots}
    shape = [(item.slot.name, item.slot.many, wanted[item.space.hash]) for item in planned.slots]
    for row, selection in chosen.items():
        found: list[list[bytes]] = []
        for name, many, _ in shape:
            items = selection[name]
            keys = _keys_of(items if many else (items,), media_keys)
            if isinstance(keys, NoValue):
                verdicts[row] = (Status(keys.status), keys.reason)
                break
            found.append(keys)
        else:
            work.rows.append(row)
            for (name, many, space), keys in zip(shape, found, strict=True):
                slot, items = work.slots[name], selection[name]
                slot.keys += keys
                slot.offsets.append(len(slot.keys))
                space.update(zip(keys, items if many else (items,), strict=True))
    return work


def _keys_of(items: Sequence[Item], media_keys: Mapping[int, bytes | NoValue]) -> list[bytes] | NoValue:
    keys = []
    for item in items:
        key = text_key(item) if isinstance(item, str) else media_keys[id(item)]
        if isinstance(key, NoValue):
            return key
        keys.append(key)
    return keys


def text_key(text: str) -> bytes:
    """Content key of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:KEY_BYTES]


def _chunk_key(columns: Mapping[str, pa.Array], work: Sequence[MetricWork], plan: Plan) -> str:
    digest = hashlib.sha256(plan.key.encode())
    sink = pa.BufferOutputStream()
    batch = pa.record_batch(dict(columns))
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    digest.update(sink.getvalue())
    for item in work:
        digest.update(np.asarray(item.rows, dtype=np.int64).tobytes())
        for row, (status, reason) in item.verdicts.items():
            digest.update(f"{row}\0{status}\0{reason}\0".encode("utf-8", "surrogatepass"))
        for slot in item.slots.values():
            digest.update(np.asarray(slot.offsets, dtype=np.int64).tobytes())
            digest.update(b"".join(slot.keys))
    return digest.hexdigest()


def leaks(chunk: Chunk) -> list[str]:
    """Ids of samples whose output is, byte for byte, one of their own references."""
    found: dict[str, None] = {}
    for work in chunk.work:
        one = [item for item in work.planned.slots if not item.slot.many and item.slot.feature.startswith("image")]
        many = [item for item in work.planned.slots if item.slot.many and item.slot.feature.startswith("image")]
        for single, several in itertools.product(one, many):
            outputs, references = work.slots[single.slot.name], work.slots[several.slot.name]
            for at, row in enumerate(work.rows):
                own = references.keys[references.offsets[at] : references.offsets[at + 1]]
                if outputs.keys[outputs.offsets[at]] in own:
                    found[chunk.samples[row].id] = None
    return list(found)


@dataclass(frozen=True)
class SpaceFeatures:
    """Features of one space for one chunk: where each key's row is, and why some keys have none."""

    rows: Mapping[bytes, int]
    columns: Columns
    failures: Failures


def feature_batch(
    work: MetricWork, spaces: Mapping[str, SpaceFeatures], constants: Callable[[str], Mapping[str, float]]
) -> tuple[list[int], FeatureBatch]:
    """The rows of a metric that have all features, and these features as columns.

    Rows whose feature is missing get the failure's status in `work.verdicts`.
    """
    good = _good_rows(work, spaces)
    slots: dict[str, Columns | Ragged] = {}
    for item in work.planned.slots:
        features, laid = spaces[item.space.hash], work.slots[item.slot.name]
        offsets = np.asarray(laid.offsets, dtype=np.int64)
        starts, ends = offsets[:-1][good], offsets[1:][good]
        if item.slot.many:
            own = [key for start, end in zip(starts, ends, strict=True) for key in laid.keys[start:end]]
            new_offsets = np.concatenate([[0], np.cumsum(ends - starts)])
            slots[item.slot.name] = Ragged(_take(features, own), new_offsets)
        else:
            slots[item.slot.name] = _take(features, [laid.keys[start] for start in starts])
    by_slot = {item.slot.name: constants(item.space.hash) for item in work.planned.slots}
    rows = [row for row, ok in zip(work.rows, good, strict=True) if ok]
    return rows, FeatureBatch(slots, by_slot, len(rows))


def _good_rows(work: MetricWork, spaces: Mapping[str, SpaceFeatures]) -> np.ndarray:
    good = np.ones(len(work.rows), dtype=bool)
    for item in work.planned.slots:
        failures, laid = spaces[item.space.hash].failures, work.slots[item.slot.name]
        if not failures:
            continue
        for at, row in enumerate(work.rows):
            bad = [failures[key] for key in laid.keys[laid.offsets[at] : laid.offsets[at + 1]] if key in failures]
            if bad and good[at]:
                good[at] = False
                work.verdicts[row] = bad[0]
    return good


def _take(features: SpaceFeatures, keys: Sequence[bytes]) -> Columns:
    rows = features.rows
    index = np.fromiter((rows[key] for key in keys), dtype=np.int64, count=len(keys))
    return {name: array[index] for name, array in features.columns.items()}
