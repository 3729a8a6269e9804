"""From a network's numbers to boxes: anchors, offsets and thresholds by loops and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from beholder.backends.faces.decode import Detections, decode_retina, decode_scrfd, retina_anchors


@pytest.mark.parametrize("size", [(64, 96), (33, 50), (7, 5)])
def test_anchors_run_over_strides_rows_columns_and_sizes(size: tuple[int, int]) -> None:
    expected = []
    for stride, sides in ((8, (16, 32)), (16, (64, 128)), (32, (256, 512))):
        for row in range(math.ceil(size[0] / stride)):
            for column in range(math.ceil(size[1] / stride)):
                expected += [((column + 0.5) * stride, (row + 0.5) * stride, side, side) for side in sides]
    assert retina_anchors(*size).tolist() == [list(map(float, anchor)) for anchor in expected]


def retina_answer(
    count: int, faces: dict[int, tuple[float, list[float], list[float]]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    offsets, scores, points = np.zeros((count, 4), "f4"), np.zeros(count, "f4"), np.zeros((count, 10), "f4")
    for anchor, (score, offset, point) in faces.items():
        scores[anchor], offsets[anchor], points[anchor] = score, offset, point
    return offsets, scores, points


def test_offsets_move_and_stretch_their_anchor() -> None:
    anchors = retina_anchors(64, 96)
    # Anchor 27 stands at row 1, column 1 (12 columns): centre (12, 12), side 32.
    assert anchors[27].tolist() == [12, 12, 32, 32]
    point = [1.0, -1.0, 0.0, 0.5] + [0.0] * 6
    found = decode_retina(
        *retina_answer(len(anchors), {27: (0.9, [1.0, -2.0, 5 * math.log(2), 0.0], point)}), anchors, threshold=0.5
    )
    # Centre (12 + 0.1·1·32, 12 − 0.1·2·32) = (15.2, 5.6); width 32·exp(0.2·5·ln 2) = 64, height 32.
    np.testing.assert_allclose(found.boxes, [[15.2 - 32, 5.6 - 16, 15.2 + 32, 5.6 + 16]], rtol=1e-6)
    np.testing.assert_allclose(found.landmarks[0, :2], [[12 + 3.2, 12 - 3.2], [12.0, 12 + 1.6]], rtol=1e-6)
    assert found.scores.tolist() == pytest.approx([0.9])


def test_the_threshold_is_strict_and_faces_come_best_first() -> None:
    anchors = retina_anchors(64, 96)
    still = [0.0] * 4, [0.0] * 10
    answer = retina_answer(len(anchors), {0: (0.5, *still), 20: (0.6, *still), 100: (0.75, *still), 101: (0.7, *still)})
    found = decode_retina(*answer, anchors, threshold=0.5)
    assert found.scores.tolist() == pytest.approx([0.75, 0.7, 0.6])
    assert [decode_retina(*answer, anchors, threshold=0.5, most=m).scores.size for m in (1, 2)] == [1, 2]
    assert len(decode_retina(*answer, anchors, threshold=0.8)) == 0
    assert decode_retina(*answer, anchors, threshold=0.8).landmarks.shape == (0, 5, 2)


def test_boxes_that_overlap_by_more_than_two_fifths_are_one_face() -> None:
    anchors = retina_anchors(64, 96)
    still = [0.0] * 4, [0.0] * 10
    # Neighbours of side 32, 8 pixels apart: (25·33) / (2·33² − 25·33) = 0.61.
    answer = retina_answer(len(anchors), {1: (0.9, *still), 3: (0.8, *still), 7: (0.7, *still)})
    assert decode_retina(*answer, anchors, threshold=0.5).scores.tolist() == pytest.approx([0.9, 0.7])
    assert len(decode_retina(*answer, anchors, threshold=0.5, overlap=0.7)) == 3


def test_scrfd_reaches_from_the_corner_of_its_place() -> None:
    side, levels = (64, 96), {}
    for stride in (8, 16, 32):
        count = 2 * (side[0] // stride) * (side[1] // stride)
        levels[stride] = (np.zeros(count, "f4"), np.zeros((count, 4), "f4"), np.zeros((count, 10), "f4"))
    score, distance, points = levels[16]
    # Row 2, column 3 of a grid of 6 columns, second anchor: place (48, 32).
    number = 2 * (2 * 6 + 3) + 1
    score[number], distance[number], points[number] = 0.5, [1, 2, 3, 0.5], np.arange(10) / 10
    levels[8][0][7], levels[8][1][7] = 0.8, 1.0
    found = decode_scrfd(levels, side, threshold=0.5)
    assert found.scores.tolist() == pytest.approx([0.8, 0.5])
    assert found.boxes.tolist() == [[24 - 8, -8, 24 + 8, 8], [48 - 16, 32 - 32, 48 + 48, 32 + 8]]
    expected = np.array([48.0, 32.0]) + 16 * np.arange(10).reshape(5, 2) / 10
    np.testing.assert_allclose(found.landmarks[1], expected, rtol=1e-6)
    assert len(decode_scrfd(levels, side, threshold=0.500001)) == 1
    assert len(decode_scrfd(levels, side, threshold=0.9)) == 0


def test_faces_move_with_their_origin() -> None:
    faces = Detections(np.array([[10, 20, 30, 40]], "f4"), np.ones(1, "f4"), np.full((1, 5, 2), 25, "f4"))
    moved = faces.moved(3, 5)
    assert moved.boxes.tolist() == [[7, 15, 27, 35]]
    assert moved.landmarks[0, 0].tolist() == [22, 20]
