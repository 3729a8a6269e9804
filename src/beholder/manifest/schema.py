"""One row of a data set: the sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from beholder.media.base import Medium

COLUMNS = (
    "id",
    "output",
    "prompt",
    "references",
    "masks",
    "reference_masks",
    "concept",
    "class_name",
    "seg_prompt",
    "task",
    "method",
    "group",
    "seed",
    "eval_prompt",
    "knowledge_id",
    "prompt_id",
)
"""The canonical columns. Any other column is kept in `Sample.extras` and can be grouped by."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One generated output with what it is scored against.

    Args:
        id: unique over the run.
        output: the generated medium, or None when the row names none.
        row: 1-based row of the input, for messages.
        prompt: the prompt, or None.
        references: real media of the same subject.
        masks: mask medium, written mask (see `is_written_mask`), or map concept → either; None when there are none.
        reference_masks: one mask a reference, or ().
        extras: every other column, by name.
    """

    id: str
    output: Medium | None
    row: int | None = None
    prompt: str | None = None
    references: tuple[Medium, ...] = ()
    masks: Any = None
    reference_masks: tuple[Any, ...] = ()
    concept: str | None = None
    class_name: str | None = None
    seg_prompt: Any = None
    task: str | None = None
    method: str | None = None
    group: str | None = None
    seed: int | str | None = None
    eval_prompt: str | None = None
    knowledge_id: str | None = None
    prompt_id: str | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)

    def column(self, name: str) -> Any:
        """The value of a canonical or extra column; None when the row has none."""
        return getattr(self, name) if name in COLUMNS else self.extras.get(name)


def is_written_mask(value: object) -> bool:
    """True for a mask that is written out: {"size": [h, w]} with "counts", "polygons" or "segmentation"."""
    return (
        isinstance(value, Mapping)
        and "size" in value
        and any(name in value for name in ("counts", "polygons", "segmentation"))
    )


class SampleSource(Protocol):
    """Where samples come from: a manifest file, a folder, a DataFrame, a generator …

    `name` is what messages call it. `replayable` says whether iterating twice gives the same rows (files: yes;
    generators: no). `columns` are the extra columns that are known before reading (may be empty). Iteration is lazy:
    a million rows never stand in memory together. `check` raises `InputError` with every fault of form, before any
    compute, without decoding media; `notices` are remarks for the user.
    """

    @property
    def name(self) -> str: ...

    @property
    def replayable(self) -> bool: ...

    def __iter__(self) -> Iterator[Sample]: ...

    def check(self) -> None: ...

    @property
    def notices(self) -> tuple[str, ...]: ...

    def count(self) -> int | None: ...
