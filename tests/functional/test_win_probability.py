from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder._errors import OptionError
from beholder.functional import grouped_win_probabilities, pick_score, win_probabilities


def test_pick_score_is_scale_times_cosine() -> None:
    # K4, S2: cos .6 and -.6 with the checkpoint's e^τ, unscaled by anything else.
    scale = math.exp(4.6052)
    found = pick_score([[3.0, 4.0], [-3.0, 4.0]], [[1.0, 0.0], [1.0, 0.0]], scale=scale)
    np.testing.assert_allclose(found.values, [0.6 * scale, -0.6 * scale], rtol=1e-6)
    assert np.abs(pick_score([[1.0, 1.0]], [[2.0, 2.0]], scale=scale).values).max() <= scale


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_that_is_none(scale: float) -> None:
    with pytest.raises(OptionError, match="positive finite"):
        pick_score([[1.0]], [[1.0]], scale=scale)


def test_probabilities_by_hand() -> None:
    # A difference of ln 3 is odds of 3 to 1; three equal scores are thirds.
    np.testing.assert_allclose(win_probabilities([20 + math.log(3), 20]), [0.75, 0.25], rtol=1e-12)
    np.testing.assert_allclose(win_probabilities([21.3, 21.3, 21.3]), [1 / 3] * 3, rtol=1e-12)


@pytest.mark.parametrize("scores", [[1000.0, 999.0], [-1000.0, -1001.0], [1e308, 1e308], [0.0, -1e308]])
def test_no_overflow(scores: list[float]) -> None:
    found = win_probabilities(scores)
    assert np.isfinite(found).all()
    assert found.sum() == pytest.approx(1)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=8))
def test_they_sum_to_one_and_keep_the_order(scores: list[float]) -> None:
    found = win_probabilities(scores)
    assert found.sum() == pytest.approx(1)
    assert (found[np.argsort(scores)][:-1] <= found[np.argsort(scores)][1:] + 1e-15).all()
    np.testing.assert_allclose(win_probabilities(np.array(scores) + 7.5), found, rtol=1e-9)


def test_groups_are_apart() -> None:
    scores = [1.0, 2.0, 500.0, 501.0, 499.0]
    found = grouped_win_probabilities(scores, [0, 2, 5])
    assert found.tolist() == [*win_probabilities(scores[:2]), *win_probabilities(scores[2:])]
    assert grouped_win_probabilities([], [0]).shape == (0,)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: win_probabilities([21.0]), "two or more candidates.*got 1"),
        (lambda: win_probabilities([]), "two or more candidates.*got 0"),
        (lambda: grouped_win_probabilities([1.0, 2.0, 3.0], [0, 2, 3]), "two or more candidates"),
        (lambda: grouped_win_probabilities([1.0, 2.0], [0, 3]), "offsets must hold"),
        (lambda: win_probabilities([1.0, float("nan")]), "finite"),
        (lambda: win_probabilities([[1.0, 2.0]]), "offsets must hold"),
    ],
)
def test_refusals(call, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        call()
