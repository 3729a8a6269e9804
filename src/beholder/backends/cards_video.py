"""Cards of video-text models: facts only; what is not known for sure is None."""

from __future__ import annotations

from collections.abc import Iterator

from beholder.records import ModelCard

_UMT = "Li et al. 2023, Unmasked Teacher, arXiv 2303.16058"
_INTERNVIDEO2 = "Wang et al. 2024, InternVideo2, arXiv 2403.15377"
_XCLIP = "Ni et al. 2022, Expanding Language-Image Pretrained Models for General Video Recognition, arXiv 2208.02816"
_VIDEOPRISM = "Zhao et al. 2024, VideoPrism, arXiv 2402.13217"
_VIDEOPRISM_LICENCE = "Apache-2.0 for software, CC-BY-4.0 for all else (repository google-deepmind/videoprism)"
_LANGUAGEBIND = "Zhu et al. 2023, LanguageBind, arXiv 2310.01852"

_LAYOUT_NOTE = (
    "Names and shapes follow the authors' public source (tests/reference/layouts); no weight file was at hand."
)
_LOGIT_NOTE = (
    "Matching: our logit is that of match less that of no match; public tools print the match logit alone, which is "
    "another number."
)
_STILL_NOTE = "A picture is a clip of equal frames; the authors' code has positions of its own for single pictures."
LANGUAGEBIND_REASON = (
    "its layers attend over time with weights (temporal_attn, temporal_embedding, temporal_layer_norm1) that no class "
    "of transformers has; a stock CLIP would leave them out. Use hf:google/videoprism-lvt-base-f16r288 instead"
)

# repository, input side, frames, trained on, width
_XCLIPS = (
    ("xclip-base-patch32", 224, 8, "Kinetics-400", 512),
    ("xclip-base-patch32-16-frames", 224, 16, "Kinetics-400", 512),
    ("xclip-base-patch16", 224, 8, "Kinetics-400", 512),
    ("xclip-base-patch16-16-frames", 224, 16, "Kinetics-400", 512),
    ("xclip-base-patch16-kinetics-600", 224, 8, "Kinetics-600", 512),
    ("xclip-base-patch16-zero-shot", 224, 32, "Kinetics-400, for zero-shot use", 512),
    ("xclip-large-patch14", 224, 8, "Kinetics-400", 768),
    ("xclip-large-patch14-16-frames", 336, 16, "Kinetics-400", 768),
    ("xclip-large-patch14-kinetics-600", 224, 8, "Kinetics-600", 768),
)


def cards() -> Iterator[ModelCard]:
    """Cards of X-CLIP, VideoPrism, UMT, InternVideo2 and LanguageBind."""
    yield from _xclip()
    for name, width in (("videoprism-lvt-base-f16r288", 768), ("videoprism-lvt-large-f8r288", 1024)):
        yield ModelCard(
            capabilities=("VideoTextEncoder",),
            id=f"hf:google/{name}", engine="hf", family="videoprism", arch=name, weights=f"google/{name}",
            source=f"google/{name}", licence=_VIDEOPRISM_LICENCE, commercial=True, paper=_VIDEOPRISM,
            input_size=(288, 288), context_length=64, embed_dim=width, english_only=True, aliases=(name,),
            notes=(
                "Serves video-text similarity (VideoTextEncoder).",
                "Pictures are resized by Pillow; transformers' processor does it in torch.",
            ),
        )  # fmt: skip
    for arch, alias, width in (("B/16", "b16", 512), ("L/16", "l16", 768)):
        yield ModelCard(
            capabilities=("VideoTextEncoder", "Matcher"),
            id=f"umt:{alias}-25m", engine="umt", family="umt", arch=f"UMT-{arch}", weights=f"{alias}-25m",
            source=f"zhiqiulin/umt_{alias}_25m", paper=_UMT, input_size=(224, 224), context_length=32, embed_dim=width,
            english_only=True, layout_verified="listing",
            aliases=(f"umt-{alias}-25m-clip", f"umt-{alias}-25m-itm", f"{alias}_ptk710_f8_res224"),
            notes=(
                "Serves similarity (VideoTextEncoder) and matching (Matcher) from one file; clips of 4 frames.",
                f"The authors' own copy is multi_modality/{alias}_25m.pth (repository OpenGVLab/unmasked_teacher).",
                "The similarity is the mean of the frames' cosines; embeddings of two videos are not to be compared.",
                _LOGIT_NOTE, _STILL_NOTE, _LAYOUT_NOTE,
            ),
        )  # fmt: skip
    yield ModelCard(
        capabilities=("VideoTextEncoder", "Matcher"),
        id="internvideo2:1b-stage2", engine="internvideo2", family="internvideo2", arch="InternVideo2-1B",
        weights="1b-stage2", source="OpenGVLab/InternVideo2-Stage2_1B-224p-f4", paper=_INTERNVIDEO2,
        input_size=(224, 224), context_length=40, embed_dim=512, english_only=True, layout_verified="listing",
        aliases=("internvideo2-1b-stage2-clip", "internvideo2-1b-stage2-itm", "internvl_c_13b_224px"),
        notes=(
            "Serves similarity (VideoTextEncoder) and matching (Matcher) from one file; clips of 4 frames.",
            "The hub asks for consent to its terms before a download.",
            "Exact GELU, as in the authors' demo.",
            _LOGIT_NOTE, _STILL_NOTE, _LAYOUT_NOTE,
        ),
    )  # fmt: skip
    for name in ("LanguageBind_Video", "LanguageBind_Video_FT", "LanguageBind_Video_merge"):
        yield ModelCard(
            capabilities=("VideoTextEncoder",),
            id=f"hf:LanguageBind/{name}", engine="hf", family="languagebind", arch="ViT-L-14",
            weights=f"LanguageBind/{name}", source=f"LanguageBind/{name}", paper=_LANGUAGEBIND,
            aliases=(name.lower().replace("_", "-"),), planned=LANGUAGEBIND_REASON,
        )  # fmt: skip


_XCLIP_BYTES = {"base-patch32": 786_000_000, "base-patch16": 780_000_000, "large-patch14": 2_303_000_000}
"""Parameters of the architectures at four bytes each; the number of frames adds a few kilobytes."""


def _xclip() -> Iterator[ModelCard]:
    for name, side, frames, data, width in _XCLIPS:
        yield ModelCard(
            capabilities=("Matcher",),
            id=f"xclip:microsoft/{name}", engine="xclip", family="xclip", arch=name, weights=f"microsoft/{name}",
            size_bytes=next(size for part, size in _XCLIP_BYTES.items() if part in name),
            source=f"microsoft/{name}", licence="MIT", commercial=True, paper=_XCLIP, input_size=(side, side),
            context_length=77, embed_dim=width, english_only=True, aliases=(name,),
            notes=(
                "A text's embedding depends on the video, so it scores pairs (Matcher, head itc: the cosine).",
                f"Clips of {frames} frames; trained on {data}.",
            ),
        )  # fmt: skip
