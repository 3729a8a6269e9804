"""OpenS2V's own files, one a metric: read from a folder, and written into one.

facesim.json          {stem: {"cur_score": …}}          gmescore.json         {stem: {"gme_score": …}}
nexusscore.json       {stem: {"nexus_score": …}}        aesthetic_score.json  {stem: {"aes_score": …}}
motion_amplitude.json {stem: {"motion_fb": …}}          motion_smoothness.json {stem: {"motion_smoothness": …}}
naturalscore_1.json   {stem: "4"}, one a pass

A folder holds the files of one model, or a folder of them for each of several.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import Fault, InputError, UserError
from beholder._file_names import file_name
from beholder.manifest.text_files import load_json
from beholder.protocols.opens2v.board import PARTS, Board, check_total, make_board

FILES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "aes": ("aesthetic_score", ("aes_score",)),
    "smooth": ("motion_smoothness", ("motion_smoothness",)),
    "ampl": ("motion_amplitude", ("motion_fb",)),
    "face": ("facesim", ("cur_score",)),
    "gme": ("gmescore", ("gme_score",)),
    "nexus": ("nexusscore", ("nexus_score", "retrieval_score")),
}
"""Part → name of its file, and the keys under which it has been written."""

_ALSO = {"ampl": ("motionscore",)}
"""Older names of files."""

_NATURAL = re.compile(r"naturalscore_(\d+)")
_SHARD = r"(?:[._-](?:shard|part|rank)?[._-]?\d+)?"


@dataclass
class OfficialFiles:
    """What a folder of official files holds.

    Args:
        values: by part: value by stem. Of natural, the mean of its passes.
        runs: of natural: the marks by stem, None for a mark that is none ("error").
        read: names of the files that were read.
        stray: JSON files that are none of them; OpenS2V's own script reads those, too.
        remarks: what else to know.
        totals: stated totals and parts that a stray file holds, by its name.
    """

    values: dict[str, dict[str, float]] = field(default_factory=dict)
    runs: dict[str, list[float | None]] = field(default_factory=dict)
    read: list[str] = field(default_factory=list)
    stray: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    totals: dict[str, dict[str, float]] = field(default_factory=dict)

    def board(self, *, version: str, track: str) -> Board:
        """The row that these values make."""
        values = {key: list(found.values()) for key, found in self.values.items()}
        return make_board(values, version=version, track=track)

    def check(self, *, version: str, track: str) -> list[str]:
        """What is odd about totals that stand in the folder."""
        found = []
        for name, stated in self.totals.items():
            parts = {key: stated[part.output] for key, part in PARTS.items() if part.output in stated}
            verdict = check_total(parts, stated["total_score"], version=version, track=track)
            if verdict == "swapped":
                found.append(f"{name}: its total fits only with smoothness and amplitude exchanged, as OpenS2V's web "
                             "form writes them")  # fmt: skip
            elif verdict == "differs":
                found.append(f"{name}: its total is not that of its parts on the board v{version} {track}")
        return found


@dataclass(frozen=True)
class OfficialFolder:
    """The official files of one model, or of several.

    Args:
        name: the folder's name.
        models: by model, that is by the folder that they lie in; of one model alone under None.
    """

    name: str
    models: Mapping[str | None, OfficialFiles]

    def of(self, method: str, among: Sequence[str]) -> OfficialFiles | None:
        """The files of a model, one of those that a run has; None where they are of others.

        Files of one model alone are of the run's only one; of several it is the one that the folder is called after.
        """
        alone = self.models.get(None)
        if alone is None:
            return self.models.get(method, self.models.get(file_name(method)))
        return alone if len(among) == 1 or method == self.name or file_name(method) == self.name else None

    def remarks(self, among: Sequence[str]) -> list[str]:
        """What is to be known about them beside a run of these models."""
        told = [
            text if name is None else f"{name}: {text}" for name, own in self.models.items() for text in own.remarks
        ]
        lacking = [method for method in among if self.of(method, among) is None]
        if lacking and None in self.models:
            told.append(f"the official files in {self.name} are of one model, and do not say of which: not used for "
                        f"{', '.join(lacking)}; a folder a model, called like it, tells them apart")  # fmt: skip
        elif lacking:
            told.append(f"the official files in {self.name} have no folder for {', '.join(lacking)}")
        return told


def read_official_folder(folder: str | os.PathLike[str]) -> OfficialFolder:
    """Reads a folder of official files, or one with such a folder for each model (as `--export-official` makes them).

    Raises:
        UserError: no such folder, or none of the files in it.
        InputError: as `read_official`; of all models at once.
    """
    base = Path(folder)
    name = base.resolve().name
    inside = sorted(path for path in base.iterdir() if path.is_dir() and _has_files(path)) if base.is_dir() else []
    if _has_files(base) or not inside:
        alone = read_official(base)
        if inside:
            told = ", ".join(path.name for path in inside)
            alone.remarks.append(f"folders inside it that hold official files too, and were not read: {told}")
        return OfficialFolder(name, {None: alone})
    models: dict[str | None, OfficialFiles] = {}
    faults: list[Fault] = []
    for path in inside:
        try:
            models[path.name] = read_official(path)
        except InputError as error:
            faults += [replace(fault, where=f"{path.name}/{fault.where}") for fault in error.faults]
    if faults:
        raise InputError(os.fspath(folder), faults)
    return OfficialFolder(name, models)


def _has_files(folder: Path) -> bool:
    return any(_kind_of(path.stem) is not None for path in folder.glob("*.json"))


def read_official(folder: str | os.PathLike[str]) -> OfficialFiles:
    """Reads the official files of one model; shards of one metric are joined in any order.

    Raises:
        UserError: no such folder, or none of the files in it.
        InputError: every entry that is not of the published form, and every stem that two shards tell differently.
    """
    base = Path(folder)
    if not base.is_dir():
        raise UserError("official results are a folder of OpenS2V's JSON files", got=os.fspath(folder))
    found = OfficialFiles()
    faults: list[Fault] = []
    passes: dict[int, dict[str, Any]] = {}
    for path in sorted(base.glob("*.json")):
        kind = _kind_of(path.stem)
        content = _load(path, faults) if kind is not None else None
        if kind is None:
            _note_stray(path, found)
        elif content is not None:
            found.read.append(path.name)
            if isinstance(kind, int):
                _join(passes.setdefault(kind, {}), content, path.name, faults)
            else:
                mine = _values(content, FILES[kind][1], path.name, faults)
                _join(found.values.setdefault(kind, {}), mine, path.name, faults)
    if passes:
        _add_natural(passes, found)
    if faults:
        raise InputError(os.fspath(folder), faults)
    if not found.read:
        known = ", ".join(f"{name}.json" for name, _ in FILES.values())
        raise UserError(f"{os.fspath(folder)} must hold OpenS2V's files: {known}, naturalscore_1.json", got="none")
    if found.stray:
        told = ", ".join(found.stray)
        found.remarks.append(f"JSON files that are none of OpenS2V's, and were not read: {told}")
    return found


def official_bytes(
    values: Mapping[str, Mapping[str, float]], runs: Mapping[str, Sequence[float | None]]
) -> dict[str, bytes]:
    """The files by name, for values by part and stem; a stem without a value is left out.

    Args:
        values: of all parts but natural; a part without any value has a file that says so.
        runs: of natural: marks by stem, None for a pass without one ("error", as OpenS2V's script writes).
    """
    made: dict[str, dict[str, Any]] = {}
    for key, (name, keys) in FILES.items():
        if key in values:
            made[name] = {stem: {keys[0]: value} for stem, value in values[key].items()}
    for at in range(max((len(marks) for marks in runs.values()), default=0)):
        marked = {stem: marks[at] for stem, marks in runs.items() if at < len(marks)}
        made[f"naturalscore_{at + 1}"] = {
            stem: "error" if mark is None else _mark_text(mark) for stem, mark in marked.items()
        }
    return {f"{name}.json": json.dumps(content, indent=4).encode() for name, content in made.items()}


def _mark_text(mark: float) -> str:
    """A mark as OpenS2V's judge writes it ("4"), with all its digits where it has more."""
    return f"{mark:g}" if float(f"{mark:g}") == mark else repr(float(mark))


def _kind_of(stem: str) -> str | int | None:
    natural = re.fullmatch(_NATURAL.pattern + _SHARD, stem)
    if natural is not None:
        return int(natural[1])
    for key, (name, _) in FILES.items():
        if any(re.fullmatch(re.escape(known) + _SHARD, stem) for known in (name, *_ALSO.get(key, ()))):
            return key
    return None


def _load(path: Path, faults: list[Fault]) -> dict[str, Any] | None:
    try:
        content = load_json(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        faults.append(Fault(f"{path.name} must be readable JSON: {error}", where=path.name))
        return None
    if not isinstance(content, dict):
        faults.append(Fault(f"{path.name} must hold an object by stem, got {type(content).__name__}", where=path.name))
        return None
    return content


def _values(content: Mapping[str, Any], keys: Sequence[str], name: str, faults: list[Fault]) -> dict[str, float]:
    found = {}
    for stem, entry in content.items():
        known = isinstance(entry, Mapping)
        if known and not any(key in entry for key in keys):
            continue  # of another release of the script: no such number of this video
        value = next(entry[key] for key in keys if key in entry) if known else entry
        number = _number(value)
        if number is None:
            told = "null or NaN" if value is None else repr(value)[:60]
            faults.append(Fault(f"{stem} in {name} must have a number {keys[0]}, got {told}", where=name))
            continue
        found[stem] = number
    return found


def _number(value: Any) -> float | None:
    """A JSON number that a float can hold, or None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _join(known: dict[str, Any], more: Mapping[str, Any], name: str, faults: list[Fault]) -> None:
    for stem, value in more.items():
        if stem in known and known[stem] != value:
            faults.append(Fault(f"{stem} has {known[stem]!r} in one file and {value!r} in {name}", where=name))
        known.setdefault(stem, value)


def _add_natural(passes: Mapping[int, Mapping[str, Any]], found: OfficialFiles) -> None:
    stems = dict.fromkeys(stem for run in sorted(passes) for stem in passes[run])
    lost = 0
    means = {}
    for stem in stems:
        marks = [_mark(passes[run][stem]) for run in sorted(passes) if stem in passes[run]]
        lost += sum(mark is None for mark in marks)
        found.runs[stem] = marks
        kept = [mark for mark in marks if mark is not None]
        if kept:
            means[stem] = float(np.mean(kept))
    found.values["natural"] = means
    if lost:
        found.remarks.append(f'{lost} marks of NaturalScore are none (as "error"): left out of their videos\' means')


def _mark(value: Any) -> float | None:
    """A pass's mark: a number, or a text that is one and nothing else."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and not isinstance(value, bool) else None


def _note_stray(path: Path, found: OfficialFiles) -> None:
    found.stray.append(path.name)
    try:
        content = load_json(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return
    if isinstance(content, Mapping) and _number(content.get("total_score")) is not None:
        told = {key: _number(value) for key, value in content.items()}
        found.totals[path.name] = {key: value for key, value in told.items() if value is not None}
