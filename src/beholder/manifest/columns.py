"""Which of the user's columns means which of ours."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from beholder.manifest.schema import COLUMNS

ALIASES: Mapping[str, tuple[str, ...]] = {
    "id": ("sample_id", "uid", "__key__"),
    "output": (
        "image", "image_path", "image_file", "img", "img_path", "file_name", "filename", "file", "path",
        "gen", "gen_path", "generated", "generated_image", "output_path", "output_image", "prediction",
        "video", "video_path",
    ),
    "prompt": ("caption", "text", "prompt_text"),
    "references": (
        "reference", "ref", "refs", "ref_path", "ref_paths", "ref_image", "ref_images", "reference_image",
        "reference_images", "reference_path", "reference_paths", "reference_image_path", "reference_image_paths",
        "img_paths", "gold", "gold_image", "gold_images", "real_image", "real_images",
    ),
    "masks": ("mask", "mask_path"),
    "reference_masks": ("reference_mask", "ref_mask", "ref_masks", "reference_mask_path", "reference_mask_paths"),
    "concept": ("concept_id", "concept_ids", "subject", "subject_name"),
    "class_name": ("class", "classname"),
    "seg_prompt": ("segmentation_prompt", "class_prompt", "class_label"),
    "method": ("model", "generator"),
}  # fmt: skip
"""Other names of the canonical columns. Case does not matter; `-` and spaces count as `_`."""

_HALF = re.compile("[\ud800-\udfff]")
"""Halves of characters, which are no text and can be written nowhere."""

EXTRAS = "extras"
"""Column of a canonical manifest that holds other columns whose names would be taken for canonical ones."""

_CANONICAL = {name: name for name in COLUMNS} | {alias: name for name, also in ALIASES.items() for alias in also}


def canonical_name(column: str) -> str | None:
    """The canonical column that a name stands for, or None when the name is kept as it is."""
    return _CANONICAL.get(column.strip().lower().replace("-", "_").replace(" ", "_"))


@dataclass(frozen=True)
class Resolution:
    """How the columns of one row are read.

    Args:
        fields: (user's column, canonical column).
        extras: (user's column, name under which it is kept).
        faults: one message a clash.
    """

    fields: tuple[tuple[str, str], ...]
    extras: tuple[tuple[str, str], ...]
    faults: tuple[str, ...] = ()


def resolve(columns: Sequence[str], mapping: Mapping[str, str] | None = None) -> Resolution:
    """Match a row's columns to the canonical ones.

    Args:
        columns: the user's columns.
        mapping: user's column → canonical column (or another name, under which it is then kept). It goes before
            the aliases: an alias of a column that the mapping has filled is kept under its own name.
    """
    mapping = mapping or {}
    chosen: dict[str, list[str]] = {}
    extras: list[tuple[str, str]] = []
    mapped = {target for column, target in mapping.items() if column in columns}
    odd: list[object] = [column for column in columns if not isinstance(column, str) or _HALF.search(column)]
    faults = [f"column names must be text; got {column!a}" for column in odd]
    for column in columns:
        if column in odd:
            continue
        if column in mapping:
            target = mapping[column]
            if target in COLUMNS:
                chosen.setdefault(target, []).append(column)
            else:
                extras.append((column, target))
            continue
        name = canonical_name(column)
        if name is None or (name in mapped and column != name):
            extras.append((column, column))
        else:
            chosen.setdefault(name, []).append(column)
    faults += [
        f"columns {' and '.join(map(repr, several))} both mean {name!r}; "
        f"to keep one of them apart, give it another name: --map {several[-1]}=other_{several[-1]} (mapping=)"
        for name, several in chosen.items()
        if len(several) > 1
    ]
    kept = [name for _, name in extras]
    faults += [
        f"columns {' and '.join(repr(column) for column, other in extras if other == name)} would both be kept as "
        f"{name!r}; map one of them to another name"
        for name in dict.fromkeys(kept)
        if kept.count(name) > 1
    ]
    fields = tuple((several[0], name) for name, several in chosen.items() if len(several) == 1)
    return Resolution(fields, tuple(extras), tuple(faults))
