"""Numbers are printed with as many digits as their interval supports."""

from __future__ import annotations

import math

import pytest

from beholder.report.numbers import format_estimate, format_interval, format_number, format_spread, format_value


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (0.27527, 0.2701, 0.2804, "0.2753 [0.2701, 0.2804]"),
        (27.527, 27.01, 28.04, "27.53 [27.01, 28.04]"),
        (1234.5, 1000.0, 1500.0, "1234 [1000, 1500]"),
        (0.5, 0.1, 0.9, "0.50 [0.10, 0.90]"),
        (-0.2, -0.3, 0.00001, "-0.20 [-0.30, 0.00]"),
        (0.25, 0.25, 0.25, "0.2500 [0.2500, 0.2500]"),
        (0.00012345, 0.0001, 0.00015, "0.000123 [0.000100, 0.000150]"),
        (0.3, None, None, "0.3000"),
        (None, None, None, "—"),
    ],
)
def test_an_estimate_has_two_digits_of_its_half_width(
    value: float | None, low: float | None, high: float | None, text: str
) -> None:
    assert format_estimate(value, low, high) == text


def test_value_and_interval_alone_are_the_parts_of_the_estimate() -> None:
    assert format_value(0.27527, 0.2701, 0.2804) == "0.2753"
    assert format_interval(0.27527, 0.2701, 0.2804) == "[0.2701, 0.2804]"
    assert format_interval(None, None, None) == "—"


@pytest.mark.parametrize("decimals", range(8))
@pytest.mark.parametrize("value", [0.0, -0.0, 1e-9, -1e-9, 0.04, -0.04, 123.456])
def test_no_number_prints_as_minus_zero_or_hides_that_it_is_not_zero(value: float, decimals: int) -> None:
    text = format_number(value, decimals)
    assert not (text.startswith("-") and float(text) == 0)
    assert (float(text) == 0) == (value == 0)
    assert math.isclose(float(text), value, abs_tol=0.5 * 10**-decimals)


def test_a_mean_over_seeds_shows_its_standard_deviation() -> None:
    assert format_spread(0.27527, 0.0031) == ("0.2753", "± 0.0031")
    assert format_spread(0.27527, None) == ("0.2753", "—")
    assert format_spread(None, None) == ("—", "—")


def test_an_interval_of_rounding_errors_has_no_digits_of_its_own() -> None:
    assert format_estimate(0.1 + 0.2, 0.3, 0.1 + 0.2) == "0.3000 [0.3000, 0.3000]"
    assert format_estimate(3e-9, 2e-9, 4e-9) == "3.0e-09 [2.0e-09, 4.0e-09]"
