"""UMT's network: a vision transformer over all patches of all frames, and a fusion BERT.

Li et al. 2023, Unmasked Teacher, arXiv 2303.16058; layout of the state dict after OpenGVLab/unmasked_teacher
(multi_modality). Patches are embedded with a 3-D convolution, positions are fixed sines and cosines over the running
number of the patch (time, row, column), blocks are pre-norm with biases on query and value only, and the frames are
pooled one by one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from beholder.backends.bert_fusion import BertSizes, FusionBert, Shapes, linear, norm
from beholder.backends.video_weights import Seen, VideoNetwork, without_prefix

_EPS = 1e-6
_HEAD = 64
_BLOCK = re.compile(r"vision_encoder\.encoder\.blocks\.(\d+)\.")

EXTRAS = (
    re.compile(r"^clip_teacher\."),  # the frozen CLIP that taught it
    re.compile(r"^vision_encoder\.clip_decoder\.\d+\."),  # maps to the teacher's features while training
    re.compile(r"^text_encoder\.cls\.predictions\."),  # guesses masked words while training
    re.compile(r"^text_encoder\.embeddings\.position_ids$"),
)
"""Names that published checkpoints hold besides, and that no score needs."""


def rename(name: str) -> str:
    """The name of a tensor here: pretrained files say `text_encoder.bert.…`, fine-tuned ones `text_encoder.…`."""
    return name.replace("text_encoder.bert.", "text_encoder.", 1)


@dataclass(frozen=True)
class UMTSizes:
    """Sizes of a UMT.

    Args:
        width: width of the vision transformer.
        inner: width of its feed-forward part.
        depth: its blocks.
        tube: (frames, height, width) of a patch.
        embed: width of the shared space.
        bert: sizes of the text side.
    """

    width: int
    inner: int
    depth: int
    tube: tuple[int, int, int]
    embed: int
    bert: BertSizes

    @classmethod
    def of(cls, shapes: Mapping[str, tuple[int, ...]]) -> UMTSizes:
        """The sizes that a state dict's shapes tell.

        Raises:
            KeyError: a name that every UMT has is not there.
        """
        patch = shapes["vision_encoder.encoder.patch_embed.proj.weight"]
        return cls(
            width=patch[0],
            inner=shapes["vision_encoder.encoder.blocks.0.mlp.fc1.weight"][0],
            depth=max(int(found[1]) for name in shapes if (found := _BLOCK.match(name))) + 1,
            tube=(patch[2], patch[3], patch[4]),
            embed=shapes["vision_proj.weight"][0],
            bert=BertSizes.of(without_prefix(shapes, "text_encoder.")),
        )

    def layout(self) -> Shapes:
        """Every tensor that is needed, by name, with its shape."""
        width, base = self.width, "vision_encoder.encoder"
        shapes: Shapes = {
            f"{base}.patch_embed.proj.weight": (width, 3, *self.tube),
            f"{base}.patch_embed.proj.bias": (width,),
            **norm(f"{base}.norm", width),
            **norm("vision_encoder.pool_norm", width),
            **linear("vision_proj", width, self.embed),
            **linear("text_proj", self.bert.width, self.embed),
            **linear("itm_head", self.bert.width, 2),
            "temp": (),
        }
        for number in range(self.depth):
            block = f"{base}.blocks.{number}"
            shapes |= norm(f"{block}.norm1", width) | norm(f"{block}.norm2", width)
            shapes |= {f"{block}.attn.q_bias": (width,), f"{block}.attn.v_bias": (width,)}
            shapes |= {f"{block}.attn.qkv.weight": (3 * width, width)}
            shapes |= linear(f"{block}.attn.proj", width, width)
            shapes |= linear(f"{block}.mlp.fc1", width, self.inner) | linear(f"{block}.mlp.fc2", self.inner, width)
        return shapes | {f"text_encoder.{name}": shape for name, shape in self.bert.layout().items()}


SIZES = UMTSizes


class UMTNetwork(VideoNetwork):
    """UMT's forward pass.

    Args:
        weights: the tensors by name, all that `sizes.layout()` lists.
        sizes: its sizes.
    """

    def __init__(self, weights: Mapping[str, Any], sizes: UMTSizes) -> None:
        super().__init__(weights, FusionBert(without_prefix(weights, "text_encoder."), sizes.bert))
        self._sizes = sizes

    def see(self, clips: Any) -> Seen:
        """(n, 3, frames, h, w) to all tokens (n, tokens, width) and a projection a frame (n, frames, embed)."""
        import torch
        import torch.nn.functional as F

        base, tube = "vision_encoder.encoder", self._sizes.tube
        weight, bias = self._pair(f"{base}.patch_embed.proj")
        grid: Any = F.conv3d(clips, weight, bias, stride=tube)
        tokens: Any = grid.flatten(2).transpose(1, 2)
        table = torch.from_numpy(positions(tokens.shape[1], tokens.shape[2]))
        tokens = tokens + table.to(device=tokens.device, dtype=tokens.dtype)
        for number in range(self._sizes.depth):
            tokens = self._block(f"{base}.blocks.{number}", tokens)
        tokens = self._norm(f"{base}.norm", tokens, _EPS)
        frames = tokens.unflatten(1, (grid.shape[2], -1)).mean(2)
        return Seen(tokens, self._linear("vision_proj", self._norm("vision_encoder.pool_norm", frames, _EPS)))

    def _block(self, base: str, tokens: Any) -> Any:
        import torch
        import torch.nn.functional as F

        query, value = self._weights[f"{base}.attn.q_bias"], self._weights[f"{base}.attn.v_bias"]
        bias = torch.cat([query, torch.zeros_like(query), value])
        mixed: Any = F.linear(self._norm(f"{base}.norm1", tokens, _EPS), self._weights[f"{base}.attn.qkv.weight"], bias)
        parts = (part.unflatten(-1, (-1, _HEAD)).transpose(1, 2) for part in mixed.chunk(3, dim=-1))
        context = F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2)
        tokens = tokens + self._linear(f"{base}.attn.proj", context)
        inner = F.gelu(self._linear(f"{base}.mlp.fc1", self._norm(f"{base}.norm2", tokens, _EPS)))
        return tokens + self._linear(f"{base}.mlp.fc2", inner)


def positions(count: int, width: int) -> np.ndarray:
    """(count, width) float32 of fixed positions: p / 10000^(2·⌊j/2⌋/width), sine where j is even, cosine where odd.

    Source: Vaswani et al. 2017, section 3.5.
    """
    columns = np.arange(width)
    angles = np.arange(count)[:, None] / np.power(10000.0, 2 * (columns // 2) / width)[None, :]
    return np.where(columns % 2 == 0, np.sin(angles), np.cos(angles)).astype(np.float32)


def make(weights: Mapping[str, Any], sizes: UMTSizes) -> VideoNetwork:
    """The network over checked weights."""
    return UMTNetwork(weights, sizes)
