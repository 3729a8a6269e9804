"""Cards of OpenS2V's models: the embedder of gme_score and nexus_score, and detectors that are prompted by a picture.

Facts only; what is not known is None.
"""

from __future__ import annotations

from collections.abc import Iterator

from beholder.records import ModelCard

GME_REPO = "Alibaba-NLP/gme-Qwen2-VL-7B-Instruct"
_GME = "Zhang et al. 2024, GME: Improving Universal Multimodal Retrieval by Multimodal LLMs, arXiv 2412.16855"

OPENS2V_REPO = "BestWishYsh/OpenS2V-Weight"
YOLO_FILE = "yolo_world_v2_l_image_prompt_adapter-719a7afb.pth"
YOLO_CLIP_REPO = "openai/clip-vit-base-patch32"
OWL_REPO = "google/owlv2-base-patch16-ensemble"
_YOLO = "Cheng et al. 2024, YOLO-World: Real-Time Open-Vocabulary Object Detection, arXiv 2401.17270"
_OWL = "Minderer et al. 2023, Scaling Open-Vocabulary Object Detection, arXiv 2306.09683"


def cards() -> Iterator[ModelCard]:
    """The cards."""
    yield from _gme()
    yield from _detectors()


def _detectors() -> Iterator[ModelCard]:
    for order, alias, note in (
        ("", "yolo-world-v2-l-image", "Pictures go in as BGR, as OpenS2V has it."),
        ("-rgb", "yolo-world-v2-l-image-rgb", "Pictures go in as RGB, as the network was trained; not OpenS2V's."),
    ):
        yield ModelCard(
            id=f"yolo_world:v2-l-image-prompt{order}",
            engine="yolo_world",
            family="yolo_world",
            arch="v2-l-image-prompt",
            weights=YOLO_FILE,
            source=OPENS2V_REPO,
            files=(YOLO_FILE,),
            licence="GPL-3.0",
            paper=_YOLO,
            input_size=(640, 640),
            aliases=(alias,),
            capabilities=("ExampleDetector",),
            layout_verified="listing",
            notes=(
                "Finds what looks like an example picture: CLIP ViT-B/32 embeds the example, a projector makes it the "
                "class.",
                note,
                "WORLDFOUNDRY_YOLO_WORLD_CKPT names its file, WORLDFOUNDRY_YOLO_CLIP_MODEL the folder of "
                "openai/clip-vit-base-patch32.",
            ),
        )
    yield ModelCard(
        id=f"owlv2:{OWL_REPO}",
        engine="owlv2",
        family="owlv2",
        arch="owlv2",
        weights=OWL_REPO,
        source=OWL_REPO,
        licence="Apache-2.0",
        commercial=True,
        paper=_OWL,
        input_size=(960, 960),
        aliases=("owlv2",),
        capabilities=("ExampleDetector",),
        notes=("Finds what looks like an example picture. A named variant: its scores are not YOLO-World's.",),
    )


def _gme() -> Iterator[ModelCard]:
    for repo, alias, width, size in (
        (GME_REPO, "gme-qwen2-vl-7b", 3584, None),
        ("Alibaba-NLP/gme-Qwen2-VL-2B-Instruct", "gme-qwen2-vl-2b", 1536, 8_850_000_000),
    ):
        yield ModelCard(
            id=f"gme:{repo}",
            engine="gme",
            family="gme",
            arch="qwen2_vl",
            weights=repo,
            source=repo,
            size_bytes=size,
            licence="Apache-2.0",
            commercial=True,
            paper=_GME,
            context_length=1800,
            embed_dim=width,
            aliases=(alias,),
            notes=(
                "Qwen2-VL as an encoder: plain positions, last token; float16 as OpenS2V runs it, so it needs a GPU "
                "unless another dtype is named.",
                "WORLDFOUNDRY_GME_MODEL_PATH names a folder for the 7B model.",
            ),
        )
