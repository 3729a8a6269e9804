"""What docs/attributes.md says of the intervals of SaD and PaD, on data sets whose divergence is known."""

from __future__ import annotations

import pytest
from tools.attribute_coverage import CASES, measure


def test_percentile_intervals_of_divergences_lie_high_and_corrected_ones_do_not() -> None:
    none = measure(CASES["none"], 100, 8)
    # Never 0, and those of means lie above the value itself.
    assert [found.percentile for found in none.values()] == [0.0] * 4
    assert [none[name].own for name in ("sad_mean", "pad_mean")] == [0.0, 0.0]
    assert [found.corrected for found in none.values()] == [1.0] * 4
    small = measure(CASES["small"], 100, 8)
    assert [small[name].percentile for name in ("sad_mean", "pad_mean")] == [0.0, 0.0]
    assert min(small[name].corrected for name in ("sad_mean", "pad_mean")) >= 0.875


def test_large_divergences_are_held_either_way() -> None:
    large = measure(CASES["large"], 500, 6)
    # ½·(2.25 + 1 − 1 − ln 2.25) = 0.7195 for one attribute, less the floor's share.
    assert large["sad"].truth == pytest.approx(0.7195, abs=1e-3)
    assert min(min(found.percentile, found.corrected) for found in large.values()) >= 0.5
