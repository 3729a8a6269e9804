"""Makes features of visuals of several pictures, and of pairs of a visual and a text.

A feature of such a visual has one row a unit (see `looking.py`): its columns hold one array an item, of as many rows.
A column whose rows are themselves of differing length (the faces of each frame) is laid one row behind the other, and
`<name>#` tells how many each unit has; texts lie in a JSON list.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Union

import numpy as np

from beholder._errors import BeholderError, NoValue
from beholder.backends.base import Columns, Made
from beholder.backends.columns import object_column
from beholder.media.base import Medium
from beholder.records import Status
from beholder.runs.batching import (
    BatchSize,
    Done,
    Encode,
    Failures,
    check_device,
    checked,
    encode_batch,
    model_raised,
    out_of_memory,
)
from beholder.runs.looking import (
    COUNTS,
    FRAMES,
    End,
    Event,
    Head,
    Looker,
    Repeats,
    Several,
    Still,
    look_ahead,
    split_units,
    still_pictures,
)
from beholder.runs.make import prepared

_MOST_PAIRS = 4096

CallPairs = Callable[[Sequence[Any], Sequence[tuple[int, str]]], Any]


@dataclass(frozen=True)
class PairItem:
    """A visual and a text.

    Args:
        key: content key of the visual.
        visual: a still picture, joined media, or a visual of several pictures.
        text: the text, or the example picture.
    """

    key: bytes
    visual: Union[Still, Several]
    text: Union[str, Medium]


@dataclass
class _Rows:
    """The rows of one item, as far as they are there.

    Args:
        head: what is known of the visual.
        parts: unit → its row of each column.
        ragged: columns whose rows differ in length.
        failure: why the item has no feature.
    """

    head: Head = field(default_factory=Head)
    parts: dict[int, dict[str, Any]] = field(default_factory=dict)
    ragged: set[str] = field(default_factory=set)
    failure: tuple[Status, str] | None = None

    def add(self, unit: int, columns: Columns, row: int) -> None:
        """Keeps a row of a batch as that of a unit."""
        self.parts[unit] = {name: array[row] for name, array in columns.items()}
        self.ragged.update(name for name, array in columns.items() if array.dtype == object)

    def columns(self) -> dict[str, Any]:
        """Columns of the item: an array of as many rows as it has units, repeated as the head says."""
        rows = [self.parts[at] for at in self.head.repeats or range(len(self.parts))]
        gathered: dict[str, Any] = {}
        for name in rows[0]:
            values = [row[name] for row in rows]
            if name not in self.ragged:
                gathered[name] = np.stack(values)
            elif isinstance(values[0], str):
                gathered[name] = json.dumps(values)
            else:
                gathered[name] = np.concatenate(values)
                gathered[name + COUNTS] = np.array([len(value) for value in values], dtype=np.int32)
        return gathered


def unit_rows(columns: Columns, row: int) -> dict[str, list[Any]]:
    """An item's rows by column, one a unit, from the columns that were stored of it."""
    return split_units({name: array[row] for name, array in columns.items()})


def ragged_names(columns: Columns) -> set[str]:
    """Columns whose rows, one a unit, differ in length or are texts."""
    return {
        name
        for name, array in columns.items()
        if name + COUNTS in columns or (name != FRAMES and any(isinstance(value, str) for value in array[:1]))
    }


def make_several(
    items: Mapping[bytes, Several], looker: Looker, encode: Encode, *, pool: ThreadPoolExecutor, size: BatchSize,
    ahead: int, done: Done,
) -> Failures:  # fmt: skip
    """Features of visuals of several pictures; a batch holds units of any of them.

    Args:
        items: visuals by content key.
        looker: how the model looks at them.
        encode: from a list of units to `Made` or columns.
        pool: decode threads.
        size: units in every batch.
        ahead: visuals that are opened at once.
        done: is handed the key and columns of each visual.

    Returns:
        (status, reason) of the visuals that have no feature.
    """
    failures: Failures = {}
    rows: dict[bytes, _Rows] = {}
    ended: list[bytes] = []
    batch: list[tuple[bytes, int, Any]] = []

    def flush() -> None:
        _encode_units(batch, rows, encode, size)
        batch.clear()
        for key in ended:
            _hand_over(key, rows.pop(key), done, failures)
        ended.clear()

    counts: dict[bytes, int] = {}
    for key, event in look_ahead(items, looker, pool, ahead=ahead):
        if isinstance(event, Head):
            rows[key], counts[key] = _Rows(event), 0
        elif isinstance(event, Repeats):
            rows[key].head = replace(rows[key].head, repeats=event.units)
        elif isinstance(event, End):
            if event.failure is not None:
                rows.pop(key, None)
                batch[:] = [unit for unit in batch if unit[0] != key]
                failures[key] = (Status(event.failure.status), event.failure.reason)
            else:
                ended.append(key)
        elif rows[key].failure is None:
            batch.append((key, counts[key], event))
            counts[key] += 1
        if len(batch) >= size.size:
            flush()
    flush()
    return failures


def _encode_units(
    batch: Sequence[tuple[bytes, int, Any]], rows: Mapping[bytes, _Rows], encode: Encode, size: BatchSize
) -> None:
    """Encodes units, and gives each its place among the rows of its visual."""
    if not batch:
        return
    names = [f"{at}".encode() for at in range(len(batch))]
    lost: Failures = {}

    def keep(keys: list[bytes], columns: Columns) -> None:
        for row, name in enumerate(keys):
            key, unit, _ = batch[int(name)]
            rows[key].add(unit, columns, row)

    encode_batch(names, [payload for _, _, payload in batch], encode, size, keep, lost)
    for name, verdict in lost.items():
        key = batch[int(name)][0]
        rows[key].failure = rows[key].failure or verdict


def _hand_over(key: bytes, rows: _Rows, done: Done, failures: Failures) -> None:
    if rows.failure is not None:
        failures[key] = rows.failure
        return
    columns = {name: object_column([value]) for name, value in rows.columns().items()}
    done([key], {**columns, FRAMES: object_column([rows.head.record])})


def make_pairs(
    items: Mapping[bytes, PairItem], looker: Looker, call: CallPairs, *, several: bool, pool: ThreadPoolExecutor,
    size: BatchSize, ahead: int, done: Done,
) -> Failures:  # fmt: skip
    """Features of pairs. All texts of a visual go to the model with it, so that its own work is done once.

    Args:
        items: pairs by content key.
        looker: how the model looks at visuals.
        call: from units and pairs of (number of the unit, text) to `Made`.
        several: True where the visuals have several pictures; the features then have one row a unit.
        pool: decode threads.
        size: visuals (or units of one visual) in a batch, at most.
        ahead: visuals that are opened at once.
        done: is handed keys and columns.

    Returns:
        (status, reason) of the pairs that have no feature.
    """
    failures: Failures = {}
    texts: dict[bytes, list[tuple[bytes, Any]]] = {}
    visuals: dict[bytes, Any] = {}
    for key, item in items.items():
        texts.setdefault(item.key, []).append((key, item.text))
        visuals[item.key] = item.visual
    if several and looker.together and looker.at_once:
        _whole_visuals(texts, look_ahead(visuals, looker, pool, ahead=ahead), call, size, done, failures)
        return failures
    if several:
        for visual, events in _by_visual(look_ahead(visuals, looker, pool, ahead=ahead)):
            _several_pairs(texts[visual], events, call, size, done, failures)
        return failures

    def prepare(visual: Still) -> Any:
        return looker.prepare(still_pictures(visual, looker.pixels))

    batch: list[tuple[Any, list[tuple[bytes, str]]]] = []
    for visual, payload in prepared(visuals, prepare, pool, ahead=size.size):
        if isinstance(payload, NoValue):
            failures.update({key: (Status(payload.status), payload.reason) for key, _ in texts[visual]})
            continue
        batch.append((payload, texts[visual]))
        if len(batch) >= size.size:
            _still_pairs(batch, call, size, done, failures)
            batch = []
    _still_pairs(batch, call, size, done, failures)
    return failures


def _still_pairs(
    batch: Sequence[tuple[Any, list[tuple[bytes, str]]]], call: CallPairs, size: BatchSize, done: Done, lost: Failures
) -> None:
    pairs = [(unit, key, text) for unit, (_, own) in enumerate(batch) for key, text in own]
    payloads = [payload for payload, _ in batch]
    for start in range(0, len(pairs), _MOST_PAIRS):
        _call_pairs(payloads, pairs[start : start + _MOST_PAIRS], call, size, done, lost)


def _call_pairs(
    payloads: Sequence[Any], pairs: Sequence[tuple[int, bytes, str]], call: CallPairs, size: BatchSize, done: Done,
    lost: Failures,
) -> None:  # fmt: skip
    """One call of the model; when it raises, every pair is tried alone, or half of them where memory did not do."""
    used = sorted({unit for unit, _, _ in pairs})
    place = {unit: at for at, unit in enumerate(used)}
    made: Made | None = None
    step = 1
    try:
        made = checked(
            call([payloads[unit] for unit in used], [(place[unit], text) for unit, _, text in pairs]), len(pairs)
        )
    except BeholderError:
        raise
    except Exception as error:
        if out_of_memory(error):
            size.halve(error, parts=len(pairs) > 1)
            step = max(1, len(pairs) // 2)
        else:
            check_device(error)
            if len(pairs) == 1:
                lost[pairs[0][1]] = model_raised(error)
                return
    if made is None:  # no longer in the handler: until then the error holds all tensors of the call that failed
        for start in range(0, len(pairs), step):
            _call_pairs(payloads, pairs[start : start + step], call, size, done, lost)
        return
    for row, failure in made.failures.items():
        lost[pairs[row][1]] = (Status(failure.status), failure.reason)
    good = [row for row in range(len(pairs)) if row not in made.failures]
    if good:
        done([pairs[row][1] for row in good], {name: array[good] for name, array in made.columns.items()})


def _by_visual(events: Iterable[tuple[bytes, Event]]) -> Iterator[tuple[bytes, Iterator[Event]]]:
    """Events of one visual after another."""
    source = iter(events)

    def own(first: Event) -> Iterator[Event]:
        yield first
        event = first
        while not isinstance(event, End):
            _, event = next(source)
            yield event

    for key, event in source:
        mine = own(event)
        yield key, mine
        for _ in mine:  # what was not taken
            pass


def _whole_visuals(
    texts: Mapping[bytes, Sequence[tuple[bytes, Any]]], events: Iterable[tuple[bytes, Event]], call: CallPairs,
    size: BatchSize, done: Done, lost: Failures,
) -> None:  # fmt: skip
    """The pairs of visuals of one unit each, several visuals in a call: what waits for a server waits together."""
    heads: dict[bytes, Head] = {}
    batch: list[tuple[Any, list[tuple[bytes, Any]]]] = []
    of_pair: dict[bytes, bytes] = {}

    def hand_over(keys: list[bytes], columns: Columns) -> None:
        for at, key in enumerate(keys):
            rows = _Rows(heads[of_pair[key]])
            rows.add(0, columns, at)
            _hand_over(key, rows, done, lost)

    def flush() -> None:
        _still_pairs(batch, call, size, hand_over, lost)
        batch.clear()

    for visual, event in events:
        if isinstance(event, Head):
            heads[visual] = event
        elif isinstance(event, End):
            if event.failure is not None:
                lost.update({key: (Status(event.failure.status), event.failure.reason) for key, _ in texts[visual]})
        elif not isinstance(event, Repeats):
            batch.append((event, list(texts[visual])))
            of_pair.update({key: visual for key, _ in texts[visual]})
        if len(batch) >= size.size:
            flush()
    flush()


def _several_pairs(
    texts: Sequence[tuple[bytes, str]], events: Iterator[Event], call: CallPairs, size: BatchSize, done: Done,
    lost: Failures,
) -> None:  # fmt: skip
    """The pairs of one visual of several pictures, a few units at a time."""
    rows = {key: _Rows() for key, _ in texts}
    units: list[Any] = []
    begun = 0

    def flush() -> None:
        nonlocal begun
        _unit_pairs(units, begun, texts, rows, call, size)
        begun += len(units)
        units.clear()

    for event in events:
        if isinstance(event, Head):
            for row in rows.values():
                row.head = event
        elif isinstance(event, Repeats):
            for row in rows.values():
                row.head = replace(row.head, repeats=event.units)
        elif isinstance(event, End):
            if event.failure is not None:
                lost.update({key: (Status(event.failure.status), event.failure.reason) for key in rows})
                return
        else:
            units.append(event)
        if len(units) >= size.size:
            flush()
    flush()
    for key, row in rows.items():
        _hand_over(key, row, done, lost)


def _unit_pairs(
    units: Sequence[Any], begun: int, texts: Sequence[tuple[bytes, str]], rows: Mapping[bytes, _Rows],
    call: CallPairs, size: BatchSize,
) -> None:  # fmt: skip
    if not units:
        return
    owners = [(key, at) for at in range(len(units)) for key, _ in texts]
    asked = [(at, text) for at in range(len(units)) for _, text in texts]
    pairs = [(at, str(row).encode(), text) for row, (at, text) in enumerate(asked)]
    lost: Failures = {}

    def keep(names: list[bytes], columns: Columns) -> None:
        for row, name in enumerate(names):
            key, at = owners[int(name)]
            rows[key].add(begun + at, columns, row)

    _call_pairs(list(units), pairs, call, size, keep, lost)
    for name, verdict in lost.items():
        key = owners[int(name)][0]
        rows[key].failure = rows[key].failure or verdict
