"""What a comparison can detect, and how many prompts and seeds one needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import special

from beholder._errors import OptionError
from beholder.stats.variance import VarianceSplit

MOST_PROMPTS = 10**9
"""No plan asks for more."""


@dataclass(frozen=True)
class Need:
    """How many prompts one needs with so many seeds a prompt; `prompts` is None where no number suffices."""

    seeds: int
    prompts: int | None

    @property
    def outputs(self) -> int | None:
        """Outputs of each method."""
        return None if self.prompts is None else self.prompts * self.seeds


def detectable_difference(
    standard_error: float, n_units: float, *, power: float = 0.8, level: float = 0.95
) -> float | None:
    """The smallest true difference that a two-sided test finds with the power given.

    (t(1 − α/2) + t(power))·se, both quantiles with n − 1 degrees of freedom.

    Args:
        standard_error: of the mean difference.
        n_units: units that it rests on.
        power: wanted chance to find it, between 0.5 and 1.
        level: 1 − α.

    Returns:
        None for fewer than two units.

    >>> round(detectable_difference(1.0, 10**6), 3)     # 1.960 + 0.842
    2.802
    """
    _check(power, level)
    if n_units < 2:
        return None
    return _reach(n_units, power, level) * standard_error


def needed(
    split: VarianceSplit,
    detect: float,
    *,
    seeds: Sequence[int] = (1, 2, 4, 8),
    power: float = 0.8,
    level: float = 0.95,
) -> list[Need]:
    """The fewest prompts that find a true difference of `detect`, for each number of seeds a prompt.

    The least P with (t(1 − α/2) + t(power))²·(concept·m + prompt + seed/S)/P ≤ detect², where a concept keeps its m
    prompts, and the quantiles have P/m − 1 degrees of freedom, m being 1 without concepts.

    Args:
        split: variance components of one paired difference.
        detect: difference to find, above 0.
        seeds: numbers of seeds a prompt.
        power: wanted chance to find it.
        level: 1 − α.

    Raises:
        OptionError: a difference that is not above 0, or a power or level outside its range.
    """
    _check(power, level)
    if not (math.isfinite(detect) and detect > 0):
        raise OptionError("the difference to detect must be above 0", got=repr(detect))
    return [Need(count, _fewest(split, detect, count, power, level)) for count in seeds]


def _fewest(split: VarianceSplit, detect: float, seeds: int, power: float, level: float) -> int | None:
    variance = split.of_mean(1, seeds)
    if variance is None:
        return None
    share = split.prompts_per_concept
    low = high = max(2, math.ceil(2 * share))
    while not _suffices(high, share, variance, detect, power, level):
        low, high = high, high * 2
        if high > MOST_PROMPTS:
            return None
    while low < high:
        middle = (low + high) // 2
        if _suffices(middle, share, variance, detect, power, level):
            high = middle
        else:
            low = middle + 1
    return high


def _suffices(prompts: int, share: float, variance: float, detect: float, power: float, level: float) -> bool:
    return _reach(prompts / share, power, level) * math.sqrt(variance / prompts) <= detect


def _reach(n_units: float, power: float, level: float) -> float:
    return float(special.stdtrit(n_units - 1, (1 + level) / 2) + special.stdtrit(n_units - 1, power))


def _check(power: float, level: float) -> None:
    if not 0.5 <= power < 1:
        raise OptionError("a power must lie between 0.5 and 1", got=repr(power))
    if not 0 < level < 1:
        raise OptionError("a confidence level must lie between 0 and 1", got=repr(level))
