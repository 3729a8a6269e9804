"""InternVideo2 stage 2's network: a vision transformer with attention pooling, and a fusion BERT.

Wang et al. 2024, InternVideo2, arXiv 2403.15377; layout of the state dict after OpenGVLab/InternVideo
(InternVideo2/multi_modality). Blocks are pre-norm with RMS norms, queries and keys are normed over the whole width,
each branch is scaled channel by channel, positions are stored, and all tokens are pooled by one attention whose query
is their mean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from beholder.backends.bert_fusion import BertSizes, FusionBert, Shapes, linear, norm
from beholder.backends.video_weights import Seen, VideoNetwork, without_prefix

_EPS, _POOL_EPS = 1e-6, 1e-5
_HEAD = 88
_BLOCK = re.compile(r"vision_encoder\.blocks\.(\d+)\.")
_POOL = "vision_encoder.clip_projector"

EXTRAS = (
    re.compile(r"^clip_teacher\."),  # the frozen model that taught it
    re.compile(r"^vision_encoder\.(clip_decoder\.\d+|final_clip_decoder)\."),  # map to the teacher's features
    re.compile(r"^vision_encoder\.clip_(img_)?pos_embed$"),  # positions for those maps
    re.compile(r"^vision_encoder\.img_pos_embed$"),  # positions of single pictures; here a picture is a still clip
    re.compile(r"^text_encoder\.cls\.predictions\."),  # guesses masked words while training
    re.compile(r"^text_encoder\.embeddings\.position_ids$"),
)
"""Names that published checkpoints hold besides, and that no score needs."""


def rename(name: str) -> str:
    """The name of a tensor here: pretrained files say `text_encoder.bert.…`."""
    return name.replace("text_encoder.bert.", "text_encoder.", 1)


@dataclass(frozen=True)
class InternVideo2Sizes:
    """Sizes of an InternVideo2 stage 2.

    Args:
        width: width of the vision transformer.
        inner: width of its feed-forward part.
        depth: its blocks.
        tube: (frames, height, width) of a patch.
        tokens: patches of a clip and the class token.
        pooled: width after pooling.
        embed: width of the shared space.
        bert: sizes of the text side.
    """

    width: int
    inner: int
    depth: int
    tube: tuple[int, int, int]
    tokens: int
    pooled: int
    embed: int
    bert: BertSizes

    @classmethod
    def of(cls, shapes: Mapping[str, tuple[int, ...]]) -> InternVideo2Sizes:
        """The sizes that a state dict's shapes tell.

        Raises:
            KeyError: a name that every InternVideo2 stage 2 has is not there.
        """
        patch = shapes["vision_encoder.patch_embed.proj.weight"]
        return cls(
            width=patch[0],
            inner=shapes["vision_encoder.blocks.0.mlp.fc1.weight"][0],
            depth=max(int(found[1]) for name in shapes if (found := _BLOCK.match(name))) + 1,
            tube=(patch[2], patch[3], patch[4]),
            tokens=shapes["vision_encoder.pos_embed"][1],
            pooled=shapes[f"{_POOL}.cross_attn.proj.weight"][0],
            embed=shapes["vision_proj.weight"][0],
            bert=BertSizes.of(without_prefix(shapes, "text_encoder.")),
        )

    def layout(self) -> Shapes:
        """Every tensor that is needed, by name, with its shape."""
        width, base = self.width, "vision_encoder"
        shapes: Shapes = {
            f"{base}.patch_embed.proj.weight": (width, 3, *self.tube),
            f"{base}.patch_embed.proj.bias": (width,),
            f"{base}.cls_token": (1, 1, width),
            f"{base}.pos_embed": (1, self.tokens, width),
            **linear("vision_proj", self.pooled, self.embed),
            **linear("text_proj", self.bert.width, self.embed),
            **linear("itm_head", self.bert.width, 2),
            "temp": (),
        }
        for number in range(self.depth):
            block = f"{base}.blocks.{number}"
            shapes |= {f"{block}.{name}.weight": (width,) for name in ("norm1", "norm2", "attn.q_norm", "attn.k_norm")}
            shapes |= {f"{block}.ls1.gamma": (width,), f"{block}.ls2.gamma": (width,)}
            shapes |= {f"{block}.attn.qkv.weight": (3 * width, width)} | linear(f"{block}.attn.proj", width, width)
            shapes |= linear(f"{block}.mlp.fc1", width, self.inner) | linear(f"{block}.mlp.fc2", self.inner, width)
        for name in "qkv":
            shapes |= norm(f"{_POOL}.norm1_{name}", width)
            shapes |= {f"{_POOL}.cross_attn.{name}.weight": (width, width), f"{_POOL}.cross_attn.{name}_bias": (width,)}
        shapes |= linear(f"{_POOL}.cross_attn.proj", width, self.pooled)
        return shapes | {f"text_encoder.{name}": shape for name, shape in self.bert.layout().items()}


SIZES = InternVideo2Sizes


class InternVideo2Network(VideoNetwork):
    """InternVideo2 stage 2's forward pass.

    Args:
        weights: the tensors by name, all that `sizes.layout()` lists.
        sizes: its sizes.
    """

    def __init__(self, weights: Mapping[str, Any], sizes: InternVideo2Sizes) -> None:
        super().__init__(weights, FusionBert(without_prefix(weights, "text_encoder."), sizes.bert))
        self._sizes = sizes

    def see(self, clips: Any) -> Seen:
        """(n, 3, frames, h, w) to all tokens (n, tokens, width) and one projection a clip (n, 1, embed)."""
        import torch
        import torch.nn.functional as F

        base = "vision_encoder"
        weight, bias = self._pair(f"{base}.patch_embed.proj")
        patches = F.conv3d(clips, weight, bias, stride=self._sizes.tube).flatten(2).transpose(1, 2)
        first = self._weights[f"{base}.cls_token"].expand(len(clips), -1, -1)
        tokens = torch.cat([first, patches], dim=1) + self._weights[f"{base}.pos_embed"]
        for number in range(self._sizes.depth):
            tokens = self._block(f"{base}.blocks.{number}", tokens)
        return Seen(tokens, self._linear("vision_proj", self._pool(tokens)))

    def _block(self, base: str, tokens: Any) -> Any:
        import torch.nn.functional as F

        mixed = F.linear(self._rms(f"{base}.norm1", tokens), self._weights[f"{base}.attn.qkv.weight"])
        query, key, value = mixed.chunk(3, dim=-1)
        query, key = self._rms(f"{base}.attn.q_norm", query), self._rms(f"{base}.attn.k_norm", key)
        branch = self._linear(f"{base}.attn.proj", _attend(query, key, value))
        tokens = tokens + self._scale(f"{base}.ls1", branch)
        inner = F.gelu(self._linear(f"{base}.mlp.fc1", self._rms(f"{base}.norm2", tokens)))
        return tokens + self._scale(f"{base}.ls2", self._linear(f"{base}.mlp.fc2", inner))

    def _pool(self, tokens: Any) -> Any:
        """All tokens to (n, 1, pooled): one attention, asked by their mean."""
        import torch.nn.functional as F

        parts = []
        for name, source in (("q", tokens.mean(1, keepdim=True)), ("k", tokens), ("v", tokens)):
            normed = self._norm(f"{_POOL}.norm1_{name}", source, _POOL_EPS)
            weight, bias = (self._weights[f"{_POOL}.cross_attn.{name}{part}"] for part in (".weight", "_bias"))
            parts.append(F.linear(normed, weight, bias))
        return self._linear(f"{_POOL}.cross_attn.proj", _attend(*parts))

    def _rms(self, name: str, values: Any) -> Any:
        import torch

        exact = values.float()
        exact = exact * torch.rsqrt(exact.square().mean(-1, keepdim=True) + _EPS)
        return self._weights[f"{name}.weight"] * exact.to(values.dtype)

    def _scale(self, name: str, values: Any) -> Any:
        return (values.float() * self._weights[f"{name}.gamma"].float()).to(values.dtype)


def _attend(query: Any, key: Any, value: Any) -> Any:
    import torch.nn.functional as F

    query, key, value = (part.unflatten(-1, (-1, _HEAD)).transpose(1, 2) for part in (query, key, value))
    return F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)


def make(weights: Mapping[str, Any], sizes: InternVideo2Sizes) -> VideoNetwork:
    """The network over checked weights."""
    return InternVideo2Network(weights, sizes)
