"""One chunk of samples on its way: what each metric selects, the content keys, and the features by slot."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from beholder._errors import NoValue
from beholder.backends.base import Columns
from beholder.backends.columns import object_column
from beholder.manifest.schema import Sample
from beholder.media.base import Medium
from beholder.metrics.base import Derived, FeatureBatch, FromFeature, Joined, Pair, Ragged
from beholder.records import Status
from beholder.runs.absent import put_faults_first
from beholder.runs.batching import Failures
from beholder.runs.item_keys import ItemReader, ReadItem, media_of
from beholder.runs.looking import FRAMES
from beholder.runs.make import ContentKey, content_keys
from beholder.runs.plan import Plan, PlannedMetric, PlannedSlot
from beholder.runs.scoring import select_items
from beholder.runs.several import ragged_names, unit_rows

Verdict = tuple[Status, str]


@dataclass
class SlotItems:
    """The items of one slot of one metric: flat content keys, and for each row where its own begin and end.

    `several` holds the keys of visuals of several pictures; their features lie in a space of their own.
    """

    keys: list[bytes] = field(default_factory=list)
    offsets: list[int] = field(default_factory=lambda: [0])
    several: set[bytes] = field(default_factory=set)


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
        wanted: space hash → content key → item (a text, a medium, or an item of `looking` or `several`), all distinct.
        key: hash of everything that the chunk's scores and kept columns depend on.
    """

    samples: Sequence[Sample]
    work: list[MetricWork]
    wanted: dict[str, dict[bytes, Any]]
    key: str


def read_chunk(
    samples: Sequence[Sample], columns: Mapping[str, pa.Array], plan: Plan, pool: ThreadPoolExecutor
) -> Chunk:
    """Selects every metric's items and finds their content keys.

    A medium that is not there costs the rows that need it, with its own status; the other rows go on.
    """
    selections = [select_all(samples, planned) for planned in plan.metrics]
    for planned, (_, verdicts) in zip(plan.metrics, selections):
        put_faults_first(samples, planned.metric.info.inputs, verdicts)
    keys = _media_keys([chosen for chosen, _ in selections], pool, first_frame=plan.first_frame)
    wanted: dict[str, dict[bytes, Any]] = {name: {} for name in plan.spaces()}
    work = [
        lay_out(planned, chosen, verdicts, keys, wanted)
        for planned, (chosen, verdicts) in zip(plan.metrics, selections, strict=True)
    ]
    return Chunk(samples, work, wanted, _chunk_key(columns, work, plan))


def select_all(samples: Sequence[Sample], planned: PlannedMetric) -> tuple[dict[int, Any], dict[int, Verdict]]:
    """What a metric selects of each row, and why it selects nothing of others."""
    chosen: dict[int, Any] = {}
    verdicts: dict[int, Verdict] = {}
    metric, slots = planned.metric, tuple(item.slot for item in planned.slots)
    for row, sample in enumerate(samples):
        try:
            chosen[row] = select_items(metric, slots, sample)
        except NoValue as error:
            verdicts[row] = (Status(error.status), error.reason)
    return chosen, verdicts


def _media_keys(
    selections: Sequence[Mapping[int, Any]], pool: ThreadPoolExecutor, *, first_frame: bool
) -> dict[int, ContentKey | NoValue]:
    """Content keys of all media by object identity; each medium is read once."""
    media = media_in(selections)
    found = content_keys(list(media.values()), pool, first_frame=first_frame)
    return dict(zip(media, found, strict=True))


def media_in(selections: Iterable[Mapping[int, Any]]) -> dict[int, Medium]:
    """All media of what metrics selected, by object identity."""
    media: dict[int, Medium] = {}
    for chosen in selections:
        for selection in chosen.values():
            for items in selection.values():
                if isinstance(items, str):
                    continue
                for item in items if isinstance(items, (list, tuple)) else (items,):
                    if isinstance(item, (Pair, Derived, Joined, FromFeature)):
                        media.update({id(medium): medium for medium in media_of(item)})
                    elif not isinstance(item, str):
                        media[id(item)] = item
    return media


def lay_out(
    planned: PlannedMetric,
    chosen: Mapping[int, Any],
    verdicts: dict[int, Verdict],
    media_keys: Mapping[int, ContentKey | NoValue],
    wanted: Mapping[str, dict[bytes, Any]],
) -> MetricWork:
    """Turns selections into flat keys; a row with an item that has no key gets that item's status."""
    work = MetricWork(planned, verdicts=verdicts)
    work.slots = {item.slot.name: SlotItems() for item in planned.slots}
    reader = ItemReader(planned, media_keys)
    for row, selection in chosen.items():
        found: list[list[ReadItem]] = []
        try:
            for planned_slot in planned.slots:
                items = selection[planned_slot.slot.name]
                found.append(reader.read(planned_slot, items if planned_slot.slot.many else (items,)))
        except NoValue as error:
            verdicts[row] = (Status(error.status), error.reason)
            continue
        work.rows.append(row)
        for planned_slot, read in zip(planned.slots, found, strict=True):
            slot = work.slots[planned_slot.slot.name]
            for key, item, space in read:
                slot.keys.append(key)
                wanted[space][key] = item
                if space != planned_slot.space.hash:
                    slot.several.add(key)
            slot.offsets.append(len(slot.keys))
    return work


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
        visual = [item for item in work.planned.slots if item.kind.item == "visual"]
        one, many = [item for item in visual if not item.slot.many], [item for item in visual if item.slot.many]
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


def join(
    rows: dict[bytes, int], columns: Columns, more: Mapping[bytes, int], extra: Columns
) -> tuple[dict[bytes, int], Columns]:
    """Two answers of the store as one."""
    if not rows or not more:
        return (rows, columns) if rows else (dict(more), extra)
    start = len(next(iter(columns.values())))
    joined = {name: np.concatenate([array, extra[name]]) for name, array in columns.items()}
    return {**rows, **{key: start + row for key, row in more.items()}}, joined


def feature_batch(
    work: MetricWork, spaces: Mapping[str, SpaceFeatures], constants: Callable[[str], Mapping[str, float]]
) -> tuple[list[int], FeatureBatch]:
    """The rows of a metric that have all features, and these features as columns.

    Rows whose feature is missing get the failure's status in `work.verdicts`.
    """
    good = _good_rows(work, spaces)
    slots: dict[str, Columns | Ragged] = {}
    lost: dict[str, list[dict[int, Verdict]]] = {}
    for item in work.planned.slots:
        features, laid = spaces[item.space.hash], work.slots[item.slot.name]
        offsets = np.asarray(laid.offsets, dtype=np.int64)
        starts, ends = offsets[:-1][good], offsets[1:][good]
        if item.slot.may_fail:
            lists, lost[item.slot.name] = _without_lost(item, laid, starts, ends, spaces)
            of_several = spaces[item.several.hash] if item.several is not None else features
            slots[item.slot.name] = unfold(lists, laid.several, features, of_several)
        elif laid.several and item.several is not None:
            lists = [laid.keys[start:end] for start, end in zip(starts, ends, strict=True)]
            slots[item.slot.name] = unfold(lists, laid.several, features, spaces[item.several.hash])
        elif item.slot.many:
            own = [key for start, end in zip(starts, ends, strict=True) for key in laid.keys[start:end]]
            new_offsets = np.concatenate([[0], np.cumsum(ends - starts)])
            slots[item.slot.name] = Ragged(_take(features, own), new_offsets)
        else:
            slots[item.slot.name] = _take(features, [laid.keys[start] for start in starts])
    rows = [row for row, ok in zip(work.rows, good, strict=True) if ok]
    # Constants may need the model itself, which no row needs here.
    by_slot = {item.slot.name: constants(item.space.hash) for item in work.planned.slots} if rows else {}
    return rows, FeatureBatch(slots, by_slot, len(rows), lost=lost)


def _without_lost(
    item: PlannedSlot, laid: SlotItems, starts: np.ndarray, ends: np.ndarray, spaces: Mapping[str, SpaceFeatures]
) -> tuple[list[list[bytes]], list[dict[int, Verdict]]]:
    """Each row's keys that have a feature, and why the others have none, by their place in the row's list."""
    plain = spaces[item.space.hash].failures
    several = spaces[item.several.hash].failures if item.several is not None else {}
    lists: list[list[bytes]] = []
    lost: list[dict[int, Verdict]] = []
    for start, end in zip(starts, ends, strict=True):
        own = laid.keys[start:end]
        failed = [(several if key in laid.several else plain).get(key) for key in own]
        lists.append([key for key, verdict in zip(own, failed, strict=True) if verdict is None])
        lost.append({at: verdict for at, verdict in enumerate(failed) if verdict is not None})
    return lists, lost


def unfold(
    lists: Sequence[Sequence[bytes]], several: set[bytes], plain: SpaceFeatures, of_several: SpaceFeatures
) -> Ragged:
    """Features of rows whose items have one or several pictures, one row a picture."""
    rows: dict[str, list[Any]] = {}
    offsets = [0]
    for keys in lists:
        count = 0
        for key in keys:
            if key in several:
                mine = unit_rows(of_several.columns, of_several.rows[key])
            else:
                mine = {name: [array[plain.rows[key]]] for name, array in plain.columns.items()}
            for name, values in mine.items():
                rows.setdefault(name, []).extend(values)
            count += len(next(iter(mine.values())))
        offsets.append(offsets[-1] + count)
    ragged = {name for name, array in plain.columns.items() if array.dtype == object} | ragged_names(of_several.columns)
    columns = {name: object_column(values) if name in ragged else np.stack(values) for name, values in rows.items()}
    return Ragged(columns, np.asarray(offsets))


def frame_records(work: MetricWork, spaces: Mapping[str, SpaceFeatures], rows: Sequence[int]) -> dict[int, Any]:
    """The frames that were looked at, by row, for rows whose output is a video; of a list, those of its first pair."""
    found: dict[int, Any] = {}
    place = {row: at for at, row in enumerate(work.rows)}
    for item in work.planned.slots:
        laid = work.slots[item.slot.name]
        if (item.slot.many and item.kind.item != "pair") or item.several is None or not laid.several:
            continue
        features = spaces[item.several.hash]
        for row in rows:
            own = laid.keys[laid.offsets[place[row]] : laid.offsets[place[row] + 1]]
            key = next((key for key in own if key in laid.several and key in features.rows), None)
            if key is not None and row not in found:
                record = features.columns[FRAMES][features.rows[key]]
                if record:
                    found[row] = json.loads(record)
    return found


def _good_rows(work: MetricWork, spaces: Mapping[str, SpaceFeatures]) -> np.ndarray:
    good = np.ones(len(work.rows), dtype=bool)
    for item in work.planned.slots:
        if item.slot.may_fail:
            continue
        failures, laid = dict(spaces[item.space.hash].failures), work.slots[item.slot.name]
        if laid.several and item.several is not None:
            failures = {key: why for key, why in failures.items() if key not in laid.several}
            failures |= spaces[item.several.hash].failures
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
