"""How varied the outputs are: `vendi` and `diversity`, of each prompt's outputs or of the whole set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from beholder._errors import NoValue, OptionError
from beholder.functional.diversity import mean_pair_distance, vendi_score
from beholder.functional.set_draws import LEAST_ROWS, half_interval
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
from beholder.records import MetricInfo, OptionInfo, Status

DRAWS = 40


class DiversityMetric(SetMetric):
    """A value of one set: over all its pictures, or the mean over prompts of the value of a prompt's pictures."""

    needs_real = False
    needs_direction = True

    def of_rows(self, rows: np.ndarray) -> float:
        """The value of some pictures."""
        raise NotImplementedError

    def measure(
        self, gen: FeatureSet, real: FeatureSet | FittedSet | None, settings: SetSettings, memo: Memo
    ) -> SetValue:
        rows = gen.rows()
        if self.options["over"] == "prompt":
            return self._over_prompts(rows, gen.units, settings)
        value = self.of_rows(rows)
        low, high = self.info.range
        draws = _halves(self.of_rows, rows, settings) if len(rows) >= LEAST_ROWS else np.zeros(0)
        found = half_interval(value, draws, level=settings.level, low=low, high=high)
        if found is None:
            return SetValue(value, n_units=gen.n)
        return SetValue(value, found.low, found.high, found.sd, n_units=gen.n, ci_method=HALVES)

    def _over_prompts(self, rows: np.ndarray, units: np.ndarray | None, settings: SetSettings) -> SetValue:
        """The mean over prompts with two outputs and more; its interval by the spread of the prompts' values."""
        codes = np.zeros(len(rows), dtype=np.int64) if units is None else units
        order = np.argsort(codes, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
        values = np.sort([self.of_rows(rows[own]) for own in groups if len(own) >= 2])
        if not len(values):
            raise NoValue(
                Status.NOT_ENOUGH_EVIDENCE, "no prompt with two outputs; over=set takes all outputs at once"
            )  # fmt: skip
        alone = len(groups) - len(values)
        note = f"{alone} prompts with one output are left out" if alone else None
        value, count = float(values.mean()), len(values)
        if count < 2:
            return SetValue(value, unit="prompt", n_units=count, note=note)
        rng = settings.rng("prompts")
        means = values[rng.integers(0, count, (1000, count))].mean(axis=1)
        low, high = np.quantile(means, [(1 - settings.level) / 2, (1 + settings.level) / 2])
        return SetValue(
            value, float(low), float(high), float(values.std(ddof=1) / count**0.5), unit="prompt", n_units=count,
            ci_method="bootstrap-percentile", note=note,
        )  # fmt: skip


def _halves(of_rows: Callable[[np.ndarray], float], rows: np.ndarray, settings: SetSettings) -> np.ndarray:
    rng = settings.rng("diversity")
    picks = [np.sort(rng.choice(len(rows), len(rows) // 2, replace=False)) for _ in range(DRAWS)]
    return np.array([of_rows(rows[pick]) for pick in picks])


_OVER = OptionInfo(
    "over", "prompt", "prompt: the mean over prompts of the value of a prompt's outputs (its seeds); set: all outputs "
    "at once.", choices=("prompt", "set"),
)  # fmt: skip
_CARD: dict[str, Any] = {
    "family": "sets", "kind": "set", "inputs": ("output", "prompt"), "higher_is_better": None, "version": "1",
    "capability": "ImageTextEncoder", "default_model": DINO,
    "licence_note": "The encoder's licence stands in its card.",
    "degenerate": "Fewer than 2 pictures are an error; no prompt with two outputs is no value (`not_enough_evidence`); "
    "an embedding without direction leaves the set.",
}  # fmt: skip
_TASTE = "Varied is not good: noise is varied."


class Vendi(DiversityMetric):
    """`vendi`: see its card."""

    info = MetricInfo(
        name="vendi",
        summary="Vendi score: the effective number of different pictures among the outputs.",
        formula="exp(−Σ λ log λ), λ the eigenvalues of the matrix of cosines over n; of another `order` q, "
        "(Σ λ^q)^(1 / (1 − q))",
        unit="pictures",
        range=(1.0, None),
        paper="Friedman and Dieng, The Vendi Score, arXiv 2210.02410.",
        reference_code="https://github.com/vertaix/Vendi-Score",
        options=(
            model_option(DINO),
            OptionInfo("over", "set", _OVER.doc, choices=("prompt", "set")),
            OptionInfo("order", 1.0, "Order q above 0; small orders count rare pictures more.", kind="float"),
            FRAMES,
        ),
        notes=(_TASTE, "Grows with the number of pictures: compare equal numbers only.",
               "A half of a set has a lower score: the interval tells the spread, not that."),
        **_CARD,
    )  # fmt: skip

    @property
    def least(self) -> int:
        if not float(self.options["order"]) > 0:  # type: ignore[arg-type]
            raise OptionError("the order of the Vendi score must be above 0", got=str(self.options["order"]))
        return 2

    def of_rows(self, rows: np.ndarray) -> float:
        return vendi_score(rows, order=float(self.options["order"]))  # type: ignore[arg-type]


class Diversity(DiversityMetric):
    """`diversity`: see its card."""

    info = MetricInfo(
        name="diversity",
        summary="How much the outputs of one prompt differ: the mean distance of their embeddings.",
        formula="mean over prompts of 1 − the mean cosine over all pairs of different outputs of the prompt",
        unit="1 − cosine",
        range=(0.0, 2.0),
        paper=None,
        reference_code=None,
        options=(model_option(DINO), _OVER, FRAMES),
        notes=(_TASTE,),
        **_CARD,
    )

    def of_rows(self, rows: np.ndarray) -> float:
        return mean_pair_distance(rows)
