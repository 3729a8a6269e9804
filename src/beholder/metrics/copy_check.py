"""copy_check: whether an output is a copy of one of its references, so that a copy does not pass for fidelity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from beholder._errors import NoValue
from beholder.functional.picture_hash import NEAR, hamming
from beholder.functional.similarity import normalise
from beholder.manifest.schema import Sample
from beholder.metrics.base import FeatureBatch, Ragged, SampleMetric, ScoreColumns, Selection, Slot
from beholder.metrics.frames import FRAMES
from beholder.metrics.outcome import make_scores
from beholder.metrics.text_image import output_of
from beholder.records import MetricInfo, OptionInfo, Status

DEFAULT_MODEL, NO_MODEL = "openai:ViT-L-14", "none"
_HASHER = "pixels"


class CopyCheck(SampleMetric):
    """`copy_check`: see its card."""

    other_aggregates = ("exact", "near", "cosine")

    info = MetricInfo(
        name="copy_check",
        family="fidelity",
        kind="sample",
        summary="Whether the output is a copy of one of its references: 1 for exact and near copies, else 0.",
        inputs=("output", "references"),
        formula=(
            "1 where the decoded pixels equal a reference's (exact), or where 64-bit DCT hashes of output and "
            "reference, as it is or mirrored, differ in at most `distance` bits (near); else 0"
        ),
        unit="share",
        range=(0.0, 1.0),
        higher_is_better=False,
        degenerate=(
            "A row without references has the status no_reference. A picture of one colour has no structure to "
            "compare, so it can be an exact copy only. Where an embedding has no direction, no cosine is told."
        ),
        paper=None,
        reference_code=None,
        version="1",
        capability="PictureHasher",
        default_model=DEFAULT_MODEL,
        options=(
            OptionInfo(
                "model", DEFAULT_MODEL, "Encoder of the cosine, which takes no part in the value; none leaves it out."
            ),
            OptionInfo("distance", NEAR, "Most bits of 64 in which the hashes of a near copy differ.", kind="int"),
            FRAMES,
        ),
        notes=(
            "The evidence of a row tells exact, near, the smallest distance, which reference, whether mirrored, and "
            "the highest cosine of embeddings to any reference.",
            "The aggregates exact and near are the shares of both kinds (an exact copy does not count as near, too), "
            "cosine is the mean of the highest cosines. Every other metric that looks at references carries the "
            "counts in its note.",
            "A video is a copy where one of its frames is.",
            "Crops, rotations and strong edits are not found by hashes; a cosine near 1 hints at them.",
        ),
    )

    @property
    def slots(self) -> tuple[Slot, ...]:
        model, frames = str(self.options["model"]), str(self.options["frames"])
        slots = (
            Slot("output", _HASHER, "hashes", frames=frames),
            Slot("references", _HASHER, "hashes", many=True, frames=frames),
        )
        if model == NO_MODEL:
            return slots
        return (
            *slots,
            Slot("image", model, "image_embedding", frames=frames),
            Slot("images", model, "image_embedding", many=True, frames=frames),
        )

    def select(self, sample: Sample) -> Selection:
        references = list(sample.references)
        if not references:
            raise NoValue(Status.NO_REFERENCE, "the row has no references")
        output = output_of(sample)
        return {"output": output, "references": references, "image": output, "images": references}

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        outputs, references = batch.rows_of("output"), batch.many("references")
        values = np.zeros(batch.n)
        evidence: dict[int, Mapping[str, Any]] = {}
        for row in range(batch.n):
            found = compare(_part(outputs, row), _part(references, row), distance=int(str(self.options["distance"])))
            if "image" in batch.slots:
                found |= _cosine(_part(batch.rows_of("image"), row), _part(batch.many("images"), row))
            values[row], evidence[row] = float(found["exact"] or found["near"]), found
        return make_scores(values, degenerate={}, within=(0.0, 1.0), evidence=evidence)

    def other_values(
        self, value: float | None, status: Status, evidence: Mapping[str, Any]
    ) -> Mapping[str, float | None]:
        if value is None:
            return {}
        return {
            "exact": float(evidence["exact"]),
            "near": float(evidence["near"] and not evidence["exact"]),
            "cosine": evidence.get("cosine"),
        }

    def describe(self) -> dict[str, Any]:
        return {"hash": "dct64", "distance": self.options["distance"], "mirrored": True, "range": [0.0, 1.0]}


def compare(output: Mapping[str, np.ndarray], references: Mapping[str, np.ndarray], *, distance: int) -> dict[str, Any]:
    """What the hashes of one output's pictures and of its references say, JSON-ready.

    Args:
        output: "pixels" (k, 32), "hash" (k,): one row a frame, or one.
        references: the same of r references, with "mirrored" (r,).
        distance: most bits in which near copies differ.
    """
    same = (output["pixels"][:, None, :] == references["pixels"][None, :, :]).all(axis=2)
    plain = hamming(output["hash"][:, None], references["hash"][None, :])
    turned = hamming(output["hash"][:, None], references["mirrored"][None, :])
    least = np.minimum(plain, turned)
    structured = (output["hash"][:, None] != 0) & (references["hash"][None, :] != 0)
    near = (least <= distance) & structured
    # An exact copy is the nearest of all, also where hashes tie.
    frame, reference = np.unravel_index(int(np.argmin(np.where(same, -1, least))), least.shape)
    found: dict[str, Any] = {
        "exact": bool(same.any()),
        "near": bool((near | same).any()),
        "distance": int(least[frame, reference]),
        "reference": int(reference) + 1,
        "mirrored": bool(turned[frame, reference] < plain[frame, reference]),
    }
    if len(least) > 1:
        found |= {"n_frames": len(least), "copied_frames": int((near | same).any(axis=1).sum())}
    return found


def _cosine(output: Mapping[str, np.ndarray], references: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The highest cosine of any picture of the output with any reference, where both have a direction."""
    left, right = normalise(output["embedding"]), normalise(references["embedding"])
    kept = left.vectors[~left.degenerate], right.vectors[~right.degenerate]
    if not len(kept[0]) or not len(kept[1]):
        return {}
    # The products are summed pair by pair, so that they do not depend on how many there are.
    cosines = np.einsum("id,jd->ij", kept[0].astype(np.float64), kept[1].astype(np.float64))
    return {"cosine": float(np.clip(cosines.max(), -1.0, 1.0))}


def _part(rows: Ragged, row: int) -> dict[str, np.ndarray]:
    start, end = int(rows.offsets[row]), int(rows.offsets[row + 1])
    return {name: column[start:end] for name, column in rows.columns.items()}
