"""From a set of images to attribute scores and sums of maps: features stream through, scores stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np

from beholder._errors import UserError
from beholder.attributing.settings import AttributeSettings
from beholder.functional.hcs import hcs, mean_embedding
from beholder.functional.maps import with_squares
from beholder.functional.similarity import cosine_matrix, normalise
from beholder.manifest.schema import Sample, SampleSource
from beholder.metrics.attribute_lists import Attribute
from beholder.metrics.attribute_scores import RaOptions, ScoredPictures, fill, pair_texts, score_pictures
from beholder.metrics.base import FeatureBatch, SampleMetric, ScoreColumns, Selection, Slot
from beholder.metrics.text_image import output_of
from beholder.records import MetricInfo, OptionInfo, Status
from beholder.runs.engine import LARGE_CHUNK, Scorer, chunks
from beholder.runs.progress import Progress
from beholder.stats.map_sets import MapUnits

_CARD: dict[str, Any] = {
    "family": "attributes", "kind": "set", "inputs": ("output",), "formula": "features", "unit": "none",
    "range": (None, None), "higher_is_better": None, "degenerate": "a status", "paper": None, "reference_code": None,
    "version": "1",
}  # fmt: skip


class _Features(SampleMetric):
    """Features without a score, so that a set goes through the same engine as everything else."""

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        return ScoreColumns(np.zeros(batch.n))


class ImageFeatures(_Features):
    """Patch tokens of every output, or plain embeddings where no patches are needed."""

    info: ClassVar[MetricInfo] = MetricInfo(
        name="attribute_images",
        summary="Features of images for sets.",
        options=(OptionInfo("model", "", "Encoder."), OptionInfo("kind", "patches", "Kind of feature.")),
        **_CARD,
    )

    @property
    def slots(self) -> tuple[Slot, ...]:
        return (Slot("image", str(self.options["model"]), str(self.options["kind"])),)

    def select(self, sample: Sample) -> Selection:
        return {"image": output_of(sample)}


class TextFeatures(_Features):
    """Embeddings of a list of prompts: one sample whose extra column `texts` holds them."""

    info: ClassVar[MetricInfo] = MetricInfo(
        name="attribute_texts", summary="Features of prompts.", options=(OptionInfo("model", "", "Encoder."),), **_CARD
    )

    @property
    def slots(self) -> tuple[Slot, ...]:
        return (Slot("texts", str(self.options["model"]), "text_embedding", many=True),)

    def select(self, sample: Sample) -> Selection:
        return {"texts": list(sample.extras["texts"])}


@dataclass(frozen=True)
class Prompts:
    """Embeddings of the prompts of C attributes, (C, d) each.

    Args:
        positive, negative: of RA-CLIPScore.
        plain: of HCS and CLIPScore.
        centre: (d,) the text centre of HCS.
        logit_scale: the model's.
        truncated: prompts that were cut.
    """

    positive: np.ndarray
    negative: np.ndarray
    plain: np.ndarray
    centre: np.ndarray
    logit_scale: float
    truncated: list[str]


def encode_prompts(scorer: Scorer, attributes: Sequence[Attribute], settings: AttributeSettings) -> Prompts:
    """Embeds all prompts once."""
    flat = [
        *pair_texts(attributes, settings.positive, settings.negative),
        *(fill(settings.prompt, item.positive) for item in attributes),
        *(item.positive for item in attributes),
    ]
    chunk, _ = scorer.prepare([Sample(id="prompts", output=None, extras={"texts": flat})])
    ((work, rows, batch),) = scorer.feature_batches(chunk)
    if not rows:
        raise UserError("the prompts of the attributes must be embedded", got=str(dict(work.verdicts)))
    columns = batch.many("texts").columns
    # Equal texts share a feature, but every place of the list has its own row.
    parts = np.split(np.asarray(columns["embedding"], dtype=np.float32), 4)
    cut = [text for text, flag in zip(flat, columns.get("truncated", np.zeros(len(flat), bool))) if flag]
    centre = mean_embedding(parts[2] if settings.text_center == "prompt" else parts[3])
    scale = float(batch.constants["texts"].get("logit_scale", 100.0))
    return Prompts(parts[0], parts[1], parts[2], centre, scale, cut)


@dataclass
class EncodedSet:
    """One set of images, scored.

    Args:
        name: the set's name.
        ids, outputs, classes: of all rows.
        statuses, reasons: of all rows.
        scores: (rows, C); rows without a value hold 0 and must not be read.
        maps: sums of refined patch scores, one holder for all attributes, or one an attribute (by class); empty
            where no patches were looked at.
        regions: as `maps`, sums of scores averaged over regions and of their squares.
        grid: rows and columns of patches, or None.
        keys: content keys of all rows; empty where a row has no features.
    """

    name: str
    ids: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    classes: list[str | None] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)
    reasons: list[str | None] = field(default_factory=list)
    scores: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    maps: list[MapUnits] = field(default_factory=list)
    regions: list[MapUnits] = field(default_factory=list)
    grid: tuple[int, int] | None = None
    keys: list[bytes] = field(default_factory=list)

    @property
    def ok(self) -> np.ndarray:
        """(rows,) bool: which rows have scores."""
        return np.asarray([status is Status.OK for status in self.statuses], dtype=bool)

    def rows_of(self, name: str | None) -> np.ndarray:
        """(rows,) bool: rows with scores, of one class where one is named."""
        if name is None:
            return self.ok
        same: np.ndarray = self.ok & np.asarray([found == name for found in self.classes], dtype=bool)
        return same

    def scored(self, name: str | None = None) -> np.ndarray:
        """(n, C) scores of `rows_of`, in the order of content keys: what is drawn does not depend on that of rows."""
        rows = sorted(np.flatnonzero(self.rows_of(name)).tolist(), key=lambda row: self.keys[row])
        return self.scores[rows]


Held = list[tuple[np.ndarray, np.ndarray]]
"""Row numbers and embeddings of a set, for scores that need the set's mean first."""


class SetEncoder:
    """Scores sets with one encoder, one list of attributes and one reference.

    Args:
        scorer: the engine's, planned with `ImageFeatures`.
        attributes: the list.
        settings: the settings.
        prompts: from `encode_prompts`.
        progress: who is told.
    """

    def __init__(
        self,
        scorer: Scorer,
        attributes: Sequence[Attribute],
        settings: AttributeSettings,
        prompts: Prompts,
        progress: Progress,
    ) -> None:
        self._scorer, self._attributes, self._settings = scorer, attributes, settings
        self._prompts, self._progress = prompts, progress
        self._centre: np.ndarray | None = None

    def encode(self, name: str, source: SampleSource) -> EncodedSet:
        """Scores a whole set. The first one is the reference: its mean is the image centre of HCS for all."""
        found = EncodedSet(name)
        held: list[tuple[np.ndarray, np.ndarray]] = []
        parts: list[np.ndarray] = []
        self._progress.stage(f"scoring {name}", source.count())
        for samples in chunks(source, LARGE_CHUNK):
            parts.append(self._add(found, samples, held))
            self._progress.advance(len(samples))
        if not found.ids:
            raise UserError(f"{name} must hold at least one image", got="none")
        found.scores = np.concatenate(parts)
        if self._settings.score == "hcs":
            self._finish_hcs(found, held)
        return found

    def _add(self, found: EncodedSet, samples: Sequence[Sample], held: Held) -> np.ndarray:
        chunk, _ = self._scorer.prepare(samples)
        ((work, rows, batch),) = self._scorer.feature_batches(chunk)
        scores = np.zeros((len(samples), len(self._attributes)))
        verdicts = dict(work.verdicts)
        keys = dict(zip(work.rows, work.slots["image"].keys))
        if rows:
            self._score(found, [samples[row] for row in rows], [keys[row] for row in rows], rows, batch, scores, held,
                        verdicts)  # fmt: skip
        for row, sample in enumerate(samples):
            status, reason = verdicts.get(row, (Status.OK, None))
            found.ids.append(sample.id)
            found.keys.append(keys.get(row, b""))
            found.outputs.append(sample.output.name if sample.output is not None else "")
            found.classes.append(sample.class_name)
            found.statuses.append(Status(status))
            found.reasons.append(reason)
        return scores

    def _score(
        self,
        found: EncodedSet,
        samples: Sequence[Sample],
        keys: Sequence[bytes],
        rows: Sequence[int],
        batch: FeatureBatch,
        scores: np.ndarray,
        held: Held,
        verdicts: dict[int, Any],
    ) -> None:
        columns = batch.one_of("image")
        at, prompts = np.asarray(rows), self._prompts
        bad = normalise(columns["embedding"]).degenerate
        maps = None
        if "patches" in columns:
            made = self._scored(columns)
            values, bad = made.scores, bad | made.degenerate
            maps = made.maps if self._settings.maps else None
            found.grid = made.grid
        if self._settings.score == "clip_score":
            plain = cosine_matrix(columns["embedding"], prompts.plain)
            values, bad = 100.0 * plain.values, bad | plain.degenerate.any(axis=1)
        elif self._settings.score == "hcs":
            held.append((len(found.ids) + at[~bad], columns["embedding"][~bad]))
            values = np.zeros((len(at), scores.shape[1]))
        scores[at[~bad]] = values[~bad]
        reason = "a token or a text has no direction: its embedding is zero or not finite"
        verdicts |= {int(row): (Status.DEGENERATE_EMBEDDING, reason) for row in at[bad]}
        if maps is not None:
            good = np.flatnonzero(~bad).tolist()
            self._add_maps(found, [samples[k] for k in good], [keys[k] for k in good], maps[good])

    def maps_of(self, samples: Sequence[Sample]) -> np.ndarray:
        """(n, C, P) refined patch scores of a few images that have features.

        Raises:
            UserError: one of them has none.
        """
        chunk, _ = self._scorer.prepare(samples)
        ((work, rows, batch),) = self._scorer.feature_batches(chunk)
        if len(rows) != len(samples):
            raise UserError("images to be drawn must have features", got=str(dict(work.verdicts)))
        return self._scored(batch.one_of("image")).maps

    def _scored(self, columns: Any) -> ScoredPictures:
        prompts, options = self._prompts, RaOptions.of(asdict(self._settings))
        return score_pictures(columns, prompts.positive, prompts.negative, options, prompts.logit_scale)

    def _add_maps(self, found: EncodedSet, samples: Sequence[Sample], keys: Sequence[bytes], maps: np.ndarray) -> None:
        if found.grid is None:
            raise TypeError("maps have a grid")
        pooled = with_squares(maps, found.grid, self._settings.regions)
        for held, rows in ((found.maps, maps), (found.regions, pooled)):
            self._add_rows(held, samples, keys, rows)

    def _add_rows(
        self, held: list[MapUnits], samples: Sequence[Sample], keys: Sequence[bytes], rows: np.ndarray
    ) -> None:
        """Adds rows (n, C, …) to the one holder, or each image to that of its class."""
        count, cells = rows.shape[1:]
        most = self._settings.map_images
        if not self._settings.by_class:
            if not held:
                held.append(MapUnits((count, cells), most))
            held[0].add(list(keys), rows)
            return
        if not held:
            held += [MapUnits((1, cells), most) for _ in self._attributes]
        for c, attribute in enumerate(self._attributes):
            own = [k for k, sample in enumerate(samples) if sample.class_name == attribute.name]
            if own:
                held[c].add([keys[k] for k in own], rows[own, c : c + 1])

    def _finish_hcs(self, found: EncodedSet, held: Held) -> None:
        if not held:
            return
        rows, embeddings = (np.concatenate(side) for side in zip(*held))
        if self._centre is None:
            self._centre = mean_embedding(embeddings)
        made = hcs(embeddings, self._prompts.plain, image_centre=self._centre, text_centre=self._prompts.centre)
        found.scores[rows] = made.values
        for row in rows[made.degenerate.any(axis=1)]:
            found.statuses[int(row)] = Status.DEGENERATE_EMBEDDING
            found.reasons[int(row)] = "the image or a text equals its centre, so it has no direction"


def content_digest(scorer: Scorer, source: SampleSource) -> list[str]:
    """Keys of a set's chunks: what everything computed from it depends on. Reads no features."""
    return [scorer.prepare(samples)[0].key for samples in chunks(source, LARGE_CHUNK)]
