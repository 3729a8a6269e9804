"""What a lab says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Verdict = Literal["moves with", "blind to", "unclear", "not tried"]

BLIND = 0.1
"""A mean change within ± this many standard deviations of the metric's own values counts as none."""


@dataclass(frozen=True)
class Effect:
    """One change by one degree.

    Args:
        level: the degree, as text.
        n: samples that have both values.
        change: mean of new − old value, or None without samples.
        low: lower end of its interval, or None.
        high: upper end.
        in_sd: the mean change in standard deviations of the original values over the samples; None where they do not
            differ.
        falls: share of the samples whose value became worse (in the metric's direction; smaller where it has none).
        falls_low: lower end of its interval.
        falls_high: upper end.
        missing: changed samples without one of the two values, by status.
    """

    level: str
    n: int
    change: float | None
    low: float | None
    high: float | None
    in_sd: float | None
    falls: float | None
    falls_low: float | None = None
    falls_high: float | None = None
    missing: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Reaction:
    """How a metric reacts to a change.

    Args:
        metric: the metric's label.
        change: name of the change.
        says: what is changed.
        effects: one a degree, from weak to strong.
        monotone: share of the samples whose value never rises again as the degree rises; None with one degree.
        monotone_low: lower end of its interval.
        monotone_high: upper end.
        verdict: "moves with": the interval of the strongest degree's change excludes 0 and its mean is at least
            `BLIND` standard deviations; "blind to": the whole interval lies within ± `BLIND` standard deviations;
            else "unclear". "not tried": no sample had what the change needs, or a value before and after it.
        note: what was lacking, or None.
        n_units: prompts or concepts that the intervals rest on.
    """

    metric: str
    change: str
    says: str
    effects: tuple[Effect, ...]
    monotone: float | None
    monotone_low: float | None
    monotone_high: float | None
    verdict: Verdict
    note: str | None = None
    n_units: int = 0


@dataclass(frozen=True)
class LabReport:
    """The answer of `beholder lab`.

    Args:
        metrics: identities by label.
        n: samples that were looked at.
        reactions: one a metric and change.
        notices: what the user should know.
        unit: what the intervals are over: "concept" where there are two and more, else "prompt", else "sample".
        level: level of the intervals.
    """

    metrics: dict[str, str]
    n: int
    reactions: tuple[Reaction, ...]
    notices: tuple[str, ...] = ()
    unit: str = "sample"
    level: float = 0.95

    def reaction(self, metric: str, change: str) -> Reaction:
        """The reaction of a metric to a change; KeyError where there is none."""
        for item in self.reactions:
            if (item.metric, item.change) == (metric, change):
                return item
        raise KeyError(f"{metric}, {change}")
