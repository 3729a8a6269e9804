"""Runs the lab: draws samples, changes them, scores them, and reads off what each metric reacts to."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Union

import numpy as np

from beholder._errors import NoValue, OptionError, UserError
from beholder.lab.analysis import Scored, Units, react
from beholder.lab.pictures import PICTURES, Distortion, Scene, as_picture
from beholder.lab.records import LabReport, Reaction
from beholder.lab.texts import TEXTS, Rewording
from beholder.manifest.schema import Sample, SampleSource, is_written_mask
from beholder.media.base import DecodeOptions
from beholder.media.mask import decode_mask
from beholder.metrics.text_image import is_blank
from beholder.runs.config import RunConfig
from beholder.runs.plan import AskedMetric, Plan, make_plan, refuse_sets
from beholder.runs.quick import QuickScorer
from beholder.stats.bca import few_units

Change = Union[Distortion, Rewording]
_TEXT_COLUMNS = ("prompt", "eval_prompt")


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
    refuse_sets(plan, "the lab", "Compare sets with beholder compare")
    samples = _draw(source, n, seed)
    scenes, notices = _scenes(samples, config.decode, seed)
    samples = [sample for sample in samples if sample.id in scenes]
    if len(samples) < 2:
        raise UserError("the lab needs at least two still pictures that can be read", got=str(len(samples)))
    scorer = QuickScorer(plan, config, keep_features=True)
    try:
        before = _values(scorer, plan, samples)
        lab = _Lab(scorer, plan, samples, scenes, before, _units(samples, seed, config.level), config.decode)
        reactions = [reaction for change in chosen for reaction in lab.tried(change)]
    finally:
        scorer.release()
    order = [planned.label for planned in plan.metrics]
    reactions.sort(key=lambda item: order.index(item.metric))
    identities = {planned.label: planned.metric.identity for planned in plan.metrics}
    # Where nothing could be tried there is no interval that a caveat could be about.
    tried = any(reaction.verdict != "not tried" for reaction in reactions)
    few = few_units(len(np.unique(lab.units.codes)), lab.units.name) if tried else None
    notices += [f"{few[:1].upper()}{few[1:]}"] if few else []
    return LabReport(
        identities, len(samples), tuple(reactions), tuple(notices), unit=lab.units.name, level=config.level
    )


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


def _units(samples: Sequence[Sample], seed: int, level: float) -> Units:
    """Concepts where there are two and more, else prompts; a sample without one is a unit of its own."""
    concepts = {sample.column("concept") for sample in samples} - {None}
    names = ["concept"] if len(concepts) > 1 else [n for n in ("prompt_id", "prompt") if samples[0].column(n)][:1]
    known: dict[Any, int] = {}
    keys = [sample.column(names[0]) if names else None for sample in samples]
    codes = [known.setdefault(at if key is None else str(key), len(known)) for at, key in enumerate(keys)]
    name = {"concept": "concept", "prompt_id": "prompt", "prompt": "prompt"}[names[0]] if names else "sample"
    return Units(np.array(codes, dtype=np.intp), seed=seed, level=level, name=name)


def _parts(masks: Any) -> dict[Any, Any]:
    """A sample's masks by concept; None is the name of a mask without one."""
    named = isinstance(masks, Mapping) and not is_written_mask(masks)
    found = masks if named else {None: masks}
    return {name: mask for name, mask in found.items() if mask is not None}


def _mask(sample: Sample, shape: tuple[int, int], decode: DecodeOptions) -> np.ndarray | None:
    """The union of a sample's masks; None where it has none, or none that fits."""
    parts = _parts(sample.masks).values()
    union: np.ndarray | None = None
    for part in parts:
        try:
            mask = decode_mask(part, decode)
        except NoValue:
            return None
        if mask.shape != shape:
            return None
        union = mask if union is None else union | mask
    return union


@dataclass(frozen=True)
class _Lab:
    """Tries one change after another on the same samples."""

    scorer: QuickScorer
    plan: Plan
    samples: Sequence[Sample]
    scenes: Mapping[str, Scene]
    before: Mapping[str, Scored]
    units: Units
    decode: DecodeOptions

    def tried(self, change: Change) -> Iterator[Reaction]:
        """The reactions of all metrics to one change."""
        shape = (len(self.samples), len(change.levels))
        after = {label: Scored(np.full(shape, np.nan), np.full(shape, "", dtype=object)) for label in self.before}
        for at, degree in enumerate(change.levels.values()):
            changed = {row: new for row, new in enumerate(self._changed(change, degree)) if new is not None}
            if not changed:
                continue
            for label, found in _values(self.scorer, self.plan, list(changed.values())).items():
                after[label].values[list(changed), at] = found.values
                after[label].statuses[list(changed), at] = found.statuses
        for planned in self.plan.metrics:
            label = planned.label
            yield react(
                label, change.name, change.says, list(change.levels), self.before[label], after[label],
                higher_is_better=planned.metric.info.higher_is_better, units=self.units,
            )  # fmt: skip

    def _changed(self, change: Change, degree: float) -> Iterator[Sample | None]:
        for at, sample in enumerate(self.samples):
            scene = self.scenes[sample.id]
            if isinstance(change, Distortion):
                pixels = change.apply(scene, degree)
                if pixels is None:
                    yield None
                    continue
                masks = self._placed(change, sample.masks, scene, degree)
                yield replace(sample, output=as_picture(pixels), masks=masks)
                continue
            yield _reworded(change, sample, self._others(at), degree, scene.seed)

    def _placed(self, change: Distortion, masks: Any, scene: Scene, degree: float) -> Any:
        """The masks where the changed picture has their subjects; None where one cannot be read."""
        if change.place is None or masks is None:
            return masks
        placed: dict[Any, Any] = {}
        for name, mask in _parts(masks).items():
            try:
                found = decode_mask(mask, self.decode)
            except NoValue:
                return None
            if found.shape != scene.pixels.shape[:2]:
                return None
            placed[name] = as_picture(change.place(found, scene, degree))
        return placed.get(None) if None in placed else placed or None

    def _others(self, at: int) -> Iterator[Sample]:
        """The other samples, the next one first."""
        for step in range(1, len(self.samples)):
            yield self.samples[(at + step) % len(self.samples)]


def _reworded(change: Rewording, sample: Sample, others: Iterator[Sample], degree: float, seed: int) -> Sample | None:
    """A sample with every text of it changed; None where none of them has anything to change."""
    new: dict[str, Any] = {}
    # Samples of one prompt have no foreign text for one another.
    other = next((item for item in others if item.column("prompt") != sample.column("prompt")), sample)
    for name in _TEXT_COLUMNS:
        text = sample.column(name)
        if isinstance(text, str) and not is_blank(text):
            foreign = other.column(name)
            new[name] = change.apply(text, foreign if isinstance(foreign, str) else None, degree, seed)
    if not new or any(text is None for text in new.values()):
        return None
    return replace(sample, **new)


def _values(scorer: QuickScorer, plan: Plan, samples: Sequence[Sample]) -> dict[str, Scored]:
    """Values and statuses by label."""
    table, _ = scorer.score(samples)
    found = {}
    for planned in plan.metrics:
        values = [np.nan if value is None else value for value in table.column(planned.label).to_pylist()]
        statuses = np.array(table.column(f"{planned.label}_status").to_pylist(), dtype=object)
        found[planned.label] = Scored(np.array(values, dtype=np.float64), statuses)
    return found
