"""What people said: ratings of single outputs, votes between two outputs, or votes between two sets."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from beholder._errors import Fault, InputError, OptionError, UserError
from beholder.comparing.sides import CANDIDATES, texts

Kind = Literal["ratings", "votes", "sets"]

_OTHER_NAMES = {
    "rater": ("annotator", "worker", "user", "rater_id", "annotator_id"),
    "rating": ("score", "value", "human_score"),
    "winner": ("choice", "preferred", "vote"),
    "question": ("aspect", "dimension", "criterion"),
}
_TIES = {"tie", "both", "equal", "same", "draw", "="}
_NEEDED: dict[Kind, tuple[str, ...]] = {
    "sets": ("set_a", "set_b", "winner"),
    "votes": ("a", "b", "winner"),
    "ratings": ("rating",),
}
_ITEM_COLUMNS = (*CANDIDATES, "method")


@dataclass(frozen=True)
class Ratings:
    """What people said about the rows of a run.

    Args:
        kind: "ratings" (a number an output), "votes" (of two outputs) or "sets" (of two sets).
        first: (n,) row of the run that is rated or voted on; for sets the place of the set in `sets`.
        second: (n,) the other one of a vote; the same as `first` for ratings.
        values: (n,) the rating; for votes 1 where the first won, −1 where the second did, 0 for a tie.
        raters: (n,) code of the person.
        questions: (n,) code of the question.
        question_names: names of the questions; (None,) where the file has none.
        groups: (n,) code of the concept that a vote between sets is about, or 0.
        sets: (set, concept or None) of votes between sets.
        source: how the file is called.
    """

    kind: Kind
    first: np.ndarray
    second: np.ndarray
    values: np.ndarray
    raters: np.ndarray
    questions: np.ndarray
    question_names: tuple[str | None, ...]
    groups: np.ndarray
    sets: tuple[tuple[str, str | None], ...]
    source: str

    def of_question(self, code: int) -> Ratings:
        """What was said to one question."""
        keep = self.questions == code
        parts = {
            name: getattr(self, name)[keep] for name in ("first", "second", "values", "raters", "questions", "groups")
        }
        return Ratings(
            self.kind, **parts, question_names=(self.question_names[code],), sets=self.sets, source=self.source
        )


def read_ratings(
    human: Any, table: pa.Table, *, mapping: Mapping[str, str] | None = None, sets: str = "method"
) -> Ratings:
    """Reads and checks what people said; all faults are told at once.

    Args:
        human: path of a CSV, TSV, JSON or JSONL file, a DataFrame, or a list of dicts. Columns: `rating`, or `a`, `b`
            and `winner`, or `set_a`, `set_b` and `winner`; `id`, or columns that name one row of the run; `rater` and
            `question` where there are several.
        table: the rows of the run.
        mapping: own column name → the name above.
        sets: column of the run whose values are the sets.

    Raises:
        UserError: no readable file, or no such columns.
        InputError: rows that name no sample or several, that are no number, that are there twice.
    """
    source, rows = _rows(human)
    rows = [_renamed(row, mapping or {}) for row in rows]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    kind = _kind(columns, source)
    reader = _Reader(kind, source, table, columns, sets)
    for number, row in enumerate(rows, start=1):
        reader.add(number, row)
    return reader.finish()


def _rows(human: Any) -> tuple[str, list[dict[str, Any]]]:
    if hasattr(human, "to_dict") and not isinstance(human, (str, Path)):
        return "the ratings", list(human.to_dict("records"))
    if isinstance(human, (str, Path)):
        try:
            text = Path(human).read_text(encoding="utf-8-sig")
            return str(human), _parsed(text, Path(human).suffix.lower())
        except (OSError, ValueError) as error:
            raise UserError(
                "ratings must be a CSV, TSV, JSON or JSONL file in UTF-8", got=f"{human} ({error})"
            ) from error
    if isinstance(human, Iterable) and not isinstance(human, (bytes, Mapping)):
        rows = list(human)
        if all(isinstance(row, Mapping) for row in rows):
            return "the ratings", [dict(row) for row in rows]
    raise OptionError("ratings must be a file, a DataFrame or a list of dicts", got=type(human).__name__)


def _parsed(text: str, suffix: str) -> list[dict[str, Any]]:
    if suffix == ".json":
        found = json.loads(text)
    elif suffix in (".jsonl", ".ndjson"):
        found = [json.loads(line) for line in text.splitlines() if line.strip()]
    else:
        return [
            dict(row)
            for row in csv.DictReader(io.StringIO(text, newline=""), delimiter="\t" if suffix == ".tsv" else ",")
        ]
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise ValueError("it holds no list of objects")
    return found


def _renamed(row: Mapping[str, Any], mapping: Mapping[str, str]) -> dict[str, Any]:
    known = {other: name for name, others in _OTHER_NAMES.items() for other in others}
    named: dict[str, Any] = {}
    for column, value in row.items():
        plain = str(column).strip()
        name = mapping.get(plain) or known.get(plain.lower(), plain)
        # A column under its own name goes before one that only resembles it.
        if name not in named or plain == name:
            named[name] = value
    return named


def _kind(columns: Sequence[str], source: str) -> Kind:
    for kind, needed in _NEEDED.items():
        if set(needed) <= set(columns):
            return kind
    raise UserError(
        f"{source} must have a column rating, or a, b and winner, or set_a, set_b and winner",
        got=", ".join(columns) or "no rows",
        fix="Name yours with --map COLUMN=NAME (mapping=)",
    )


class _Reader:
    """Takes rows one by one and keeps their faults."""

    def __init__(self, kind: Kind, source: str, table: pa.Table, columns: Sequence[str], sets: str) -> None:
        self._kind, self._source = kind, source
        self._faults: list[Fault] = []
        self._entries: list[tuple[int, int, float, str, str | None, str | None]] = []
        self._seen: dict[tuple[Any, ...], int] = {}
        self._sets: dict[tuple[str, str | None], int] = {}
        self._known_sets = set(texts(table, sets).to_pylist()) if sets in table.column_names else set()
        self._by_concept = kind == "sets" and "concept" in columns
        self._rows: dict[Any, list[int]] = {}
        self._item: tuple[str, ...] = ()
        if kind != "sets":
            self._item = ("id",) if kind == "votes" or "id" in columns else self._shared(table, columns)
            parts = [texts(table, name).to_pylist() for name in self._item]
            for row, key in enumerate(zip(*parts)):
                self._rows.setdefault(key, []).append(row)

    def _shared(self, table: pa.Table, columns: Sequence[str]) -> tuple[str, ...]:
        shared = tuple(name for name in _ITEM_COLUMNS if name in columns and name in table.column_names)
        if not shared:
            raise UserError(
                f"{self._source} must name the run's rows by id, or by columns such as prompt_id, method and seed",
                got=", ".join(columns),
                fix="Add a column id: the ids stand in the run's scores.csv",
            )
        return shared

    def add(self, number: int, row: Mapping[str, Any]) -> None:
        """One row of the file; a faulty one is told of and left out."""
        places = self._places(number, row)
        value = self._value(number, row)
        if places is None or value is None:
            return
        rater, question = _text(row.get("rater")) or "", _text(row.get("question"))
        concept = _text(row.get("concept")) if self._by_concept else None
        first, second = places
        pair = (min(first, second), max(first, second))
        before = self._seen.setdefault((pair, rater, question), number)
        if before != number:
            whose = f"by rater {rater!r}" if rater else "without a rater"
            self._fault(number, f"the same {self._thing} {whose} stands in row {before} already")
            return
        self._entries.append((first, second, value, rater, question, concept))

    @property
    def _thing(self) -> str:
        return "rating" if self._kind == "ratings" else "vote"

    def _places(self, number: int, row: Mapping[str, Any]) -> tuple[int, int] | None:
        if self._kind == "ratings":
            at = self._find(number, row, self._item)
            return None if at is None else (at, at)
        names = ("a", "b") if self._kind == "votes" else ("set_a", "set_b")
        found = [self._find_one(number, row, name) for name in names]
        if found[0] is None or found[1] is None:
            return None
        if found[0] == found[1]:
            self._fault(number, f"{names[0]} and {names[1]} must differ, got {_text(row.get(names[0]))!r} twice")
            return None
        return found[0], found[1]

    def _find_one(self, number: int, row: Mapping[str, Any], name: str) -> int | None:
        if self._kind == "votes":
            return self._find(number, {"id": row.get(name)}, ("id",), where=name)
        text = _text(row.get(name))
        if text not in self._known_sets or text is None:
            self._fault(number, f"no set of the run is called {text!r}", name)
            return None
        concept = _text(row.get("concept")) if self._by_concept else None
        return self._sets.setdefault((text, concept), len(self._sets))

    def _find(
        self, number: int, row: Mapping[str, Any], columns: Sequence[str], where: str | None = None
    ) -> int | None:
        key = tuple(_text(row.get(name)) for name in columns)
        rows = self._rows.get(key, [])
        told = ", ".join(f"{name} {value!r}" for name, value in zip(columns, key))
        if len(rows) == 1:
            return rows[0]
        if rows:
            self._fault(number, f"{told} names {len(rows)} samples of the run; add a column id, method or seed", where)
        else:
            self._fault(number, f"no sample of the run has {told}", where)
        return None

    def _value(self, number: int, row: Mapping[str, Any]) -> float | None:
        if self._kind == "ratings":
            try:
                value = float(row["rating"])
            except (KeyError, TypeError, ValueError):
                value = math.nan
            if not math.isfinite(value):
                self._fault(number, f"a rating must be a finite number, got {row.get('rating')!r}", "rating")
                return None
            return value
        winner = _text(row.get("winner")) or ""
        names = ("a", "b") if self._kind == "votes" else ("set_a", "set_b")
        if winner.lower() in _TIES:
            return 0.0
        for sign, name in zip((1.0, -1.0), names):
            if winner.lower() == name or winner == _text(row.get(name)):
                return sign
        if winner.lower() in ("a", "b"):
            return 1.0 if winner.lower() == "a" else -1.0
        self._fault(number, f"a winner must be a, b, tie or one of the two names, got {winner!r}", "winner")
        return None

    def _fault(self, number: int, message: str, where: str | None = None) -> None:
        self._faults.append(Fault(message, row=number, where=where))

    def finish(self) -> Ratings:
        """Everything that was said, or all faults."""
        if not self._entries and not self._faults:
            self._faults.append(Fault("it has no rows"))
        if self._faults:
            raise InputError(self._source, self._faults)
        first, second, values, raters, questions, concepts = zip(*self._entries)
        names = tuple(dict.fromkeys(questions))
        return Ratings(
            self._kind,
            np.array(first, dtype=np.intp),
            np.array(second, dtype=np.intp),
            np.array(values, dtype=np.float64),
            np.unique(raters, return_inverse=True)[1],
            np.array([names.index(name) for name in questions], dtype=np.intp),
            names,
            np.unique([str(name) for name in concepts], return_inverse=True)[1],
            tuple(self._sets),
            self._source,
        )


def _text(value: Any) -> str | None:
    """A cell as the run's columns have it; None for an empty one."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip() or None
