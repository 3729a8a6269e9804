"""Which row of one side belongs to which row of another: the pairing key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beholder._errors import UnknownNameError, UserError
from beholder.comparing.baselines import Pairs, pairs_of
from beholder.comparing.sides import CANDIDATES, Side, texts


@dataclass(frozen=True)
class Key:
    """Rows of all sides under one key.

    Args:
        columns: the columns that the key is made of.
        codes: by side: (n,) code of each row's key, −1 where a row has none; one numbering for all sides.
        prompts: (K,) code of the prompt of each key.
        concepts: (K,) code of the concept of each key, or None where a side has no concepts.
        own_seeds: whether the seed was left out, as the sides share none.
    """

    columns: tuple[str, ...]
    codes: tuple[np.ndarray, ...]
    prompts: np.ndarray
    concepts: np.ndarray | None
    own_seeds: bool = False

    @property
    def size(self) -> int:
        """How many keys there are."""
        return len(self.prompts)

    def present(self, side: int) -> np.ndarray:
        """(K,) whether a side has rows of a key."""
        codes = self.codes[side]
        return np.bincount(codes[codes >= 0], minlength=self.size) > 0


def shared_columns(sides: Sequence[Side]) -> tuple[str, ...]:
    """Columns to pair on: those of task, concept, knowledge_id, prompt_id (else prompt) and seed that all sides have.

    Raises:
        UserError: they share none that names a prompt, a concept, a task or an item of knowledge.
    """
    shared = [name for name in CANDIDATES if all(_has_values(side.table, name) for side in sides)]
    if "prompt_id" in shared and "prompt" in shared:
        shared.remove("prompt")
    if not [name for name in shared if name != "seed"]:
        raise UserError(
            "sides must share a column to be paired on (task, concept, knowledge_id, prompt_id or prompt)",
            got="; ".join(f"{side.name}: {', '.join(_own_columns(side)) or 'none of these'}" for side in sides),
            fix="Name one with --pair-on (pair_on=), for example the id",
        )
    return tuple(shared)


def make_key(sides: Sequence[Side], *, pair_on: Sequence[str] = (), pairs: Pairs | None = None) -> Key:
    """Numbers the rows of all sides by their key; the seed is left out where no row would have a partner by it.

    Args:
        sides: what is compared.
        pair_on: columns to pair on; the shared ones when empty.
        pairs: which sides are compared; all with the first when None.

    Raises:
        UserError: no column is shared.
        UnknownNameError: a side lacks a column of `pair_on`.
    """
    for name in pair_on:
        for side in sides:
            if name not in side.table.column_names:
                raise UnknownNameError("column", name, side.table.column_names, fix=f"{side.name} lacks it")
    key = _key_of(sides, tuple(dict.fromkeys(pair_on)) or shared_columns(sides))
    pairs = pairs_of(sides, None) if pairs is None else pairs
    if pair_on or "seed" not in key.columns or len(sides) < 2 or _some_pair(key, pairs):
        return key
    # Seeds drawn apart for each side name no pairs of outputs; their prompts still are pairs.
    other = _key_of(sides, tuple(name for name in key.columns if name != "seed"))
    return replace(other, own_seeds=True) if _some_pair(other, pairs) else key


def _some_pair(key: Key, pairs: Pairs) -> bool:
    return any(bool((key.present(one) & key.present(other)).any()) for one, other in pairs)


def _key_of(sides: Sequence[Side], columns: tuple[str, ...]) -> Key:
    sizes = [side.table.num_rows for side in sides]
    parts = {name: _joint_codes(sides, name) for name in columns}
    full = _combined(list(parts.values()))
    known, first, codes = np.unique(full, return_index=True, return_inverse=True)
    inner = _prompt_parts(sides, parts)
    prompts = np.unique(_combined(inner)[first], return_inverse=True)[1] if inner else np.zeros(len(known), np.intp)
    concepts = _joint_codes(sides, "concept")[first] if all(_has_values(s.table, "concept") for s in sides) else None
    if concepts is not None and (concepts < 0).any():
        concepts = _own_concepts(concepts, prompts)
    # A seed alone names no prompt.
    named = [part for name, part in parts.items() if name != "seed"] or list(parts.values())
    codes = np.where(np.all([part < 0 for part in named], axis=0), -1, codes)
    return Key(columns, tuple(np.split(codes, np.cumsum(sizes)[:-1])), prompts, concepts)


def _prompt_parts(sides: Sequence[Side], parts: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Codes that tell prompts apart: those of the shared columns, else of the key, each without the seed.

    Rows that were paired on something finer (an id) still share their prompt, which is what was sampled.
    """
    try:
        shared = shared_columns(sides)
    except UserError:
        shared = tuple(parts)
    return [parts[name] if name in parts else _joint_codes(sides, name) for name in shared if name != "seed"]


def _own_concepts(concepts: np.ndarray, prompts: np.ndarray) -> np.ndarray:
    """Prompts without a concept are clusters of their own."""
    return np.where(concepts < 0, int(concepts.max(initial=-1)) + 1 + prompts, concepts)


def _has_values(table: pa.Table, name: str) -> bool:
    return name in table.column_names and table.column(name).null_count < table.num_rows


def _own_columns(side: Side) -> list[str]:
    return [name for name in CANDIDATES if _has_values(side.table, name)]


def _joint_codes(sides: Sequence[Side], name: str) -> np.ndarray:
    """(n,) one code a value over the rows of all sides; −1 for none."""
    joined = pa.chunked_array([chunk for side in sides for chunk in texts(side.table, name).chunks], pa.string())
    encoded = pc.dictionary_encode(joined).combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0) if encoded.num_chunks else pa.array([], pa.string()).dictionary_encode()
    return np.asarray(encoded.indices.fill_null(-1), dtype=np.int64)


def _combined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """One code a combination."""
    code = np.zeros(len(parts[0]), dtype=np.int64)
    for part in parts:
        code = np.unique(code * (int(part.max(initial=-1)) + 2) + part + 1, return_inverse=True)[1]
    return code
