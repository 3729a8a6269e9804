"""What a report shows, as plain data: the page writes it down and computes no number of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beholder.media.base import Medium
from beholder.records import Summary


@dataclass(frozen=True)
class Side:
    """What stands beside others: a run, or one method of a run.

    Args:
        name: how it is called.
        run: the run's name.
        method: its method, or None for a whole run.
        n: its samples.
    """

    name: str
    run: str
    method: str | None
    n: int


@dataclass(frozen=True)
class Metric:
    """One metric as a page shows it.

    Args:
        label: its label.
        identity: its printed identity.
        unit: its unit.
        higher_is_better: its direction, or None.
        summary: one sentence about it.
        decimals: how many decimals single values are shown with.
    """

    label: str
    identity: str
    unit: str
    higher_is_better: bool | None
    summary: str
    decimals: int


@dataclass(frozen=True)
class Delta:
    """A difference to the baseline as it is shown.

    Args:
        text: the difference with its interval.
        verdict: "better", "worse", "higher", "lower", "inconclusive" or "equal".
        detail: p-values and pairs in words.
    """

    text: str
    verdict: str
    detail: str


@dataclass(frozen=True)
class Slice:
    """A group of samples on which a side changed, or which differs from the whole.

    Args:
        column: what the samples are grouped by.
        value: the group.
        label: the metric.
        side: the side.
        text: the change with its interval.
        verdict: as in `Delta`.
        n: its prompts, or its samples.
    """

    column: str
    value: str
    label: str
    side: str
    text: str
    verdict: str
    n: int


@dataclass(frozen=True)
class Pick:
    """Some samples that the first screen shows for one metric.

    Args:
        title: what they are ("changed most", "worst", "random").
        label: the metric.
        rows: rows of samples side by side: one inner list a prompt (-1 where a side has none), or one a sample.
        notes: a text beside each.
    """

    title: str
    label: str
    rows: Sequence[Sequence[int]]
    notes: Sequence[str]


@dataclass(frozen=True)
class GroupBar:
    """One value of a chart of groups.

    Args:
        group: the group's name.
        side: index of the side.
        value: its mean, or None.
        low: lower end of the interval, or None.
        high: upper end, or None.
        n: samples with a value.
        missing: samples without one, by status.
    """

    group: str
    side: int
    value: float | None
    low: float | None
    high: float | None
    n: int
    missing: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Histogram:
    """Counts of one metric's values by side.

    Args:
        label: the metric.
        edges: borders of the bins.
        counts: by side: samples in each bin.
    """

    label: str
    edges: Sequence[float]
    counts: Sequence[Sequence[int]]


@dataclass(frozen=True)
class Visuals:
    """The media of one sample; what could not be found is None.

    Args:
        output: what was scored.
        references: its references.
        masks: name → mask (a medium, or a mask that is written out).
        reference_masks: one mask a reference, or none.
    """

    output: Medium | None
    references: Sequence[Medium] = ()
    masks: Mapping[str, Any] = field(default_factory=dict)
    reference_masks: Sequence[Any] = ()


@dataclass(frozen=True)
class Samples:
    """All samples, column by column; the lists are aligned.

    Args:
        ids: their ids.
        sides: index of each one's side.
        keys: the pair each belongs to, or -1.
        outputs: names of the outputs, or None.
        prompts: prompts, or None.
        values: metric → values, None where there is none.
        statuses: metric → statuses.
        reasons: metric → reasons, or None; metrics without any are left out.
        evidence: metric → JSON texts, or None; metrics without any are left out.
        columns: the other columns of the input.
        filters: names of the columns that a sample can be chosen by.
        visuals: the media.
        units: code of the prompt that each is an output of (within its concept): what intervals are over.
    """

    ids: Sequence[str]
    sides: Sequence[int]
    keys: Sequence[int]
    outputs: Sequence[str | None]
    prompts: Sequence[str | None]
    values: Mapping[str, Sequence[float | None]]
    statuses: Mapping[str, Sequence[str]]
    reasons: Mapping[str, Sequence[str | None]]
    evidence: Mapping[str, Sequence[str | None]]
    columns: Mapping[str, Sequence[Any]]
    filters: Sequence[str]
    visuals: Sequence[Visuals]
    units: Sequence[int] = ()

    @property
    def n(self) -> int:
        """How many samples there are."""
        return len(self.ids)


@dataclass(frozen=True)
class View:
    """A part of the page that only some runs have: a benchmark's tables, attributes, values of whole sets.

    Args:
        kind: which part of the script draws it: "tables", "subjects", "opens2v" or "attributes".
        name: a short name for the page's head.
        title: its heading.
        data: what it shows, JSON-ready; read by the page after the samples, so it may grow with them.
    """

    kind: str
    name: str
    title: str
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Report:
    """Everything that a report shows.

    Args:
        title: its title.
        facts: a line about the runs.
        command: the command that makes this report.
        sides: the sides, the baseline first.
        metrics: the metrics of samples.
        set_metrics: the metrics of whole sets.
        blockers: why numbers must not be used or compared as they stand.
        warnings: what else to know.
        verdicts: what the comparison says, in words.
        cells: (side, metric) → its aggregate.
        deltas: (side, metric) → its difference to its baseline.
        against: side → the side that it is compared with.
        latex: the table in LaTeX.
        markdown: the table in Markdown.
        slices: the groups that changed most, most first.
        slices_note: what these changes are.
        picks: the samples of the first screen.
        histograms: the distributions.
        groups: column → metric → bars; the columns that were asked for first.
        group_tables: column → its table, as a page sorts and filters it.
        views: what protocols and attribute evaluations add.
        identity: by run: everything that its numbers depend on.
        samples: the samples.
    """

    title: str
    facts: Sequence[str]
    command: str
    sides: Sequence[Side]
    metrics: Sequence[Metric]
    set_metrics: Sequence[Metric]
    blockers: Sequence[str]
    warnings: Sequence[str]
    verdicts: Sequence[str]
    cells: Mapping[tuple[int, str], Summary]
    deltas: Mapping[tuple[int, str], Delta]
    against: Mapping[int, int]
    latex: str
    markdown: str
    slices: Sequence[Slice]
    slices_note: str
    picks: Sequence[Pick]
    histograms: Sequence[Histogram]
    groups: Mapping[str, Mapping[str, Sequence[GroupBar]]]
    group_tables: Mapping[str, Any]
    views: Sequence[View]
    identity: Mapping[str, Mapping[str, Any]]
    samples: Samples
