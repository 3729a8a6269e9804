"""How many prompts and seeds a comparison needs, from the scatter that runs at hand show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from beholder._errors import OptionError, UnknownNameError
from beholder.comparing.compare import compare, make_cells, seeds_named
from beholder.comparing.pairing import make_key
from beholder.comparing.sides import RunLike, Side, make_sides, opened
from beholder.stats.compare import Cells, compare_cells
from beholder.stats.power import Need, detectable_difference, needed
from beholder.stats.variance import VarianceSplit

SEEDS = (1, 2, 4, 8)


@dataclass(frozen=True)
class PlanEntry:
    """What one metric needs.

    Args:
        label: the metric's label.
        pair: the two sides whose paired differences the plan rests on, or the one run.
        basis: "paired" where the differences were seen; "unpaired" (the most that can be needed) and "prompts cancel"
            (the least) where only one side was.
        variance: of one paired difference.
        needs: prompts for each number of seeds.
        detectable: smallest true difference that the prompts and seeds at hand can show.
        n_prompts: prompts at hand.
        note: a caveat, or None.
    """

    label: str
    pair: str
    basis: str
    variance: VarianceSplit
    needs: tuple[Need, ...]
    detectable: float | None
    n_prompts: int
    note: str | None = None


@dataclass(frozen=True)
class PlanResult:
    """Needs of all metrics."""

    entries: tuple[PlanEntry, ...]
    detect: float
    power: float
    level: float


def plan(
    *runs: RunLike,
    detect: float,
    metrics: Sequence[str] = (),
    seeds: Sequence[int] = SEEDS,
    pair_on: Sequence[str] = (),
    allow_different: bool = False,
    power: float = 0.8,
    level: float = 0.95,
) -> PlanResult:
    """How many prompts and seeds find a true difference; the call behind `beholder plan`.

    With two runs (or a run of two and more methods) the scatter of their paired differences is known. With one, it lies
    between twice the seeds' variance (prompts are as hard for one method as for the other) and twice the whole variance
    (as if they had nothing in common); both are given.

    Args:
        runs: run folders or runs.
        detect: true difference to find, above 0, in the metric's unit.
        metrics: labels; all when empty.
        seeds: numbers of seeds a prompt.
        pair_on: columns to pair on.
        allow_different: accept metrics whose identities differ.
        power: wanted chance to find it.
        level: confidence level.

    Raises:
        OptionError: a difference, power or level out of range, seeds below 1.
    """
    if not seeds or min(seeds) < 1:
        raise OptionError("numbers of seeds must be 1 or more", got=str(list(seeds)))
    needed(VarianceSplit(1.0, None, None, 1.0), detect, power=power, level=level)
    sides = make_sides(opened(runs), extra=pair_on, least=1)
    settings = _Settings(detect, tuple(seeds), power, level)
    if len(sides) == 1:
        entries = _alone(sides[0], metrics, pair_on, settings)
    else:
        found = compare(
            *runs, metrics=metrics, pair_on=pair_on, allow_different=allow_different, resamples=0, draws=1, level=level,
            power=power,
        )  # fmt: skip
        entries = [
            settings.entry(
                row.label, f"{row.b} − {row.a}", "paired", row.difference.variance, row.difference.n_prompts,
                row.difference.detectable,
            )
            for row in found.rows
        ]  # fmt: skip
    return PlanResult(tuple(entries), detect, power, level)


@dataclass(frozen=True)
class _Settings:
    detect: float
    seeds: tuple[int, ...]
    power: float
    level: float

    def entry(
        self, label: str, pair: str, basis: str, split: VarianceSplit, n_prompts: int, detectable: float | None
    ) -> PlanEntry:
        """One entry, with a note where the scatter cannot be told."""
        needs = tuple(needed(split, self.detect, seeds=self.seeds, power=self.power, level=self.level))
        notes = []
        if split.prompt is None:
            notes.append("no plan: it needs two prompts")
        elif split.seed is None:
            notes.append("one seed a prompt: more seeds may help more than is told")
        if split.concept:
            notes.append(
                f"prompts of one concept are alike, and are counted at {split.prompts_per_concept:.3g} a concept, as "
                "now: more concepts of fewer prompts need fewer prompts"
            )
        return PlanEntry(label, pair, basis, split, needs, detectable, n_prompts, "; ".join(notes) or None)


def _alone(side: Side, asked: Sequence[str], pair_on: Sequence[str], settings: _Settings) -> list[PlanEntry]:
    """Bounds from one side: the values stand for differences from a method that scores 0."""
    for label in asked:
        if label not in side.labels:
            raise UnknownNameError("metric", label, side.labels)
    key = make_key([side], pair_on=pair_on)
    entries = []
    for label in asked or side.labels:
        cells = make_cells((side, side), (key.codes[0], key.codes[0]), key, label, None)
        alone = Cells(
            np.zeros(len(cells.a)), cells.b, cells.prompts, cells.clusters,
            None if cells.noise is None else cells.noise / 2, None if cells.judge is None else cells.judge / 2,
        )  # fmt: skip
        found = seeds_named(compare_cells(alone, resamples=0, draws=1), key)
        split, n = found.variance, found.n_prompts
        whole = _twice(split)
        least = replace(whole, prompt=0.0, concept=None, prompts_per_concept=1.0)
        entries.append(settings.entry(label, side.name, "unpaired", whole, n, _detectable(whole, n, settings)))
        if split.seed is not None and split.prompt is not None:
            entries.append(
                settings.entry(label, side.name, "prompts cancel", least, n, _detectable(least, n, settings))
            )
    return entries


def _twice(split: VarianceSplit) -> VarianceSplit:
    """The variance of a difference of two sides that are alike and have nothing in common."""
    parts = (split.concept, split.prompt, split.seed, split.judge)
    concept, prompt, seed, judge = (None if part is None else 2 * part for part in parts)
    return replace(split, concept=concept, prompt=prompt, seed=seed, judge=judge)


def _detectable(split: VarianceSplit, n_prompts: int, settings: _Settings) -> float | None:
    variance = split.of_mean(max(n_prompts, 1), max(split.seeds_per_prompt, 1.0))
    if variance is None:
        return None
    units = n_prompts / split.prompts_per_concept
    return detectable_difference(variance**0.5, units, power=settings.power, level=settings.level)
