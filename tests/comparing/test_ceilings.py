"""What people give a metric to agree with: alpha, one person and strengths, with their intervals."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.comparing.made_runs import made_metric, made_run

import beholder
from beholder.stats.reliability import krippendorff_alpha

PROMPTS = 120


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """120 prompts, two methods."""
    rng = np.random.default_rng(0)
    rows = [
        {"id": f"{m}{p}", "prompt": f"p{p}", "method": m, "good": float(rng.normal())}
        for p in range(PROMPTS)
        for m in "xy"
    ]
    return made_run(tmp_path / "run", rows, [made_metric("good")])


def entry(run: Path, data: list[dict[str, Any]]) -> Any:
    return beholder.agree(run, data, calibration="none", resamples=400).questions[0]


def test_alphas_interval_is_that_of_drawn_prompts(run: Path) -> None:
    rng = np.random.default_rng(1)
    quality = rng.integers(1, 6, size=(PROMPTS, 2))
    said = np.clip(quality[:, :, None] + rng.integers(-1, 2, size=(PROMPTS, 2, 3)), 1, 5)
    data = [
        {"id": f"{m}{p}", "rater": k, "rating": int(said[p, at, k])}
        for p in range(PROMPTS)
        for at, m in enumerate("xy")
        for k in range(3)
    ]
    found = entry(run, data)
    # The same by hand: prompts drawn with all their outputs, each copy an item of its own.
    values = []
    for _ in range(400):
        drawn = said[rng.integers(0, PROMPTS, size=PROMPTS)].reshape(-1, 3)
        items = np.repeat(np.arange(len(drawn)), 3)
        values.append(krippendorff_alpha(drawn.ravel(), items, np.tile(np.arange(3), len(drawn))).value)
    low, high = np.quantile(np.array(values, dtype=float), [0.025, 0.975])
    assert found.alpha_interval.low == pytest.approx(low, abs=0.01)
    assert found.alpha_interval.high == pytest.approx(high, abs=0.01)
    assert found.alpha_interval.low < found.alpha.value < found.alpha_interval.high


def test_one_person_by_hand(run: Path) -> None:
    # Three people of whom two agree on every pair and the third turns it round: against the mean of the other two the
    # first and second see a tie where there is none (wrong), and the third is wrong on every pair.
    data = [
        {"id": f"{m}{p}", "rater": k, "rating": (1 if m == "x" else 2) if k < 2 else (2 if m == "x" else 1)}
        for p in range(PROMPTS)
        for m in "xy"
        for k in range(3)
    ]
    found = entry(run, data).person
    assert found.value == 0.0
    assert (found.interval.low, found.interval.high, found.interval.n_units) == (0.0, 0.0, PROMPTS)
    # On every other prompt all three agree instead.
    for row in data:
        if int(row["id"][1:]) % 2:
            row["rating"] = 1 if row["id"][0] == "x" else 2
    half = entry(run, data).person
    reach = 1.96 * 0.5 / math.sqrt(PROMPTS)
    assert half.value == 0.5
    assert (half.interval.low, half.interval.high) == pytest.approx((0.5 - reach, 0.5 + reach), abs=0.02)


def test_one_person_of_votes_stands_against_the_majority_of_the_others(run: Path) -> None:
    # Votes a, a, b: the first two face a tie of the others, the third their agreement on a. All three are wrong.
    votes = ["a", "a", "b"]
    data = [{"a": f"x{p}", "b": f"y{p}", "rater": k, "winner": votes[k]} for p in range(PROMPTS) for k in range(3)]
    assert entry(run, data).person.value == 0.0
    # Votes a, a, a, b: three of four are met by a majority for a, and two of the others against one.
    more = [*data, *({"a": f"x{p}", "b": f"y{p}", "rater": 3, "winner": "a"} for p in range(PROMPTS))]
    assert entry(run, more).person.value == pytest.approx(3 / 4)
    alone = entry(run, [row for row in data if row["rater"] == 0])
    assert alone.person is None


def test_strengths_have_the_intervals_of_their_log_odds(run: Path) -> None:
    # x wins 80 of 120 prompts: the log odds log 2 have the standard error 1/√(120·⅔·⅓), and a strength is half of them.
    data = [{"a": f"x{p}", "b": f"y{p}", "winner": "a" if p % 3 else "b"} for p in range(PROMPTS)]
    found = entry(run, data)
    half = math.log(2) / 2
    reach = 1.96 / math.sqrt(PROMPTS * 2 / 9) / 2
    assert found.strengths == pytest.approx({"x": half, "y": -half}, abs=1e-6)
    for name, value in found.strengths.items():
        interval = found.strength_intervals[name]
        assert (interval.low, interval.high) == pytest.approx((value - reach, value + reach), abs=0.05)


def test_sets_are_named_in_the_plural_of_their_unit(run: Path) -> None:
    data = [{"set_a": "x", "set_b": "y", "winner": "x", "rater": k} for k in range(2)]
    found = entry(run, data)
    assert found.alpha_interval.low is None
    assert found.metrics[0].accuracy.interval.note == "no interval: it needs two pairs of sets, got 1"
