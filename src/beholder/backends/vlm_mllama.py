"""Llama 3.2 Vision (Mllama): the picture is looked at by cross-attention, not read as tokens."""

from __future__ import annotations

from typing import Any

from beholder.backends.vlm_generic import Visual
from beholder.backends.vlm_prefix import PrefixVLM


class MllamaVLM(PrefixVLM):
    """A Llama 3.2 Vision model: the prefix ends at the picture's mark, the cache holds its keys and values."""

    MODEL_CLASS = "MllamaForConditionalGeneration"
    PROCESSOR_CLASS = "MllamaProcessor"
    TOKEN_INPUTS = ("cross_attention_mask",)

    def _continuation(self, visual: Visual, count: int, length: int) -> dict[str, Any]:
        import torch

        end = self._visual_end(visual)
        mask = visual.extras["cross_attention_mask"][:, :end]
        # All text behind the picture's mark looks at the tiles that the mark itself looks at.
        rest = mask[:, -1:].expand(-1, length, -1, -1)
        whole = torch.cat([mask, rest], dim=1).expand(count, -1, -1, -1)
        return {"cross_attention_mask": whole.to(self._device)}
