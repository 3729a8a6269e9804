"""Intervals of weighted sums of means: draws of whole units, with gaps."""

from __future__ import annotations

import numpy as np
import pytest

from beholder._errors import OptionError
from beholder.stats.bootstrap import mean_interval
from beholder.stats.mean_sums import mean_sum_interval

WEIGHTS = [0.5, 0.2, 0.3]


def units(n: int, seed: int = 5) -> np.ndarray:
    """(n, 3) values that go together, the second of them missing in every third unit, sorted by the first."""
    rng = np.random.default_rng(seed)
    first = np.sort(rng.normal(50, 10, n))
    table = np.column_stack([first, first + rng.normal(0, 3, n), 100 - first + rng.normal(0, 3, n)])
    table[::3, 1] = np.nan
    return table


def drawn_sums(table: np.ndarray, *, seed: int, resamples: int) -> list[float]:
    """Draw by draw: mean of what is there in each column, times its weight."""
    rng = np.random.default_rng(seed)
    found = []
    for chosen in rng.integers(0, len(table), size=(resamples, len(table))):
        columns = [[value for value in table[chosen, k] if value == value] for k in range(3)]
        if all(columns):
            found.append(sum(weight * sum(own) / len(own) for weight, own in zip(WEIGHTS, columns)))
    return found


def test_interval_is_that_of_plain_draws() -> None:
    table = units(40)
    found = mean_sum_interval(table, WEIGHTS, seed=3, resamples=300, level=0.9)
    sums = drawn_sums(table, seed=3, resamples=300)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(sums, [0.05, 0.95])), abs=1e-9)
    assert (found.method, found.n_units) == ("bootstrap-percentile", 40)
    turned = mean_sum_interval(table[::-1], WEIGHTS, seed=3, resamples=300, level=0.9)
    assert (turned.low, turned.high) == (found.low, found.high), "the order of the units does not matter"


def test_units_are_drawn_with_all_of_their_values() -> None:
    first = np.arange(40.0)
    opposite = mean_sum_interval(np.column_stack([first, -first]), [0.5, 0.5])
    assert (opposite.low, opposite.high) == pytest.approx((0, 0), abs=1e-12), (
        "what goes up in one goes down in the other"
    )


def test_one_column_is_the_interval_of_a_mean() -> None:
    values = np.random.default_rng(1).normal(size=60)
    mean = mean_interval(values, np.ones(60), seed=7)
    alone = mean_sum_interval(values[:, None], [1.0], seed=7)
    assert (alone.low, alone.high) == pytest.approx((mean.low, mean.high), abs=1e-12)


def test_draws_without_a_mean_are_left_out_and_said() -> None:
    table = units(8)
    table[:6, 1] = np.nan
    table[6:, 1] = [40.0, 60.0]
    table = table[np.argsort(table[:, 0])]
    sums = drawn_sums(table, seed=0, resamples=400)
    found = mean_sum_interval(table, WEIGHTS, resamples=400)
    assert 0 < len(sums) < 400
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(sums, [0.025, 0.975])), abs=1e-9)
    assert f"leaves out {400 - len(sums)} of 400 draws" in (found.note or "")


def test_no_interval_has_a_reason() -> None:
    table = units(8)
    table[1:, 1] = np.nan
    table[0, 1] = 50
    found = mean_sum_interval(table, WEIGHTS)
    assert (found.low, found.high, found.note) == (None, None, "no interval: every mean needs two units, one has 1")
    assert mean_sum_interval(units(8), WEIGHTS, resamples=0).low is None


def test_many_units_have_the_normal_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    table = units(3000)
    drawn = mean_sum_interval(table, WEIGHTS, resamples=2000)
    monkeypatch.setattr("beholder.stats.mean_sums.MOST_RESAMPLED_UNITS", 100)
    found = mean_sum_interval(table, WEIGHTS)
    assert found.method == "normal"
    width = (drawn.high or 0) - (drawn.low or 0)
    assert (found.low, found.high) == pytest.approx((drawn.low, drawn.high), abs=width / 10)


@pytest.mark.parametrize(
    ("values", "weights", "more"),
    [
        ([1.0, 2.0], [1.0], {}),
        ([[1.0], [2.0]], [1.0, 1.0], {}),
        ([[1.0], [float("nan")]], [1.0], {}),
        ([[1.0], [float("inf")]], [1.0], {}),
        ([[1.0], [2.0]], [1.0], {"level": 1.0}),
        ([[1.0], [2.0]], [1.0], {"resamples": -1}),
    ],
)
def test_what_does_not_fit_is_refused(values: list, weights: list, more: dict) -> None:
    with pytest.raises(OptionError):
        mean_sum_interval(values, weights, **more)
