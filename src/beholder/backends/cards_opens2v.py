"""Cards of OpenS2V's models: the embedder of gme_score and nexus_score. Facts only; what is not known is None."""

from __future__ import annotations

from collections.abc import Iterator

from beholder.records import ModelCard

GME_REPO = "Alibaba-NLP/gme-Qwen2-VL-7B-Instruct"
_GME = "Zhang et al. 2024, GME: Improving Universal Multimodal Retrieval by Multimodal LLMs, arXiv 2412.16855"


def cards() -> Iterator[ModelCard]:
    """The cards."""
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
