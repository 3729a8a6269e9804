"""Agreement with people: pairs, accuracy, correlations, reliability, votes, against plain loops and scipy."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from beholder._errors import OptionError
from beholder.stats import pairs as pairs_module
from beholder.stats.agreement import (
    Judged,
    accuracy_at,
    best_threshold,
    pairwise_accuracy,
    split_prompts,
)
from beholder.stats.association import Draws, associations, midranks
from beholder.stats.pairs import count_pairs, pair_blocks
from beholder.stats.reliability import krippendorff_alpha
from beholder.stats.votes import bradley_terry, winoground

Kind = Any


def plain_pairs(judged: Judged) -> list[tuple[float, float]]:
    """(metric difference, rating difference) of every pair, by two loops."""
    n = len(judged.x)
    return [
        (judged.x[i] - judged.x[j], judged.y[i] - judged.y[j])
        for i in range(n)
        for j in range(i + 1, n)
        if judged.pairs == "pooled" or judged.prompts[i] == judged.prompts[j]
    ]


def plain_accuracy(judged: Judged, epsilon: float) -> float:
    right = [
        (dy == 0) if abs(dx) <= epsilon else (dx > 0 and dy > 0) or (dx < 0 and dy < 0)
        for dx, dy in plain_pairs(judged)
    ]
    return sum(right) / len(right)


def made(seed: int, n: int, prompts: int, pairs: Kind = "within", noise: float = 1.0) -> Judged:
    rng = np.random.default_rng(seed)
    y = rng.integers(1, 6, size=n).astype(float)
    codes = np.concatenate([np.arange(prompts), rng.integers(0, prompts, size=n - prompts)])
    return Judged(np.round(y + noise * rng.normal(size=n), 1), y, codes, pairs)


# --- pairs


@given(st.lists(st.integers(0, 4), max_size=30), st.integers(1, 40))
@settings(deadline=None)
def test_blocks_hold_every_pair_of_a_group_once(groups: list[int], block: int) -> None:
    found = [(int(a), int(b)) for i, j in pair_blocks(np.array(groups, dtype=int), block=block) for a, b in zip(i, j)]
    expected = {(i, j) for i, j in itertools.combinations(range(len(groups)), 2) if groups[i] == groups[j]}
    assert len(found) == len(set(found))
    assert {(min(pair), max(pair)) for pair in found} == expected


@pytest.mark.parametrize("pairs", ["within", "pooled"])
@pytest.mark.parametrize("matrix", [True, False])
def test_counts_are_those_of_two_loops(pairs: Kind, matrix: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not matrix:
        monkeypatch.setattr(pairs_module, "MOST_MATRIX_PROMPTS", 0)
    judged = made(0, 40, 7, pairs)
    counts = count_pairs(judged.x, judged.y, judged.prompts, pooled=pairs == "pooled", epsilon=0.35)
    told = plain_pairs(judged)
    assert counts.sum("total") == len(told)
    assert counts.sum("tied_x") == sum(abs(dx) <= 0.35 for dx, _ in told)
    assert counts.sum("tied_y") == sum(dy == 0 for _, dy in told)
    assert counts.sum("tied_both") == sum(abs(dx) <= 0.35 and dy == 0 for dx, dy in told)
    assert counts.sum("alike") == sum(abs(dx) > 0.35 and dx * dy > 0 for dx, dy in told)
    assert counts.sum("apart") == sum(abs(dx) > 0.35 and dx * dy < 0 for dx, dy in told)
    assert counts.sum("agreeing") == counts.sum("alike") + counts.sum("tied_both")


# --- accuracy


@given(st.integers(0, 10_000), st.sampled_from(["within", "pooled"]), st.sampled_from([0.0, 0.1, 0.55]))
@settings(max_examples=40, deadline=None)
def test_accuracy_and_chance_lines_are_those_of_two_loops(seed: int, pairs: Kind, epsilon: float) -> None:
    judged = made(seed, 14, 4, pairs)
    found = accuracy_at(judged, epsilon)
    told = plain_pairs(judged)
    if not told:
        assert found.value is None
        return
    ties = sum(dy == 0 for _, dy in told) / len(told)
    assert found.value == pytest.approx(plain_accuracy(judged, epsilon))
    assert (found.constant, found.random) == pytest.approx((ties, (1 - ties) / 2))
    assert found.n_pairs == len(told)


@given(st.integers(0, 10_000), st.sampled_from(["within", "pooled"]))
@settings(max_examples=30, deadline=None)
def test_no_threshold_is_better_than_the_one_found(seed: int, pairs: Kind) -> None:
    judged = made(seed, 12, 3, pairs, noise=2.0)
    if not plain_pairs(judged):
        return
    found = best_threshold(judged)
    assert found is not None
    tried = {0.0, *(abs(dx) for dx, _ in plain_pairs(judged))}
    best = max(plain_accuracy(judged, epsilon) for epsilon in tried)
    assert plain_accuracy(judged, found) == pytest.approx(best)
    assert found == min(e for e in tried if plain_accuracy(judged, e) >= best - 1e-12)


def test_constant_and_random_metrics_land_on_their_lines() -> None:
    judged = made(1, 600, 30, "pooled")
    constant = pairwise_accuracy(Judged(np.zeros(600), judged.y, judged.prompts, "pooled"), calibration="none")
    assert constant.value == constant.constant
    noise = np.random.default_rng(2).normal(size=600)
    random = pairwise_accuracy(Judged(noise, judged.y, judged.prompts, "pooled"), calibration="none")
    assert random.value == pytest.approx(random.random, abs=0.02)


def test_chance_on_a_set_with_few_ties_is_about_7_and_45_percent() -> None:
    # What the specification says of such sets: 7 % of pairs tie, so a constant scores 7 %, a random metric 46.5 %.
    y = np.concatenate([np.zeros(2), np.arange(1, 7)])
    found = accuracy_at(Judged(np.arange(8.0), y, np.zeros(8, dtype=int)), 0.0)
    assert found.constant == pytest.approx(1 / 28)
    assert found.random == pytest.approx(27 / 56)


def test_heldout_tunes_on_one_half_and_reports_on_the_other() -> None:
    judged = made(3, 300, 40)
    tuned, reported = split_prompts(np.unique(judged.prompts), seed=4)
    assert not set(tuned) & set(reported)
    assert set(tuned) | set(reported) == set(judged.prompts)
    found = pairwise_accuracy(judged, seed=4)
    assert found.epsilon == best_threshold(judged.of_prompts(tuned))
    assert found.value == pytest.approx(plain_accuracy(judged.of_prompts(reported), found.epsilon))  # type: ignore[arg-type]
    assert set(found.prompts) == set(reported)


def test_paper_is_never_below_no_calibration() -> None:
    for seed in range(5):
        judged = made(seed, 80, 9, noise=2.0)
        paper, none = (pairwise_accuracy(judged, calibration=how).value for how in ("paper", "none"))
        assert paper >= none  # type: ignore[operator]


def test_without_pairs_or_prompts_there_is_a_reason() -> None:
    alone = Judged(np.arange(3.0), np.arange(3.0), np.arange(3))
    assert accuracy_at(alone, 0.0).note == "no prompt has two outputs: there are no pairs"
    assert pairwise_accuracy(alone).note == "no pair to tune the threshold on"
    one = Judged(np.arange(3.0), np.arange(3.0), np.zeros(3, dtype=int))
    assert pairwise_accuracy(one).note == "a held-out threshold needs two prompts, got 1"
    assert pairwise_accuracy(one, calibration="paper").value == 1.0
    for bad in ({"x": np.array([math.nan])}, {"y": np.array([math.inf])}, {"prompts": np.zeros(2, dtype=int)}):
        with pytest.raises(OptionError):
            Judged(**({"x": np.zeros(1), "y": np.zeros(1), "prompts": np.zeros(1, dtype=int)} | bad))  # type: ignore[arg-type]
    with pytest.raises(OptionError):
        pairwise_accuracy(one, calibration="guess")  # type: ignore[arg-type]


def test_many_thresholds_are_thinned_with_little_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = Judged(np.random.default_rng(5).normal(size=200), made(5, 200, 1).y, np.zeros(200, dtype=int))
    exact = accuracy_at(judged, best_threshold(judged)).value
    monkeypatch.setattr("beholder.stats.agreement._MOST_THRESHOLDS", 100)
    thinned = accuracy_at(judged, best_threshold(judged)).value
    assert exact - 0.005 <= thinned <= exact  # type: ignore[operator]


def test_three_million_pairs_take_little_memory() -> None:
    import tracemalloc

    judged = made(6, 2500, 400, "pooled")
    tracemalloc.start()
    found = pairwise_accuracy(judged, calibration="none")
    assert found.n_pairs == 2500 * 2499 // 2
    assert tracemalloc.get_traced_memory()[1] < 150e6, "three million pairs of index and value alone take 100 MB"
    tracemalloc.stop()


# --- correlations


def test_pooled_statistics_are_those_of_scipy() -> None:
    judged = made(7, 200, 20, "pooled")
    found = {name: item.value for name, (item, _) in associations(judged, Draws.make(20)).items()}
    x, y = judged.x, judged.y
    assert found["tau_b"] == pytest.approx(reference.kendalltau(x, y).statistic)
    assert found["tau_c"] == pytest.approx(reference.kendalltau(x, y, variant="c").statistic)
    assert found["spearman"] == pytest.approx(reference.spearmanr(x, y).statistic)
    assert found["pearson"] == pytest.approx(reference.pearsonr(x, y).statistic)


def test_one_prompt_within_is_the_same_as_pooled() -> None:
    judged = made(8, 60, 1, "pooled")
    pooled, within = (
        associations(Judged(judged.x, judged.y, judged.prompts, how), Draws.make(1))  # type: ignore[arg-type]
        for how in ("pooled", "within")
    )
    for name, (estimate, _) in pooled.items():
        assert estimate.value == pytest.approx(within[name][0].value), name


def test_within_statistics_by_plain_sums_over_prompts() -> None:
    judged = made(9, 80, 12)
    alike = apart = free_x = free_y = most = 0.0
    xx = yy = xy = rank_xx = rank_yy = rank_xy = 0.0
    for prompt in np.unique(judged.prompts):
        x, y = judged.x[judged.prompts == prompt], judged.y[judged.prompts == prompt]
        for i, j in itertools.combinations(range(len(x)), 2):
            product = (x[i] - x[j]) * (y[i] - y[j])
            alike, apart = alike + (product > 0), apart + (product < 0)
            free_x, free_y = free_x + (x[i] != x[j]), free_y + (y[i] != y[j])
        m = min(len(set(x)), len(set(y)))
        most += len(x) ** 2 * (m - 1) / (2 * m)
        a, b = x - x.mean(), y - y.mean()
        xx, yy, xy = xx + a @ a, yy + b @ b, xy + a @ b
        a, b = (reference.rankdata(v) - (len(v) + 1) / 2 for v in (x, y))
        rank_xx, rank_yy, rank_xy = rank_xx + a @ a, rank_yy + b @ b, rank_xy + a @ b
    found = {name: item.value for name, (item, _) in associations(judged, Draws.make(12)).items()}
    assert found["tau_b"] == pytest.approx((alike - apart) / math.sqrt(free_x * free_y))
    assert found["tau_c"] == pytest.approx((alike - apart) / most)
    assert found["pearson"] == pytest.approx(xy / math.sqrt(xx * yy))
    assert found["spearman"] == pytest.approx(rank_xy / math.sqrt(rank_xx * rank_yy))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=20))
def test_ranks_are_those_of_scipy_in_each_group(rows: list[tuple[int, int]]) -> None:
    groups, values = np.array([g for g, _ in rows]), np.array([float(v) for _, v in rows])
    found = midranks(values, groups)
    for group in set(groups.tolist()):
        assert found[groups == group].tolist() == reference.rankdata(values[groups == group]).tolist()


@pytest.mark.parametrize("pairs", ["within", "pooled"])
def test_resampled_values_are_those_of_data_with_whole_prompts_repeated(pairs: Kind) -> None:
    judged = made(10, 50, 8, pairs)
    draws = Draws.make(8, resamples=12, seed=3)
    found = {name: drawn for name, (_, drawn) in associations(judged, draws).items()}
    accuracy = accuracy_at(judged, 0.2).resampled(draws.weights)
    for at, weights in enumerate(draws.weights.astype(int)):
        rows, codes, copy = [], [], 0
        for prompt, times in enumerate(weights):
            for _ in range(times):
                own = np.flatnonzero(judged.prompts == prompt).tolist()
                rows += own
                codes += [copy] * len(own)
                copy += 1
        again = Judged(judged.x[rows], judged.y[rows], np.array(codes), pairs)
        expected = {name: item.value for name, (item, _) in associations(again, Draws.make(copy)).items()}
        if pairs == "pooled":
            # The number of distinct values stays that of the data.
            x, y = judged.x, judged.y
            m, n = min(len(set(x)), len(set(y))), len(rows)
            told = plain_pairs(again)
            excess = sum(np.sign(dx * dy) for dx, dy in told)
            expected["tau_c"] = excess / (n * n * (m - 1) / (2 * m))
        for name, value in expected.items():
            assert found[name][at] == pytest.approx(value), name
        assert accuracy[at] == pytest.approx(plain_accuracy(again, 0.2))


@pytest.mark.parametrize("pairs", ["within", "pooled"])
def test_intervals_hold_the_truth_about_as_often_as_they_say(pairs: Kind) -> None:
    # Within a prompt of two items: metric and rating differences agree in sign with chance ½ + asin(ρ)/π.
    rng = np.random.default_rng(11)
    rho = 0.6
    truth = {"pearson": rho} if pairs == "pooled" else {"tau_b": 2 * math.asin(rho) / math.pi, "pearson": rho}
    held = dict.fromkeys(truth, 0)
    for data in range(200):
        x = rng.normal(size=160)
        y = rho * x + math.sqrt(1 - rho**2) * rng.normal(size=160)
        found = associations(Judged(x, y, np.repeat(np.arange(80), 2), pairs), Draws.make(80, seed=data, resamples=300))
        for name, value in truth.items():
            interval = found[name][0].interval
            held[name] += interval.low <= value <= interval.high  # type: ignore[operator]
    for name, count in held.items():
        assert 0.90 <= count / 200 <= 0.99, name


def test_a_constant_metric_has_no_correlation_and_says_so() -> None:
    for pairs in ("within", "pooled"):
        judged = Judged(np.full(20, 0.1 + 0.2), made(12, 20, 4).y, np.repeat(np.arange(4), 5), pairs)  # type: ignore[arg-type]
        for name, (estimate, _) in associations(judged, Draws.make(4)).items():
            assert estimate.value is None, name
            assert estimate.interval.note == "the metric or the ratings do not vary"


def test_intervals_need_two_prompts() -> None:
    found = associations(made(13, 20, 1), Draws.make(1))["tau_b"][0]
    assert found.value is not None
    assert found.interval.note == "no interval: it needs two prompts, got 1"


def test_too_many_prompts_for_pooled_draws_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs_module, "MOST_MATRIX_PROMPTS", 3)
    judged = made(14, 60, 10, "pooled")
    found = associations(judged, Draws.make(10))["tau_b"][0]
    assert found.value == pytest.approx(reference.kendalltau(judged.x, judged.y).statistic)
    assert (found.interval.low, found.interval.note) == (None, "no interval: too many prompts for pooled pairs")


# --- reliability

KRIPPENDORFF = """
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 .
"""


def as_rows(text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    cells = [
        (float(cell), item, rater)
        for rater, line in enumerate(text.strip().splitlines())
        for item, cell in enumerate(line.split())
        if cell != "."
    ]
    ratings, items, raters = zip(*cells)
    return np.array(ratings), np.array(items), np.array(raters)


@pytest.mark.parametrize(("scale", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_krippendorffs_published_example(scale: Any, published: float) -> None:
    # Four observers, twelve units: "Computing Krippendorff's Alpha-Reliability" (2011), example C.
    found = krippendorff_alpha(*as_rows(KRIPPENDORFF), scale=scale)
    assert found.value == pytest.approx(published, abs=5e-4)
    assert (found.n_items, found.n_ratings, found.n_raters) == (11, 40, 4)


@given(st.integers(0, 10_000), st.sampled_from(["nominal", "ordinal", "interval"]))
@settings(max_examples=40, deadline=None)
def test_alpha_from_the_coincidence_matrix(seed: int, scale: Any) -> None:
    rng = np.random.default_rng(seed)
    items, raters = np.divmod(np.flatnonzero(rng.random(24) < 0.8), 4)
    ratings = rng.integers(0, 4, size=len(items)).astype(float)
    found = krippendorff_alpha(ratings, items, raters, scale=scale)
    levels = sorted(set(ratings))
    matrix = np.zeros((len(levels), len(levels)))
    for item in set(items.tolist()):
        own = ratings[items == item]
        for i, j in itertools.permutations(range(len(own)), 2):
            matrix[levels.index(own[i]), levels.index(own[j])] += 1 / (len(own) - 1)
    counts = matrix.sum(1)
    if found.value is None:
        assert (counts > 0).sum() < 2
        return
    observed = expected = 0.0
    for c, k in itertools.product(range(len(levels)), repeat=2):
        low, high = min(c, k), max(c, k)
        delta = {
            "nominal": float(c != k),
            "interval": (levels[c] - levels[k]) ** 2,
            "ordinal": (counts[low : high + 1].sum() - (counts[c] + counts[k]) / 2) ** 2,
        }[scale]
        observed += matrix[c, k] * delta
        expected += counts[c] * counts[k] * delta / (counts.sum() - 1)
    assert found.value == pytest.approx(1 - observed / expected)


def test_alpha_that_is_not_defined_says_why() -> None:
    one = krippendorff_alpha(np.array([1.0, 2.0]), np.array([0, 1]), np.array([0, 0]))
    assert (one.value, one.note) == (None, "there is one rater")
    apart = krippendorff_alpha(np.array([1.0, 2.0]), np.array([0, 1]), np.array([0, 1]))
    assert apart.note == "no item was rated by two people"
    same = krippendorff_alpha(np.ones(4), np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
    assert same.note == "all ratings are equal: there is nothing to agree on"
    with pytest.raises(OptionError):
        krippendorff_alpha(np.ones(2), np.zeros(2), np.arange(2), scale="ratio")  # type: ignore[arg-type]


# --- votes


def test_two_contenders_have_the_log_odds() -> None:
    found = bradley_terry(np.array([[0.0, 7.0], [2.0, 0.0]]))
    assert found.values is not None
    assert found.values[0] - found.values[1] == pytest.approx(math.log(3.5))
    assert found.values.sum() == pytest.approx(0)


def test_strengths_make_the_likelihoods_slope_zero() -> None:
    rng = np.random.default_rng(15)
    wins = rng.integers(1, 20, size=(5, 5)).astype(float) + 0.5
    found = bradley_terry(wins).values
    assert found is not None
    np.fill_diagonal(wins, 0)
    for i in range(5):
        chance = 1 / (1 + np.exp(found - found[i]))
        expected = sum((wins[i, j] + wins[j, i]) * chance[j] for j in range(5) if j != i)
        assert wins[i].sum() == pytest.approx(expected)


def test_strengths_that_do_not_exist_say_so() -> None:
    assert bradley_terry(np.array([[0.0, 3.0], [0.0, 0.0]])).note is not None
    islands = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]], dtype=float)
    assert bradley_terry(islands).values is None
    assert bradley_terry(np.zeros((1, 1))).note == "strengths need two contenders"
    for bad in (np.zeros((2, 3)), np.array([[0.0, -1.0], [1.0, 0.0]]), np.array([[0.0, math.inf], [1.0, 0.0]])):
        with pytest.raises(OptionError):
            bradley_terry(bad)


def test_winoground_chance_is_a_quarter_a_quarter_and_a_sixth() -> None:
    found = winoground(np.random.default_rng(16).normal(size=(40_000, 2, 2)))
    assert found.text.mean() == pytest.approx(1 / 4, abs=0.01)
    assert found.image.mean() == pytest.approx(1 / 4, abs=0.01)
    assert found.group.mean() == pytest.approx(1 / 6, abs=0.01)
    assert not winoground(np.ones((3, 2, 2))).text.any(), "ties are not right"
    for bad in (np.zeros((2, 2)), np.full((1, 2, 2), math.nan)):
        with pytest.raises(OptionError):
            winoground(bad)
