"""Comparisons: intervals, permutation tests, corrections, effect sizes, variance, power, ranks."""

from __future__ import annotations

import itertools
import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from beholder._errors import OptionError
from beholder.stats import bca
from beholder.stats.bca import bca_interval
from beholder.stats.compare import Cells, compare_cells
from beholder.stats.correction import benjamini_hochberg, holm
from beholder.stats.effect import paired_effect
from beholder.stats.permutation import sign_flip_test
from beholder.stats.power import detectable_difference, needed
from beholder.stats.ranks import rank_stability
from beholder.stats.variance import VarianceSplit, split_variance


def paired(rng: np.random.Generator, prompts: int, seeds: int, shift: float, concepts: int = 0) -> Cells:
    """Prompts with effects of their own (sd 1; with concepts, concepts have sd 1 too) and seeds of sd 1."""
    effect = rng.normal(size=prompts)
    groups = None
    if concepts:
        groups = np.arange(prompts) % concepts
        effect = 0.5 * effect + rng.normal(size=concepts)[groups]
        groups = np.repeat(groups, seeds)
    codes = np.repeat(np.arange(prompts), seeds)
    d = shift + effect[codes] + rng.normal(size=prompts * seeds)
    return Cells(np.zeros(len(d)), d, codes, groups)


# --- BCa intervals


def test_bca_is_that_of_scipy_at_the_level_of_the_t_quantile() -> None:
    values = np.random.default_rng(0).exponential(size=40)
    reach = math.sqrt(40 / 39) * reference.t.ppf(0.975, 39)
    level = 2 * NormalDist().cdf(reach) - 1
    found = bca_interval(values, np.ones(40), resamples=40_000)
    expected = reference.bootstrap(
        (values,), np.mean, confidence_level=level, n_resamples=40_000, method="BCa", rng=np.random.default_rng(1)
    ).confidence_interval
    width = expected.high - expected.low
    assert found.method == "bootstrap-bca"
    assert found.low == pytest.approx(expected.low, abs=0.02 * width)
    assert found.high == pytest.approx(expected.high, abs=0.02 * width)
    assert found.high - values.mean() > values.mean() - found.low, "a right tail reaches further"  # type: ignore[operator]


def test_bca_of_equal_and_of_few_units() -> None:
    same = bca_interval([2.0] * 5, [1.0] * 5, unit="prompt")
    assert (same.low, same.high) == (2.0, 2.0)
    assert same.note == "optimistic: the interval rests on 5 prompts only"
    one = bca_interval([2.0], [1.0], unit="prompt")
    assert (one.low, one.high, one.note) == (None, None, "no interval: it needs two prompts, got 1")
    assert bca_interval([1.0, 2.0], [1.0, 1.0], resamples=0).note == "no interval was asked for"


def test_bca_with_many_units_is_normal(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(3).normal(size=500)
    monkeypatch.setattr(bca, "MOST_RESAMPLED_UNITS", 499)
    found = bca_interval(values, np.ones(500))
    half = NormalDist().inv_cdf(0.975) * values.std(ddof=1) / math.sqrt(500)
    assert found.method == "normal"
    assert (found.low, found.high) == pytest.approx((values.mean() - half, values.mean() + half))


def test_an_outlier_gives_ends_inside_the_resamples() -> None:
    found = bca_interval([0.0] * 9 + [1000.0], np.ones(10))
    assert 0 <= found.low < found.high <= 1000  # type: ignore[operator]


@pytest.mark.parametrize("settings", [{"level": 1.0}, {"level": 0.0}, {"resamples": -1}])
def test_settings_out_of_range_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(OptionError):
        bca_interval([1.0, 2.0], [1.0, 1.0], **settings)  # type: ignore[arg-type]


# --- coverage and size


@pytest.mark.parametrize(("prompts", "seeds", "concepts"), [(100, 1, 0), (100, 3, 0), (120, 2, 30)])
def test_intervals_hold_the_truth_in_93_to_97_percent(prompts: int, seeds: int, concepts: int) -> None:
    # 800 data sets: the share of 95 % intervals with the truth has an sd of 0.8 %.
    rng = np.random.default_rng(5)
    held = 0
    for data in range(800):
        found = compare_cells(paired(rng, prompts, seeds, 0.3, concepts), seed=data, resamples=400, draws=1)
        held += found.interval.low <= 0.3 <= found.interval.high  # type: ignore[operator]
        assert found.unit == ("concept" if concepts else "prompt")
    assert 0.93 <= held / 800 <= 0.97


def test_rows_instead_of_concepts_would_hold_it_far_less_often() -> None:
    rng = np.random.default_rng(6)
    held = 0
    for data in range(200):
        cells = paired(rng, 120, 2, 0.3, 30)
        found = compare_cells(Cells(cells.a, cells.b, np.arange(240)), seed=data, resamples=300, draws=1)
        held += found.interval.low <= 0.3 <= found.interval.high  # type: ignore[operator]
    assert held / 200 < 0.85


def test_p_is_at_most_alpha_as_often_as_alpha_under_the_null() -> None:
    rng = np.random.default_rng(7)
    p = np.array([sign_flip_test(rng.standard_t(3, size=40), seed=k, draws=499).value for k in range(1500)])
    for alpha in (0.01, 0.05, 0.2):
        # Three standard deviations above alpha are still chance.
        assert np.mean(p <= alpha) <= alpha + 3 * math.sqrt(alpha * (1 - alpha) / 1500)
    assert np.mean(p <= 0.2) > 0.16, "the test is not empty"


# --- sign flips


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=9))
@settings(max_examples=60, deadline=None)
def test_exact_p_is_the_share_of_all_sign_patterns(values: list[int]) -> None:
    observed = abs(sum(values))
    patterns = list(itertools.product((1, -1), repeat=len(values)))
    share = sum(abs(sum(s * v for s, v in zip(p, values))) >= observed for p in patterns) / len(patterns)
    found = sign_flip_test(values)
    assert found.value == pytest.approx(share, abs=1e-15)
    assert found.method == "sign-flip-exact"


def test_drawn_p_agrees_with_the_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(8).normal(0.35, 1, size=17)
    exact = sign_flip_test(values).value
    monkeypatch.setattr("beholder.stats.permutation.MOST_EXACT_UNITS", 5)
    drawn = sign_flip_test(values, draws=40_000)
    assert drawn.method == "sign-flip"
    assert exact is not None
    assert drawn.value == pytest.approx(exact, abs=4 * math.sqrt(exact / 40_000))


def test_the_smallest_drawn_p_counts_the_observed_pattern() -> None:
    assert sign_flip_test(np.ones(50), draws=99).value == 0.01
    assert sign_flip_test(np.zeros(50), draws=99).value == 1.0
    assert sign_flip_test([]).value is None
    with pytest.raises(OptionError):
        sign_flip_test([math.nan])
    with pytest.raises(OptionError):
        sign_flip_test([1.0], draws=0)


# --- corrections


def test_published_examples() -> None:
    # Holm: four tests of p 0.01, 0.04, 0.03, 0.005 (the example of many textbooks): 0.005·4, 0.01·3, 0.03·2, then
    # 0.04·1 raised to 0.06. Benjamini and Hochberg 1995, 15 p-values: they find four at 0.05, Holm finds three.
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    published = [
        0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
        0.5719, 0.6528, 0.7590, 1.0,
    ]  # fmt: skip
    assert int((benjamini_hochberg(published) <= 0.05).sum()) == 4
    assert int((holm(published) <= 0.05).sum()) == 3


@given(st.lists(st.floats(0, 1), max_size=12))
def test_corrections_step_by_step(p: list[float]) -> None:
    """Each adjusted p is the least level at which the published stepwise procedure rejects the test."""
    m = len(p)
    order = sorted(range(m), key=lambda at: p[at])
    found, other = holm(p), benjamini_hochberg(p)
    for rank, at in enumerate(order):
        down = max(min(1.0, (m - j) * p[order[j]]) for j in range(rank + 1))
        up = min(min(1.0, m / (j + 1) * p[order[j]]) for j in range(rank, m))
        assert found[at] == pytest.approx(down)
        assert other[at] == pytest.approx(up)
        assert p[at] <= other[at] + 1e-15 <= found[at] + 2e-15


def test_p_values_out_of_range_are_refused() -> None:
    for bad in ([1.5], [-0.1], [math.nan]):
        with pytest.raises(OptionError):
            holm(bad)
    assert holm([]).tolist() == []


# --- effects


def test_effects_by_hand() -> None:
    # mean 1, sd √(((1)²·2 + 3² + 3²)/4 … ) computed plainly below.
    values = [2.0, 0.0, 3.0, -1.0, 1.0]
    sd = math.sqrt(sum((v - 1) ** 2 for v in values) / 4)
    found = paired_effect(values)
    assert found.d_z == pytest.approx(1 / sd)
    assert (found.above, found.tied, found.below, found.superiority) == (0.6, 0.2, 0.2, 0.7)
    wide = paired_effect(values, tie=1.0)
    assert (wide.above, wide.tied, wide.below) == (0.4, 0.6, 0.0)


def test_effects_without_scatter_or_data() -> None:
    assert paired_effect([0.1 + 0.2, 0.3]).d_z is None
    assert paired_effect([1.0]).d_z is None
    for bad in ({"differences": []}, {"differences": [1.0], "tie": -1.0}, {"differences": [1.0], "tie": math.nan}):
        with pytest.raises(OptionError):
            paired_effect(**bad)  # type: ignore[arg-type]


# --- variance


def test_balanced_split_by_hand() -> None:
    # Prompt means 2 and 8; within each ±1: MSW = 2, MSB = 2·(9 + 9) = 36, prompt = (36 − 2)/2 = 17.
    found = split_variance(np.array([1.0, 3.0, 7.0, 9.0]), np.array([0, 0, 1, 1]))
    assert (found.prompt, found.seed, found.judge, found.seeds_per_prompt) == (17.0, 2.0, None, 2.0)
    assert found.of_mean(2, 2) == pytest.approx((17 + 2 / 2) / 2)


def test_components_come_out_of_simulated_data() -> None:
    # prompt 4, seed 1, judge 2 (one judgement); unequal numbers of seeds; four judgements behind every seed's value.
    rng = np.random.default_rng(9)
    codes = np.repeat(np.arange(3000), rng.integers(1, 5, size=3000))
    values = 2 * rng.normal(size=3000)[codes] + rng.normal(size=len(codes))
    values = values + math.sqrt(2 / 4) * rng.normal(size=len(codes))
    found = split_variance(values, codes, noise=np.full(len(codes), 0.5), judge=2.0)
    assert found.prompt == pytest.approx(4, rel=0.08)
    assert found.seed == pytest.approx(1, rel=0.12)
    assert (found.judge, found.judgements) == (2.0, 4.0)
    assert found.of_mean(10, 2) == pytest.approx((found.prompt + (found.seed + 0.5) / 2) / 10)  # type: ignore[operator]


def test_what_cannot_be_told_is_none() -> None:
    alone = split_variance(np.array([1.0, 2.0, 6.0]), np.array([0, 1, 2]))
    assert (alone.prompt, alone.seed) == (7.0, None)
    one = split_variance(np.array([1.0, 3.0]), np.array([0, 0]))
    assert (one.prompt, one.seed) == (None, 2.0)
    none = split_variance(np.array([]), np.array([], dtype=int))
    assert (none.prompt, none.seed, none.of_mean(2, 2)) == (None, None, None)


# --- power


def test_detectable_difference_is_found_with_the_power_promised() -> None:
    rng = np.random.default_rng(10)
    n, power = 30, 0.8
    shift = detectable_difference(1 / math.sqrt(n), n, power=power)
    assert shift is not None
    data = rng.normal(shift, 1, size=(20_000, n))
    t = data.mean(1) / (data.std(1, ddof=1) / math.sqrt(n))
    share = np.mean(np.abs(t) > reference.t.ppf(0.975, n - 1))
    assert share == pytest.approx(power, abs=0.015)


def test_needed_is_the_least_that_suffices() -> None:
    split = VarianceSplit(4.0, 8.0, None, 2.0)
    for need in needed(split, 0.5, seeds=(1, 2, 8)):
        variance = 4 + 8 / need.seeds
        assert need.prompts is not None
        assert need.outputs == need.prompts * need.seeds
        reach = [
            detectable_difference(math.sqrt(variance / count), count) for count in (need.prompts - 1, need.prompts)
        ]
        assert reach[0] > 0.5 >= reach[1]  # type: ignore[operator]
        # The textbook's normal formula is a prompt or two less.
        plain = (1.959964 + 0.841621) ** 2 * variance / 0.25
        assert plain < need.prompts < plain + 4


def test_plans_that_make_no_sense() -> None:
    assert detectable_difference(1.0, 1) is None
    assert needed(VarianceSplit(None, 1.0, None, 2.0), 0.1)[0].prompts is None
    assert needed(VarianceSplit(1.0, None, None, 1.0), 1e-9)[0].prompts is None
    assert needed(VarianceSplit(0.0, 0.0, None, 1.0), 0.1)[0].prompts == 2
    for bad in ({"detect": 0.0}, {"detect": math.inf}, {"detect": 1.0, "power": 1.0}, {"detect": 1.0, "level": 1.0}):
        with pytest.raises(OptionError):
            needed(VarianceSplit(1.0, None, None, 1.0), **bad)  # type: ignore[arg-type]


# --- ranks


def test_ranks_of_two_units_by_enumeration() -> None:
    # Units (1, 0) and (0, 2): draws give sums (2, 0), (1, 2), (0, 4) with chances ¼, ½, ¼: the second is best in ¾.
    found = rank_stability(np.array([[1.0, 0.0], [0.0, 2.0]]), np.ones(2), resamples=20_000)
    assert found.order == (1, 0)
    assert found.same_best == found.same_order == pytest.approx(0.75, abs=0.01)
    assert found.shares.sum(axis=0) == pytest.approx([1, 1])
    assert found.shares.sum(axis=1) == pytest.approx([1, 1])
    lowest = rank_stability(np.array([[1.0, 0.0], [0.0, 2.0]]), np.ones(2), higher_is_better=False, resamples=200)
    assert lowest.order == (0, 1)
    with pytest.raises(OptionError):
        rank_stability(np.ones((1, 3)), np.ones(1))
    with pytest.raises(OptionError):
        rank_stability(np.ones((3, 3)), np.ones(3), resamples=0)


# --- the whole comparison


def test_seeds_are_averaged_within_a_prompt_first() -> None:
    # Prompt 0 has three seeds of difference 4, prompt 1 one of 0: the mean over prompts is 2, over rows it were 3.
    cells = Cells(np.ones(4), np.array([5.0, 5.0, 5.0, 1.0]), np.array([7, 7, 7, 3]))
    found = compare_cells(cells)
    assert (found.value, found.mean_a, found.mean_b) == (2.0, 1.0, 3.0)
    assert (found.n_pairs, found.n_prompts) == (4, 2)
    assert found.effect is not None
    assert (found.effect.above, found.effect.tied) == (0.5, 0.5)
    assert found.p.value == 1.0, "with two prompts + 0 and − 0 are all alike"


def test_golden_comparison() -> None:
    # Golden values: this code with numpy 2.4.6 and scipy 1.17.1, seed 0. Beside them what is plain: mean, sd, t.
    rng = np.random.default_rng(11)
    a = rng.normal(size=60)
    b = a + rng.normal(0.25, 1, size=60)
    found = compare_cells(Cells(a, b, np.arange(60)))
    d = b - a
    assert found.value == pytest.approx(d.mean())
    assert found.effect is not None
    assert found.effect.d_z == pytest.approx(d.mean() / d.std(ddof=1))
    t = reference.ttest_rel(b, a)
    assert found.p.value == pytest.approx(t.pvalue, rel=0.25)
    width = t.confidence_interval().high - t.confidence_interval().low
    assert found.interval.low == pytest.approx(t.confidence_interval().low, abs=0.08 * width)
    assert found.interval.high == pytest.approx(t.confidence_interval().high, abs=0.08 * width)
    assert (found.interval.low, found.interval.high, found.p.value) == pytest.approx(GOLDEN, abs=1e-9)


GOLDEN = (0.135410214700, 0.636514794071, 0.0056)


def test_nothing_depends_on_the_order_of_rows_or_the_names_of_prompts() -> None:
    rng = np.random.default_rng(12)
    cells = paired(rng, 40, 3, 0.1, 10)
    mixed = rng.permutation(120)
    names = rng.permutation(1000)[:40]
    assert cells.clusters is not None
    other = Cells(cells.a[mixed], cells.b[mixed], names[cells.prompts][mixed], cells.clusters[mixed])
    one, two = compare_cells(cells), compare_cells(other)
    assert one == two


def test_swapping_the_sides_turns_the_sign() -> None:
    cells = paired(np.random.default_rng(13), 50, 2, 0.2)
    one, two = compare_cells(cells), compare_cells(Cells(cells.b, cells.a, cells.prompts))
    assert one.value == pytest.approx(-two.value)  # type: ignore[operator]
    assert one.p.value == pytest.approx(two.p.value, abs=0.01)
    assert one.effect is not None
    assert two.effect is not None
    assert one.effect.superiority == pytest.approx(1 - two.effect.superiority)


def test_equal_sides_are_ties_even_after_rounding() -> None:
    a = np.random.default_rng(14).normal(size=20)
    found = compare_cells(Cells(a, a * (1 + 1e-12), np.arange(20)))
    assert found.effect is not None
    assert found.effect.tied == 1.0


def test_no_pairs_and_one_prompt_say_so() -> None:
    none = compare_cells(Cells(np.array([]), np.array([]), np.array([], dtype=int)))
    assert (none.value, none.p.value, none.effect, none.note) == (None, None, None, "no sample has a pair")
    one = compare_cells(Cells(np.zeros(2), np.ones(2), np.zeros(2, dtype=int)))
    assert (one.value, one.interval.low, one.detectable) == (1.0, None, None)
    assert one.note == "no interval: it needs two prompts, got 1"


def test_one_concept_is_no_cluster() -> None:
    found = compare_cells(Cells(np.zeros(40), np.arange(40.0), np.arange(40), np.zeros(40, dtype=int)))
    assert found.unit == "prompt"
    few = compare_cells(Cells(np.zeros(40), np.arange(40.0), np.arange(40), np.arange(40) % 4))
    assert few.unit == "concept"
    assert few.note == "optimistic: the interval rests on 4 concepts only"


def test_bad_cells_are_refused() -> None:
    with pytest.raises(OptionError):
        compare_cells(Cells(np.zeros(2), np.zeros(3), np.zeros(2, dtype=int)))
    with pytest.raises(OptionError):
        compare_cells(Cells(np.array([math.nan]), np.zeros(1), np.zeros(1, dtype=int)))


@pytest.mark.parametrize("size", [1e101, 1e300, 1.7e308])
def test_values_whose_squares_overflow_have_no_comparison_and_a_note(size: float) -> None:
    found = compare_cells(Cells(np.full(9, size), np.full(9, -size), np.arange(9)))
    assert (found.value, found.interval.low, found.p.value, found.effect, found.mean_a) == (None,) * 5
    assert found.note == found.interval.note == "no comparison of values beyond ±1e+100"


def test_the_largest_values_that_are_allowed_overflow_nowhere() -> None:
    values = np.random.default_rng(0).normal(size=40)
    plain = compare_cells(Cells(np.zeros(40), values / 8, np.arange(40), np.arange(40) % 8))
    size = 2.0**331  # a power of two rounds nothing
    large = compare_cells(Cells(np.zeros(40), values / 8 * size, np.arange(40), np.arange(40) % 8))
    assert large.interval.low == pytest.approx(plain.interval.low * size)  # type: ignore[operator]
    assert large.effect is not None
    assert plain.effect is not None
    assert large.effect.d_z == pytest.approx(plain.effect.d_z)
    assert large.p == plain.p
