"""16 questions about one picture, beside one bare visual pass and 16 bare text passes of the same network.

The visual pass is the stock model over the prompt up to the picture's last token (tower, projector, language model),
its keys and values kept. A text pass is the stock language model over what one question adds, on those keys and
values. Ours renders and tokenises the prompts too, and reads the probabilities. The picture is prepared beforehand on
both sides; logits are asked for at the last place on both sides.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.models_vlm import COLON, write, write_tokenizer

from beholder.backends.pool import load_model, resolve_model
from beholder.media.base import DecodeOptions
from beholder.media.sources import as_medium
from benchmarks.pictures import write_pictures
from benchmarks.table import Row, at_least, at_most, seconds

TEXTS, TIMES = 16, 3
QUESTIONS = [f'Does this image show "{at + 2} dogs that run behind the red fence number {at}"?' for at in range(TEXTS)]


def measure(folder: Path) -> list[Row]:
    scorer = load_model(resolve_model(str(_model(folder / "model")), capability="AnswerScorer"), device="cpu")
    (path,) = write_pictures(folder / "out", 1, 400)
    visual = scorer.prepare([as_medium(str(path)).decode(DecodeOptions())])
    pairs = [(0, question) for question in QUESTIONS]
    bare = Bare(scorer, visual)
    calls: dict[str, Callable[[], object]] = {
        "ours": lambda: scorer.answer([visual], pairs),
        "visual": bare.visual_pass,
        "texts": bare.text_passes,
        "whole": bare.whole_pass,
    }
    for call in calls.values():
        call()
    # In turns, so that a busy machine slows all of them alike.
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(TIMES):
        for name, call in calls.items():
            times[name].append(seconds(call))
    ours, one, texts, whole = (statistics.median(times[name]) for name in calls)
    return [
        at_most(
            f"{TEXTS} questions about one picture, against 1 visual pass + {TEXTS} text passes", ours, one + texts, 1.15
        ),
        at_least(
            f"{TEXTS} questions about one picture, times faster than {TEXTS} whole passes", ours, whole * TEXTS, 3
        ),
    ]


class Bare:
    """The same network by hand."""

    def __init__(self, scorer: Any, visual: Any) -> None:
        import torch

        self._torch = torch
        self._network = scorer._network
        end = scorer._visual_end(visual)
        self._inputs = scorer._to_device(visual.inputs)
        prompts = [scorer._prompt_ids(visual, question) for question in QUESTIONS]
        self._prefix = torch.tensor([prompts[0][:end]])
        self._tails = [torch.tensor([prompt[end:]]) for prompt in prompts]
        self._cache_name = scorer._cache_name
        self._cache: Any = None

    def visual_pass(self) -> None:
        from transformers import DynamicCache

        self._cache = DynamicCache()
        self._run(input_ids=self._prefix, **self._inputs, **{self._cache_name: self._cache})

    def text_passes(self) -> None:
        for tail in self._tails:
            self._run(input_ids=tail, **{self._cache_name: self._cache})
            self._cache.crop(-tail.shape[1])

    def whole_pass(self) -> None:
        self._run(input_ids=self._torch.cat([self._prefix, self._tails[0]], dim=1), **self._inputs)

    def _run(self, **inputs: Any) -> None:
        with self._torch.inference_mode():
            self._network(**inputs, use_cache=True, logits_to_keep=1)


def _model(folder: Path) -> Path:
    """A LLaVA with random weights: a tower of CLIP ViT-B/16's size at 336 px, a Llama of 8 layers of width 768."""
    import torch
    from transformers import LlavaConfig, LlavaForConditionalGeneration

    ids = write_tokenizer(folder, ["<image>"], template=COLON)
    tower = {
        "model_type": "clip_vision_model", "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
        "num_attention_heads": 12, "image_size": 336, "patch_size": 16,
    }  # fmt: skip
    text = {
        "model_type": "llama", "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 8,
        "num_attention_heads": 12, "num_key_value_heads": 12, "vocab_size": 32000, "max_position_embeddings": 4096,
    }  # fmt: skip
    config = LlavaConfig(vision_config=tower, text_config=text, image_token_index=ids["<image>"])
    torch.manual_seed(0)
    LlavaForConditionalGeneration(config).save_pretrained(folder)
    write(folder / "preprocessor_config.json", {
        "image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 336},
        "crop_size": {"height": 336, "width": 336}, "resample": 3,
    })  # fmt: skip
    write(folder / "processor_config.json", {"processor_class": "LlavaProcessor", "image_token": "<image>"})
    return folder
