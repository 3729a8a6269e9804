"""What a protocol is: how a benchmark's data becomes samples, which metrics it names, and how scores become its tables.

A protocol never runs anything. `beholder bench` asks it for its samples and metrics, runs them like any other data set,
and hands the finished scores back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from beholder._errors import Fault, OptionError, UnknownNameError
from beholder._identity import format_spec, parse_spec
from beholder.manifest.schema import Sample, SampleSource
from beholder.manifest.validate import ValidationReport, validate
from beholder.metrics.catalog import METRICS
from beholder.protocols.results import ResultTable
from beholder.records import OptionInfo, Summary


@dataclass(frozen=True)
class MetricUse:
    """A metric that a protocol scores with.

    Args:
        spec: the metric, as it is printed.
        tasks: tasks that it applies to; () for all.
        why: for others than all: why it does not apply to the others.
    """

    spec: str
    tasks: tuple[str, ...] = ()
    why: str = ""

    @property
    def name(self) -> str:
        """The metric's name without options."""
        return parse_spec(self.spec).name

    def applies_to(self, task: str | None) -> bool:
        """True where outputs of a task get a value."""
        return not self.tasks or task is None or task in self.tasks


@dataclass(frozen=True)
class ProtocolInfo:
    """A protocol's card.

    Args:
        name: its one name.
        summary: one plain sentence.
        data: the forms of data that it reads, a sentence each.
        metrics: what it scores with by default.
        tables: name → what the table shows.
        paper: citation, or None.
        reference_code: repository whose data layout or arithmetic is followed, or None.
        version: version of our definition; raised when numbers or tables change.
        options: its options.
        caveats: what has to be known beside its numbers, a sentence each.
    """

    name: str
    summary: str
    data: tuple[str, ...]
    metrics: tuple[MetricUse, ...]
    tables: Mapping[str, str]
    paper: str | None
    reference_code: str | None
    version: str
    options: tuple[OptionInfo, ...] = ()
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scored:
    """One metric's scores of a finished run.

    Args:
        label: its column's label.
        identity: its printed name with options.
        name: its name without options.
        values: (n,) float64; read only where the status is ok.
        statuses: (n,) status of each row.
        evidence: (n,) evidence of each row, or None.
        weights: (n,) pairs behind each value, or None.
        higher_is_better: its direction.
        finish: what it does to an aggregate.
        reasons: (n,) why a row has no value, None elsewhere; empty where no row has one.
    """

    label: str
    identity: str
    name: str
    values: np.ndarray
    statuses: Sequence[str]
    evidence: Sequence[Mapping[str, Any] | None]
    weights: np.ndarray | None = None
    higher_is_better: bool | None = True
    finish: Callable[[float], float] = float
    reasons: Sequence[str | None] = ()

    @property
    def ok(self) -> np.ndarray:
        """(n,) bool: rows with a value."""
        return np.array([status == "ok" for status in self.statuses], dtype=bool)


@dataclass(frozen=True)
class AgreementAsk:
    """How a protocol wants its metrics compared with people.

    Args:
        name: what tables call it ("as published").
        pairs: "within" a prompt or "pooled".
        calibration: how the threshold of ties is chosen: "heldout", "paper" or "none".
    """

    name: str
    pairs: str
    calibration: str


@dataclass(frozen=True)
class Agreed:
    """Metrics against people, as flat records (see `beholder.report.agreement.agreement_records`)."""

    ask: AgreementAsk
    records: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Finished:
    """A finished run as a protocol sees it.

    Args:
        n: outputs.
        columns: the kept input columns, by name.
        metrics: the scores.
        agreements: metrics against people, where the protocol asked for it and the data has ratings.
        seed: seed of the intervals.
        resamples: their resamples.
        level: their level.
        summarise: the run's own aggregates, over all outputs and by the combinations of columns.
    """

    n: int
    columns: Mapping[str, Sequence[Any]]
    metrics: Sequence[Scored]
    agreements: Sequence[Agreed] = ()
    seed: int = 0
    resamples: int = 1000
    level: float = 0.95
    summarise: Callable[[Sequence[str]], Sequence[Summary]] = lambda columns: ()

    def column(self, name: str) -> Sequence[Any]:
        """A column; None everywhere where the run has none of this name."""
        return self.columns.get(name) or [None] * self.n

    def values_of(self, name: str, *, none: str) -> list[str]:
        """A column as text, with a label for rows without a value."""
        return [none if value is None else str(value) for value in self.column(name)]


@dataclass
class DataCheck:
    """What a protocol finds in its data beside what every manifest is checked for."""

    faults: list[Fault] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    counts: dict[str, Any] = field(default_factory=dict)


class Protocol(ABC):
    """A benchmark's way. Subclasses set `info` and implement `source` and `tables`.

    Args:
        options: options of its card; None stands for the default.

    Raises:
        UnknownNameError: an option that it does not have.
    """

    info: ClassVar[ProtocolInfo]
    agreement_asks: ClassVar[tuple[AgreementAsk, ...]] = ()

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        known = {option.name: option for option in self.info.options}
        self.options: dict[str, Any] = {name: option.default for name, option in known.items()}
        for name, value in (options or {}).items():
            if name not in known:
                raise UnknownNameError(f"option of the protocol {self.info.name}", name, known)
            if value is None:
                continue
            if known[name].choices and value not in known[name].choices:
                allowed = ", ".join(str(choice) for choice in known[name].choices)
                raise OptionError(f"option {name} of {self.info.name} must be one of: {allowed}", got=repr(value))
            self.options[name] = value

    @property
    def uses(self) -> tuple[MetricUse, ...]:
        """The metrics with these options."""
        return self.info.metrics

    def metrics(self, given: Sequence[str] = (), *, only: bool = False, model: str | None = None) -> tuple[str, ...]:
        """The metrics to score: the protocol's, where one that was given takes the place of its namesake.

        Args:
            given: metrics that the user named.
            only: True for these alone.
            model: encoder for the protocol's image-text metrics, instead of the one that it names.
        """
        if only:
            return tuple(given)
        named = {parse_spec(spec).name for spec in given}
        kept = [use.spec for use in self.uses if use.name not in named]
        return (*(_with_model(spec, model) for spec in kept), *given)

    @abstractmethod
    def source(self, data: Any, *, mapping: Mapping[str, str] | None = None, allow_extra: bool = False) -> SampleSource:
        """The samples of a data set; nothing is scored and no picture is decoded.

        Raises:
            UserError: the data has none of the forms of the protocol's card.
        """

    @abstractmethod
    def tables(self, finished: Finished) -> Iterable[ResultTable]:
        """The protocol's tables of a finished run."""

    def counts(self, finished: Finished) -> Mapping[str, Any]:
        """What the data held, as counted."""
        return {"outputs": finished.n}

    def ratings(self, finished: Finished) -> list[dict[str, Any]]:
        """What people said, as rows {id, rating, rater}; none where the data has no ratings."""
        return []

    def examine(self, samples: Iterator[Sample]) -> DataCheck:
        """What is wrong with the data beside what every manifest is checked for; looks at no picture."""
        return DataCheck()

    def check(self, source: SampleSource) -> ValidationReport:
        """Checks a data set without scoring: all faults of form and of rows, warnings, counts."""
        report = validate(source)
        found = DataCheck()
        if source.replayable and not any(fault.form for fault in report.faults):
            found = self.examine(iter(source))
        known = {(fault.row, fault.where) for fault in report.faults}
        more = [fault for fault in found.faults if (fault.row, fault.where) not in known]
        rows = sorted((*report.faults, *more), key=lambda fault: (not fault.form, fault.row or 0))
        return replace(
            report,
            faults=tuple(rows),
            warnings=(*report.warnings, *found.warnings),
            counts={**report.counts, "protocol": self.info.name, **found.counts},
        )


def _with_model(text: str, model: str | None) -> str:
    """A metric's specification without its encoder, where another was asked for."""
    spec = parse_spec(text)
    if model is None or "model" not in spec.options or not METRICS.get(spec.name).takes_model():
        return text
    return format_spec(spec.name, {name: value for name, value in spec.options.items() if name != "model"})
