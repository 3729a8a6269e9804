"""What a metric of whole sets is: the features of a set's pictures, and one number made of them.

A `SetMetric` asks for features as any metric does, so they are made in the same pass; instead of scoring samples it
measures sets: `measure` is given the features of the outputs, and of the real pictures where it compares with those.
Rows come in an order that depends on their content alone, so no value depends on the order of the input.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from beholder.backends.base import Columns
from beholder.functional.gaussians import Fit
from beholder.manifest.schema import Sample
from beholder.metrics.base import FeatureBatch, SampleMetric, ScoreColumns, Selection, Slot
from beholder.metrics.text_image import output_of
from beholder.records import OptionInfo, Status

DINO = "hf:facebook/dinov2-large"
FRAMES = OptionInfo(
    "frames", "uniform:8", "Which frames of a video are pictures of the set: uniform:n, fps:x, first, all or stride:k."
)


class PictureTable(NamedTuple):
    """All columns of the features of some pictures of a set.

    Args:
        numbers: (k,) their numbers.
        keys: of each: what its content's hash begins with.
        columns: each of k rows.
    """

    numbers: np.ndarray
    keys: Sequence[bytes]
    columns: Columns


class TextTable(NamedTuple):
    """Embeddings of texts, and the constants of the model that made them ("logit_scale")."""

    columns: Columns
    constants: Mapping[str, float]


@dataclass(frozen=True)
class FeatureSet:
    """Features of the pictures of a set.

    Args:
        n: number of pictures.
        blocks: gives the features in blocks, each with the numbers (k,) of its pictures and (k, d) float32; may be
            called again. Numbers follow from the pictures' content; blocks come as they are stored.
        units: (n,) code of the prompt that each picture belongs to; None where nothing is known.
        tables: gives all columns instead of the embedding alone, fewer pictures at a time; for large features.
        texts: gives the features of texts that the metric's slot of texts asked for; None where it has none.
    """

    n: int
    blocks: Callable[[], Iterator[tuple[np.ndarray, np.ndarray]]]
    units: np.ndarray | None = None
    tables: Callable[[], Iterator[PictureTable]] | None = None
    texts: Callable[[Sequence[str]], TextTable] | None = None

    def rows(self) -> np.ndarray:
        """(n, d) all features at once, by the pictures' numbers."""
        found: np.ndarray | None = None
        for numbers, block in self.blocks():
            if found is None:
                found = np.empty((self.n, block.shape[1]), dtype=block.dtype)
            found[numbers] = block
        return np.zeros((0, 1), dtype=np.float32) if found is None else found


@dataclass(frozen=True)
class FittedSet:
    """A set of which only mean and covariance are known.

    Args:
        fit: mean and covariance.
        n: number of pictures, or None where the file does not tell.
    """

    fit: Fit
    n: int | None = None


@dataclass(frozen=True)
class SetSettings:
    """How intervals are made.

    Args:
        seed: seed of all draws.
        level: level of the interval.
    """

    seed: int = 0
    level: float = 0.95

    def rng(self, what: str) -> np.random.Generator:
        """A generator for one purpose: what is drawn for one metric does not depend on the others."""
        return np.random.default_rng([self.seed, *what.encode()])


@dataclass(frozen=True)
class SetValue:
    """The value of a set.

    Args:
        value: the number.
        low, high: its interval, or None.
        sd: its standard error, or None.
        unit: what the interval was made over.
        n_units: how many of these there are.
        ci_method: how the interval was made, or None.
        note: a caveat in plain words, or None.
    """

    value: float
    low: float | None = None
    high: float | None = None
    sd: float | None = None
    unit: str = "picture"
    n_units: int = 0
    ci_method: str | None = None
    note: str | None = None


Memo = MutableMapping[Any, Any]
"""What metrics of the same two sets share, by a key of their own: kernels and neighbours are not computed twice."""


class SetMetric(SampleMetric):
    """A metric that gives one value a set.

    A subclass sets `info` (its kind is "set") and implements `measure`.
    """

    needs_real: ClassVar[bool] = True
    """True where the set is compared with a real one (`--real`)."""

    takes_fit: ClassVar[bool] = False
    """True where mean and covariance of the real set are enough."""

    equal_sizes: ClassVar[bool] = True
    """True where values of sets of unequal size mean little, so these are refused."""

    may_be_missing: ClassVar[bool] = False
    """True where sets that the metric takes may have no value, which is then no reason to end the run."""

    needs_direction: ClassVar[bool] = False
    """True where an embedding of length 0 cannot take part."""

    @property
    def least(self) -> int:
        """Pictures that each set must have."""
        return 2

    @property
    def slots(self) -> tuple[Slot, ...]:
        frames = str(self.options["frames"])
        return (Slot("image", str(self.options["model"]), "image_embedding", frames=frames),)

    def select(self, sample: Sample) -> Selection:
        return {"image": output_of(sample)}

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        """No values; the rows whose features cannot take part have a status."""
        found = batch.rows_of("image")
        features = np.asarray(found.columns["embedding"], dtype=np.float32) if batch.n else np.zeros((0, 1), np.float32)
        bad = ~np.isfinite(features).all(axis=1)
        if self.needs_direction:
            bad |= ~features.any(axis=1)
        rows = np.unique(np.searchsorted(found.offsets, np.flatnonzero(bad), side="right") - 1)
        reason = "an embedding of the output is zero or not finite"
        return ScoreColumns(
            np.zeros(batch.n), {int(row): (Status.DEGENERATE_EMBEDDING, reason) for row in rows}
        )  # fmt: skip

    @abstractmethod
    def measure(
        self, gen: FeatureSet, real: FeatureSet | FittedSet | None, settings: SetSettings, memo: Memo
    ) -> SetValue:
        """The value of a set.

        Args:
            gen: the outputs; at least `least` pictures.
            real: the real set, of as many pictures; None where the metric needs none; a `FittedSet` only where
                `takes_fit` is True.
            settings: how the interval is made.
            memo: shared by the metrics of the same two sets on the same features.

        Raises:
            NoValue: the sets have no value by nature (`not_enough_evidence`).
        """

    def describe(self) -> dict[str, Any]:
        return {"kind": "set"}


def model_option(default: str, doc: str = "Encoder.") -> OptionInfo:
    """The option `model` of a set metric."""
    return OptionInfo("model", default, doc)
