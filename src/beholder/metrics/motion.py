"""Metrics of how a clip runs: motion amplitude, motion smoothness, flicker, consistency of subject and background."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from beholder.functional.temporal import JUMP, consistency, smoothness
from beholder.manifest.schema import Sample
from beholder.metrics.base import FeatureBatch, SampleMetric, ScoreColumns, Selection, Slot
from beholder.metrics.outcome import make_scores
from beholder.metrics.text_image import output_of
from beholder.records import MetricInfo, OptionInfo, Status

_OPENS2V = "Yuan et al., OpenS2V-Nexus, arXiv 2505.20292"
_VBENCH = "Huang et al., VBench: Comprehensive Benchmark Suite for Video Generative Models, arXiv 2311.17982"
_SHORT = "One frame, or a still picture: too_short."

Verdict = tuple[Status, str]
Outcome = tuple[float, Mapping[str, Any]]


class _ClipMetric(SampleMetric):
    """A metric of the output's frames in their order."""

    least_frames = 2
    feature: ClassVar[str]

    @classmethod
    def takes_model(cls) -> bool:
        """`--model` names an encoder of images and texts; what measures clips is another kind of model."""
        return False

    @property
    def slots(self) -> tuple[Slot, ...]:
        frames = str(self.options.get("frames", "all"))
        return (Slot("clip", str(self.options["model"]), self.feature, frames=frames),)

    def select(self, sample: Sample) -> Selection:
        return {"clip": output_of(sample)}

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        rows = batch.rows_of("clip")
        values = np.zeros(batch.n)
        statuses: dict[int, Verdict] = {}
        evidence: dict[int, Mapping[str, Any]] = {}
        for row in range(batch.n):
            own = slice(int(rows.offsets[row]), int(rows.offsets[row + 1]))
            columns = {name: array[own] for name, array in rows.columns.items()}
            frames = self.count(columns)
            if frames < self.least_frames:
                reason = f"the output has {frames} frame{'s' if frames != 1 else ''}; two are needed"
                statuses[row] = (Status.TOO_SHORT, reason)
                continue
            verdict = self.fault(columns)
            if verdict is not None:
                statuses[row] = verdict
                continue
            values[row], evidence[row] = self.measure(columns)
        return make_scores(values, degenerate={}, within=self.value_range, statuses=statuses, evidence=evidence)

    def count(self, columns: Mapping[str, np.ndarray]) -> int:
        """Frames of a clip."""
        return int(columns["n_frames"][0])

    def fault(self, columns: Mapping[str, np.ndarray]) -> Verdict | None:
        """Why a clip has no value."""
        return None

    def measure(self, columns: Mapping[str, np.ndarray]) -> Outcome:
        """A clip's value and evidence."""
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        return {"scale": 1.0, "clamp": "none", "least_frames": self.least_frames}


class MotionAmplitude(_ClipMetric):
    """`motion_amplitude`: see its card."""

    feature = "clip_numbers"
    info = MetricInfo(
        name="motion_amplitude",
        family="opens2v",
        kind="sample",
        summary="How much moves: mean optical flow between neighbouring frames, as OpenS2V takes it.",
        inputs=("output",),
        formula=(
            "official: |mean over frames, space and both signed components of Farneback's flow, each flow brought to "
            "16 columns by area|; magnitude: mean length of the flow"
        ),
        unit="pixels a frame",
        range=(0.0, None),
        higher_is_better=None,
        degenerate=f"{_SHORT} Frames more than 16 times as wide as high: not_applicable.",
        paper=_OPENS2V,
        reference_code="https://github.com/PKU-YuanGroup/OpenS2V-Nexus",
        version="1",
        capability="ClipMeter",
        default_model="farneback",
        options=(
            OptionInfo("model", "farneback", "What measures the flow."),
            OptionInfo(
                "variant",
                "official",
                "official lets opposite motions cancel (a zoom gives about 0) and exchanges the gray weights of red "
                "and blue; magnitude is the mean length of the flow.",
                choices=("official", "magnitude"),
            ),
        ),
        notes=(
            "All frames are looked at; the other variant stands in the evidence.",
            "OpenS2V's board takes a larger value for better; whether more motion is better depends on the prompt.",
        ),
    )  # fmt: skip

    def measure(self, columns: Mapping[str, np.ndarray]) -> Outcome:
        official, magnitude = abs(float(columns["flow"][0])), float(columns["magnitude"][0])
        facts = {"motion_fb": official, "motion_magnitude": magnitude, "n_frames": self.count(columns)}
        return (official if self.options["variant"] == "official" else magnitude), facts


class MotionSmoothness(_ClipMetric):
    """`motion_smoothness`: see its card."""

    feature = "frame_quality"
    info = MetricInfo(
        name="motion_smoothness",
        family="opens2v",
        kind="sample",
        summary="How smoothly the quality of the frames runs: 1 - share of frames at a jump of quality.",
        inputs=("output",),
        formula="1 - |{i, i+1 : |q(i+1) - q(i)| > jump}| / n, q from the three frames around i",
        unit="share of frames",
        range=(0.0, 1.0),
        higher_is_better=True,
        degenerate=f"{_SHORT} (OpenS2V's code gives 1 there.)",
        paper=f"{_OPENS2V}; Wu et al., Q-Align, arXiv 2312.17090",
        reference_code="https://github.com/PKU-YuanGroup/OpenS2V-Nexus",
        version="1",
        capability="FrameScorer",
        default_model="qalign",
        options=(
            OptionInfo(
                "model",
                "qalign",
                "What scores the frames: qalign (official, not built yet), or one that was registered.",
            ),
            OptionInfo("jump", JUMP, "A larger difference of neighbours is a jump; 0.025 is official.", kind="float"),
        ),
        notes=(
            "With another scorer than Q-Align the value is not OpenS2V's.",
            "The evidence lists the artefact frames and the largest jump.",
        ),
    )  # fmt: skip

    def count(self, columns: Mapping[str, np.ndarray]) -> int:
        return len(columns["scores"][0])

    def fault(self, columns: Mapping[str, np.ndarray]) -> Verdict | None:
        if not np.isfinite(columns["scores"][0]).all():
            return Status.FAILED, f"{self.options['model']} gave a score that is not a finite number"
        return None

    def measure(self, columns: Mapping[str, np.ndarray]) -> Outcome:
        scores = columns["scores"][0]
        found = smoothness(scores, jump=float(str(self.options["jump"])))
        facts = {
            "artefacts": list(found.artefacts),
            "largest_jump": found.largest_jump,
            "n_frames": len(scores),
            "scores": [round(float(score), 6) for score in scores],
        }
        return found.value, facts


class TemporalFlickering(_ClipMetric):
    """`temporal_flickering`: see its card."""

    feature = "clip_numbers"
    info = MetricInfo(
        name="temporal_flickering",
        family="vbench",
        kind="sample",
        summary="How little neighbouring frames differ in their levels, as VBench defines it.",
        inputs=("output",),
        formula="(255 - mean over neighbouring frames of the mean absolute difference of levels) / 255",
        unit="share of 255 levels",
        range=(0.0, 1.0),
        higher_is_better=True,
        degenerate=_SHORT,
        paper=_VBENCH,
        reference_code="https://github.com/Vchitect/VBench",
        version="1",
        capability="ClipMeter",
        default_model="differences",
        options=(OptionInfo("model", "differences", "What measures the differences."),),
        notes=(
            "All frames are looked at. VBench takes videos of still scenes only: a moving camera lowers the value too.",
        ),
    )  # fmt: skip

    def measure(self, columns: Mapping[str, np.ndarray]) -> Outcome:
        step = float(columns["difference"][0])
        return (255.0 - step) / 255.0, {"mean_difference": step, "n_frames": self.count(columns)}


class _Consistency(_ClipMetric):
    """Consistency of the embeddings of a clip's frames."""

    feature = "image_embedding"

    def count(self, columns: Mapping[str, np.ndarray]) -> int:
        return len(columns["embedding"])

    def fault(self, columns: Mapping[str, np.ndarray]) -> Verdict | None:
        if consistency(columns["embedding"]).degenerate:
            return Status.DEGENERATE_EMBEDDING, "the embedding of a frame is zero or not finite, so it has no direction"
        return None

    def measure(self, columns: Mapping[str, np.ndarray]) -> Outcome:
        found = consistency(columns["embedding"])
        facts = {name: getattr(found, name) for name in ("to_previous", "to_first", "worst")}
        return found.value, {**facts, "n_frames": self.count(columns)}


def _card(name: str, of: str, model: str, doc: str, notes: Iterable[str]) -> MetricInfo:
    return MetricInfo(
        name=name,
        family="vbench",
        kind="sample",
        summary=f"How alike {of} stays over a clip, as VBench defines it: cosines of its frames' embeddings.",
        inputs=("output",),
        formula="mean over frames i > 0 of (max(0, cos(e_i, e_(i-1))) + max(0, cos(e_i, e_0))) / 2",
        unit="cosine",
        range=(0.0, 1.0),
        higher_is_better=True,
        degenerate=f"{_SHORT} A frame whose embedding has no direction: degenerate_embedding.",
        paper=_VBENCH,
        reference_code="https://github.com/Vchitect/VBench",
        version="2",
        capability="ImageTextEncoder",
        default_model=model,
        options=(
            OptionInfo("model", model, doc),
            OptionInfo("frames", "all", "Which frames are looked at; all is VBench's."),
        ),
        notes=(
            "Aggregates are means over videos; VBench's own is over the frames of all videos.",
            "The first part looks at the frame before, the second at the first frame; both stand in the evidence.",
            *notes,
        ),
    )  # fmt: skip


class SubjectConsistency(_Consistency):
    """`subject_consistency`: see its card."""

    info = _card(
        "subject_consistency",
        "the subject",
        "vbench:facebook/dino-vitb16",
        "Encoder of pictures. The default is VBench's, fed as VBench feeds it; hf:facebook/dino-vitb16 takes a square.",
        ("VBench decodes with decord, so values can differ in the last digits.",),
    )


class BackgroundConsistency(_Consistency):
    """`background_consistency`: see its card."""

    info = _card(
        "background_consistency",
        "the scene",
        "vbench:openai/clip-vit-base-patch32",
        "Encoder of pictures. The default is VBench's, fed as VBench feeds it; openai:ViT-B-32 resizes with Pillow.",
        ("VBench decodes with decord, so values can differ in the last digits.",),
    )
