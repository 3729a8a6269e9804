"""The maths of attribute divergence: scores, fits, divergences, maps, placement (U2, U3, U5 of their definition)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import gaussian_kde, wasserstein_distance

from beholder._errors import OptionError
from beholder.functional.densities import common_grid, sad_kde, scott
from beholder.functional.divergence import (
    Gaussian,
    condition_numbers,
    dependence,
    gaussian_null_mean,
    jensen_shannon,
    pad,
    pairs,
    sad,
    wasserstein,
)
from beholder.functional.hcs import hcs, mean_embedding
from beholder.functional.legacy_density import pad_legacy, printed, sad_legacy
from beholder.functional.maps import MapSums, map_size, mar_noise_floor, pool_cells, r_sad, regional_kl
from beholder.functional.pair_densities import PAIR_POINTS, pad_kde, pair_kl
from beholder.functional.patches import (
    aggregate,
    dual_probability,
    global_column,
    patch_cosines,
    ra_clip_scores,
    refine,
    token_weights,
)
from beholder.functional.placement import excess, placement
from beholder.functional.relevance import relevance
from beholder.functional.score_sums import ScoreSums, fit

WIDTH, CELLS = 24, 9


def features(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Global tokens, patch tokens and attention of n made-up images."""
    rng = np.random.default_rng(seed)
    attention = rng.dirichlet(np.ones(CELLS + 1), (n, CELLS))[..., 1:]
    return rng.normal(size=(n, WIDTH)), rng.normal(size=(n, CELLS, WIDTH)), attention


def texts(count: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, WIDTH)), rng.normal(size=(count, WIDTH))


def plain_scores(image: np.ndarray, patches: np.ndarray, attention: np.ndarray, plus: np.ndarray, minus: np.ndarray,
                 tau: float) -> tuple[float, list[float]]:  # fmt: skip
    """Equations 3 to 9 for one image and one attribute, in plain loops."""

    def cos(a: np.ndarray, b: np.ndarray) -> float:
        return float(a @ b / math.sqrt(float(a @ a) * float(b @ b)))

    tokens = [image, *patches]
    raw = []
    for token in tokens:
        up, down = math.exp(tau * cos(token, plus)), math.exp(tau * cos(token, minus))
        raw.append(up / (up + down))
    refined = [raw[0]]
    for row in attention:
        refined.append(sum(a * r for a, r in zip(row, raw[1:])) / sum(row))
    weights = [math.exp(tau * cos(token, plus)) for token in tokens]
    return sum(w * r for w, r in zip(weights, refined)) / sum(weights), refined[1:]


def test_scores_are_those_of_the_equations() -> None:
    image, patches, attention = features(4)
    plus, minus = texts(3)
    found = ra_clip_scores(patch_cosines(image, patches, plus, minus), attention, tau=8.0)
    for i, c in itertools.product(range(4), range(3)):
        score, where = plain_scores(image[i], patches[i], attention[i], plus[c], minus[c], 8.0)
        assert found.scores[i, c] == pytest.approx(score, abs=2e-6)
        np.testing.assert_allclose(found.maps[i, c], where, atol=2e-6)


def test_a_golden_score() -> None:
    # Worked by hand: cosines 1, 0, 0 and 0, 0, 1; temperature ln 3; raw scores 3/4, 1/2, 1/4; rows of attention
    # average the two patches to 3/8; weights 3, 1, 1.
    image, patches = np.array([[1.0, 0, 0]]), np.array([[[0, 1.0, 0], [0, 0, 1.0]]])
    cosines = patch_cosines(image, patches, np.array([[1.0, 0, 0]]), np.array([[0.0, 0, 1]]))
    found = ra_clip_scores(cosines, np.full((1, 2, 2), 0.4), tau=math.log(3.0))
    assert found.maps[0, 0].tolist() == pytest.approx([3 / 8, 3 / 8])
    assert found.scores[0, 0] == pytest.approx((3 * 3 / 4 + 2 * 3 / 8) / 5)


def test_an_attribute_does_not_know_the_others() -> None:
    image, patches, attention = features(6)
    plus, minus = texts(5)
    all_five = ra_clip_scores(patch_cosines(image, patches, plus, minus), attention, tau=50.0).scores
    for chosen in ([3], [4, 0], [2, 1, 0, 4, 3]):
        some = ra_clip_scores(patch_cosines(image, patches, plus[chosen], minus[chosen]), attention, tau=50.0).scores
        np.testing.assert_allclose(some, all_five[:, chosen], atol=1e-6)


def test_hcs_knows_the_others_and_two_are_each_others_negative() -> None:
    image, _, _ = features(6)
    plus, _ = texts(3)
    centre = mean_embedding(image)

    def scores(chosen: list[int]) -> np.ndarray:
        part = plus[chosen]
        return hcs(image, part, image_centre=centre, text_centre=mean_embedding(part)).values

    two, three = scores([0, 1]), scores([0, 1, 2])
    np.testing.assert_allclose(two[:, 0], -two[:, 1], atol=1e-4)
    assert np.abs(two[:, 0] - three[:, 0]).max() > 1.0
    row = image[2] - centre
    text = plus[0] - plus.mean(axis=0)
    by_hand = 100 * row @ text / np.linalg.norm(row) / np.linalg.norm(text)
    assert three[2, 0] == pytest.approx(by_hand, abs=1e-4)


def test_an_image_that_is_the_centre_has_no_hcs() -> None:
    found = hcs([[1.0, 0.0]], [[0.0, 1.0]], image_centre=[1.0, 0.0], text_centre=[0.0, 0.0])
    assert found.degenerate.tolist() == [[True]]


def test_batches_order_and_half_precision() -> None:
    image, patches, attention = features(8)
    plus, minus = texts(2)
    whole = ra_clip_scores(patch_cosines(image, patches, plus, minus), attention, tau=20.0).scores
    one = [ra_clip_scores(patch_cosines(image[i : i + 1], patches[i : i + 1], plus, minus), attention[i : i + 1],
                          tau=20.0).scores[0] for i in range(8)]  # fmt: skip
    assert np.array_equal(np.asarray(one), whole)
    order = np.array([5, 0, 7, 3, 1, 2, 6, 4])
    again = ra_clip_scores(patch_cosines(image[order], patches[order], plus, minus), attention[order], tau=20.0).scores
    assert np.array_equal(again, whole[order])
    half = patches.astype(np.float16)
    close = ra_clip_scores(patch_cosines(image, half, plus, minus), attention.astype(np.float16), tau=20.0).scores
    np.testing.assert_allclose(close, whole, atol=2e-3)


def test_swapping_the_prompts_gives_one_minus_r() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.uniform(-1, 1, (2, 50))
    np.testing.assert_allclose(dual_probability(a, b, tau=100.0), 1 - dual_probability(b, a, tau=100.0), atol=1e-15)
    assert dual_probability([0.3], [0.1], tau=100.0)[0] == pytest.approx(1 / (1 + math.exp(-20)))


def test_refinement() -> None:
    _, _, attention = features(3)
    constant = np.full((3, CELLS, 2), 0.7)
    np.testing.assert_allclose(refine(constant, attention), 0.7, atol=1e-15)
    assert (refine(constant, attention, renormalize_rows=False) < 0.7).all()
    empty = attention.copy()
    empty[1, 4] = 0.0
    raw = np.random.default_rng(0).uniform(size=(3, CELLS, 1))
    assert refine(raw, empty)[1, 4, 0] == raw[1, 4, 0]


def test_switches() -> None:
    image, patches, attention = features(5)
    plus, minus = texts(2)
    cosines = patch_cosines(image, patches, plus, minus)
    base = ra_clip_scores(cosines, attention, tau=30.0)
    alone = ra_clip_scores(cosines, attention, tau=30.0, local=False)
    assert np.array_equal(alone.scores, dual_probability(cosines.positive[:, 0], cosines.negative[:, 0], tau=30.0))
    single = ra_clip_scores(cosines, attention, tau=30.0, dual=False, refine_by="none")
    np.testing.assert_allclose(single.maps, np.swapaxes((cosines.positive[:, 1:] + 1) / 2, 1, 2), atol=1e-12)
    without = ra_clip_scores(cosines, attention, tau=30.0, include_cls=False)
    inside = np.swapaxes(base.maps, 1, 2)
    by_hand = aggregate(cosines.positive[:, 1:], inside, tau_agg=30.0)
    np.testing.assert_allclose(without.scores, by_hand, atol=1e-15)
    for found in (base, alone, single, without):
        assert ((found.scores >= 0) & (found.scores <= 1)).all()
    assert (global_column("L"), global_column("L-1")) == ("embedding", "embedding_bypassed")


def test_what_is_refused() -> None:
    image, patches, attention = features(2)
    plus, minus = texts(1)
    cosines = patch_cosines(image, patches, plus, minus)
    with pytest.raises(OptionError, match="tau must be"):
        ra_clip_scores(cosines, attention, tau=0.0)
    with pytest.raises(OptionError, match="refine must be"):
        ra_clip_scores(cosines, attention, tau=1.0, refine_by="max")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="attention"):
        ra_clip_scores(cosines, attention[:, :3], tau=1.0)
    with pytest.raises(OptionError, match="width"):
        patch_cosines(image, patches, plus[:, :5], minus)
    with pytest.raises(OptionError, match="tokens must be"):
        patch_cosines(image[:1], patches, plus, minus)
    with pytest.raises(OptionError, match="global_layer"):
        global_column("L-2")
    patches[1, 3] = 0.0
    assert patch_cosines(image, patches, plus, minus).degenerate.tolist() == [False, True]


def test_the_weight_of_the_global_token() -> None:
    # The synthetic cosines of the definition: 196 patches, an attribute that is present.
    rng = np.random.default_rng(0)
    positive = np.concatenate([[0.247], 0.195 + 0.008 * rng.normal(size=196)])
    positive[1:17] += 0.03
    weights = {tau: token_weights(positive[None, :, None], tau_agg=tau)[0, 0, 0] for tau in (1.0, 100.0)}
    assert weights[1.0] == pytest.approx(0.005, abs=5e-4)
    assert 0.15 < weights[100.0] < 0.30


# fits and divergences


def test_sums_merge_without_rounding() -> None:
    rows = np.random.default_rng(0).beta(0.3, 2, (2000, 4))
    whole = ScoreSums(4)
    whole.add(rows)
    parts = [rows[a:b] for a, b in ((1700, 2000), (0, 1), (1, 1700))]
    merged = ScoreSums(4)
    for part in parts:
        one = ScoreSums(4)
        one.add(part[::-1])
        merged.merge(one)
    assert merged.n == 2000
    assert all(np.array_equal(a, b) for a, b in zip(whole.gaussian(), merged.gaussian()))
    np.testing.assert_allclose(whole.gaussian().mean, rows.mean(axis=0), atol=2e-7)
    np.testing.assert_allclose(whole.gaussian().cov, np.cov(rows.T), atol=2e-7)


def test_sums_refuse_what_does_not_fit() -> None:
    with pytest.raises(OptionError, match="power of two"):
        ScoreSums(1, unit=100.0)
    sums = ScoreSums(2)
    with pytest.raises(OptionError, match="at most 1"):
        sums.add([[0.0, 1.5]])
    with pytest.raises(OptionError, match="finite"):
        sums.add([[0.0, np.nan]])
    with pytest.raises(OptionError, match="one width"):
        sums.merge(ScoreSums(3))
    with pytest.raises(OptionError, match="two images"):
        sums.gaussian()
    high = ScoreSums(1, unit=128.0)
    high.add([[-99.0], [100.0]])
    assert high.gaussian().mean.tolist() == [0.5]


def normal(mean: list[float], cov: list[list[float]]) -> Gaussian:
    return Gaussian(np.asarray(mean), np.asarray(cov))


REF = normal([0.3, 0.6], [[0.04, 0.018], [0.018, 0.09]])
GEN = normal([0.35, 0.5], [[0.06, -0.01], [-0.01, 0.05]])


def test_closed_forms_against_monte_carlo() -> None:
    rng = np.random.default_rng(0)
    draws = rng.multivariate_normal(GEN.mean, GEN.cov, 400_000)

    def log_density(side: Gaussian, x: np.ndarray) -> np.ndarray:
        away = x - side.mean
        form = (away @ np.linalg.inv(side.cov) * away).sum(axis=1)
        return -0.5 * form - 0.5 * np.log(np.linalg.det(side.cov))

    by_draws = (log_density(GEN, draws) - log_density(REF, draws)).mean()
    assert pad(REF, GEN, floor=1e-12)[0] == pytest.approx(by_draws, rel=0.01)
    for k in (0, 1):
        one = [normal([side.mean[k]], [[side.cov[k, k]]]) for side in (REF, GEN)]
        estimate = (log_density(one[1], draws[:, [k]]) - log_density(one[0], draws[:, [k]])).mean()
        assert sad(REF, GEN, floor=1e-12)[k] == pytest.approx(estimate, rel=0.02)


def test_golden_divergences() -> None:
    # KL(N(6, 4.5²) ‖ N(5, 4²)) by the textbook: ln(4/4.5) + (4.5² + 1)/32 − 1/2.
    ref, gen = normal([5.0], [[16.0]]), normal([6.0], [[20.25]])
    assert sad(ref, gen, floor=1e-12)[0] == pytest.approx(math.log(4 / 4.5) + 21.25 / 32 - 0.5)
    assert sad(ref, gen, direction="ref||gen", floor=1e-12)[0] == pytest.approx(0.0375, abs=1e-4)
    assert pad(REF, GEN)[0] == pytest.approx(0.3681782, abs=1e-6)


def test_the_direction_swaps_the_sets() -> None:
    assert sad(REF, GEN, direction="ref||gen").tolist() == sad(GEN, REF).tolist()
    assert pad(REF, GEN, direction="ref||gen").tolist() == pad(GEN, REF).tolist()
    assert sad(REF, REF).tolist() == [0.0, 0.0]
    with pytest.raises(OptionError, match="direction"):
        sad(REF, GEN, direction="gen")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="floor"):
        sad(REF, GEN, floor=0.0)


def test_dependence_is_zero_for_independent_scores() -> None:
    a, b = normal([0.1, 0.2], [[0.04, 0], [0, 0.09]]), normal([0.3, 0.1], [[0.02, 0], [0, 0.05]])
    assert dependence(pad(a, b), sad(a, b))[0] == pytest.approx(0.0, abs=1e-12)
    coupled = normal([0.3, 0.1], [[0.02, 0.025], [0.025, 0.05]])
    assert dependence(pad(a, coupled), sad(a, coupled))[0] > 0.3
    assert dependence(pad(coupled, b), sad(coupled, b))[0] != 0.0


def test_batches_of_fits() -> None:
    both = Gaussian(np.stack([REF.mean, GEN.mean]), np.stack([REF.cov, GEN.cov]))
    found = pad(REF, both)
    assert found.shape == (2, 1)
    assert found[:, 0].tolist() == [0.0, pad(REF, GEN)[0]]


def test_condition_numbers() -> None:
    values = np.linalg.eigvalsh(REF.cov + 1e-6 * np.eye(2))
    assert condition_numbers(REF)[0] == pytest.approx(values[1] / values[0])


def test_scores_without_variance_stay_finite() -> None:
    flat, other = fit(np.zeros((5, 2))), fit(np.random.default_rng(0).uniform(0, 1, (9, 2)))
    for a, b in ((flat, flat), (flat, other), (other, flat)):
        assert np.isfinite(sad(a, b)).all()
        assert np.isfinite(pad(a, b)).all()
    zeros = np.zeros((5, 2))
    assert np.isfinite(sad_kde(zeros, np.ones((5, 2)))).all()
    assert np.isfinite(pad_kde(zeros, np.ones((5, 2)))).all()


@pytest.mark.parametrize("rho", [0.0, 0.7])
def test_null_means(rho: float) -> None:
    rng = np.random.default_rng(0)
    cov = np.array([[1.0, rho], [rho, 1.0]]) * 0.01
    singles, doubles, terms = [], [], []
    for _ in range(600):
        ref, gen = (rng.multivariate_normal([0.5, 0.5], cov, 500) for _ in range(2))
        fits = [Gaussian(side.mean(axis=0), np.cov(side.T)) for side in (ref, gen)]
        s, p = sad(*fits, floor=1e-12), pad(*fits, floor=1e-12)
        singles.append(s.mean())
        doubles.append(p[0])
        terms.append(dependence(p, s)[0])
    assert np.mean(singles) == pytest.approx(gaussian_null_mean(1, 500, 500), rel=0.08)
    assert np.mean(doubles) == pytest.approx(gaussian_null_mean(2, 500, 500), rel=0.08)
    assert np.mean(terms) == pytest.approx(0.5 * (1 / 500 + 1 / 500), rel=0.15)


def test_one_normal_is_blind_to_two_peaks() -> None:
    rng = np.random.default_rng(0)
    peaks = rng.choice([0.3, 0.7], 20_000) + 0.02 * rng.normal(size=20_000)
    bell = np.clip(rng.normal(peaks.mean(), peaks.std(), 20_000), 0, 1)
    ref, gen = bell[:, None], peaks[:, None]
    assert sad(fit(ref), fit(gen))[0] < 1e-3
    assert wasserstein(ref, gen)[0] > 0.05
    assert sad_kde(ref, gen)[0] > 0.3


def test_wasserstein_is_scipys() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.beta(2, 5, (300, 2)), rng.beta(3, 4, (211, 2))
    expected = [wasserstein_distance(a[:, k], b[:, k]) for k in (0, 1)]
    np.testing.assert_allclose(wasserstein(a, b), expected, rtol=1e-12)
    with pytest.raises(OptionError, match="both sets"):
        wasserstein(a[:0], b)


def test_jensen_shannon_by_hand() -> None:
    p, q = np.array([0.5, 0.5]), np.array([0.25, 0.75])
    m = (p + q) / 2
    by_hand = 0.5 * (p * np.log(p / m)).sum() + 0.5 * (q * np.log(q / m)).sum()
    assert jensen_shannon(p, q) == pytest.approx(by_hand)
    assert jensen_shannon([1.0, 0.0], [0.0, 1.0]) == pytest.approx(math.log(2))


# densities


def plain_pair_kl(p: np.ndarray, q: np.ndarray, points: int) -> float:
    """The same divergence through scipy's gaussian_kde on the same grid."""
    widths = [[scott(len(s), 2) * math.sqrt(c.var(ddof=1) + 1e-6) for c in s.T] for s in (p, q)]
    axes = [common_grid([p[:, a], q[:, a]], [widths[0][a], widths[1][a]], points) for a in (0, 1)]
    plane = np.stack([m.ravel() for m in np.meshgrid(*axes, indexing="ij")])
    first, second = gaussian_kde(p.T)(plane), gaussian_kde(q.T)(plane)
    first, second = first / first.sum(), second / second.sum()
    there = first > 0
    return float((first[there] * np.log(first[there] / second[there])).sum())


@pytest.mark.parametrize(("rho", "shift"), [(0.0, 0.02), (0.8, 0.05), (-0.5, 0.3), (0.0, 0.7), (0.97, 0.1)])
def test_pairs_by_kernels_are_scipys(rho: float, shift: float) -> None:
    rng = np.random.default_rng(4)
    p = rng.multivariate_normal([0.5, 0.5], np.array([[1, rho], [rho, 1]]) * 0.01, 800)
    q = rng.multivariate_normal([0.5 + shift, 0.5], np.array([[1, 0.2], [0.2, 1.3]]) * 0.01, 700)
    assert pair_kl(p, q) == pytest.approx(plain_pair_kl(p, q, PAIR_POINTS), rel=0.005)


def test_singles_by_kernels_are_scipys() -> None:
    rng = np.random.default_rng(5)
    p, q = rng.beta(2, 5, 600), rng.beta(3, 4, 500)
    widths = [scott(len(s)) * math.sqrt(s.var(ddof=1) + 1e-6) for s in (p, q)]
    grid = common_grid([p, q], widths, 1024)
    a, b = gaussian_kde(p)(grid), gaussian_kde(q)(grid)
    a, b = a / a.sum(), b / b.sum()
    expected = float((a * np.log(a / b)).sum())
    assert sad_kde(p[:, None], q[:, None], direction="ref||gen")[0] == pytest.approx(expected, rel=0.005)
    with pytest.raises(OptionError, match="three images"):
        sad_kde(p[:2, None], q[:, None])


def test_singles_by_kernels_are_the_integral_where_the_ends_matter() -> None:
    """At the ends of the grid one set's density may be far above the other's: a plain sum is 1e-4 too high there."""
    rng = np.random.default_rng(0)
    p, q = rng.normal(0.55, 0.05, 40), rng.normal(0.5, 0.04, 37)
    widths = [scott(len(s)) * math.sqrt(s.var(ddof=1) + 1e-6) for s in (p, q)]
    grid = common_grid([p, q], widths, 100_001)
    logs = [np.log(np.exp(-0.5 * np.square((grid[:, None] - s) / h)).mean(axis=1) / h) for s, h in zip((p, q), widths)]
    logs = [log - math.log(np.trapezoid(np.exp(log), grid)) for log in logs]
    expected = np.trapezoid(np.exp(logs[0]) * (logs[0] - logs[1]), grid)
    assert sad_kde(p[:, None], q[:, None], direction="ref||gen")[0] == pytest.approx(float(expected), rel=1e-5)


def test_legacy_arithmetic() -> None:
    rng = np.random.default_rng(6)
    ref = rng.multivariate_normal([5, -3], [[16, 4], [4, 9]], 300)
    gen = rng.multivariate_normal([6, -2], [[20, 0], [0, 9]], 250)
    single = sad_legacy(ref, gen)
    grid = [-35 + 70 * k / 9999 for k in range(10_000)]
    p = gaussian_kde(ref[:, 0])(grid) * 0.007 + 1e-10
    q = gaussian_kde(gen[:, 0])(grid) * 0.007 + 1e-10
    assert single[0] == pytest.approx(sum(a * math.log(a / b) for a, b in zip(p, q)) / 10_000, rel=1e-9)
    nats = sad_kde(ref, gen, direction="ref||gen")
    # The 1e-10 of every cell caps ratios in the tails, which takes some per cent.
    np.testing.assert_allclose(single * 1e7 / nats, 1000, rtol=0.05)
    assert printed(single) == pytest.approx(round(float(single.mean()), 10) * 1e7)
    np.testing.assert_allclose(sad_legacy(ref, gen, points=1000) / single, 10.0, rtol=0.03)
    double = pad_legacy(ref, gen)
    assert double[0] * 1e7 / pair_kl(ref, gen, points=200) == pytest.approx(1000, rel=0.06)


# maps


def test_map_sums_are_exact_in_any_order() -> None:
    maps = np.random.default_rng(0).uniform(size=(50, 2, 6))
    whole, parts = MapSums((2, 6)), [MapSums((2, 6)) for _ in range(3)]
    whole.add(maps)
    for k, part in enumerate(parts):
        part.add(maps[k::3])
    for part in parts[1:]:
        parts[0].merge(part)
    assert parts[0].n == 50
    assert np.array_equal(parts[0].mean(), whole.mean())
    assert np.array_equal(parts[0].variance(), whole.variance())
    np.testing.assert_allclose(whole.mean(), maps.mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(whole.variance(), maps.var(axis=0, ddof=1), atol=1e-8)
    for wrong in (np.full((1, 2, 6), 1.1), np.zeros((1, 2, 5)), np.full((1, 2, 6), np.nan)):
        with pytest.raises(OptionError):
            whole.add(wrong)


def test_size_of_a_map() -> None:
    maps = r_sad([[0.5, 0.1, 0.3]], [[0.2, 0.3, 0.3]])
    size = map_size(maps)
    assert size.mar[0] == pytest.approx(0.5 / 3)
    assert size.level[0] == pytest.approx(0.1 / 3)
    assert size.shape[0] == pytest.approx((abs(0.3 - 0.1 / 3) + abs(-0.2 - 0.1 / 3) + 0.1 / 3) / 3)
    rng = np.random.default_rng(0)
    draws = [map_size(r_sad(*(rng.normal(0.5, 0.1, (200, 30)).mean(axis=0) for _ in range(2)))).mar for _ in range(300)]
    floor = mar_noise_floor(np.full(30, 0.01), np.full(30, 0.01), 200, 200)
    assert np.mean(draws) == pytest.approx(float(floor), rel=0.03)


def test_pooled_cells_and_regional_kl() -> None:
    maps = np.arange(16.0)[None]
    assert pool_cells(maps, (4, 4), 2)[0].tolist() == [2.5, 4.5, 10.5, 12.5]
    with pytest.raises(OptionError, match="multiples"):
        pool_cells(maps, (4, 4), 3)
    found = regional_kl([[0.2, 0.4]], [[0.01, 0.02]], [[0.3, 0.4]], [[0.01, 0.02]], floor=1e-12)
    assert found[0].tolist() == pytest.approx([0.5, 0.0])


def blob(x: float, y: float, grid: tuple[int, int] = (9, 12), size: float = 0.08, height: float = 0.5) -> np.ndarray:
    rows, columns = ((np.arange(count) + 0.5) / count for count in grid)
    form = np.square(columns[None] - x) + np.square(rows[:, None] - y)
    return (0.05 + height * np.exp(-form / (2 * size**2))).ravel()


def test_placement_tells_place_and_not_frequency() -> None:
    grid = (9, 12)
    moved = placement(blob(0.375, 0.5), blob(0.625, 0.5), grid)
    assert moved.shift_x == pytest.approx(0.25, abs=0.01)
    assert moved.w1_x == pytest.approx(0.25, abs=0.01)
    assert abs(moved.shift_y) < 1e-9
    assert moved.w1_y < 1e-9
    assert moved.jsd > 0.3
    rarer = placement(blob(0.375, 0.5), blob(0.375, 0.5, height=0.1), grid)
    assert rarer.jsd < 1e-9
    assert map_size(r_sad(blob(0.375, 0.5), blob(0.375, 0.5, height=0.1))).mar > 0.01
    wider = placement(blob(0.5, 0.5), blob(0.5, 0.5, size=0.16), grid)
    assert wider.spread_ratio == pytest.approx(1.9, abs=0.25)
    nothing = placement(blob(0.5, 0.5), np.full(108, 0.3), grid)
    assert not nothing.enough
    assert np.isfinite(nothing.jsd)
    mirrored = r_sad(blob(0.3, 0.5), blob(0.6, 0.5)).reshape(grid)
    flipped = r_sad(blob(0.7, 0.5), blob(0.4, 0.5)).reshape(grid)
    np.testing.assert_allclose(mirrored[:, ::-1], flipped, atol=1e-12)
    assert excess(np.arange(101.0), background="q05").tolist()[:7] == [0, 0, 0, 0, 0, 0, 1]
    with pytest.raises(OptionError, match="grid"):
        placement(blob(0.5, 0.5), blob(0.5, 0.5), (9, 11))


def test_relevance_drops_nothing() -> None:
    ref = np.stack([np.full(50, 0.001), np.linspace(0, 1, 50), np.full(50, 0.9)], axis=1)
    gen = np.stack([np.full(50, 0.002), np.linspace(0, 1, 50), np.full(50, 0.9)], axis=1)
    found = relevance(ref, gen)
    assert found.irrelevant.tolist() == [True, False, False]
    assert found.prevalence_ref.tolist() == [0.0, 0.5, 1.0]
    assert pairs(3)[0].tolist() == [0, 0, 1]
