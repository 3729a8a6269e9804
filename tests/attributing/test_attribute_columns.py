"""Columns of an attribute run's tables: the same whatever the sets give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.attributing.attribute_sets import draw_set

import beholder
from beholder.attributing.columns import table_columns
from beholder.attributing.files import _table
from beholder.attributing.settings import make_settings

TABLES = ("attributes", "pairs", "sets")


@pytest.mark.parametrize(
    "settings", [{}, {"by_class": True}, {"score": "hcs", "maps": False}, {"resamples": 0, "permutations": 0}], ids=str
)
def test_a_set_that_is_too_small_has_the_columns_of_any_set(settings: dict[str, Any], tmp_path: Path) -> None:
    sets = {name: str(draw_set(tmp_path / name, n, {"cat": 0.5}, seed=n)) for name, n in (("ref", 6), ("gen", 5))}
    few = str(draw_set(tmp_path / "few", 2, {"cat": 0.5}, seed=1))
    chosen = {"resamples": 10, "permutations": 10} | settings
    runs = [
        beholder.attributes(
            real=sets["ref"], gen=gen, attributes=["a cat", "a dog"], model="demo:emoji", out=str(tmp_path / str(at)),
            store=str(tmp_path / "store"), **chosen,
        )
        for at, gen in enumerate((sets["gen"], few))
    ]  # fmt: skip
    columns = table_columns(make_settings(chosen))
    for name in TABLES:
        whole, small = (getattr(run, name) for run in runs)
        assert small.schema == whole.schema
        assert whole.column_names == list(columns[name])
    assert set(runs[1].attributes["status"].to_pylist()) == {"not_enough_evidence"}
    assert runs[1].attributes["sad"].to_pylist() == [None, None]


def test_a_column_without_a_name_in_the_list_is_a_mistake_of_ours() -> None:
    with pytest.raises(KeyError, match="no column of this table: new"):
        _table([{"set": "a", "new": 1.0}], {"set": "string"})
