"""Distances and neighbours of sets of features against closed forms, scipy and plain loops; M2 of the inputs table."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

from beholder._errors import OptionError
from beholder.functional.diversity import mean_pair_distance, vendi_score
from beholder.functional.gaussians import FeatureSums, Fit, fit_features, frechet_distance, quick_distance
from beholder.functional.kernel_distances import cubic_kernel, gaussian_kernel, kernel_sums, squared_mmd
from beholder.functional.neighbours import neighbour_metrics
from beholder.functional.set_draws import deal_groups, draw_halves, half_interval, half_marks


def draw(n: int, d: int, seed: int, *, shift: float = 0.0, scale: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(d, d)) / d**0.5
    return (rng.normal(size=(n, d)) @ mix * scale + shift).astype(np.float32)


# Fréchet


def test_frechet_of_diagonal_covariances_is_the_closed_form() -> None:
    rng = np.random.default_rng(0)
    means, spreads = rng.normal(size=(2, 9)), rng.uniform(0.1, 3.0, (2, 9))
    fits = [Fit(mean, np.diag(spread**2)) for mean, spread in zip(means, spreads)]
    expected = ((means[0] - means[1]) ** 2).sum() + ((spreads[0] - spreads[1]) ** 2).sum()
    assert frechet_distance(*fits) == pytest.approx(expected, rel=1e-12)
    assert quick_distance(*fits) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("n", [200, 20])
def test_frechet_is_what_a_matrix_root_gives(n: int) -> None:
    one, other = fit_features(draw(n, 12, 1)), fit_features(draw(n, 12, 2, shift=0.3))
    root = scipy.linalg.sqrtm(one.cov @ other.cov).real
    plain = ((one.mean - other.mean) ** 2).sum() + np.trace(one.cov + other.cov - 2 * root)
    assert frechet_distance(one, other) == pytest.approx(plain, rel=1e-7)
    assert frechet_distance(other, one) == pytest.approx(plain, rel=1e-7)
    assert quick_distance(one, other) == pytest.approx(plain, rel=1e-5)


GOLDEN_FRECHET = 8.933603913478024


def test_frechet_golden() -> None:
    # pytorch-fid's arithmetic (scipy's sqrtm in float64) on these features, computed once.
    one, other = fit_features(draw(300, 6, 3)), fit_features(draw(300, 6, 4, shift=0.5, scale=1.5))
    assert frechet_distance(one, other) == pytest.approx(GOLDEN_FRECHET, rel=1e-9)


@pytest.mark.parametrize("rows", [draw(50, 64, 5), draw(500, 8, 6, shift=1000.0), np.ones((10, 7))], ids=len)
def test_m2_identical_sets_are_0_apart_and_nothing_is_below(rows: np.ndarray) -> None:
    fit = fit_features(rows)
    assert 0.0 <= frechet_distance(fit, fit) <= 1e-10 * max(float(np.trace(fit.cov)), 1e-300)
    again = fit_features(rows[::-1])
    assert 0.0 <= frechet_distance(fit, again) <= 1e-6 * max(float(np.trace(fit.cov)), 1e-300)
    assert quick_distance(fit, again) >= 0.0


def test_m2_constant_features_are_as_far_as_their_means() -> None:
    assert frechet_distance(fit_features(np.ones((5, 3))), fit_features(np.full((5, 3), 3.0))) == pytest.approx(12.0)


def test_sums_merge_to_what_one_pass_gives_in_any_order() -> None:
    rows = draw(97, 5, 7, shift=200.0)
    whole = fit_features(rows)
    parts = []
    for part in np.split(rows, [0, 1, 40, 96]):
        sums = FeatureSums(5)
        sums.add(part)
        parts.append(sums)
    for order in ([0, 1, 2, 3, 4], [4, 2, 0, 3, 1]):
        total = FeatureSums(5)
        for at in order:
            total.merge(parts[at])
        assert total.n == 97
        np.testing.assert_allclose(total.fit().mean, whole.mean, rtol=1e-13)
        np.testing.assert_allclose(total.fit().cov, whole.cov, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(whole.cov, np.cov(rows.astype(np.float64), rowvar=False), rtol=1e-10)


def test_what_is_no_fit_is_refused() -> None:
    good = Fit(np.zeros(2), np.eye(2))
    for bad in (
        Fit(np.zeros(3), np.eye(3)),
        Fit(np.zeros(2), np.eye(3)),
        Fit(np.array([0.0, np.nan]), np.eye(2)),
        Fit(np.zeros(2), np.array([[1.0, 0.5], [0.0, 1.0]])),
        Fit(np.zeros(2), -np.eye(2)),
    ):
        with pytest.raises(OptionError):
            frechet_distance(good, bad)
    with pytest.raises(OptionError, match="at least 2"):
        fit_features(np.zeros((1, 3)))
    sums = FeatureSums(2)
    for rows in (np.zeros((2, 3)), np.array([[np.inf, 0.0]])):
        with pytest.raises(OptionError):
            sums.add(rows)


# kernels


def plain_mmd(x: np.ndarray, y: np.ndarray, kernel: object, *, unbiased: bool) -> float:
    def k(a: np.ndarray, b: np.ndarray) -> float:
        a, b = a.astype(np.float64), b.astype(np.float64)
        if kernel == "cubic":
            return float((a @ b / len(a) + 1) ** 3)
        return float(np.exp(-((a - b) ** 2).sum() / 200.0))

    def mean(one: np.ndarray, other: np.ndarray, *, skip: bool) -> float:
        pairs = [k(a, b) for i, a in enumerate(one) for j, b in enumerate(other) if not (skip and i == j)]
        return float(np.mean(pairs))

    return mean(x, x, skip=unbiased) + mean(y, y, skip=unbiased) - 2 * mean(x, y, skip=False)


@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.parametrize("kernel", ["cubic", "gaussian"])
def test_kernel_distances_are_plain_double_sums(kernel: str, unbiased: bool) -> None:
    x, y = draw(17, 6, 8, scale=4.0), draw(13, 6, 9, shift=2.0, scale=4.0)
    rng = np.random.default_rng(0)
    groups = deal_groups(17, 4, rng), deal_groups(13, 4, rng)
    made = {"cubic": cubic_kernel, "gaussian": gaussian_kernel}[kernel]
    sums = kernel_sums(x, y, made, x_groups=groups[0], y_groups=groups[1])
    assert squared_mmd(sums, unbiased=unbiased) == pytest.approx(plain_mmd(x, y, kernel, unbiased=unbiased), rel=1e-9)
    p, q = np.array([1.0, 0, 1, 0]), np.array([0.0, 1, 1, 1])
    part = plain_mmd(x[p[groups[0]] > 0], y[q[groups[1]] > 0], kernel, unbiased=unbiased)
    assert squared_mmd(sums, unbiased=unbiased, x_chosen=p, y_chosen=q) == pytest.approx(part, rel=1e-9)


def test_kernels_over_several_blocks() -> None:
    x, y = draw(1500, 3, 10), draw(1100, 3, 11, shift=0.2)
    zero = np.zeros(1500, int), np.zeros(1100, int)
    sums = kernel_sums(x, y, cubic_kernel, x_groups=zero[0], y_groups=zero[1])
    whole = cubic_kernel(x.astype(np.float64), y.astype(np.float64)).sum()
    assert sums.xy[0, 0] == pytest.approx(whole, rel=1e-12)


def test_m2_the_biased_distance_of_equal_sets_is_0_and_the_unbiased_one_is_a_little_below() -> None:
    x = draw(30, 4, 12)
    zero = np.zeros(30, int)
    sums = kernel_sums(x, x, gaussian_kernel, x_groups=zero, y_groups=zero)
    assert 0.0 <= squared_mmd(sums, unbiased=False) < 1e-12
    assert -0.1 < squared_mmd(sums, unbiased=True) < 0.0
    with pytest.raises(OptionError, match="at least 2"):
        one = kernel_sums(x[:1], x[:1], gaussian_kernel, x_groups=[0], y_groups=[0])
        squared_mmd(one, unbiased=False)


# neighbours


@pytest.mark.parametrize("k", [1, 3, 5])
def test_neighbours_are_what_loops_count(k: int) -> None:
    real, gen = draw(40, 3, 13), draw(33, 3, 14, shift=0.4)
    far = np.linalg.norm(real[:, None].astype(np.float64) - gen[None].astype(np.float64), axis=2)

    def rims(rows: np.ndarray) -> list[float]:
        own = np.linalg.norm(rows[:, None].astype(np.float64) - rows[None].astype(np.float64), axis=2)
        return [sorted(own[i][j] for j in range(len(rows)) if j != i)[k - 1] for i in range(len(rows))]

    real_rim, gen_rim = rims(real), rims(gen)
    held = [sum(far[i, j] <= real_rim[i] for i in range(40)) for j in range(33)]
    found = neighbour_metrics(real, gen, k=k)
    assert found.precision == pytest.approx(np.mean([count > 0 for count in held]))
    assert found.density == pytest.approx(np.mean(held) / k)
    assert found.coverage == pytest.approx(np.mean([min(far[i]) <= real_rim[i] for i in range(40)]))
    assert found.recall == pytest.approx(np.mean([any(far[i, j] <= gen_rim[j] for j in range(33)) for i in range(40)]))


@pytest.mark.parametrize("rows", [draw(30, 4, 15), np.ones((9, 3)), draw(1100, 2, 16, shift=500.0)], ids=len)
def test_m2_equal_sets_overlap_wholly_whatever_they_hold(rows: np.ndarray) -> None:
    found = neighbour_metrics(rows, rows, k=5)
    assert (found.precision, found.recall, found.coverage) == (1.0, 1.0, 1.0)
    assert found.density >= 1.0


def test_sets_that_do_not_meet() -> None:
    found = neighbour_metrics(draw(20, 3, 17), draw(20, 3, 18, shift=100.0), k=3)
    assert found == (0.0, 0.0, 0.0, 0.0)


def test_m1_neighbours_need_more_pictures_than_k() -> None:
    with pytest.raises(OptionError, match=r"at least 6 images in each set; got n = 5 and 9"):
        neighbour_metrics(draw(5, 2, 1), draw(9, 2, 1), k=5)
    for k, width in ((0, 2), (1, 3)):
        with pytest.raises(OptionError):
            neighbour_metrics(draw(9, 2, 1), draw(9, width, 1), k=k)


# one set


def test_vendi_counts_different_items() -> None:
    assert vendi_score(np.eye(7)) == pytest.approx(7.0)
    assert vendi_score(np.repeat(np.eye(3), [4, 4, 4], axis=0)) == pytest.approx(3.0)
    assert vendi_score(np.ones((6, 5))) == 1.0
    # Shares 3/4 and 1/4: exp of their entropy, and of other orders.
    rows = np.repeat(np.eye(2), [3, 1], axis=0)
    assert vendi_score(rows) == pytest.approx(4 / 3**0.75)
    assert vendi_score(rows, order=2.0) == pytest.approx(1 / (9 / 16 + 1 / 16))
    assert vendi_score(rows, order=float("inf")) == pytest.approx(4 / 3)
    assert vendi_score(rows, order=0.5) == pytest.approx((0.75**0.5 + 0.25**0.5) ** 2)


@pytest.mark.parametrize("n", [5, 40])
def test_vendi_is_the_entropy_of_the_matrix_of_cosines(n: int) -> None:
    rows = draw(n, 9, 19).astype(np.float64)
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    values = scipy.linalg.eigvalsh(units @ units.T / n)
    values = values[values > 1e-12]
    assert vendi_score(rows * 7) == pytest.approx(float(np.exp(-(values * np.log(values)).sum())), rel=1e-5)


def test_mean_pair_distance_is_a_mean_over_pairs() -> None:
    rows = draw(12, 5, 20).astype(np.float64)
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    pairs = [1 - units[i] @ units[j] for i in range(12) for j in range(i)]
    assert mean_pair_distance(rows) == pytest.approx(np.mean(pairs), rel=1e-6)
    assert mean_pair_distance(np.ones((4, 3))) == 0.0
    for bad in (np.ones((1, 3)), np.zeros((2, 3))):
        with pytest.raises(OptionError):
            mean_pair_distance(bad)
    with pytest.raises(OptionError):
        vendi_score(np.eye(2), order=0.0)


# intervals


def test_groups_and_halves() -> None:
    rng = np.random.default_rng(0)
    assert sorted(np.bincount(deal_groups(23, 5, rng)).tolist()) == [4, 4, 5, 5, 5]
    marks = half_marks(10, 50, rng)
    assert marks.sum(axis=1).tolist() == [5.0] * 50
    assert len({tuple(row) for row in marks.tolist()}) > 30


def test_halves_spread_as_the_whole_does() -> None:
    # Of the mean of n numbers the standard error is sd / sqrt(n); a half about its whole spreads the same.
    rows = np.random.default_rng(21).normal(size=400)
    draws = draw_halves(lambda a, b: float(rows[a].mean()), 400, 400, draws=2000, rng=np.random.default_rng(1))
    assert draws.std() == pytest.approx(rows.std() / 20, rel=0.06)
    found = half_interval(float(rows.mean()), draws, level=0.95)
    assert found is not None
    assert found.high - found.low == pytest.approx(2 * 1.96 * rows.std() / 20, rel=0.06)
    assert half_interval(1.0, draws[:1], level=0.95) is None
