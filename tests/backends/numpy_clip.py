"""CLIP's two towers in plain numpy, written from the paper: an independent witness for embeddings.

Reads the tensors of a transformers CLIP checkpoint by name; float64 throughout.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

Weights = Mapping[str, np.ndarray]
_ERF = np.vectorize(math.erf)


def image_embedding(weights: Weights, pixels: np.ndarray, *, heads: int, quick: bool) -> np.ndarray:
    """(3, h, w) float to the projected embedding (d,)."""
    tower = "vision_model"
    kernel = weights[f"{tower}.embeddings.patch_embedding.weight"].astype(np.float64)
    width, _, side, _ = kernel.shape
    rows, columns = pixels.shape[1] // side, pixels.shape[2] // side
    patches = pixels.astype(np.float64).reshape(3, rows, side, columns, side).transpose(1, 3, 0, 2, 4)
    tokens = patches.reshape(rows * columns, -1) @ kernel.reshape(width, -1).T
    tokens = np.concatenate([weights[f"{tower}.embeddings.class_embedding"][None], tokens])
    tokens = tokens + weights[f"{tower}.embeddings.position_embedding.weight"]
    tokens = _norm(weights, f"{tower}.pre_layrnorm", tokens)
    tokens = _blocks(weights, tower, tokens, heads=heads, quick=quick, causal=False)
    pooled = _norm(weights, f"{tower}.post_layernorm", tokens[:1])[0]
    return pooled @ weights["visual_projection.weight"].T


def text_embedding(weights: Weights, ids: np.ndarray, *, heads: int, quick: bool, end_id: int) -> np.ndarray:
    """(n,) token ids to the projected embedding (d,), read at the first end token."""
    tower = "text_model"
    tokens = weights[f"{tower}.embeddings.token_embedding.weight"][ids].astype(np.float64)
    tokens = tokens + weights[f"{tower}.embeddings.position_embedding.weight"][: len(ids)]
    tokens = _blocks(weights, tower, tokens, heads=heads, quick=quick, causal=True)
    tokens = _norm(weights, f"{tower}.final_layer_norm", tokens)
    return tokens[int(np.argmax(ids == end_id))] @ weights["text_projection.weight"].T


def _blocks(weights: Weights, tower: str, x: np.ndarray, *, heads: int, quick: bool, causal: bool) -> np.ndarray:
    layer = 0
    while f"{tower}.encoder.layers.{layer}.layer_norm1.weight" in weights:
        name = f"{tower}.encoder.layers.{layer}"
        x = x + _attention(weights, f"{name}.self_attn", _norm(weights, f"{name}.layer_norm1", x), heads, causal)
        hidden = _linear(weights, f"{name}.mlp.fc1", _norm(weights, f"{name}.layer_norm2", x))
        hidden = hidden / (1 + np.exp(-1.702 * hidden)) if quick else hidden * 0.5 * (1 + _ERF(hidden / math.sqrt(2)))
        x = x + _linear(weights, f"{name}.mlp.fc2", hidden)
        layer += 1
    return x


def _attention(weights: Weights, name: str, x: np.ndarray, heads: int, causal: bool) -> np.ndarray:
    length, width = x.shape
    parts = [_linear(weights, f"{name}.{part}_proj", x) for part in "qkv"]
    q, k, v = (part.reshape(length, heads, -1).transpose(1, 0, 2) for part in parts)
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(width // heads)
    if causal:
        scores = np.where(np.tril(np.ones((length, length), dtype=bool)), scores, -np.inf)
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    return _linear(weights, f"{name}.out_proj", (shares @ v).transpose(1, 0, 2).reshape(length, width))


def _linear(weights: Weights, name: str, x: np.ndarray) -> np.ndarray:
    return x @ weights[f"{name}.weight"].T.astype(np.float64) + weights[f"{name}.bias"]


def _norm(weights: Weights, name: str, x: np.ndarray) -> np.ndarray:
    x = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
    return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]
