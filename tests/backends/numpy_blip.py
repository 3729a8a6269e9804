"""BLIP's two towers, its reward head and BLIP-2's Q-Former in plain numpy: an independent witness, in float64.

Written from the papers (ViT arXiv 2010.11929, BERT 1810.04805, BLIP 2201.12086, BLIP-2 2301.12597). Reads tensors by
their published names; heads are 64 wide.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

Weights = Mapping[str, np.ndarray]
_ERF = np.vectorize(math.erf)


def reward(weights: Weights, pixels: np.ndarray, ids: list[int]) -> float:
    """Head output for (3, 224, 224) prepared pixels and the token ids of a text without padding."""
    image = vision(weights, "blip.visual_encoder", pixels)
    x = embed(weights, "blip.text_encoder.embeddings", ids)
    for number in range(depth(weights, "blip.text_encoder.encoder.layer")):
        layer = f"blip.text_encoder.encoder.layer.{number}"
        x = attention(weights, f"{layer}.attention", x, x)
        x = attention(weights, f"{layer}.crossattention", x, image)
        x = feed_forward(weights, layer, "", x)
    value = x[0]
    for place in (0, 2, 4, 6, 7):
        value = linear(weights, f"mlp.layers.{place}", value)
    return float(value[0])


def vision(weights: Weights, name: str, pixels: np.ndarray) -> np.ndarray:
    """BLIP's vision transformer: (3, h, w) to (tokens, width)."""
    kernel = weights[f"{name}.patch_embed.proj.weight"].astype(np.float64)
    x = patches(pixels, kernel) + weights[f"{name}.patch_embed.proj.bias"]
    x = np.concatenate([weights[f"{name}.cls_token"][0], x]) + weights[f"{name}.pos_embed"][0]
    for number in range(depth(weights, f"{name}.blocks")):
        block = f"{name}.blocks.{number}"
        q, k, v = np.split(linear(weights, f"{block}.attn.qkv", norm(weights, f"{block}.norm1", x, 1e-6)), 3, axis=-1)
        x = x + linear(weights, f"{block}.attn.proj", mix(q, k, v))
        hidden = gelu(linear(weights, f"{block}.mlp.fc1", norm(weights, f"{block}.norm2", x, 1e-6)))
        x = x + linear(weights, f"{block}.mlp.fc2", hidden)
    return norm(weights, f"{name}.norm", x, 1e-6)


def clip_tower(weights: Weights, pixels: np.ndarray, blocks: int) -> np.ndarray:
    """CLIP's image tower after `blocks` blocks: (3, h, w) to (tokens, width)."""
    x = np.concatenate([weights["class_embedding"][None], patches(pixels, weights["conv1.weight"].astype(np.float64))])
    x = norm(weights, "ln_pre", x + weights["positional_embedding"], 1e-5)
    for number in range(blocks):
        block = f"transformer.resblocks.{number}"
        packed = norm(weights, f"{block}.ln_1", x, 1e-5) @ weights[f"{block}.attn.in_proj_weight"].T.astype(np.float64)
        q, k, v = np.split(packed + weights[f"{block}.attn.in_proj_bias"], 3, axis=-1)
        x = x + linear(weights, f"{block}.attn.out_proj", mix(q, k, v))
        hidden = linear(weights, f"{block}.mlp.c_fc", norm(weights, f"{block}.ln_2", x, 1e-5))
        x = x + linear(weights, f"{block}.mlp.c_proj", hidden / (1 + np.exp(-1.702 * hidden)))
    return x


def qformer(weights: Weights, image: np.ndarray | None, ids: list[int] | None) -> np.ndarray:
    """The Q-Former's last states: of the queries (when there is an image) and of the text (when there are ids)."""
    name, parts = "Qformer.bert", []
    queries = 0
    if image is not None:
        parts.append(weights["query_tokens"][0].astype(np.float64))
        queries = len(parts[0])
    if ids is not None:
        parts.append(words(weights, f"{name}.embeddings", ids))
    x = norm(weights, f"{name}.embeddings.LayerNorm", np.concatenate(parts), 1e-12)
    for number in range(depth(weights, f"{name}.encoder.layer")):
        layer = f"{name}.encoder.layer.{number}"
        x = attention(weights, f"{layer}.attention", x, x)
        asked, read = x[:queries], x[queries:]
        if image is not None:
            if number % 2 == 0:
                asked = attention(weights, f"{layer}.crossattention", asked, image)
            asked = feed_forward(weights, layer, "_query", asked)
        x = np.concatenate([asked, feed_forward(weights, layer, "", read)])
    return x


def patches(pixels: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Patches times the kernel of the first convolution, (patches, width)."""
    side = kernel.shape[-1]
    rows, columns = pixels.shape[1] // side, pixels.shape[2] // side
    cut = pixels.astype(np.float64).reshape(3, rows, side, columns, side).transpose(1, 3, 0, 2, 4)
    return cut.reshape(rows * columns, -1) @ kernel.reshape(len(kernel), -1).T


def words(weights: Weights, name: str, ids: list[int]) -> np.ndarray:
    word = weights[f"{name}.word_embeddings.weight"][ids].astype(np.float64)
    return word + weights[f"{name}.position_embeddings.weight"][: len(ids)]


def embed(weights: Weights, name: str, ids: list[int]) -> np.ndarray:
    return norm(weights, f"{name}.LayerNorm", words(weights, name, ids), 1e-12)


def attention(weights: Weights, name: str, x: np.ndarray, source: np.ndarray) -> np.ndarray:
    q = linear(weights, f"{name}.self.query", x)
    k, v = (linear(weights, f"{name}.self.{part}", source) for part in ("key", "value"))
    out = linear(weights, f"{name}.output.dense", mix(q, k, v))
    return norm(weights, f"{name}.output.LayerNorm", out + x, 1e-12)


def feed_forward(weights: Weights, layer: str, part: str, x: np.ndarray) -> np.ndarray:
    out = linear(weights, f"{layer}.output{part}.dense", gelu(linear(weights, f"{layer}.intermediate{part}.dense", x)))
    return norm(weights, f"{layer}.output{part}.LayerNorm", out + x, 1e-12)


def mix(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Attention in heads of 64."""
    outputs = []
    for start in range(0, q.shape[-1], 64):
        part = slice(start, start + 64)
        scores = q[:, part] @ k[:, part].T / 8.0
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        outputs.append(shares / shares.sum(axis=-1, keepdims=True) @ v[:, part])
    return np.concatenate(outputs, axis=-1)


def gelu(x: np.ndarray) -> np.ndarray:
    return x * 0.5 * (1 + _ERF(x / math.sqrt(2))) if x.size else x


def linear(weights: Weights, name: str, x: np.ndarray) -> np.ndarray:
    return x @ weights[f"{name}.weight"].T.astype(np.float64) + weights[f"{name}.bias"]


def norm(weights: Weights, name: str, x: np.ndarray, eps: float) -> np.ndarray:
    x = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + eps)
    return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def depth(weights: Weights, name: str) -> int:
    """How many numbered parts there are under a name."""
    start = name.count(".") + 1
    return len({key.split(".")[start] for key in weights if key.startswith(f"{name}.")})
