"""Cards of BLIP's matchers and of the reward models built on BLIP."""

from __future__ import annotations

from beholder.records import ModelCard

_BLIP = "Li et al. 2022, BLIP: Bootstrapping Language-Image Pre-training, arXiv 2201.12086"
_BLIP2 = "Li et al. 2023, BLIP-2: Bootstrapping Language-Image Pre-training, arXiv 2301.12597"
_IMAGE_REWARD = "Xu et al. 2023, ImageReward: Learning and Evaluating Human Preferences, arXiv 2304.05977"
_FACESCORE = "Liao et al. 2024, FaceScore: Benchmarking and Enhancing Face Quality, arXiv 2406.17100"

_TEXT = "Texts are cut at 35 tokens, as in the original retrieval code."
_MEAN = "The two logits are averaged over the 32 query tokens before the softmax."
_COSINE = "Also gives the contrastive cosine: the largest over the 32 query tokens."


def cards() -> list[ModelCard]:
    """All cards of this family."""
    return [*_blip(), *_blip2(), _vit_l(), _image_reward(), _facescore()]


def _blip() -> list[ModelCard]:
    rows = (("base", "ViT-B-16", 895_000_000), ("large", "ViT-L-16", 1_780_000_000))
    return [
        ModelCard(
            capabilities=("Matcher",),
            id=f"hf:Salesforce/blip-itm-{size}-coco", engine="hf", family="blip", arch=arch,
            weights=f"Salesforce/blip-itm-{size}-coco", source=f"Salesforce/blip-itm-{size}-coco",
            size_bytes=nbytes, licence="BSD-3-Clause", commercial=True, paper=_BLIP, input_size=(384, 384),
            context_length=35, english_only=True, aliases=(f"blip-itm-{size}",),
            notes=(
                "Fine-tuned for retrieval on COCO.", _TEXT,
                "The text begins with [CLS], as in BLIP's demo and in transformers; LAVIS puts [ENC] there.",
            ),
        )
        for size, arch, nbytes in rows
    ]  # fmt: skip


def _blip2() -> list[ModelCard]:
    rows = (("vit-g", 224, ("blip2-itm", "blip2-itc"), ()),
            ("vit-g-coco", 364, ("blip2-itm-coco", "blip2-itc-coco"), ("Fine-tuned on COCO.",)))  # fmt: skip
    return [
        ModelCard(
            capabilities=("Matcher",),
            id=f"hf:Salesforce/blip2-itm-{name}", engine="hf", family="blip-2", arch="EVA-ViT-g-14",
            weights=f"Salesforce/blip2-itm-{name}", source=f"Salesforce/blip2-itm-{name}",
            size_bytes=4_690_000_000, licence="MIT", commercial=True, paper=_BLIP2, input_size=(side, side),
            context_length=35, english_only=True, aliases=aliases, notes=(*notes, _MEAN, _COSINE, _TEXT),
        )
        for name, side, aliases, notes in rows
    ]  # fmt: skip


def _vit_l() -> ModelCard:
    return ModelCard(
        capabilities=("Matcher",),
        id="lavis:blip2_pretrained_vitL", engine="lavis", family="blip-2", arch="CLIP-ViT-L-14",
        weights="blip2_pretrained_vitL",
        source="https://storage.googleapis.com/sfr-vision-language-research/LAVIS/models/BLIP2/",
        licence="BSD-3-Clause (repository salesforce/LAVIS)", commercial=True,
        paper=_BLIP2, input_size=(224, 224), context_length=35, english_only=True,
        aliases=("blip2-itm-vitL", "blip2-itc-vitL"), layout_verified="no",
        notes=(
            "Original files blip2_pretrained_vitL.pth and clip_vit_L.pth, published without hashes: no repository of "
            "the hub holds them in transformers' layout.",
            "The image tower is OpenAI's CLIP; its model card calls any deployed use out of scope.",
            _MEAN, _COSINE, _TEXT,
        ),
    )  # fmt: skip


def _image_reward() -> ModelCard:
    return ModelCard(
        capabilities=("Matcher",),
        id="image_reward:THUDM/ImageReward", engine="image_reward", family="image-reward", arch="BLIP ViT-L",
        weights="THUDM/ImageReward", source="THUDM/ImageReward", size_bytes=1_786_880_927,
        sha256={"ImageReward.pt": "d71dc8d4912bc633c06ab8ef1ef6a81e8199d4369f14b47b29baf1d19de561f6"},
        licence="Apache-2.0", commercial=True, paper=_IMAGE_REWARD, input_size=(224, 224), context_length=35,
        english_only=True, aliases=("image-reward-v1",), layout_verified="no",
        notes=(
            "Its value is a reward, standardised by its authors: about mean 0 and standard deviation 1, not bounded.",
            "The short side becomes 224 pixels and the centre is cropped: edges of wide pictures are not seen.",
            "Needs the tokenizer of bert-base-uncased too.", _TEXT,
        ),
    )  # fmt: skip


def _facescore() -> ModelCard:
    return ModelCard(
        capabilities=("Matcher",),
        id="facescore:AIGCer-OPPO/FaceScore", engine="facescore", family="facescore", arch="BLIP ViT-L",
        weights="AIGCer-OPPO/FaceScore", source="AIGCer-OPPO/FaceScore", size_bytes=1_790_000_000,
        licence="Apache-2.0", commercial=True, paper=_FACESCORE, input_size=(224, 224), context_length=35,
        english_only=True, aliases=("facescore",), layout_verified="no",
        notes=(
            'Scores the crop of a face with the text "A face."; the detector is a model of its own.',
            "ImageReward's standardisation is not applied: values are raw and not bounded.",
            "Also looked for as OPPOer/FaceScore, in FaceScore_model/.",
            "Needs the tokenizer of bert-base-uncased too.",
        ),
    )  # fmt: skip
