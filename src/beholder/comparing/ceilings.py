"""What people give a metric to agree with: how far they agree with one another, and which method they prefer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from beholder.comparing.ratings import Ratings
from beholder.stats.agreement import Accuracy, Judged, pairwise_accuracy
from beholder.stats.association import Draws, Estimate
from beholder.stats.bootstrap import Interval
from beholder.stats.pairs import share
from beholder.stats.reliability import Alpha, Scale, krippendorff_alpha
from beholder.stats.votes import Strengths, bradley_terry

_MOST_WORK = 10_000_000
"""Ratings drawn over all resamples of alpha; of many ratings fewer resamples are made."""
_FEWEST = 200


def turned_votes(said: Ratings) -> tuple[np.ndarray, np.ndarray]:
    """(n,) code of the pair that each vote is about, and the vote as if the pair's first end stood first."""
    low, high = np.minimum(said.first, said.second), np.maximum(said.first, said.second)
    pairs = np.unique(np.column_stack([low, high]), axis=0, return_inverse=True)[1].ravel()
    return pairs, np.where(said.first == low, said.values, -said.values)


def alpha_of(said: Ratings, scale: Scale, units: np.ndarray, draws: Draws) -> tuple[Alpha, Interval]:
    """Krippendorff's alpha of ratings, or of votes as nominal ones, with an interval over drawn units.

    Args:
        said: ratings or votes.
        scale: what ratings mean; votes are nominal.
        units: (n,) code of the drawn unit (the prompt) of each entry, 0 … P − 1.
        draws: resamples of the P units.
    """
    items, values = (said.first, said.values) if said.kind == "ratings" else turned_votes(said)
    scale = scale if said.kind == "ratings" else "nominal"
    found = krippendorff_alpha(values, items, said.raters, scale=scale)
    if found.value is None:
        return found, Interval(None, None, draws.level, None, draws.weights.shape[1], found.note)
    most = max(_FEWEST, _MOST_WORK // max(len(values), 1))
    drawn = np.full(min(len(draws.weights), most), np.nan)
    for at in range(len(drawn)):
        times = draws.weights[at].astype(np.intp)[units]
        rows = np.repeat(np.arange(len(values)), times)
        # Copies of an item are items of their own.
        copy = np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
        keys = items[rows] * (int(times.max(initial=0)) + 1) + copy
        value = krippendorff_alpha(values[rows], keys, said.raters[rows], scale=scale).value
        drawn[at] = np.nan if value is None else value
    return found, draws.interval(drawn)


def person_of(said: Ratings, prompts: np.ndarray, pairs: Any, draws: Callable[[int], Draws]) -> Estimate | None:
    """Pairwise accuracy of each person against the others' mean, or their votes' winner, over all pairs and people.

    Args:
        said: ratings or votes.
        prompts: (rows of the run,) code of each row's prompt; for sets (n,) code of each vote's unit.
        pairs: "within" or "pooled" pairs of ratings.
        draws: from a number of units to resamples of them.
    """
    if said.kind == "ratings":
        items, codes = np.unique(said.first, return_inverse=True)
        values, units = said.values, prompts[items]
    else:
        codes, values = turned_votes(said)
        first = np.unique(codes, return_index=True)[1]
        pairs, units = "given", prompts[said.first[first]] if said.kind == "votes" else prompts[first]
    units = np.unique(units, return_inverse=True)[1]
    right, total = np.zeros(int(units.max()) + 1), np.zeros(int(units.max()) + 1)
    whole = [0.0, 0.0]
    for found in _each_person(said, codes, values, units, pairs):
        if found.value is None or found.counts is None:
            continue
        whole = [whole[0] + found.counts.sum("agreeing"), whole[1] + found.n_pairs]
        if not found.counts.pooled:
            np.add.at(right, found.prompts, found.counts.agreeing)
            np.add.at(total, found.prompts, found.counts.total)
    if not whole[1]:
        return None
    resampled = draws(len(total))
    weights = resampled.weights if total.any() else resampled.weights[:0]
    interval = resampled.interval(share(weights @ right, weights @ total))
    return Estimate(whole[0] / whole[1], interval)


def _each_person(
    said: Ratings, codes: np.ndarray, values: np.ndarray, units: np.ndarray, pairs: Any
) -> Sequence[Accuracy]:
    """One accuracy a person who shares an item with others."""
    people = np.unique(said.raters)
    total, count = np.bincount(codes, weights=values), np.bincount(codes)
    found = []
    for person in people if len(people) > 1 else ():
        own = said.raters == person
        mine = np.bincount(codes[own], minlength=len(count))
        sums = np.bincount(codes[own], weights=values[own], minlength=len(count))
        kept = np.flatnonzero((mine > 0) & (count > mine))
        if not len(kept):
            continue
        x = sums[kept] / mine[kept]
        y = (total[kept] - sums[kept]) / (count[kept] - mine[kept])
        if pairs == "given":
            x, y = np.sign(x), np.sign(y)
        found.append(pairwise_accuracy(Judged(x, y, units[kept], pairs), calibration="none"))
    return found


def strengths_of(
    said: Ratings, names: Sequence[str | None], units: np.ndarray, draws: Draws
) -> tuple[dict[str, float], dict[str, Interval], str | None]:
    """Bradley and Terry's strengths of the methods (or sets) that were voted on, with intervals over drawn units.

    Args:
        said: votes.
        names: name of the contender that each row (or set) belongs to.
        units: (n,) code of the drawn unit of each vote, 0 … P − 1.
        draws: resamples of the P units.

    Returns:
        Strengths and intervals by name, both empty with the reason where there are none.
    """
    kinds = sorted({names[at] for at in (*said.first, *said.second)} - {None})
    place = {name: at for at, name in enumerate(kinds)}
    wins = np.zeros((draws.weights.shape[1], len(kinds), len(kinds)))
    for first, second, value, unit in zip(said.first, said.second, said.values, units):
        one, other = place.get(names[first]), place.get(names[second])
        if one is not None and other is not None and one != other:
            wins[unit, one, other] += (1 + value) / 2
            wins[unit, other, one] += (1 - value) / 2
    found: Strengths = bradley_terry(wins.sum(axis=0))
    if found.values is None:
        return {}, {}, found.note
    drawn = np.full((len(draws.weights), len(kinds)), np.nan)
    for at, weight in enumerate(draws.weights):
        again = bradley_terry(np.tensordot(weight, wins, axes=1), tolerance=1e-6, start=found.values)
        drawn[at] = np.nan if again.values is None else again.values
    intervals = {name: draws.interval(drawn[:, at]) for name, at in place.items()}
    return {name: float(found.values[at]) for name, at in place.items()}, intervals, None
