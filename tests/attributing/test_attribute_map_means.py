"""Means of map statistics over attributes: the draws of one number belong together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from beholder.attributing.analyse import _add_map_means
from beholder.attributing.settings import AttributeSettings
from beholder.stats.map_sets import JudgedMap
from beholder.stats.region_sets import JudgedRegions
from beholder.stats.resample import judge


def test_intervals_are_those_of_the_mean_of_each_draw() -> None:
    rng = np.random.default_rng(4)
    mar, kl, jsd, null = (rng.normal(5, 1, (3, 200)) for _ in range(4))
    maps = [
        JudgedMap(np.zeros((2, 2)), None, None, None, None, None, {"mar": judge(5.0 + k)},
                  {"jsd": judge(3.0 + k)} if k else {}, mar_draws=(mar[k], null[k]), jsd_draws=jsd[k])
        for k in range(3)
    ]  # fmt: skip
    regions = [JudgedRegions(judge(np.zeros(4)), judge(1.0 + k), kl[k], null[k]) for k in range(3)]
    summary: dict[str, Any] = {}
    _add_map_means(summary, maps, regions, AttributeSettings(level=0.9))
    assert [summary[f"{name}_mean"] for name in ("mar", "regional_kl", "placement_jsd")] == pytest.approx([6, 2, 4.5])
    for name, draws in (("mar", mar), ("regional_kl", kl), ("placement_jsd", jsd[1:])):
        means = sorted(sum(column) / len(column) for column in draws.T)
        low, high = np.interp([0.05 * 199, 0.95 * 199], np.arange(200), means)
        assert (summary[f"{name}_mean_low"], summary[f"{name}_mean_high"]) == pytest.approx((low, high))
    above = sum(under >= 6 for under in null.mean(axis=0))
    assert summary["mar_mean_p"] == pytest.approx((1 + above) / 201)
    assert summary["placement_jsd_mean_p"] is None, "null draws of two attributes are made apart"
