"""U4 of the definition: with an encoder that knows everything, each statistic shows what it should and nothing else."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import spearmanr
from tests.oracle_encoder import GRID, Thing, oracle_scores, scatter

from beholder._errors import OptionError
from beholder.functional.densities import scott
from beholder.functional.divergence import gaussian_null_mean
from beholder.functional.maps import mar_noise_floor, with_squares
from beholder.functional.pair_densities import pad_kde, pair_grids
from beholder.stats.map_sets import MOST_IMAGES, JudgedMap, MapSettings, MapUnits, judge_maps
from beholder.stats.pair_draws import MOST_PAIR_UNITS, Side, pair_divergences
from beholder.stats.region_sets import judge_regions
from beholder.stats.resample import bootstrap_counts, deal, judge, split_marks
from beholder.stats.score_sets import Drawn, ScoreSettings, _Draws, draw_scores, judge_draws, judge_scores, mean_of

FAST = ScoreSettings(resamples=200, permutations=300)
MAPS = MapSettings(GRID, resamples=300, permutations=300)
HALF = 0.5


def units(pictures: list[list[Thing]], attributes: int, *, seed: int) -> MapUnits:
    found = oracle_scores(pictures, attributes, seed=seed)
    made = MapUnits((attributes, GRID[0] * GRID[1]))
    made.add([f"{seed}:{i}".encode().rjust(8) for i in range(len(pictures))], found.maps)
    return made


def compare_maps(ref: list[list[Thing]], gen: list[list[Thing]], attributes: int = 1) -> list[JudgedMap]:
    return judge_maps(units(ref, attributes, seed=1), units(gen, attributes, seed=2), MAPS)


def scores(pictures: list[list[Thing]], attributes: int, seed: int) -> np.ndarray:
    return oracle_scores(pictures, attributes, seed=seed).scores


def test_injection_raises_sad_and_pad_and_leaves_controls() -> None:
    ref = scores(scatter(300, shares=[0.1, HALF, 0.3], seed=1), 3, 1)
    shares = [0.1, 0.3, 0.5, 0.7, 0.9, 1.0]
    found = [judge_scores(ref, scores(scatter(300, shares=[s, HALF, 0.3], seed=7), 3, 2), FAST) for s in shares]
    injected = [float(one["sad"].value[0]) for one in found]
    paired = [float(one["pad"].value[0]) for one in found]
    assert spearmanr(shares, injected)[0] == pytest.approx(1.0)
    assert spearmanr(shares, paired)[0] == pytest.approx(1.0)
    assert found[0]["sad"].p[0] > 0.05 > found[-1]["sad"].p[0]
    for one in found:
        assert (one["sad"].p[1:] > 0.01).all(), "controls stay within the null"
        assert one["mean_difference"].p[1] > 0.01
    assert found[-1]["mean_difference"].value[0] > 0.3
    assert found[-1]["w1"].p[0] < 0.01
    assert found[-1]["jsd"].p[0] < 0.01


def coupled(n: int, *, with_b: bool, seed: int) -> list[list[Thing]]:
    """Attributes 0 and 1 in half of the pictures each: together where `with_b`, else never together."""
    rng = np.random.default_rng(seed)
    pictures = []
    for _ in range(n):
        first = rng.random() < HALF
        chosen = [0] * first + [1] * (first if with_b else not first)
        pictures.append([Thing(t, 2.0 if t == 0 else 6.0, 4.0) for t in chosen])
    return pictures


def test_inverse_coupling_shows_in_pairs_only() -> None:
    # The global token of a picture with both is between the two; patches alone carry this proof.
    ref, again = (coupled_scores(with_b=True, seed=s) for s in (1, 2))
    other = coupled_scores(with_b=False, seed=3)
    same, changed = judge_scores(ref, again, FAST), judge_scores(ref, other, FAST)
    assert same["pad"].p[0] > 0.05
    assert same["dependence"].p[0] > 0.05
    assert changed["pad"].p[0] < 0.01
    assert changed["dependence"].p[0] < 0.01
    assert changed["dependence"].value[0] > 20 * changed["sad"].value.sum()
    assert changed["sad"].value.max() < 0.05 < changed["pad"].value[0]


def coupled_scores(*, with_b: bool, seed: int) -> np.ndarray:
    return oracle_scores(coupled(400, with_b=with_b, seed=seed), 2, seed=seed).maps.max(axis=2)


def test_prevalence_alone_leaves_the_place_at_its_null() -> None:
    ref = scatter(400, shares=[0.9], seed=1)
    sizes, mass = [], []
    for share in (0.9, 0.6, 0.3):
        found = compare_maps(ref, scatter(400, shares=[share], seed=5))[0]
        assert found.placement["jsd"].p > 0.02
        assert found.placement["w1_x"].p > 0.02
        sizes.append(float(found.sizes["mar"].value))
        mass.append(found.masses[1])
    assert sizes[0] < sizes[1] < sizes[2]
    assert found.sizes["mar"].p < 0.01
    assert found.sizes["level"].p < 0.01
    assert found.sizes["level"].value > 0, "more in the reference"
    assert mass == sorted(mass, reverse=True)


def test_a_shift_shows_in_the_place_along_its_axis() -> None:
    ref = scatter(300, shares=[0.8], seed=1, x=2.0, spread=0.3)
    jsd, across, shift = [], [], []
    for cells in (0, 1, 2, 3, 4):
        found = compare_maps(ref, scatter(300, shares=[0.8], seed=4, x=2.0 + cells, spread=0.3))[0].placement
        jsd.append(float(found["jsd"].value))
        across.append(float(found["w1_x"].value))
        shift.append(float(found["shift_x"].value))
        assert found["w1_y"].value < 0.02
        assert found["shift_y"].p > 0.005
    assert jsd == sorted(jsd)
    assert across == sorted(across)
    assert shift[4] == pytest.approx(4 / 8, abs=0.12), "a little less than the true shift: background takes part"
    assert found["jsd"].p < 0.01
    assert found["shift_x"].p < 0.01
    assert found["shift_x"].low < shift[4] < found["shift_x"].high


def test_a_wider_placement() -> None:
    ref = scatter(300, shares=[0.8], seed=1, spread=0.4)
    found = compare_maps(ref, scatter(300, shares=[0.8], seed=2, spread=1.6))[0].placement
    assert found["jsd"].p < 0.01
    assert found["spread_ratio"].value > 1.15
    assert found["spread_ratio"].p < 0.01


def test_mirrors_and_swaps() -> None:
    left, right = scatter(80, shares=[0.9], seed=1, x=2.0), scatter(80, shares=[0.9], seed=1, x=6.0)
    a, b = units(left, 1, seed=1), units(right, 1, seed=2)
    forward, backward = judge_maps(a, b, MAPS)[0], judge_maps(b, a, MAPS)[0]
    assert np.array_equal(forward.difference, -backward.difference)
    assert forward.placement["shift_x"].value == pytest.approx(-float(backward.placement["shift_x"].value))
    same = judge_maps(a, a, MAPS)[0]
    assert not same.difference.any()
    assert same.sizes["mar"].value == 0.0
    assert same.placement["jsd"].value == 0.0
    picture = forward.difference.reshape(GRID)
    assert picture[4, 2] > 0.2 > -0.2 > picture[4, 6]
    significant = forward.p_cells < 0.05
    assert significant.reshape(GRID)[4, 2]
    assert significant.reshape(GRID)[4, 6]
    assert significant.reshape(GRID)[0, 0] == False  # noqa: E712


def test_too_little_mass_has_no_place() -> None:
    ref = scatter(100, shares=[0.8], seed=1)
    gen = scatter(100, shares=[0.0], seed=2)
    found = judge_maps(units(ref, 1, seed=1), units(gen, 1, seed=2), MapSettings(GRID, mass_floor=0.05))[0]
    assert found.placement == {}
    assert found.masses[0] > 0.05 > found.masses[1]


def test_two_halves_of_one_set_differ_in_one_case_of_twenty() -> None:
    pictures = scatter(1200, shares=[0.5, 0.2], seed=1)
    made = oracle_scores(pictures, 2, seed=1)
    rng = np.random.default_rng(0)
    fast, maps = ScoreSettings(resamples=0, permutations=199), MapSettings(GRID, resamples=150, permutations=199)
    hits = {"sad": [], "pad": [], "mar": [], "jsd": []}
    for _ in range(60):
        order = rng.permutation(1200)[:240]
        halves = order[:120], order[120:]
        found = judge_scores(*(made.scores[half] for half in halves), fast)
        both = [MapUnits((2, 64)) for _ in halves]
        for half, unit in zip(halves, both):
            unit.add([int(i).to_bytes(8, "big") for i in half], made.maps[half])
        judged = judge_maps(*both, maps)
        hits["sad"] += (found["sad"].p > 0.05).tolist()
        hits["pad"] += (found["pad"].p > 0.05).tolist()
        hits["mar"] += [bool(one.sizes["mar"].p > 0.05) for one in judged]
        hits["jsd"] += [bool(one.placement["jsd"].p > 0.05) for one in judged if one.placement]
    for name, passed in hits.items():
        assert 0.86 <= np.mean(passed) <= 1.0, (name, np.mean(passed))


def test_levels_of_nothing() -> None:
    rng = np.random.default_rng(0)
    ref, gen = (rng.beta(4, 4, (500, 2)) for _ in range(2))
    found = judge_scores(ref, gen, ScoreSettings(resamples=400, permutations=400))
    assert found["sad"].null_mean.mean() == pytest.approx(gaussian_null_mean(1, 500, 500), rel=0.25)
    assert found["pad"].null_mean[0] == pytest.approx(gaussian_null_mean(2, 500, 500), rel=0.25)
    assert found["dependence"].null_mean[0] == pytest.approx(0.002, rel=0.5)
    assert np.array_equal(found["sad"].corrected, found["sad"].value - found["sad"].null_mean)
    assert (found["sad"].low <= found["sad"].high).all()
    assert found["sad_mean"].value == pytest.approx(found["sad"].value.mean())


def test_seeds() -> None:
    rng = np.random.default_rng(0)
    ref, gen = rng.beta(4, 4, (60, 2)), rng.beta(4, 3, (50, 2))
    one, two, other = (judge_scores(ref, gen, ScoreSettings(seed=s, resamples=100, permutations=99)) for s in (3, 3, 4))
    for name in one:
        assert all(np.array_equal(a, b) for a, b in zip(one[name], two[name]))
    assert not np.array_equal(one["sad"].low, other["sad"].low)
    assert np.array_equal(one["sad"].value, other["sad"].value)


def test_the_bootstrap_is_the_textbooks() -> None:
    """A plain loop of resampled rows, with the same statistic."""
    rng = np.random.default_rng(0)
    ref, gen = rng.beta(4, 4, (80, 1)), rng.beta(5, 3, (70, 1))
    found = judge_scores(ref, gen, ScoreSettings(resamples=2000, permutations=0))["mean_difference"]
    draws = [gen[rng.integers(0, 70, 70)].mean() - ref[rng.integers(0, 80, 80)].mean() for _ in range(2000)]
    assert found.low[0] == pytest.approx(np.quantile(draws, 0.025), abs=0.01)
    assert found.high[0] == pytest.approx(np.quantile(draws, 0.975), abs=0.01)
    assert found.p is None
    assert found.null_mean is None


def test_groups_of_images_give_the_same_interval() -> None:
    rng = np.random.default_rng(0)
    ref, gen = rng.beta(4, 4, (9000, 1)), rng.beta(4, 4.1, (6000, 1))
    found = judge_scores(ref, gen, ScoreSettings(resamples=1000, permutations=500))
    error = np.sqrt(ref.var() / 9000 + gen.var() / 6000)
    width = found["mean_difference"].high[0] - found["mean_difference"].low[0]
    assert width == pytest.approx(2 * 1.96 * error, rel=0.1)
    assert found["sad"].null_mean[0] == pytest.approx(gaussian_null_mean(1, 9000, 6000), rel=0.25)


@pytest.mark.parametrize("density", ["kde", "kde_legacy"])
def test_other_densities(density: str) -> None:
    rng = np.random.default_rng(0)
    ref, gen = rng.normal(5, 4, (120, 2)), rng.normal(9, 4, (110, 2))
    settings = ScoreSettings(unit=128.0, density=density, resamples=100, permutations=99)  # type: ignore[arg-type]
    found = judge_scores(ref, gen, settings)
    if density == "kde":
        assert (found["sad"].p < 0.02).all()
        assert (found["sad"].low < found["sad"].value).all()
        assert (found["sad"].value < found["sad"].high).all()
        assert found["pad"].low[0] < found["pad"].value[0] < found["pad"].high[0]
        assert found["pad"].p[0] < 0.02
        assert found["dependence"].null_level is not None
    else:
        assert found["sad"].low is None
        assert found["sad"].p is None
        assert found["pad"].low is None
    assert found["pad"].value.shape == (1,)


def correlated(seed: int, n: int, shift: float) -> np.ndarray:
    cov = [[0.01, 0.005, 0.0], [0.005, 0.02, 0.0], [0.0, 0.0, 0.01]]
    return np.random.default_rng(seed).multivariate_normal([0.4, 0.4 + shift, 0.5], cov, n)


@pytest.mark.parametrize(("n", "shift"), [(150, 0.05), (150, 0.5), (700, 0.05)])
def test_draws_of_pairs_are_the_divergence_itself(n: int, shift: float) -> None:
    """A draw of every image once is PaD of the sets, on a coarser grid; a draw with counts, that of repeated rows."""
    ref, gen = correlated(1, n, 0.0), correlated(2, n + 20, shift)
    rng = np.random.default_rng(0)
    groups = [deal(len(side), rng, MOST_PAIR_UNITS) for side in (ref, gen)]
    once = [Side(side, own, np.ones((1, len(own)))) for side, own in zip((ref, gen), groups)]
    rtol = 0.05 if shift > 0.1 else 0.01  # far tails, which hardly overlap, feel the coarser grid
    for direction in ("gen||ref", "ref||gen"):
        expected = pad_kde(ref, gen, direction=direction)  # type: ignore[arg-type]
        np.testing.assert_allclose(pair_divergences((ref, gen), once, direction)[0], expected, rtol=rtol)  # type: ignore[arg-type]
    if n > MOST_PAIR_UNITS:
        return
    drawn = [bootstrap_counts(rng, 1, len(own)) for own in groups]
    found = pair_divergences((ref, gen), [Side(*side[:2], w) for side, w in zip(once, drawn)], "gen||ref")[0]
    grids = pair_grids((ref[:, :2], gen[:, :2]), 128)
    plane = np.stack([axis.ravel() for axis in np.meshgrid(*grids, indexing="ij")])
    logs = []
    for side, weights in ((gen, drawn[1][0]), (ref, drawn[0][0])):
        # A plain sum of kernels, with the bandwidth of the drawn rows.
        rows = np.repeat(side[:, :2], weights.astype(int), axis=0)
        cov = np.cov(rows.T) * scott(len(side), 2) ** 2
        away = plane[:, :, None] - side[:, :2].T[:, None, :]
        terms = -0.5 * np.einsum("iab,ij,jab->ab", away, np.linalg.inv(cov), away)
        density = logsumexp(terms, b=weights, axis=1)
        logs.append(density - logsumexp(density))
    assert found[0] == pytest.approx(float((np.exp(logs[0]) * (logs[0] - logs[1])).sum()), rel=rtol)


def test_pairs_by_kernels_have_intervals_and_nulls() -> None:
    ref, same, other = correlated(1, 160, 0.0), correlated(2, 150, 0.0), correlated(3, 150, 0.12)
    how = ScoreSettings(density="kde", resamples=150, permutations=150, companions=False)
    nothing, much = judge_scores(ref, same, how), judge_scores(ref, other, how)
    assert (nothing["pad"].p > 0.01).all()
    assert (nothing["pad"].null_mean > gaussian_null_mean(2, 160, 150)).all(), "kernels are noisier than normals"
    assert much["pad"].p[0] < 0.01 < much["pad"].p[1]
    assert (much["pad"].low < much["pad"].high).all()
    for name in ("pad", "dependence"):
        assert np.array_equal(much[name].low, judge_scores(ref, other, how)[name].low)
    assert much["pad_mean"].value == pytest.approx(much["pad"].value.mean())
    alone = judge_scores(ref, other, dataclasses.replace(how, pairs=False))
    assert alone["pad"].low is None
    assert np.array_equal(alone["sad"].low, much["sad"].low)


def test_kernels_keep_their_level() -> None:
    """Two samples of one distribution with two peaks, whose spread a draw of labels moves: p is even."""
    rng = np.random.default_rng(0)
    how = ScoreSettings(density="kde", resamples=0, permutations=99, companions=False, pairs=False)
    found = []
    for _ in range(40):
        sides = [np.where(rng.random((80, 3)) < 0.3, 0.8, 0.2) + 0.04 * rng.normal(size=(80, 3)) for _ in range(2)]
        found += judge_scores(sides[0], sides[1], how)["sad"].p.tolist()
    assert 0.88 <= np.mean(np.asarray(found) > 0.05) <= 1.0
    assert 0.4 < np.mean(found) < 0.6


def rare_and_crowded(rng: np.random.Generator, n: int) -> np.ndarray:
    """Scores of two attributes that hardly any image has: all crowd near 0, but for a few near 1."""
    rare = rng.random((n, 2)) < 0.03
    return np.where(rare, 0.9 + 0.05 * rng.random((n, 2)), 0.01 + 0.001 * rng.normal(size=(n, 2)))


def test_rare_attributes_keep_their_level_by_kernels() -> None:
    """A grid from 0 to 1 cannot hold the kernel of crowded scores: draws and sets must be compared on the same one."""
    settings = ScoreSettings(density="kde", resamples=0, permutations=39)
    hits: dict[str, list[float]] = {}
    for seed in range(24):
        rng = np.random.default_rng(seed)
        found = judge_scores(rare_and_crowded(rng, 40), rare_and_crowded(rng, 60), settings)
        for name, one in found.items():
            assert np.isfinite(one.null_level).all(), name
            hits.setdefault(name, []).extend(np.ravel(one.p <= 0.1).tolist())
    assert set(hits) >= {"sad", "pad", "dependence", "w1", "jsd"}
    for name, shares in hits.items():
        assert np.mean(shares) <= 0.25, f"{name}: one in ten is expected"


def test_w1_of_draws_is_that_of_the_scores() -> None:
    """Each draw's W1 is the distance of the scores themselves, however crowded."""
    rng = np.random.default_rng(5)
    ref, gen = rare_and_crowded(rng, 40), rare_and_crowded(rng, 40)
    found = judge_scores(ref, gen, ScoreSettings(resamples=0, permutations=200, seed=3))
    pooled = np.concatenate([ref, gen])[:, 0]
    plain = []
    for _ in range(2000):
        mixed = rng.permutation(pooled)
        plain.append(np.abs(np.sort(mixed[:40]) - np.sort(mixed[40:])).mean())
    assert found["w1"].null_mean[0] == pytest.approx(np.mean(plain), rel=0.1)
    draws = _Draws(ref, gen, np.concatenate([ref, gen]), ScoreSettings(), np.random.default_rng(0))
    itself = [np.abs(np.sort(ref[:, c]) - np.sort(gen[:, c])).mean() for c in (0, 1)]
    assert draws.as_they_are()["w1"][0] == pytest.approx(itself, rel=1e-9), "no grid comes between"


def test_p_compares_like_with_like() -> None:
    null = np.array([[1.0], [2.0], [3.0], [np.nan]])
    assert judge([9.0], null=null[:3]).p == pytest.approx([0.25])
    assert judge([9.0], null=null[:3], seen=[2.0]).p == pytest.approx([0.75])
    assert judge([9.0], null=null).p == pytest.approx([0.4]), "what is not a number speaks against nothing"


def test_map_units_merge_and_group() -> None:
    rng = np.random.default_rng(0)
    n = MOST_IMAGES + 300
    maps = rng.uniform(size=(n, 2, 9))
    keys = [rng.bytes(16) for _ in range(n)]
    whole, backward = MapUnits((2, 9)), MapUnits((2, 9))
    whole.add(keys, maps)
    backward.add(keys[::-1], maps[::-1])
    parts = [MapUnits((2, 9)) for _ in range(2)]
    for k, part in enumerate(parts):
        part.add(keys[k::2], maps[k::2])
    parts[0].merge(parts[1])
    tables = [one.table() for one in (whole, backward, parts[0])]
    assert whole.grouped
    assert not parts[1].grouped
    for numbers, sums in tables[1:]:
        assert np.array_equal(numbers, tables[0][0])
        assert np.array_equal(sums, tables[0][1])
    assert tables[0][0].sum() == n
    np.testing.assert_allclose(tables[0][1].sum(axis=0) / n, maps.mean(axis=0), atol=1e-8)
    other = MapUnits((2, 9))
    other.add([rng.bytes(16) for _ in range(200)], rng.uniform(size=(200, 2, 9)))
    settings = MapSettings((3, 3), resamples=400)
    found = judge_maps(whole, other, settings)[0]
    assert found.method == "centred-bootstrap"
    level = mar_noise_floor(np.full(9, 1 / 12), np.full(9, 1 / 12), n, 200)
    assert found.sizes["mar"].null_mean == pytest.approx(float(level), rel=0.15)
    assert found.sizes["mar"].p > 0.01


def test_what_is_refused() -> None:
    with pytest.raises(OptionError, match="density"):
        ScoreSettings(density="normal")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="direction"):
        ScoreSettings(direction="both")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="0 or more"):
        ScoreSettings(resamples=-1)
    with pytest.raises(OptionError, match="three scored"):
        judge_scores(np.zeros((2, 1)), np.zeros((9, 1)), FAST)
    with pytest.raises(OptionError, match="three scored"):
        judge_maps(MapUnits((1, 64)), MapUnits((1, 64)), MAPS)
    with pytest.raises(OptionError, match="level"):
        judge(0.0, level=1.0)


def test_draws() -> None:
    rng = np.random.default_rng(0)
    groups = deal(5000, rng)
    assert groups.shape == (1667, 3)
    assert sorted(groups[groups >= 0].tolist()) == list(range(5000))
    assert bootstrap_counts(rng, 3, 40).sum(axis=1).tolist() == [40.0] * 3
    marks = split_marks(rng, 500, 10, 4)
    assert marks.sum(axis=1).tolist() == [4.0] * 500
    assert marks.mean(axis=0) == pytest.approx(np.full(10, 0.4), abs=0.08)


def region_units(pictures: list[list[Thing]], *, seed: int) -> MapUnits:
    made = MapUnits((1, 32))
    rng = np.random.default_rng(seed)
    made.add([rng.bytes(16) for _ in pictures], with_squares(oracle_scores(pictures, 1, seed=seed).maps, GRID, 4))
    return made


def test_regions_by_hand_and_their_draws() -> None:
    ref, gen = scatter(120, shares=[0.8], seed=1, x=2.0), scatter(100, shares=[0.8], seed=2, x=6.0)
    found = judge_regions(region_units(ref, seed=1), region_units(gen, seed=2), MAPS)[0]
    pooled = [
        oracle_scores(side, 1, seed=seed).maps[:, 0].reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
        for side, seed in ((ref, 1), (gen, 2))
    ]
    means, variances = [side.mean(axis=0) for side in pooled], [side.var(axis=0, ddof=1) + 1e-6 for side in pooled]
    by_hand = 0.5 * (
        variances[1] / variances[0]
        + (means[1] - means[0]) ** 2 / variances[0]
        - 1
        + np.log(variances[0] / variances[1])
    )
    np.testing.assert_allclose(found.cells.value, by_hand, rtol=1e-4)
    assert found.mean.value == pytest.approx(by_hand.mean(), rel=1e-4)
    assert found.mean.p < 0.01
    assert found.cells.low.min() >= 0
    assert found.mean.low < found.mean.value < found.mean.high
    mirrored = judge_regions(region_units(ref, seed=1), region_units(gen, seed=2), MAPS, direction="ref||gen")[0]
    swapped = judge_regions(region_units(gen, seed=2), region_units(ref, seed=1), MAPS)[0]
    np.testing.assert_allclose(mirrored.cells.value, swapped.cells.value, rtol=1e-9)


def test_regions_of_nothing() -> None:
    same = [region_units(scatter(120, shares=[0.8], seed=seed), seed=seed) for seed in (1, 2)]
    found = judge_regions(same[0], same[1], MAPS)[0]
    assert found.mean.p > 0.01
    assert found.mean.null_mean > gaussian_null_mean(1, 120, 120), "patch scores have heavier tails than a normal"
    with pytest.raises(OptionError, match="three scored"):
        judge_regions(MapUnits((1, 32)), MapUnits((1, 32)), MAPS)


def test_regions_of_groups_have_the_null_of_images() -> None:
    """More images than are kept one by one: sums of groups, and a null from moved bootstrap moments."""
    pictures = [scatter(1100, shares=[0.8], seed=seed) for seed in (1, 2)]
    few, many = (
        judge_regions(*(region_units(side[:count], seed=seed) for seed, side in enumerate(pictures)), MAPS)[0]
        for count in (MOST_IMAGES, 1100)
    )
    assert many.mean.null_mean == pytest.approx(float(few.mean.null_mean), rel=0.3)
    assert many.mean.p > 0.01
    assert few.mean.p > 0.01


def test_the_mean_over_attributes_of_joint_draws_and_of_draws_that_belong_apart() -> None:
    """One stream of random numbers must not make draws of separate images joint ones."""
    rng = np.random.default_rng(2)
    joint = rng.normal(size=4000)
    parts = [Drawn(np.array(5.0), joint), Drawn(np.array(7.0), joint)]
    together, apart = (mean_of(parts, ScoreSettings(level=0.9), apart=flag) for flag in (False, True))
    assert together.value == apart.value == 6.0
    wide, narrow = (float(one.high - one.low) for one in (together, apart) if one.high is not None)
    assert wide == pytest.approx(2 * 1.645, rel=0.05)  # perfectly correlated: the mean scatters as each
    assert narrow == pytest.approx(2 * 1.645 / np.sqrt(2), rel=0.05)  # independent
    none = mean_of([Drawn(np.array(5.0), joint), Drawn(np.array(7.0))], ScoreSettings(), apart=False)
    assert (none.value, none.low, none.p) == (6.0, None, None)


def test_the_mean_of_given_attributes_is_that_of_their_columns() -> None:
    rng = np.random.default_rng(5)
    drawn = draw_scores(rng.random((60, 3)), rng.random((50, 3)), ScoreSettings(resamples=200, permutations=99))
    every = mean_of([drawn["sad"].column(c) for c in range(3)], ScoreSettings(), apart=False)
    whole = judge_draws(drawn, ScoreSettings())["sad_mean"]
    for name in ("value", "low", "high", "null_mean", "null_level", "p"):
        assert getattr(every, name) == pytest.approx(getattr(whole, name)), name
