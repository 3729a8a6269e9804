"""Samples as Arrow columns: what a run keeps of each row beside its scores."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from beholder.manifest.schema import Sample

SCALAR_COLUMNS = (
    "prompt", "eval_prompt", "concept", "class_name", "task", "method", "group", "seed", "knowledge_id", "prompt_id",
)  # fmt: skip
"""Canonical columns that are kept as they are; media columns are kept as the names that the user gave."""


KEPT_COLUMNS = ("id", "output", "references", *SCALAR_COLUMNS, "seg_prompt")
"""All canonical columns that are kept, in their order in a run's tables."""


def sample_columns(samples: Sequence[Sample], reserved: Iterable[str] = ()) -> dict[str, pa.Array]:
    """The columns of some samples; a column without any value is left out.

    Args:
        samples: the rows.
        reserved: names of score columns; an extra column of such a name becomes `extra_<name>`.
    """
    columns: dict[str, pa.Array] = {
        "id": pa.array([sample.id for sample in samples], pa.string()),
        "output": pa.array(
            [sample.output.name if sample.output is not None else None for sample in samples], pa.string()
        ),
    }
    if any(sample.references for sample in samples):
        names = [[medium.name for medium in sample.references] or None for sample in samples]
        columns["references"] = pa.array(names, pa.list_(pa.string()))
    for name in SCALAR_COLUMNS:
        values = [getattr(sample, name) for sample in samples]
        if any(value is not None for value in values):
            columns[name] = typed_array(values)
    if any(sample.seg_prompt is not None for sample in samples):
        columns["seg_prompt"] = typed_array([sample.seg_prompt for sample in samples])
    taken = {*KEPT_COLUMNS, *reserved}
    for name in _extra_names(samples):
        values = [sample.extras.get(name) for sample in samples]
        columns[_kept_name(name, taken)] = typed_array(values)
    return columns


def _kept_name(name: str, taken: set[str]) -> str:
    """The name that an extra column is kept under: one more `extra_` when without some of them it is a taken name.

    It depends on the name alone, so that all chunks agree, and no two columns get one name.
    """
    rest = name
    while rest not in taken and rest.startswith("extra_"):
        rest = rest.removeprefix("extra_")
    return f"extra_{name}" if rest in taken else name


def _extra_names(samples: Sequence[Sample]) -> list[str]:
    names: dict[str, None] = {}
    for sample in samples:
        if sample.extras:
            names.update(dict.fromkeys(sample.extras))
    return [name for name in names if any(sample.extras.get(name) is not None for sample in samples)]


_LARGEST = sys.float_info.max
_EXACT = 2**53


def typed_array(values: Sequence[Any]) -> pa.Array:
    """An array of one plain type: bool, int64, float64 or string; anything mixed or nested becomes JSON text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {str}:
        return pa.array(values, pa.string())
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds == {int} and all(value is None or -(2**63) <= value < 2**63 for value in values):
        return pa.array(values, pa.int64())
    if kinds <= {int, float} and all(type(value) is not int or abs(value) <= _LARGEST for value in values):
        return pa.array([None if value is None or value != value else float(value) for value in values], pa.float64())
    return pa.array([_as_text(value) for value in values], pa.string())


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        return str(int(value))  # 1.0 is written as 1: whether a chunk holds it as a whole number depends on the others
    try:
        return json.dumps(value, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, default=str)


def _finite(value: Any) -> Any:
    """The value with None for every number in it that JSON has no form for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value


def unify(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """One schema for all frames: columns in order of first appearance; types that differ become text."""
    fields: dict[str, pa.DataType] = {}
    for schema in schemas:
        for item in schema:
            known = fields.get(item.name)
            if known is None or known == pa.null():
                fields[item.name] = item.type
            elif known != item.type and item.type != pa.null():
                fields[item.name] = _common(known, item.type)
    return pa.schema(list(fields.items()))


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    numbers = {pa.int64(), pa.float64()}
    return pa.float64() if one in numbers and other in numbers else pa.string()


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table with exactly the columns of `schema`; what is missing is null."""
    arrays = []
    for item in schema:
        if item.name not in table.column_names:
            arrays.append(pa.nulls(table.num_rows, item.type))
            continue
        column = table.column(item.name)
        if column.type == pa.float64() and item.type == pa.string():
            # As a chunk writes it that holds texts too.
            arrays.append(pa.array([_as_text(value) for value in column.to_pylist()], pa.string()))
            continue
        # Whole numbers that share a column with fractions are kept as floats, whatever their size.
        arrays.append(column if column.type == item.type else column.cast(item.type, safe=False))
    return pa.table(arrays, schema=schema)
