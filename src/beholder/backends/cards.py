"""Cards of the models that are known by name: facts only; what is not known for sure is None."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from beholder._errors import PlannedError
from beholder.backends.sizes import FLOAT32_BYTES
from beholder.records import ModelCard

DEMO_FOLDER = Path(__file__).resolve().parent.parent / "assets" / "demo_emoji"
PICKSCORE_PROCESSOR = "laion/CLIP-ViT-H-14-laion2B-s32B-b79K"
"""Repository whose tokenizer and preprocessing belong to PickScore v1."""

_CLIP = "Radford et al. 2021, Learning Transferable Visual Models From Natural Language Supervision, arXiv 2103.00020"
_OPEN_CLIP = "Cherti et al. 2022, Reproducible scaling laws for contrastive language-image learning, arXiv 2212.07143"
_DATACOMP = "Gadre et al. 2023, DataComp, arXiv 2304.14108"
_SIGLIP = "Zhai et al. 2023, Sigmoid Loss for Language Image Pre-Training, arXiv 2303.15343"
_SIGLIP2 = "Tschannen et al. 2025, SigLIP 2, arXiv 2502.14786"
_METACLIP = "Xu et al. 2023, Demystifying CLIP Data, arXiv 2309.16671"
_METACLIP2 = "Chuang et al. 2025, MetaCLIP 2: A Worldwide Scaling Recipe, arXiv 2507.22062"
_DFN = "Fang et al. 2023, Data Filtering Networks, arXiv 2309.17425"
_EVA = "Sun et al. 2023, EVA-CLIP, arXiv 2303.15389"
_ALTCLIP = "Chen et al. 2022, AltCLIP, arXiv 2211.06679"
_CHINESE = "Yang et al. 2022, Chinese CLIP, arXiv 2211.01335"
_PICKSCORE = "Kirstain et al. 2023, Pick-a-Pic, arXiv 2305.01569"

_OPENAI_NOTE = "OpenAI's model card calls any deployed use out of scope."
_COMMERCIAL = {"MIT": True, "Apache-2.0": True, "CC-BY-NC-4.0": False}
_MIT_OPENAI = "MIT (repository openai/CLIP)"

# repository, architecture, input side, width, size of the weight file (rounded where the hub's listing rounds)
_OPENAI_HF = (
    ("openai/clip-vit-base-patch32", "ViT-B-32", 224, 512, 605_000_000),
    ("openai/clip-vit-base-patch16", "ViT-B-16", 224, 512, 599_000_000),
    ("openai/clip-vit-large-patch14", "ViT-L-14", 224, 768, 1_710_540_580),
    ("openai/clip-vit-large-patch14-336", "ViT-L-14-336", 336, 768, 1_710_000_000),
)
_SIGLIPS = (
    ("google/siglip-base-patch16-224", "ViT-B-16-SigLIP", 224, 768),
    ("google/siglip-base-patch16-256", "ViT-B-16-SigLIP-256", 256, 768),
    ("google/siglip-base-patch16-384", "ViT-B-16-SigLIP-384", 384, 768),
    ("google/siglip-base-patch16-512", "ViT-B-16-SigLIP-512", 512, 768),
    ("google/siglip-large-patch16-256", "ViT-L-16-SigLIP-256", 256, 1024),
    ("google/siglip-large-patch16-384", "ViT-L-16-SigLIP-384", 384, 1024),
    ("google/siglip-so400m-patch14-384", "ViT-SO400M-14-SigLIP-384", 384, 1152),
)
_SIGLIP2S = (
    ("google/siglip2-base-patch16-224", "ViT-B-16-SigLIP2", 224, 768),
    ("google/siglip2-base-patch16-256", "ViT-B-16-SigLIP2-256", 256, 768),
    ("google/siglip2-base-patch16-384", "ViT-B-16-SigLIP2-384", 384, 768),
    ("google/siglip2-base-patch16-512", "ViT-B-16-SigLIP2-512", 512, 768),
    ("google/siglip2-base-patch32-256", "ViT-B-32-SigLIP2-256", 256, 768),
    ("google/siglip2-large-patch16-256", "ViT-L-16-SigLIP2-256", 256, 1024),
    ("google/siglip2-large-patch16-384", "ViT-L-16-SigLIP2-384", 384, 1024),
    ("google/siglip2-large-patch16-512", "ViT-L-16-SigLIP2-512", 512, 1024),
    ("google/siglip2-so400m-patch14-224", "ViT-SO400M-14-SigLIP2", 224, 1152),
    ("google/siglip2-so400m-patch14-384", "ViT-SO400M-14-SigLIP2-378", 384, 1152),
    ("google/siglip2-so400m-patch16-256", "ViT-SO400M-16-SigLIP2-256", 256, 1152),
    ("google/siglip2-so400m-patch16-384", "ViT-SO400M-16-SigLIP2-384", 384, 1152),
    ("google/siglip2-so400m-patch16-512", "ViT-SO400M-16-SigLIP2-512", 512, 1152),
)

# arch, pretrained tag, hub repository, licence, paper: open_clip's pairs that people use most.
_PAIRS = (
    ("ViT-B-32", "laion2b_s34b_b79k", "laion/CLIP-ViT-B-32-laion2B-s34B-b79K", "MIT", _OPEN_CLIP),
    ("ViT-B-32", "datacomp_xl_s13b_b90k", "laion/CLIP-ViT-B-32-DataComp.XL-s13B-b90K", "MIT", _DATACOMP),
    ("ViT-B-32-256", "datacomp_s34b_b86k", "laion/CLIP-ViT-B-32-256x256-DataComp-s34B-b86K", "MIT", _DATACOMP),
    ("ViT-B-16", "laion2b_s34b_b88k", "laion/CLIP-ViT-B-16-laion2B-s34B-b88K", "MIT", _OPEN_CLIP),
    ("ViT-B-16", "datacomp_xl_s13b_b90k", "laion/CLIP-ViT-B-16-DataComp.XL-s13B-b90K", "MIT", _DATACOMP),
    ("ViT-L-14", "laion2b_s32b_b82k", "laion/CLIP-ViT-L-14-laion2B-s32B-b82K", "MIT", _OPEN_CLIP),
    ("ViT-L-14", "datacomp_xl_s13b_b90k", "laion/CLIP-ViT-L-14-DataComp.XL-s13B-b90K", "MIT", _DATACOMP),
    ("ViT-H-14", "laion2b_s32b_b79k", "laion/CLIP-ViT-H-14-laion2B-s32B-b79K", "MIT", _OPEN_CLIP),
    ("ViT-g-14", "laion2b_s34b_b88k", "laion/CLIP-ViT-g-14-laion2B-s34B-b88K", "MIT", _OPEN_CLIP),
    ("ViT-bigG-14", "laion2b_s39b_b160k", "laion/CLIP-ViT-bigG-14-laion2B-39B-b160k", "MIT", _OPEN_CLIP),
    (
        "ViT-B-16-quickgelu",
        "metaclip_fullcc",
        "timm/vit_base_patch16_clip_224.metaclip_2pt5b",
        "CC-BY-NC-4.0",
        _METACLIP,
    ),
    (
        "ViT-L-14-quickgelu",
        "metaclip_fullcc",
        "timm/vit_large_patch14_clip_224.metaclip_2pt5b",
        "CC-BY-NC-4.0",
        _METACLIP,
    ),
    (
        "ViT-H-14-quickgelu",
        "metaclip_fullcc",
        "timm/vit_huge_patch14_clip_224.metaclip_2pt5b",
        "CC-BY-NC-4.0",
        _METACLIP,
    ),
    ("ViT-B-16-quickgelu", "dfn2b", "apple/DFN2B-CLIP-ViT-B-16", None, _DFN),
    ("ViT-L-14-quickgelu", "dfn2b", "apple/DFN2B-CLIP-ViT-L-14", None, _DFN),
    ("ViT-H-14-quickgelu", "dfn5b", "apple/DFN5B-CLIP-ViT-H-14", None, _DFN),
    ("EVA02-L-14", "merged2b_s4b_b131k", "timm/eva02_large_patch14_clip_224.merged2b_s4b_b131k", None, _EVA),
    ("ViT-B-16-SigLIP", "webli", "timm/ViT-B-16-SigLIP", "Apache-2.0", _SIGLIP),
    ("ViT-SO400M-14-SigLIP-384", "webli", "timm/ViT-SO400M-14-SigLIP-384", "Apache-2.0", _SIGLIP),
    ("ViT-B-16-SigLIP2", "webli", "timm/ViT-B-16-SigLIP2", "Apache-2.0", _SIGLIP2),
    ("ViT-SO400M-14-SigLIP2-378", "webli", "timm/ViT-SO400M-14-SigLIP2-378", "Apache-2.0", _SIGLIP2),
)
_OPENAI_PAIRS = (
    ("RN50", "timm/resnet50_clip.openai"),
    ("RN101", "timm/resnet101_clip.openai"),
    ("RN50x4", "timm/resnet50x4_clip.openai"),
    ("RN50x16", "timm/resnet50x16_clip.openai"),
    ("RN50x64", "timm/resnet50x64_clip.openai"),
    ("ViT-B-32", "timm/vit_base_patch32_clip_224.openai"),
    ("ViT-B-16", "timm/vit_base_patch16_clip_224.openai"),
    ("ViT-L-14", "timm/vit_large_patch14_clip_224.openai"),
    ("ViT-L-14-336", "timm/vit_large_patch14_clip_336.openai"),
)


CARD_MODULES: tuple[str, ...] = (
    "beholder.backends.cards_api",
    "beholder.backends.cards_blip",
    "beholder.backends.cards_clips",
    "beholder.backends.cards_faces",
    "beholder.backends.cards_scores",
    "beholder.backends.cards_opens2v",
    "beholder.backends.cards_pixels",
    "beholder.backends.cards_vlm",
    "beholder.backends.cards_video",
    "beholder.backends.cards_t5",
    "beholder.backends.cards_segment",
    "beholder.backends.cards_sets",
)
"""Modules with the cards of other families: each has a function `cards()` and imports nothing heavy."""


def all_cards() -> tuple[ModelCard, ...]:
    """Cards of all models known by name, by engine and id; imports nothing heavy."""
    return tuple(_cards_by_id().values())


def card_of(model_id: str) -> ModelCard | None:
    """The card of a canonical id; a revision is looked past."""
    return _cards_by_id().get(model_id.partition("@")[0])


def refuse_planned(asked: str, card: ModelCard | None) -> None:
    """Refuses a model that is listed only.

    Raises:
        PlannedError: with the reason on its card.
    """
    if card is not None and card.planned:
        raise PlannedError(f"{asked} is listed but cannot be used yet: {card.planned}")


def aliases() -> dict[str, str]:
    """Other names of the known models → canonical id."""
    return dict(_alias_table())


def known_ids() -> tuple[str, ...]:
    """Canonical ids of the known models."""
    return tuple(_cards_by_id())


def expected_activation(repo: str) -> str | None:
    """The activation that a repository's weights were trained with ("quick_gelu", "gelu"), where it is known."""
    if repo.startswith("openai/clip-vit-"):
        return "quick_gelu"
    if repo.startswith("laion/CLIP-ViT-") or repo == "yuvalkirstain/PickScore_v1":
        return "gelu"
    return None


@lru_cache(maxsize=1)
def _cards_by_id() -> dict[str, ModelCard]:
    cards = [*_openai_hf(), _pickscore(), *_siglip_hf(), *_other_hf(), *_open_clip(), demo_card(), *_fake()]
    for name in CARD_MODULES:
        cards += importlib.import_module(name).cards()
    return {card.id: card for card in cards}


@lru_cache(maxsize=1)
def _alias_table() -> dict[str, str]:
    return {alias: card.id for card in _cards_by_id().values() for alias in card.aliases}


def _openai_hf() -> Iterator[ModelCard]:
    for repo, arch, side, width, size in _OPENAI_HF:
        yield ModelCard(
            id=f"hf:{repo}",
            engine="hf",
            family="clip",
            arch=arch,
            weights=repo,
            source=repo,
            size_bytes=size,
            licence=_MIT_OPENAI,
            paper=_CLIP,
            input_size=(side, side),
            context_length=77,
            embed_dim=width,
            english_only=True,
            aliases=(f"openai:{arch}", f"openai:{arch}-quickgelu"),
            notes=(_OPENAI_NOTE, "QuickGELU activation."),
        )


def _pickscore() -> ModelCard:
    return ModelCard(
        id="hf:yuvalkirstain/PickScore_v1",
        engine="hf",
        family="pickscore",
        arch="ViT-H-14",
        weights="yuvalkirstain/PickScore_v1",
        source="yuvalkirstain/PickScore_v1",
        size_bytes=3_940_000_000,
        paper=_PICKSCORE,
        input_size=(224, 224),
        context_length=77,
        embed_dim=1024,
        english_only=True,
        aliases=("pickscore-v1",),
        notes=(f"Tokenizer and preprocessing from {PICKSCORE_PROCESSOR}.",),
    )


def _siglip_hf() -> Iterator[ModelCard]:
    for family, paper, models in (("siglip", _SIGLIP, _SIGLIPS), ("siglip2", _SIGLIP2, _SIGLIP2S)):
        for repo, arch, side, width in models:
            yield ModelCard(
                id=f"hf:{repo}",
                engine="hf",
                family=family,
                arch=arch,
                weights=repo,
                source=repo,
                licence="Apache-2.0",
                commercial=True,
                paper=paper,
                size_bytes=FLOAT32_BYTES.get(arch),
                input_size=(side, side),
                context_length=64,
                embed_dim=width,
                english_only=family == "siglip",
            )


def _other_hf() -> Iterator[ModelCard]:
    for repo in ("facebook/metaclip-2-worldwide-huge-quickgelu", "facebook/metaclip-2-worldwide-giant"):
        yield ModelCard(
            id=f"hf:{repo}", engine="hf", family="metaclip2", arch=repo.partition("worldwide-")[2], weights=repo,
            source=repo, paper=_METACLIP2, context_length=77,
        )  # fmt: skip
    yield ModelCard(
        id="hf:BAAI/AltCLIP", engine="hf", family="altclip", arch="ViT-L-14", weights="BAAI/AltCLIP",
        source="BAAI/AltCLIP", licence="CreativeML-OpenRAIL-M",
        commercial=True, paper=_ALTCLIP, input_size=(224, 224), context_length=77, embed_dim=768,
        notes=("Texts in English and Chinese.", "The licence restricts some uses."),
    )  # fmt: skip
    for name, arch, side, width in (
        ("chinese-clip-vit-base-patch16", "ViT-B-16", 224, 512),
        ("chinese-clip-vit-large-patch14", "ViT-L-14", 224, 768),
        ("chinese-clip-vit-large-patch14-336px", "ViT-L-14-336", 336, 768),
        ("chinese-clip-vit-huge-patch14", "ViT-H-14", 224, 1024),
    ):
        yield ModelCard(
            id=f"hf:OFA-Sys/{name}", engine="hf", family="chinese_clip", arch=arch, weights=f"OFA-Sys/{name}",
            source=f"OFA-Sys/{name}", paper=_CHINESE, input_size=(side, side), context_length=52, embed_dim=width,
            notes=("Trained on Chinese texts of at most 52 tokens.",),
        )  # fmt: skip


def _open_clip() -> Iterator[ModelCard]:
    for arch, tag, repo, licence, paper in _PAIRS:
        yield ModelCard(
            id=f"open_clip:{arch}/{tag}", engine="open_clip", family="siglip" if "SigLIP" in arch else "clip",
            arch=arch, weights=tag, source=repo, licence=licence, paper=paper, size_bytes=FLOAT32_BYTES.get(arch),
            commercial=_COMMERCIAL.get(licence or ""), english_only="SigLIP2" not in arch, aliases=(f"{tag}:{arch}",),
        )  # fmt: skip
    for arch, repo in _OPENAI_PAIRS:
        yield ModelCard(
            id=f"open_clip:{arch}-quickgelu/openai", engine="open_clip", family="clip", arch=f"{arch}-quickgelu",
            weights="openai", source=repo, size_bytes=FLOAT32_BYTES.get(f"{arch}-quickgelu", FLOAT32_BYTES.get(arch)),
            licence=_MIT_OPENAI, paper=_CLIP, context_length=77, english_only=True,
            notes=(_OPENAI_NOTE, "QuickGELU activation."),
        )  # fmt: skip


def demo_card() -> ModelCard:
    """The card of the embedded demo encoder, with what its own card file says where it has been built."""
    facts: dict[str, Any] = {}
    path = DEMO_FOLDER / "card.json"
    if path.is_file():
        facts = json.loads(path.read_text(encoding="utf-8"))
    notes = facts.get("notes", ())
    return ModelCard(
        id="demo:emoji",
        engine="demo",
        family="clip",
        arch=str(facts.get("arch", "emoji")),
        weights="emoji",
        licence=facts.get("licence"),
        commercial=facts.get("commercial"),
        english_only=True,
        size_bytes=sum(item.stat().st_size for item in DEMO_FOLDER.iterdir()) if path.is_file() else None,
        notes=(
            "For trying things out: it knows emoji scenes, nothing else.",
            *([notes] if isinstance(notes, str) else notes),
        ),
    )


def _fake() -> Iterator[ModelCard]:
    yield ModelCard(
        id="fake",
        engine="fake",
        family="fake",
        arch="fake",
        weights="",
        embed_dim=64,
        aliases=("fake",),
        notes=("For tests of your own code: embeddings come from content by arithmetic and mean nothing.",),
    )
