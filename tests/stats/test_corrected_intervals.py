"""Intervals of the corrected values of SaD and PaD: by hand, over random sets, fixed numbers, and where none is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beholder.stats.resample import Judged, corrected_interval, judge
from beholder.stats.score_sets import Drawn, ScoreSettings, draw_scores, judge_scores, mean_of

MOVED = ("sad", "pad", "sad_mean", "pad_mean")
GOLDEN = {
    "sad": [0.2753643872, 1.634023079],
    "pad": [0.4262578673, 2.022936505],
    "sad_mean": [0.2517155218, 0.7900263657],
    "pad_mean": [0.534351825, 1.683894268],
}
"""Ends, made by this package (seed 7)."""


def sets(seed: int, n: int = 60, shift: float = 0.03) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(0.5, 0.05, (n, 3)), rng.normal(0.5 + shift, 0.06, (n - 10, 3))


def interval(found: Judged) -> tuple[list[float], list[float]]:
    assert found.corrected_low is not None
    assert found.corrected_high is not None
    return np.ravel(found.corrected_low).tolist(), np.ravel(found.corrected_high).tolist()


def test_both_ends_move_by_twice_the_null_mean() -> None:
    """Bootstrap draws 0.5 … 0.9 and a level of one half: quartiles 0.6 and 0.8. The null mean is 0.125."""
    boot, null = np.array([0.5, 0.6, 0.7, 0.8, 0.9]), np.array([0.0, 0.25])
    found = judge(0.6, boot=boot, null=null, level=0.5, lies_high=True)
    assert found.corrected == pytest.approx(0.475)
    assert (found.low, found.high) == pytest.approx((0.6, 0.8)), "the printed interval stays"
    assert (found.corrected_low, found.corrected_high) == pytest.approx((0.35, 0.55))
    other = judge(0.6, boot=boot, null=null, level=0.5)
    assert (other.corrected, other.corrected_low, other.corrected_high) == (found.corrected, None, None)


@pytest.mark.parametrize(
    ("corrected", "ends", "null_mean", "expected"),
    [
        (0.1, (0.1, 0.5), 0.1, (0.0, 0.3)),  # the lower end is cut at 0
        (-0.05, (0.1, 0.5), 0.15, (-0.05, 0.2)),  # the value is not: the lower end reaches out to it
        (-0.05, (0.1, 0.2), 0.15, (-0.05, 0.0)),  # both ends below 0
        (0.2, (0.7, 0.9), 0.1, (0.2, 0.7)),  # ends above the value
        (0.8, (0.7, 0.9), 0.1, (0.5, 0.8)),  # ends below it
    ],
)
def test_cut_and_reach(
    corrected: float, ends: tuple[float, float], null_mean: float, expected: tuple[float, float]
) -> None:
    assert corrected_interval(corrected, *ends, null_mean) == pytest.approx(expected)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**31), st.integers(3, 40), st.integers(3, 40), st.sampled_from([0.0, 0.01, 0.05]),
    st.sampled_from(["gen||ref", "ref||gen"]),
)  # fmt: skip
def test_a_corrected_value_lies_in_its_interval(seed: int, n: int, m: int, shift: float, direction: str) -> None:
    rng = np.random.default_rng(seed)
    ref, gen = rng.normal(0.5, 0.05, (n, 3)), rng.normal(0.5 + shift, 0.05, (m, 3))
    how = ScoreSettings(resamples=20, permutations=20, companions=False, direction=direction, seed=seed)  # type: ignore[arg-type]
    found = judge_scores(ref, gen, how)
    for name in MOVED:
        one = found[name]
        low, high = interval(one)
        assert one.null_mean is not None
        np.testing.assert_array_equal(one.corrected, one.value - one.null_mean)
        assert (low <= np.ravel(one.corrected)).all()
        assert (high >= np.ravel(one.corrected)).all()
        assert min(high) >= 0


def test_fixed_numbers() -> None:
    found = judge_scores(*sets(7), ScoreSettings(resamples=200, permutations=200, companions=False))
    got = {name: [ends[0] for ends in interval(found[name])] for name in MOVED}
    assert got == {name: pytest.approx(ends, rel=1e-6) for name, ends in GOLDEN.items()}


def test_no_draw_is_added_and_nothing_else_changes() -> None:
    made = sets(1)
    how = ScoreSettings(resamples=50, permutations=50)
    drawn = draw_scores(*made, how)
    found = judge_scores(*made, how)
    for name, one in drawn.items():
        plain = judge(one.value, boot=one.boot, null=one.null, seen=one.seen, signed=name in ("mean_difference",))
        for part in ("value", "low", "high", "null_mean", "corrected"):
            np.testing.assert_array_equal(getattr(found[name], part), getattr(plain, part))


def test_where_there_is_none() -> None:
    ref, gen = sets(2)
    found = judge_scores(ref, gen, ScoreSettings(resamples=20, permutations=20))
    others = set(found) - set(MOVED)
    assert others == {"w1", "jsd", "mean_difference", "dependence", "dependence_mean"}
    assert all(found[name].corrected_low is None for name in others)
    for lacking in ({"resamples": 0}, {"permutations": 0}, {"density": "kde", "pairs": False}):
        how = ScoreSettings(**({"resamples": 20, "permutations": 20} | lacking))  # type: ignore[arg-type]
        none = judge_scores(ref, gen, how)
        assert [none[name].corrected_low for name in MOVED] == [None] * 4, lacking
        parts = [draw_scores(ref, gen, how)["sad"].column(c) for c in range(3)]
        assert mean_of(parts, how, apart=False, lies_high=True).corrected_high is None, lacking


def test_means_of_chosen_attributes() -> None:
    how = ScoreSettings(resamples=100, permutations=99)
    drawn = draw_scores(*sets(3), how)
    parts = [drawn["sad"].column(c) for c in range(3)]
    joint = interval(mean_of(parts, how, apart=False, lies_high=True))
    np.testing.assert_allclose(joint, interval(judge_scores(*sets(3), how)["sad_mean"]))
    for apart in (False, True):
        one = mean_of(parts, how, apart=apart, lies_high=True)
        ((low,), (high,)) = interval(one)
        assert low <= float(one.value - one.null_mean) <= high  # type: ignore[operator]
    assert mean_of([Drawn(np.array(5.0), *[np.arange(9.0)] * 2)], how, apart=False).corrected_low is None
