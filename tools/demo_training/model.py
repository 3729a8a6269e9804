"""The demo encoder's tokenizer and model, and a forward pass made for training on a CPU."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from beholder import scenes as S

SIZE, PATCH, GRID = 64, 8, 8
MEAN, STD = 0.5, 0.25


def build_tokenizer(folder: Path) -> Any:
    """A CLIP tokenizer whose byte-pair merges make one token of every word of the captions."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import CLIPTokenizer

    words: set[str] = set()
    for name in S.object_names():
        words |= set(name.replace("-", " ").split()) | set(S.thing(name).plural.replace("-", " ").split())
    fixed = "a an photo of this is without depicts picture image the shows scene with and on to left right above below "
    fixed += "at top bottom in middle "
    fixed += "corner background small large two three four five six seven eight nine one no not there are it plain "
    words |= set((fixed + " ".join(S.COLORS) + " " + " ".join(S.TEXTURES)).split())
    tool = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    tool.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=20000, min_frequency=1, initial_alphabet=alphabet, end_of_word_suffix="</w>", show_progress=False
    )
    tool.train_from_iterator(sorted(words), trainer)
    merges = [tuple(m) for m in json.loads(tool.to_str())["model"]["merges"]]
    vocab: dict[str, int] = {}
    for token in alphabet + [c + "</w>" for c in alphabet] + [a + b for a, b in merges]:
        vocab.setdefault(token, len(vocab))
    for token in ("<|startoftext|>", "<|endoftext|>"):
        vocab[token] = len(vocab)
    tokenizer = CLIPTokenizer(vocab=vocab, merges=merges, model_max_length=40)
    split = [w for w in sorted(words) if len(tokenizer(w)["input_ids"]) != 3]
    if split:
        raise SystemExit(f"every word must be one token, but these are not: {split}")
    tokenizer.save_pretrained(folder)
    return tokenizer


def load_tokenizer(work: Path) -> Any:
    """The work folder's tokenizer, built on first use: ties between merges are not broken the same way every time."""
    from transformers import AutoTokenizer

    folder = work / "tokenizer"
    return AutoTokenizer.from_pretrained(folder) if folder.is_dir() else build_tokenizer(folder)


def place_patches(model: Any, norm: float) -> None:
    """Give the patches' position embeddings a smooth map of the grid: low cosines of row and column, of a given norm.

    Embeddings that start at random, as small as is usual, drown here: a flat background gives every patch a content
    some fifty times larger, and places then never reach the class token.
    """
    table = model.vision_model.embeddings.position_embedding.weight
    at = (torch.arange(GRID) + 0.5) / GRID
    waves = torch.stack([torch.cos(math.pi * k * at) for k in range(1, 5)], dim=1)
    grid = torch.cat([waves[:, None].expand(-1, GRID, -1), waves[None].expand(GRID, -1, -1)], dim=2).reshape(-1, 8)
    mix = torch.linalg.qr(torch.randn(table.shape[1], 8, generator=torch.Generator().manual_seed(1)))[0]
    with torch.no_grad():
        table[1:] = table[1:].mean(dim=0) + norm / 2 * grid @ mix.T


def build_model(tokenizer: Any) -> Any:
    """The dual encoder, with random weights."""
    from transformers import CLIPConfig, CLIPModel

    end = tokenizer.eos_token_id
    text = {
        "hidden_size": 128,
        "intermediate_size": 512,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "vocab_size": len(tokenizer),
        "max_position_embeddings": 40,
        "eos_token_id": end,
        "bos_token_id": tokenizer.bos_token_id,
        "pad_token_id": end,
        "hidden_act": "gelu",
    }
    vision = {
        "hidden_size": 192,
        "intermediate_size": 768,
        "num_hidden_layers": 6,
        "num_attention_heads": 6,
        "image_size": SIZE,
        "patch_size": PATCH,
        "hidden_act": "gelu",
    }
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=192)
    return CLIPModel(config)


def _heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def _qkv(attn: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    weight = torch.cat([attn.q_proj.weight, attn.k_proj.weight, attn.v_proj.weight])
    bias = torch.cat([attn.q_proj.bias, attn.k_proj.bias, attn.v_proj.bias])
    return F.linear(x, weight, bias).chunk(3, dim=-1)


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """Plain attention: for short rows its backward pass is faster on a CPU than the fused kernel's."""
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        scores = scores + torch.full(scores.shape[-2:], -torch.inf, dtype=scores.dtype).triu(1)
    return scores.softmax(dim=-1, dtype=scores.dtype) @ v


def _block(layer: Any, x: torch.Tensor, causal: bool) -> torch.Tensor:
    attn = layer.self_attn
    q, k, v = (_heads(t, attn.num_heads) for t in _qkv(attn, layer.layer_norm1(x)))
    y = _attend(q, k, v, causal)
    x = x + attn.out_proj(y.transpose(1, 2).reshape(x.shape))
    return x + layer.mlp(layer.layer_norm2(x))


def _dense_block(layer: Any, x: torch.Tensor) -> torch.Tensor:
    """The last block: the class token attends to all, each patch token to itself alone."""
    attn = layer.self_attn
    q, k, v = _qkv(attn, layer.layer_norm1(x))
    top = _attend(*(_heads(t, attn.num_heads) for t in (q[:, :1], k, v)), causal=False)
    mixed = torch.cat([top.transpose(1, 2).reshape(x.shape[0], 1, -1), v[:, 1:]], dim=1)
    x = x + attn.out_proj(mixed)
    return x + layer.mlp(layer.layer_norm2(x))


def vision_tokens(
    model: Any, pixels: torch.Tensor, keep: torch.Tensor | None, inner: list[torch.Tensor] | None = None
) -> torch.Tensor:
    """All tokens in the joint space, not normalised: (B, 1 + patches, D).

    `keep` (B, k) picks the patches to run; `inner` takes the class token after each block but the last.
    """
    tower = model.vision_model
    emb = tower.embeddings
    side = pixels.shape[-1] // PATCH
    cut = (
        pixels.unflatten(2, (side, PATCH))
        .unflatten(4, (side, PATCH))
        .permute(0, 2, 4, 1, 3, 5)
        .flatten(1, 2)
        .flatten(2)
    )
    x = F.linear(cut, emb.patch_embedding.weight.flatten(1)) + emb.position_embedding.weight[1:]
    if keep is not None:
        x = torch.gather(x, 1, keep[..., None].expand(-1, -1, x.shape[-1]))
    first = (emb.class_embedding + emb.position_embedding.weight[0]).expand(x.shape[0], 1, -1).to(x.dtype)
    x = tower.pre_layrnorm(torch.cat([first, x], dim=1))
    layers = tower.encoder.layers
    for layer in layers[:-1]:
        x = _block(layer, x, causal=False)
        if inner is not None:
            inner.append(x[:, 0])
    return model.visual_projection(tower.post_layernorm(_dense_block(layers[-1], x)))


def text_features(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """Text embeddings in the joint space, not normalised: (B, D)."""
    tower = model.text_model
    x = tower.embeddings.token_embedding(ids) + tower.embeddings.position_embedding.weight[: ids.shape[1]]
    for layer in tower.encoder.layers:
        x = _block(layer, x, causal=True)
    x = x[torch.arange(len(ids)), (ids == tower.eos_token_id).int().argmax(dim=1)]
    return model.text_projection(tower.final_layer_norm(x))


def tensor_ids(tokenizer: Any, texts: list[str]) -> torch.Tensor:
    """Token ids padded with the end token to the longest, rounded up to a multiple of 4."""
    rows = tokenizer(texts, truncation=True, max_length=40)["input_ids"]
    width = -(-max(map(len, rows)) // 4) * 4  # few distinct shapes: a new one costs the matrix library set-up time
    out = np.full((len(rows), width), tokenizer.eos_token_id, np.int64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return torch.from_numpy(out)


def encode_texts(model: Any, tokenizer: Any, texts: list[str], parts: int = 3) -> torch.Tensor:
    """Text embeddings, encoded in parts of like length so that little is spent on padding."""
    order = np.argsort([len(t) for t in texts], kind="stable")
    done = [
        text_features(model, tensor_ids(tokenizer, [texts[i] for i in rows])) for rows in np.array_split(order, parts)
    ]
    return torch.cat(done)[torch.from_numpy(np.argsort(order))]


def to_pixels(images: np.ndarray) -> torch.Tensor:
    """uint8 (B, H, W, 3) to normalised float (B, 3, H, W)."""
    return ((torch.from_numpy(images).float() / 255 - MEAN) / STD).permute(0, 3, 1, 2).contiguous()


def unit(x: torch.Tensor) -> torch.Tensor:
    return F.normalize(x.float(), dim=-1)
