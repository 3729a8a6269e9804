"""The tables that a protocol makes of a finished run: plain data, written to `protocol.json` and read from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from beholder._errors import UnknownNameError, UserError

RESULTS_VERSION = 1
"""Version of `protocol.json`; raised when the meaning of a field changes."""


@dataclass(frozen=True)
class Number:
    """One number of a table.

    Args:
        row: labels of its row, one for each of the table's keys.
        column: its column.
        value: the number, or None with a reason in `note`.
        low: lower end of its confidence interval, or None.
        high: upper end, or None.
        n: what it is the mean of (outputs, questions), or None where that was not published.
        n_units: units that the interval is over.
        unit: what those units are ("prompt", "concept").
        n_missing: outputs without a value, by status.
        aggregate: how it was made ("micro", "macro" …).
        sd: standard deviation over `sd_over`, or None.
        sd_over: what the sd is over ("seed"), or None.
        source: where a published number stands; None for this run's own.
        note: a caveat in plain words, or None.
        partial: True of a total that lacks parts: it has no value, or one that must not stand beside other totals.
    """

    row: tuple[str, ...]
    column: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    n_units: int | None = None
    unit: str | None = None
    n_missing: Mapping[str, int] = field(default_factory=dict)
    aggregate: str = "micro"
    sd: float | None = None
    sd_over: str | None = None
    source: str | None = None
    note: str | None = None
    partial: bool = False

    @property
    def is_published(self) -> bool:
        """True for a number that somebody else published."""
        return self.source is not None


@dataclass(frozen=True)
class ResultTable:
    """A table as data: numbers with their rows and columns.

    Args:
        name: short name, unique in a protocol ("skills").
        title: what it shows, as a sentence without its full stop.
        keys: names of the leading columns that tell rows apart.
        columns: columns of numbers, in their order.
        numbers: the numbers; a row and column without one is an empty cell.
        notes: what has to be known beside it, as sentences.
        show_n: False where the rows' counts stand in another table.
    """

    name: str
    title: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    numbers: tuple[Number, ...]
    notes: tuple[str, ...] = ()
    show_n: bool = True

    def __post_init__(self) -> None:
        for number in self.numbers:
            if len(number.row) != len(self.keys) or number.column not in self.columns:
                raise ValueError(f"table {self.name}: {number.row} / {number.column} has no place in it")

    @property
    def rows(self) -> tuple[tuple[tuple[str, ...], bool], ...]:
        """(labels, whether published) of every row, in the order of the numbers; this run's own rows first."""
        found = dict.fromkeys((number.row, number.is_published) for number in self.numbers)
        return tuple(sorted(found, key=lambda row: row[1]))

    def number(self, *row: str, column: str, published: bool = False) -> Number:
        """The number of a row and column.

        Raises:
            UnknownNameError: there is none.
        """
        for found in self.numbers:
            if found.row == row and found.column == column and found.is_published is published:
                return found
        known = sorted({" / ".join((*item.row, item.column)) for item in self.numbers})
        raise UnknownNameError(f"number of the table {self.name}", " / ".join((*row, column)), known)

    def to_dict(self) -> dict[str, Any]:
        """The table, JSON-ready."""
        return asdict(self)


@dataclass(frozen=True)
class Results:
    """All tables of one protocol over one run.

    Args:
        protocol: the protocol's name.
        version: version of its definition.
        tables: its tables.
        counts: what the data held ("outputs", "concepts", by task …), as it was counted.
        notices: what else to know, as sentences.
    """

    protocol: str
    version: str
    tables: tuple[ResultTable, ...]
    counts: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[str, ...] = ()

    def table(self, name: str) -> ResultTable:
        """The table of a name.

        Raises:
            UnknownNameError: there is none.
        """
        for found in self.tables:
            if found.name == name:
                return found
        raise UnknownNameError("table", name, [found.name for found in self.tables])

    def to_dict(self) -> dict[str, Any]:
        """The results, JSON-ready."""
        return {"schema": RESULTS_VERSION, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Any) -> Results:
        """The results that `to_dict` gave.

        Raises:
            UserError: it is something else, or of a newer version.
        """
        try:
            if data["schema"] > RESULTS_VERSION:
                raise UserError(
                    "a protocol.json must be of a version that is known here", got=f"version {data['schema']}",
                    fix="Update beholder",
                )  # fmt: skip
            tables = tuple(_table(item) for item in data["tables"])
            return cls(data["protocol"], data["version"], tables, data["counts"], tuple(data["notices"]))
        except (KeyError, TypeError, ValueError) as error:
            raise UserError("a protocol.json must hold a protocol's tables", got=repr(error)) from error


def _table(data: Mapping[str, Any]) -> ResultTable:
    numbers = tuple(Number(**{**item, "row": tuple(item["row"])}) for item in data["numbers"])
    lists = {name: tuple(data[name]) for name in ("keys", "columns", "notes")}
    return ResultTable(**{**data, **lists, "numbers": numbers})


def partial_totals(found: Results) -> list[str]:
    """A sentence on each total that lacks parts."""
    return [
        f"{', '.join(number.row)}: {number.column} is not whole ({number.note or 'parts are missing'})."
        for table in found.tables
        for number in table.numbers
        if number.partial and not number.is_published
    ]
