"""Two sets of attribute scores: SaD, PaD and their companions with intervals, null levels and p-values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError
from beholder.functional.densities import sad_kde, smoothing, trapezoid
from beholder.functional.divergence import (
    FLOOR,
    Direction,
    dependence,
    jensen_shannon,
    pad,
    sad,
    wasserstein,
)
from beholder.functional.legacy_density import PRINTED, pad_legacy, sad_legacy
from beholder.functional.pair_densities import pad_kde
from beholder.functional.score_sums import Gaussian, fit
from beholder.stats.drawn_shares import distance_nodes, drawn_shares, drawn_variances, score_grid, smoothed_shares
from beholder.stats.pair_draws import MOST_PAIR_UNITS, Side, pair_divergences
from beholder.stats.resample import MOST_UNITS, Judged, bootstrap_counts, deal, judge, split_marks

Density = Literal["gaussian", "kde", "kde_legacy"]
DIVERGENCES = frozenset({"sad", "pad", "dependence", "sad_mean", "pad_mean", "dependence_mean"})
SIGNED = frozenset({"mean_difference", "dependence", "dependence_mean"})
LIE_HIGH = frozenset({"sad", "pad", "sad_mean", "pad_mean"})
"""Statistics whose bootstrap lies too high by twice the null mean, where densities are normals."""


@dataclass(frozen=True)
class ScoreSettings:
    """How sets of scores are compared.

    Args:
        unit: a power of two that no score exceeds (1, or 128 for 100·cosines).
        direction: see `divergence.sad`; "kde_legacy" is always ref||gen.
        density: "gaussian", "kde" (nats) or "kde_legacy" (no intervals).
        floor: variance floor, in squared units of `unit`.
        seed: seed of all draws.
        resamples: bootstrap draws; 0 for no intervals.
        permutations: reshuffles of the set labels; 0 for no nulls.
        level: of intervals and null levels.
        companions: also W1 and JSD; False leaves them out.
        legacy_scale: divergences times 1000, as the public code prints them; "kde_legacy" always has its scale.
        pairs: also intervals and nulls of pairs, which take some seconds a pair by kernels; False leaves them out.
    """

    unit: float = 1.0
    direction: Direction = "gen||ref"
    density: Density = "gaussian"
    floor: float = FLOOR
    seed: int = 0
    resamples: int = 1000
    permutations: int = 1000
    level: float = 0.95
    companions: bool = True
    pairs: bool = True
    legacy_scale: bool = False

    def __post_init__(self) -> None:
        if self.density not in get_args(Density):
            raise OptionError(f"density must be one of: {', '.join(get_args(Density))}", got=repr(self.density))
        if self.direction not in get_args(Direction):
            raise OptionError(f"direction must be one of: {', '.join(get_args(Direction))}", got=repr(self.direction))
        if min(self.resamples, self.permutations) < 0:
            raise OptionError("resamples and permutations must be 0 or more", got="a negative number")

    @property
    def scale(self) -> float:
        """What divergences are multiplied by: a mean over 10,000 cells times 1e7 is 1000 times KL in nats."""
        return PRINTED if self.density == "kde_legacy" else 1000.0 if self.legacy_scale else 1.0

    @property
    def null_mean_is_the_bias(self) -> bool:
        """Whether a KL lies above the truth by its null mean whatever the truth is: by kernels it lies higher."""
        return self.density == "gaussian"


class Drawn(NamedTuple):
    """A statistic with its draws; first axis of the draws: one draw.

    Args:
        value: the statistic on the whole sets.
        boot, null: draws of the bootstrap and under no difference; None where none were made.
        seen: the statistic as draws compute it, or None; see `resample.judge`.
    """

    value: np.ndarray
    boot: np.ndarray | None = None
    null: np.ndarray | None = None
    seen: np.ndarray | None = None

    def column(self, at: int) -> Drawn:
        """One entry of a statistic (C,), as a statistic ()."""
        return Drawn(*(None if part is None else part[..., at] for part in self))  # type: ignore[arg-type]


def judge_scores(ref: npt.ArrayLike, gen: npt.ArrayLike, settings: ScoreSettings) -> dict[str, Judged]:
    """Compares two sets of scores: `draw_scores` with intervals and nulls in place of draws.

    Raises:
        OptionError: sets of fewer than three images.
    """
    return judge_draws(draw_scores(ref, gen, settings), settings)


def judge_draws(drawn: Mapping[str, Drawn], settings: ScoreSettings) -> dict[str, Judged]:
    """Intervals and nulls from draws, by name."""
    high = LIE_HIGH if settings.null_mean_is_the_bias else frozenset()
    return {
        name: judge(
            one.value, boot=one.boot, null=one.null, seen=one.seen, level=settings.level, signed=name in SIGNED,
            lies_high=name in high,
        )
        for name, one in drawn.items()
    }  # fmt: skip


def draw_scores(ref: npt.ArrayLike, gen: npt.ArrayLike, settings: ScoreSettings) -> dict[str, Drawn]:
    """Compares two sets of scores.

    Args:
        ref: (N, C) scores of the reference images, N at least 3.
        gen: (M, C) scores of the generated images.
        settings: how.

    Returns:
        By name: "sad", "mean_difference" (generated − reference), "w1", "jsd" (C,); "pad", "dependence" (pairs,);
        "sad_mean", "pad_mean", "dependence_mean" (). Bootstrap: both sets are drawn by themselves. Null: labels are
        reshuffled over the pooled images; p compares reshuffles with the sets as they are, both on the grids of the
        draws. The bootstrap of a KL lies too high by twice the bias of the KL, about `null_mean` between normals:
        `corrected` has an interval of its own, see `resample.corrected_interval`.

    Raises:
        OptionError: sets of fewer than three images.
    """
    first, second = np.asarray(ref, dtype=np.float64), np.asarray(gen, dtype=np.float64)
    if min(len(first), len(second)) < 3:
        raise OptionError("a set needs at least three scored images", got=f"{len(first)} and {len(second)}")
    rng = np.random.default_rng(settings.seed)
    pooled = np.concatenate([first, second])
    draws = _Draws(first, second, pooled, settings, rng)
    values = _values(first, second, settings)
    if settings.companions:
        values |= {"w1": wasserstein(first, second), "jsd": draws.shapes_of_sets()["jsd"]}
    boot, null, seen = draws.boot(), draws.null(), draws.as_they_are()
    result = {}
    for name, value in values.items():
        scale = settings.scale if name in DIVERGENCES else 1.0
        of = [None if found is None else scale * found for found in (boot.get(name), null.get(name), seen.get(name))]
        result[name] = Drawn(scale * value, of[0], of[1], None if of[2] is None else of[2][0])
    return result


def mean_of(parts: Sequence[Drawn], settings: ScoreSettings, *, apart: bool, lies_high: bool = False) -> Judged:
    """The mean of statistics () of several attributes, with interval and null from the means of their draws.

    Args:
        parts: one an attribute, at least one.
        settings: seed and level.
        apart: True where every attribute has images of its own. Their draws were made by one stream of random numbers
            and must not be taken for joint ones: each attribute's are put into an order of its own.
        lies_high: True for SaD and PaD, see `resample.judge`.
    """

    def mean(name: str) -> np.ndarray | None:
        found = [getattr(one, name) for one in parts]
        if any(one is None or not one.size for one in found):
            return None
        if apart and name in ("boot", "null"):
            found = [np.random.default_rng([settings.seed, c]).permutation(one) for c, one in enumerate(found)]
        result: np.ndarray = np.mean(found, axis=0)
        return result

    value = np.mean([one.value for one in parts])
    high = lies_high and settings.null_mean_is_the_bias
    return judge(value, boot=mean("boot"), null=mean("null"), seen=mean("seen"), level=settings.level, lies_high=high)


def _values(ref: np.ndarray, gen: np.ndarray, settings: ScoreSettings) -> dict[str, np.ndarray]:
    """The statistics of the whole sets, without draws."""
    fits = fit(ref, unit=settings.unit), fit(gen, unit=settings.unit)
    if settings.density == "gaussian":
        single, double = _gaussian(*fits, settings)
    elif settings.density == "kde":
        single = sad_kde(ref, gen, direction=settings.direction)
        double = pad_kde(ref, gen, direction=settings.direction)
    else:
        single, double = sad_legacy(ref, gen), pad_legacy(ref, gen)
    values = {
        "sad": single, "pad": double, "dependence": dependence(double, single),
        "mean_difference": fits[1].mean - fits[0].mean,
    }  # fmt: skip
    return values | _means(values)


def _gaussian(ref: Gaussian, gen: Gaussian, settings: ScoreSettings) -> tuple[np.ndarray, np.ndarray]:
    floor, direction = settings.floor, settings.direction
    return sad(ref, gen, direction=direction, floor=floor), pad(ref, gen, direction=direction, floor=floor)


def _means(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Means over attributes and pairs; no pairs, no mean."""
    found = {}
    for name in ("sad", "pad", "dependence"):
        if name in values and values[name].shape[-1]:
            found[f"{name}_mean"] = np.asarray(values[name].mean(axis=-1))
    return found


class _Sums:
    """Sums over units of scores: moments, and shares on a grid for each attribute."""

    def __init__(self, rows: np.ndarray, groups: np.ndarray, centre: np.ndarray) -> None:
        units = len(groups)
        self.marks = groups >= 0
        cut = np.where(self.marks[..., None], rows[groups] - centre, 0.0)
        products = np.matmul(np.swapaxes(cut, 1, 2), cut)
        self.units, self.width = units, rows.shape[1]
        self.table = np.concatenate(
            [self.marks.sum(axis=1)[:, None], cut.sum(axis=1), products.reshape(units, -1)], axis=1
        )

    def fits(self, counts: np.ndarray) -> Gaussian:
        """One fit a row of counts (draws, units)."""
        return fits_of(counts @ self.table, self.width)


def fits_of(sums: np.ndarray, width: int) -> Gaussian:
    """Fits from rows of (number, sums, products)."""
    n = sums[:, 0][:, None]
    mean = sums[:, 1 : 1 + width] / n
    products = sums[:, 1 + width :].reshape(-1, width, width)
    outer = mean[:, :, None] * mean[:, None, :]
    cov = (products - n[..., None] * outer) / np.maximum(n - 1.0, 1.0)[..., None]
    return Gaussian(mean, cov)


class _Draws:
    """Bootstrap draws and reshuffles of two sets."""

    def __init__(
        self,
        ref: np.ndarray,
        gen: np.ndarray,
        pooled: np.ndarray,
        settings: ScoreSettings,
        rng: np.random.Generator,
    ) -> None:
        self.sets, self.pooled, self.settings = (ref, gen), pooled, settings
        most = MOST_PAIR_UNITS if settings.density == "kde" else MOST_UNITS
        groups = [deal(len(side), rng, most) for side in (ref, gen)]
        together = deal(len(pooled), rng, 2 * most)
        share = round(len(together) * len(ref) / len(pooled))
        chosen = min(max(share, 1), len(together) - 1)
        self.counts = [bootstrap_counts(rng, settings.resamples, len(side)) for side in groups]
        marks = split_marks(rng, settings.permutations, len(together), chosen)
        self.marks = [marks, 1.0 - marks]
        self.groups = [*groups, together]
        fine = settings.density == "kde"
        self.grids = [score_grid(pooled[:, c], (ref[:, c], gen[:, c]), fine=fine) for c in range(pooled.shape[1])]
        self.nodes = [distance_nodes(pooled[:, c]) for c in range(pooled.shape[1])]

    def boot(self) -> dict[str, np.ndarray]:
        if not self.settings.resamples:
            return {}
        centre = self.pooled.mean(axis=0)
        fits = [
            _Sums(rows, groups, centre).fits(counts)
            for rows, groups, counts in zip(self.sets, self.groups, self.counts)
        ]
        parts = [(rows, groups, counts) for rows, groups, counts in zip(self.sets, self.groups, self.counts)]
        return self._statistics(fits, parts)

    def null(self) -> dict[str, np.ndarray]:
        return self._split(self.groups[2], self.marks) if self.settings.permutations else {}

    def as_they_are(self) -> dict[str, np.ndarray]:
        """Statistics of the sets themselves, as one more reshuffle would give them; {} without reshuffles."""
        if not self.settings.permutations:
            return {}
        first, second = self.groups[0], np.where(self.groups[1] >= 0, self.groups[1] + len(self.sets[0]), -1)
        width = max(first.shape[1], second.shape[1])
        groups = [np.pad(own, ((0, 0), (0, width - own.shape[1])), constant_values=-1) for own in (first, second)]
        marks = (np.arange(len(first) + len(second)) < len(first)).astype(np.float64)[None, :]
        return self._split(np.concatenate(groups), [marks, 1.0 - marks])

    def _split(self, groups: np.ndarray, marks: list[np.ndarray]) -> dict[str, np.ndarray]:
        """Statistics of the pooled images split by marks (draws, units)."""
        sums = _Sums(self.pooled, groups, self.pooled.mean(axis=0))
        parts = [(self.pooled, groups, own) for own in marks]
        return self._statistics([sums.fits(own) for own in marks], parts)

    def shapes_of_sets(self) -> dict[str, np.ndarray]:
        """JSD of the whole sets."""
        parts = [(rows, groups, np.ones((1, len(groups)))) for rows, groups in zip(self.sets, self.groups)]
        return {"jsd": self._shapes(parts)["jsd"][0]}

    def _statistics(
        self, fits: list[Gaussian], parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        if self.settings.density == "kde_legacy":
            return {}
        found = {"mean_difference": fits[1].mean - fits[0].mean}
        shaped = self.settings.companions or self.settings.density == "kde"
        shapes = self._shapes(parts) if shaped else {}
        if self.settings.density == "gaussian":
            found["sad"], found["pad"] = _gaussian(fits[0], fits[1], self.settings)
            found["dependence"] = dependence(found["pad"], found["sad"])
        else:
            found["sad"] = shapes["sad_kde"]
            if self.settings.pairs:
                sides = [Side(*part) for part in parts]
                found["pad"] = pair_divergences(self.sets, sides, self.settings.direction)
                found["dependence"] = dependence(found["pad"], found["sad"])
        if self.settings.companions:
            found |= {"w1": shapes["w1"], "jsd": shapes["jsd"]}
        return found | _means(found)

    def _shapes(self, parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> dict[str, np.ndarray]:
        """W1, JSD and SaD by kernels of draws, attribute by attribute, from shares on a grid."""
        columns: dict[str, list[np.ndarray]] = {"w1": [], "jsd": [], "sad_kde": []}
        for c, (grid, width) in enumerate(self.grids):
            sides = drawn_shares(parts, c, grid)
            if self.settings.companions:
                fine = drawn_shares(parts, c, self.nodes[c])
                apart = np.abs(np.cumsum(fine[0] - fine[1], axis=1)[:, :-1])
                columns["w1"].append(apart @ np.diff(self.nodes[c]))
            smooth = smoothing(grid, width)
            smoothed = [side @ smooth for side in sides]
            smoothed = [side / side.sum(axis=1, keepdims=True) for side in smoothed]
            columns["jsd"].append(jensen_shannon(smoothed[0], smoothed[1]))
            if self.settings.density == "kde":
                columns["sad_kde"].append(self._kde(sides, [drawn_variances(part, c) for part in parts], grid))
        return {name: np.stack(values, axis=1) for name, values in columns.items() if values}

    def _kde(self, sides: list[np.ndarray], variances: list[np.ndarray], grid: np.ndarray) -> np.ndarray:
        """(draws,) SaD by kernels, each draw smoothed with the kernel of its own spread."""
        logs, ends = [], trapezoid(len(grid))
        for side, variance, rows in zip(sides, variances, self.sets):
            density = np.maximum(smoothed_shares(side, variance, grid, len(rows)), 1e-300)
            logs.append(np.log(density / (density @ ends)[:, None]))
        first, second = (logs[1], logs[0]) if self.settings.direction == "gen||ref" else (logs[0], logs[1])
        values: np.ndarray = np.maximum((np.exp(first) * (first - second)) @ ends, 0.0)
        return values
