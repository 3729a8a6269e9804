"""Cards of the encoder-decoder models that answer questions: CLIP-FlanT5, InstructBLIP and BLIP-2 with Flan-T5."""

from __future__ import annotations

from collections.abc import Iterator

from beholder.records import ModelCard

VQASCORE_TEMPLATE = 'Does this figure show "{text}"? Please answer yes or no.'
"""The published question of CLIP-FlanT5; its published variant is sequence_mean (DECISIONS, Numbers)."""

_VQASCORE = "Lin et al. 2024, Evaluating Text-to-Visual Generation with Image-to-Text Generation, arXiv 2404.01291"
_INSTRUCTBLIP = "Dai et al. 2023, InstructBLIP, arXiv 2305.06500"
_BLIP2 = "Li et al. 2023, BLIP-2, arXiv 2301.12597"

# name, repository, size of the download (xl: pytorch_model.bin, config and tokenizer together; xxl: its tensors in
# bfloat16, counted from the layout)
_CLIP_T5 = (
    ("xxl", "zhiqiulin/clip-flant5-xxl", 22_919_639_040, "11 billion parameters and the vision tower."),
    ("xl", "zhiqiulin/clip-flant5-xl", 6_327_057_688, "3 billion parameters and the vision tower."),
)
_BLIPS = (
    ("instructblip", "xl", "Salesforce/instructblip-flan-t5-xl", _INSTRUCTBLIP, "4 billion parameters."),
    ("instructblip", "xxl", "Salesforce/instructblip-flan-t5-xxl", _INSTRUCTBLIP, "12 billion parameters."),
    ("blip-2", "xl", "Salesforce/blip2-flan-t5-xl", _BLIP2, "3.94 billion parameters."),
    ("blip-2", "xxl", "Salesforce/blip2-flan-t5-xxl", _BLIP2, "12.2 billion parameters."),
)
_SHARED = {
    "instructblip": "The Q-Former reads the question, so only the vision tower's work is shared by a picture's texts.",
    "blip-2": "Vision tower, Q-Former and projection run once a picture, whatever is asked about it.",
}
_MEMORY = "Loaded in bfloat16 by default; the files are float32, so loading takes their size in memory."


def cards() -> Iterator[ModelCard]:
    """All of them; sizes and licences that are not known are None."""
    for size, repo, weight, note in _CLIP_T5:
        yield ModelCard(
            capabilities=("AnswerScorer",),
            id=f"hf:{repo}",
            engine="hf",
            family="clip_t5",
            arch=f"CLIP-FlanT5-{size.upper()}",
            weights=repo,
            source=repo,
            size_bytes=weight,
            licence="research use only (README of github.com/linzhiqiu/CLIP-FlanT5)",
            commercial=False,
            paper=_VQASCORE,
            input_size=(336, 336),
            context_length=2048,
            english_only=True,
            aliases=(f"clip-flant5-{size}",),
            layout_verified="listing",
            notes=(
                note,
                f"Published question: {VQASCORE_TEMPLATE} Published answer: Yes, by sequence_mean.",
                "Vision tower and projector run once a picture; T5 reads picture and question together, once a pair.",
                "The layout follows the training code and a public loader that accepts the file key by key.",
            ),
        )
    for family, size, repo, paper, note in _BLIPS:
        name = f"{family.replace('-', '')}-flant5-{size}"
        yield ModelCard(
            capabilities=("AnswerScorer",),
            id=f"hf:{repo}",
            engine="hf",
            family=family,
            arch=name,
            weights=repo,
            source=repo,
            licence="MIT" if family == "blip-2" else None,
            commercial=True if family == "blip-2" else None,
            paper=paper,
            input_size=(224, 224),
            context_length=128 if family == "instructblip" else 512,
            english_only=True,
            aliases=(name,),
            notes=(note, _SHARED[family], _MEMORY),
        )
