"""Prompts of one concept are alike: what that does to variance, plans, intervals and p-values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as reference

from beholder.stats import bca
from beholder.stats.bca import bca_interval, bca_intervals
from beholder.stats.bootstrap import resampled_deviations
from beholder.stats.compare import Cells, compare_cells
from beholder.stats.power import detectable_difference, needed
from beholder.stats.variance import VarianceSplit, split_variance


def clustered(rng: np.random.Generator, sizes: np.ndarray, shift: float = 0.0) -> Cells:
    """Concepts of sd 1 with so many prompts of sd 1."""
    concepts = np.repeat(np.arange(len(sizes)), sizes)
    d = shift + rng.normal(size=len(sizes))[concepts] + rng.normal(size=len(concepts))
    return Cells(np.zeros(len(d)), d, np.arange(len(d)), concepts)


# --- variance


def test_concepts_by_hand() -> None:
    # Concept means 2 and 8, prompts ±1 around them, one seed each: MSW = 2, MSB = 2·(9 + 9) = 36, concept (36 − 2)/2.
    found = split_variance(np.array([1.0, 3.0, 7.0, 9.0]), np.arange(4), concepts=np.array([0, 0, 1, 1]))
    assert (found.concept, found.prompt, found.seed, found.prompts_per_concept) == (17.0, 2.0, None, 2.0)
    assert found.of_mean(4, 1) == pytest.approx((17 * 2 + 2) / 4)
    # Two concepts of 1 and 3 prompts: Σ m²/Σ m = 10/4.
    uneven = split_variance(np.array([1.0, 3.0, 7.0, 9.0]), np.arange(4), concepts=np.array([0, 1, 1, 1]))
    assert uneven.prompts_per_concept == 2.5


def test_components_of_concepts_come_out_of_simulated_data() -> None:
    # concept 3, prompt 2, seed 1; 1 to 5 prompts a concept and 1 to 3 seeds a prompt.
    rng = np.random.default_rng(20)
    of_prompt = np.repeat(np.arange(2000), rng.integers(1, 6, size=2000))
    prompts = np.repeat(np.arange(len(of_prompt)), rng.integers(1, 4, size=len(of_prompt)))
    effects = math.sqrt(3) * rng.normal(size=2000)[of_prompt] + math.sqrt(2) * rng.normal(size=len(of_prompt))
    values = effects[prompts] + rng.normal(size=len(prompts))
    found = split_variance(values, prompts, concepts=of_prompt[prompts])
    assert found.concept == pytest.approx(3, rel=0.08)
    assert found.prompt == pytest.approx(2, rel=0.08)
    assert found.seed == pytest.approx(1, rel=0.08)


def test_concepts_of_one_prompt_each_tell_nothing_apart() -> None:
    values = np.array([1.0, 2.0, 6.0])
    for concepts in (np.arange(3), np.zeros(3, dtype=int)):
        found = split_variance(values, np.arange(3), concepts=concepts)
        assert found == split_variance(values, np.arange(3))
        assert (found.concept, found.prompts_per_concept) == (None, 1.0)


# --- plans


def test_the_split_gives_the_standard_error_of_the_clusters() -> None:
    # The variance that a plan rests on is that of the comparison's own units, not of prompts taken as independent.
    rng = np.random.default_rng(21)
    cells = clustered(rng, np.full(400, 5))
    found = compare_cells(cells, resamples=0, draws=1)
    by_concept = (cells.b - cells.a).reshape(400, 5).mean(axis=1)
    assert found.variance.of_mean(2000, 1) == pytest.approx(by_concept.var(ddof=1) / 400, rel=1e-9)
    assert found.detectable == pytest.approx(
        detectable_difference(by_concept.std(ddof=1) / 20, 400),
        rel=1e-9,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("split", "seeds"),
    [
        (VarianceSplit(1.0, 1.0, None, 2.0), 2),
        (VarianceSplit(0.2, 0.4, None, 2.0, concept=0.5, prompts_per_concept=4.0), 2),
    ],
)
def test_a_plan_has_the_power_that_it_promises(split: VarianceSplit, seeds: int) -> None:
    detect = 0.4
    (need,) = needed(split, detect, seeds=(seeds,), power=0.8)
    assert need.prompts is not None
    per = round(split.prompts_per_concept)
    concepts = -(-need.prompts // per)
    rng = np.random.default_rng(22)
    inner = split.prompt + split.seed / seeds  # type: ignore[operator]
    units = np.empty((20_000, concepts))
    for at in range(concepts):
        own = math.sqrt(split.concept or 0.0) * rng.normal(size=20_000)
        units[:, at] = detect + own + math.sqrt(inner / per) * rng.normal(size=20_000)
    t = units.mean(1) / (units.std(1, ddof=1) / math.sqrt(concepts))
    found = float(np.mean(np.abs(t) > reference.t.ppf(0.975, concepts - 1)))
    # One concept more than the plan asks for (rounding up) adds less than two points.
    assert 0.79 <= found <= 0.83


def test_prompts_of_one_concept_ask_for_more_prompts() -> None:
    apart = needed(VarianceSplit(1.0, None, None, 1.0), 0.1)[0].prompts
    alike = needed(VarianceSplit(0.5, None, None, 1.0, concept=0.5, prompts_per_concept=10.0), 0.1)[0].prompts
    # (0.5·10 + 0.5)/1: five and a half times as many.
    assert alike / apart == pytest.approx(5.5, rel=0.05)  # type: ignore[operator]


# --- intervals and p-values


def test_unequal_concepts_are_covered_too() -> None:
    # Thirty concepts of 1 to 20 prompts; 600 data sets, so the share has an sd of 0.9 %.
    rng = np.random.default_rng(23)
    held = 0
    for data in range(600):
        cells = clustered(rng, rng.integers(1, 21, size=30), 0.3)
        found = compare_cells(cells, seed=data, resamples=300, draws=1).interval
        held += found.low <= 0.3 <= found.high  # type: ignore[operator]
    assert 0.93 <= held / 600 <= 0.97


def test_the_quantile_of_unequal_units_is_the_jackknifes() -> None:
    # Equal units: √(U/(U−1))·t(U−1), so the interval is that of units of any other size.
    values = np.random.default_rng(24).normal(size=40)
    one, three = bca_interval(values, np.ones(40)), bca_interval(3 * values, np.full(40, 3.0))
    assert (one.low, one.high) == pytest.approx((three.low, three.high), rel=1e-12)
    # One unit of half the weight: fewer units than are counted, and a wider interval than the same units even.
    sums = np.concatenate([[39 * values[0]], values[1:]])
    heavy = bca_interval(sums, np.concatenate([[39.0], np.ones(39)]))
    assert heavy.high - heavy.low > 2 * (one.high - one.low)  # type: ignore[operator]


@pytest.mark.parametrize("concepts", [10, 40])
def test_p_of_clusters_is_at_most_alpha_as_often_as_alpha(concepts: int) -> None:
    # Ten concepts: all sign patterns; forty: drawn ones.
    rng = np.random.default_rng(25)
    p = np.array(
        [
            compare_cells(clustered(rng, rng.integers(1, 6, size=concepts)), seed=k, resamples=0, draws=199).p.value
            for k in range(800)
        ]
    )
    for alpha in (0.05, 0.2):
        assert np.mean(p <= alpha) <= alpha + 3 * math.sqrt(alpha * (1 - alpha) / 800)
    assert np.mean(p <= 0.2) > 0.15, "the test is not empty"


def test_each_side_has_an_interval_of_its_own() -> None:
    rng = np.random.default_rng(26)
    a, b = rng.normal(1, 1, size=200), rng.normal(2, 3, size=200)
    found = compare_cells(Cells(a, b, np.arange(200)))
    for values, mean, interval in ((a, found.mean_a, found.interval_a), (b, found.mean_b, found.interval_b)):
        half = reference.t.ppf(0.975, 199) * values.std(ddof=1) / math.sqrt(200)
        assert mean == pytest.approx(values.mean())
        assert interval.low == pytest.approx(values.mean() - half, abs=0.2 * half)
        assert interval.high == pytest.approx(values.mean() + half, abs=0.2 * half)
    assert found.interval_b.high - found.interval_b.low > 2 * (found.interval_a.high - found.interval_a.low)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("sizes", "note"),
    [
        (np.full(99, 1), "optimistic: the interval rests on 99 prompts only"),
        (np.full(29, 5), "optimistic: the interval rests on 29 concepts only"),
        (np.full(33, 3), "optimistic: the interval rests on 99 prompts only"),
        (np.full(30, 4), None),
    ],
)
def test_fewer_than_a_hundred_prompts_or_thirty_concepts_are_said(sizes: np.ndarray, note: str | None) -> None:
    cells = clustered(np.random.default_rng(27), sizes)
    found = compare_cells(cells, resamples=50, draws=1)
    assert found.note == note
    alone = compare_cells(Cells(cells.a, cells.b, cells.prompts), resamples=50, draws=1)
    assert alone.note == (
        None if len(cells.a) >= 100 else f"optimistic: the interval rests on {len(cells.a)} prompts only"
    )


def test_a_shift_without_scatter_has_no_variance_of_rounding_errors() -> None:
    a = np.linspace(0.1, 0.9, 120)
    found = compare_cells(Cells(a, a + 0.1, np.arange(120)))
    assert found.detectable == 0.0
    assert (found.variance.prompt, found.effect.d_z) == (0.0, None)  # type: ignore[union-attr]
    assert found.value == pytest.approx(0.1)
    assert found.interval.low == pytest.approx(0.1, abs=1e-15)


def test_the_sides_and_their_difference_rest_on_one_set_of_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(27)
    a = rng.normal(size=60)
    b = a + rng.exponential(size=60)
    sums, counts = np.array([b - a, a, b]), np.arange(60) % 4 + 1.0
    difference, first, second = resampled_deviations(sums, counts, seed=3, resamples=50)
    assert difference == pytest.approx(second - first, abs=1e-12)
    # The same draws, written plainly.
    drawn = np.random.default_rng(3).integers(0, 60, size=(50, 60))
    assert first == pytest.approx([a[row].sum() / counts[row].sum() for row in drawn], abs=1e-12)
    calls = []
    monkeypatch.setattr(bca, "resampled_deviations", lambda *given, **named: calls.append(0) or sums[:, :50])
    compare_cells(Cells(a, b, np.arange(60)))
    assert len(calls) == 1


def test_shared_draws_give_the_intervals_of_draws_apart() -> None:
    rng = np.random.default_rng(28)
    a = rng.normal(size=120)
    sums = np.array([rng.exponential(size=120), a, -a])
    found = bca_intervals(sums, np.ones(120), resamples=40_000)
    assert found[0] == bca_interval(sums[0], np.ones(120), resamples=40_000), "the first draws as it did alone"
    for shared, own in zip(found, sums):
        alone = bca_interval(own, np.ones(120), seed=1, resamples=40_000)
        width = alone.high - alone.low  # type: ignore[operator]
        assert (shared.low, shared.high) == pytest.approx((alone.low, alone.high), abs=0.02 * width)
    mixed = rng.permutation(120)
    assert bca_intervals(sums[:, mixed], np.ones(120), resamples=40_000) == found, "the order of units is nothing"
