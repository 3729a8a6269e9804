"""Two sets of refined patch scores: R-SaD, its size and placement, with intervals, nulls and significant cells.

Mean maps are all that is needed, so a set is kept as sums over units: its images one by one while they are few,
else groups of images that their content deals, whose number does not grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError
from beholder.functional.maps import STEP, MapSums, map_size, r_sad
from beholder.functional.placement import Background, Placement, excess, placement
from beholder.stats.resample import Judged, bootstrap_counts, judge, split_marks

MOST_IMAGES = 1024
"""So many images are kept one by one unless more are asked for, and so many groups are made of more."""


class MapUnits:
    """Sums of refined patch scores by unit; exact, and independent of the order of images.

    Args:
        shape: (C, P).
        most: images that are kept one by one (4 bytes a number); of more, sums of `MOST_IMAGES` groups are.

    `grouped` tells whether units are groups. Which group an image falls into is decided by its content's key.
    """

    def __init__(self, shape: tuple[int, int], most: int = MOST_IMAGES) -> None:
        self.sums, self._most = MapSums(shape), most
        self.grouped = False
        self._keys: list[bytes] = []
        self._maps: list[np.ndarray] = []
        self._groups = np.zeros((0, *shape), dtype=np.int64)
        self._counts = np.zeros(0, dtype=np.int64)

    def add(self, keys: Sequence[bytes], maps: npt.ArrayLike) -> None:
        """Adds images: their content keys, and maps (n, C, P) in [0, 1]."""
        rows = np.asarray(maps, dtype=np.float64)
        self.sums.add(rows)
        steps = np.rint(rows / STEP).astype(np.int64)
        if not self.grouped:
            self._keys += keys
            self._maps += list(steps.astype(np.int32))
            if len(self._keys) > self._most:
                self._group()
        else:
            self._deal(keys, steps)

    def merge(self, other: MapUnits) -> None:
        """Takes in another state; exact."""
        self.sums.merge(other.sums)
        if not (self.grouped or other.grouped):
            self._keys += other._keys
            self._maps += other._maps
            if len(self._keys) > self._most:
                self._group()
            return
        if not self.grouped:
            self._group()
        if other.grouped:
            self._groups = self._groups + other._groups
            self._counts = self._counts + other._counts
        elif other._keys:
            self._deal(other._keys, np.stack(other._maps).astype(np.int64))

    def _group(self) -> None:
        self.grouped = True
        self._groups = np.zeros((MOST_IMAGES, *self.sums.shape), dtype=np.int64)
        self._counts = np.zeros(MOST_IMAGES, dtype=np.int64)
        if self._keys:
            self._deal(self._keys, np.stack(self._maps).astype(np.int64))
        self._keys, self._maps = [], []

    def _deal(self, keys: Sequence[bytes], steps: np.ndarray) -> None:
        at = np.asarray([int.from_bytes(key[:4], "little") % MOST_IMAGES for key in keys])
        np.add.at(self._groups, at, steps)
        np.add.at(self._counts, at, 1)

    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """(U,) numbers of images and (U, C, P) sums of the units that have images, in an order that content sets."""
        if self.grouped:
            filled = self._counts > 0
            return self._counts[filled].astype(np.float64), self._groups[filled] * STEP
        order = sorted(range(len(self._keys)), key=lambda at: self._keys[at])
        sums = np.stack([self._maps[at] for at in order]) if order else np.zeros((0, *self.sums.shape))
        return np.ones(len(order)), sums * STEP


_NONE = np.zeros(0)


@dataclass(frozen=True)
class MapSettings:
    """How sets of maps are compared; see `ScoreSettings`, `excess` and `placement`."""

    grid: tuple[int, int]
    background: Background = "min"
    mass_floor: float = 0.002
    seed: int = 0
    resamples: int = 1000
    permutations: int = 1000
    level: float = 0.95


@dataclass(frozen=True)
class JudgedMap:
    """The map of one attribute.

    Args:
        difference: (P,) R-SaD, reference − generated.
        low, high: (P,) bootstrap interval of each cell, or None.
        t: (P,) R-SaD in standard deviations of its null, or None.
        threshold: what the largest |t| of a map stays under in `level` of cases when nothing differs, or None.
        p_cells: (P,) p-values that hold for the map as a whole (max-|t|), or None.
        sizes: "mar", "level", "mar_shape" with intervals and nulls.
        placement: "jsd", "w1_x", "w1_y", "shift_x", "shift_y", "spread_ratio"; empty where a set has too little mass.
        masses: mean of the two heat maps above their backgrounds.
        method: "permutation" where units are images, else "centred-bootstrap".
        mar_draws: (draws,) of the bootstrap and of the null, for means over attributes.
        jsd_draws: (draws,) of the bootstrap of placement's JSD.
    """

    difference: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None
    t: np.ndarray | None
    threshold: float | None
    p_cells: np.ndarray | None
    sizes: dict[str, Judged]
    placement: dict[str, Judged] = field(default_factory=dict)
    masses: tuple[float, float] = (0.0, 0.0)
    method: str = "permutation"
    mar_draws: tuple[np.ndarray, np.ndarray] = field(default_factory=lambda: (_NONE, _NONE))
    jsd_draws: np.ndarray = field(default_factory=lambda: _NONE)


def judge_maps(ref: MapUnits, gen: MapUnits, settings: MapSettings) -> list[JudgedMap]:
    """Compares the maps of two sets, one result an attribute.

    Null of R-SaD and its size: labels reshuffled over the pooled images; where only sums of groups were kept, bootstrap
    means about their own mean. Null of placement: both sets drawn from the pooled images, each with as much evidence as
    it has, so that a difference in frequency alone is none.

    Raises:
        OptionError: a set of fewer than three images.
    """
    if min(ref.sums.n, gen.sums.n) < 3:
        raise OptionError("a set needs at least three scored images", got=f"{ref.sums.n} and {gen.sums.n}")
    rng = np.random.default_rng(settings.seed)
    tables = ref.table(), gen.table()
    counts = [bootstrap_counts(rng, settings.resamples, len(table[0])) for table in tables]
    shuffled = not (ref.grouped or gen.grouped)
    total = sum(len(table[0]) for table in tables)
    marks = split_marks(rng, settings.permutations, total, len(tables[0][0])) if shuffled else None
    means = ref.sums.mean(), gen.sums.mean()
    found = []
    for c in range(ref.sums.shape[0]):
        sides = [(numbers, sums[:, c]) for numbers, sums in tables]
        boots = [_means(weights, *side) for weights, side in zip(counts, sides)]
        observed = means[0][c], means[1][c]
        null = _null(sides, boots, observed, marks)
        alike = _alike(sides, observed, settings, rng)
        found.append(_judge_one(observed, boots, null, alike, settings, shuffled=shuffled))
    return found


def _means(weights: np.ndarray, numbers: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """(draws, P) mean maps of draws of units."""
    total = weights @ numbers
    means: np.ndarray = (weights @ sums) / np.maximum(total, 1.0)[:, None]
    return means


def _null(
    sides: list[tuple[np.ndarray, np.ndarray]],
    boots: list[np.ndarray],
    observed: tuple[np.ndarray, np.ndarray],
    marks: np.ndarray | None,
) -> np.ndarray:
    """(draws, P) R-SaD under no difference."""
    if marks is None:
        centred: np.ndarray = (boots[0] - observed[0]) - (boots[1] - observed[1])
        return centred
    numbers = np.concatenate([side[0] for side in sides])
    sums = np.concatenate([side[1] for side in sides])
    return r_sad(_means(marks, numbers, sums), _means(1.0 - marks, numbers, sums))


def _alike(
    sides: list[tuple[np.ndarray, np.ndarray]],
    observed: tuple[np.ndarray, np.ndarray],
    settings: MapSettings,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Two (draws, P) mean maps of one place: both sets drawn, apart, from the pooled images, each with its evidence.

    A set that shows the attribute more rarely than the pool knows its place less well, and the background weighs more
    in its heat map. So with r = its mass over the pool's, images are drawn for the sets in the proportion r²·(images it
    has), together all of the pool. Sets of one frequency make this a plain reshuffle of labels.
    """
    numbers = np.concatenate([side[0] for side in sides])
    sums = np.concatenate([side[1] for side in sides])
    mass = float(excess(sums.sum(axis=0) / numbers.sum(), background=settings.background).mean())
    ratios = [
        float(excess(mean, background=settings.background).mean()) / mass if mass > 0 else 1.0 for mean in observed
    ]
    sizes = [len(own) * r * r for (own, _), r in zip(sides, ratios)]
    scale = len(numbers) / max(sum(sizes), 1e-12)
    first = min(max(round(sizes[0] * scale), 1), len(numbers) - 1)
    second = min(max(round(sizes[1] * scale), 1), len(numbers) - first)
    order = np.argsort(rng.random((settings.permutations, len(numbers)), dtype=np.float32), axis=1)
    drawn = []
    for start, size in ((0, first), (first, second)):
        marks = np.zeros((settings.permutations, len(numbers)))
        np.put_along_axis(marks, order[:, start : start + size], 1.0, axis=1)
        drawn.append(_means(marks, numbers, sums))
    return drawn


def _judge_one(
    observed: tuple[np.ndarray, np.ndarray],
    boots: list[np.ndarray],
    null: np.ndarray,
    alike: list[np.ndarray],
    settings: MapSettings,
    *,
    shuffled: bool,
) -> JudgedMap:
    difference = r_sad(*observed)
    boot = r_sad(boots[0], boots[1])
    cells = judge(difference, boot=boot, level=settings.level)
    t = p_cells = threshold = None
    if len(null):
        spread = np.maximum(null.std(axis=0), 1e-12)
        t = difference / spread
        largest = np.abs(null / spread).max(axis=1)
        threshold = float(np.quantile(largest, settings.level))
        p_cells = (1.0 + (largest[:, None] >= np.abs(t) - 1e-12).sum(axis=0)) / (1.0 + len(null))
    place, masses, of_jsd = _judge_placement(observed, boots, alike, settings)
    return JudgedMap(
        difference, cells.low, cells.high, t, threshold, p_cells, _judge_sizes(difference, boot, null, settings.level),
        place, masses, "permutation" if shuffled else "centred-bootstrap",
        (map_size(boot).mar, map_size(null).mar), of_jsd,
    )  # fmt: skip


def _judge_sizes(difference: np.ndarray, boot: np.ndarray, null: np.ndarray, level: float) -> dict[str, Judged]:
    at, draws, under = (map_size(maps) for maps in (difference, boot, null))
    names = {"mar": (0, False), "level": (1, True), "mar_shape": (2, False)}
    return {
        name: judge(at[k], boot=draws[k], null=under[k], level=level, signed=signed)
        for name, (k, signed) in names.items()
    }


def _judge_placement(
    observed: tuple[np.ndarray, np.ndarray],
    boots: list[np.ndarray],
    alike: list[np.ndarray],
    settings: MapSettings,
) -> tuple[dict[str, Judged], tuple[float, float], np.ndarray]:
    found = placement(*observed, settings.grid, background=settings.background, mass_floor=settings.mass_floor)
    masses = float(found.mass_ref), float(found.mass_gen)
    if not bool(found.enough):
        return {}, masses, _NONE
    boot, null = (
        placement(sides[0], sides[1], settings.grid, background=settings.background, mass_floor=settings.mass_floor)
        for sides in (boots, alike)
    )
    signed = {"shift_x", "shift_y", "spread_ratio"}
    judged = {
        name: judge(found[k], boot=boot[k], null=null[k], level=settings.level, signed=name in signed)
        for k, name in enumerate(Placement._fields[:6])
    }
    return judged, masses, boot.jsd
