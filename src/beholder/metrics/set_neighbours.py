"""How two sets overlap, by nearest neighbours: `precision`, `recall`, `density`, `coverage`."""

from __future__ import annotations

from typing import Any

import numpy as np

from beholder._errors import OptionError
from beholder.functional.neighbours import Neighbours, neighbour_metrics
from beholder.functional.set_draws import LEAST_ROWS, draw_halves, half_interval
from beholder.metrics.set_distances import HALVES
from beholder.metrics.sets import (
    DINO,
    FRAMES,
    FeatureSet,
    FittedSet,
    Memo,
    SetMetric,
    SetSettings,
    SetValue,
    model_option,
)
from beholder.records import MetricInfo, OptionInfo

DRAWS = 20


class NeighbourMetric(SetMetric):
    """One of the four values; those that are asked for together on one encoder share their distances."""

    @property
    def least(self) -> int:
        k = int(self.options["k"])  # type: ignore[arg-type]
        if k < 1:
            raise OptionError("k must be at least 1", got=str(k))
        return k + 1

    def measure(
        self, gen: FeatureSet, real: FeatureSet | FittedSet | None, settings: SetSettings, memo: Memo
    ) -> SetValue:
        if not isinstance(real, FeatureSet):
            raise TypeError("neighbours need the features of a real set")
        k = int(self.options["k"])  # type: ignore[arg-type]
        key = ("neighbours", k)
        if key not in memo:
            memo[key] = _all_values(gen.rows(), real.rows(), k, settings)
        whole, halves = memo[key]
        value = float(getattr(whole, self.info.name))
        draws = np.array([getattr(half, self.info.name) for half in halves])
        low, high = self.info.range
        found = half_interval(value, draws, level=settings.level, low=low, high=high)
        if found is None:
            return SetValue(value, n_units=gen.n)
        return SetValue(value, found.low, found.high, found.sd, n_units=gen.n, ci_method=HALVES)


def _all_values(
    gen: np.ndarray, real: np.ndarray, k: int, settings: SetSettings
) -> tuple[Neighbours, list[Neighbours]]:
    """The values of the sets, and of pairs of halves."""
    whole = neighbour_metrics(real, gen, k=k)
    halves: list[Neighbours] = []
    if min(len(gen), len(real)) < max(LEAST_ROWS, 2 * (k + 1)):
        return whole, halves

    def one(first: np.ndarray, second: np.ndarray) -> float:
        halves.append(neighbour_metrics(real[first], gen[second], k=k))
        return 0.0

    draw_halves(one, len(real), len(gen), draws=DRAWS, rng=settings.rng("neighbours"))
    return whole, halves


def _info(name: str, *, summary: str, formula: str, high: float | None, paper: str, code: str) -> MetricInfo:
    return MetricInfo(
        name=name,
        family="sets",
        kind="set",
        summary=summary,
        inputs=("output",),
        formula=formula + "; a ball of a picture reaches to its k-th nearest neighbour of its own set",
        unit="balls" if high is None else "share",
        range=(0.0, high),
        higher_is_better=True,
        degenerate="Sets of k pictures or fewer are an error. Equal sets have precision, recall and coverage 1.",
        paper=paper,
        reference_code=code,
        version="1",
        capability="ImageTextEncoder",
        default_model=DINO,
        options=(model_option(DINO), OptionInfo("k", 5, "Which neighbour a ball reaches to.", kind="int"), FRAMES),
        licence_note="The encoder's licence stands in its card.",
        notes=(
            "All features are held in memory, distances in blocks.",
            "A half of a set has wider balls than the whole: the interval tells the spread, not that.",
        ),
    )


_KYNKAANNIEMI: dict[str, Any] = {
    "paper": "Kynkäänniemi et al., Improved Precision and Recall Metric, arXiv 1904.06991.",
    "code": "https://github.com/kynkaat/improved-precision-and-recall-metric",
}
_NAEEM: dict[str, Any] = {
    "paper": "Naeem et al., Reliable Fidelity and Diversity Metrics, arXiv 2002.09797.",
    "code": "https://github.com/clovaai/generative-evaluation-prdc",
}


class Precision(NeighbourMetric):
    """`precision`: see its card."""

    info = _info(
        "precision",
        summary="Share of the outputs that lie among the real pictures.",
        formula="share of outputs inside the ball of a real picture",
        high=1.0,
        **_KYNKAANNIEMI,
    )


class Recall(NeighbourMetric):
    """`recall`: see its card."""

    info = _info(
        "recall",
        summary="Share of the real pictures that lie among the outputs.",
        formula="share of real pictures inside the ball of an output",
        high=1.0,
        **_KYNKAANNIEMI,
    )


class Density(NeighbourMetric):
    """`density`: see its card."""

    info = _info(
        "density",
        summary="How densely real pictures lie around the outputs; less moved by single real pictures than precision.",
        formula="mean over outputs of the number of balls of real pictures that hold it, over k",
        high=None,
        **_NAEEM,
    )


class Coverage(NeighbourMetric):
    """`coverage`: see its card."""

    info = _info(
        "coverage",
        summary="Share of the real pictures that have an output near them.",
        formula="share of real pictures whose ball holds an output",
        high=1.0,
        **_NAEEM,
    )
