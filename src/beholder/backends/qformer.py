"""BLIP-2's first-stage network with CLIP's ViT-L, in the state-dict layout of the LAVIS checkpoints. Imports torch.

Written from the paper (arXiv 2301.12597): a Q-Former is a BERT whose input begins with learned query tokens; queries
and text attend to each other, the queries alone look at the image, in every second layer, and have a feed-forward part
of their own. Module names are those of `blip2_pretrained_vitL.pth` and `clip_vit_L.pth`; layers are `med.py`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from beholder._errors import WeightsMismatchError
from beholder.backends.med import HEAD_WIDTH, Attention, BertSizes, Dense, Embeddings, Residual, attend

CLIP_BLOCKS = 23
"""Blocks of CLIP ViT-L/14 that BLIP-2 runs: its last one is left out (arXiv 2301.12597, section 3.3)."""

_CLIP_EPS = 1e-5


class _ClipAttention(nn.Module):
    """torch's own attention layout: the three projections stand in one matrix."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.in_proj_weight = nn.Parameter(torch.zeros(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * width))
        self.out_proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = nn.functional.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
        result: Tensor = self.out_proj(attend(query, key, value, x.shape[-1] // HEAD_WIDTH))
        return result


class _ClipMlp(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.c_fc(x)
        result: Tensor = self.c_proj(x * torch.sigmoid(1.702 * x))
        return result


class _ClipBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.attn = _ClipAttention(width)
        self.ln_1 = nn.LayerNorm(width, eps=_CLIP_EPS)
        self.mlp = _ClipMlp(width)
        self.ln_2 = nn.LayerNorm(width, eps=_CLIP_EPS)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        result: Tensor = x + self.mlp(self.ln_2(x))
        return result


class _ClipBlocks(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.resblocks = nn.ModuleList([_ClipBlock(width) for _ in range(depth)])


class ClipTower(nn.Module):
    """CLIP's image tower without its end: all tokens, not normalised, not projected."""

    def __init__(self, width: int, depth: int, patch: int, tokens: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, patch, patch, bias=False)
        self.class_embedding = nn.Parameter(torch.zeros(width))
        self.positional_embedding = nn.Parameter(torch.zeros(tokens, width))
        self.ln_pre = nn.LayerNorm(width, eps=_CLIP_EPS)
        self.transformer = _ClipBlocks(width, depth)

    def forward(self, pixels: Tensor) -> Tensor:
        x = self.conv1(pixels).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_embedding.expand(len(x), 1, -1), x], dim=1) + self.positional_embedding
        x = self.ln_pre(x)
        for block in self.transformer.resblocks:
            x = block(x)
        result: Tensor = x
        return result


class _QLayer(nn.Module):
    def __init__(self, sizes: BertSizes, *, looks: bool) -> None:
        super().__init__()
        self.attention = Attention(sizes, cross=False)
        if looks:
            self.crossattention = Attention(sizes, cross=True)
        self.looks = looks
        self.intermediate = Dense(sizes.width, sizes.inner)
        self.output = Residual(sizes.inner, sizes.width, sizes.eps)
        self.intermediate_query = Dense(sizes.width, sizes.inner)
        self.output_query = Residual(sizes.inner, sizes.width, sizes.eps)

    def forward(self, x: Tensor, mask: Tensor | None, image: Tensor | None, queries: int) -> Tensor:
        x = self.attention(x, x, mask)
        asked, read = x[:, :queries], x[:, queries:]
        if queries and self.looks and image is not None:
            asked = self.crossattention(asked, image)
        gelu = nn.functional.gelu
        asked = self.output_query(gelu(self.intermediate_query.dense(asked)), asked)
        read = self.output(gelu(self.intermediate.dense(read)), read)
        return torch.cat([asked, read], dim=1)


class _QLayers(nn.Module):
    def __init__(self, sizes: BertSizes) -> None:
        super().__init__()
        self.layer = nn.ModuleList([_QLayer(sizes, looks=number % 2 == 0) for number in range(sizes.depth)])


class _QBert(nn.Module):
    def __init__(self, sizes: BertSizes) -> None:
        super().__init__()
        self.embeddings = Embeddings(sizes)
        self.encoder = _QLayers(sizes)

    def run(self, x: Tensor, mask: Tensor | None, image: Tensor | None, queries: int) -> Tensor:
        for layer in self.encoder.layer:
            x = layer(x, mask, image, queries)
        return x


class _QFormer(nn.Module):
    def __init__(self, sizes: BertSizes) -> None:
        super().__init__()
        self.bert = _QBert(sizes)


class Blip2Network(nn.Module):
    """BLIP-2's first stage: CLIP tower, layer norm, Q-Former, two projections, matching head."""

    def __init__(self, tower: ClipTower, text: BertSizes, *, queries: int, joint: int) -> None:
        super().__init__()
        self.visual_encoder = tower
        self.ln_vision = nn.LayerNorm(text.source, eps=_CLIP_EPS)
        self.Qformer = _QFormer(text)
        self.query_tokens = nn.Parameter(torch.zeros(1, queries, text.width))
        self.vision_proj = nn.Linear(text.width, joint)
        self.text_proj = nn.Linear(text.width, joint)
        self.itm_head = nn.Linear(text.width, 2)

    def look(self, pixels: Tensor) -> Tensor:
        """(n, 3, h, w) to image tokens (n, k, source)."""
        result: Tensor = self.ln_vision(self.visual_encoder(pixels))
        return result

    def match_logits(self, image: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """(n, 2): the matching head on every query token, averaged over the queries."""
        bert, queries = self.Qformer.bert, self.query_tokens.expand(len(ids), -1, -1)
        seen = torch.cat([mask.new_ones(queries.shape[:2]), mask], dim=1)
        x = bert.run(bert.embeddings(ids, queries), seen, image, queries.shape[1])
        result: Tensor = self.itm_head(x[:, : queries.shape[1]]).mean(dim=1)
        return result

    def image_vectors(self, image: Tensor) -> Tensor:
        """(n, queries, joint), not normalised."""
        bert, queries = self.Qformer.bert, self.query_tokens.expand(len(image), -1, -1)
        result: Tensor = self.vision_proj(bert.run(bert.embeddings.LayerNorm(queries), None, image, queries.shape[1]))
        return result

    def text_vectors(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(n, joint) from [CLS], not normalised; the image plays no part."""
        bert = self.Qformer.bert
        result: Tensor = self.text_proj(bert.run(bert.embeddings(ids), mask, None, 0)[:, 0])
        return result


def build(state: Mapping[str, Any], *, name: str) -> Blip2Network:
    """An empty network with the sizes of a state dict; see `Blip2Network`.

    Raises:
        WeightsMismatchError: tensors from which the sizes cannot be read.
    """
    bert, tower = "Qformer.bert.", "visual_encoder."
    try:
        conv, words = state[tower + "conv1.weight"].shape, state[bert + "embeddings.word_embeddings.weight"].shape
        text = BertSizes(
            width=words[1],
            depth=len({key.split(".")[4] for key in state if key.startswith(bert + "encoder.layer.")}),
            heads=words[1] // HEAD_WIDTH,
            inner=state[bert + "encoder.layer.0.intermediate.dense.weight"].shape[0],
            words=words[0],
            positions=state[bert + "embeddings.position_embeddings.weight"].shape[0],
            source=conv[0],
        )
        depth = len({key.split(".")[3] for key in state if key.startswith(tower + "transformer.resblocks.")})
        tokens, queries = state[tower + "positional_embedding"].shape[0], state["query_tokens"].shape[1]
        joint = state["vision_proj.weight"].shape[0]
    except (KeyError, IndexError) as error:
        raise WeightsMismatchError(
            f"the files of {name} must be BLIP-2's Q-Former and CLIP's image tower in the layout of LAVIS",
            got=f"files without {error}",
        ) from error
    return Blip2Network(ClipTower(conv[0], depth, conv[2], tokens), text, queries=queries, joint=joint)
