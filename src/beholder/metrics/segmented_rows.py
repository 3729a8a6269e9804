"""Likeness of segmented subjects: which embeddings belong to which row, frame, instance and reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beholder._identity import OptionValue
from beholder.functional.similarity import cosine, normalise
from beholder.metrics.base import FeatureBatch
from beholder.metrics.frames import reduce_frames
from beholder.metrics.segmenting import Subject, subjects_of


@dataclass(frozen=True)
class Frame:
    """The subject of one picture (a still output, or a frame of a video) against the references.

    Args:
        subject: the subject.
        value: its likeness; that of the whole picture where no subject was found.
        degenerate: an embedding that it rests on has no direction.
    """

    subject: Subject
    value: float
    degenerate: bool


class SegmentedRows:
    """The embeddings of a batch of `clip_i_seg`.

    Args:
        batch: its features: slots "segments", "subject", "references", and with `segment=both` "reference_segments".
        options: the metric's options.
    """

    def __init__(self, batch: FeatureBatch, options: Mapping[str, OptionValue]) -> None:
        invert, self._reduce = bool(options["invert"]), str(options["reduce"])
        found = batch.rows_of("segments")
        self._subjects, self._subjects_at = subjects_of(found.columns, options, invert=invert), found.offsets
        pictures, references = batch.rows_of("subject"), batch.many("references")
        self._pictures, self._pictures_at = normalise(pictures.columns["embedding"]), pictures.offsets
        self._references, self._references_at = normalise(references.columns["embedding"]), references.offsets
        self._masked: list[list[Subject]] | None = None
        if options["segment"] == "both":
            segments = batch.many("reference_segments")
            every = subjects_of(segments.columns, options, invert=invert)
            self._masked = [every[a:b] for a, b in zip(segments.offsets[:-1], segments.offsets[1:])]

    def lost(self, row: int) -> int:
        """References of a row that have no mask."""
        return 0 if self._masked is None else sum(not item.found for item in self._masked[row])

    def frames(self, row: int) -> list[Frame] | None:
        """The pictures of a row in their order: one, or its frames; None without a reference to compare with."""
        groups = self._groups(row)
        if not groups:
            return None
        frames, start = [], int(self._pictures_at[row])
        for subject in self._subjects[self._subjects_at[row] : self._subjects_at[row + 1]]:
            count = max(1, len(subject.masks))
            frames.append(Frame(subject, *self._compare(np.arange(start, start + count), groups)))
            start += count
        return frames

    def _compare(self, mine: np.ndarray, groups: Sequence[np.ndarray]) -> tuple[float, bool]:
        """One picture's value, and whether an embedding has no direction."""
        values, bad = [], False
        for group in groups:
            left, right = np.repeat(mine, len(group)), np.tile(group, len(mine))
            cosines = cosine(_take(self._pictures, left), _take(self._references, right))
            values.append(float(cosines.values.mean()))
            bad = bad or bool(cosines.degenerate.any())
        how = self._reduce
        return max(values) if how == "max" else values[0] if how == "first" else float(np.mean(values)), bad

    def _groups(self, row: int) -> list[np.ndarray]:
        """For each reference of a row that takes part: the numbers of its pictures."""
        start, end = int(self._references_at[row]), int(self._references_at[row + 1])
        if self._masked is None:
            return [np.array([at]) for at in range(start, end)]
        groups = []
        for subject in self._masked[row]:
            count = max(1, len(subject.masks))
            if subject.found:
                groups.append(np.arange(start, start + count))
            start += count
        return groups


def frames_evidence(frames: Sequence[Frame]) -> dict[str, Any]:
    """What is said of a video's frames beside its score: those of the subject, and of frames without one."""
    found = [frame.subject for frame in frames if frame.subject.found]
    facts: dict[str, Any] = {
        "seg_found": bool(found),
        "frames_found": len(found),
        "frame_scores": [_rounded(frame) if frame.subject.found else None for frame in frames],
        "frame_unsegmented": [None if frame.subject.found else _rounded(frame) for frame in frames],
    }
    if found:
        facts["seg_area"] = round(float(np.mean([subject.area for subject in found])), 6)
        facts["seg_score"] = round(max(subject.score for subject in found), 6)
    return facts


def over_frames(values: Sequence[float | None], how: str) -> float | None:
    """Values of frames as one; those without are left out, and of none there is none."""
    kept = [value for value in values if value is not None]
    return of_frames(kept, how) if kept else None


def of_frames(values: Sequence[float], how: str) -> float:
    """Values of frames, one at least, as one: their mean, max, min or median."""
    return float(reduce_frames(np.array(values), np.array([0, len(values)]), how)[0])


def _rounded(frame: Frame) -> float | None:
    return None if frame.degenerate else round(frame.value, 9)


def _take(units: Any, rows: np.ndarray) -> Any:
    return type(units)(units.vectors[rows], units.degenerate[rows])
