"""What a run keeps for metrics of whole sets, so that they can be measured later: over all parts, or by other groups.

A part keeps the keys of its rows' features in its journal, the features in its store, and its share of the real set:
shard i of N encodes the pictures from ⌊i·m/N⌋ to ⌊(i+1)·m/N⌋ of m. Their keys lie in `real.parquet`. Mean and
covariance count as one picture, so one shard keeps a copy, in `real.npz`. `merge` then measures the sets once, as one
process does. A run in one process keeps the same, as its only part.
"""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from beholder._errors import Fault, InputError, OptionError, UserError
from beholder._hashing import hash_file
from beholder.records import Summary
from beholder.runs.atomic import write_atomic
from beholder.runs.config import RunConfig
from beholder.runs.finish import FrameReader
from beholder.runs.fitted import read_fitted, write_fitted
from beholder.runs.journal import Frame
from beholder.runs.plan import Plan, PlannedMetric, of_sets
from beholder.runs.real import Real, RealKeys, describe_real, set_metric, set_spaces
from beholder.runs.set_features import PartShelves, SetRow, SetSpaces
from beholder.runs.set_values import SetAsk, SetValues
from beholder.runs.shards import Shard, ShardSource
from beholder.runs.store import Space

PICTURES, FITTED = "real.parquet", "real.npz"
_SCHEMA = pa.schema([("label", pa.string()), ("key", pa.binary()), ("status", pa.string()), ("count", pa.int64())])


class SetPart(NamedTuple):
    """A part as far as sets are concerned, or a whole run.

    Args:
        path: its folder.
        shard: what its header says of it: "count" and "sets".
    """

    path: Path
    shard: Mapping[str, Any]


def describe_sets(plan: Plan, config: RunConfig, real: Real | None, shard: Shard, store: str | None) -> dict[str, Any]:
    """What a header says of a part's sets, or of a whole run's: where the features lie, and its share of the real set.

    Args:
        plan: the metrics.
        config: the settings.
        real: the share of the real set.
        shard: which part.
        store: the feature store; None where a part has one of its own.
    """
    if not of_sets(plan.metrics):
        return {}
    spaces = {
        planned.label: [asdict(space) for space in set_spaces(planned)] for planned in of_sets(plan.metrics)
    }  # fmt: skip
    return {
        "sets": {
            "spaces": spaces,
            "store": None if store is None else os.path.abspath(os.path.expanduser(store)),
            "real": None if real is None else _describe_share(real, config.real, shard),
        }
    }


def _describe_share(real: Real, path: str | None, shard: Shard) -> dict[str, Any]:
    sha = hash_file(path) if path is not None and os.path.isfile(path) else None
    if isinstance(real.source, ShardSource):
        start, stop, total = real.source.start, real.source.stop, real.source.total
    else:
        (start, stop), total = shard.rows(1), 1
    return {"name": real.name, "start": start, "stop": stop, "total": total, "input_sha256": sha,
            "fitted": real.fitted is not None}  # fmt: skip


def write_share(folder: Path, real: Real | None, keys: RealKeys, share: Mapping[str, Any] | None) -> None:
    """Writes a part's share of the real set, in place of one of an earlier run."""
    for name in (PICTURES, FITTED):
        (folder / name).unlink(missing_ok=True)
    if real is None or share is None:
        return
    if real.fitted is not None:
        if share["start"] < share["stop"]:
            write_fitted(folder / FITTED, real.fitted.fit, real.fitted.n, {})
        return
    rows: list[tuple[str, bytes | None, str, int]] = [
        (label, row.key, "ok", 1) for label, found in keys.rows.items() for row in found
    ]
    rows += [(label, None, status, count) for label, lost in keys.lost.items() for status, count in lost.items()]
    columns = [list(column) for column in zip(*rows)] if rows else [[] for _ in _SCHEMA]
    sink = io.BytesIO()
    pq.write_table(pa.table(columns, schema=_SCHEMA), sink)
    write_atomic(folder / PICTURES, sink.getvalue())


class JoinedSets(NamedTuple):
    """What is known of the sets of joined parts.

    Args:
        summaries: the values.
        notices: what is said beside them.
        real: what the header says of the real set.
    """

    summaries: list[Summary]
    notices: list[str]
    real: dict[str, Any] | None


def measure_parts(
    parts: Sequence[SetPart],
    asked: SetAsk,
    reader: FrameReader,
    frames: Sequence[Frame],
    metrics: Sequence[PlannedMetric],
) -> JoinedSets:
    """Values of the metrics of whole sets over all parts, as one process measures them.

    Args:
        parts: in the order of their rows; the numbers of the frames' parts are theirs.
        asked: how.
        reader: reads frames.
        frames: in the order of the input.
        metrics: those of the run.

    Raises:
        InputError: pictures of the real set that no part has, or several have.
        RunConflictError: parts with different real sets.
        StoreError: features that are not there.
    """
    found = of_sets(metrics)
    if not found:
        return JoinedSets([], [], None)
    lacking = [str(part.path) for part in parts if "sets" not in part.shard]
    if lacking:
        raise UserError(
            "parts with metrics of whole sets must say where their features are",
            got=", ".join(lacking),
            fix="Give their commands again with this version of beholder",
        )
    real, keys = _real_of(parts, found)
    first = parts[0].shard["sets"]["spaces"]
    spaces = {label: SetSpaces(*(Space(**space) for space in given)) for label, given in first.items()}
    with closing(PartShelves([_shelf(part) for part in parts])) as shelves:
        values = SetValues(asked, shelves, spaces, real, keys)
        summaries = values.summaries(reader, frames, metrics)
    return JoinedSets(
        summaries, [] if real is None else keys.notices(real.name), describe_real(real, keys.rows)
    )  # fmt: skip


def _shelf(part: SetPart) -> tuple[Path, bool, str]:
    store = part.shard["sets"]["store"]
    return (part.path / "features", True, str(part.path)) if store is None else (Path(store), False, str(part.path))


def _real_of(parts: Sequence[SetPart], metrics: Sequence[PlannedMetric]) -> tuple[Real | None, RealKeys]:
    """The whole real set from the parts' shares."""
    needing = [planned.label for planned in metrics if set_metric(planned).needs_real]
    keys = RealKeys({label: [] for label in needing}, {label: Counter() for label in needing})
    shares = [part.shard["sets"]["real"] for part in parts]
    if not needing or shares[0] is None:
        return None, keys
    _check_shares(parts, shares)
    name, fitted = shares[0]["name"], None
    for at, part in sorted(enumerate(parts), key=lambda item: shares[item[0]]["start"]):
        if shares[at]["start"] == shares[at]["stop"]:
            continue
        if shares[at]["fitted"]:
            fitted = read_fitted(part.path / FITTED).fitted
            continue
        for label, key, status, count in _share_rows(part):
            if key is None:
                keys.lost[label][status] += count
            else:
                keys.rows[label].append(SetRow(key, 0, at))
    return Real(name, fitted=fitted), keys


def _share_rows(part: SetPart) -> list[tuple[str, bytes | None, str, int]]:
    try:
        table = pq.read_table(part.path / PICTURES, schema=_SCHEMA)
    except (OSError, pa.ArrowInvalid) as error:
        raise UserError(
            f"{part.path} must hold its share of the real set", got=str(error), fix="Give its command again"
        ) from error
    return list(zip(*(column.to_pylist() for column in table.columns)))


def _check_shares(parts: Sequence[SetPart], shares: Sequence[Mapping[str, Any]]) -> None:
    """All shares must be of one real set, and give every picture once."""
    for part, share in zip(parts, shares):
        for name, what in (("total", "the number of its pictures"), ("input_sha256", "its content")):
            if share[name] != shares[0][name]:
                raise OptionError(
                    f"parts that are joined must compare with one real set: {what} must be the same",
                    got=f"{shares[0][name]} in {parts[0].path} and {share[name]} in {part.path}",
                    fix="Give the commands of the parts that are behind again",
                )
    faults, reached = [], 0
    for part, share in sorted(zip(parts, shares), key=lambda item: (item[1]["start"], item[1]["stop"])):
        if share["start"] == share["stop"]:
            continue
        if share["start"] > reached:
            faults.append(Fault(_gap(part, reached)))
        elif share["start"] < reached:
            faults.append(Fault(f"the pictures of the real set from {share['start'] + 1} on are in {part.path} too"))
        reached = max(reached, share["stop"])
    if reached < shares[0]["total"]:
        faults.append(Fault(_gap(parts[-1], reached)))
    if faults:
        raise InputError("the set of parts", faults)


def _gap(near: SetPart, picture: int) -> str:
    """Which picture of the real set is missing, and the shard of the same split that has it."""
    count, total = near.shard["count"], near.shard["sets"]["real"]["total"]
    index = next(i for i in range(count) if (i + 1) * total // count > picture)
    return f"no part has the picture {picture + 1} of the real set (run --shard {index}/{count})"
