"""The stages of work on other machines, as plain callables from table to table: hash files, decode, encode.

Rows of work have the columns `space` (hash of the feature's space), `key` (content key), `item` (see `item_codec`),
`source` (a feature that the item needs, or null) and `states` (of the item's files before they were hashed). Items are
paths and texts; pixels exist between the decode stage and the model beside it only. Whatever is wrong with one row
comes back as that row's status.
"""

from __future__ import annotations

import dataclasses
import io
import json
import platform
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from beholder import __version__
from beholder._errors import BeholderError, NoValue, UserError
from beholder._hashing import hash_bytes, hash_file
from beholder.backends.base import Columns, ResolvedModel
from beholder.backends.kinds import kind_of
from beholder.backends.pool import load_model, registered_all
from beholder.backends.preparing import image_preparer
from beholder.media.base import DecodeOptions
from beholder.media.files import StatKey, stat_key
from beholder.records import Status
from beholder.runs.batching import BatchSize, Failures
from beholder.runs.file_states import CHANGED, state_of
from beholder.runs.item_codec import read_item, read_source, write_columns
from beholder.runs.looking import still_pictures
from beholder.runs.make import attempt, default_workers
from beholder.runs.maker import FeatureMaker, needing_items
from beholder.runs.store import Space

TRIES = 3
"""How often work is begun whose process dies: an item that kills every process must not go round for ever."""

_DIED = "a model must live through its work"
_FIX = "What was made is kept. Run it here (--engine local) to see what it dies of: often there is too little memory"

WORK = pa.schema(
    [
        ("space", pa.string()),
        ("key", pa.binary()),
        ("item", pa.string()),
        ("source", pa.binary()),
        ("states", pa.string()),
    ]
)
DECODED = pa.schema([*WORK, ("payload", pa.binary()), ("failure", pa.string())])
MADE = pa.schema(
    [
        ("space", pa.string()),
        ("keys", pa.list_(pa.binary())),
        ("data", pa.binary()),
        ("failures", pa.string()),
        ("told", pa.string()),
        ("error", pa.string()),
    ]
)
HASHED = pa.schema([("key", pa.string()), ("sha256", pa.string())])


def hash_files(table: pa.Table) -> pa.Table:
    """Hashes of files by what tells their states apart; a file that cannot be read is left to the run itself."""
    found: dict[str, str] = {}
    for path in table.column("path").to_pylist():
        try:
            before = stat_key(path, path)
            sha = hash_file(path)
            if stat_key(path, path) == before:
                found[json.dumps(list(before))] = sha
        except (NoValue, OSError, ValueError):
            continue
    return pa.table([list(found), list(found.values())], schema=HASHED)


def read_hash_key(text: str) -> StatKey:
    """The `StatKey` of a row of `hash_files`."""
    return StatKey(*json.loads(text))


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What a stage must know of a model.

    Args:
        model: the model.
        spaces: its spaces by hash.
        decode: how files become pixels.
        device: where it runs.
        batch_size: visuals in a batch; None for the model's own.
        workers: decode threads beside the model.
        registered: the user's own encoders by name.
        folder: a folder that all processes see, for what outlives one that dies; None where nobody starts it again.
        rows: items that are made, and told, together.
        version: beholder's, where the run was started.
    """

    model: ResolvedModel
    spaces: Mapping[str, Space]
    decode: DecodeOptions
    device: str = "auto"
    batch_size: int | None = None
    workers: int | None = None
    registered: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    folder: str | None = None
    rows: int = 256
    version: str = __version__


def check_version(recipe: Recipe) -> None:
    """Features of two versions must not mix.

    Raises:
        UserError: this machine has another version of beholder than the one that the run was started on.
    """
    if recipe.version != __version__:
        raise UserError(
            "all machines of a run must have the same version of beholder",
            got=f"{__version__} on {platform.node()}, not {recipe.version}",
        )


class DecodeStage:
    """Decodes still pictures and prepares them for the model, without its weights; other items pass as they are."""

    def __init__(self, recipe: Recipe) -> None:
        check_version(recipe)
        self._recipe = recipe
        self._prepare = image_preparer(recipe.model, recipe.registered)

    @property
    def works(self) -> bool:
        """False where only the loaded model can prepare pictures."""
        return self._prepare is not None

    def __call__(self, table: pa.Table) -> pa.Table:
        payloads: list[bytes | None] = []
        failures: list[str | None] = []
        for row in table.select(["space", "item", "states"]).to_pylist():
            made = self._one(row["space"], row["item"])
            other = None if made is None else _other_file(row["states"])
            if other is not None and not isinstance(made, NoValue):
                made = NoValue(Status.FAILED, CHANGED)
            failures.append(_verdict_text(made, other) if isinstance(made, NoValue) else None)
            payloads.append(None if made is None or isinstance(made, NoValue) else _array_bytes(made))
        columns = [*(table.column(name) for name in WORK.names), pa.array(payloads, pa.binary())]
        return pa.table([*columns, pa.array(failures, pa.string())], schema=DECODED)

    def _one(self, space: str, text: str) -> Any:
        """What the model takes, the `NoValue` that there is instead, or None for items that are no still picture."""
        kind = kind_of(self._recipe.spaces[space].feature)
        if self._prepare is None or kind.name != "image_embedding" or "frames" in self._recipe.spaces[space].params:
            return None
        prepare = self._prepare
        return attempt(lambda item: prepare(still_pictures(item, self._recipe.decode)[0]), read_item(text))


class ModelStage:
    """A model that is loaded once and makes features of what comes."""

    def __init__(self, recipe: Recipe) -> None:
        check_version(recipe)
        registered_all(recipe.registered)
        self._recipe = recipe
        self._backend = load_model(recipe.model, device=recipe.device)
        self._pool = ThreadPoolExecutor(recipe.workers or default_workers())
        self._sizes: dict[bool, BatchSize] = {}

    def __call__(self, table: pa.Table) -> Iterator[pa.Table]:
        for start in range(0, table.num_rows, self._recipe.rows):
            yield self._made(table.slice(start, self._recipe.rows))

    def _made(self, table: pa.Table) -> pa.Table:
        mark = self._mark(table)
        if mark is not None and mark.stat().st_size > TRIES:
            told = f"items on which the process that encodes died {TRIES} times"
            return pa.Table.from_pylist([{"space": "", "error": json.dumps([_DIED, told, _FIX])}], schema=MADE)
        made = self._table(table)
        if mark is not None:
            mark.unlink(missing_ok=True)
        return made

    def _mark(self, table: pa.Table) -> Path | None:
        """A file as long as the number of times that this work was begun: whoever dies of it leaves it behind."""
        if self._recipe.folder is None:
            return None
        # Spaces of one model may have the same keys, and be made at the same time.
        whole = [*map(str.encode, table.column("space").unique().to_pylist()), *table.column("key").to_pylist()]
        name = hash_bytes(b"".join(whole))[:16]
        mark = Path(self._recipe.folder) / f"begun-{name}"
        with open(mark, "ab") as handle:
            handle.write(b".")
        return mark

    def _table(self, table: pa.Table) -> pa.Table:
        by_space: dict[str, list[dict[str, Any]]] = {}
        for row in table.to_pylist():
            by_space.setdefault(row["space"], []).append(row)
        made = [self._space(name, rows) for name, rows in by_space.items()]
        return pa.Table.from_pylist(made, schema=MADE)

    def _space(self, name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """The features of one space's rows; an error that concerns all of them comes back as text."""
        space = self._recipe.spaces[name]
        maker = FeatureMaker(kind_of(space.feature), self._backend, space.params, self._recipe.decode, self._pool)
        keys: list[bytes] = []
        parts: list[Columns] = []

        here = {row["key"]: row["states"] for row in rows if row.get("payload") is None and row.get("failure") is None}
        others = {row["key"]: _verdict(row["failure"])[1] for row in rows if row.get("failure") is not None}
        changed: Failures = {}

        def done(made: list[bytes], columns: Columns) -> None:
            others.update((key, _other_file(here.get(key))) for key in made)
            good = [at for at, key in enumerate(made) if others[key] is None]
            keys.extend(made[at] for at in good)
            parts.append({part: array[good] for part, array in columns.items()})
            changed.update(dict.fromkeys(set(made) - {made[at] for at in good}, (Status.FAILED, CHANGED)))

        try:
            failures = self._make(maker, rows, done) | changed
        except UserError as error:
            return {"space": name, "error": json.dumps([error.must, error.got, error.fix])}
        except BeholderError as error:
            return {"space": name, "error": json.dumps([str(error), None, None])}
        others.update((key, _other_file(here[key])) for key in failures if key in here)
        columns = {part: np.concatenate([item[part] for item in parts]) for part in parts[0]} if parts else {}
        told = [[key.hex(), str(s.value), reason, others.get(key)] for key, (s, reason) in failures.items()]
        return {
            "space": name,
            "keys": keys,
            "data": write_columns(columns),
            "failures": json.dumps(told),
            "told": json.dumps({"constants": dict(self._backend.constants), "ran": self._ran()}),
        }

    def _make(self, maker: FeatureMaker, rows: list[dict[str, Any]], done: Any) -> Failures:
        failures: Failures = {}
        prepared: dict[bytes, np.ndarray] = {}
        items: dict[bytes, Any] = {}
        sources: dict[tuple[str, bytes], Any] = {}
        for row in rows:
            if row.get("failure") is not None:
                failures[row["key"]] = _verdict(row["failure"])[0]
            elif row.get("payload") is not None:
                prepared[row["key"]] = _bytes_array(row["payload"])
            else:
                item = items[row["key"]] = read_item(row["item"])
                for needing in needing_items(item):
                    sources[needing.source[2], needing.source[0]] = read_source(row["source"])
        size = self._size(maker)
        if prepared:
            failures |= maker.make_prepared(prepared, size=size, done=done)
        return failures | maker.make(items, size=size, sources=sources, done=done)

    def _size(self, maker: FeatureMaker) -> BatchSize:
        texts = maker.kind.item == "text"
        asked = None if texts else self._recipe.batch_size
        return self._sizes.setdefault(texts, BatchSize(asked or maker.batch_size(), fixed=asked is not None))

    def _ran(self) -> dict[str, Any]:
        sizes = {name: getattr(self._backend, name, None) for name in ("image_batch", "text_batch", "batch")}
        return {
            "device": getattr(self._backend, "device", None),
            **{name: size for name, size in sizes.items() if size is not None},
        }


OtherFile = tuple[str, Any, Any, str]
"""A path, its state before it was hashed, its state where the work was done, and the name of that machine."""


def _other_file(states: str | None) -> OtherFile | None:
    """The first of an item's files that is not as it was before it was hashed."""
    for path, state in json.loads(states or "{}").items():
        found = state_of(path)
        if found != (None if state is None else tuple(state)):
            return path, state, found, platform.node()
    return None


def judge(told: list[Any]) -> tuple[bytes, tuple[Status, str], str | None]:
    """What a failure that came back means, in the process that planned the work.

    Args:
        told: key, status, reason, and the file that was another one than the planned, if there was any.

    Returns:
        The key, the verdict, and the machine's fault in words: it sees no file, or another, where this process still
        sees the one that was planned.
    """
    key, status, reason, other = told
    verdict = Status(status), reason
    if other is None:
        return bytes.fromhex(key), verdict, None
    path, planned, found, machine = other
    if state_of(path) != (None if planned is None else tuple(planned)):
        return bytes.fromhex(key), verdict, None  # it changed for this process too
    fault = f"{'no' if found is None else 'another'} file at {path} on {machine}"
    text = f"{fault} than where the run was started" if found is not None else fault
    return bytes.fromhex(key), (Status.FAILED, f"{text}; every machine must see the data at the same path"), fault


def _verdict_text(error: NoValue, other: OtherFile | None) -> str:
    return json.dumps([str(Status(error.status).value), error.reason, other])


def _verdict(text: str) -> tuple[tuple[Status, str], OtherFile | None]:
    status, reason, other = json.loads(text)
    return (Status(status), reason), other


def _array_bytes(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _bytes_array(data: bytes) -> np.ndarray:
    array: np.ndarray = np.load(io.BytesIO(data), allow_pickle=False)
    return array
