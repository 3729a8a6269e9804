from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from beholder._errors import OptionError
from beholder.stats import bootstrap, mean_interval
from beholder.stats.bootstrap import t_interval


def test_two_units_by_enumeration() -> None:
    # Units with means 0 and 1: a resample has mean 0, ½ or 1 with chances ¼, ½, ¼, so at 95 % the ends are 0 and 1,
    # and at 40 % both ends are ½.
    found = mean_interval([0.0, 1.0], [1, 1], unit="prompt")
    assert (found.low, found.high, found.method, found.n_units) == (0.0, 1.0, "bootstrap-percentile", 2)
    assert found.note == "optimistic: the interval rests on 2 prompts only"
    narrow = mean_interval([0.0, 1.0], [1, 1], level=0.4)
    assert (narrow.low, narrow.high) == (0.5, 0.5)


def test_the_manual_says_when_an_interval_is_optimistic() -> None:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert f"fewer than {bootstrap.FEW_UNITS} give one with a note" in " ".join(page.split())
    for units in (bootstrap.FEW_UNITS - 1, bootstrap.FEW_UNITS):
        note = mean_interval(np.arange(units), np.ones(units), resamples=10).note
        assert (note is None) == (units == bootstrap.FEW_UNITS)


def test_against_all_resamples() -> None:
    # Five units with unequal counts: the percentiles of all 5**5 equally likely resamples.
    sums, counts = np.array([1.0, 4.0, 0.5, 3.0, 2.0]), np.array([2, 5, 1, 3, 4])
    means = [sums[list(d)].sum() / counts[list(d)].sum() for d in itertools.product(range(5), repeat=5)]
    low, high = np.quantile(means, [0.025, 0.975])
    found = mean_interval(sums, counts, resamples=40_000)
    assert found.low == pytest.approx(low, abs=0.01)
    assert found.high == pytest.approx(high, abs=0.01)


def test_golden_interval() -> None:
    # Golden value: this code with numpy 2.4.6, PCG64, seed 0. Should numpy ever change the draws of a seed, published
    # intervals change with it, and this test says so. Beside it the exact distribution, by convolution: the sum of 20
    # draws from 0 … 19.
    found = mean_interval(np.arange(20.0), np.ones(20), seed=0)
    assert (found.low, found.high) == pytest.approx((6.95, 11.9), abs=1e-12)
    chances = np.array([1.0])
    for _ in range(20):
        chances = np.convolve(chances, np.full(20, 1 / 20))
    low, high = (np.searchsorted(np.cumsum(chances), q) / 20 for q in (0.025, 0.975))
    assert found.low == pytest.approx(low, abs=0.2)
    assert found.high == pytest.approx(high, abs=0.2)


def test_coverage_on_clustered_data() -> None:
    # 40 prompts × 5 images; the prompt moves the score more than the image does. True mean 0. Over 300 data sets the
    # 95 % interval over prompts must hold the truth in about 95 % of them (sd of the share: 1.3 %); drawing rows
    # instead gives far less, so the test can tell the two apart.
    rng = np.random.default_rng(7)
    by_prompt, by_row = [], []
    for data in range(300):
        scores = rng.normal(size=(40, 1)) + 0.5 * rng.normal(size=(40, 5))
        prompts = mean_interval(scores.sum(1), np.full(40, 5), seed=data, resamples=400)
        rows = mean_interval(scores.ravel(), np.ones(200), seed=data, resamples=400)
        by_prompt.append(prompts.low <= 0 <= prompts.high)  # type: ignore[operator]
        by_row.append(rows.low <= 0 <= rows.high)  # type: ignore[operator]
    assert 0.91 <= np.mean(by_prompt) <= 0.98
    assert np.mean(by_row) < 0.75


def test_width_is_that_of_theory() -> None:
    # The mean of U units of sd σ: half width 1.96 σ/√U.
    values = np.random.default_rng(1).normal(size=2000)
    found = mean_interval(values, np.ones(2000), resamples=4000)
    expected = 1.96 * values.std() / math.sqrt(2000)
    assert (found.high - found.low) / 2 == pytest.approx(expected, rel=0.05)  # type: ignore[operator]


def test_many_units_take_the_normal_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    sums, counts = rng.normal(1, 1, 3000), rng.integers(1, 5, 3000)
    drawn = mean_interval(sums, counts, resamples=4000)
    monkeypatch.setattr(bootstrap, "MOST_RESAMPLED_UNITS", 2999)
    normal = mean_interval(sums, counts)
    assert (drawn.method, normal.method) == ("bootstrap-percentile", "normal")
    assert normal.note is None
    width = drawn.high - drawn.low  # type: ignore[operator]
    assert normal.low == pytest.approx(drawn.low, abs=0.05 * width)
    assert normal.high == pytest.approx(drawn.high, abs=0.05 * width)


def test_the_limit_is_twenty_thousand() -> None:
    assert bootstrap.MOST_RESAMPLED_UNITS == 20_000
    values = np.random.default_rng(3).normal(size=20_001)
    assert mean_interval(values, np.ones(20_001)).method == "normal"
    assert mean_interval(values[1:], np.ones(20_000), resamples=20).method == "bootstrap-percentile"


def test_the_order_of_units_does_not_matter() -> None:
    rng = np.random.default_rng(4)
    sums, counts = rng.normal(size=50), rng.integers(1, 4, 50)
    order = rng.permutation(50)
    assert mean_interval(sums, counts, seed=3) == mean_interval(sums[order], counts[order], seed=3)


def test_the_seed_matters_and_nothing_else_does() -> None:
    values = np.random.default_rng(5).normal(size=50)
    first = mean_interval(values, np.ones(50), seed=1)
    np.random.seed(99)
    assert mean_interval(values, np.ones(50), seed=1) == first
    assert mean_interval(values, np.ones(50), seed=2) != first


def test_blocks_do_not_change_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(6).normal(size=64)
    whole = mean_interval(values, np.ones(64), resamples=100)
    monkeypatch.setattr(bootstrap, "_BLOCK", 64 * 7)
    assert mean_interval(values, np.ones(64), resamples=100) == whole


def test_equal_values_give_a_point() -> None:
    found = mean_interval(np.full(30, 0.3) * 3, np.full(30, 3))
    assert (found.low, found.high) == (pytest.approx(0.3, abs=1e-15), found.low)


def test_no_interval_and_why() -> None:
    one = mean_interval([3.0], [2], unit="concept")
    assert (one.low, one.high, one.method) == (None, None, None)
    assert one.note == "no interval: it needs two concepts, got 1"
    assert mean_interval([], []).note == "no interval: it needs two units, got 0"
    assert mean_interval([1.0, 2.0], [1, 1], resamples=0).note == "no interval was asked for"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: mean_interval([1.0, 2.0], [1, 1], level=95), "between 0 and 1"),
        (lambda: mean_interval([1.0, 2.0], [1, 1], resamples=-1), "0 or more"),
        (lambda: mean_interval([1.0, 2.0], [1]), "one length"),
        (lambda: mean_interval([1.0, float("nan")], [1, 1]), "finite"),
        (lambda: mean_interval([1.0, 2.0], [1, 0]), "above 0"),
    ],
)
def test_wrong_use(call, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        call()


def test_the_caveat_stands_where_the_plain_bootstrap_is_too_narrow() -> None:
    # 2,000 data sets: the shares have an sd of 0.5 %.
    rng = np.random.default_rng(31)
    shares = {}
    for units in (10, 30):
        held = 0
        for data in range(2000):
            found = mean_interval(rng.normal(size=units), np.ones(units), seed=data)
            held += found.low <= 0 <= found.high
            assert (found.note is None) == (units >= 30)
        shares[units] = held / 2000
    assert shares[10] < 0.93 <= shares[30] <= 0.97


def test_a_handful_of_seeds_has_a_t_interval() -> None:
    values = [0.31, 0.29, 0.35, 0.33]
    expected = stats.t.interval(0.9, 3, loc=np.mean(values), scale=stats.sem(values))
    found = t_interval(values, unit="seed", level=0.9)
    assert (found.low, found.high) == pytest.approx(expected)
    assert (found.method, found.n_units, found.note) == ("t", 4, None)
    one = t_interval([0.3], unit="seed")
    assert (one.low, one.high, one.note) == (None, None, "no interval: it needs two seeds, got 1")
    with pytest.raises(OptionError, match="between 0 and 1"):
        t_interval(values, level=95)
