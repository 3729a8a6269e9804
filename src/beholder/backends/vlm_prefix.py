"""Vision-language models that read from left to right: everything up to the visual's end is computed once.

A token of such a model looks back only, so keys and values of the prompt's beginning, with the visual in it, are the
same whatever is asked behind it. They are computed once for each visual; then all its questions go through as the
continuations of one cache, in batches, padded on the left (between the visual's end and the question), with positions
counted as if there were no padding. The logits of the last places are those of the answer.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from beholder._errors import NoValue
from beholder.backends.base import ResolvedModel
from beholder.backends.forward import forward_pass
from beholder.backends.vlm_generic import GenericVLM, Targets, Visual, read_rows


class PrefixVLM(GenericVLM):
    """A vision-language model whose visual prefix is computed once for all questions about a visual."""

    def __init__(self, model: ResolvedModel, *, device: str) -> None:
        super().__init__(model, device=device)
        names = inspect.signature(type(self._network).forward).parameters
        # transformers renamed the argument in version 5.2x.
        self._cache_name = "cache" if "cache" in names else "past_key_values"
        text = self._network.config.get_text_config()
        kinds = getattr(text, "layer_types", None) or ()
        # A window counts places, padding too; questions of one length need none.
        self._pads = "sliding_attention" not in kinds

    def _prompt_ids(self, visual: Visual, question: str) -> list[int]:
        ids = super()._prompt_ids(visual, question)
        end = self._visual_end(visual)
        if ids[:end] != visual.ids[:end] or len(ids) <= end:
            raise NoValue("not_applicable", "the question changes the tokens of the visual before it")
        return ids

    def _score(self, visual: Visual, prompts: Sequence[list[int]], targets: Targets) -> list[np.ndarray]:
        end = self._visual_end(visual)
        tails = [[*ids[end:], *targets.answer[:-1]] for ids in prompts]
        rows: dict[int, np.ndarray] = {}
        with forward_pass():
            cache = self._read_prefix(visual, end)
            groups = list(self._groups(tails))
            for at, group in enumerate(groups):
                # The last batch may use the cache itself up.
                mine = cache if at == len(groups) - 1 else copy.deepcopy(cache)
                logits = self._continue(visual, mine, [tails[number] for number in group], end, len(targets.answer))
                rows.update(zip(group, read_rows(logits, targets), strict=True))
        return [rows[number] for number in range(len(prompts))]

    def _groups(self, tails: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Numbers of the questions that go through together: neighbours in length, so that little is padding."""
        order = sorted(range(len(tails)), key=lambda number: len(tails[number]))
        size = max(1, min(self._rows, self.pair_batch))
        group: list[int] = []
        for number in order:
            if group and (len(group) == size or not (self._pads or len(tails[group[0]]) == len(tails[number]))):
                yield group
                group = []
            group.append(number)
        if group:
            yield group

    def _read_prefix(self, visual: Visual, end: int) -> Any:
        """Keys and values of the prompt up to the visual's end."""
        from transformers import DynamicCache

        cache = DynamicCache(config=self._network.config.get_text_config())
        self._network(
            input_ids=self._long([visual.ids[:end]]),
            attention_mask=self._long([[1] * end]),
            **self._to_device(visual.inputs),
            **{name: value[:, :end].to(self._device) for name, value in visual.extras.items()},
            **{self._cache_name: cache},
            use_cache=True,
            logits_to_keep=1,
        )
        return cache

    def _continue(self, visual: Visual, cache: Any, tails: Sequence[Sequence[int]], end: int, keep: int) -> Any:
        """(n, keep, vocabulary) logits at the last `keep` places of n continuations; uses the cache up."""
        length = max(len(tail) for tail in tails)
        padding = [length - len(tail) for tail in tails]
        cache.batch_repeat_interleave(len(tails))
        positions = [[end + max(0, at - pad) for at in range(length)] for pad in padding]
        output = self._network(
            input_ids=self._long([[tail[0]] * pad + list(tail) for pad, tail in zip(padding, tails, strict=True)]),
            attention_mask=self._long([[1] * end + [0] * pad + [1] * (length - pad) for pad in padding]),
            position_ids=self._positions(self._long(positions)),
            **self._continuation(visual, len(tails), length),
            **{self._cache_name: cache},
            use_cache=True,
            logits_to_keep=keep,
        )
        return output.logits[:, -keep:]

    def _positions(self, positions: Any) -> Any:
        """Positions of the continuations, (n, length), in the form that the model takes."""
        return positions

    def _continuation(self, visual: Visual, count: int, length: int) -> dict[str, Any]:
        """What else the model needs to go on behind the visual."""
        return {}
