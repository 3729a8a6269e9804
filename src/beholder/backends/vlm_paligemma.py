"""PaliGemma: the whole prompt is read in both directions, so only the visual features are shared between texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from beholder.backends.forward import forward_pass
from beholder.backends.vlm_generic import Targets, Visual, read_rows
from beholder.backends.vlm_prefix import PrefixVLM
from beholder.backends.vlm_prompt import Style


class PaliGemmaVLM(PrefixVLM):
    """PaliGemma and PaliGemma 2 (the `mix` models). The prompt is the published one for questions: `answer en …`.

    Prompt tokens look at each other in both directions. Prompts of one picture go through in batches, padded on the
    left, with the picture's features computed once; an answer's further tokens go on from the cache, looking back.
    """

    MODEL_CLASS = "PaliGemmaForConditionalGeneration"
    PROCESSOR_CLASS = "PaliGemmaProcessor"
    ARRAYS = "np"  # the class makes numpy arrays of its tensors in a way that numpy 2 warns of
    STYLE = Style(plain="{visual}answer en {question}", ignore_template=True)

    def _score(self, visual: Visual, prompts: Sequence[list[int]], targets: Targets) -> list[np.ndarray]:
        rows: dict[int, np.ndarray] = {}
        with forward_pass():
            features = self._features(visual)
            for group in self._groups(prompts):
                logits = self._read_prompts(features, [prompts[number] for number in group], targets.answer)
                rows.update(zip(group, read_rows(logits, targets), strict=True))
        return [rows[number] for number in range(len(prompts))]

    def _features(self, visual: Visual) -> Any:
        """(1, tokens, width): the picture in the language model's space."""
        found = self._network.model.get_image_features(**self._to_device(visual.inputs))
        return getattr(found, "pooler_output", found)

    def _read_prompts(self, features: Any, prompts: Sequence[Sequence[int]], answer: Sequence[int]) -> Any:
        """(n, len(answer), vocabulary) logits at the places of the answer's tokens."""
        import torch
        from transformers import DynamicCache

        length = max(len(ids) for ids in prompts)
        padding = [length - len(ids) for ids in prompts]
        ids = self._long([[prompt[-1]] * pad + list(prompt) for pad, prompt in zip(padding, prompts, strict=True)])
        mask = self._long([[0] * pad + [1] * (length - pad) for pad in padding])
        positions = (mask.cumsum(dim=1)).clamp(min=1)  # PaliGemma counts from 1
        cache = DynamicCache(config=self._network.config.get_text_config())
        output = self._network(
            inputs_embeds=self._embed(ids, features),
            attention_mask=mask,
            position_ids=positions,
            token_type_ids=torch.zeros_like(ids),
            **{self._cache_name: cache},
            use_cache=True,
            logits_to_keep=1,
        )
        if len(answer) == 1:
            return output.logits[:, -1:]
        further = self._long([list(answer[:-1])] * len(prompts))
        counted = torch.arange(1, further.shape[1] + 1, device=ids.device)
        rest = self._network(
            input_ids=further,
            attention_mask=torch.cat([mask, torch.ones_like(further)], dim=1),
            position_ids=positions[:, -1:] + counted,
            **{self._cache_name: cache},
            use_cache=True,
        )
        return torch.cat([output.logits[:, -1:], rest.logits], dim=1)

    def _embed(self, ids: Any, features: Any) -> Any:
        """Embeddings of prompts with the picture's features in their places."""
        pixel = self._network.config.image_token_id
        places = ids == pixel
        # The picture's token may lie beyond the vocabulary.
        embeddings = self._network.get_input_embeddings()(ids.masked_fill(places, 0))
        many = features.to(embeddings.dtype).expand(len(ids), -1, -1)
        return embeddings.masked_scatter(places[..., None], many)
