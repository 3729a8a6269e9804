"""Patch tokens of CLIP's vision transformers, with the plain image embedding, in one pass.

Patches pass the last block by its value path alone: H + W_O W_V LN(H), then the block's MLP, as if each patch attended
to itself only; the global token attends to all, as always. Then comes the usual last norm and projection, for every
token. Attention among patches is summed up on the way, so memory does not grow with layers or heads.

The blocks are walked here rather than through the libraries' own forward passes: these give no attention weights
under their fast attention (transformers then returns an empty tuple, without an error). Tests hold the plain embedding
against theirs. Source: arXiv 2608.12088, eqs. 5 to 8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beholder._errors import ModelError
from beholder.backends.base import Columns
from beholder.backends.tensors import to_numpy


@dataclass(frozen=True)
class Block:
    """One transformer block of either library.

    Args:
        norm: the norm before attention.
        query, key, value: (n, T, w) → (n, T, w).
        out: attention's output, with whatever scale the block gives it.
        feed: (n, T, w) → (n, T, w): second norm, MLP and its scale.
        heads: number of heads.
    """

    norm: Callable[[Any], Any]
    query: Callable[[Any], Any]
    key: Callable[[Any], Any]
    value: Callable[[Any], Any]
    out: Callable[[Any], Any]
    feed: Callable[[Any], Any]
    heads: int


@dataclass(frozen=True)
class Tower:
    """A vision transformer with a class token in front.

    Args:
        embed: pixels → tokens (n, T, w), positions and first norm included.
        blocks: all blocks.
        project: last norm and projection of tokens (n, T, w) → (n, T, d).
        grid: (rows, columns) of the patches.
    """

    embed: Callable[[Any], Any]
    blocks: Sequence[Block]
    project: Callable[[Any], Any]
    grid: tuple[int, int]


@dataclass(frozen=True)
class PatchTokens:
    """What one pass gives, as tensors.

    Args:
        embedding: (n, d) the plain image embedding.
        bypassed: (n, d) the global token with its last attention bypassed.
        patches: (n, P, d) projected patch tokens.
        attention: (n, P, P) float32: attention among patches, mean over heads and all blocks but the last.
    """

    embedding: Any
    bypassed: Any
    patches: Any
    attention: Any


def patch_pass(tower: Tower, pixels: Any) -> PatchTokens:
    """Runs a tower.

    Raises:
        ModelError: a tower of fewer than two blocks, or pictures of another size than its grid.
    """
    import torch

    if len(tower.blocks) < 2:
        raise ModelError("refined patch scores need a vision tower of two blocks or more", got=str(len(tower.blocks)))
    tokens = tower.embed(pixels)
    count = tower.grid[0] * tower.grid[1]
    if tokens.shape[1] != count + 1:
        raise ModelError(
            f"pictures must give one global token and {count} patches", got=f"{tokens.shape[1]} tokens",
            fix="Their size must be the model's own",
        )  # fmt: skip
    total: Any = None
    for block in tower.blocks[:-1]:
        normed = block.norm(tokens)
        weights = _attention(block, normed, normed)
        tokens = tokens + block.out(_merge(weights @ _split(block.value(normed), block.heads)))
        tokens = tokens + block.feed(tokens)
        mean = weights[:, :, 1:, 1:].mean(dim=1).float()
        total = mean if total is None else total + mean
    last = tower.blocks[-1]
    normed = last.norm(tokens)
    values = last.value(normed)
    weights = _attention(last, normed[:, :1], normed)
    whole = tokens[:, :1] + last.out(_merge(weights @ _split(values, last.heads)))
    rows = torch.cat([whole, tokens + last.out(values)], dim=1)
    projected = tower.project(rows + last.feed(rows))
    return PatchTokens(projected[:, 0], projected[:, 1], projected[:, 2:], total / (len(tower.blocks) - 1))


def patch_columns(tower: Tower, pixels: Any) -> Columns:
    """The columns of a `PatchEncoder`. Patches are scaled to length 1 and, like attention, kept in float16."""
    import torch

    found = patch_pass(tower, pixels)
    patches = found.patches.float()
    length = patches.norm(dim=2, keepdim=True)
    units = patches / torch.where(length > 0, length, torch.ones_like(length))
    grid = torch.tensor([tower.grid], dtype=torch.int32).expand(len(patches), 2)
    return {
        "embedding": to_numpy(found.embedding),
        "embedding_bypassed": to_numpy(found.bypassed),
        "patches": units.half().cpu().numpy(),
        "attention": found.attention.half().cpu().numpy(),
        "grid": grid.numpy().copy(),
    }


def _split(rows: Any, heads: int) -> Any:
    """(n, T, w) → (n, heads, T, w/heads)."""
    n, count, width = rows.shape
    return rows.view(n, count, heads, width // heads).transpose(1, 2)


def _merge(rows: Any) -> Any:
    """(n, heads, T, w/heads) → (n, T, w)."""
    n, heads, count, width = rows.shape
    return rows.transpose(1, 2).reshape(n, count, heads * width)


def _attention(block: Block, asking: Any, asked: Any) -> Any:
    """(n, heads, T, T') softmax of scaled products of queries and keys."""
    queries, keys = _split(block.query(asking), block.heads), _split(block.key(asked), block.heads)
    scale = queries.shape[-1] ** -0.5
    return ((queries * scale) @ keys.transpose(2, 3)).softmax(dim=-1)


# transformers


def hf_fault(model_type: str) -> str | None:
    """Why a model type of transformers has no patch tokens for this, or None."""
    if model_type == "siglip":
        return "SigLIP has no global token and pools by attention; patches alone are not offered"
    return None


def hf_tower(network: Any) -> Tower:
    """The vision tower of transformers' CLIP and its kin."""
    vision = network.vision_model
    layers = vision.encoder.layers
    size, patch = vision.config.image_size, vision.config.patch_size
    return Tower(
        lambda pixels: vision.pre_layrnorm(vision.embeddings(pixels)),
        [_hf_block(layer) for layer in layers],
        lambda tokens: network.visual_projection(vision.post_layernorm(tokens)),
        (size // patch, size // patch),
    )


def _hf_block(layer: Any) -> Block:
    attention = layer.self_attn
    return Block(
        layer.layer_norm1, attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj,
        lambda tokens: layer.mlp(layer.layer_norm2(tokens)), int(attention.num_heads),
    )  # fmt: skip


# open_clip


def open_clip_fault(config: Mapping[str, Any]) -> str | None:
    """Why an architecture of open_clip has no patch tokens for this, or None; told by its configuration alone."""
    vision = config["vision_cfg"]
    if isinstance(vision.get("layers"), (list, tuple)):
        return "its vision tower is a ResNet (ModifiedResNet): it has no attention in each layer to refine with"
    if vision.get("timm_model_name"):
        return f"its vision tower is timm's {vision['timm_model_name']}, whose pooling differs"
    if vision.get("attentional_pool"):
        return "its vision tower pools by attention, so patch tokens do not share the image embedding's projection"
    if vision.get("final_ln_after_pool"):
        return "its vision tower norms after pooling, so patch tokens are not in the image embedding's space"
    if vision.get("pool_type", "tok") != "tok":
        return f"its vision tower pools by {vision['pool_type']!r} and has no global token of its own"
    changed = [key for key in _OTHER_ATTENTION if vision.get(key)]
    if changed:
        return f"its vision tower has another attention ({', '.join(changed)}), which is not built yet"
    return None


_OTHER_ATTENTION = (
    "block_type", "qk_norm", "scaled_cosine_attn", "scale_heads", "scale_attn_inner", "scale_attn", "scale_fc",
)  # fmt: skip


def open_clip_tower(network: Any, name: str) -> Tower:
    """The vision tower of an open_clip model.

    Raises:
        ModelError: a tower of another build than its configuration says.
    """
    import torch

    visual = network.visual
    blocks = getattr(getattr(visual, "transformer", None), "resblocks", ())
    if not blocks or not all(isinstance(block.attn, torch.nn.MultiheadAttention) for block in blocks):
        raise ModelError(f"{name} must have a vision transformer of plain attention blocks", got=type(visual).__name__)
    grid = tuple(int(side) for side in visual.grid_size)
    return Tower(
        visual._embeds,
        [_open_clip_block(block) for block in blocks],
        lambda tokens: visual.ln_post(tokens) @ visual.proj,
        (grid[0], grid[1]),
    )


def _open_clip_block(block: Any) -> Block:
    from torch.nn.functional import linear

    attention = block.attn
    width = attention.embed_dim

    def part(number: int) -> Callable[[Any], Any]:
        rows = slice(number * width, (number + 1) * width)
        return lambda tokens: linear(tokens, attention.in_proj_weight[rows], attention.in_proj_bias[rows])

    return Block(
        block.ln_1, part(0), part(1), part(2), lambda tokens: block.ls_1(attention.out_proj(tokens)),
        lambda tokens: block.ls_2(block.mlp(block.ln_2(tokens))), int(attention.num_heads),
    )  # fmt: skip
