"""What metrics of the attributes of whole sets share: their list, scored sets, and the comparisons of scores and maps.

Comparisons are made by the functions behind `beholder attributes`, and once for all metrics of one list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from beholder._errors import NoValue, OptionError
from beholder.functional.divergence import Direction, pairs
from beholder.functional.maps import with_squares
from beholder.functional.placement import MASS_FLOOR, Background
from beholder.functional.similarity import normalise
from beholder.manifest.schema import Sample
from beholder.metrics.attribute_lists import Attribute, listed_attributes
from beholder.metrics.attribute_scores import RaOptions, pair_texts, score_pictures
from beholder.metrics.base import FeatureBatch, ScoreColumns, Selection, Slot
from beholder.metrics.sets import FeatureSet, FittedSet, Memo, SetMetric, SetSettings, SetValue
from beholder.metrics.text_image import output_of
from beholder.records import Status
from beholder.stats.map_sets import JudgedMap, MapSettings, MapUnits, judge_maps
from beholder.stats.resample import Judged
from beholder.stats.score_sets import Density, ScoreSettings, judge_scores

LEAST = 3
"""Pictures that a set needs for a distribution."""
SHOWN = 3
"""Attributes or pairs that a note names."""


@dataclass
class ScoredSet:
    """A set, scored for a list of attributes.

    Args:
        scores: (n, C), by the pictures' numbers.
        maps: sums of refined patch scores.
        regions: sums of these averaged over regions, and of their squares.
        grid: rows and columns of the patches.
    """

    scores: np.ndarray
    maps: MapUnits
    regions: MapUnits
    grid: tuple[int, int]


class AttributeSetMetric(SetMetric):
    """A mean over attributes of how two sets of pictures differ."""

    equal_sizes = False
    may_be_missing = True
    regions: ClassVar[int] = 7

    @property
    def attributes(self) -> list[Attribute]:
        """The list.

        Raises:
            OptionError: none was given, or one stands twice.
        """
        return listed_attributes([str(item) for item in cast("Sequence[Any]", self.options["attributes"])])

    @property
    def least(self) -> int:
        if not self.options["attributes"]:
            raise OptionError(
                f"{self.info.name} needs a list of attributes",
                got="none",
                fix=f'Add --attributes FILE (or faces, animals, scenes), or {self.info.name}(attributes=["a cat"])',
            )
        if len(self.attributes) < self.least_attributes:
            raise OptionError(f"{self.info.name} needs two attributes", got=str(len(self.attributes)))
        return LEAST

    least_attributes: ClassVar[int] = 1

    @property
    def slots(self) -> tuple[Slot, ...]:
        model = str(self.options["model"])
        return (
            Slot("image", model, "patches", frames=str(self.options["frames"])),
            Slot("texts", model, "text_embedding", many=True),
        )

    def texts(self) -> list[str]:
        """All positive prompts, then all negative ones."""
        return pair_texts(self.attributes, str(self.options["positive"]), str(self.options["negative"]))

    def select(self, sample: Sample) -> Selection:
        if not self.options["attributes"]:
            raise NoValue(Status.NOT_APPLICABLE, f"{self.info.name} needs a list of attributes")
        return {"image": output_of(sample), "texts": self.texts()}

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        """No values; the rows with a token or a text without direction have a status."""
        rows = batch.rows_of("image")
        if not batch.n:
            return ScoreColumns(np.zeros(0))
        columns = rows.columns
        bad = normalise(columns["embedding"]).degenerate
        patches = columns["patches"]
        flat = normalise(patches.reshape(-1, patches.shape[-1])).degenerate
        bad = bad | flat.reshape(patches.shape[:2]).any(axis=1)
        found = set(np.searchsorted(rows.offsets, np.flatnonzero(bad), side="right") - 1)
        texts = batch.many("texts")
        lost = np.flatnonzero(normalise(texts.columns["embedding"]).degenerate)
        found |= set(np.searchsorted(texts.offsets, lost, side="right") - 1)
        reason = "a token of the output or a prompt has no direction: its embedding is zero or not finite"
        return ScoreColumns(
            np.zeros(batch.n), {int(row): (Status.DEGENERATE_EMBEDDING, reason) for row in sorted(found)}
        )

    def measure(
        self, gen: FeatureSet, real: FeatureSet | FittedSet | None, settings: SetSettings, memo: Memo
    ) -> SetValue:
        if not isinstance(real, FeatureSet):
            raise TypeError("attributes compare with the pictures of a real set")
        sides = [self._scored(name, side, memo) for name, side in (("real", real), ("gen", gen))]
        return self.compare(sides[0], sides[1], settings, memo)

    def compare(self, real: ScoredSet, gen: ScoredSet, settings: SetSettings, memo: Memo) -> SetValue:
        """The value of two scored sets."""
        raise NotImplementedError

    def _scored(self, name: str, side: FeatureSet, memo: Memo) -> ScoredSet:
        """A set's scores and maps, made once for all metrics of one list and one way to score."""
        key = (name, *self._scoring())
        if key not in memo:
            memo[key] = score_set(side, self.texts(), RaOptions.of(self.options), int(self._option("regions", 7)))
        found: ScoredSet = memo[key]
        return found

    def _scoring(self) -> tuple[Any, ...]:
        return ("attributes", tuple(self.texts()), RaOptions.of(self.options), self._option("regions", 7))

    def _option(self, name: str, default: Any) -> Any:
        return self.options.get(name, default)


def score_set(side: FeatureSet, texts: Sequence[str], options: RaOptions, regions: int) -> ScoredSet:
    """Scores a set; features stream, scores and sums of maps stay.

    Args:
        side: the set.
        texts: the positive prompts of all attributes, then the negative ones.
        options: how RA-CLIPScores are made.
        regions: regions along each side of a map.
    """
    if side.texts is None or side.tables is None:
        raise TypeError("attributes need features of texts, and all columns of those of pictures")
    table = side.texts(texts)
    positive, negative = np.split(np.asarray(table.columns["embedding"], dtype=np.float32), 2)
    scale = float(table.constants.get("logit_scale", 100.0))
    made: ScoredSet | None = None
    for numbers, keys, columns in side.tables():
        found = score_pictures(columns, positive, negative, options, scale)
        pooled = with_squares(found.maps, found.grid, regions)
        if made is None:
            count = found.scores.shape[1]
            shapes = [(count, rows.shape[2]) for rows in (found.maps, pooled)]
            made = ScoredSet(np.zeros((side.n, count)), MapUnits(shapes[0]), MapUnits(shapes[1]), found.grid)
        made.scores[numbers] = found.scores
        made.maps.add(list(keys), found.maps)
        made.regions.add(list(keys), pooled)
    if made is None:
        raise NoValue(Status.NOT_ENOUGH_EVIDENCE, "a set has no pictures")
    return made


class ScoreSetMetric(AttributeSetMetric):
    """A statistic of scores."""

    statistic: ClassVar[str]

    @property
    def unit(self) -> str:
        return "1000 × nats" if self.options["density"] == "kde_legacy" else self.info.unit

    def compare(self, real: ScoredSet, gen: ScoredSet, settings: SetSettings, memo: Memo) -> SetValue:
        chosen = self.chosen(real, gen)
        found = self._judged(real, gen, chosen, settings, memo)
        names = [self.attributes[at].name for at in chosen]
        if self.statistic != "sad":
            names = [f"{names[i]} + {names[j]}" for i, j in zip(*pairs(len(chosen)))]
        values = found[self.statistic].value
        mean = found[f"{self.statistic}_mean"]
        note = [tell_null(mean, settings.level), tell_corrected(mean), name_largest(names, values)]
        what = "attribute" if self.statistic == "sad" else "pair"
        return mean_value(mean, len(values), [*note, *self.remarks(real, gen)], what)

    def chosen(self, real: ScoredSet, gen: ScoredSet) -> list[int]:
        """The attributes that take part."""
        return list(range(len(self.attributes)))

    def remarks(self, real: ScoredSet, gen: ScoredSet) -> list[str]:
        """What else the note says."""
        return []

    def _judged(
        self, real: ScoredSet, gen: ScoredSet, chosen: Sequence[int], settings: SetSettings, memo: Memo
    ) -> dict[str, Judged]:
        how = ScoreSettings(
            direction=cast("Direction", self.options["direction"]), density=cast("Density", self.options["density"]),
            seed=settings.seed, level=settings.level, companions=False,
            # Pairs by kernels take their time, and SaD needs none.
            pairs=self.options["density"] == "gaussian" or self.statistic != "sad",
        )  # fmt: skip
        key = ("judged scores", *self._scoring(), how, tuple(chosen))
        if key not in memo:
            memo[key] = judge_scores(real.scores[:, chosen], gen.scores[:, chosen], how)
        found: dict[str, Judged] = memo[key]
        return found


class MapSetMetric(AttributeSetMetric):
    """A statistic of maps."""

    def map_settings(self, real: ScoredSet, settings: SetSettings) -> MapSettings:
        """How maps are compared."""
        return MapSettings(
            real.grid, cast("Background", self._option("background", "min")),
            float(self._option("mass_floor", MASS_FLOOR)), seed=settings.seed, level=settings.level,
        )  # fmt: skip

    def judged_maps(self, real: ScoredSet, gen: ScoredSet, settings: SetSettings, memo: Memo) -> list[JudgedMap]:
        """The comparison of maps, made once for the metrics of one list."""
        how = self.map_settings(real, settings)
        key = ("judged maps", *self._scoring(), how)
        if key not in memo:
            memo[key] = judge_maps(real.maps, gen.maps, how)
        found: list[JudgedMap] = memo[key]
        return found


def mean_value(mean: Judged, count: int, notes: Sequence[str], what: str = "attribute") -> SetValue:
    """The mean of so many attributes (or pairs) as a set's value, with what is told of it."""
    low, high = (None if end is None else float(end) for end in (mean.low, mean.high))
    return SetValue(
        float(mean.value), low, high, unit="picture", ci_method=None if low is None else "bootstrap-percentile",
        note="; ".join(text for text in (f"mean over {count} {what}{'s' if count > 1 else ''}", *notes) if text),
    )  # fmt: skip


def tell_null(mean: Judged, level: float) -> str:
    """What is known of the value when nothing differs."""
    if mean.null_level is None or mean.p is None or mean.null_mean is None:
        return "no null level"
    text = f"null mean {float(mean.null_mean):.4g}, null level {float(mean.null_level):.4g} ({level:.0%})"
    return f"{text}, p {float(mean.p):.3g}"


def tell_corrected(mean: Judged) -> str:
    """The corrected value, where it has an interval."""
    if mean.corrected is None or mean.corrected_low is None or mean.corrected_high is None:
        return ""
    value, low, high = (float(part) for part in (mean.corrected, mean.corrected_low, mean.corrected_high))
    return f"corrected {value:.4g} [{low:.4g}, {high:.4g}]"


def name_largest(names: Sequence[str], values: np.ndarray) -> str:
    if len(names) < 2:
        return ""
    order = np.argsort(-np.abs(values), kind="stable")[:SHOWN]
    return "largest: " + ", ".join(f"{names[at]} {float(values[at]):.4g}" for at in order)
