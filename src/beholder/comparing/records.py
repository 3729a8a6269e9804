"""What a comparison, and an agreement with people, consist of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from beholder._errors import UnknownNameError
from beholder.stats.association import Estimate
from beholder.stats.bootstrap import Interval
from beholder.stats.compare import Difference
from beholder.stats.permutation import PValue
from beholder.stats.ranks import RankStability
from beholder.stats.reliability import Alpha

Verdict = Literal["better", "worse", "higher", "lower", "inconclusive", "equal"]


@dataclass(frozen=True)
class Compared:
    """One metric of one side against the baseline.

    Args:
        label: the metric's label.
        metric: its printed identity.
        a: the baseline.
        b: the other side; differences are b − a.
        group: {column: value} of the rows it is about; empty for all.
        higher_is_better: the metric's direction, or None.
        difference: the numbers.
        holm: p adjusted after Holm over all rows of the comparison, or None without a p.
        bh: p adjusted after Benjamini and Hochberg, or None.
        verdict: what b is: "better" or "worse" ("higher" or "lower" where the metric has no direction) when the
            interval excludes 0 and the p after Holm is at most 1 − level; "equal" when all pairs are equal.
        missing_a: rows of a without a value among those that have a pair, by status.
        missing_b: the same of b.
    """

    label: str
    metric: str
    a: str
    b: str
    group: Mapping[str, Any]
    higher_is_better: bool | None
    difference: Difference
    holm: float | None
    bh: float | None
    verdict: Verdict
    missing_a: Mapping[str, int]
    missing_b: Mapping[str, int]


@dataclass(frozen=True)
class SetCompared:
    """A metric of whole sets on two sides.

    Args:
        label, metric: its label and identity.
        a, b: the baseline and the other side.
        value_a, value_b: their values, or None.
        difference: b − a, or None.
        low, high: interval of the difference, or None.
        low_a, high_a, low_b, high_b: ends of their own intervals, or None.
        n_a, n_b: pictures of the sets.
        missing_a, missing_b: rows that no picture of the sets came of, by status.
        higher_is_better: direction.
        verdict: "better", "worse", "higher", "lower", "equal" or "inconclusive"; by the interval, not corrected for the
            number of metrics.
        note_a, note_b: why there is no value, or what else to know of it, or None.
    """

    label: str
    metric: str
    a: str
    b: str
    value_a: float | None
    low_a: float | None
    high_a: float | None
    value_b: float | None
    low_b: float | None
    high_b: float | None
    difference: float | None
    low: float | None
    high: float | None
    n_a: int
    n_b: int
    missing_a: Mapping[str, int]
    missing_b: Mapping[str, int]
    higher_is_better: bool | None
    verdict: Verdict
    note_a: str | None = None
    note_b: str | None = None

    @property
    def note(self) -> str | None:
        """Why there is no difference, or None where there is one."""
        if self.difference is not None:
            return None
        return self.note_a if self.value_a is None else self.note_b


@dataclass(frozen=True)
class Pairing:
    """How many rows of two sides found a partner."""

    a: str
    b: str
    rows_a: int
    rows_b: int
    unpaired_a: int
    unpaired_b: int
    repeated_keys: int


@dataclass(frozen=True)
class Comparison:
    """The result of `beholder.compare`.

    Args:
        rows: one entry a metric, side and group.
        sides: names of the sides, the baseline first.
        key: columns that rows were paired on.
        pairings: rows with and without a partner.
        ranks: by metric, for three and more sides: how stable their order is.
        warnings: what differs between the sides.
        notices: what else to know.
        level: confidence level.
        power: power of the detectable differences.
        sets: metrics of whole sets, which have no rows to pair.
        matched: the run whose methods are each the baseline of the same method of the other runs, or None where the
            first side is the baseline of all.
    """

    rows: tuple[Compared, ...]
    sides: tuple[str, ...]
    key: tuple[str, ...]
    pairings: tuple[Pairing, ...]
    ranks: Mapping[str, RankStability]
    warnings: tuple[str, ...]
    notices: tuple[str, ...]
    level: float
    power: float
    sets: tuple[SetCompared, ...] = ()
    matched: str | None = None

    @property
    def baselines(self) -> dict[str, str]:
        """By side that is compared with another: that other one."""
        return {item.b: item.a for item in self.sets} | {row.b: row.a for row in self.rows}

    @property
    def baseline_text(self) -> str:
        """The baseline in words."""
        return self.sides[0] if self.matched is None else f"the same method of {self.matched}"

    def row(self, label: str, side: str | None = None) -> Compared:
        """The entry of a metric over all rows; of the first side after the baseline when none is named."""
        for row in self.rows:
            if row.label == label and not row.group and side in (None, row.b):
                return row
        raise UnknownNameError("metric", label, sorted({row.label for row in self.rows}))


@dataclass(frozen=True)
class MetricAgreement:
    """One metric against one question.

    Args:
        label: the metric's label.
        metric: its printed identity.
        question: the question, or None.
        accuracy: pairwise accuracy with its interval.
        epsilon: metric differences up to this are ties.
        statistics: "tau_b", "tau_c", "spearman", "pearson" with intervals; given pairs have only "tau_b".
        constant: accuracy of a metric that never tells two outputs apart, on the same pairs.
        random: accuracy of a random metric without ties, on the same pairs.
        n_items: outputs (or pairs that were voted on).
        n_pairs: pairs behind the accuracy.
        n_prompts: prompts behind the correlations.
        higher_is_better: the metric's direction; values of a metric with False were negated.
        note: a caveat, or None.
    """

    label: str
    metric: str
    question: str | None
    accuracy: Estimate
    epsilon: float | None
    statistics: Mapping[str, Estimate]
    constant: float | None
    random: float | None
    n_items: int
    n_pairs: int
    n_prompts: int
    higher_is_better: bool | None
    note: str | None = None


@dataclass(frozen=True)
class Contrast:
    """Two metrics against the same people: accuracy of b less that of a.

    Args:
        a: label of one metric.
        b: label of the other.
        question: the question, or None.
        difference: of the accuracies, with a paired interval over prompts.
        p: sign-flip p over prompts; without a value for pooled pairs.
        holm: p after Holm over the contrasts of the question.
    """

    a: str
    b: str
    question: str | None
    difference: Estimate
    p: PValue
    holm: float | None = None


@dataclass(frozen=True)
class QuestionAgreement:
    """One question.

    Args:
        question: its name, or None.
        kind: "ratings", "votes" or "sets".
        n_ratings: ratings or votes.
        n_raters: people.
        alpha: how far people agree with one another.
        alpha_interval: interval of alpha's value, over prompts.
        person: accuracy of one person against the mean (of votes: the majority) of the others, with its interval, or
            None: how well one person does what the metrics are asked to do.
        metrics: the metrics, best accuracy first.
        contrasts: every two metrics.
        strengths: method → Bradley-Terry log strength, for votes between methods; empty where there are none.
        strengths_note: why there are none.
        strength_intervals: interval of each, over prompts.
    """

    question: str | None
    kind: str
    n_ratings: int
    n_raters: int
    alpha: Alpha
    alpha_interval: Interval
    person: Estimate | None
    metrics: tuple[MetricAgreement, ...]
    contrasts: tuple[Contrast, ...]
    strengths: Mapping[str, float]
    strengths_note: str | None
    strength_intervals: Mapping[str, Interval] = field(default_factory=dict)


@dataclass(frozen=True)
class Agreement:
    """The result of `beholder.agree`.

    Args:
        questions: one entry a question.
        pairs: "within" or "pooled".
        calibration: how ε was chosen.
        level: confidence level.
        notices: what else to know.
    """

    questions: tuple[QuestionAgreement, ...]
    pairs: str
    calibration: str
    level: float
    notices: tuple[str, ...]

    def metric(self, label: str, question: str | None = None) -> MetricAgreement:
        """The entry of a metric; of the first question when none is named."""
        for entry in self.questions:
            for found in entry.metrics:
                if found.label == label and question in (None, entry.question):
                    return found
        raise UnknownNameError("metric", label, sorted({item.label for q in self.questions for item in q.metrics}))
