"""What intervals are made over: rows of one prompt are one unit, told by its id or else by its text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from beholder.runs.summarising import summarise_table


def units_of(columns: dict[str, list[Any]]) -> int:
    rows = len(next(iter(columns.values())))
    table = pa.table({**columns, "m": [float(at) for at in range(rows)], "m_status": ["ok"] * rows})
    found = summarise_table(table, [("m", "m")], {"m": float})
    return next(row.n_units for row in found if row.aggregate == "micro" and not row.group)


IDS = ["a", "a", "b", "b", None, None]
TEXTS = ["one", "one", "two", "two", "three", "three"]


@pytest.mark.parametrize(
    ("columns", "units"),
    [
        ({"prompt": TEXTS}, 3),
        ({"prompt": TEXTS, "prompt_id": ["1", "2", "1", "2", "1", "2"]}, 2),
        ({"prompt": TEXTS, "prompt_id": IDS}, 3),
        ({"prompt": ["same"] * 6, "prompt_id": IDS}, 3),
        ({"prompt": [None] * 6, "prompt_id": IDS}, 4),
        ({"prompt_id": IDS}, 4),
        ({"prompt_id": IDS, "concept": ["x", "y"] * 3}, 6),
        ({"prompt_id": IDS, "concept": ["x"] * 6}, 4),
        ({"prompt": TEXTS, "prompt_id": IDS, "concept": ["x"] * 6}, 3),
        ({"prompt": TEXTS, "prompt_id": IDS, "concept": ["x", "y"] * 3}, 6),
        ({"prompt": TEXTS, "concept": ["x", "y"] * 3}, 3),
        ({"id": list("abcdef")}, 6),
    ],
)
def test_units(columns: dict[str, list[Any]], units: int) -> None:
    assert units_of(columns) == units
