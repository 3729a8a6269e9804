"""OpenS2V's NexusScore: from boxes, confidences and similarities of a video to its value, and what it hides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from beholder._errors import OptionError
from beholder.functional.boxes import pixel_corners, suppress
from beholder.functional.half import half_mean

IOU = 0.7
MOST_BOXES = 100


class FrameBoxes(NamedTuple):
    """The boxes of one reference in one frame that count.

    Args:
        confidences: (k,) float32 scores of all boxes over the detector's threshold.
        corners: (c, 4) int64 pixel corners of the confident boxes that have an area, in the same order.
        cropped: (c,) numbers of these among the k.
        flat: confident boxes without an area: nothing can be cut out there.
    """

    confidences: np.ndarray
    corners: np.ndarray
    cropped: np.ndarray
    flat: int


def frame_boxes(
    boxes: np.ndarray, scores: np.ndarray, size: tuple[int, int], *, box: float, confidence: float
) -> FrameBoxes:
    """What counts of a detector's boxes: suppressed again at 0.7, scores over `box`, the best 100.

    Args:
        boxes: (k, 4) in pixels of the frame.
        scores: (k,).
        size: (width, height) of the frame.
        box: least score of a box; strict.
        confidence: least score of a box whose similarity counts; strict, in 32 bits.
    """
    kept = suppress(boxes, scores, iou=IOU)
    found = np.asarray(scores, dtype=np.float32)[kept]
    kept = kept[found > np.float32(box)][:MOST_BOXES]
    confidences = np.asarray(scores, dtype=np.float32)[kept]
    corners = pixel_corners(np.asarray(boxes).reshape(-1, 4)[kept], size)
    sure = confidences > np.float32(confidence)
    wide = (corners[:, 2] > corners[:, 0]) & (corners[:, 3] > corners[:, 1])
    cropped = np.flatnonzero(sure & wide)
    return FrameBoxes(confidences, corners[cropped], cropped, int((sure & ~wide).sum()))


class PairResult(NamedTuple):
    """One reference's share of a video.

    Args:
        boxes: its boxes in all frames.
        frames: frames in which it has one.
        kept: its boxes that count.
        kept_frames: frames in which it has one of these.
        mean: mean similarity of these, or None.
    """

    boxes: int
    frames: int
    kept: int
    kept_frames: int
    mean: float | None


class Nexus(NamedTuple):
    """NexusScore of a video.

    Args:
        official: mean similarity of the boxes that count, divided by the number of frames with a box; 0 where none
            counts; None where no frame has a box.
        mean_similarity: that mean, or None.
        coverage: share of the frames with a box of any reference.
        coverage_kept: share of the frames with a box that counts.
        corrected: mean over the references of (mean similarity × share of the frames with a box that counts).
        n_boxes: all boxes.
        n_kept: boxes that count.
        f_obj: frames with a box.
        n_frames: frames looked at.
        pairs: by reference.
    """

    official: float | None
    mean_similarity: float | None
    coverage: float
    coverage_kept: float
    corrected: float
    n_boxes: int
    n_kept: int
    f_obj: int
    n_frames: int
    pairs: tuple[PairResult, ...]


def nexus(
    found: Sequence[Sequence[FrameBoxes]],
    image: Sequence[np.ndarray],
    text: Sequence[np.ndarray],
    *,
    least_text: float = 0.30,
    half: bool = True,
) -> Nexus:
    """NexusScore from the boxes of each reference in each frame.

    A box counts when it is confident (see `frame_boxes`), its crop's similarity to the label is over `least_text`
    (strict), and its similarity to the reference is not 0.

    Args:
        found: by reference, by frame.
        image: by reference: similarity of each crop to the reference, frame by frame.
        text: by reference: its similarity to the label.
        least_text: threshold.
        half: True compares and averages in 16 bits, as published.

    Raises:
        OptionError: no reference, no frame, or similarities of another number than crops.
    """
    if not found or not found[0]:
        raise OptionError("a video needs a reference and a frame", got=f"{len(found)} references")
    limit = np.float64(np.float16(least_text)) if half else np.float64(least_text)
    frames = len(found[0])
    seen, counted = np.zeros(frames, dtype=bool), np.zeros(frames, dtype=bool)
    pairs, everything = [], []
    for own, similar, told in zip(found, image, text, strict=True):
        where = np.repeat(np.arange(frames), [len(item.cropped) for item in own])
        if not len(where) == len(similar) == len(told):
            raise OptionError(f"similarities of {len(where)} crops are needed", got=f"{len(similar)} and {len(told)}")
        good = (np.asarray(told) > limit) & (np.asarray(similar) != 0)
        kept = np.asarray(similar, dtype=np.float64)[good]
        places = np.unique(where[good])
        has = np.array([len(item.confidences) > 0 for item in own])
        seen |= has
        counted[places] = True
        everything.append(kept)
        mean = _mean(kept, half=half)
        boxes = sum(len(item.confidences) for item in own)
        pairs.append(PairResult(boxes, int(has.sum()), len(kept), len(places), mean))
    mean = _mean(np.concatenate(everything), half=half)
    f_obj = int(seen.sum())
    corrected = sum((pair.mean or 0.0) * pair.kept_frames / frames for pair in pairs) / len(pairs)
    return Nexus(
        official=None if not f_obj else 0.0 if mean is None else mean / f_obj,
        mean_similarity=mean,
        coverage=f_obj / frames,
        coverage_kept=float(counted.mean()),
        corrected=corrected,
        n_boxes=sum(pair.boxes for pair in pairs),
        n_kept=sum(pair.kept for pair in pairs),
        f_obj=f_obj,
        n_frames=frames,
        pairs=tuple(pairs),
    )


def _mean(values: np.ndarray, *, half: bool) -> float | None:
    if not len(values):
        return None
    return half_mean(values) if half else float(values.mean())
