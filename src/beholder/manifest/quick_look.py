"""Whether a manifest's rows are sound, column by column: the same answer as row by row, where there is no fault.

A manifest of a million rows is checked in about the time that reading it takes. Only "all is well" is said here: what
is at fault, or only might be, is left to the rows (`RowSource`), which name it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from beholder.manifest.arrow_blocks import Uncertain
from beholder.manifest.columns import resolve
from beholder.manifest.ids import ID_PARTS

_TEXTS = ("prompt", "eval_prompt", "class_name", "concept", "method", "group", "task", "knowledge_id", "prompt_id")
_PLAIN_SEED = r"^(0|-?[1-9][0-9]{0,17}|.*[A-Za-z_.].*)$"
_BLANK_ITEM = r"(^|\|)[^!-~]*(\||$)"
_URL = "://"


def count_of_sound_rows(tables: Iterator[Any], mapping: Mapping[str, str]) -> int | None:
    """The number of rows when all of them are certainly sound and no two have one id; None when that is not sure.

    Args:
        tables: Arrow tables; may raise `Uncertain`.
        mapping: user's column → canonical column.
    """
    hashes: list[np.ndarray] = []
    try:
        for table in tables:
            if table.num_rows:
                hashes.append(_look(table, mapping))
    except Uncertain:
        return None
    if not hashes:
        return None
    every = np.concatenate(hashes)
    every.sort()
    # Equal hashes may be equal ids: the rows will say.
    return None if (every[1:] == every[:-1]).any() else len(every)


def _look(table: Any, mapping: Mapping[str, str]) -> np.ndarray:
    """Hashes of the ids of a table's rows."""
    table = table.combine_chunks()
    plan = resolve(table.column_names, mapping)
    known = set(table.column_names)
    if plan.faults or set(mapping) - known or len(known) < table.num_columns:
        raise Uncertain
    cells = {name: _only_chunk(table, column) for column, name in plan.fields}
    if "output" not in cells or (mapping and any(cell.null_count for cell in cells.values())):
        raise Uncertain
    for name, cell in cells.items():
        _check(name, cell)
    return _hashes(_ids(cells))


def _only_chunk(table: Any, column: str) -> Any:
    import pyarrow as pa

    chunks = table.column(column).chunks
    cell = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
    return cell.cast(pa.string()) if pa.types.is_large_string(cell.type) else cell


def _check(name: str, cell: Any) -> None:
    """Raises `Uncertain` unless each cell of a column is sound whatever the other columns hold."""
    import pyarrow as pa

    if pa.types.is_null(cell.type):
        return
    if name in ("id", "seed", *_TEXTS):
        if not (pa.types.is_string(cell.type) or pa.types.is_signed_integer(cell.type)):
            raise Uncertain
        return
    if name in ("references", "seg_prompt") and pa.types.is_list(cell.type):
        _check_items(name, cell.flatten())
        return
    if name == "reference_masks" or not pa.types.is_string(cell.type):
        raise Uncertain
    if name == "output":
        _refuse(cell, _URL)
    elif name == "masks":
        _refuse(cell, _URL, "{")
    else:
        _refuse(cell, _URL, "[")
        if name == "references" and _has(cell, "|"):
            _refuse_pattern(cell.filter(_contains(cell, "|")), _BLANK_ITEM)


def _check_items(name: str, items: Any) -> None:
    import pyarrow as pa

    if pa.types.is_null(items.type) and len(items) == 0:
        return
    if not pa.types.is_string(items.type):
        raise Uncertain
    if name == "references":
        if items.null_count or _any_blank(items):
            raise Uncertain
        _refuse(items, _URL)


def _ids(cells: Mapping[str, Any]) -> Any:
    """The rows' ids as the rows themselves would make them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if "id" in cells and not pa.types.is_null(cells["id"].type):
        found = _label(cells["id"])
        if found.null_count < len(found):
            return _whole(found)
    present = {name: _label(cells[name]) for name in ID_PARTS if name in cells}
    have = [name for name in present if present[name].null_count < len(present[name])]
    if "prompt_id" in have and "seed" in have:
        if present["prompt_id"].null_count or present["seed"].null_count:
            raise Uncertain
        _check_seeds(cells["seed"], present["seed"])
        return pc.binary_join_element_wise(*(present[name] for name in have), "/", null_handling="skip")
    output = cells["output"]
    if not pa.types.is_string(output.type) or output.null_count or _any_blank(output):
        raise Uncertain
    _refuse_pattern(output, r"^(\./|\s)")
    return output


def _check_seeds(cell: Any, texts: Any) -> None:
    """Seeds must be written as the numbers that they are, so that their text is the id's."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_string(cell.type) and not pc.all(pc.match_substring_regex(texts, _PLAIN_SEED)).as_py():
        raise Uncertain


def _label(cell: Any) -> Any:
    """Cells as names: trimmed, null where blank."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_string(cell.type):
        return cell.cast(pa.string())
    cell = _stripped(cell)
    lengths = pc.binary_length(cell)
    return pc.if_else(pc.equal(lengths, 0), pa.scalar(None, pa.string()), cell) if _least(lengths) == 0 else cell


def _stripped(cell: Any) -> Any:
    """Texts without white space at their ends, by Python's idea of it, which is not quite Arrow's."""
    import pyarrow as pa

    if not _blank_ends(cell):
        return cell
    return pa.array([None if text is None else text.strip() for text in cell.to_pylist()], pa.string())


def _blank_ends(cell: Any) -> bool:
    """Whether any text begins or ends with what might be white space (any byte that is no visible ASCII)."""
    offsets = np.frombuffer(cell.buffers()[1], np.int32)[cell.offset : cell.offset + len(cell) + 1]
    data = cell.buffers()[2]
    if data is None or offsets[-1] == offsets[0]:
        return False
    found = np.frombuffer(data, np.uint8)
    filled = offsets[1:] > offsets[:-1]
    ends = np.concatenate([found[offsets[:-1][filled]], found[offsets[1:][filled] - 1]])
    return bool(((ends <= 32) | (ends >= 127)).any())


def _any_blank(cell: Any) -> bool:
    import pyarrow.compute as pc

    return len(cell) > 0 and bool(_least(pc.binary_length(_stripped(cell))) == 0)


def _least(numbers: Any) -> Any:
    import pyarrow.compute as pc

    return pc.min(numbers).as_py()


def _whole(found: Any) -> Any:
    if found.null_count:
        raise Uncertain
    return found


def _contains(cell: Any, text: str) -> Any:
    import pyarrow.compute as pc

    return pc.match_substring(cell, text)


def _has(cell: Any, text: str) -> bool:
    """Whether a text stands in any cell: looked for in all of them at once, so never missed."""
    data = cell.buffers()[2]
    if data is None or not len(cell):
        return False
    offsets = np.frombuffer(cell.buffers()[1], np.int32)
    first, last = offsets[cell.offset], offsets[cell.offset + len(cell)]
    return text.encode() in bytes(data.slice(int(first), int(last - first)).to_pybytes())


def _refuse(cell: Any, *texts: str) -> None:
    if any(_has(cell, text) for text in texts):
        raise Uncertain


def _refuse_pattern(cell: Any, pattern: str) -> None:
    import pyarrow.compute as pc

    if pc.any(pc.match_substring_regex(cell, pattern)).as_py():
        raise Uncertain


def _hashes(ids: Any) -> np.ndarray:
    texts: Sequence[str] = ids.to_numpy(zero_copy_only=False)
    return np.fromiter(map(hash, texts), np.int64, len(texts))
