"""Pairs of items, block by block: ordered alike, ordered apart, tied. Memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

BLOCK = 1 << 19
"""Pairs held at once."""

MOST_MATRIX_PROMPTS = 2500
"""Up to this many prompts, pooled counts are kept for each pair of prompts, which the bootstrap needs."""

Blocks = Iterator[tuple[np.ndarray, np.ndarray]]


def pair_blocks(groups: np.ndarray, *, block: int = BLOCK) -> Blocks:
    """All pairs (i, j), i before j, of items in one group, as index arrays of at most about `block` pairs.

    Args:
        groups: (n,) code of each item's group; all 0 for all pairs.
        block: pairs at once; one item's pairs are never split.
    """
    order = np.argsort(groups, kind="stable")
    sorted_groups = groups[order]
    n = len(order)
    ends = np.searchsorted(sorted_groups, sorted_groups, side="right")
    partners = ends - np.arange(n) - 1
    reach = np.concatenate([[0], np.cumsum(partners)])
    start = 0
    while start < n:
        stop = max(start + 1, int(np.searchsorted(reach, reach[start] + block, side="right")) - 1)
        count = partners[start:stop]
        total = int(count.sum())
        if total:
            left = np.repeat(np.arange(start, stop), count)
            right = np.arange(total) - np.repeat(reach[start:stop] - reach[start], count) + left + 1
            yield order[left], order[right]
        start = stop


@dataclass(frozen=True)
class PairCounts:
    """Counts of pairs, each (P,) by prompt, or (P, P) by the two items' prompts (symmetric, every pair in both places).

    Args:
        total: pairs.
        alike: pairs that metric and people order alike.
        apart: pairs that they order the other way round.
        tied_x: pairs that tie in the metric.
        tied_y: pairs that tie for people.
        tied_both: pairs that tie in both.
        sizes: (P,) items of each prompt.
        pooled: whether pairs across prompts are counted.
    """

    total: np.ndarray
    alike: np.ndarray
    apart: np.ndarray
    tied_x: np.ndarray
    tied_y: np.ndarray
    tied_both: np.ndarray
    sizes: np.ndarray
    pooled: bool = False

    @property
    def agreeing(self) -> np.ndarray:
        """Pairs that agree: ordered alike, or tied in both."""
        return np.asarray(self.alike + self.tied_both)

    @property
    def by_pair_of_prompts(self) -> bool:
        """True for (P, P) counts."""
        return self.total.ndim == 2

    def sum(self, name: str) -> float:
        """One count over all pairs."""
        counts: np.ndarray = getattr(self, name)
        return float(counts.sum(dtype=np.float64)) / (2.0 if self.by_pair_of_prompts else 1.0)

    def resampled(self, weights: np.ndarray) -> Resampled:
        """Counts in resamples of whole prompts; weights are (B, P), how often each resample holds each prompt."""
        return Resampled(self, weights)


@dataclass(frozen=True)
class Resampled:
    """(B,) counts of pairs in resamples of whole prompts. Copies of one item are a pair too, and tie in everything."""

    counts: PairCounts
    weights: np.ndarray

    def total(self) -> np.ndarray:
        """Pairs."""
        if not self.counts.by_pair_of_prompts:
            return np.asarray(self.weights @ self.counts.total)
        n = self.weights @ self.counts.sizes
        return np.asarray(n * (n - 1) / 2)

    def excess(self) -> np.ndarray:
        """Pairs ordered alike less pairs ordered apart."""
        return self._sum(self.counts.alike - self.counts.apart, ties=False)

    def tied_x(self) -> np.ndarray:
        """Pairs that tie in the metric."""
        return self._sum(self.counts.tied_x, ties=True)

    def tied_y(self) -> np.ndarray:
        """Pairs that tie for people."""
        return self._sum(self.counts.tied_y, ties=True)

    def agreeing(self) -> np.ndarray:
        """Pairs ordered alike, or tied in both."""
        return self._sum(self.counts.agreeing, ties=True)

    def _sum(self, counts: np.ndarray, *, ties: bool) -> np.ndarray:
        if not self.counts.by_pair_of_prompts:
            return np.asarray(self.weights @ counts)
        pairs = np.einsum("bp,bp->b", self.weights @ counts.astype(np.float64), self.weights)
        if ties:
            # w copies of an item make w² ordered pairs of it with itself, less the w with its own self.
            pairs = pairs + (np.square(self.weights) - self.weights) @ self.counts.sizes
        return np.asarray(pairs / 2.0)


def count_pairs(
    x: np.ndarray, y: np.ndarray, prompts: np.ndarray, *, pooled: bool = False, epsilon: float = 0.0
) -> PairCounts:
    """Counts the pairs of items; pairs within a prompt, or all pairs.

    Args:
        x: (n,) the metric, finite.
        y: (n,) what people said, finite.
        prompts: (n,) code of the prompt, 0 … P − 1, each occurring.
        pooled: True for all pairs; counts by pairs of prompts up to `MOST_MATRIX_PROMPTS` prompts, else by the first
            item's prompt, half to either item.
        epsilon: a pair ties in the metric when |Δ| ≤ epsilon.
    """
    n_prompts = int(prompts.max(initial=-1)) + 1
    matrix = pooled and n_prompts <= MOST_MATRIX_PROMPTS
    tally = _Tally(n_prompts, matrix=matrix, halves=pooled and not matrix)
    # Items of one prompt stand together, so that a block of pairs touches few rows of the table of prompts.
    order = np.argsort(prompts, kind="stable")
    x, y, prompts = x[order], y[order], prompts[order]
    for i, j in pair_blocks(np.zeros(len(x), dtype=np.intp) if pooled else prompts):
        tally.add(x[i] - x[j], y[i] - y[j], prompts[i], prompts[j], epsilon)
    return tally.counts(np.bincount(prompts, minlength=n_prompts).astype(np.float64), pooled=pooled)


def count_votes(dx: np.ndarray, dy: np.ndarray, prompts: np.ndarray, *, epsilon: float = 0.0) -> PairCounts:
    """Counts given pairs: (n,) differences of the metric and of the people's verdict, by the pair's prompt."""
    n_prompts = int(prompts.max(initial=-1)) + 1
    tally = _Tally(n_prompts, matrix=False, halves=False)
    tally.add(dx, dy, prompts, prompts, epsilon)
    return tally.counts(np.bincount(prompts, minlength=n_prompts).astype(np.float64))


def share(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """above / below, NaN where below is not above 0."""
    return np.asarray(np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0))


_KINDS = np.array([0, 3, 1, 2, 4, 2, 1, 3, 0], dtype=np.int8)
"""By 3·(sign of Δx + 1) + sign of Δy + 1: 0 alike, 1 apart, 2 tied in x only, 3 tied in y only, 4 tied in both."""


class _Tally:
    """Adds up the counts of blocks of pairs."""

    def __init__(self, n_prompts: int, *, matrix: bool, halves: bool) -> None:
        self._n, self._matrix, self._halves = n_prompts, matrix, halves
        # A pair of prompts has far fewer than 2**24 pairs of items, up to which float32 counts exactly.
        self._kinds = np.zeros((n_prompts, n_prompts * 5), dtype=np.float32) if matrix else np.zeros((n_prompts, 5))

    def add(self, dx: np.ndarray, dy: np.ndarray, left: np.ndarray, right: np.ndarray, epsilon: float) -> None:
        """One block of pairs: differences of metric and ratings, and the prompts of both items."""
        if not len(dx):
            return
        kind = _KINDS[3 * _signs(dx, epsilon) + _signs(dy, 0.0) + np.int8(4)]
        if self._matrix:
            self._count(left, right * 5 + kind)
        else:
            self._count(left, kind)
            if self._halves:
                self._count(right, kind)

    def _count(self, rows: np.ndarray, columns: np.ndarray) -> None:
        low, high, width = int(rows.min()), int(rows.max()) + 1, self._kinds.shape[1]
        found = np.bincount((rows - low) * width + columns, minlength=(high - low) * width)
        self._kinds[low:high] += found.reshape(high - low, width)

    def counts(self, sizes: np.ndarray, *, pooled: bool = False) -> PairCounts:
        """The counts of all blocks."""
        kinds = self._kinds.reshape((self._n, self._n, 5) if self._matrix else (self._n, 5))
        if self._matrix:
            kinds = kinds + kinds.transpose(1, 0, 2)
        elif self._halves:
            kinds = kinds / 2.0
        alike, apart, only_x, only_y, both = np.moveaxis(kinds, -1, 0)
        return PairCounts(kinds.sum(axis=-1), alike, apart, only_x + both, only_y + both, both, sizes, pooled)


def _signs(values: np.ndarray, epsilon: float) -> np.ndarray:
    """−1, 0 or 1 as int8; 0 up to epsilon."""
    return (values > epsilon).view(np.int8) - (values < -epsilon).view(np.int8)
