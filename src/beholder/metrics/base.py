"""What a metric is: a card, slots that say which features it needs, and a pure function from features to scores.

The engine fills the slots. For every sample it asks `select` which items go into which slot (the output, the
prompt, the references), makes or looks up their features, and hands whole columns to `score`. A sample that has
no value by nature says so in `select` by raising `NoValue`; a file that cannot be read is the engine's matter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Union

import numpy as np

from beholder._errors import BeholderError, OptionError, UserError
from beholder._identity import MetricSpec, OptionValue, format_spec
from beholder.backends.base import Columns
from beholder.manifest.schema import Sample
from beholder.media.base import Medium, Picture
from beholder.metrics.options import check_options, plain_model_name
from beholder.records import MetricInfo, Status


@dataclass(frozen=True)
class Derived:
    """Pictures made from a picture and from another slot's feature of it: a masked subject, the crops of its faces.

    The engine decodes the medium, looks up (or makes first) the feature of `source` in the slot `slot` of the same
    metric, and hands both to `make`. What `make` gives is looked at like the frames of a video: one row of features a
    picture. Of a video, `make` is given the frames of the slot's policy one after another, each with its own row of
    the feature, and pictures of equal pixels are looked at once.

    Args:
        medium: the picture or video.
        slot: name of the slot whose feature is needed.
        source: the item of that slot, of the same medium.
        make: a function of (picture, {column: this item's row}) to pictures; it may raise `NoValue`. A function of a
            module, not a closure: everything that it depends on stands in `params`, which it is given as keywords.
        params: what moves the pixels, JSON-ready; part of the key.
    """

    medium: Medium
    slot: str
    source: Medium | Pair
    make: Callable[..., Sequence[Picture]]
    params: tuple[tuple[str, OptionValue], ...] = ()


@dataclass(frozen=True)
class Joined:
    """Still media that a model takes together as one visual, in their order: a picture and its mask.

    The model's `prepare` is given all their pictures at once.

    Args:
        media: the media.
    """

    media: tuple[Medium, ...]


@dataclass(frozen=True)
class FromFeature:
    """A visual whose feature in another slot is looked at, not its pixels: what a small head on an embedding takes.

    The engine looks up (or makes first) the feature of `source` in the slot `slot` of the same metric and hands it on,
    so that one pass of the encoder serves every metric that needs it. A video has one row a frame, as its source has.

    Args:
        slot: name of the slot whose feature is needed.
        source: the item of that slot.
    """

    slot: str
    source: Medium | Derived


@dataclass(frozen=True)
class Pair:
    """A visual and a text, or an example picture, that a model looks at together.

    Args:
        visual: the picture or video, media that are joined, or pictures derived from one.
        text: what is asked or matched, as it is given to the model; for kinds that take an example, a still picture.
    """

    visual: Medium | Derived | Joined
    text: str | Medium


Item = Union[Medium, str, Pair, Derived, Joined, FromFeature]
Selection = Mapping[str, Union[Item, Sequence[Item]]]


@dataclass(frozen=True)
class Slot:
    """One kind of feature that a metric needs of every sample.

    Args:
        name: how `select` and `score` call it.
        model: name of the model that makes it, as asked for.
        feature: kind of feature (see `backends.kinds`).
        many: True when a sample has a list of items (references), False for exactly one.
        params: parameters of the feature, part of its key; the backend's method is given them as keywords.
        frames: which frames of a video are looked at (a `FramePolicy`); None where a metric takes no videos.
        after: slots whose features its derived items, or its items of the kind `FromFeature`, need.
        may_fail: True for a `many` slot whose items may have no feature: they are left out of the row's list and
            stand in `FeatureBatch.lost`. Elsewhere one item without a feature costs its row.
    """

    name: str
    model: str
    feature: str
    many: bool = False
    params: tuple[tuple[str, OptionValue], ...] = ()
    frames: str | None = None
    after: tuple[str, ...] = ()
    may_fail: bool = False


@dataclass(frozen=True)
class Ragged:
    """Features of a `many` slot: row i owns items `offsets[i]:offsets[i+1]` of the flat columns."""

    columns: Columns
    offsets: np.ndarray


@dataclass(frozen=True)
class FeatureBatch:
    """Features of n samples, and the constants of the models that made them.

    Args:
        slots: by slot name: columns with leading dimension n, or `Ragged` for a `many` slot, and for a slot of one
            item a sample where a sample's item is a video or has derived pictures (one row each).
        constants: by slot name: constants of the slot's model ("logit_scale").
        n: number of samples.
        samples: the samples, for metrics whose arithmetic needs more of them than features (a checklist's answers).
        lost: by name of a slot that may fail: for each sample, why items of its list have no feature, by their place
            in the list that was selected.
    """

    slots: Mapping[str, Columns | Ragged]
    constants: Mapping[str, Mapping[str, float]]
    n: int
    samples: Sequence[Sample] = ()
    lost: Mapping[str, Sequence[Mapping[int, tuple[Status, str]]]] = field(default_factory=dict)

    def one(self, slot: str, column: str = "embedding") -> np.ndarray:
        """The column of a slot that has exactly one item a sample."""
        value = self.slots[slot]
        if isinstance(value, Ragged):
            raise TypeError(f"slot {slot!r} has many items a sample: use .many()")
        return value[column]

    def one_of(self, slot: str) -> Columns:
        """All columns of a slot that has exactly one row a sample."""
        value = self.slots[slot]
        if isinstance(value, Ragged):
            raise TypeError(f"slot {slot!r} has several rows a sample: use .rows_of()")
        return value

    def rows_of(self, slot: str) -> Ragged:
        """A slot's features as lists, whatever it holds: one row for a still picture, one a frame for a video."""
        value = self.slots[slot]
        return value if isinstance(value, Ragged) else Ragged(value, np.arange(self.n + 1))

    def many(self, slot: str) -> Ragged:
        """The features of a slot that has a list of items a sample."""
        value = self.slots[slot]
        if not isinstance(value, Ragged):
            raise TypeError(f"slot {slot!r} has one item a sample: use .one()")
        return value


@dataclass(frozen=True)
class ScoreColumns:
    """Scores of n samples.

    Args:
        values: (n,) float64; the number where there is no value does not matter, it is never read.
        statuses: row → (status, reason) for the rows without a value; all others are `ok`.
        evidence: row → JSON-ready evidence, for rows that have some ({"truncated": true}).
    """

    values: np.ndarray
    statuses: Mapping[int, tuple[Status, str]] = field(default_factory=dict)
    evidence: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)


class SampleMetric(ABC):
    """A metric that gives one value a sample.

    A subclass sets `info` and implements `slots`, `select` and `score`. Options are checked against `info.options`
    here; `self.options` holds all of them, defaults included. None stands for the default.

    Args:
        options: the options that were given.
        default_model: the model for image-text metrics that name none (`--model`); None takes the card's default.
    """

    info: ClassVar[MetricInfo]

    looks_ahead: ClassVar[bool] = False
    """True for a metric that looks at the data set before it is planned (see `fitted`)."""

    least_frames: ClassVar[int] = 1
    """Frames that an output must have; with fewer the metric says `too_short`."""

    other_aggregates: ClassVar[tuple[str, ...]] = ()
    """Names of further aggregates of the metric, beside macro and micro (see `other_values`)."""

    other_missing: ClassVar[Status] = Status.NOT_APPLICABLE
    """Status, in an aggregate of `other_aggregates`, of a row that is ok and has no value there."""

    def __init__(
        self, options: Mapping[str, OptionValue | None] | None = None, *, default_model: str | None = None
    ) -> None:
        given = dict(options or {})
        if default_model is not None and self.takes_model() and given.get("model") is None:
            given["model"] = default_model
        checked = check_options(self.info, given)
        for name, default in self.dependent_defaults(checked).items():
            if checked[name] is None:
                checked[name] = default
        model = checked.get("model")
        if isinstance(model, str):
            checked["model"] = plain_model_name(model)
        self.options = checked

    @classmethod
    def takes_model(cls) -> bool:
        """True when `--model` sets the metric's encoder: it has an option `model` that is not part of its meaning."""
        return any(option.name == "model" for option in cls.info.options)

    @classmethod
    def dependent_defaults(cls, options: Mapping[str, OptionValue]) -> Mapping[str, OptionValue]:
        """Defaults that depend on other options (a variant's published model), for options whose card says None."""
        return {}

    @property
    def identity(self) -> str:
        """The printed name: only options that differ from their defaults show; parses back to an equal metric."""
        defaults = {option.name: option.default for option in self.info.options}
        defaults.update(self.dependent_defaults(self.options))
        shown = {key: value for key, value in self.options.items() if value != defaults[key]}
        return format_spec(self.info.name, shown)

    @property
    def value_range(self) -> tuple[float | None, float | None]:
        """The declared (low, high) with these options; the card's range is that of the default options."""
        return self.info.range

    def __repr__(self) -> str:
        return self.identity

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SampleMetric) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    @property
    def unit(self) -> str:
        """The unit of the values: the card's, unless an option changes the scale."""
        return self.info.unit

    @property
    @abstractmethod
    def slots(self) -> tuple[Slot, ...]:
        """Which features the metric needs, with the models that make them."""

    @abstractmethod
    def select(self, sample: Sample) -> Selection:
        """The items of one sample by slot name.

        Raises:
            NoValue: the sample has no value by nature (`empty_prompt`, `no_reference`, `not_applicable`).
        """

    @abstractmethod
    def score(self, batch: FeatureBatch) -> ScoreColumns:
        """Features to scores; pure, vectorised, float32 dot products and float64 values."""

    def on_pairs(self) -> SampleMetric:
        """The same metric for a model that scores pairs of a visual and a text instead of embedding both.

        Raises:
            OptionError: the metric needs embeddings.
        """
        raise OptionError(
            f"{self.info.name} needs a model that embeds images and texts",
            got=f"{self.options.get('model')}, which looks at an image and a text together",
        )

    def scored_text(self, sample: Sample) -> str | None:
        """The exact text that is scored for a sample, or None when no text is involved."""
        return None

    def sample_evidence(self, sample: Sample) -> Mapping[str, Any]:
        """Evidence that the sample alone tells (the question that was asked), JSON-ready; beside that of `score`.

        The key "remark" holds a sentence that the run's notices repeat, with the number of rows it stands in.
        """
        return {}

    def group_key(self, sample: Sample) -> str | None:
        """For metrics whose value depends on a group of rows (win probabilities): the group's key; else None."""
        return None

    def score_groups(self, values: np.ndarray, groups: Sequence[np.ndarray]) -> ScoreColumns:
        """For metrics with `group_key`: values of all rows and each group's scored row numbers → final scores.

        Rows in no group have no value; what is said about them is not read.
        """
        return ScoreColumns(values)

    def weight(self, sample: Sample) -> int | None:
        """How many pairs a sample's value is the mean of (references of `clip_i`); None where there are no pairs.

        The weights make the aggregate `pairs`.
        """
        return None

    def fitted(self, samples: Iterable[Sample]) -> SampleMetric:
        """The same metric as it suits a data set, which may be read once from its start (or not to its end).

        Called only where `looks_ahead` is True and the samples can be read twice.
        """
        return self

    def other_values(
        self, value: float | None, status: Status, evidence: Mapping[str, Any]
    ) -> Mapping[str, float | None]:
        """A row's value in each of `other_aggregates`; None, or no entry, leaves the row out of that aggregate."""
        return {}

    def finish_aggregate(self, mean: float) -> float:
        """What the metric does to an aggregate (the `torchmetrics` variant clamps it); the mean itself by default."""
        return mean

    def describe(self) -> dict[str, Any]:
        """Scale, clamp, template and whatever else belongs to the number's identity, JSON-ready."""
        return {}


def make_metric(spec: MetricSpec, *, default_model: str | None = None) -> SampleMetric:
    """The metric that a specification stands for."""
    from beholder.metrics.catalog import METRICS

    kind = METRICS.get(spec.name)
    try:
        return kind(spec.options, default_model=default_model)
    except BeholderError:
        raise
    except Exception as error:
        raise UserError(
            f"the metric {spec.name!r} must start",
            got=f"{type(error).__name__}: {error}",
            fix="Mend or uninstall the package that provides it",
        ) from error
