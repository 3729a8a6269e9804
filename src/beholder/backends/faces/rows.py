"""What all face backends share: settings, rows of faces, and how rows become columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beholder._errors import NoValue, OptionError, UnknownNameError
from beholder.backends.base import Made
from beholder.backends.columns import object_column
from beholder.functional.faces import box_areas, clamp_boxes
from beholder.media.base import Picture
from beholder.records import Status


@dataclass(frozen=True)
class FaceRow:
    """The faces of one picture, best first.

    Args:
        size: (width, height) of the picture.
        boxes: (k, 4) float32 in its pixels, not clamped.
        scores: (k,) float32.
        landmarks: (k, p, 2) float32.
        embedding: (k, d) float32, or None where there is no recognition network.
        padded: True when only a second look, with a gray border, found them.
    """

    size: tuple[int, int]
    boxes: np.ndarray
    scores: np.ndarray
    landmarks: np.ndarray
    embedding: np.ndarray | None = None
    padded: bool = False


def columns_of(rows: Sequence[FaceRow | NoValue]) -> Made:
    """Rows as `FaceAnalyser` gives them.

    Besides the contract's columns there are "areas" (k,) float64: areas of the boxes before they were clamped, by
    which the largest face is chosen, and the plain column "padded" (n,) bool.
    """
    good = [row for row in rows if isinstance(row, FaceRow)]
    empty = _empty(good[0] if good else None)
    full = [row if isinstance(row, FaceRow) else empty for row in rows]
    columns: dict[str, np.ndarray] = {
        "boxes": object_column([clamp_boxes(row.boxes, *row.size) for row in full]),
        "scores": object_column([np.asarray(row.scores, dtype=np.float32) for row in full]),
        "landmarks": object_column([np.asarray(row.landmarks, dtype=np.float32) for row in full]),
        "areas": object_column([box_areas(row.boxes) for row in full]),
        "padded": np.asarray([row.padded for row in full], dtype=bool),
    }
    if empty.embedding is not None:
        columns["embedding"] = object_column([np.asarray(row.embedding, dtype=np.float32) for row in full])
    failures = {number: row for number, row in enumerate(rows) if isinstance(row, NoValue)}
    return Made(columns, failures)


def _empty(like: FaceRow | None) -> FaceRow:
    none = np.zeros((0, 4), dtype=np.float32)
    if like is None:
        return FaceRow((0, 0), none, none[:, 0], np.zeros((0, 5, 2), dtype=np.float32))
    embedding = None if like.embedding is None else like.embedding[:0]
    return FaceRow((0, 0), none, none[:, 0], like.landmarks[:0], embedding)


def one_picture(pictures: Sequence[Picture]) -> np.ndarray:
    """The pixels of the one picture that a visual of a face model is, (H, W, 3) uint8, C-contiguous."""
    if len(pictures) != 1:
        raise OptionError("a face model looks at one picture at a time", got=str(len(pictures)))
    return np.ascontiguousarray(pictures[0].pixels)


def read_settings(kind: type[Any], given: Mapping[str, Any], *, engine: str) -> Any:
    """A backend's settings: a frozen dataclass of numbers, its defaults filled in.

    Raises:
        UnknownNameError: a setting that the backend does not have.
        OptionError: a value of another type.
    """
    known = {field.name: field.default for field in dataclasses.fields(kind)}
    for name, value in given.items():
        if name not in known:
            raise UnknownNameError(f"setting of {engine}", name, known)
        default = known[name]
        fits = isinstance(value, bool) if isinstance(default, bool) else isinstance(value, (int, float))
        if not fits or (isinstance(value, bool) and not isinstance(default, bool)):
            raise OptionError(f"{name} of {engine} must be like {default!r}", got=repr(value))
    return kind(**given)


def align_failed(error: NoValue) -> NoValue:
    """A picture with a face that cannot be aligned: a fault of that picture, not of its batch."""
    return NoValue(Status.FAILED, error.reason)
