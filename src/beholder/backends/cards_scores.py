"""Cards of models that score pictures by preference, aesthetics and art: facts only; what is not known is None."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from beholder.records import ModelCard

HPS_REPO = "xswu/HPSv2"
HPS_FILES = {"v2.0": "HPS_v2_compressed.pt", "v2.1": "HPS_v2.1_compressed.pt"}
LAION_V2_FILE = "sac+logos+ava1-l14-linearMSE.pth"
LAION_V25_FILE = "aesthetic_predictor_v2_5.pth"
ARTSCORE_FILE = "loss@listMLE_model@resnet50_denseLayer@True_batch_size@16_lr@0.0001_dropout@0.5_E_8.pth"

_RAW = "https://github.com/{repo}/raw/main/{path}"
LAION_V2_URL = _RAW.format(repo="christophschuhmann/improved-aesthetic-predictor", path=quote(LAION_V2_FILE))
LAION_V25_URL = _RAW.format(repo="discus0434/aesthetic-predictor-v2-5", path=f"models/{LAION_V25_FILE}")
ARTSCORE_URL = _RAW.format(repo="jchen175/ArtScore", path=f"ckpt/{quote(ARTSCORE_FILE)}")

_HPS = "Wu et al. 2023, Human Preference Score v2, arXiv 2306.09341"
_HPS_RAW = {"v2.0": "0.20 to 0.35", "v2.1": "0.20 to 0.35"}


def cards() -> Iterator[ModelCard]:
    """The cards, by engine."""
    for version, file in HPS_FILES.items():
        yield _hps(version, file)
    yield from (_laion_v2(), _laion_v25(), _artscore())


def _hps(version: str, file: str) -> ModelCard:
    return ModelCard(
        id=f"hps:{version}", engine="hps", family="hps", arch="ViT-H-14", weights=version, source=HPS_REPO,
        files=(file,), licence="Apache-2.0", commercial=True, paper=_HPS, input_size=(224, 224), context_length=77,
        embed_dim=1024, english_only=True, aliases=("hpsv2" if version == "v2.0" else "hpsv2.1",),
        notes=(
            f"HPS {version}: the score is the plain cosine, without logit scale; raw values lie mostly within "
            f"{_HPS_RAW[version]}, and published tables show them times 100.",
            "Only scores of one prompt compare, and never those of v2.0 with those of v2.1.",
            "The long side becomes 224 pixels and black fills the square, as in the authors' package: nothing is "
            "cropped. A local copy named as open_clip:ViT-H-14//path/to/file crops the centre instead.",
            "Plain GELU. Tokenizer from laion/CLIP-ViT-H-14-laion2B-s32B-b79K.",
        ),
    )  # fmt: skip


def _laion_v2() -> ModelCard:
    return ModelCard(
        id="aesthetic:laion-v2", engine="aesthetic", family="aesthetic", capabilities=("EmbeddingHead",),
        arch="linear-768", weights="laion-v2", files=(LAION_V2_FILE,), size_bytes=3_714_759,
        sha256={LAION_V2_FILE: "21dd590f3ccdc646f0d53120778b296013b096a035a2718c9cb0d511bff0f1e0"},
        licence="Apache-2.0 (repository christophschuhmann/improved-aesthetic-predictor, which holds the file)",
        commercial=True, embed_dim=768, layout_verified="weights", aliases=("laion-aesthetic-v2",),
        notes=(
            f"A head on the normalised image embedding of OpenAI's CLIP ViT-L/14; {LAION_V2_FILE}.",
            "Trained on ratings from 1 to 10 (SAC, LAION-Logos, AVA); most pictures get 4 to 7.",
            "OpenS2V's aesthetic-model.pth is looked for too.",
        ),
    )  # fmt: skip


def _laion_v25() -> ModelCard:
    return ModelCard(
        id="aesthetic:v2.5", engine="aesthetic", family="aesthetic", capabilities=("EmbeddingHead",),
        arch="linear-1152", weights="v2.5", files=(LAION_V25_FILE,), size_bytes=2_644_834,
        sha256={LAION_V25_FILE: "a6caf256b3dc434273c98dcb12f6bf17c5d4fc647d8df11f038386923dd06220"},
        licence="AGPL-3.0 (repository discus0434/aesthetic-predictor-v2-5, which holds the file)",
        commercial=True, embed_dim=1152, layout_verified="weights", aliases=("laion-aesthetic-v2.5",),
        notes=(
            "A head on the normalised image embedding of SigLIP so400m-patch14-384, by another author than v2.",
            "Values are on a scale from 1 to 10; by its author 5.5 and more is a great picture.",
            "The AGPL allows commercial use on its conditions.",
        ),
    )  # fmt: skip


def _artscore() -> ModelCard:
    return ModelCard(
        id="artscore:resnet50", engine="artscore", family="artscore", capabilities=("ImageScorer",), arch="resnet50",
        weights="resnet50", files=(ARTSCORE_FILE,), licence="MIT (repository jchen175/ArtScore, which holds the file)",
        paper="Chen et al. 2023, Learning to Evaluate the Artness of AI-generated Images, arXiv 2305.04923",
        input_size=(224, 224), aliases=("artscore",), layout_verified="listing",
        notes=(
            "Only ranks and differences mean anything: the loss (ListMLE) does not change when all scores are shifted, "
            "so there is no zero, no range and no threshold between art and no art.",
            "It tells art from photographs; it is no score of beauty or quality.",
            "Trained on series of 12 pictures from a photograph (label 0) to an artwork (11), blends by StyleGAN2 of "
            "faces, landscapes and horses: elsewhere it is biased. AdamW, 1e-4, 16 series a batch, dropout 0.5, "
            "epoch 8; flips and rotations of up to 15 degrees.",
            "Its training pictures (FFHQ among them) have terms of their own, so commercial use was not settled.",
        ),
    )  # fmt: skip
