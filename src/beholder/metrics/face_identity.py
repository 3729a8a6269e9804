"""facesim_cur: whether the person of the references is the person of the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beholder._errors import NoValue
from beholder.functional.faces import Faces, box_areas, largest, match_faces
from beholder.functional.facesim import face_similarity
from beholder.manifest.schema import Sample
from beholder.metrics.base import FeatureBatch, Ragged, SampleMetric, ScoreColumns, Selection, Slot
from beholder.metrics.opens2v_pairs import person_of
from beholder.metrics.outcome import make_scores
from beholder.metrics.text_image import output_of
from beholder.records import MetricInfo, OptionInfo, Status

DEFAULT_MODEL = "curricularface:ir-101"
_DEGENERATE = "the embedding of a face is zero or not finite, so it has no direction"


class FaceSimCur(SampleMetric):
    """`facesim_cur`: see its card."""

    other_aggregates = ("no_face_as_zero", "face_share")

    info = MetricInfo(
        name="facesim_cur",
        family="faces",
        kind="sample",
        summary="Identity: cosine of the recognition embeddings of the output's face and the references' face.",
        inputs=("output", "references"),
        formula=(
            "picture: cos(e(reference), e(output)) of the largest faces, reduced over the references; video: the same "
            "for each frame, then the mean of the positive values (OpenS2V's rule)"
        ),
        unit="cosine",
        range=(-1.0, 1.0),
        higher_is_better=True,
        degenerate=(
            "No face in the references, in the output, or in any frame: no_face, saying which side; no references: "
            "no_reference; an embedding without direction: degenerate_embedding. A video whose cosines are all "
            "negative or zero is ok with 0.0 under over_frames=official."
        ),
        paper="Yuan et al., OpenS2V-Nexus, arXiv 2505.20292; Huang et al., CurricularFace, arXiv 2004.00288",
        reference_code="https://github.com/PKU-YuanGroup/OpenS2V-Nexus",
        version="1",
        capability="FaceAnalyser",
        default_model=DEFAULT_MODEL,
        options=(
            OptionInfo("model", DEFAULT_MODEL, "Face model: curricularface, insightface or dlib; --model keeps off."),
            OptionInfo(
                "matching",
                "largest",
                "largest compares the largest faces (official); best takes the output's face that is most like each "
                "reference; assignment pairs all faces of the references with faces of the output one to one.",
                choices=("largest", "best", "assignment"),
            ),
            OptionInfo(
                "reduce",
                "mean",
                "How the references of one row become one value; with assignment it is the mean of the pairs.",
                choices=("mean", "max", "first"),
            ),
            OptionInfo(
                "clip", False, "True counts a negative cosine of a picture as 0 (videos have over_frames).", kind="bool"
            ),
            OptionInfo(
                "references",
                "all",
                "all references; opens2v takes the first one whose path has a folder man, woman, crop_man or "
                "crop_woman, and only rows that OpenS2V scores.",
                choices=("all", "opens2v"),
            ),
            OptionInfo("frames", "uniform:32", "Which frames of a video are looked at; 32 is official."),
            OptionInfo(
                "over_frames",
                "official",
                "How frames become one value: official drops frames without a face or with a cosine of 0 or less; "
                "mean_detected counts negative ones as 0; mean_raw takes them as they are; mean_all counts frames "
                "without a face as 0, too.",
                choices=("official", "mean_detected", "mean_raw", "mean_all"),
            ),
        ),
        licence_note="InsightFace's detector and ArcFace are for non-commercial research; dlib's models are CC0.",
        notes=(
            "Only matching=largest with over_frames=official is OpenS2V's number; detection rate and the other means "
            "stand in the evidence of each video, since one good frame of 32 scores like 32 of them.",
            "References without a face are left out and counted in the evidence.",
            "Rows without a face are left out of the mean. The aggregate no_face_as_zero counts an output without a "
            "face as 0, and face_share is the share of outputs with one, among rows whose references show one.",
            "Values of different face models cannot be compared; dlib's cosines lie close together.",
        ),
    )  # fmt: skip

    @classmethod
    def takes_model(cls) -> bool:
        """`--model` names an encoder of images and texts; a face model is another kind of model."""
        return False

    @property
    def value_range(self) -> tuple[float | None, float | None]:
        return (0.0, 1.0) if self.options["clip"] and self.options["over_frames"] != "mean_raw" else (-1.0, 1.0)

    @property
    def slots(self) -> tuple[Slot, ...]:
        model, frames = str(self.options["model"]), str(self.options["frames"])
        return (
            Slot("output", model, "faces", frames=frames),
            Slot("references", model, "faces", many=True, frames=frames),
        )

    def select(self, sample: Sample) -> Selection:
        references = list(sample.references)
        if not references:
            raise NoValue(Status.NO_REFERENCE, "the row has no references")
        if self.options["references"] == "opens2v":
            references = [person_of(sample)]
        kept = references[:1] if self.options["reduce"] == "first" else references
        return {"output": output_of(sample), "references": kept}

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        outputs, references = batch.rows_of("output"), batch.many("references")
        if "embedding" not in outputs.columns:
            reason = f"{self.options['model']} finds faces but gives no embeddings; use curricularface or dlib"
            return ScoreColumns(np.zeros(batch.n), dict.fromkeys(range(batch.n), (Status.FAILED, reason)))
        values = np.zeros(batch.n)
        statuses: dict[int, tuple[Status, str]] = {}
        evidence: dict[int, Mapping[str, Any]] = {}
        for row in range(batch.n):
            pictures, people = _faces_of(outputs, row), _faces_of(references, row)
            try:
                values[row], evidence[row] = self._score_row(pictures, people)
            except _Missing as missing:
                statuses[row], evidence[row] = (Status(missing.status), missing.reason), missing.evidence
        return make_scores(values, degenerate={}, within=self.value_range, statuses=statuses, evidence=evidence)

    def other_values(
        self, value: float | None, status: Status, evidence: Mapping[str, Any]
    ) -> Mapping[str, float | None]:
        if value is not None:
            return {"no_face_as_zero": value, "face_share": 1.0}
        missed = status == Status.NO_FACE and evidence.get("side") == "gen"
        return dict.fromkeys(self.other_aggregates, 0.0) if missed else {}

    def describe(self) -> dict[str, Any]:
        return {
            "scale": 1.0, "clamp": "at 0" if self.options["clip"] else "none", "matching": self.options["matching"],
            "range": list(self.value_range),
        }  # fmt: skip

    def _score_row(self, pictures: Sequence[Faces], references: Sequence[Faces]) -> tuple[float, dict[str, Any]]:
        shown = [faces for faces in pictures if len(faces.areas)]
        people = [faces for faces in references if len(faces.areas)]
        facts: dict[str, Any] = {}
        if len(people) < len(references):
            facts["references_without_face"] = len(references) - len(people)
        if not people or not shown:
            side = "both" if not people and not shown else "ref" if not people else "gen"
            facts |= {"side": side}
            if len(pictures) > 1:
                facts |= {"n_frames": len(pictures), "n_detected": len(shown), "official": 0.0 if people else None}
            raise _Missing(Status.NO_FACE, f"no face was found (side={side})", facts)
        cosines = np.asarray([self._compare(people, faces) for faces in shown])
        if len(pictures) > 1:
            result = face_similarity(cosines, n_frames=len(pictures))
            return float(getattr(result, str(self.options["over_frames"]))), facts | result._asdict()
        counts = {"n_faces": len(shown[0].areas), "n_reference_faces": max(len(faces.areas) for faces in people)}
        facts |= {name: count for name, count in counts.items() if count > 1}
        return float(max(cosines[0], 0.0) if self.options["clip"] else cosines[0]), facts

    def _compare(self, people: Sequence[Faces], faces: Faces) -> float:
        """One picture with all references that show a face."""
        matching = str(self.options["matching"])
        if matching == "assignment":
            result = match_faces(_joined(people), faces, matching=matching)
        else:
            result = match_faces(_joined([_only_largest(person) for person in people]),
                                 _only_largest(faces) if matching == "largest" else faces, matching="best")  # fmt: skip
        if result.degenerate.any():
            raise _Missing(Status.DEGENERATE_EMBEDDING, _DEGENERATE, {})
        reduce = "mean" if matching == "assignment" else str(self.options["reduce"])
        values = result.values
        return float(values[0] if reduce == "first" else values.max() if reduce == "max" else values.mean())


class _Missing(Exception):
    """A row without a value, and what is known of it."""

    def __init__(self, status: Status, reason: str, evidence: Mapping[str, Any]) -> None:
        self.status, self.reason, self.evidence = status, reason, evidence
        super().__init__(status, reason)


def _faces_of(rows: Ragged, row: int) -> list[Faces]:
    """The faces of each picture of a sample."""
    columns = rows.columns
    # Areas before boxes were cut are OpenS2V's; a face model of a user's own need not give them.
    areas = columns.get("areas", [box_areas(boxes) for boxes in columns["boxes"]])
    return [
        Faces(np.asarray(columns["embedding"][at]), np.asarray(areas[at]))
        for at in range(int(rows.offsets[row]), int(rows.offsets[row + 1]))
    ]


def _only_largest(faces: Faces) -> Faces:
    at = largest(faces.areas)
    return Faces(faces.embeddings[at : at + 1], faces.areas[at : at + 1])


def _joined(parts: Sequence[Faces]) -> Faces:
    return Faces(np.concatenate([part.embeddings for part in parts]), np.concatenate([part.areas for part in parts]))
