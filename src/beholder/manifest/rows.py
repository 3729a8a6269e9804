"""From a raw row (a mapping of the user's columns) to a Sample."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from beholder._errors import Fault, InputError, UserError
from beholder.manifest.cells import (
    CellError,
    as_label,
    as_labels,
    as_list,
    as_phrases,
    as_seed,
    as_text,
    describe,
    plain,
    unicode_inside,
    unicode_text,
)
from beholder.manifest.columns import EXTRAS, Resolution, resolve
from beholder.manifest.ids import id_from_columns, id_from_content, id_from_path
from beholder.manifest.locations import Located, is_remote, join
from beholder.manifest.schema import Sample, is_written_mask
from beholder.media.base import Medium

AsMedium = Callable[..., Medium]


class RowAdapter:
    """Turns raw rows into samples and collects what is wrong with their form.

    Args:
        mapping: user's column → canonical column, before the aliases.
        base: folder that relative paths start from; "" for the working folder.
        value_range: range of float arrays, handed to `as_medium`.
        copy: True for rows whose outputs in memory may change while later rows are made.
    """

    def __init__(
        self,
        *,
        mapping: Mapping[str, str] | None = None,
        base: str = "",
        value_range: tuple[float, float] | None = None,
        copy: bool = False,
    ) -> None:
        from beholder.media.arrays import kept_apart
        from beholder.media.sources import as_medium

        self._as_medium: AsMedium = as_medium
        self._mapping = dict(mapping or {})
        self._base, self._value_range = base, value_range
        self._remote_base = is_remote(base)
        self._plans: dict[tuple[str, ...], Resolution] = {}
        self._faulty: set[str] = set()
        self._seen: set[str] = set()
        self._output_seen = False
        self._convert: dict[str, Callable[[Any], Any]] = {
            "id": as_label,
            "output": (lambda cell: kept_apart(self._medium(cell))) if copy else self._medium,
            "prompt": as_text,
            "references": self._references,
            "masks": self._masks,
            "reference_masks": self._reference_masks,
            "concept": as_labels,
            "class_name": as_labels,
            "seg_prompt": as_phrases,
            "seed": as_seed,
            "eval_prompt": as_text,
        }

    def adapt(self, row: int, cells: Mapping[str, Any], faults: list[Fault]) -> tuple[Sample, bool] | None:
        """The row's sample, and whether its id was made from content; None when the row's form is at fault."""
        plan = self._plan(cells, row, faults)
        before = len(faults)
        values: dict[str, Any] = {}
        for column, name in plan.fields:
            cell = cells[column]
            if type(cell) is not str and (cell := plain(cell)) is None:
                continue
            convert: Callable[[Any], Any] = self._convert.get(name, as_label)
            try:
                value = convert(cell)
            except (CellError, UserError) as error:
                faults.append(Fault(str(error), row=row, where=column))
                continue
            if value is not None:
                values[name] = value
        masks, references = values.get("reference_masks", ()), values.get("references", ())
        if masks and len(masks) != len(references):
            text = f"one mask a reference is needed; got {len(references)} references and {len(masks)} masks"
            faults.append(Fault(text, row=row, where="reference_masks"))
        try:
            extras = _extras(plan, cells)
        except CellError as error:
            faults.append(Fault(str(error), row=row))
        if plan.faults or len(faults) > before:
            return None
        by_content = False
        if "id" not in values:
            values["id"], by_content = self._made_id(plan, cells, values)
        values.setdefault("output", None)
        return Sample(row=row, extras=extras, **values), by_content

    def output_path(self, cells: Mapping[str, Any]) -> str | None:
        """The output's path as the row writes it; None when the output is no path."""
        plan = self._plan(cells, 0, [])
        return next((_path_of(plain(cells[column])) for column, name in plan.fields if name == "output"), None)

    def closing_faults(self) -> Iterator[Fault]:
        """What can be said only after the last row: no output column, a mapping of columns that are not there."""
        for column in sorted(set(self._mapping) - self._seen):
            near = difflib.get_close_matches(column, sorted(self._seen), n=3)
            hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else f"; there are {_listed(self._seen)}"
            yield Fault(f"--map (mapping=) names a column that is not there{hint}", where=column)
        if self._plans and not self._output_seen:
            yield Fault(
                "no column names the generated file; it must be called 'output' (or image, image_path, file_name, gen "
                f"…), or be mapped to it with --map COLUMN=output (mapping=); there are {_listed(self._seen)}"
            )

    def _plan(self, cells: Mapping[str, Any], row: int, faults: list[Fault]) -> Resolution:
        key = tuple(cells)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = resolve(key, self._mapping)
            self._seen.update(map(str, key))
            self._output_seen |= any(name == "output" for _, name in plan.fields) or bool(plan.faults)
        for message in plan.faults:
            if row and message not in self._faulty:
                self._faulty.add(message)
                faults.append(Fault(message, row=row))
        return plan

    def _made_id(self, plan: Resolution, cells: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[str, bool]:
        made = id_from_columns(values)
        if made is not None:
            return made, False
        output = values.get("output")
        if output is None:
            return id_from_content("", values), True
        cell = next(plain(cells[column]) for column, name in plan.fields if name == "output")
        path = _path_of(cell)
        if path is not None:
            return id_from_path(path), False
        return id_from_content(output.fingerprint(), values), True

    def _medium(self, cell: Any) -> Medium | None:
        if type(cell) is str:
            return self._at(cell) if cell and not cell.isspace() else None
        cell = plain(cell)
        if isinstance(cell, Mapping):
            if not cell or not set(cell) <= {"bytes", "path"}:
                raise CellError(f"must be a path, bytes, a picture or an array; got {describe(dict(cell))}")
            if cell.get("bytes") is not None:
                return self._as_medium(dict(cell), value_range=self._value_range)
            cell = cell.get("path")
        if isinstance(cell, list | tuple):
            if len(cell) != 1:
                raise CellError(f"must be one file; got {describe(cell)}")
            return self._medium(cell[0])
        if cell is None or (isinstance(cell, str) and not cell.strip()):
            return None
        if isinstance(cell, bool | int | float):
            raise CellError(f"must be a path, bytes, a picture or an array; got {describe(cell)}")
        if not isinstance(cell, str | os.PathLike):
            return self._as_medium(cell, value_range=self._value_range)
        return self._at(cell if isinstance(cell, str) else os.fspath(cell))

    def _at(self, path: str) -> Medium:
        unicode_text(path)
        if isinstance(path, Located) or self._remote_base:
            return self._as_medium(str(join(self._base, path)), value_range=self._value_range)
        return self._as_medium(path, base=self._base or None, value_range=self._value_range)

    def _references(self, cell: Any) -> tuple[Medium, ...] | None:
        items = [self._medium(item) for item in as_list(cell)]
        if None in items:
            raise CellError(f"every item must name a file; item {items.index(None) + 1} of {len(items)} is empty")
        return tuple(item for item in items if item is not None) or None

    def _mask(self, cell: Any) -> Any:
        cell = plain(cell)
        if is_written_mask(cell):
            return _written_mask(cell)
        return self._medium(cell)

    def _masks(self, cell: Any) -> Any:
        if isinstance(cell, str) and cell.lstrip().startswith("{"):
            try:
                cell = json.loads(cell)
            except ValueError as error:
                raise CellError(f"must be a path or a JSON object; {error}") from error
        if isinstance(cell, list) and cell and all(isinstance(pair, tuple) and len(pair) == 2 for pair in cell):
            cell = dict(cell)  # Arrow's map type
        if not isinstance(cell, Mapping) or is_written_mask(cell) or set(cell) <= {"bytes", "path"}:
            return self._mask(cell)
        masks = {str(concept): self._mask(item) for concept, item in cell.items()}
        return {concept: mask for concept, mask in masks.items() if mask is not None} or None

    def _reference_masks(self, cell: Any) -> tuple[Any, ...] | None:
        return tuple(self._mask(item) for item in as_list(cell)) or None


def make_sample(cells: Mapping[str, Any], row: int, *, value_range: tuple[float, float] | None = None) -> Sample:
    """One sample from one mapping of columns; relative paths start from the working folder.

    Raises:
        InputError: the row's form is at fault, or it names no output.
    """
    faults: list[Fault] = []
    adapter = RowAdapter(value_range=value_range)
    adapted = adapter.adapt(row, cells, faults)
    faults += adapter.closing_faults()
    if faults or adapted is None:
        raise InputError(f"row {row}", faults)
    return adapted[0]


def _extras(plan: Resolution, cells: Mapping[str, Any]) -> dict[str, Any]:
    extras: dict[str, Any] = {}
    for column, name in plan.extras:
        value = plain(cells[column])
        if name == EXTRAS and isinstance(value, Mapping):
            extras.update(unicode_inside(dict(value)))
        else:
            extras[name] = unicode_inside(value)
    return extras


def _written_mask(cell: Mapping[str, Any]) -> dict[str, Any]:
    size = cell["size"]
    if not (isinstance(size, list | tuple) and len(size) == 2 and all(type(side) is int and side > 0 for side in size)):
        raise CellError(f"a mask's size must be [height, width] in pixels; got {describe(size)}")
    return dict(cell)


def _path_of(cell: Any) -> str | None:
    if isinstance(cell, str | os.PathLike):
        return os.fspath(cell) or None
    if isinstance(cell, Mapping) and cell.get("bytes") is None:
        return cell.get("path")
    if isinstance(cell, list | tuple) and len(cell) == 1:
        return _path_of(cell[0])
    return None


def _listed(columns: set[str]) -> str:
    return ", ".join(map(repr, sorted(columns))) or "no columns"
