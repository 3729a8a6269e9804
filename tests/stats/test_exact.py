from __future__ import annotations

import math
import statistics
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder.stats import ExactSum, Moments, weighted_mean

FINITE = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)
SCORES = st.floats(-1e6, 1e6).filter(lambda v: v == 0 or abs(v) > 1e-100)


@given(st.lists(FINITE, max_size=40))
def test_the_sum_is_exact(values: list[float]) -> None:
    exact = sum((Fraction(v) for v in values), Fraction(0))
    numerator, denominator = ExactSum(values).ratio()
    assert Fraction(numerator, denominator) == exact
    assert float(ExactSum(values)) == float(exact) == math.fsum(values)


def test_a_sum_that_float64_gets_wrong() -> None:
    values = [1e16, 1.0, -1e16, 1e-8] * 1000
    assert float(ExactSum(values)) == 1000.00001
    assert float(np.sum(values)) != 1000.00001, "plain summation must fail here, or this test shows nothing"
    assert float(ExactSum([5e-324, 5e-324])) == 1e-323
    assert float(ExactSum()) == 0.0


@given(st.lists(st.lists(FINITE, max_size=8), max_size=5), st.randoms())
def test_merging_is_exact_in_any_order(parts: list[list[float]], random) -> None:
    whole = ExactSum([v for part in parts for v in part])
    shuffled = [ExactSum(random.sample(part, len(part))) for part in parts]
    random.shuffle(shuffled)
    merged = ExactSum()
    for part in shuffled:
        merged.merge(part)
    assert Fraction(*merged.ratio()) == Fraction(*whole.ratio())


@given(st.lists(SCORES, min_size=2, max_size=30))
def test_moments_are_those_of_exact_arithmetic(values: list[float]) -> None:
    moments = Moments(values)
    exact = [Fraction(v) for v in values]
    mean = sum(exact, Fraction(0)) / len(exact)
    variance = sum(((v - mean) ** 2 for v in exact), Fraction(0)) / (len(exact) - 1)
    assert moments.n == len(values)
    assert moments.mean() == float(mean)
    assert moments.sd() == math.sqrt(variance)


def test_the_sd_of_nearly_equal_values() -> None:
    # 1e8 + (0, 1, 2): the textbook formula in float64 loses all digits of the variance, which is 1.
    values = np.array([1e8, 1e8 + 1, 1e8 + 2]) * (1 + 2**-30)
    assert Moments(values).sd() == pytest.approx(statistics.stdev(values.tolist()), rel=1e-12)
    assert Moments([0.1] * 1000).sd() == 0.0
    assert Moments([0.1] * 1000).mean() == 0.1


@given(st.lists(st.lists(SCORES, max_size=6), min_size=1, max_size=5))
def test_shards_of_moments(parts: list[list[float]]) -> None:
    whole = Moments([v for part in parts for v in part])
    for order in (parts, parts[::-1]):
        merged = Moments.merged(Moments(part) for part in order)
        assert (merged.n, merged.mean(), merged.sd()) == (whole.n, whole.mean(), whole.sd())


def test_too_few_values() -> None:
    assert Moments().mean() is None
    assert Moments().sd() is None
    assert Moments([3.0]).mean() == 3.0
    assert Moments([3.0]).sd() is None


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        ExactSum([1.0, bad])


def test_weighted_mean() -> None:
    assert weighted_mean([1.0, 0.0], [6, 12]) == 6 / 18
    assert weighted_mean([0.1, 0.1, 0.1], [1, 2, 3]) == 0.1
    assert weighted_mean([], []) is None
    assert weighted_mean([1.0], [0.0]) is None


def test_sums_hold_a_block_beside_the_values_and_no_more() -> None:
    values = np.random.default_rng(0).normal(size=400_000)
    tracemalloc.start()
    try:
        assert weighted_mean(values, np.ones(len(values))) == Moments(values).mean() == math.fsum(values) / len(values)
        assert tracemalloc.get_traced_memory()[1] < 4 * values.nbytes
    finally:
        tracemalloc.stop()
