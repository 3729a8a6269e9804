"""The tables of OpenS2V: the board's row of each model, its sub-tracks, the companions, and why a video counts 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from beholder.protocols.base import Finished
from beholder.protocols.opens2v.board import PARTS, Board, cut, cut_in_place, make_board, scaled, weights
from beholder.protocols.opens2v.columns import PartColumn, missing_of
from beholder.protocols.opens2v.data import SUBTRACKS, subtrack_of
from beholder.protocols.opens2v.official import OfficialFiles, OfficialFolder
from beholder.protocols.opens2v.published import SOURCE, published
from beholder.protocols.results import Number, ResultTable
from beholder.stats.bootstrap import mean_interval
from beholder.stats.mean_sums import mean_sum_interval

NO_MODEL = "(all videos)"
COMPANIONS = (
    ("face", "FaceSim mean_all", "mean_all"),
    ("face", "FaceSim detection_rate", "detection_rate"),
    ("gme", "GmeScore std over frames", "std"),
    ("nexus", "Nexus mean similarity", "mean_similarity"),
    ("nexus", "Nexus coverage", "coverage"),
    ("nexus", "Nexus corrected", "nexus_corrected"),
    ("ampl", "Motion magnitude", "motion_magnitude"),
    ("smooth", "Largest jump", "largest_jump"),
    ("natural", "Natural std over passes", "std"),
)
"""(part, column, field of the evidence): what the official values hide."""


def total_title(version: str, track: str) -> str:
    """The total's column: totals of two boards or tracks are not comparable, so both stand in it."""
    return f"Total v{version} {track}"


class Rows:
    """A run's rows by model, with the board's columns.

    Args:
        finished: the run.
        columns: the parts that were scored.
        official: official files that stand in for parts that were not, by model; None for none.
        version: the board.
        track: the track.
    """

    def __init__(
        self,
        finished: Finished,
        columns: Mapping[str, PartColumn],
        official: OfficialFolder | None,
        *,
        version: str,
        track: str,
    ) -> None:
        self.finished, self.columns, self.official = finished, columns, official
        self.version, self.track = version, track
        self.methods = finished.values_of("method", none=NO_MODEL)
        self.tasks = finished.values_of("task", none="")
        self.stems = finished.values_of("stem", none="")

    @property
    def names(self) -> list[str]:
        """The models."""
        return list(dict.fromkeys(self.methods))

    def of(self, method: str, task: str | None = None) -> np.ndarray:
        """Numbers of a model's rows, of one sub-track where it is named."""
        same = [at for at, name in enumerate(self.methods) if name == method]
        return np.array([at for at in same if task in (None, self.tasks[at])], dtype=np.intp)

    def values(self, key: str, rows: np.ndarray) -> tuple[np.ndarray, str | None]:
        """A part's official values of some rows, and where they come from when not from this run."""
        found, source = self.by_video(key, rows)
        return found[np.isfinite(found)], source

    def by_video(self, key: str, rows: np.ndarray) -> tuple[np.ndarray, str | None]:
        """As `values`, a value a row; NaN where there is none."""
        column = self.columns.get(key)
        own = column.values[rows] if column is not None else np.full(len(rows), np.nan)
        files = self.files(self.methods[rows[0]]) if len(rows) else None
        if np.isfinite(own).any() or files is None or key not in files.values:
            return np.where(np.isfinite(own), own, np.nan), None
        known = files.values[key]
        return np.array([known.get(self.stems[row], np.nan) for row in rows], dtype=np.float64), "official file"

    def files(self, method: str) -> OfficialFiles | None:
        """The official files of a model."""
        return None if self.official is None else self.official.of(method, self.names)

    def official_remarks(self) -> list[str]:
        """What is to be known about the official files, beside this run's rows."""
        if self.official is None:
            return []
        told = self.official.remarks(self.names)
        for method in self.names:
            files = self.files(method)
            if files is None:
                continue
            stems = {self.stems[row] for row in self.of(method)}
            strange = sorted({stem for found in files.values.values() for stem in found} - stems)
            if strange:
                more = f" and {len(strange) - 5} more" if len(strange) > 5 else ""
                told.append(f"{method}: official files tell of videos that the data does not have, and that do not "
                            f"count: {', '.join(strange[:5])}{more}")  # fmt: skip
            told += files.check(version=self.version, track=self.track)
        return told

    def board(self, rows: np.ndarray) -> Board:
        """The board's row of some rows."""
        values = {key: self.values(key, rows)[0] for key in weights(self.version, self.track)}
        return make_board(
            {key: found.tolist() for key, found in values.items()}, version=self.version, track=self.track
        )


def board_table(rows: Rows, *, renormalised: bool) -> ResultTable:
    """A row a model: total and parts in percent, beside the published rows of the same board."""
    own = weights(rows.version, rows.track)
    total = total_title(rows.version, rows.track)
    columns = [total, *(PARTS[key].title for key in own)]
    numbers: list[Number] = []
    extra = []
    for method in rows.names:
        chosen = rows.of(method)
        board = rows.board(chosen)
        whole = _sum(rows, board, chosen)
        numbers.append(_total(board, (method,), total, whole))
        if board.missing:
            extra.append((method, board, whole))
        numbers += [_part(rows, key, chosen, (method,)) for key in own]
    if extra:
        columns.append("Partial sum")
        for name, board, whole in extra:
            facts = {**whole, "note": _joined(_partial_note(board), whole["note"])}
            numbers.append(Number((name,), "Partial sum", 100 * board.partial, **facts))
    if renormalised and extra:
        title = "Renormalised (no number of the board)"
        columns.append(title)
        for name, board, whole in extra:
            value = None if board.renormalised is None else 100 * board.renormalised
            ends = {end: None if whole[end] is None else whole[end] / board.share for end in ("low", "high")}
            numbers.append(Number((name,), title, value, **{**whole, **ends}))
    for model, parts in published(rows.version, rows.track).items():
        titles = {"total": total, **{key: PARTS[key].title for key in own}}
        numbers += [Number((model,), titles[key], value, source=SOURCE) for key, value in parts.items()]
    return ResultTable(
        "board", f"OpenS2V, board v{rows.version}, track {rows.track}, in percent", ("model",), tuple(columns),
        tuple(numbers), notes=board_notes(rows),
    )  # fmt: skip


def board_notes(rows: Rows) -> tuple[str, ...]:
    """What has to be known beside the board."""
    own = weights(rows.version, rows.track)
    notes = ["Weights: " + ", ".join(f"{PARTS[key].title} {weight:g}" for key, weight in own.items()) + "."]
    foreign = [column.identity for key, column in rows.columns.items() if column.identity != _default(key)]
    if foreign:
        notes.append(f"Not OpenS2V's own settings, so not its numbers: {', '.join(foreign)}.")
    return (*notes, *(f"{text}." for text in rows.official_remarks()))


DEFAULTS = {
    "aes": "laion_aesthetic(frames=uniform:32)",
    "face": "facesim_cur(references=opens2v)",
}


def _default(key: str) -> str:
    return DEFAULTS.get(key, PARTS[key].metric)


def _total(board: Board, row: tuple[str, ...], title: str, whole: Mapping[str, Any]) -> Number:
    if board.total is not None:
        return Number(row, title, 100 * board.total, **whole)
    told = ", ".join(PARTS[key].title for key in board.missing)
    return Number(row, title, None, note=f"no total: {told} without any value", partial=True)


def _sum(rows: Rows, board: Board, chosen: np.ndarray) -> dict[str, Any]:
    """What is to be told of the weighted sum over the parts that are there: its interval over videos, in percent, and
    its counts. Videos are drawn whole, with all of their parts; the mean of each part is over those that have it."""
    own = weights(rows.version, rows.track)
    keys = [key for key in own if board.parts[key] is not None]
    if not keys:
        return {"low": None, "high": None, "note": None}
    cuts = [cut_in_place(PARTS[key], rows.by_video(key, chosen)[0]) for key in keys]
    values = np.column_stack([100 * np.asarray(scaled(PARTS[key], found)) for key, found in zip(keys, cuts)])
    there = np.isfinite(values).any(axis=1)
    first = next((rows.columns[key] for key in own if key in rows.columns), None)
    missing = {} if first is None else dict(Counter(first.statuses[row] for row in chosen[~there]))
    spread = mean_sum_interval(
        values[there], [own[key] for key in keys], unit="video", seed=rows.finished.seed,
        resamples=rows.finished.resamples, level=rows.finished.level,
    )  # fmt: skip
    return {"low": spread.low, "high": spread.high, "n": int(there.sum()), "n_units": spread.n_units, "unit": "video",
            "n_missing": missing, "aggregate": "official", "note": spread.note}  # fmt: skip


def _joined(*notes: str | None) -> str | None:
    """The notes that there are, as one."""
    return "; ".join(note for note in notes if note) or None


def _partial_note(board: Board) -> str:
    told = ", ".join(PARTS[key].title for key in board.missing)
    return f"partial: without {told}; weight that is there {board.share:g}"


def _part(rows: Rows, key: str, chosen: np.ndarray, row: tuple[str, ...]) -> Number:
    """A part in percent, with its interval over videos."""
    part = PARTS[key]
    values, source = rows.values(key, chosen)
    kept = cut(part, values)
    column = rows.columns.get(key)
    missing = missing_of(column, chosen) if column is not None and source is None else {}
    facts: dict[str, Any] = {"n": len(kept), "n_missing": missing, "aggregate": "official", "unit": "video"}
    if not len(kept):
        why = "not scored" if column is None else "no video has a value"
        return Number(row, part.title, None, note=why, **{**facts, "n_missing": {}})
    percent = 100 * np.asarray(scaled(part, kept))
    spread = mean_interval(
        percent, np.ones(len(percent)), unit="video", seed=rows.finished.seed, resamples=rows.finished.resamples,
        level=rows.finished.level,
    )  # fmt: skip
    note = f"from an {source}" if source else None
    return Number(
        row, part.title, float(percent.mean()), spread.low, spread.high, n_units=len(kept), note=note, **facts
    )


def subtrack_table(rows: Rows) -> ResultTable:
    """A row a model and sub-track: parts in percent."""
    own = weights(rows.version, rows.track)
    there = [task for task in SUBTRACKS if task in rows.tasks]
    there += [task for task in dict.fromkeys(rows.tasks) if task not in there and task]
    numbers = [
        _part(rows, key, rows.of(method, task), (method, task))
        for method in rows.names
        for task in there
        if len(rows.of(method, task))
        for key in own
    ]
    return ResultTable(
        "subtracks", f"By sub-track, board v{rows.version}, track {rows.track}, in percent", ("model", "sub-track"),
        tuple(PARTS[key].title for key in own), tuple(numbers),
        notes=("Parts are cut and brought to 0..100 as on the board; there is no total of a sub-track.",),
    )  # fmt: skip


def _companion(rows: Rows, key: str, chosen: np.ndarray, row: tuple[str, ...], title: str, name: str) -> Number:
    """The mean over videos of a field of the evidence, with its interval; videos without the field by their status."""
    column = rows.columns[key]
    told, missing = [], dict[str, int]()
    for at in chosen:
        value = (column.evidence[at] or {}).get(name)
        if isinstance(value, (int, float)):
            told.append(float(value))
        else:
            # A video may have the official value and lack this one.
            status = column.statuses[at] if column.statuses[at] != "ok" else "not_applicable"
            missing[status] = missing.get(status, 0) + 1
    facts: dict[str, Any] = {"n": len(told), "n_missing": missing, "unit": "video"}
    if not told:
        return Number(row, title, None, note="no video has it", **facts)
    spread = mean_interval(
        told, np.ones(len(told)), unit="video", seed=rows.finished.seed, resamples=rows.finished.resamples,
        level=rows.finished.level,
    )  # fmt: skip
    return Number(row, title, float(np.mean(told)), spread.low, spread.high, n_units=len(told), **facts)


def companion_table(rows: Rows) -> ResultTable:
    """A row a model: means of what the official values hide; never part of a total."""
    numbers = []
    columns = [title for key, title, _ in COMPANIONS if key in rows.columns]
    for method in rows.names:
        chosen = rows.of(method)
        for key, title, name in COMPANIONS:
            if key not in rows.columns:
                continue
            numbers.append(_companion(rows, key, chosen, (method,), title, name))
    return ResultTable(
        "companions", "Beside the official values: means over videos", ("model",), tuple(columns), tuple(numbers),
        notes=("None of these takes part in a total.",),
    )  # fmt: skip


def why_table(rows: Rows) -> ResultTable:
    """A row for each video and part that counts 0, or does not count: status and reason."""
    numbers = []
    for key in weights(rows.version, rows.track):
        column = rows.columns.get(key)
        if column is None:
            continue
        for row, status in enumerate(column.statuses):
            value = column.values[row]
            counted = np.isfinite(value) and not (PARTS[key].drop_zeros and value == 0)
            worth = float(np.asarray(scaled(PARTS[key], cut(PARTS[key], [value])))[0]) if counted else None
            if status == "ok" and worth is not None and worth > 0:
                continue
            why = column.reason(row) or ("its value is at the lower bound" if worth == 0 else "")
            name = rows.stems[row] or str(rows.finished.column("id")[row])
            place = (rows.methods[row], name, PARTS[key].title, status)
            numbers.append(Number(place, "part", None if worth is None else 100 * worth, note=why or "no reason given"))
    return ResultTable(
        "why", "Why a video counts 0, or not at all", ("model", "video", "metric", "status"), ("part",), tuple(numbers),
        notes=("A dash: the video is left out of the mean, as OpenS2V leaves it out.",), show_n=False,
    )  # fmt: skip


def official_tables(
    files: OfficialFolder, *, version: str, track: str, renormalised: bool, seed: int, resamples: int, level: float
) -> Iterator[ResultTable]:
    """The board of a folder of official files alone, and its sub-tracks; the last three are those of the intervals."""
    stems: list[str] = []
    methods: list[str] = []
    for model, own in files.models.items():
        mine = list(dict.fromkeys(stem for found in own.values.values() for stem in found))
        stems += mine
        methods += [model or files.name] * len(mine)
    columns = {"id": stems, "stem": stems, "method": methods, "task": [subtrack_of(stem) for stem in stems]}
    finished = Finished(len(stems), columns, (), seed=seed, resamples=resamples, level=level)
    rows = Rows(finished, {}, files, version=version, track=track)
    yield board_table(rows, renormalised=renormalised)
    yield subtrack_table(rows)
