"""One metric's rows as columns of numbers, and those of them that a summary is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from beholder._errors import OptionError, UnknownNameError

Rows = Union[np.ndarray, slice]
"""Row numbers in their order, or all rows: columns of all rows are not copied."""

ALL = slice(None)
"""All rows."""


@dataclass(frozen=True)
class ValueTable:
    """One metric's rows, in the order of their values.

    Args:
        values: (n,) float64, finite; 0 where the status is not ok.
        status: (n,) codes of `statuses`; 0 is ok.
        statuses: names of the statuses.
        units: (n,) codes of the sampled units, 0 or more.
        unit: what a unit is, "prompt" or "sample".
        concepts: (n,) codes, −1 for none.
        groups: column → ((n,) codes, −1 for none; labels).
        weights: (n,) pairs behind each value, or None.
    """

    values: np.ndarray
    status: np.ndarray
    statuses: Sequence[str]
    units: np.ndarray
    unit: str
    concepts: np.ndarray
    groups: Mapping[str, tuple[np.ndarray, Sequence[Any]]]
    weights: np.ndarray | None

    @classmethod
    def make(
        cls,
        values: np.ndarray,
        status_codes: np.ndarray,
        statuses: Sequence[str],
        units: np.ndarray | None,
        concepts: np.ndarray | None,
        groups: Mapping[str, tuple[np.ndarray, Sequence[Any]]],
        weights: np.ndarray | None,
    ) -> ValueTable:
        """The rows put in order; arguments and errors as those of `aggregate.summarise`."""
        status = _integers(status_codes)
        n = len(status)
        none = np.full(n, -1, dtype=np.int8)
        scores = np.asarray(values, dtype=np.float64)
        unit_codes = none if units is None else _integers(units)
        concept_codes = none if concepts is None else _integers(concepts)
        pairs = None if weights is None else np.asarray(weights, dtype=np.float64)
        columns = [scores, unit_codes, concept_codes, *(codes for codes, _ in groups.values())]
        if any(len(column) != n for column in columns) or (pairs is not None and len(pairs) != n):
            raise OptionError("all columns must have one length", got=f"{[len(column) for column in columns]}")
        ok = status == 0
        scores = scores if ok.all() else np.where(ok, scores, 0.0)
        if not np.isfinite(scores).all():
            raise ValueError(f"{int((~np.isfinite(scores)).sum())} rows of status ok have a value that is not finite")
        if pairs is not None:
            pairs = np.where(ok, pairs, 0.0)
        order = np.lexsort((scores,) if pairs is None else (pairs, scores))
        own = unit_codes < 0
        if own.any():
            unit_codes = np.where(own, np.cumsum(own) + unit_codes.max(initial=-1), unit_codes)
        return cls(
            values=scores[order],
            status=status[order],
            statuses=statuses,
            units=unit_codes[order],
            unit="sample" if own.all() else "prompt",
            concepts=concept_codes[order],
            groups={name: (_integers(codes)[order], labels) for name, (codes, labels) in groups.items()},
            weights=None if pairs is None else pairs[order],
        )

    def split(self, columns: Sequence[str]) -> list[tuple[dict[str, Any], np.ndarray]]:
        """The rows of each combination of labels that occurs, in the order of the labels."""
        code = np.zeros(len(self.values), dtype=np.intp)
        for at, column in enumerate(columns):
            if column not in self.groups:
                raise UnknownNameError("column to group by", column, self.groups)
            if at:  # numbered anew, so that no product of many columns leaves the range
                code = np.unique(code, return_inverse=True)[1]
            own = self.groups[column][0].astype(np.intp) + 1
            code = code * (own.max(initial=0) + 1) + own
            del own
        order = np.argsort(code, kind="stable")
        starts = np.flatnonzero(np.diff(code[order], prepend=-1))
        parts = np.split(order, starts[1:]) if len(order) else []
        found = [({column: self.label(column, int(rows[0])) for column in columns}, rows) for rows in parts]
        return sorted(found, key=lambda part: [_sort_key(label) for label in part[0].values()])

    def scored(self, rows: Rows) -> Rows:
        """Those of the rows that have a value."""
        return self.kept(rows, self.status[rows] == 0)

    def kept(self, rows: Rows, mask: np.ndarray) -> Rows:
        """Those of the rows that a mask over them keeps."""
        if mask.all():
            return rows
        return rows[mask] if isinstance(rows, np.ndarray) else np.flatnonzero(mask)

    def count(self, rows: Rows) -> int:
        """How many rows they are."""
        return len(self.status[rows])

    def missing(self, rows: Rows) -> dict[str, int]:
        """Rows without a value, by status."""
        counts = np.bincount(self.status[rows], minlength=len(self.statuses))
        return {str(self.statuses[int(code)]): int(counts[code]) for code in np.flatnonzero(counts) if code != 0}

    def label(self, column: str, row: int) -> Any:
        """The label of a row in a column; None where it has none."""
        codes, labels = self.groups[column]
        return labels[int(codes[row])] if codes[row] >= 0 else None


def _integers(codes: Any) -> np.ndarray:
    """Codes as an array of signed integers, of the size that they have."""
    found = np.asarray(codes)
    return found if found.dtype.kind == "i" else found.astype(np.intp)


def _sort_key(label: Any) -> tuple[int, float, str]:
    """Numbers in their order, then text, then rows without a label."""
    if label is None:
        return (2, 0.0, "")
    if isinstance(label, (int, float)):
        return (0, float(label), "")
    return (1, 0.0, str(label))
