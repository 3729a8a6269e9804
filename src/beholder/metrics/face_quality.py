"""facescore: how good the faces of an output look, by FaceScore's reward on each face."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from beholder._errors import NoValue
from beholder.functional.faces import box_areas, largest
from beholder.manifest.schema import Sample
from beholder.media.base import Picture
from beholder.metrics.base import Derived, FeatureBatch, Pair, SampleMetric, ScoreColumns, Selection, Slot
from beholder.metrics.outcome import make_scores
from beholder.metrics.text_image import output_of
from beholder.records import MetricInfo, OptionInfo, Status

DEFAULT_MODEL, DEFAULT_DETECTOR = "facescore", "retinaface"
TEXT = "A face."
THRESHOLD = 0.9


class FaceScore(SampleMetric):
    """`facescore`: see its card."""

    other_aggregates = ("face_share",)

    info = MetricInfo(
        name="facescore",
        family="faces",
        kind="sample",
        summary="Quality of the output's faces: FaceScore's reward of each face's crop, brought together.",
        inputs=("output",),
        formula=f'aggregate over the faces of h(crop, "{TEXT}"), h being the head\'s output, not standardised',
        unit="reward",
        range=(None, None),
        higher_is_better=True,
        degenerate=(
            "No face of at least the threshold has the status no_face, with the best confidence below it; it is never "
            "counted as 0. Boxes are cut to the picture, so that faces at the border are scored."
        ),
        paper="Liao et al., FaceScore: Benchmarking and Enhancing Face Quality in Human Generation, arXiv 2406.17100",
        reference_code="https://github.com/OPPO-Mente-Lab/FaceScore",
        version="1",
        capability="Matcher",
        default_model=DEFAULT_MODEL,
        options=(
            OptionInfo("model", DEFAULT_MODEL, "Reward network; --model does not change it, since it is the metric."),
            OptionInfo("detector", DEFAULT_DETECTOR, "Face model that finds the faces."),
            OptionInfo(
                "threshold",
                THRESHOLD,
                "Least confidence of a face; retinaface tells of faces above 0.5 only.",
                kind="float",
            ),
            OptionInfo(
                "aggregate",
                "mean",
                "How several faces become one value; largest is the face with the largest box.",
                choices=("mean", "min", "max", "largest"),
            ),
        ),
        licence_note="The licences of the reward network and of the detector stand in their models' cards.",
        notes=(
            "Each face's score, box and confidence stand in the evidence.",
            "Rows without a face are left out of the mean, never 0; the aggregate face_share is the share with one.",
            "official in the evidence: the published code loses faces whose box touches the left or upper edge; for "
            "them it is null.",
            "The published code gives one score a face and no aggregate.",
        ),
    )

    @classmethod
    def takes_model(cls) -> bool:
        """`--model` names an encoder; the reward network is another kind of model."""
        return False

    @property
    def threshold(self) -> float:
        """Least confidence of a face."""
        return float(cast("float", self.options["threshold"]))

    @property
    def slots(self) -> tuple[Slot, ...]:
        return (
            Slot("faces", str(self.options["detector"]), "faces"),
            Slot("pair", str(self.options["model"]), "match", after=("faces",)),
        )

    def select(self, sample: Sample) -> Selection:
        output = output_of(sample)
        crops = Derived(output, "faces", output, crop_faces, (("threshold", self.threshold),))
        return {"faces": output, "pair": Pair(crops, TEXT)}

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        found, pairs = batch.one_of("faces"), batch.rows_of("pair")
        values, evidence = np.zeros(batch.n), {}
        for row in range(batch.n):
            kept = chosen_faces(np.asarray(found["scores"][row]), self.threshold)
            boxes = np.asarray(found["boxes"][row])[kept]
            scores = pairs.columns["logit"][int(pairs.offsets[row]) : int(pairs.offsets[row + 1])].astype(np.float64)
            values[row] = aggregate(scores, boxes, str(self.options["aggregate"]))
            evidence[row] = _evidence(scores, boxes, np.asarray(found["scores"][row])[kept])
        return make_scores(values, degenerate={}, within=self.value_range, evidence=evidence)

    def other_values(
        self, value: float | None, status: Status, evidence: Mapping[str, Any]
    ) -> Mapping[str, float | None]:
        if value is None and status != Status.NO_FACE:
            return {}
        return {"face_share": float(value is not None)}

    def describe(self) -> dict[str, Any]:
        return {
            "scale": 1.0, "clamp": "none", "template": TEXT, "threshold": self.options["threshold"],
            "aggregate": self.options["aggregate"], "detector": self.options["detector"],
        }  # fmt: skip


def chosen_faces(scores: np.ndarray, threshold: float) -> np.ndarray:
    """Numbers of the faces with at least that confidence. Confidences are float32, and so is the comparison."""
    return np.flatnonzero(scores >= np.float32(threshold))


def crop_box(box: Sequence[float], width: int, height: int) -> tuple[int, int, int, int]:
    """(x0, y0, x1, y1) of a face's crop: int(x0 − 1) to int(x1 + 1) and so on, cut to the picture; no margin else.

    >>> crop_box((104.03, 28.23, 143.57, 78.54), 300, 200)
    (103, 27, 144, 79)
    """
    x0, y0, x1, y1 = (float(value) for value in box)
    return max(0, int(x0 - 1)), max(0, int(y0 - 1)), min(width, int(x1 + 1)), min(height, int(y1 + 1))


def crop_faces(picture: Picture, columns: Mapping[str, Any], *, threshold: float) -> list[Picture]:
    """The crops of the faces that `chosen_faces` takes, in their order.

    Raises:
        NoValue: `no_face`.
    """
    scores = np.asarray(columns["scores"])
    kept = chosen_faces(scores, threshold)
    if not len(kept):
        best = f"; the best confidence is {float(scores.max()):.4f}" if len(scores) else ""
        raise NoValue(Status.NO_FACE, f"no face with a confidence of at least {threshold:g}{best}")
    height, width = picture.pixels.shape[:2]
    crops = []
    for box in np.asarray(columns["boxes"])[kept]:
        x0, y0, x1, y1 = crop_box(box, width, height)
        pixels = np.ascontiguousarray(picture.pixels[y0:y1, x0:x1])
        crops.append(Picture(pixels, (x1 - x0, y1 - y0), picture.source_mode, picture.notes))
    return crops


def aggregate(scores: np.ndarray, boxes: np.ndarray, how: str) -> float:
    """One value of k ≥ 1 faces' scores.

    >>> aggregate(np.array([1.0, 4.0]), np.array([[0, 0, 9, 9], [0, 0, 3, 3]]), "largest")
    1.0
    """
    if how == "largest":
        return float(scores[largest(box_areas(boxes))])
    return float(scores.min() if how == "min" else scores.max() if how == "max" else scores.mean())


def _evidence(scores: np.ndarray, boxes: np.ndarray, confidences: np.ndarray) -> dict[str, Any]:
    faces = []
    for score, box, confidence in zip(scores, boxes, confidences):
        lost = float(box[0]) <= 0 or float(box[1]) <= 0
        faces.append({
            "score": float(score), "box": [round(float(value), 2) for value in box],
            "confidence": round(float(confidence), 6), "official": None if lost else float(score),
        })  # fmt: skip
    return {"n_faces": len(faces), "faces": faces}
