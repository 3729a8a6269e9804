"""What a run says: statuses, scores, summaries, cards and the run's header. One schema version for all."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

SCHEMA_VERSION = 1
"""Version of every file in a run folder; raised when the meaning of a field changes."""


class Status(str, enum.Enum):
    """Why a sample has a value (`ok`) or has none. The list is closed."""

    OK = "ok"
    NOT_APPLICABLE = "not_applicable"
    EMPTY_PROMPT = "empty_prompt"
    NO_REFERENCE = "no_reference"
    NO_FACE = "no_face"
    NO_MASK = "no_mask"
    NO_DETECTION = "no_detection"
    ALL_FILTERED = "all_filtered"
    TOO_SHORT = "too_short"
    NOT_ENOUGH_EVIDENCE = "not_enough_evidence"
    MISSING = "missing"
    UNREADABLE = "unreadable"
    TOO_LARGE = "too_large"
    DEGENERATE_EMBEDDING = "degenerate_embedding"
    REFUSED = "refused"
    UNPARSABLE = "unparsable"
    FAILED = "failed"

    def __str__(self) -> str:
        return self.value

    @property
    def is_fault(self) -> bool:
        """True for faults, which `--max-failed` counts; False for `ok` and for "no value by nature"."""
        return self in _FAULTS


_FAULTS = frozenset(
    {
        Status.MISSING,
        Status.UNREADABLE,
        Status.TOO_LARGE,
        Status.DEGENERATE_EMBEDDING,
        Status.REFUSED,
        Status.UNPARSABLE,
        Status.FAILED,
    }
)


@dataclass(frozen=True)
class Score:
    """One metric's verdict on one sample.

    Args:
        sample: the sample's id.
        metric: the metric's printed identity.
        value: a finite number when the status is `ok`, else None.
        status: `ok`, or why there is no value.
        reason: plain words for a status other than `ok`.
        evidence: raw evidence beside the value (tokens, truncation, boxes …), JSON-ready.
    """

    sample: str
    metric: str
    value: float | None
    status: Status = Status.OK
    reason: str | None = None
    evidence: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Summary:
    """One aggregate of one metric over one group of samples.

    Args:
        metric: printed identity.
        label: the column's short label.
        aggregate: "macro" (mean of concept means), "micro" (mean of samples), "pairs" (mean of all pairs of output and
            reference), "over_seeds" (mean of the seeds' headline values), or another declared name.
        value: the aggregate, or None when no sample has a value.
        low: lower end of the confidence interval, or None.
        high: upper end, or None.
        level: confidence level of the interval.
        ci_method: how the interval was made ("bootstrap-percentile", "normal") or None with a reason in `note`.
        unit: what was resampled ("prompt", "concept", "sample"), or averaged ("seed").
        n: samples with a value.
        n_units: units that were resampled.
        n_missing: samples without a value, by status.
        sd: standard deviation (ddof 1) over what was averaged: samples, concept means, seeds; None for fewer than two.
        group: {column: value} that the row is about; empty for all samples.
        headline: True for the one value of a metric that tables show first.
        note: a caveat in plain words, or None.
    """

    metric: str
    label: str
    aggregate: str
    value: float | None
    low: float | None
    high: float | None
    level: float
    ci_method: str | None
    unit: str
    n: int
    n_units: int
    n_missing: Mapping[str, int] = field(default_factory=dict)
    sd: float | None = None
    group: Mapping[str, Any] = field(default_factory=dict)
    headline: bool = True
    note: str | None = None


@dataclass(frozen=True)
class OptionInfo:
    """One option of a metric.

    Args:
        name: its name in the identity.
        default: its default; an option at its default is not printed.
        doc: one sentence.
        choices: allowed values, or () when open.
        kind: type of the value.
    """

    name: str
    default: Any
    doc: str
    choices: tuple[Any, ...] = ()
    kind: Literal["str", "int", "float", "bool", "list"] = "str"


@dataclass(frozen=True)
class MetricInfo:
    """A metric's card.

    Args:
        name: the metric's one name.
        family: what `beholder list --family` filters by ("clip", "preference" …).
        kind: "sample" (a value a sample), or "set" (a value a set).
        summary: one plain sentence.
        inputs: the columns it reads ("output", "prompt", "references" …).
        formula: plain-text formula.
        unit: unit of the value ("cosine", "logit", "probability" …).
        range: declared (low, high); None for an open end. A value outside is a fault to be found.
        higher_is_better: direction, or None when the metric has none.
        degenerate: what degenerate input gives.
        paper: citation, or None.
        reference_code: public repository whose arithmetic is followed, or None.
        version: version of our definition; raised when values change.
        capability: what the metric asks of a backend, or None.
        default_model: model used when none is named, or None.
        options: all options with defaults.
        licence_note: what a user must know about licences, or None.
        notes: caveats in plain words.
    """

    name: str
    family: str
    kind: Literal["sample", "set"]
    summary: str
    inputs: tuple[str, ...]
    formula: str
    unit: str
    range: tuple[float | None, float | None]
    higher_is_better: bool | None
    degenerate: str
    paper: str | None
    reference_code: str | None
    version: str
    capability: str | None = None
    default_model: str | None = None
    options: tuple[OptionInfo, ...] = ()
    licence_note: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModelCard:
    """A model's card. Facts that are not known are None; nothing is guessed.

    Args:
        id: canonical id, `engine:arch/weights`.
        engine: "hf", "open_clip", "demo", "fake" …
        family: "clip", "siglip", "pickscore" …
        arch: architecture as its engine names it.
        weights: pretrained tag, hub repository or local folder.
        source: hub repository that holds the files, or None for local or built-in models.
        revision: pinned revision, or None for the newest.
        files: file names that make up the weights.
        size_bytes: size of the download, or None.
        sha256: expected sha256 by file name, when known.
        licence: licence of the weights, or None when not checked.
        commercial: whether commercial use is allowed; None when not checked.
        paper: citation.
        input_size: input pixels (height, width), or None until resolved.
        preprocessing: how a decoded picture becomes the input tensor: resize, crop, interpolation, mean, std.
        context_length: tokens a text may have, or None until resolved.
        embed_dim: width of the shared space, or None until resolved.
        english_only: True when the text encoder was trained on English.
        aliases: other names that resolve to this model.
        capabilities: what it can do (see `backends.kinds`).
        layout_verified: how the state-dict layout was checked ("weights", "listing", "no").
        planned: reason why the model is listed but cannot be used yet, or None.
        notes: caveats in plain words.
    """

    id: str
    engine: str
    family: str
    arch: str
    weights: str
    source: str | None = None
    revision: str | None = None
    files: tuple[str, ...] = ()
    size_bytes: int | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)
    licence: str | None = None
    commercial: bool | None = None
    paper: str | None = None
    input_size: tuple[int, int] | None = None
    preprocessing: Mapping[str, Any] | None = None
    context_length: int | None = None
    embed_dim: int | None = None
    english_only: bool = False
    aliases: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ("ImageTextEncoder",)
    layout_verified: Literal["weights", "listing", "no"] = "no"
    planned: str | None = None
    notes: tuple[str, ...] = ()
