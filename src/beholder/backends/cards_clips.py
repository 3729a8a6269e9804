"""Cards of what measures clips frame by frame: optical flow, differences, and scorers of frames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from beholder.records import ModelCard

FARNEBACK: dict[str, Any] = {
    "library": "opencv",
    "flow": "farneback",
    "pyr_scale": 0.5,
    "levels": 3,
    "winsize": 15,
    "iterations": 3,
    "poly_n": 5,
    "poly_sigma": 1.2,
    "width": 16,
    "resize": "area",
}
DIFFERENCES: dict[str, Any] = {"library": "numpy", "difference": "mean absolute, RGB levels"}
SHARPNESS: dict[str, Any] = {"library": "numpy", "sharpness": "x / (x + 4), x = mean |Laplacian| of the gray levels"}
Q_ALIGN = (
    "Q-Align runs code of its own (mPLUG-Owl2) that transformers does not have; score frames with a scorer of your own "
    "(beholder.register_model), or take OpenS2V's own file: beholder bench opens2v --from-official"
)


def cards() -> Iterator[ModelCard]:
    """The cards."""
    plain = "Arithmetic only, no weights."
    yield ModelCard(
        id="farneback:opencv", engine="farneback", family="flow", arch="farneback", weights="opencv",
        preprocessing=FARNEBACK, commercial=True, aliases=("farneback",), capabilities=("ClipMeter",),
        paper="Farnebäck 2003, Two-Frame Motion Estimation Based on Polynomial Expansion",
        notes=(f"{plain} Needs the extra motion (OpenCV).",),
    )  # fmt: skip
    yield ModelCard(
        id="differences:rgb", engine="differences", family="flow", arch="differences", weights="rgb",
        preprocessing=DIFFERENCES, commercial=True, aliases=("differences",), capabilities=("ClipMeter",),
        notes=(plain,),
    )  # fmt: skip
    yield ModelCard(
        id="sharpness:laplacian", engine="sharpness", family="sharpness", arch="laplacian", weights="laplacian",
        preprocessing=SHARPNESS, commercial=True, aliases=("sharpness",), capabilities=("FrameScorer",),
        notes=(f"{plain} A stand-in for trying things out: it knows sharpness, nothing of quality.",),
    )  # fmt: skip
    yield ModelCard(
        id="qalign:q-future/one-align", engine="qalign", family="qalign", arch="mplug_owl2",
        weights="q-future/one-align", source="q-future/one-align", aliases=("qalign",),
        capabilities=("FrameScorer",), planned=Q_ALIGN,
        paper="Wu et al. 2023, Q-Align: Teaching LMMs for Visual Scoring via Discrete Text-Defined Levels, "
        "arXiv 2312.17090",
    )  # fmt: skip
    note = "Pictures are prepared as VBench prepares frames: resized as floats, without antialiasing."
    yield ModelCard(
        id="vbench:facebook/dino-vitb16", engine="vbench", family="vit", arch="ViT-B-16",
        weights="facebook/dino-vitb16", source="facebook/dino-vitb16", licence="Apache-2.0", commercial=True,
        input_size=(224, 224), embed_dim=768,
        aliases=("vbench-dino",), capabilities=("ImageEncoder",),
        paper="Caron et al. 2021, Emerging Properties in Self-Supervised Vision Transformers, arXiv 2104.14294",
        notes=(note, "The short side becomes 224 and the whole frame is looked at."),
    )  # fmt: skip
    yield ModelCard(
        id="vbench:openai/clip-vit-base-patch32", engine="vbench", family="clip", arch="ViT-B-32",
        weights="openai/clip-vit-base-patch32", source="openai/clip-vit-base-patch32", size_bytes=605_000_000,
        licence="MIT (repository openai/CLIP)", commercial=True, input_size=(224, 224), embed_dim=512,
        aliases=("vbench-clip",), capabilities=("ImageEncoder",),
        paper="Radford et al. 2021, Learning Transferable Visual Models From Natural Language Supervision, "
        "arXiv 2103.00020",
        notes=(note, "VBench runs it in float16 on a GPU; here it runs in float32 unless asked."),
    )  # fmt: skip
