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
        return float(counts.sum()) / (2.0 if self.by_pair_of_prompts else 1.0)

    def resampled(self, name: str, weights: np.ndarray, *, tie: bool) -> np.ndarray:
        """(B,) one count in resamples of whole prompts.

        Args:
            name: of the count.
            weights: (B, P) how often each resample holds each prompt.
            tie: whether an item ties with its own copy in this count (it does in `total` and the ties).
        """
        counts = getattr(self, name)
        if not self.by_pair_of_prompts:
            return np.asarray(weights @ counts)
        pairs = np.einsum("bp,bp->b", weights @ counts, weights)
        if tie:
            # Two copies of one item are a pair too: w² ordered pairs of an item with itself, less w with its own self.
            pairs = pairs + (np.square(weights) - weights) @ self.sizes
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


class _Tally:
    """Adds up the counts of blocks of pairs."""

    def __init__(self, n_prompts: int, *, matrix: bool, halves: bool) -> None:
        self._n, self._matrix, self._halves = n_prompts, matrix, halves
        size = n_prompts * n_prompts if matrix else n_prompts
        self._kinds = np.zeros(5 * size)

    def add(self, dx: np.ndarray, dy: np.ndarray, left: np.ndarray, right: np.ndarray, epsilon: float) -> None:
        """Kinds of pairs: 0 alike, 1 apart, 2 tied in x only, 3 tied in y only, 4 tied in both."""
        tied_x, tied_y = np.abs(dx) <= epsilon, dy == 0
        kind = ((dx > 0) != (dy > 0)).astype(np.intp)
        kind[tied_x] = 2
        kind[tied_y] = 3
        kind[tied_x & tied_y] = 4
        if self._matrix:
            self._count((left * self._n + right) * 5 + kind)
        else:
            self._count(left * 5 + kind)
            if self._halves:
                self._count(right * 5 + kind)

    def _count(self, codes: np.ndarray) -> None:
        self._kinds += np.bincount(codes, minlength=len(self._kinds))

    def counts(self, sizes: np.ndarray, *, pooled: bool = False) -> PairCounts:
        """The counts of all blocks."""
        kinds = self._kinds.reshape((self._n, self._n, 5) if self._matrix else (self._n, 5))
        if self._matrix:
            kinds = kinds + kinds.transpose(1, 0, 2)
        elif self._halves:
            kinds = kinds / 2.0
        alike, apart, only_x, only_y, both = np.moveaxis(kinds, -1, 0)
        return PairCounts(kinds.sum(axis=-1), alike, apart, only_x + both, only_y + both, both, sizes, pooled)
