"""How often a metric orders two outputs as people do: pairwise accuracy with ties, and its chance lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from beholder._errors import OptionError
from beholder.stats.pairs import Blocks, PairCounts, count_pairs, count_votes, pair_blocks, share

Calibration = Literal["heldout", "paper", "none"]
CALIBRATIONS = ("heldout", "paper", "none")

_MOST_THRESHOLDS = 1 << 16


@dataclass(frozen=True)
class Judged:
    """What people said about items, beside a metric's values, or about given pairs of items.

    Args:
        x: (n,) the metric, finite, higher meaning better; for pairs its difference first − second.
        y: (n,) what people said, finite, higher meaning better; for pairs above 0 where people preferred the first.
        prompts: (n,) code of the prompt.
        pairs: "within" a prompt, "pooled" over all items, or "given" where each entry is a pair.
    """

    x: np.ndarray
    y: np.ndarray
    prompts: np.ndarray
    pairs: Literal["within", "pooled", "given"] = "within"

    def __post_init__(self) -> None:
        if not len(self.x) == len(self.y) == len(self.prompts):
            raise OptionError("metric, ratings and prompts must have one length", got="others")
        if not (np.isfinite(self.x).all() and np.isfinite(self.y).all()):
            raise OptionError("metric and ratings must be finite", got="others")

    def of_prompts(self, chosen: np.ndarray) -> Judged:
        """The items of some prompts."""
        keep = np.isin(self.prompts, chosen)
        return Judged(self.x[keep], self.y[keep], self.prompts[keep], self.pairs)


@dataclass(frozen=True)
class Accuracy:
    """Pairwise accuracy, with the counts that its interval is made from.

    Args:
        value: share of pairs on which metric and people agree (alike, or both tied); None without pairs.
        epsilon: metric differences up to this are ties; None where it could not be tuned.
        constant: what a metric that never tells two outputs apart would get: the share of the people's ties.
        random: what a random metric without ties would get: half of the other pairs.
        n_pairs: pairs that the value is over.
        prompts: (P,) the prompts it is over.
        note: why there is no value, or a caveat.
        counts: the counts behind it, by prompt in the order of `prompts`, or None.
    """

    value: float | None
    epsilon: float | None
    constant: float | None
    random: float | None
    n_pairs: int
    prompts: np.ndarray
    note: str | None = None
    counts: PairCounts | None = field(default=None, repr=False)

    def resampled(self, weights: np.ndarray) -> np.ndarray:
        """(B,) the accuracy in resamples of its prompts, NaN where one has no pairs; weights are (B, P)."""
        if self.counts is None or (self.counts.pooled and not self.counts.by_pair_of_prompts):
            return np.full(len(weights), np.nan)
        found = self.counts.resampled(weights)
        return share(found.agreeing(), found.total())


def pairwise_accuracy(judged: Judged, *, calibration: Calibration = "heldout", seed: int = 0) -> Accuracy:
    """Share of pairs on which the metric's order is the people's, ties counted as a verdict.

    A metric ties on a pair when |Δ| ≤ ε, people when their values are equal. ε is the least of the thresholds with the
    highest accuracy on one half of the prompts and the accuracy is that on the other half ("heldout"), or both are on
    all prompts, as published evaluations do ("paper"), or ε is 0 ("none").

    Args:
        judged: metric and ratings.
        calibration: how ε is chosen.
        seed: seed of the split.

    Degenerate: without a pair, or with fewer than two prompts under "heldout", there is no value and a note says why.
    A constant metric ties everywhere and scores the constant line.

    Source: Deutsch, Foster and Freitag 2023, arXiv 2305.14324; the held-out split and the chance lines are ours.

    >>> import numpy as np
    >>> items = Judged(np.array([0.1, 0.2, 0.3]), np.array([1.0, 2.0, 2.0]), np.array([0, 0, 0]))
    >>> pairwise_accuracy(items, calibration="none").value    # the tie of the last two is missed
    0.6666666666666666
    """
    if calibration not in CALIBRATIONS:
        raise OptionError(f"a calibration must be one of: {', '.join(CALIBRATIONS)}", got=repr(calibration))
    known = np.unique(judged.prompts)
    if calibration == "none":
        return accuracy_at(judged, 0.0)
    if calibration == "paper":
        return accuracy_at(judged, best_threshold(judged))
    if len(known) < 2:
        note = f"a held-out threshold needs two prompts, got {len(known)}"
        return Accuracy(None, None, None, None, 0, known[:0], note)
    tuned_on, reported_on = split_prompts(known, seed=seed)
    epsilon = best_threshold(judged.of_prompts(tuned_on))
    if epsilon is None:
        return Accuracy(None, None, None, None, 0, known[:0], "no pair to tune the threshold on")
    return accuracy_at(judged.of_prompts(reported_on), epsilon)


def accuracy_at(judged: Judged, epsilon: float | None) -> Accuracy:
    """Pairwise accuracy with a given threshold."""
    prompts, codes = np.unique(judged.prompts, return_inverse=True)
    if epsilon is None or not len(prompts):
        return Accuracy(None, epsilon, None, None, 0, prompts, "there are no pairs")
    if judged.pairs == "given":
        counts = count_votes(judged.x, judged.y, codes, epsilon=epsilon)
    else:
        counts = count_pairs(judged.x, judged.y, codes, pooled=judged.pairs == "pooled", epsilon=epsilon)
    total = counts.sum("total")
    if not total:
        return Accuracy(None, epsilon, None, None, 0, prompts, "no prompt has two outputs: there are no pairs")
    ties = counts.sum("tied_y") / total
    return Accuracy(counts.sum("agreeing") / total, epsilon, ties, (1 - ties) / 2, round(total), prompts, counts=counts)


def split_prompts(prompts: np.ndarray, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two halves of the prompts: to tune on, and to report on (the larger where they are odd)."""
    mixed = np.random.default_rng(seed).permutation(prompts)
    half = len(mixed) // 2
    return np.sort(mixed[:half]), np.sort(mixed[half:])


def best_threshold(judged: Judged) -> float | None:
    """The least ε with the highest pairwise accuracy; None without pairs.

    Only 0 and the metric's differences on pairs that tie for people can be best: between two of them a growing ε only
    loses pairs. Above 65,536 such differences an even selection of them is tried.
    """
    found: list[np.ndarray] = []
    n_pairs = 0
    for size, dx in _differences(judged, tied=True):
        n_pairs += size
        found.append(dx)
    if not n_pairs:
        return None
    differences = np.sort(np.concatenate(found))
    thresholds = np.unique(np.concatenate([[0.0], differences]))
    if len(thresholds) > _MOST_THRESHOLDS:
        thresholds = thresholds[np.linspace(0, len(thresholds) - 1, _MOST_THRESHOLDS).astype(np.intp)]
    gained = np.searchsorted(differences, thresholds, side="right")
    lost = np.zeros(len(thresholds) + 1)
    for _, dx in _differences(judged, tied=False):
        # A pair ordered alike is lost from the first threshold on that is not below its difference.
        lost += np.bincount(np.searchsorted(thresholds, np.sort(dx)), minlength=len(lost))
    return float(thresholds[int(np.argmax(gained - np.cumsum(lost[:-1])))])


def _differences(judged: Judged, *, tied: bool) -> Iterator[tuple[int, np.ndarray]]:
    """Block by block: pairs looked at, and the metric's |Δ| on those that tie for people, or are ordered alike."""
    for dx, dy in _signed(judged):
        keep = dy == 0 if tied else dx * np.sign(dy) > 0
        yield len(dx), np.abs(dx[keep])


def _signed(judged: Judged) -> Blocks:
    """Block by block: differences of the metric and of the ratings."""
    if judged.pairs == "given":
        yield judged.x, judged.y
        return
    groups = np.zeros(len(judged.x), dtype=np.intp) if judged.pairs == "pooled" else judged.prompts
    for i, j in pair_blocks(groups):
        yield judged.x[i] - judged.x[j], judged.y[i] - judged.y[j]
