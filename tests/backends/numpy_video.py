"""UMT and InternVideo2 once more, in plain numpy and float64, from the papers and the layouts alone.

Loops where the library has one call, so that no step is shared with what is tested.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.special import erf, softmax

Weights = Mapping[str, np.ndarray]


def layer_norm(x: np.ndarray, weights: Weights, name: str, eps: float) -> np.ndarray:
    mean = x.mean(-1, keepdims=True)
    spread = np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + eps)
    return (x - mean) / spread * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def rms_norm(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weight


def linear(x: np.ndarray, weights: Weights, name: str) -> np.ndarray:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, head: int, seen: int | None = None) -> np.ndarray:
    """(t, w), (s, w), (s, w) to (t, w), head by head; only the first `seen` of s are looked at."""
    parts = []
    for start in range(0, q.shape[1], head):
        some = slice(start, start + head)
        scores = q[:, some] @ k[:seen, some].T / np.sqrt(head)
        parts.append(softmax(scores, axis=-1) @ v[:seen, some])
    return np.concatenate(parts, axis=1)


def patches(clip: np.ndarray, weights: Weights, name: str) -> np.ndarray:
    """(frames, 3, h, w) to (frames · rows · columns, width), one patch of one frame after the other."""
    weight = weights[f"{name}.weight"][:, :, 0]
    side = weight.shape[-1]
    rows = []
    for frame in clip:
        for y in range(0, frame.shape[1], side):
            for x in range(0, frame.shape[2], side):
                piece = frame[:, y : y + side, x : x + side]
                rows.append((weight * piece).sum((1, 2, 3)) + weights[f"{name}.bias"])
    return np.stack(rows)


def sines(count: int, width: int) -> np.ndarray:
    table = np.zeros((count, width))
    for p in range(count):
        for pair in range(width // 2):
            angle = p / 10000 ** (2 * pair / width)
            table[p, 2 * pair], table[p, 2 * pair + 1] = np.sin(angle), np.cos(angle)
    return table


def umt_see(clip: np.ndarray, weights: Weights, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """(frames, 3, h, w) to all tokens, and to one projection a frame."""
    base = "vision_encoder.encoder"
    x = patches(clip, weights, f"{base}.patch_embed.proj")
    x = x + sines(*x.shape)
    width = x.shape[1]
    for number in range(depth):
        block = f"{base}.blocks.{number}"
        mixed = layer_norm(x, weights, f"{block}.norm1", 1e-6) @ weights[f"{block}.attn.qkv.weight"].T
        q = mixed[:, :width] + weights[f"{block}.attn.q_bias"]
        k, v = mixed[:, width : 2 * width], mixed[:, 2 * width :] + weights[f"{block}.attn.v_bias"]
        x = x + linear(attention(q, k, v, 64), weights, f"{block}.attn.proj")
        inner = gelu(linear(layer_norm(x, weights, f"{block}.norm2", 1e-6), weights, f"{block}.mlp.fc1"))
        x = x + linear(inner, weights, f"{block}.mlp.fc2")
    x = layer_norm(x, weights, f"{base}.norm", 1e-6)
    frames = x.reshape(len(clip), -1, width).mean(1)
    return x, linear(layer_norm(frames, weights, "vision_encoder.pool_norm", 1e-6), weights, "vision_proj")


def internvideo2_see(clip: np.ndarray, weights: Weights, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """(frames, 3, h, w) to all tokens, and to the clip's one projection, (1, d)."""
    base, pool = "vision_encoder", "vision_encoder.clip_projector"
    x = np.concatenate([weights[f"{base}.cls_token"][0], patches(clip, weights, f"{base}.patch_embed.proj")])
    x = x + weights[f"{base}.pos_embed"][0]
    for number in range(depth):
        block = f"{base}.blocks.{number}"
        mixed = rms_norm(x, weights[f"{block}.norm1.weight"]) @ weights[f"{block}.attn.qkv.weight"].T
        q, k, v = np.split(mixed, 3, axis=1)
        q, k = rms_norm(q, weights[f"{block}.attn.q_norm.weight"]), rms_norm(k, weights[f"{block}.attn.k_norm.weight"])
        x = x + weights[f"{block}.ls1.gamma"] * linear(attention(q, k, v, 88), weights, f"{block}.attn.proj")
        inner = gelu(linear(rms_norm(x, weights[f"{block}.norm2.weight"]), weights, f"{block}.mlp.fc1"))
        x = x + weights[f"{block}.ls2.gamma"] * linear(inner, weights, f"{block}.mlp.fc2")
    asked = x.mean(0, keepdims=True)
    q, k, v = (
        layer_norm(source, weights, f"{pool}.norm1_{name}", 1e-5) @ weights[f"{pool}.cross_attn.{name}.weight"].T
        + weights[f"{pool}.cross_attn.{name}_bias"]
        for name, source in (("q", asked), ("k", x), ("v", x))
    )
    pooled = linear(attention(q, k, v, 88), weights, f"{pool}.cross_attn.proj")
    return x, linear(pooled, weights, "vision_proj")


def bert(ids: list[int], weights: Weights, layers: int, fusion: int, visual: np.ndarray | None) -> np.ndarray:
    """Token ids to hidden states: of the layers below `fusion` without a visual, of all with its tokens."""
    base = "text_encoder.embeddings"
    x = np.stack([
        weights[f"{base}.word_embeddings.weight"][token] + weights[f"{base}.position_embeddings.weight"][at]
        for at, token in enumerate(ids)
    ])  # fmt: skip
    x = layer_norm(x + weights[f"{base}.token_type_embeddings.weight"][0], weights, f"{base}.LayerNorm", 1e-12)
    for number in range(fusion if visual is None else layers):
        layer = f"text_encoder.encoder.layer.{number}"
        x = _attend(x, x, weights, f"{layer}.attention")
        if visual is not None and number >= fusion:
            x = _attend(x, visual, weights, f"{layer}.crossattention")
        inner = linear(gelu(linear(x, weights, f"{layer}.intermediate.dense")), weights, f"{layer}.output.dense")
        x = layer_norm(inner + x, weights, f"{layer}.output.LayerNorm", 1e-12)
    return x


def _attend(x: np.ndarray, source: np.ndarray, weights: Weights, name: str) -> np.ndarray:
    q, k, v = (
        linear(part, weights, f"{name}.self.{kind}")
        for kind, part in (("query", x), ("key", source), ("value", source))
    )
    out = linear(attention(q, k, v, 64), weights, f"{name}.output.dense")
    return layer_norm(out + x, weights, f"{name}.output.LayerNorm", 1e-12)
