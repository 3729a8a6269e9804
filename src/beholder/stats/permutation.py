"""The sign-flip test of a mean difference: if it is nothing, each unit's difference may as well be its negative."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError

MOST_EXACT_UNITS = 18
"""With at most this many units all 2^U sign patterns are counted."""

_GROUP = 8
_BLOCK = 1 << 21
"""Table look-ups at once."""


@dataclass(frozen=True)
class PValue:
    """A two-sided p-value.

    Args:
        value: in (0, 1]; None where there is nothing to test.
        method: "sign-flip-exact" (all patterns), "sign-flip" (drawn patterns), or None.
        n_units: units with a difference.
    """

    value: float | None
    method: str | None
    n_units: int


def sign_flip_test(differences: npt.ArrayLike, *, seed: int = 0, draws: int = 9999) -> PValue:
    """Two-sided p of the hypothesis that every difference is symmetric around 0.

    p = share of sign patterns s with |Σ s·d| ≥ |Σ d|, over all 2^U patterns, or over `draws` drawn ones with the
    observed pattern counted in: (1 + hits)/(1 + draws). So P(p ≤ α) ≤ α under the hypothesis.

    Args:
        differences: (U,) one difference a unit, finite; differences of one cluster must be added up first.
        seed: seed of the drawn patterns.
        draws: number of drawn patterns.

    Raises:
        OptionError: numbers that are not finite, or fewer than one draw.

    Degenerate: no units give no p; differences that are all 0 give p = 1.

    >>> sign_flip_test([1.0, 2.0, 3.0]).value     # the patterns +++ and --- of eight
    0.25
    """
    d = np.sort(np.asarray(differences, dtype=np.float64).ravel())
    if not np.isfinite(d).all():
        raise OptionError("differences must be finite", got=f"{int((~np.isfinite(d)).sum())} that are not")
    if draws < 1:
        raise OptionError("a permutation test needs at least one draw", got=repr(draws))
    if not len(d):
        return PValue(None, None, 0)
    # Sums of equal terms in another order differ in the last bits, and must count as equal.
    bar = abs(float(d.sum())) - 1e-12 * float(np.abs(d).sum())
    if len(d) <= MOST_EXACT_UNITS:
        share = float(np.mean(np.abs(_all_sums(d)) >= bar))
        return PValue(share, "sign-flip-exact", len(d))
    hits = _drawn_hits(d, bar, seed=seed, draws=draws)
    return PValue((1 + hits) / (1 + draws), "sign-flip", len(d))


def _all_sums(d: np.ndarray) -> np.ndarray:
    """Σ s·d for all sign patterns; the first sign is fixed, as a pattern and its negative have one absolute sum."""
    sums = d[:1].copy()
    for value in d[1:]:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def _drawn_hits(d: np.ndarray, bar: float, *, seed: int, draws: int) -> int:
    """How many drawn patterns reach the bar. Eight units go by one look-up in a table of their 256 signed sums."""
    groups = -(-len(d) // _GROUP)
    padded = np.zeros(groups * _GROUP)
    padded[: len(d)] = d
    bits = (np.arange(256)[:, None] >> np.arange(_GROUP)) & 1
    table = padded.reshape(groups, _GROUP) @ (2.0 * bits - 1.0).T
    flat, offset = table.ravel(), 256 * np.arange(groups, dtype=np.int32)
    rng = np.random.default_rng(seed)
    rows = max(1, _BLOCK // groups)
    hits = 0
    for start in range(0, draws, rows):
        count = min(rows, draws - start)
        drawn = np.frombuffer(rng.bytes(count * groups), dtype=np.uint8).reshape(count, groups)
        sums = flat[drawn + offset].sum(axis=1)
        hits += int((np.abs(sums) >= bar).sum())
    return hits
