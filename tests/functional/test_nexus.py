"""Boxes, and NexusScore from chosen confidences and similarities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from beholder._errors import OptionError
from beholder.functional.boxes import pixel_corners, suppress
from beholder.functional.nexus import FrameBoxes, Nexus, frame_boxes, nexus


def overlap(a: Sequence[float], b: Sequence[float]) -> float:
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    area = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - width * height
    return width * height / area


def test_suppression_against_plain_loops() -> None:
    rng = np.random.default_rng(0)
    corner = rng.uniform(0, 30, (60, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(5, 30, (60, 2))], axis=1)
    scores = rng.uniform(0, 1, 60)
    kept: list[int] = []
    for at in sorted(range(60), key=lambda at: -scores[at]):
        if all(overlap(boxes[at], boxes[other]) <= 0.5 for other in kept):
            kept.append(at)
    assert suppress(boxes, scores, iou=0.5).tolist() == kept
    assert suppress(np.zeros((0, 4)), np.zeros(0), iou=0.5).tolist() == []


def test_suppression_is_strict() -> None:
    boxes = np.array([[0, 0, 10, 10], [0, 0, 10, 7.0]])
    assert suppress(boxes, np.array([0.9, 0.8]), iou=0.7).tolist() == [0, 1], "an overlap of exactly 0.7 stays"
    assert suppress(boxes, np.array([0.9, 0.8]), iou=0.69).tolist() == [0]


def test_corners() -> None:
    assert pixel_corners(np.array([[-3.2, 0.5, 10.5, 99.0], [1.5, 2.5, 1.6, 9.4]]), (10, 20)).tolist() == [
        [0, 0, 10, 20], [2, 2, 2, 9],
    ]  # fmt: skip


def found(scores: Sequence[float], *, flat: bool = False) -> FrameBoxes:
    """A frame with boxes side by side."""
    boxes = np.array([[20 * at, 0, 20 * at + (0.2 if flat else 10), 10] for at in range(len(scores))], float)
    return frame_boxes(boxes, np.array(scores, np.float32), (2000, 100), box=0.5, confidence=0.6)


def test_thresholds_are_strict() -> None:
    frame = found(
        [0.5, np.nextafter(np.float32(0.5), np.float32(1)), 0.6, np.nextafter(np.float32(0.6), np.float32(1))]
    )
    assert len(frame.confidences) == 3, "exactly 0.5 is no box"
    assert len(frame.cropped) == 1, "exactly 0.6 does not count"
    assert found([0.9, 0.8], flat=True).flat == 2
    assert len(found([0.9] * 150).confidences) == 100


def test_boxes_are_suppressed_a_second_time() -> None:
    boxes = np.array([[0, 0, 10, 10], [0, 0, 10, 9.5], [0, 0, 10, 3]])
    frame = frame_boxes(boxes, np.array([0.7, 0.9, 0.8]), (50, 50), box=0.5, confidence=0.6)
    assert frame.corners.tolist() == [[0, 0, 10, 10], [0, 0, 10, 3]]
    assert frame.confidences.tolist() == pytest.approx([0.9, 0.8])


def value(frames: list[FrameBoxes], similar: float = 0.5, told: float = 0.5, **settings: float) -> Nexus:
    count = sum(len(frame.cropped) for frame in frames)
    return nexus([frames], [np.full(count, similar)], [np.full(count, told)], **settings)  # type: ignore[arg-type]


def test_flicker_pays_officially_and_costs_in_the_companions() -> None:
    box, none = found([0.9]), found([])
    once, always = value([box] + [none] * 31), value([box] * 32)
    assert once.official == 0.5
    assert always.official == 0.5 / 32
    assert once.mean_similarity == always.mean_similarity == 0.5
    assert (once.coverage, always.coverage) == (1 / 32, 1.0)
    assert always.corrected == 0.5
    assert once.corrected == 0.5 / 32


def test_the_published_sample() -> None:
    # faceobj_14: 0.01300811767578125 is 1705/4096, a mean of sixteen-bit numbers, over 32 frames.
    frames = [found([0.9])] * 32
    similar = np.float16(np.full(32, 1705 / 4096)).astype(float)
    assert nexus([frames], [similar], [np.full(32, 0.5)]).official == 0.01300811767578125


def test_the_label_threshold_is_strict_in_sixteen_bits() -> None:
    exactly = float(np.float16(0.30))
    assert value([found([0.9])], told=exactly).official == 0.0
    assert value([found([0.9])], told=float(np.nextafter(np.float16(0.30), np.float16(1)))).official == 0.5
    assert value([found([0.9])], told=0.30, half=False).official == 0.0


def test_a_similarity_of_zero_does_not_count_and_a_negative_one_does() -> None:
    assert value([found([0.9])], similar=0.0).official == 0.0
    assert value([found([0.9])], similar=-0.25).official == -0.25


def test_nothing_found_and_nothing_counted() -> None:
    none = value([found([])] * 4)
    assert (none.official, none.f_obj, none.mean_similarity) == (None, 0, None)
    unsure = value([found([0.55])] * 4)
    assert (unsure.official, unsure.f_obj, unsure.n_boxes, unsure.n_kept) == (0.0, 4, 4, 0)
    assert unsure.coverage == 1.0
    assert unsure.coverage_kept == 0.0


def test_two_references() -> None:
    box, none = found([0.9]), found([])
    first, second = [box, box, none, none], [none, box, none, none]
    got = nexus([first, second], [np.array([0.5, 0.25]), np.array([0.75])], [np.ones(2), np.ones(1)])
    assert got.f_obj == 2, "two references in one frame count it once"
    assert got.mean_similarity == 0.5
    assert got.official == 0.25
    assert got.corrected == pytest.approx((0.375 * 2 / 4 + 0.75 * 1 / 4) / 2)
    assert [pair.kept_frames for pair in got.pairs] == [2, 1]
    lost = nexus([first, [none] * 4], [np.array([0.5, 0.25]), np.zeros(0)], [np.ones(2), np.zeros(0)])
    assert lost.official == 0.375 / 2, "a reference that is never found changes nothing officially"
    assert lost.corrected == pytest.approx(0.375 * 2 / 4 / 2)
    assert lost.pairs[1].mean is None


def test_wrong_numbers_of_similarities() -> None:
    with pytest.raises(OptionError):
        nexus([[found([0.9])]], [np.zeros(2)], [np.zeros(2)])
    with pytest.raises(OptionError):
        nexus([], [], [])
