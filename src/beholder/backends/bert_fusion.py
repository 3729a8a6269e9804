"""BERT whose upper layers also look at visual tokens: the text side of ALBEF's descendants (UMT, InternVideo2).

The lower layers read the text alone; from `fusion_layer` on, each layer has a cross-attention between its
self-attention and its feed-forward part. Everything is post-norm, GELU is the exact one (erf), and the key names are
those of the published state dicts. Sources: Devlin et al. 2019 (arXiv 1810.04805), Li et al. 2021 (ALBEF, arXiv
2107.07651).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Shapes = dict[str, tuple[int, ...]]

_EPS = 1e-12
_LAYER = re.compile(r"encoder\.layer\.(\d+)\.")


@dataclass(frozen=True)
class BertSizes:
    """Sizes of a fusion BERT.

    Args:
        width: hidden width.
        inner: width of the feed-forward part.
        layers: number of layers.
        fusion_layer: first layer with cross-attention; the layers below read the text alone.
        vocabulary: tokens of the vocabulary.
        positions: longest text.
        types: number of token types; 0 is used for every token.
        visual_width: width of the visual tokens.
        head_width: width of one attention head, 64 in BERT base and large.
    """

    width: int
    inner: int
    layers: int
    fusion_layer: int
    vocabulary: int
    positions: int
    types: int
    visual_width: int
    head_width: int = 64

    @property
    def heads(self) -> int:
        """Attention heads."""
        return self.width // self.head_width

    @classmethod
    def of(cls, shapes: Mapping[str, tuple[int, ...]]) -> BertSizes:
        """The sizes that a state dict's shapes tell; its names without prefix.

        Raises:
            KeyError: a name that every such state dict has is not there.
        """
        vocabulary, width = shapes["embeddings.word_embeddings.weight"]
        numbers = {int(found[1]) for name in shapes if (found := _LAYER.match(name))}
        crossed = [int(found[1]) for name in shapes if "crossattention" in name and (found := _LAYER.match(name))]
        first = min(crossed) if crossed else -1
        return cls(
            width=width,
            inner=shapes["encoder.layer.0.intermediate.dense.weight"][0],
            layers=max(numbers) + 1,
            fusion_layer=first,
            vocabulary=vocabulary,
            positions=shapes["embeddings.position_embeddings.weight"][0],
            types=shapes["embeddings.token_type_embeddings.weight"][0],
            visual_width=shapes[f"encoder.layer.{first}.crossattention.self.key.weight"][1],
        )

    def layout(self) -> Shapes:
        """Every tensor of the state dict by name, with its shape."""
        width = self.width
        shapes: Shapes = {
            "embeddings.word_embeddings.weight": (self.vocabulary, width),
            "embeddings.position_embeddings.weight": (self.positions, width),
            "embeddings.token_type_embeddings.weight": (self.types, width),
            **norm("embeddings.LayerNorm", width),
        }
        for number in range(self.layers):
            base = f"encoder.layer.{number}"
            shapes |= self._attention(f"{base}.attention", width)
            if number >= self.fusion_layer:
                shapes |= self._attention(f"{base}.crossattention", self.visual_width)
            shapes |= linear(f"{base}.intermediate.dense", width, self.inner)
            shapes |= linear(f"{base}.output.dense", self.inner, width) | norm(f"{base}.output.LayerNorm", width)
        return shapes

    def _attention(self, base: str, source: int) -> Shapes:
        return {
            **linear(f"{base}.self.query", self.width, self.width),
            **linear(f"{base}.self.key", source, self.width),
            **linear(f"{base}.self.value", source, self.width),
            **linear(f"{base}.output.dense", self.width, self.width),
            **norm(f"{base}.output.LayerNorm", self.width),
        }


class FusionBert:
    """A fusion BERT.

    Args:
        weights: the tensors by their names without prefix, all that `sizes.layout()` lists.
        sizes: its sizes.
    """

    def __init__(self, weights: Mapping[str, Any], sizes: BertSizes) -> None:
        self._weights, self._sizes = weights, sizes

    def read(self, ids: Any, mask: Any) -> Any:
        """Texts alone: (n, t) ids and (n, t) mask of ones and zeros to hidden states (n, t, width).

        Row 0 of a text ([CLS]) stands for it.
        """
        import torch.nn.functional as F

        names = ("word", "position", "token_type")
        words, positions, types = (self._weights[f"embeddings.{name}_embeddings.weight"] for name in names)
        hidden = F.embedding(ids, words) + types[0] + positions[: ids.shape[1]]
        hidden = self._norm("embeddings.LayerNorm", hidden)
        for number in range(self._sizes.fusion_layer):
            hidden = self._layer(number, hidden, mask, None)
        return hidden

    def fuse(self, hidden: Any, mask: Any, visual: Any) -> Any:
        """Texts with visuals: hidden states from `read` and visual tokens (n, v, visual_width) to (n, t, width)."""
        for number in range(self._sizes.fusion_layer, self._sizes.layers):
            hidden = self._layer(number, hidden, mask, visual)
        return hidden

    def _layer(self, number: int, hidden: Any, mask: Any, visual: Any) -> Any:
        import torch.nn.functional as F

        base = f"encoder.layer.{number}"
        hidden = self._attend(f"{base}.attention", hidden, hidden, mask)
        if visual is not None:
            hidden = self._attend(f"{base}.crossattention", hidden, visual, None)
        inner = F.gelu(self._linear(f"{base}.intermediate.dense", hidden))
        return self._norm(f"{base}.output.LayerNorm", self._linear(f"{base}.output.dense", inner) + hidden)

    def _attend(self, base: str, hidden: Any, source: Any, mask: Any) -> Any:
        import torch.nn.functional as F

        query = self._heads(self._linear(f"{base}.self.query", hidden))
        key, value = (self._heads(self._linear(f"{base}.self.{name}", source)) for name in ("key", "value"))
        allowed = None if mask is None else mask[:, None, None, :].bool()
        context = F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
        context = context.transpose(1, 2).flatten(2)
        return self._norm(f"{base}.output.LayerNorm", self._linear(f"{base}.output.dense", context) + hidden)

    def _heads(self, values: Any) -> Any:
        return values.unflatten(-1, (self._sizes.heads, self._sizes.head_width)).transpose(1, 2)

    def _linear(self, name: str, values: Any) -> Any:
        import torch.nn.functional as F

        return F.linear(values, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _norm(self, name: str, values: Any) -> Any:
        import torch.nn.functional as F

        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        return F.layer_norm(values, (values.shape[-1],), weight, bias, _EPS)


def linear(name: str, source: int, target: int) -> Shapes:
    """The shapes of a linear layer with bias."""
    return {f"{name}.weight": (target, source), f"{name}.bias": (target,)}


def norm(name: str, width: int) -> Shapes:
    """The shapes of a layer norm."""
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}
