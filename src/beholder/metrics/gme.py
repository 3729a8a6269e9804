"""gme_score: whether a video shows what its prompt says, by a multimodal embedder (OpenS2V's GmeScore)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from beholder.backends.base import Columns
from beholder.functional.half import half_dots, half_mean, half_units
from beholder.functional.similarity import cosine, normalise
from beholder.metrics.base import FeatureBatch, Ragged, ScoreColumns
from beholder.metrics.outcome import make_scores, truncation_evidence
from beholder.metrics.text_image import TextImageMetric
from beholder.records import MetricInfo, OptionInfo, Status

DEFAULT_MODEL = "gme-qwen2-vl-7b"


class GmeScore(TextImageMetric):
    """`gme_score`: see its card."""

    info = MetricInfo(
        name="gme_score",
        family="opens2v",
        kind="sample",
        summary="How well the frames fit the prompt: mean cosine of GME's embeddings of the prompt and of each frame.",
        inputs=("output", "prompt"),
        formula="mean over frames of <e(prompt), e(frame)>, embeddings of length 1",
        unit="cosine",
        range=(-1.01, 1.01),
        higher_is_better=True,
        degenerate=(
            "A blank prompt: empty_prompt. A frame whose embedding has no direction is counted and left out; a prompt "
            "without one, or no frame with one: degenerate_embedding."
        ),
        paper="Yuan et al., OpenS2V-Nexus, arXiv 2505.20292; Zhang et al., GME, arXiv 2412.16855",
        reference_code="https://github.com/PKU-YuanGroup/OpenS2V-Nexus",
        version="1",
        capability="ImageTextEncoder",
        default_model=DEFAULT_MODEL,
        options=(
            OptionInfo("model", DEFAULT_MODEL, "Embedder; only the 7B GME gives OpenS2V's numbers. --model keeps off."),
            OptionInfo("frames", "uniform:32", "Which frames of a video are looked at; 32 is official."),
            OptionInfo(
                "dot",
                "fp16",
                "fp16 rounds embeddings, dot products and their mean to 16 bits (official); fp32 does not.",
                choices=("fp16", "fp32"),
            ),
        ),
        licence_note="GME's weights are under Apache-2.0.",
        notes=(
            "Values are raw cosines and may be negative; OpenS2V's board cuts them at 1.",
            "In 16 bits a value near 0.7 is a multiple of 0.0005, and rounding may carry it a little over 1.",
            "References are not looked at.",
        ),
    )  # fmt: skip

    @classmethod
    def takes_model(cls) -> bool:
        """`--model` names the encoder of CLIP-like metrics; with another embedder this is another metric."""
        return False

    @property
    def value_range(self) -> tuple[float | None, float | None]:
        return self.info.range if self.options["dot"] == "fp16" else (-1.0, 1.0)

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        texts: Columns = batch.one_of("text")
        frames = batch.rows_of("image")
        half = self.options["dot"] == "fp16"
        dots = _half_dots(texts, frames) if half else _float_dots(texts, frames)
        values, statuses, evidence = np.zeros(batch.n), {}, truncation_evidence(texts)
        for row in range(batch.n):
            own = slice(int(frames.offsets[row]), int(frames.offsets[row + 1]))
            good = ~dots.bad_image[own]
            if dots.bad_text[row] or not good.any():
                what = "prompt" if dots.bad_text[row] else "frames"
                how = "has no direction" + (" in 16 bits (try dot=fp32)" if half else "")
                statuses[row] = (Status.DEGENERATE_EMBEDDING, f"the embedding of the {what} {how}")
                continue
            mine = dots.values[own][good]
            values[row] = half_mean(mine) if half else float(mine.mean())
            if len(good) > 1:
                evidence[row] = {**evidence.get(row, {}), **_spread(mine, len(good))}
        return make_scores(values, degenerate={}, within=self.value_range, statuses=statuses, evidence=evidence)

    def describe(self) -> dict[str, Any]:
        return {"scale": 1.0, "clamp": "none", "dot": self.options["dot"], "range": list(self.value_range)}


class _Dots:
    """Dot products of every frame with its sample's text, and which sides have no direction."""

    def __init__(self, values: np.ndarray, bad_image: np.ndarray, bad_text: np.ndarray) -> None:
        self.values, self.bad_image, self.bad_text = values, bad_image, bad_text


def _owners(frames: Ragged) -> np.ndarray:
    """The sample that each frame belongs to."""
    return np.repeat(np.arange(len(frames.offsets) - 1), np.diff(frames.offsets))


def _half_dots(texts: Columns, frames: Ragged) -> _Dots:
    text, image = half_units(texts["embedding"]), half_units(frames.columns["embedding"])
    values = half_dots(text.vectors[_owners(frames)], image.vectors)
    return _Dots(values, image.degenerate, text.degenerate)


def _float_dots(texts: Columns, frames: Ragged) -> _Dots:
    text, image = normalise(texts["embedding"]), normalise(frames.columns["embedding"])
    own = text.vectors[_owners(frames)]
    return _Dots(cosine(own, image).values, image.degenerate, text.degenerate)


def _spread(values: np.ndarray, n_frames: int) -> Mapping[str, Any]:
    """What the mean of a video hides."""
    return {
        "n_frames": n_frames,
        "n_degenerate": n_frames - len(values),
        "min": float(values.min()),
        "std": float(values.std()),
        "per_frame": [round(float(value), 6) for value in values],
    }
