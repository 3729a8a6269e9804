"""BLIP's networks in their published state-dict layout: the vision transformer, and the text encoder that looks at it.

Written from the papers: BERT (arXiv 1810.04805) with an added cross-attention to image tokens in every layer, which
BLIP (arXiv 2201.12086) calls a multimodal mixture of encoder-decoder, and ViT (arXiv 2010.11929) in timm's names.
Module names are those of the checkpoints, so that a state dict loads strictly and nothing is renamed. Dropouts, which
do nothing in evaluation, are left out. This module imports torch: import it inside functions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

HEAD_WIDTH = 64
"""Width of an attention head in every published BLIP, ViT and BERT of this layout."""

VIT_EPS, BERT_EPS = 1e-6, 1e-12


@dataclass(frozen=True)
class VitSizes:
    """Sizes of a vision transformer; heads are 64 wide."""

    width: int
    depth: int
    patch: int
    tokens: int


@dataclass(frozen=True)
class BertSizes:
    """Sizes of a text encoder.

    Args:
        width: width of its tokens.
        depth: number of layers.
        heads: attention heads.
        inner: width inside the feed-forward part.
        words: entries of the vocabulary.
        positions: tokens that a text may have.
        source: width of the image tokens that cross-attention reads.
        eps: of the layer norms.
    """

    width: int
    depth: int
    heads: int
    inner: int
    words: int
    positions: int
    source: int
    eps: float = BERT_EPS


def attend(query: Tensor, key: Tensor, value: Tensor, heads: int, mask: Tensor | None = None) -> Tensor:
    """Scaled dot-product attention of `heads` heads: (n, q, w), (n, k, w), (n, k, w) → (n, q, w).

    `mask` is (n, k) bool, True where a key may be looked at.
    """
    q, k, v = (part.reshape(*part.shape[:2], heads, -1).transpose(1, 2) for part in (query, key, value))
    seen = None if mask is None else mask[:, None, None, :]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).flatten(2)


class _Projections(nn.Module):
    def __init__(self, width: int, source: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(source, width)
        self.value = nn.Linear(source, width)


class Dense(nn.Module):
    """One linear map under the name `dense`."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, out)


class Residual(Dense):
    """LayerNorm(dense(x) + what came before)."""

    def __init__(self, width: int, out: int, eps: float) -> None:
        super().__init__(width, out)
        self.LayerNorm = nn.LayerNorm(out, eps=eps)

    def forward(self, x: Tensor, before: Tensor) -> Tensor:
        result: Tensor = self.LayerNorm(self.dense(x) + before)
        return result


class Attention(nn.Module):
    """BERT's attention block, post-normalised; on itself, or on `source` tokens of another width."""

    def __init__(self, sizes: BertSizes, *, cross: bool) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.self = _Projections(sizes.width, sizes.source if cross else sizes.width)
        self.output = Residual(sizes.width, sizes.width, sizes.eps)

    def forward(self, x: Tensor, source: Tensor, mask: Tensor | None = None) -> Tensor:
        maps = self.self
        seen = attend(maps.query(x), maps.key(source), maps.value(source), self.heads, mask)
        result: Tensor = self.output(seen, x)
        return result


class Layer(nn.Module):
    """Self-attention among the text, cross-attention to the image, feed-forward."""

    def __init__(self, sizes: BertSizes) -> None:
        super().__init__()
        self.attention = Attention(sizes, cross=False)
        self.crossattention = Attention(sizes, cross=True)
        self.intermediate = Dense(sizes.width, sizes.inner)
        self.output = Residual(sizes.inner, sizes.width, sizes.eps)

    def forward(self, x: Tensor, mask: Tensor, image: Tensor) -> Tensor:
        x = self.attention(x, x, mask)
        x = self.crossattention(x, image)
        result: Tensor = self.output(F.gelu(self.intermediate.dense(x)), x)
        return result


class Embeddings(nn.Module):
    """Word and position embeddings; there are no token types in this layout."""

    def __init__(self, sizes: BertSizes) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(sizes.words, sizes.width)
        self.position_embeddings = nn.Embedding(sizes.positions, sizes.width)
        self.LayerNorm = nn.LayerNorm(sizes.width, eps=sizes.eps)

    def forward(self, ids: Tensor, before: Tensor | None = None) -> Tensor:
        """(n, t) ids to (n, t, w); tokens `before` (a Q-Former's queries) are put in front, without positions."""
        x = self.word_embeddings(ids) + self.position_embeddings.weight[: ids.shape[1]]
        if before is not None:
            x = torch.cat([before, x], dim=1)
        result: Tensor = self.LayerNorm(x)
        return result


class _Layers(nn.Module):
    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layer = nn.ModuleList(layers)


class TextEncoder(nn.Module):
    """BERT that reads a text while it looks at an image."""

    def __init__(self, sizes: BertSizes) -> None:
        super().__init__()
        self.embeddings = Embeddings(sizes)
        self.encoder = _Layers([Layer(sizes) for _ in range(sizes.depth)])

    def forward(self, ids: Tensor, mask: Tensor, image: Tensor) -> Tensor:
        """(n, t) ids, (n, t) bool mask and (n, k, source) image tokens to (n, t, w); token 0 is [CLS]."""
        x: Tensor = self.embeddings(ids)
        for layer in self.encoder.layer:
            x = layer(x, mask, image)
        return x


class _Patches(nn.Module):
    def __init__(self, sizes: VitSizes) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, sizes.width, sizes.patch, sizes.patch)


class _VitAttention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        result: Tensor = self.proj(attend(query, key, value, x.shape[-1] // HEAD_WIDTH))
        return result


class _Mlp(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)


class _VitBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=VIT_EPS)
        self.attn = _VitAttention(width)
        self.norm2 = nn.LayerNorm(width, eps=VIT_EPS)
        self.mlp = _Mlp(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        result: Tensor = x + self.mlp.fc2(F.gelu(self.mlp.fc1(self.norm2(x))))
        return result


class VisionTransformer(nn.Module):
    """A pre-normalised ViT with a class token; all tokens are kept, normalised at the end."""

    def __init__(self, sizes: VitSizes) -> None:
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, sizes.width))
        self.pos_embed = nn.Parameter(torch.zeros(1, sizes.tokens, sizes.width))
        self.patch_embed = _Patches(sizes)
        self.blocks = nn.ModuleList([_VitBlock(sizes.width) for _ in range(sizes.depth)])
        self.norm = nn.LayerNorm(sizes.width, eps=VIT_EPS)

    def forward(self, pixels: Tensor) -> Tensor:
        """(n, 3, h, w) to (n, 1 + patches, width)."""
        x = self.patch_embed.proj(pixels).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        result: Tensor = self.norm(x)
        return result
