"""Cards of vision-language models that answer questions (`vqa_score`): facts only; what is not known for sure is None.

Sizes are those of the published weight files, rounded. A model of more than 4 GB runs in bfloat16 unless asked
otherwise, so it takes about its parameters × 2 bytes of memory, and some GB more for caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from beholder.records import ModelCard

_LLAVA = "Liu et al. 2023, Improved Baselines with Visual Instruction Tuning, arXiv 2310.03744"
_ONEVISION = "Li et al. 2024, LLaVA-OneVision: Easy Visual Task Transfer, arXiv 2408.03326"
_PALIGEMMA = "Beyer et al. 2024, PaliGemma: A versatile 3B VLM for transfer, arXiv 2407.07726"
_PALIGEMMA2 = "Steiner et al. 2024, PaliGemma 2: A Family of Versatile VLMs for Transfer, arXiv 2412.03555"
_INTERNVL3 = "Zhu et al. 2025, InternVL3, arXiv 2504.10479"
_QWEN2 = "Wang et al. 2024, Qwen2-VL: Enhancing Vision-Language Model's Perception, arXiv 2409.12191"
_QWEN25 = "Bai et al. 2025, Qwen2.5-VL Technical Report, arXiv 2502.13923"
_LLAMA = "Grattafiori et al. 2024, The Llama 3 Herd of Models, arXiv 2407.21783"
_SMOLVLM = "Marafioti et al. 2025, SmolVLM: Redefining small and efficient multimodal models, arXiv 2504.05299"
_IDEFICS3 = "Laurençon et al. 2024, Building and better understanding vision-language models, arXiv 2408.12637"
_GEMMA3 = "Gemma Team 2025, Gemma 3 Technical Report, arXiv 2503.19786"

_APACHE = "Apache-2.0"
_LLAMA2 = "Llama 2 Community License (through Vicuna)"
_QWEN = "Qwen License"
_COMMERCIAL = {_APACHE: True, "Qwen Research License": False}

_SQUARE = "A picture is padded to a square and costs 576 tokens."
_NEXT = "A picture costs up to 2,880 tokens (whole and in tiles)."
_ANYRES = "A picture costs up to 7,290 tokens, a frame of a video 196. Takes video."
_TILES = (
    "A picture costs 256 tokens a tile of 448 px (up to 12 tiles and the whole), a frame of a video 256. Takes video."
)
_OWN_SHAPE = "A picture is taken at its own shape; its tokens grow with its pixels ({}). Takes video."
_QWEN_COST = _OWN_SHAPE.format("one for each 28 × 28")
_QWEN3_COST = _OWN_SHAPE.format("one for each 32 × 32")
_CROSS = "A picture is looked at by cross-attention, in up to 4 tiles of 560 px."
_SPLIT = "A picture is cut into tiles, which are named by row and column in the prompt."
_FIXED = "A picture is squashed to {0} × {0} px and costs {1} tokens."


class _Model(NamedTuple):
    repo: str
    family: str
    size: float  # GB
    licence: str | None
    paper: str | None
    cost: str
    aliases: tuple[str, ...]


_MODELS = (
    _Model("llava-hf/llava-1.5-7b-hf", "llava", 14.1, _LLAMA2, _LLAVA, _SQUARE, ("llava-v1.5-7b", "llava-1.5-7b")),
    _Model("llava-hf/llava-1.5-13b-hf", "llava", 26.7, _LLAMA2, _LLAVA, _SQUARE, ("llava-v1.5-13b", "llava-1.5-13b")),
    _Model("llava-hf/llava-v1.6-mistral-7b-hf", "llava_next", 15.1, _APACHE, None, _NEXT, ("llava-v1.6-mistral-7b",)),
    _Model("llava-hf/llava-v1.6-vicuna-7b-hf", "llava_next", 14.1, _LLAMA2, None, _NEXT, ("llava-v1.6-7b",)),
    _Model("llava-hf/llava-v1.6-vicuna-13b-hf", "llava_next", 26.7, _LLAMA2, None, _NEXT, ("llava-v1.6-13b",)),
    _Model("llava-hf/llava-onevision-qwen2-0.5b-ov-hf", "llava_onevision", 1.8, _APACHE, _ONEVISION, _ANYRES,
           ("llava-onevision-0.5b",)),
    _Model("llava-hf/llava-onevision-qwen2-7b-ov-hf", "llava_onevision", 16.1, _APACHE, _ONEVISION, _ANYRES,
           ("llava-onevision-7b", "llava-onevision-qwen2-7b-ov")),
    _Model("google/paligemma-3b-mix-224", "paligemma", 11.7, "Gemma", _PALIGEMMA, _FIXED.format(224, 256),
           ("paligemma-3b-mix-224",)),
    _Model("google/paligemma-3b-mix-448", "paligemma", 11.7, "Gemma", _PALIGEMMA, _FIXED.format(448, "1,024"),
           ("paligemma-3b-mix-448",)),
    _Model("google/paligemma2-3b-mix-224", "paligemma", 6.1, "Gemma", _PALIGEMMA2, _FIXED.format(224, 256),
           ("paligemma2-3b-mix-224",)),
    _Model("google/paligemma2-3b-mix-448", "paligemma", 6.1, "Gemma", _PALIGEMMA2, _FIXED.format(448, "1,024"),
           ("paligemma2-3b-mix-448",)),
    _Model("google/paligemma2-10b-mix-448", "paligemma", 19.4, "Gemma", _PALIGEMMA2, _FIXED.format(448, "1,024"),
           ("paligemma2-10b-mix-448",)),
    _Model("OpenGVLab/InternVL3-1B-hf", "internvl", 1.9, None, _INTERNVL3, _TILES, ("internvl3-1b",)),
    _Model("OpenGVLab/InternVL3-2B-hf", "internvl", 4.2, None, _INTERNVL3, _TILES, ("internvl3-2b",)),
    _Model("OpenGVLab/InternVL3-8B-hf", "internvl", 15.9, None, _INTERNVL3, _TILES, ("internvl3-8b",)),
    _Model("OpenGVLab/InternVL3-14B-hf", "internvl", 30.2, None, _INTERNVL3, _TILES, ("internvl3-14b",)),
    _Model("Qwen/Qwen2-VL-2B-Instruct", "qwen2_vl", 4.4, _APACHE, _QWEN2, _QWEN_COST, ("qwen2-vl-2b",)),
    _Model("Qwen/Qwen2-VL-7B-Instruct", "qwen2_vl", 16.6, _APACHE, _QWEN2, _QWEN_COST, ("qwen2-vl-7b",)),
    _Model("Qwen/Qwen2-VL-72B-Instruct", "qwen2_vl", 147.0, _QWEN, _QWEN2, _QWEN_COST, ("qwen2-vl-72b",)),
    _Model("Qwen/Qwen2.5-VL-3B-Instruct", "qwen2_5_vl", 7.5, "Qwen Research License", _QWEN25, _QWEN_COST,
           ("qwen2.5-vl-3b",)),
    _Model("Qwen/Qwen2.5-VL-7B-Instruct", "qwen2_5_vl", 16.6, _APACHE, _QWEN25, _QWEN_COST, ("qwen2.5-vl-7b",)),
    _Model("Qwen/Qwen2.5-VL-32B-Instruct", "qwen2_5_vl", 67.0, _APACHE, _QWEN25, _QWEN_COST, ("qwen2.5-vl-32b",)),
    _Model("Qwen/Qwen2.5-VL-72B-Instruct", "qwen2_5_vl", 147.0, _QWEN, _QWEN25, _QWEN_COST, ("qwen2.5-vl-72b",)),
    _Model("Qwen/Qwen3-VL-2B-Instruct", "qwen3_vl", 4.3, _APACHE, None, _QWEN3_COST, ("qwen3-vl-2b",)),
    _Model("Qwen/Qwen3-VL-4B-Instruct", "qwen3_vl", 8.9, _APACHE, None, _QWEN3_COST, ("qwen3-vl-4b",)),
    _Model("Qwen/Qwen3-VL-8B-Instruct", "qwen3_vl", 17.5, _APACHE, None, _QWEN3_COST, ("qwen3-vl-8b",)),
    _Model("Qwen/Qwen3-VL-30B-A3B-Instruct", "qwen3_vl_moe", 62.0, _APACHE, None, _QWEN3_COST, ("qwen3-vl-30b-a3b",)),
    _Model("meta-llama/Llama-3.2-11B-Vision-Instruct", "mllama", 21.3, "Llama 3.2 Community License", _LLAMA, _CROSS,
           ("llama-3.2-11b-vision",)),
    _Model("meta-llama/Llama-3.2-90B-Vision-Instruct", "mllama", 177.0, "Llama 3.2 Community License", _LLAMA, _CROSS,
           ("llama-3.2-90b-vision",)),
    _Model("HuggingFaceTB/SmolVLM-256M-Instruct", "idefics3", 0.5, _APACHE, _SMOLVLM, _SPLIT, ("smolvlm-256m",)),
    _Model("HuggingFaceTB/SmolVLM-500M-Instruct", "idefics3", 1.0, _APACHE, _SMOLVLM, _SPLIT, ("smolvlm-500m",)),
    _Model("HuggingFaceTB/SmolVLM-Instruct", "idefics3", 4.5, _APACHE, _SMOLVLM, _SPLIT, ("smolvlm-2b",)),
    _Model("HuggingFaceTB/SmolVLM2-2.2B-Instruct", "smolvlm", 9.0, _APACHE, _SMOLVLM, _SPLIT, ("smolvlm2-2.2b",)),
    _Model("HuggingFaceM4/Idefics3-8B-Llama3", "idefics3", 16.9, _APACHE, _IDEFICS3, _SPLIT, ("idefics3-8b",)),
    _Model("google/gemma-3-4b-it", "gemma3", 8.6, "Gemma", _GEMMA3, _FIXED.format(896, 256), ("gemma-3-4b",)),
    _Model("google/gemma-3-12b-it", "gemma3", 24.4, "Gemma", _GEMMA3, _FIXED.format(896, 256), ("gemma-3-12b",)),
    _Model("google/gemma-3-27b-it", "gemma3", 54.9, "Gemma", _GEMMA3, _FIXED.format(896, 256), ("gemma-3-27b",)),
)  # fmt: skip


def cards() -> Sequence[ModelCard]:
    """Cards of the vision-language models that are known by name; `hf:<repository or folder>` serves others too."""
    return [
        ModelCard(
            capabilities=("AnswerScorer",),
            id=f"hf:{model.repo}",
            engine="hf",
            family=model.family,
            arch=model.family,
            weights=model.repo,
            source=model.repo,
            size_bytes=round(model.size * 1e9),
            licence=model.licence,
            commercial=_COMMERCIAL.get(model.licence or ""),
            paper=model.paper,
            aliases=model.aliases,
            notes=("Answers questions about pictures (vqa_score).", model.cost),
        )
        for model in _MODELS
    ]
