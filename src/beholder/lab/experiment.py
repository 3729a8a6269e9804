"""Runs the lab: draws samples, changes them, scores them, and reads off what each metric reacts to."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Union

import numpy as np

from beholder._errors import NoValue, OptionError, UserError
from beholder.lab.analysis import react
from beholder.lab.pictures import PICTURES, Distortion, Scene, as_picture
from beholder.lab.records import LabReport, Reaction
from beholder.lab.texts import TEXTS, Rewording
from beholder.manifest.schema import Sample, SampleSource
from beholder.media.base import DecodeOptions
from beholder.media.mask import decode_mask
from beholder.metrics.text_image import is_blank
from beholder.runs.config import RunConfig
from beholder.runs.plan import AskedMetric, Plan, make_plan
from beholder.runs.quick import QuickScorer

Change = Union[Distortion, Rewording]
_TEXT_COLUMNS = ("prompt", "eval_prompt")


def change_names() -> list[str]:
    """Names of all changes."""
    return [change.name for change in (*PICTURES, *TEXTS)]


def experiment(
    source: SampleSource, config: RunConfig, metrics: Sequence[AskedMetric], *, n: int = 50,
    changes: Sequence[str] = (), seed: int = 0,
) -> LabReport:  # fmt: skip
    """What metrics react to, on a random part of a data set.

    Args:
        source: the samples; still pictures are used, videos are left out and counted.
        config: settings (models, device, decoding).
        metrics: the metrics.
        n: samples to draw.
        changes: names of the changes to try; all when empty.
        seed: seed of the drawing, of noise and of the bootstrap.

    Raises:
        OptionError: an unknown change, or n below 2.
        UserError: fewer than two usable samples.
    """
    chosen = _chosen(changes)
    if n < 2:
        raise OptionError("the lab needs at least two samples", got=str(n))
    plan = make_plan(config, metrics=list(metrics))
    samples = _draw(source, n, seed)
    scenes, notices = _scenes(samples, config.decode, seed)
    samples = [sample for sample in samples if sample.id in scenes]
    if len(samples) < 2:
        raise UserError("the lab needs at least two still pictures that can be read", got=str(len(samples)))
    scorer = QuickScorer(plan, config, keep_features=True)
    try:
        before = _values(scorer, plan, samples)
        reactions = [
            reaction
            for change in chosen
            for reaction in _try(change, scorer, plan, samples, scenes, before, seed=seed, level=config.level)
        ]
    finally:
        scorer.release()
    order = [planned.label for planned in plan.metrics]
    reactions.sort(key=lambda item: order.index(item.metric))
    identities = {planned.label: planned.metric.identity for planned in plan.metrics}
    return LabReport(identities, len(samples), tuple(reactions), tuple(notices))


def _chosen(names: Sequence[str]) -> list[Change]:
    known: dict[str, Change] = {change.name: change for change in (*PICTURES, *TEXTS)}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise OptionError(f"a change must be one of: {', '.join(known)}", got=", ".join(map(repr, unknown)))
    return [known[name] for name in names] or list(known.values())


def _draw(source: SampleSource, n: int, seed: int) -> list[Sample]:
    """Up to n samples, each as likely as any other, read once (reservoir)."""
    rng = np.random.default_rng(seed)
    kept: list[Sample] = []
    for at, sample in enumerate(source):
        if len(kept) < n:
            kept.append(sample)
        elif (place := int(rng.integers(0, at + 1))) < n:
            kept[place] = sample
    return kept


def _scenes(samples: Sequence[Sample], decode: DecodeOptions, seed: int) -> tuple[dict[str, Scene], list[str]]:
    """The pictures by id; what cannot be read as a picture is left out and counted."""
    scenes: dict[str, Scene] = {}
    lost = 0
    for sample in samples:
        try:
            if sample.output is None:
                raise NoValue("missing", "no output")
            pixels = sample.output.decode(decode).pixels
        except NoValue:
            lost += 1
            continue
        key = zlib.crc32(f"{seed} {sample.id}".encode())
        scenes[sample.id] = Scene(pixels, _mask(sample, pixels.shape[:2], decode), key)
    said = (
        [f"{lost} of {len(samples)} drawn samples are no pictures that can be read; they were left out"] if lost else []
    )
    return scenes, said


def _mask(sample: Sample, shape: tuple[int, int], decode: DecodeOptions) -> np.ndarray | None:
    """The union of a sample's masks; None where it has none, or none that fits."""
    found = sample.masks
    parts = list(found.values()) if isinstance(found, Mapping) and "counts" not in found else [found]
    union: np.ndarray | None = None
    for part in parts:
        if part is None:
            continue
        try:
            mask = decode_mask(part, decode)
        except NoValue:
            return None
        if mask.shape != shape:
            return None
        union = mask if union is None else union | mask
    return union


def _try(
    change: Change, scorer: QuickScorer, plan: Plan, samples: Sequence[Sample], scenes: Mapping[str, Scene],
    before: Mapping[str, np.ndarray], *, seed: int, level: float,
) -> Iterator[Reaction]:  # fmt: skip
    """The reactions of all metrics to one change."""
    after = {label: np.full((len(samples), len(change.levels)), np.nan) for label in before}
    for at, degree in enumerate(change.levels.values()):
        changed = {row: new for row, new in enumerate(_changed(change, samples, scenes, degree)) if new is not None}
        if not changed:
            continue
        found = _values(scorer, plan, list(changed.values()))
        for label, values in found.items():
            after[label][list(changed), at] = values
    for planned in plan.metrics:
        label = planned.label
        yield react(
            label, change.name, change.says, list(change.levels), before[label], after[label],
            higher_is_better=planned.metric.info.higher_is_better, seed=seed, level=level,
        )  # fmt: skip


def _changed(
    change: Change, samples: Sequence[Sample], scenes: Mapping[str, Scene], degree: float
) -> Iterator[Sample | None]:
    for at, sample in enumerate(samples):
        scene = scenes[sample.id]
        if isinstance(change, Distortion):
            pixels = change.apply(scene, degree)
            # A picture of another size or place no longer fits its masks.
            yield None if pixels is None else replace(sample, output=as_picture(pixels), masks=None)
            continue
        other = samples[(at + 1) % len(samples)]
        yield _reworded(change, sample, other, degree, scene.seed)


def _reworded(change: Rewording, sample: Sample, other: Sample, degree: float, seed: int) -> Sample | None:
    """A sample with every text of it changed; None where none of them has anything to change."""
    new: dict[str, Any] = {}
    for name in _TEXT_COLUMNS:
        text = sample.column(name)
        if isinstance(text, str) and not is_blank(text):
            foreign = other.column(name)
            new[name] = change.apply(text, foreign if isinstance(foreign, str) else None, degree, seed)
    if not new or any(text is None for text in new.values()):
        return None
    return replace(sample, **new)


def _values(scorer: QuickScorer, plan: Plan, samples: Sequence[Sample]) -> dict[str, np.ndarray]:
    """Values by label, NaN where a sample has none."""
    table, _ = scorer.score(samples)
    return {
        planned.label: np.array(
            [np.nan if value is None else value for value in table.column(planned.label).to_pylist()], dtype=np.float64
        )
        for planned in plan.metrics
    }
