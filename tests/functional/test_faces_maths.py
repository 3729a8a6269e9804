"""Alignment, matching, suppression and clamping of faces, against independent computations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import least_squares

from beholder._errors import NoValue, OptionError
from beholder.functional.faces import (
    ARCFACE_TEMPLATE,
    Faces,
    apply_transform,
    box_areas,
    clamp_boxes,
    largest,
    match_faces,
    nms,
    similarity_transform,
)
from beholder.functional.similarity import cosine_matrix

TEMPLATE = np.asarray(ARCFACE_TEMPLATE)


def by_solver(points: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The best similarity by a general least-squares solver, which knows nothing of singular values."""

    def residual(x: np.ndarray) -> np.ndarray:
        a, b, tx, ty = x
        return (points @ np.array([[a, b], [-b, a]]) + [tx, ty] - target).ravel()

    a, b, tx, ty = least_squares(residual, [1.0, 0.0, 0.0, 0.0], xtol=1e-14, ftol=1e-14, gtol=1e-14).x
    return np.array([[a, -b, tx], [b, a, ty]])


@pytest.mark.parametrize("seed", range(8))
def test_umeyama_is_the_least_squares_similarity(seed: int) -> None:
    # The linear problem in (a, b, t) has one minimum, so the solver finds the same map whatever the noise.
    generator = np.random.default_rng(seed)
    points = TEMPLATE * generator.uniform(0.5, 3) + generator.normal(0, 6, (5, 2)) + generator.uniform(-50, 50, 2)
    np.testing.assert_allclose(similarity_transform(points, TEMPLATE), by_solver(points, TEMPLATE), atol=1e-6)


def test_a_turned_scaled_and_shifted_face_lands_on_the_template() -> None:
    angle, scale = 0.7, 2.3
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    face = scale * TEMPLATE @ turn.T + [40.0, -13.0]
    landed = apply_transform(similarity_transform(face, 2 * TEMPLATE), face)
    np.testing.assert_allclose(landed, 2 * TEMPLATE, atol=1e-3)


def test_the_template_itself_needs_no_change() -> None:
    np.testing.assert_allclose(similarity_transform(TEMPLATE, TEMPLATE), [[1, 0, 0], [0, 1, 0]], atol=1e-12)


def test_a_mirrored_face_is_never_mirrored_back() -> None:
    mirrored = TEMPLATE * [-1.0, 1.0] + [112.0, 0.0]
    linear = similarity_transform(mirrored, TEMPLATE)[:, :2]
    assert np.linalg.det(linear) > 0


@pytest.mark.parametrize("angle", [0.0, 0.4, 1.5, 3.0])
def test_points_on_a_line_keep_the_orientation(angle: float) -> None:
    direction = np.array([np.cos(angle), np.sin(angle)])
    points = np.linspace(0, 20, 5)[:, None] * direction + 3.0
    matrix = similarity_transform(points, np.linspace(5, 45, 5)[:, None] * [1.0, 0.0])
    assert np.linalg.det(matrix[:, :2]) == pytest.approx(4.0)
    np.testing.assert_allclose(apply_transform(matrix, points)[:, 1], 0.0, atol=1e-9)


@pytest.mark.parametrize("points", [np.full((5, 2), 37.25), np.full((5, 2), np.nan)])
def test_points_without_a_similarity_are_a_failure_and_no_crash(points: np.ndarray) -> None:
    with pytest.raises(NoValue, match="landmarks") as caught:
        similarity_transform(points, TEMPLATE)
    assert caught.value.status == "failed"


def test_shapes_are_checked() -> None:
    for points, target in ((np.zeros((5, 3)), np.zeros((5, 3))), (np.zeros((4, 2)), TEMPLATE), (np.zeros(2),) * 2):
        with pytest.raises(OptionError, match="equal shapes"):
            similarity_transform(points, target)


def plain_overlap(a: np.ndarray, b: np.ndarray, offset: float) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0]) + offset
    height = min(a[3], b[3]) - max(a[1], b[1]) + offset
    shared = max(width, 0) * max(height, 0)
    areas = [(box[2] - box[0] + offset) * (box[3] - box[1] + offset) for box in (a, b)]
    return shared / (sum(areas) - shared)


@pytest.mark.parametrize(("seed", "offset"), [(0, 0.0), (1, 1.0), (2, 0.0), (3, 1.0)])
def test_suppression_is_that_of_every_pair(seed: int, offset: float) -> None:
    generator = np.random.default_rng(seed)
    corners = generator.uniform(0, 60, (40, 2))
    boxes = np.concatenate([corners, corners + generator.uniform(5, 30, (40, 2))], axis=1).astype(np.float32)
    scores = generator.uniform(0, 1, 40)
    kept: list[int] = []
    for number in sorted(range(40), key=lambda i: -scores[i]):
        if all(plain_overlap(boxes[number], boxes[other], offset) <= 0.4 for other in kept):
            kept.append(number)
    found = nms(boxes, scores, threshold=0.4, offset=offset)
    assert found.tolist() == kept
    assert len(kept) < 40


def test_suppression_of_nothing_and_of_points() -> None:
    assert nms(np.zeros((0, 4)), [], threshold=0.4).tolist() == []
    assert nms([[3, 3, 3, 3], [3, 3, 3, 3]], [0.5, 0.5], threshold=0.4, offset=0).tolist() == [0, 1]


def test_boxes_are_cut_to_the_picture() -> None:
    cut = clamp_boxes([[-4, -1, 3, 2], [90, 5, 130, 70], [200, 200, 300, 300]], 100, 60)
    assert cut.tolist() == [[0, 0, 3, 2], [90, 5, 100, 60], [100, 60, 100, 60]]
    assert box_areas(cut).tolist() == [6.0, 550.0, 0.0]
    assert clamp_boxes([], 10, 10).shape == (0, 4)
    with pytest.raises(OptionError, match=r"\(k, 4\)"):
        clamp_boxes([[1, 2, 3]], 10, 10)


def faces(angles: list[float], areas: list[float]) -> Faces:
    radians = np.deg2rad(angles)
    return Faces(np.stack([np.cos(radians), np.sin(radians)], axis=1) * 3.0, np.asarray(areas))


def test_largest_looks_at_area_only() -> None:
    result = match_faces(faces([0, 90], [10, 20]), faces([90, 60, 0], [5, 7, 6]), matching="largest")
    assert result.pairs.tolist() == [[1, 1]]
    assert result.values[0] == pytest.approx(np.cos(np.deg2rad(30)), abs=1e-6)
    assert largest([3.0, 3.0]) == 1


def test_best_may_use_a_face_twice() -> None:
    result = match_faces(faces([0, 10], [1, 1]), faces([5, 80], [1, 9]), matching="best")
    assert result.pairs.tolist() == [[0, 0], [1, 0]]
    np.testing.assert_allclose(result.values, np.cos(np.deg2rad([5, 5])), atol=1e-6)


def test_assignment_does_not_fall_for_the_greedy_trap() -> None:
    # Greedy takes 0-0 (cos 5°) and is left with 1-1 (cos 170°); the best sum pairs them crosswise.
    references, found = faces([0, 60], [1, 1]), faces([5, -50], [1, 1])
    result = match_faces(references, found, matching="assignment")
    table = cosine_matrix(references.embeddings, found.embeddings).values
    assert table.argmax() == 0
    assert result.pairs.tolist() == [[0, 1], [1, 0]]
    best = max(sum(table[i, p] for i, p in enumerate(order)) for order in itertools.permutations(range(2)))
    assert result.values.sum() == pytest.approx(best)


@pytest.mark.parametrize("seed", range(5))
def test_assignment_is_the_best_of_all_orders(seed: int) -> None:
    generator = np.random.default_rng(seed)
    a, b = (Faces(generator.normal(size=(k, 6)), np.ones(k)) for k in (3, 5))
    table = cosine_matrix(a.embeddings, b.embeddings).values
    best = max(sum(table[i, p] for i, p in enumerate(order)) for order in itertools.permutations(range(5), 3))
    assert match_faces(a, b, matching="assignment").values.sum() == pytest.approx(best)


def test_no_face_gives_no_pair_and_no_direction_is_told() -> None:
    nobody = Faces(np.zeros((0, 2)), np.zeros(0))
    for mode in ("largest", "best", "assignment"):
        assert len(match_faces(nobody, faces([0], [1]), matching=mode).values) == 0
        assert len(match_faces(faces([0], [1]), nobody, matching=mode).values) == 0
        assert match_faces(faces([0], [1]), Faces(np.zeros((1, 2)), np.ones(1)), matching=mode).degenerate.all()
    with_zero = Faces(np.array([[0.0, 0.0], [-1.0, 0.1]]), np.ones(2))
    assert match_faces(faces([0], [1]), with_zero, matching="best").pairs.tolist() == [[0, 1]]
    with pytest.raises(OptionError, match="matching must be one of"):
        match_faces(nobody, nobody, matching="greedy")
