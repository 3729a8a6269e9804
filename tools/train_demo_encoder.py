"""Train the small image-text encoder that ships as `demo:emoji`, on scenes drawn by `beholder.scenes`.

The model is a dual encoder in the transformers CLIP format. Training is resumable: it writes a checkpoint every few
minutes into the work folder and goes on from there when it is started again. The learning rate follows the share of the
time budget that was spent, so that it ends at zero whatever the speed of the machine.

    python tools/train_demo_encoder.py --work DIR --budget 4800          # train (again: go on)
    python tools/train_demo_encoder.py --work DIR --export FOLDER        # write the model in fp16

Losses, all with the shared temperature:
 1. contrastive, images against captions, with near misses of each caption (object, place, colour, count, size …) added
    as further negatives; a caption that is true of another scene of the batch is no negative of it;
 2. the objects that a scene shows against all others, over prompts of one form ("a photo of a cat"); and its background
    colour against the other colours;
 3. "This is a photo of X." against "This is a photo without X.", for objects that are and are not there;
 4. the same on patch tokens (last block with identity attention, so that a patch token sees itself alone), where the
    exact masks say which object or background colour a patch shows.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import multiprocessing as mp
import os
import queue
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from beholder import scenes as S
from beholder._errors import OptionError
from beholder.scenes.captions import relations_of

SIZE, PATCH, GRID = 64, 8, 8
MEAN, STD = 0.5, 0.25
EDIT_ODDS = ("move_object", "move_object", *S.EDITS)
COLOR_NAMES = tuple(S.COLORS)
NEAR_MISSES = 3
PAIR_NAMES = 64
FORMS: tuple[tuple[str, str], ...] = (
    ("a photo of {a}", "a photo without {a}"),
    ("This is a photo of {a}.", "This is a photo without {a}."),
    ("This is a photo of {b}.", "This is a photo without {b}."),
    ("a photo of {b}", "a photo without {b}"),
    ("A photo depicts {a}.", "A photo depicts a scene without {a}."),
    ("{a}", "a photo without {a}"),
    ("{b}", "a photo without {b}"),
    ("a picture of {a}", "a picture without {a}"),
    ("The image shows {a}.", "The image shows a scene without {a}."),
)
"""Forms of the prompt bank, with and without the object; {a} has the article, {b} is the bare name."""


def fill(form: str, name: str) -> str:
    """A form's words for an object."""
    return form.format(a=f"{S.thing(name).article} {name}", b=name)


def fill_color(form: str, color: str) -> str:
    """A form's words for a background colour."""
    article = "an" if color[0] in "aeiou" else "a"
    return form.format(a=f"{article} {color} background", b=f"{color} background")


# ---------------------------------------------------------------- tokenizer and model


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


# ---------------------------------------------------------------- batches


@dataclass
class Batch:
    """One step's data, as arrays."""

    pixels: np.ndarray
    patches: np.ndarray
    shown: np.ndarray
    color: np.ndarray
    captions: list[str]
    misses: list[str]
    miss_ok: np.ndarray
    ignore: np.ndarray
    seen: np.ndarray
    told: np.ndarray


def picture(scene: S.Scene, rng: np.random.Generator) -> np.ndarray:
    """A scene at the model's size, sometimes through a larger picture, sometimes lightly spoiled or compressed."""
    draw = rng.random(4)
    size = SIZE if draw[0] < 0.7 else 128 if draw[0] < 0.93 else 256
    if size == SIZE and draw[1] >= 0.2:
        return S.render_array(scene, SIZE)
    image = S.render(scene, size)
    if draw[1] < 0.12:
        image = S.spoil(
            image, blur=float(rng.uniform(0, 0.012)), noise=int(rng.integers(0, 14)), seed=int(rng.integers(2**31))
        )
    elif draw[1] < 0.2:
        data = io.BytesIO()
        image.save(data, "JPEG", quality=int(rng.integers(50, 96)))
        image = Image.open(data).convert("RGB")
    if size != SIZE:
        image = image.resize((SIZE, SIZE), Image.Resampling.BICUBIC)
    return np.asarray(image)


def patch_labels(scene: S.Scene, index: dict[str, int]) -> np.ndarray:
    """(64,) what each patch shows: an object's index, len(index) + colour index, or -1 where neither is clear."""
    share = S.masks(scene, SIZE).reshape(-1, GRID, PATCH, GRID, PATCH).mean(axis=(2, 4)).reshape(-1, GRID * GRID)
    labels = np.full(GRID * GRID, -1, np.int64)
    total = share.sum(axis=0)
    labels[total <= 0.03] = len(index) + COLOR_NAMES.index(scene.background.color)
    for row, item in zip(share, scene.objects):
        labels[row >= 0.4] = index[item.name]
    return labels


COLUMNS = {"left": 0, "middle": 1, "right": 2}
ROWS = {"top": 0, "middle": 1, "bottom": 2}


def seen_places(number: int, scene: S.Scene, index: dict[str, int]) -> list[tuple[int, ...]]:
    """Questions about places with their answers: (scene, object, other object or -1, column or side, row or side).

    For two objects the answers are which side the first lies on, 1 where that is not clear.
    """
    single = [o for o in scene.objects if scene.count(o.name) == 1]
    rows = [(number, index[o.name], -1, COLUMNS[o.column], ROWS[o.row]) for o in single]
    for a in single:
        for b in single:
            if a is not b:
                relations = relations_of(a, b)
                across = 0 if "left of" in relations else 2 if "right of" in relations else 1
                down = 0 if "above" in relations else 2 if "below" in relations else 1
                rows.append((number, index[a.name], index[b.name], across, down))
    return rows


def told_places(number: int, claim: S.Claim, index: dict[str, int]) -> list[tuple[int, ...]]:
    """The same questions, answered by a claim; -1 where it does not say."""
    rows = []
    for mention in claim.mentions:
        words = (mention.place or "").split()
        if words:
            both = words == ["middle"]
            column = next((COLUMNS[w] for w in words if w in ("left", "right")), 1 if both else -1)
            row = next((ROWS[w] for w in words if w in ("top", "bottom")), 1 if both else -1)
            rows.append((number, index[mention.name], -1, column, row))
    if claim.relation:
        answer = {"left of": (0, -1), "right of": (2, -1), "above": (-1, 0), "below": (-1, 2)}[claim.relation]
        a, b = (index[m.name] for m in claim.mentions[:2])
        rows.append((number, a, b, *answer))
        rows.append((number, b, a, *(2 - v if v >= 0 else v for v in answer)))
    return rows


def say(scene: S.Scene, rng: np.random.Generator) -> S.Claim:
    """A claim to train on: sometimes terse, sometimes detailed, sometimes about one object or the background only."""
    draw = rng.random(4)
    if draw[0] < 0.05 or not scene.objects:
        return S.Claim(color=scene.background.color, texture=scene.background.texture if draw[1] < 0.5 else None)
    claim = S.describe(scene, rng, detail=(0.15, 0.6, 1.0, 1.0)[int(rng.integers(4))])
    if len(claim.mentions) > 1 and claim.relation is None and draw[2] < 0.15:
        claim = replace(claim, mentions=(claim.mentions[int(rng.integers(len(claim.mentions)))],))
    return claim


def make_batch(seed: tuple[int, int], size: int, index: dict[str, int]) -> Batch:
    """Draw one step's scenes, pictures, captions and near misses. A third of the scenes are edits of others."""
    rng = np.random.default_rng(list(seed))
    base = size - size // 3
    drawn = [S.sample_scene(rng) for _ in range(base)]
    while len(drawn) < size:
        origin = drawn[int(rng.integers(base))]
        try:
            drawn.append(S.edit(origin, EDIT_ODDS[int(rng.integers(len(EDIT_ODDS)))], rng))
        except OptionError:  # an object that fits nowhere else
            drawn.append(S.sample_scene(rng))
    names = list(S.TEMPLATES)
    claims = [say(scene, rng) for scene in drawn]
    forms = [names[int(i)] for i in rng.integers(len(names), size=size)]
    misses, ok = [], np.zeros((size, NEAR_MISSES), np.bool_)
    for i, (scene, claim, form) in enumerate(zip(drawn, claims, forms)):
        for k in range(NEAR_MISSES):
            kind = (
                None
                if k == 2
                else "place"
                if k == 0
                else ("place", "place", "count", "texture", "absent", "color", "object")[int(rng.integers(7))]
            )
            wrong = S.contradict(claim, scene, rng, kind=kind) or (S.contradict(claim, scene, rng) if k == 1 else None)
            ok[i, k] = wrong is not None
            misses.append((wrong or claim).text(form))
    ignore = np.zeros((size, size), np.bool_)
    sets = [set(scene.names) for scene in drawn]
    for j, claim in enumerate(claims):
        wanted = {m.name for m in claim.mentions}
        for i, scene in enumerate(drawn):
            if i != j and wanted <= sets[i] and claim.holds(scene):
                ignore[i, j] = True
    shown = np.zeros((size, len(index)), np.bool_)
    for i, scene in enumerate(drawn):
        shown[i, [index[n] for n in scene.names]] = True
    return Batch(
        pixels=np.stack([picture(scene, rng) for scene in drawn]),
        patches=np.stack([patch_labels(scene, index) for scene in drawn]),
        shown=shown,
        color=np.array([COLOR_NAMES.index(scene.background.color) for scene in drawn]),
        captions=[claim.text(form) for claim, form in zip(claims, forms)],
        misses=misses,
        miss_ok=ok,
        ignore=ignore,
        seen=np.array([row for i, scene in enumerate(drawn) for row in seen_places(i, scene, index)]),
        told=np.array([row for i, claim in enumerate(claims) for row in told_places(i, claim, index)]),
    )


def _produce(seed: int, first: int, size: int, out: Any) -> None:
    index = {name: i for i, name in enumerate(S.object_names())}
    torch.set_num_threads(1)
    os.nice(3)
    step = first
    while True:
        out.put((step, make_batch((seed, step), size, index)))
        step += 1


# ---------------------------------------------------------------- losses


class PlaceHead(torch.nn.Module):
    """Asks an embedding, of a picture or of a caption, where an object is; used in training only.

    Without it, place words are never learned: captions that differ in place alone have equal embeddings as long as
    pictures that differ in place alone have, and the other way round. One head for both towers breaks that tie and
    makes them write places in the same way.
    """

    def __init__(self, width: int, hidden: int = 384) -> None:
        super().__init__()
        self.what = torch.nn.Linear(width, hidden)
        self.which = torch.nn.Linear(width, hidden)
        self.plain = torch.nn.Linear(width, hidden)
        self.one = torch.nn.Linear(2 * hidden, 6)
        self.two = torch.nn.Linear(2 * hidden, 6)

    def forward(self, embedding: torch.Tensor, names: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy over rows (embedding, object, other object or -1, answer, answer)."""
        pair = rows[:, 2] >= 0
        asked = self.which(names * 10)
        query = asked[rows[:, 1]] - torch.where(pair[:, None], asked[rows[:, 2].clamp(min=0)], 0.0)
        shown = embedding[rows[:, 0]] * 10
        hidden = F.gelu(torch.cat([self.what(shown) * query, self.plain(shown)], dim=1))
        logits = torch.where(pair[:, None], self.two(hidden), self.one(hidden)).view(-1, 2, 3)
        return F.cross_entropy(logits.flatten(0, 1), rows[:, 3:].flatten(), ignore_index=-1)


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


def _balanced(loss: torch.Tensor, truth: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
    yes, no = (truth & valid).float(), (~truth & valid).float()
    return (loss * yes).sum() / yes.sum().clamp(min=1) + (loss * no).sum() / no.sum().clamp(min=1)


def losses(
    model: Any, heads: torch.nn.ModuleList, tokenizer: Any, batch: Batch, rng: np.random.Generator, keep_share: float
) -> dict[str, torch.Tensor]:
    """The parts of the training loss for one batch."""
    names = S.object_names()
    size, count = len(batch.captions), len(names)
    form, without = FORMS[int(rng.integers(len(FORMS)))]
    present = np.flatnonzero(batch.shown.any(axis=0))
    pair = rng.permutation(
        np.unique(np.concatenate([rng.permutation(present)[: PAIR_NAMES * 3 // 4], rng.integers(0, count, PAIR_NAMES)]))
    )[:PAIR_NAMES]
    pair = np.resize(pair, PAIR_NAMES)
    bank = (
        [fill(form, n) for n in names]
        + [fill_color(form, c) for c in COLOR_NAMES]
        + [fill(without, names[i]) for i in pair]
    )
    patches = torch.from_numpy(batch.patches)
    keep = None
    if keep_share < 1:
        keep = torch.from_numpy(rng.random((size, GRID * GRID)).argsort(axis=1)[:, : int(GRID * GRID * keep_share)])
        patches = torch.gather(patches, 1, keep)
    with torch.autocast("cpu", torch.bfloat16):
        inner: list[torch.Tensor] = []
        tokens = vision_tokens(model, to_pixels(batch.pixels), keep, inner)
        texts = encode_texts(model, tokenizer, batch.captions + batch.misses)
        prompts = encode_texts(model, tokenizer, bank, parts=2)
    tokens, texts, prompts = unit(tokens), unit(texts), unit(prompts)
    scale = model.logit_scale.exp()
    image, dense = tokens[:, 0], tokens[:, 1:]
    out: dict[str, torch.Tensor] = {}

    same = torch.arange(size)
    logits = (scale * image @ texts[:size].T).masked_fill(torch.from_numpy(batch.ignore), -1e4)
    wrong = scale * torch.einsum("bd,bkd->bk", image, texts[size:].view(size, NEAR_MISSES, -1))
    wrong = wrong.masked_fill(torch.from_numpy(~batch.miss_ok), -1e4)
    out["contrast"] = (F.cross_entropy(torch.cat([logits, wrong], dim=1), same) + F.cross_entropy(logits.T, same)) / 2
    out["near"] = F.cross_entropy(
        torch.cat([logits.diagonal()[:, None], wrong], dim=1), torch.zeros(size, dtype=torch.long)
    )

    shown = torch.from_numpy(batch.shown)
    some = shown.any(dim=1)
    objects = scale * image @ prompts[:count].T
    target = objects.masked_fill(~shown, -1e4).logsumexp(dim=1) - objects.logsumexp(dim=1)
    out["object"] = -(target * some).sum() / some.sum()
    out["color"] = F.cross_entropy(
        scale * image @ prompts[count : count + len(COLOR_NAMES)].T, torch.from_numpy(batch.color)
    )

    gap = prompts[torch.from_numpy(pair)] - prompts[count + len(COLOR_NAMES) :]
    chosen = shown[:, pair]
    score = scale * image @ gap.T
    out["without"] = _balanced(F.softplus(torch.where(chosen, -score, score)), chosen, torch.ones_like(chosen))

    seen, told = torch.from_numpy(batch.seen), torch.from_numpy(batch.told)
    names_of = prompts[:count].detach()
    out["seen"] = heads[-1](image, names_of, seen)
    out["told"] = heads[-1](texts[:size], names_of, told)
    for level, (each_head, token) in enumerate(zip(heads, inner)):
        out[f"seen_{level}"] = each_head(F.layer_norm(token.float(), token.shape[-1:]) / 14, names_of, seen)

    known = patches >= 0
    label = patches[known]
    dense = dense[known]
    each = F.cross_entropy(scale * dense @ prompts[: count + len(COLOR_NAMES)].T, label, reduction="none")
    thing = label < count
    out["patch"] = each[thing].mean() + 0.5 * each[~thing].mean()
    score = scale * dense @ gap.T
    chosen = label[:, None] == torch.from_numpy(pair)[None]
    out["patch_without"] = _balanced(F.softplus(torch.where(chosen, -score, score)), chosen, torch.ones_like(chosen))
    return out


WEIGHTS = {
    "contrast": 1.0,
    "near": 1.0,
    "seen": 1.0,
    **{f"seen_{level}": 0.4 for level in range(5)},
    "told": 0.7,
    "object": 0.5,
    "color": 0.2,
    "without": 0.25,
    "patch": 0.6,
    "patch_without": 0.2,
}


# ---------------------------------------------------------------- the loop


def probe(model: Any, tokenizer: Any, seed: int, count: int = 300) -> dict[str, float]:
    """Quick held-out figures while training: top-1, retrieval among 100, patch labels right."""
    rng = np.random.default_rng([seed, 7])
    index = {name: i for i, name in enumerate(S.object_names())}
    one = [S.sample_scene(rng, S.SceneOptions(counts=(1,), count_weights=())) for _ in range(count)]
    many = [S.sample_scene(rng) for _ in range(100)]
    lines = [S.caption(scene, rng, detail=1.0) for scene in many]
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        tokens = unit(vision_tokens(model, to_pixels(np.stack([S.render_array(s, SIZE) for s in one + many])), None))
        bank = unit(
            text_features(
                model,
                tensor_ids(
                    tokenizer,
                    [fill("a photo of {a}", n) for n in index] + [fill_color("a photo of {a}", c) for c in COLOR_NAMES],
                ),
            )
        )
        texts = unit(text_features(model, tensor_ids(tokenizer, lines)))
    truth = torch.tensor([index[s.objects[0].name] for s in one])
    top = ((tokens[:count, 0] @ bank[: len(index)].T).argmax(1) == truth).float().mean()
    sims = tokens[count:, 0] @ texts.T
    same = torch.arange(100)
    labels = torch.from_numpy(np.stack([patch_labels(s, index) for s in one]))
    guess = (tokens[:count, 1:] @ bank.T).argmax(2)
    thing = (labels >= 0) & (labels < len(index))
    return {
        "top1": float(top),
        "i2t": float((sims.argmax(1) == same).float().mean()),
        "t2i": float((sims.argmax(0) == same).float().mean()),
        "patch_object": float((guess == labels)[thing].float().mean()),
        "patch_color": float((guess == labels)[labels >= len(index)].float().mean()),
    }


def rate(progress: float, peak: float) -> float:
    """The learning rate at a share of the budget: linear warm-up, then a cosine to zero."""
    if progress < 0.03:
        return peak * max(progress, 1e-4) / 0.03
    return peak * 0.5 * (1 + math.cos(math.pi * min(1.0, (progress - 0.03) / 0.97)))


def train(args: argparse.Namespace) -> None:
    """Train, or go on, until the budget is spent."""
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    args.work.mkdir(parents=True, exist_ok=True)
    tokenizer = load_tokenizer(args.work)
    model = build_model(tokenizer)
    depth = model.config.vision_config.num_hidden_layers
    heads = torch.nn.ModuleList(PlaceHead(model.config.projection_dim) for _ in range(depth))
    decay = [p for n, p in model.named_parameters() if p.ndim > 1 and "embedding" not in n]
    plain = [p for n, p in model.named_parameters() if p.ndim <= 1 or "embedding" in n]
    optimizer = torch.optim.AdamW(
        [
            {"params": decay, "weight_decay": 0.05},
            {"params": plain, "weight_decay": 0.0},
            {"params": list(heads.parameters()), "weight_decay": 0.0},
        ],
        lr=args.lr,
        betas=(0.9, 0.98),
        fused=True,
    )
    state = {"step": 0, "spent": 0.0}
    path = args.work / "checkpoint.pt"
    if path.exists():
        saved = torch.load(path, weights_only=True)
        model.load_state_dict(saved["model"])
        heads.load_state_dict(saved["head"])
        optimizer.load_state_dict(saved["optimizer"])
        state = saved["state"]
    elif args.start:
        model.load_state_dict(torch.load(args.start, weights_only=True)["model"])
    if not path.exists() and args.place_norm > 0:
        place_patches(model, args.place_norm)
    batches: Any = mp.get_context("spawn").Queue(maxsize=6)
    maker = mp.get_context("spawn").Process(
        target=_produce, args=(args.seed, state["step"], args.batch, batches), daemon=True
    )
    maker.start()
    log = open(args.work / "log.jsonl", "a", encoding="utf-8")  # noqa: SIM115
    started, before, saved_at = time.monotonic(), state["spent"], time.monotonic()
    mean: dict[str, float] = {}
    while state["spent"] < args.budget and (args.steps is None or state["step"] < args.steps):
        progress = state["spent"] / args.budget
        for number, group in enumerate(optimizer.param_groups):
            group["lr"] = rate(progress, args.lr if number < 2 else 2e-3)
        waited = time.monotonic()
        try:
            step, batch = batches.get(timeout=120)
        except queue.Empty:
            raise SystemExit("the process that draws scenes stopped") from None
        waited = time.monotonic() - waited
        rng = np.random.default_rng([args.seed, step, 1])
        parts = losses(model, heads, tokenizer, batch, rng, 0.5 if progress < args.drop_until else 1.0)
        loss = sum(WEIGHTS[k] * v for k, v in parts.items())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            model.logit_scale.clamp_(max=math.log(100))
        state = {"step": state["step"] + 1, "spent": before + time.monotonic() - started}
        for key, value in {**{k: float(v.detach()) for k, v in parts.items()}, "waited": waited}.items():
            mean[key] = 0.95 * mean.get(key, value) + 0.05 * value
        if state["step"] % 25 == 0:
            line = {
                **state,
                "lr": optimizer.param_groups[0]["lr"],
                "scale": float(model.logit_scale.detach().exp()),
                **mean,
            }
            log.write(json.dumps({k: round(v, 5) for k, v in line.items()}) + "\n")
            log.flush()
        if time.monotonic() - saved_at > 240:
            save(path, model, heads, optimizer, state)
            log.write(json.dumps({**state, **probe(model, tokenizer, 999)}) + "\n")
            log.flush()
            saved_at = time.monotonic()
    save(path, model, heads, optimizer, state)
    log.write(json.dumps({**state, **probe(model, tokenizer, 999), "done": True}) + "\n")
    log.close()
    maker.terminate()


def save(path: Path, model: Any, heads: torch.nn.ModuleList, optimizer: Any, state: dict[str, Any]) -> None:
    """Write the checkpoint in one move."""
    part = path.with_suffix(".part")
    parts = {
        "model": model.state_dict(),
        "head": heads.state_dict(),
        "optimizer": optimizer.state_dict(),
        "state": state,
    }
    torch.save(parts, part)
    os.replace(part, path)


def export(work: Path, folder: Path) -> None:
    """Write the trained model as a transformers folder, weights in fp16."""
    from transformers import CLIPImageProcessorPil

    tokenizer = load_tokenizer(work)
    tokenizer.save_pretrained(folder)
    model = build_model(tokenizer)
    model.load_state_dict(torch.load(work / "checkpoint.pt", weights_only=True)["model"])
    model.half().save_pretrained(folder)
    CLIPImageProcessorPil(
        size={"shortest_edge": SIZE},
        crop_size={"height": SIZE, "width": SIZE},
        image_mean=[MEAN] * 3,
        image_std=[STD] * 3,
    ).save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of the checkpoint and the log")
    parser.add_argument("--export", type=Path, help="write the model of the last checkpoint there, and stop")
    parser.add_argument("--start", type=Path, help="checkpoint to take the model's weights from in a new work folder")
    parser.add_argument("--budget", type=float, default=4800, help="seconds of training, all legs together")
    parser.add_argument("--steps", type=int, help="stop after so many steps (for tests)")
    parser.add_argument("--batch", type=int, default=192)
    parser.add_argument("--lr", type=float, default=1.2e-3)
    parser.add_argument(
        "--drop-until", type=float, default=0.35, help="share of the budget with half of the patches dropped"
    )
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument(
        "--place-norm", type=float, default=5.0, help="norm of the position embeddings' map of the grid; 0: random ones"
    )
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if args.export:
        export(args.work, args.export)
    else:
        train(args)


if __name__ == "__main__":
    sys.exit(main())
