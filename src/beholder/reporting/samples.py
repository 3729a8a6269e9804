"""All samples of the sides as columns, each with its pair and its media."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from beholder._errors import UserError
from beholder.comparing.baselines import Pairs
from beholder.comparing.pairing import make_key
from beholder.comparing.sides import Side as ComparedSide
from beholder.report.html.data import Samples, Visuals
from beholder.reporting.media import RunMedia
from beholder.runs.plan import score_names
from beholder.runs.results import Run

MOST_CHOICES = 40
"""A column of at most so many values can be chosen and grouped by."""

_APART = {"id", "output", "references", "prompt"}
_NOT_GROUPS = {*_APART, "method", "seed", "prompt_id", "seg_prompt", "eval_prompt", "knowledge_id"}


@dataclass(frozen=True)
class SideRows:
    """One side with all its columns.

    Args:
        side: the side as comparisons see it.
        run: index of its run.
        table: its rows with every column of the run.
    """

    side: ComparedSide
    run: int
    table: pa.Table


def side_rows(runs: Sequence[Run], sides: Sequence[ComparedSide], run_of: Sequence[int]) -> list[SideRows]:
    """The sides with all columns of their runs."""
    whole = [run.scores for run in runs]
    places = [{name: at for at, name in enumerate(table.column("id").to_pylist())} for table in whole]
    found = []
    for side, at in zip(sides, run_of):
        rows = [places[at][name] for name in side.table.column("id").to_pylist()]
        found.append(SideRows(side, at, whole[at].take(pa.array(rows, pa.int64()))))
    return found


def pair_keys(sides: Sequence[ComparedSide], pairs: Pairs | None = None) -> list[np.ndarray]:
    """By side: the code of each row's pair; −1 everywhere when the sides share nothing to be paired on."""
    if len(sides) > 1:
        try:
            return [np.asarray(codes) for codes in make_key(sides, pairs=pairs).codes]
        except UserError:
            pass
    return [np.full(side.table.num_rows, -1) for side in sides]


def make_samples(
    runs: Sequence[Run],
    parts: Sequence[SideRows],
    labels: Sequence[str],
    *,
    chosen_by: Sequence[str] = (),
    pairs: Pairs | None = None,
) -> Samples:
    """All samples, side by side in the order of the sides.

    Args:
        runs: the runs.
        parts: the sides.
        labels: the metrics.
        chosen_by: columns that samples can be chosen by, however many values they have.
        pairs: which sides are compared; all with the first when None.
    """
    scored = {name for run in runs for label in run.labels for name in score_names(label)}
    own = list(dict.fromkeys(name for part in parts for name in part.table.column_names if name not in scored))
    columns = {name: _column(parts, name) for name in own}
    names = [score_names(label) for label in labels]
    media = [RunMedia(run) for run in runs]
    references = _column(parts, "references")
    ids = _column(parts, "id")
    outputs = _column(parts, "output")
    sides = [at for at, part in enumerate(parts) for _ in range(part.table.num_rows)]
    visuals: list[Visuals] = [
        media[parts[side].run].visuals(row_id, output, _listed(named))
        for side, row_id, output, named in zip(sides, ids, outputs, references)
    ]
    return Samples(
        ids=ids,
        sides=sides,
        keys=[int(code) for codes in pair_keys([part.side for part in parts], pairs) for code in codes],
        outputs=outputs,
        prompts=_column(parts, "prompt"),
        values={name[0]: _values(parts, name[0], name[1]) for name in names},
        statuses={name[0]: [text or "not_applicable" for text in _column(parts, name[1])] for name in names},
        reasons=_some(parts, {name[0]: name[2] for name in names}),
        evidence=_some(parts, {name[0]: name[3] for name in names}),
        columns={name: values for name, values in columns.items() if name not in _APART or name in chosen_by},
        filters=[
            name
            for name, values in columns.items()
            if name != "method" and (name in chosen_by or (name not in _APART and _few(values)))
        ],
        visuals=visuals,
        units=_units(parts),
    )


def _units(parts: Sequence[SideRows]) -> list[int]:
    """Code of each row's prompt: its prompt id within its concept, else its text, else itself."""
    concepts, names, texts = (_column(parts, name) for name in ("concept", "prompt_id", "prompt"))
    known: dict[tuple[str | None, ...], int] = {}
    found = []
    for row, (concept, name, text) in enumerate(zip(concepts, names, texts)):
        own = (
            (str(row),) if name is None and text is None else (str(concept), str(name)) if name else (None, None, text)
        )
        found.append(known.setdefault(own, len(known)))
    return found


def group_names(samples: Samples) -> list[str]:
    """Columns that samples can be grouped by: a few values, several samples in each, no two that split alike."""
    found: dict[tuple[int, ...], str] = {}
    for name in samples.filters:
        codes: dict[str, int] = {}
        split = tuple(codes.setdefault(str(value), len(codes)) for value in samples.columns[name])
        if name not in _NOT_GROUPS:
            found.setdefault(split, name)
    return list(found.values())


def _column(parts: Sequence[SideRows], name: str) -> list[Any]:
    found: list[Any] = []
    for part in parts:
        there = name in part.table.column_names
        found += part.table.column(name).to_pylist() if there else [None] * part.table.num_rows
    return found


def _values(parts: Sequence[SideRows], label: str, status: str) -> list[float | None]:
    pairs = zip(_column(parts, label), _column(parts, status))
    return [value if told == "ok" else None for value, told in pairs]


def _some(parts: Sequence[SideRows], names: dict[str, str]) -> dict[str, list[Any]]:
    found = {label: _column(parts, name) for label, name in names.items()}
    return {label: values for label, values in found.items() if any(value is not None for value in values)}


def _few(values: Sequence[Any]) -> bool:
    seen: set[str] = set()
    for value in values:
        if value is not None:
            seen.add(str(value))
        if len(seen) > MOST_CHOICES:
            return False
    return 1 < len(seen) <= len(values) / 2


def _listed(value: Any) -> list[str] | None:
    if value is None or isinstance(value, list):
        return value
    return [str(value)]
