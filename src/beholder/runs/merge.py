"""Joins the parts of a sharded run: checks that they are of one run and have every row once, then writes its tables."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from beholder._errors import Fault, InputError, RunConflictError, UserError
from beholder._identity import parse_spec
from beholder.metrics.base import SampleMetric, make_metric
from beholder.runs.closing import write_results
from beholder.runs.columns import text_hashes
from beholder.runs.config import IDENTITY_FIELDS
from beholder.runs.folder import RunFolder, differences, read_header
from beholder.runs.inputs import group_columns, places_from
from beholder.runs.journal import Frame, Journal
from beholder.runs.plan import PlannedMetric, of_sets
from beholder.runs.progress import NoProgress, Progress
from beholder.runs.results import Run
from beholder.runs.set_parts import JoinedSets, SetPart, measure_parts
from beholder.runs.set_values import SetAsk
from beholder.runs.shards import PARTS
from beholder.runs.store import FeatureStore

_SHOWN = 5


@dataclass(frozen=True)
class Part:
    """One part: its folder, its header, and the rows that it has."""

    path: Path
    header: Mapping[str, Any]

    @property
    def start(self) -> int:
        return int(self.header["shard"]["start"])

    @property
    def stop(self) -> int:
        return int(self.header["shard"]["stop"])

    @property
    def finished(self) -> bool:
        return self.header["status"] == "part" and self.header["shard"]["frames"] is not None


class PartsReader:
    """Reads frames of several parts; one journal is open at a time, since there may be thousands."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._open: tuple[int, Journal] | None = None

    def journal(self, part: int) -> Journal:
        if self._open is None or self._open[0] != part:
            self.close()
            self._open = part, Journal(self._parts[part].path / "journal.bin", write=False)
        return self._open[1]

    def read(self, frame: Frame) -> pa.Table:
        return self.journal(frame.part).read(frame)

    def close(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None


def merge(
    folders: str | Path | Sequence[str | Path],
    *,
    out: str | Path | None = None,
    store: str | Path | None = None,
    overwrite: bool = False,
    metrics: Mapping[str, SampleMetric] | None = None,
    progress: Progress | None = None,
) -> Run:
    """Joins the parts of a sharded run into one; the call behind `beholder merge`.

    Nothing is encoded or scored again; metrics of whole sets are measured here, over all rows.

    Args:
        folders: the run folder whose `parts` are joined, or the folders of the parts wherever they lie; several mix.
        out: run folder of the whole; the one that the parts lie in when None.
        store: feature store that takes over the parts' features (linked where they lie on one disk, else copied).
        overwrite: replace a run of another identity in `out`.
        metrics: by label: metric objects that no registry knows.
        progress: who is told.

    Returns:
        The whole run: row by row what one process would have made.

    Raises:
        RunConflictError: parts of different runs.
        InputError: rows that no part has, or that several have; parts that are not finished; every fault is named.
    """
    paths = [folders] if isinstance(folders, (str, Path)) else list(folders)
    parts = find_parts([Path(path) for path in paths])
    _check_identity(parts)
    _check_rows(parts)
    progress = progress or NoProgress()
    progress.stage(f"joining {len(parts)} parts", None)
    where = Path(out) if out is not None else _common_out(parts)
    reader = PartsReader(parts)
    try:
        frames = _frames(parts, reader)
        _check_ids(parts, reader, frames)
        header = _joined_header(parts, where)
        folder = RunFolder(where, header, overwrite=overwrite)
        try:
            planned = _metrics(header, metrics or {})
            by = group_columns(header["asked"]["by"])
            sets = _sets(parts, header, reader, frames, planned, progress)
            if sets.real is not None:
                folder.header["real"] = sets.real
            notices = [*_notices(parts), *sets.notices]
            run = write_results(folder, reader, frames, planned, by=by, notices=notices, sets=sets.summaries)
        finally:
            folder.release()
    finally:
        reader.close()
    if store is not None:
        _take_over(parts, Path(store))
    return run


def find_parts(folders: Sequence[Path]) -> list[Part]:
    """The parts in or at some folders, by their first row.

    Raises:
        UserError: a folder that is no part and holds none.
    """
    found: dict[Path, Part] = {}
    for folder in folders:
        header = read_header(folder)
        inside = sorted((folder / PARTS).glob("*-of-*")) if header is None or "shard" not in header else [folder]
        for path in inside:
            mine = read_header(path)
            if mine is None or "shard" not in mine:
                raise UserError(
                    "a part is a folder that `beholder run --shard` made", got=f"{path}, without its header"
                )
            found[path.resolve()] = Part(path, mine)
        if not inside:
            raise UserError(
                f"{folder} must be a part or hold parts in {PARTS}/",
                got="none",
                fix="Make them: beholder run … --shard i/N",
            )
    return sorted(found.values(), key=lambda part: (part.start, part.stop, str(part.path)))


def _check_identity(parts: Sequence[Part]) -> None:
    """All parts must be of one run: one plan, one input, one way to summarise."""
    first = parts[0]
    for part in parts[1:]:
        told = differences(first.header, part.header) if first.header["plan_key"] != part.header["plan_key"] else []
        for name in IDENTITY_FIELDS:
            one, other = first.header["asked"].get(name), part.header["asked"].get(name)
            if not told and one != other:
                told.append(f"{name} ({one} against {other})")
        for name, what in (("total", "the number of rows of the input"), ("input_sha256", "the content of the input")):
            one, other = first.header["shard"][name], part.header["shard"][name]
            if not told and one != other:
                told.append(f"{what} ({one} against {other})")
        if told:
            raise RunConflictError(
                "parts that are joined must be of one run",
                got=f"{first.path} and {part.path}, which differ in {', '.join(told)}",
                fix="Run again the parts that are behind, or name only the parts that belong together",
            )


def _check_rows(parts: Sequence[Part]) -> None:
    """Every row in one part: finds what is not finished, gaps and overlaps, all at once."""
    faults = [
        Fault(f"{part.path} is not finished ({part.header['status']}); {_until(part)}")
        for part in parts
        if not part.finished
    ]
    total, reached = int(parts[0].header["shard"]["total"]), 0
    before: Part | None = None
    for part in parts:
        if part.start == part.stop:
            continue
        if part.start > reached:
            faults.append(Fault(f"no part has {_rows(reached, part.start)}{_missing(part, reached, part.start)}"))
        elif part.start < reached and before is not None:
            both = _rows(part.start, min(reached, part.stop))
            faults.append(Fault(f"{both} are in {before.path} and in {part.path}; name or keep one of them"))
        if part.stop > reached:
            before, reached = part, part.stop
    if reached < total:
        faults.append(Fault(f"no part has {_rows(reached, total)}{_missing(parts[-1], reached, total)}"))
    if faults:
        raise InputError("the set of parts", faults)


def _until(part: Part) -> str:
    """What has to happen before a part can be joined; whether one on another machine runs still is not known here."""
    again = "give its command again"
    return f"wait for it, or {again} if it was killed" if part.header["status"] == "running" else again


def _rows(start: int, stop: int) -> str:
    return f"the row {stop}" if stop - start == 1 else f"the rows {start + 1} to {stop}"


def _missing(near: Part, start: int, stop: int) -> str:
    """Which shards of the same split have rows from `start` to before `stop`."""
    count, total = near.header["shard"]["count"], near.header["shard"]["total"]
    lost = [i for i in range(count) if i * total // count < stop and (i + 1) * total // count > start]
    return f" (run {', '.join(f'--shard {index}/{count}' for index in lost)})"


def _frames(parts: Sequence[Part], reader: PartsReader) -> list[Frame]:
    """All frames in the order of the input."""
    frames: list[Frame] = []
    faults = []
    for at, part in enumerate(parts):
        try:
            journal = reader.journal(at)
        except OSError as error:
            faults.append(Fault(f"{part.path / 'journal.bin'} cannot be read: {error.strerror or error}"))
            continue
        found = [journal.find(key) for key in part.header["shard"]["frames"]]
        mine = [replace(frame, part=at) for frame in found if frame is not None]
        rows = sum(frame.header["rows"] for frame in mine)
        if len(mine) < len(found) or rows != part.stop - part.start:
            lost = f"{rows} of {part.stop - part.start} rows can be read"
            faults.append(Fault(f"the journal of {part.path} is damaged: {lost}; give its command again"))
        frames += mine
    if faults:
        raise InputError("the set of parts", faults)
    return frames


def _check_ids(parts: Sequence[Part], reader: PartsReader, frames: Sequence[Frame]) -> None:
    """No id twice: the input may have changed between two parts without changing its number of rows."""
    hashes = np.concatenate([text_hashes(_ids(reader, frame)) for frame in frames])
    hashes.sort()
    twice = set(hashes[1:][hashes[1:] == hashes[:-1]].tolist())
    if not twice:
        return
    places: dict[str, list[int]] = {}
    for frame in frames:
        for name in _ids(reader, frame).to_pylist():
            if hash(name) in twice:
                places.setdefault(name, []).append(frame.part)
    doubled = [(name, found) for name, found in places.items() if len(found) > 1]
    faults = [
        Fault(f"the id {name!r} is in {' and in '.join(str(parts[at].path) for at in found)}")
        for name, found in itertools.islice(doubled, _SHOWN)
    ]
    if len(doubled) > _SHOWN:
        faults.append(Fault(f"and {len(doubled) - _SHOWN} more ids stand twice"))
    if faults:
        raise InputError("the set of parts", faults)


def _ids(reader: PartsReader, frame: Frame) -> pa.Array:
    return reader.read(frame).column("id").combine_chunks()


def _common_out(parts: Sequence[Part]) -> Path:
    wholes = {part.path.parent.parent for part in parts if part.path.absolute().parent.name == PARTS}
    if len(wholes) != 1 or any(part.path.absolute().parent.name != PARTS for part in parts):
        raise UserError("parts of several places need a folder for the whole", fix="Name it with -o")
    return wholes.pop()


def _joined_header(parts: Sequence[Part], out: Path) -> dict[str, Any]:
    header = copy.deepcopy(dict(parts[0].header))
    del header["shard"]
    header.pop("real", None)  # of a part: its share
    header["status"], header["finished"] = "running", None
    header["started"] = min(part.header["started"] for part in parts)
    header["asked"] = {**header["asked"], "shard": None, "out": str(out)}
    header["input"] = header["input"] and places_from(header["input"]["absolute"], out)
    for key, model in header["models"].items():
        ran = [part.header["models"][key].get("ran") for part in parts]
        model["ran"] = next((item for item in ran if item is not None), None)
    header["parts"] = [
        {
            **{name: part.header["shard"][name] for name in ("index", "count", "start", "stop")},
            "path": _path_from(part.path, out),
            "started": part.header["started"],
            "finished": part.header["finished"],
            "versions": part.header["versions"],
            "ran": {key: model.get("ran") for key, model in part.header["models"].items()},
        }
        for part in parts
    ]
    return header


def _path_from(part: Path, out: Path) -> str:
    """Where a part lies: as seen from the run folder where it lies in it, else from the root."""
    one, whole = part.absolute(), out.absolute()
    return str(one.relative_to(whole)) if one.is_relative_to(whole) else str(one)


def _notices(parts: Sequence[Part]) -> list[str]:
    lines = list(dict.fromkeys(text for part in parts for text in part.header["notices"]))
    names = dict.fromkeys(name for part in parts for name in part.header["versions"])
    for name in names:
        found = sorted({str(part.header["versions"].get(name)) for part in parts})
        if len(found) > 1:
            lines.append(f"the parts were made with different versions of {name}: {', '.join(found)}")
    return lines


def _metrics(header: Mapping[str, Any], own: Mapping[str, SampleMetric]) -> list[PlannedMetric]:
    """The metrics without their models: nothing is encoded here."""
    return [
        PlannedMetric(own.get(item["label"]) or make_metric(parse_spec(item["identity"])), item["label"], ())
        for item in header["metrics"]
    ]


def _sets(
    parts: Sequence[Part],
    header: Mapping[str, Any],
    reader: PartsReader,
    frames: Sequence[Frame],
    planned: Sequence[PlannedMetric],
    progress: Progress,
) -> JoinedSets:
    """Values of the metrics of whole sets."""
    if of_sets(planned):
        progress.stage("measuring sets", None)
    return measure_parts(
        [SetPart(part.path, part.header["shard"]) for part in parts],
        SetAsk.of(header["asked"]),
        reader,
        frames,
        planned,
    )


def measure_joined(run: Path, header: Mapping[str, Any], metrics: Sequence[PlannedMetric], asked: SetAsk) -> JoinedSets:
    """Measures the sets of a run that was joined, from its parts, in another way than then.

    Args:
        run: the run folder.
        header: its header.
        metrics: its set metrics.
        asked: how.

    Raises:
        UserError: the parts are no longer there, or no longer those that were joined.
    """
    parts = find_parts([run / part.get("path", "?") for part in header["parts"]])
    _check_identity(parts)
    _check_rows(parts)
    if parts[0].header["plan_key"] != header["plan_key"]:
        raise UserError("the parts must be those that were joined", got="parts of another run")
    with closing(PartsReader(parts)) as reader:
        frames = _frames(parts, reader)
        return measure_parts(
            [SetPart(part.path, part.header["shard"]) for part in parts], asked, reader, frames, metrics
        )


def _take_over(parts: Sequence[Part], store: Path) -> None:
    whole = FeatureStore(store)
    try:
        for part in parts:
            if (part.path / "features" / "index.sqlite").exists():
                whole.take_over(part.path / "features")
    finally:
        whole.close()
