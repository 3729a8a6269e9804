"""Two sets of pooled patch scores: `regional_kl` with intervals and nulls, cell by cell and as a mean.

The units are those of the maps; what is summed are pooled scores and their squares, so that a draw of units has a
variance too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beholder._errors import OptionError
from beholder.functional.maps import regional_kl
from beholder.stats.map_sets import MapSettings, MapUnits
from beholder.stats.resample import Judged, bootstrap_counts, judge, split_marks

Moments = tuple[np.ndarray, np.ndarray]
"""Means and variances, (…, R) each."""


@dataclass(frozen=True)
class JudgedRegions:
    """The regional divergence of one attribute.

    Args:
        cells: (R,) KL of each cell in nats, with intervals and nulls.
        mean: their mean.
        boot, null: (draws,) of the mean, for means over attributes; empty where none were made.
    """

    cells: Judged
    mean: Judged
    boot: np.ndarray
    null: np.ndarray


def judge_regions(
    ref: MapUnits, gen: MapUnits, settings: MapSettings, *, direction: str = "gen||ref"
) -> list[JudgedRegions]:
    """Compares pooled scores of two sets, one result an attribute.

    Args:
        ref: sums of `functional.maps.with_squares` of the reference images.
        gen: the same of the generated images.
        settings: seed, draws and level.
        direction: see `divergence.sad`.

    Null: labels reshuffled over the pooled images; where only sums of groups were kept, bootstrap moments moved and
    stretched to those of the pooled images.

    Raises:
        OptionError: a set of fewer than three images.
    """
    if min(ref.sums.n, gen.sums.n) < 3:
        raise OptionError("a set needs at least three scored images", got=f"{ref.sums.n} and {gen.sums.n}")
    rng = np.random.default_rng(settings.seed)
    tables = ref.table(), gen.table()
    counts = [bootstrap_counts(rng, settings.resamples, len(table[0])) for table in tables]
    marks = None
    if not (ref.grouped or gen.grouped):
        total = sum(len(table[0]) for table in tables)
        marks = split_marks(rng, settings.permutations, total, len(tables[0][0]))
    found = []
    for c in range(ref.sums.shape[0]):
        sides = [(numbers, sums[:, c]) for numbers, sums in tables]
        whole = [_moments(np.ones((1, len(side[0]))), *side) for side in sides]
        boots = [_moments(weights, *side) for weights, side in zip(counts, sides)]
        under = _moved(boots, whole, sides) if marks is None else _reshuffled(marks, sides)
        value = _divergence(whole, direction)[0]
        boot, null = _divergence(boots, direction), _divergence(under, direction)
        draws = boot.mean(axis=1), null.mean(axis=1)
        found.append(
            JudgedRegions(
                judge(value, boot=boot, null=null, level=settings.level),
                judge(value.mean(), boot=draws[0], null=draws[1], level=settings.level),
                *draws,
            )
        )
    return found


def _moments(weights: np.ndarray, numbers: np.ndarray, sums: np.ndarray) -> Moments:
    """Means and variances (ddof 1) of draws of units."""
    total = np.maximum(weights @ numbers, 1.0)[:, None]
    first, second = np.split((weights @ sums) / total, 2, axis=1)
    return first, np.maximum(second - first * first, 0.0) * total / np.maximum(total - 1.0, 1.0)


def _divergence(sides: list[Moments], direction: str) -> np.ndarray:
    """(draws, R) KL of each cell."""
    return regional_kl(*sides[0], *sides[1], direction=direction)


def _reshuffled(marks: np.ndarray, sides: list[tuple[np.ndarray, np.ndarray]]) -> list[Moments]:
    numbers = np.concatenate([side[0] for side in sides])
    sums = np.concatenate([side[1] for side in sides])
    return [_moments(weights, numbers, sums) for weights in (marks, 1.0 - marks)]


def _moved(boots: list[Moments], whole: list[Moments], sides: list[tuple[np.ndarray, np.ndarray]]) -> list[Moments]:
    """Bootstrap moments as if both sets had the mean and variance of the pooled images."""
    numbers = np.concatenate([side[0] for side in sides])
    mean, variance = _moments(np.ones((1, len(numbers))), numbers, np.concatenate([side[1] for side in sides]))
    found = []
    for (means, variances), (own_mean, own_variance) in zip(boots, whole):
        ratio = variance / np.maximum(own_variance, 1e-12)
        found.append((mean + (means - own_mean) * np.sqrt(ratio), variances * ratio))
    return found
