"""Cards of the segmenters and of the encoders of pictures alone: facts only; what is not known for sure is None."""

from __future__ import annotations

from collections.abc import Iterator

from beholder.records import ModelCard

_GDINO = "Liu et al. 2023, Grounding DINO, arXiv 2303.05499"
_MM_GDINO = "Zhao et al. 2024, An Open and Comprehensive Pipeline for Unified Object Grounding, arXiv 2401.02361"
_OMDET = "Zhao et al. 2024, Real-time Transformer-based Open-Vocabulary Detection, arXiv 2403.06892"
_OWLV2 = "Minderer et al. 2023, Scaling Open-Vocabulary Object Detection, arXiv 2306.09683"
_SAM = "Kirillov et al. 2023, Segment Anything, arXiv 2304.02643"
_SAM2 = "Ravi et al. 2024, SAM 2, arXiv 2408.00714"
_SAM_REPO, _SAM2_REPO = "facebook/sam-vit-huge", "facebook/sam2.1-hiera-large"

_PAIRS = (
    ("gdino+sam", "IDEA-Research/grounding-dino-base", _SAM_REPO, f"{_GDINO}; {_SAM}"),
    ("gdino+sam2", "IDEA-Research/grounding-dino-base", _SAM2_REPO, f"{_GDINO}; {_SAM2}"),
    ("mm-gdino+sam", "openmmlab-community/mm_grounding_dino_base_all", _SAM_REPO, f"{_MM_GDINO}; {_SAM}"),
    ("mm-gdino+sam2", "openmmlab-community/mm_grounding_dino_base_all", _SAM2_REPO, f"{_MM_GDINO}; {_SAM2}"),
    ("omdet+sam", "omlab/omdet-turbo-swin-tiny-hf", _SAM_REPO, f"{_OMDET}; {_SAM}"),
    ("owlv2+sam", "google/owlv2-base-patch16-ensemble", _SAM_REPO, f"{_OWLV2}; {_SAM}"),
)
_PLAIN = (
    ("masks", "The masks that stand in the manifest."),
    ("boxes", "The rectangles that stand in the column boxes."),
    ("color", "For flat art and tests: a colour that is named, else all that differs from the border's."),
)

_DINO = "Caron et al. 2021, Emerging Properties in Self-Supervised Vision Transformers, arXiv 2104.14294"
_DINOV2 = "Oquab et al. 2023, DINOv2, arXiv 2304.07193"
_DINOV3 = "Siméoni et al. 2025, DINOv3, arXiv 2508.10104"

# repository, architecture, family, width, alias, licence, paper
_ENCODERS = (
    ("facebook/dino-vits16", "ViT-S-16", "vit", 384, "dino-vits16", "Apache-2.0", _DINO),
    ("facebook/dino-vits8", "ViT-S-8", "vit", 384, "dino-vits8", "Apache-2.0", _DINO),
    ("facebook/dino-vitb16", "ViT-B-16", "vit", 768, "dino-vitb16", "Apache-2.0", _DINO),
    ("facebook/dino-vitb8", "ViT-B-8", "vit", 768, "dino-vitb8", "Apache-2.0", _DINO),
    ("facebook/dinov2-small", "ViT-S-14", "dinov2", 384, "dinov2-small", "Apache-2.0", _DINOV2),
    ("facebook/dinov2-base", "ViT-B-14", "dinov2", 768, "dinov2-base", "Apache-2.0", _DINOV2),
    ("facebook/dinov2-large", "ViT-L-14", "dinov2", 1024, "dinov2-large", "Apache-2.0", _DINOV2),
    ("facebook/dinov2-giant", "ViT-g-14", "dinov2", 1536, "dinov2-giant", "Apache-2.0", _DINOV2),
    ("facebook/dinov3-vits16-pretrain-lvd1689m", "ViT-S-16", "dinov3_vit", 384, "dinov3-vits16", None, _DINOV3),
    ("facebook/dinov3-vitb16-pretrain-lvd1689m", "ViT-B-16", "dinov3_vit", 768, "dinov3-vitb16", None, _DINOV3),
    ("facebook/dinov3-vitl16-pretrain-lvd1689m", "ViT-L-16", "dinov3_vit", 1024, "dinov3-vitl16", None, _DINOV3),
)
_GATED = "Gated: ask for access on the hub, or name a folder that holds the files."


def cards() -> Iterator[ModelCard]:
    """The cards, by engine."""
    yield ModelCard(
        id="sam3:facebook/sam3", engine="sam3", family="sam3", arch="sam3", weights="facebook/sam3",
        source="facebook/sam3", size_bytes=3_300_000_000, licence="SAM License",
        paper="Carion et al. 2025, SAM 3: Segment Anything with Concepts, arXiv 2511.16719", input_size=(1008, 1008),
        context_length=32, english_only=True, aliases=("sam3",), capabilities=("Segmenter",),
        notes=(_GATED, "Needs transformers 5 or newer.", "Takes short noun phrases of at most 32 tokens."),
    )  # fmt: skip
    yield ModelCard(
        id="clipseg:CIDAS/clipseg-rd64-refined", engine="clipseg", family="clipseg", arch="rd64-refined",
        weights="CIDAS/clipseg-rd64-refined", source="CIDAS/clipseg-rd64-refined", size_bytes=603_000_000,
        licence="Apache-2.0", commercial=True, paper="Lüddecke and Ecker 2021, CLIPSeg, arXiv 2112.10003",
        input_size=(352, 352), context_length=77, english_only=True, aliases=("clipseg",), capabilities=("Segmenter",),
        notes=("Small and coarse: one soft mask a phrase, no instances.",),
    )  # fmt: skip
    for name, detector, masker, paper in _PAIRS:
        yield ModelCard(
            id=f"{name}:{detector}+{masker}", engine=name, family=name, arch=name, weights=f"{detector}+{masker}",
            source=detector, licence="Apache-2.0", paper=paper, english_only=True, aliases=(name,),
            capabilities=("Segmenter",), notes=(f"Boxes from {detector}, masks from {masker}.",),
        )  # fmt: skip
    for name, note in _PLAIN:
        yield ModelCard(
            id=name, engine=name, family=name, arch=name, weights="", aliases=(name,),
            capabilities=("Segmenter",), notes=(note,),
        )  # fmt: skip
    for repo, arch, family, width, alias, licence, paper in _ENCODERS:
        gated = family == "dinov3_vit"
        yield ModelCard(
            id=f"hf:{repo}", engine="hf", family=family, arch=arch, weights=repo, source=repo,
            licence="DINOv3 License" if gated else licence, commercial=None if gated else True, paper=paper,
            input_size=(224, 224), embed_dim=width, aliases=(alias,), capabilities=("ImageEncoder",),
            notes=(_GATED,) if gated else (),
        )  # fmt: skip
