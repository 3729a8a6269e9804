"""Rows of several sides by the values of their own columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beholder.comparing.sides import Side, texts


def group_rows(sides: Sequence[Side], by: Sequence[str]) -> list[tuple[dict[str, Any], list[np.ndarray]]]:
    """Each combination of values that occurs, with the rows of each side that have it."""
    tables = [pa.table({name: texts(side.table, name) for name in by}) for side in sides]
    seen: dict[tuple[Any, ...], None] = {}
    for table in tables:
        seen.update(dict.fromkeys(zip(*(column.to_pylist() for column in table.columns))))
    groups = sorted(seen, key=lambda group: [(value is None, str(value)) for value in group])
    return [(dict(zip(by, group)), [_rows(table, group) for table in tables]) for group in groups]


def _rows(table: pa.Table, group: Sequence[Any]) -> np.ndarray:
    chosen = np.ones(table.num_rows, dtype=bool)
    for column, value in zip(table.columns, group):
        equal = pc.is_null(column) if value is None else pc.equal(column, value).fill_null(False)
        chosen &= np.asarray(equal, dtype=bool)
    return chosen
