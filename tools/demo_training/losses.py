"""The parts of the training loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from beholder import scenes as S
from demo_training.batches import COLOR_NAMES, NEAR_MISSES, Batch
from demo_training.model import GRID, encode_texts, to_pixels, unit, vision_tokens
from demo_training.place_words import CentreHead, place_texts, place_word_loss

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


class PlaceHead(torch.nn.Module):
    """Asks an embedding, of a picture or of a caption, where an object is; used in training only.

    Without it, place words are never learned: captions that differ in place alone have equal embeddings as long as
    pictures that differ in place alone have, and the other way round. One head for both towers breaks that tie and
    makes them write places in the same way.
    """

    def __init__(self, width: int, hidden: int = 384) -> None:
        super().__init__()
        self.alone = torch.nn.Linear(width, 6)
        self.what = torch.nn.Linear(width, hidden)
        self.which = torch.nn.Linear(width, hidden)
        self.plain = torch.nn.Linear(width, hidden)
        self.one = torch.nn.Linear(2 * hidden, 6)
        self.two = torch.nn.Linear(2 * hidden, 6)

    def forward(
        self, embedding: torch.Tensor, names: torch.Tensor, rows: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean cross-entropy over rows (embedding, object, other object, answer, answer).

        The other object is -1 where the question is about one object among others, and -2 where it stands alone.
        Returns the losses for objects that stand alone and for all others.
        """
        shown = embedding[rows[:, 0]] * 14
        lone, pair = rows[:, 2] == -2, rows[:, 2] >= 0
        first = F.cross_entropy(self.alone(shown[lone]).view(-1, 3), rows[lone, 3:].flatten(), ignore_index=-1)
        rows, shown, pair = rows[~lone], shown[~lone], pair[~lone]
        asked = self.which(names * 14)
        query = asked[rows[:, 1]] - torch.where(pair[:, None], asked[rows[:, 2].clamp(min=0)], 0.0)
        hidden = F.gelu(torch.cat([self.what(shown) * query, self.plain(shown)], dim=1))
        logits = torch.where(pair[:, None], self.two(hidden), self.one(hidden)).view(-1, 3)
        return first, F.cross_entropy(logits, rows[:, 3:].flatten(), ignore_index=-1)


def _balanced(score: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """Logistic loss of scores, true and false cells weighing the same."""
    loss = F.softplus(torch.where(truth, -score, score))
    yes, no = truth.float(), (~truth).float()
    return (loss * yes).sum() / yes.sum().clamp(min=1) + (loss * no).sum() / no.sum().clamp(min=1)


@dataclass
class Prompts:
    """One step's bank of prompts: all objects and background colours in one form, and some objects with "without"."""

    names: torch.Tensor
    colors: torch.Tensor
    pair: torch.Tensor
    without: torch.Tensor

    @property
    def gap(self) -> torch.Tensor:
        """With minus without, for the objects in `pair`."""
        return self.names[self.pair] - self.without


def _bank(batch: Batch, rng: np.random.Generator) -> tuple[list[str], np.ndarray]:
    """The texts of the bank, and the objects that are also asked about with "without"."""
    names = S.object_names()
    form, without = FORMS[int(rng.integers(len(FORMS)))]
    present = rng.permutation(np.flatnonzero(batch.shown.any(axis=0)))[: PAIR_NAMES * 3 // 4]
    pool = np.unique(np.concatenate([present, rng.integers(0, len(names), PAIR_NAMES)]))
    pair = np.resize(rng.permutation(pool)[:PAIR_NAMES], PAIR_NAMES)
    texts = [fill(form, n) for n in names] + [fill_color(form, c) for c in COLOR_NAMES]
    return texts + [fill(without, names[i]) for i in pair], pair


def losses(
    model: Any, heads: torch.nn.ModuleList, tokenizer: Any, batch: Batch, rng: np.random.Generator, keep_share: float
) -> dict[str, torch.Tensor]:
    """The parts of the training loss for one batch.

    Questions about places go through the place heads; where a centre head is given instead, in the last stage, they
    go to the prompts themselves.
    """
    size, count = len(batch.captions), len(S.object_names())
    texts_of_bank, pair = _bank(batch, rng)
    patches = torch.from_numpy(batch.patches)
    keep = None
    if keep_share < 1:
        keep = torch.from_numpy(rng.random((size, GRID * GRID)).argsort(axis=1)[:, : int(GRID * GRID * keep_share)])
        patches = torch.gather(patches, 1, keep)
    inner: list[torch.Tensor] = []
    with torch.autocast("cpu", torch.bfloat16):
        tokens = vision_tokens(model, to_pixels(batch.pixels), keep, inner)
        texts = encode_texts(model, tokenizer, batch.captions + batch.misses)
        bank = encode_texts(model, tokenizer, texts_of_bank, parts=2)
        if isinstance(heads[-1], CentreHead):
            form = FORMS[0][0] if rng.random() < 0.5 else FORMS[int(rng.integers(len(FORMS)))][0]
            places = unit(encode_texts(model, tokenizer, place_texts(batch.lone, form), parts=1))
    tokens, texts, bank = unit(tokens), unit(texts), unit(bank)
    cut = count + len(COLOR_NAMES)
    prompts = Prompts(bank[:count], bank[count:cut], torch.from_numpy(pair), bank[cut:])
    scale = model.logit_scale.exp()
    out = _contrast(batch, scale * tokens[:, 0], texts)
    out |= _contents(batch, scale * tokens[:, 0], prompts)
    if isinstance(heads[-1], PlaceHead):
        out |= _places(batch, heads, tokens[:, 0], texts[:size], inner, prompts)
    else:
        out["place_words"] = place_word_loss(scale * tokens[:, 0], places, batch.lone)
        out["centre"] = heads[-1](tokens[:, 0], batch.lone, batch.centre)
    out |= _patches(patches, scale * tokens[:, 1:], prompts)
    return out


def _contrast(batch: Batch, image: torch.Tensor, texts: torch.Tensor) -> dict[str, torch.Tensor]:
    """Images against captions both ways, with each image's near misses; and each caption against its near misses."""
    size = len(image)
    same = torch.arange(size)
    logits = (image @ texts[:size].T).masked_fill(torch.from_numpy(batch.ignore), -1e4)
    wrong = torch.einsum("bd,bkd->bk", image, texts[size:].view(size, NEAR_MISSES, -1))
    wrong = wrong.masked_fill(torch.from_numpy(~batch.miss_ok), -1e4)
    both = F.cross_entropy(torch.cat([logits, wrong], dim=1), same) + F.cross_entropy(logits.T, same)
    near = torch.cat([logits.diagonal()[:, None], wrong], dim=1)
    return {"contrast": both / 2, "near": F.cross_entropy(near, torch.zeros(size, dtype=torch.long))}


def _contents(batch: Batch, image: torch.Tensor, prompts: Prompts) -> dict[str, torch.Tensor]:
    """The objects shown against all others, the background's colour, and with against without."""
    shown = torch.from_numpy(batch.shown)
    some = shown.any(dim=1)
    objects = image @ prompts.names.T
    target = objects.masked_fill(~shown, -1e4).logsumexp(dim=1) - objects.logsumexp(dim=1)
    chosen = shown[:, prompts.pair]
    return {
        "object": -(target * some).sum() / some.sum(),
        "color": F.cross_entropy(image @ prompts.colors.T, torch.from_numpy(batch.color)),
        "without": _balanced(image @ prompts.gap.T, chosen),
    }


def _places(
    batch: Batch,
    heads: torch.nn.ModuleList,
    image: torch.Tensor,
    texts: torch.Tensor,
    inner: list[torch.Tensor],
    prompts: Prompts,
) -> dict[str, torch.Tensor]:
    """What the place heads make of pictures, of captions, and of the class token on its way through the blocks."""
    seen, told = torch.from_numpy(batch.seen), torch.from_numpy(batch.told)
    names = prompts.names.detach()
    out: dict[str, torch.Tensor] = {}
    out["seen_lone"], out["seen"] = heads[-1](image, names, seen)
    out["told_lone"], out["told"] = heads[-1](texts, names, told)
    for level, (head, token) in enumerate(zip(heads, inner)):
        token = F.layer_norm(token.float(), token.shape[-1:]) / 14
        out[f"lone_{level}"], out[f"among_{level}"] = head(token, names, seen)
    return out


def _patches(patches: torch.Tensor, dense: torch.Tensor, prompts: Prompts) -> dict[str, torch.Tensor]:
    """What each patch shows, among all objects and background colours; and with against without."""
    known = patches >= 0
    label, dense = patches[known], dense[known]
    each = F.cross_entropy(dense @ torch.cat([prompts.names, prompts.colors]).T, label, reduction="none")
    thing = label < len(prompts.names)
    return {
        "patch": each[thing].mean() + 0.5 * each[~thing].mean(),
        "patch_without": _balanced(dense @ prompts.gap.T, label[:, None] == prompts.pair[None]),
    }


WEIGHTS = {
    "contrast": 1.0,
    "near": 1.0,
    "seen_lone": 2.0,
    "seen": 1.0,
    "told_lone": 0.5,
    "told": 0.5,
    **{f"lone_{level}": 1.0 for level in range(5)},
    **{f"among_{level}": 0.5 for level in range(5)},
    "object": 0.5,
    "color": 0.2,
    "without": 0.25,
    "place_words": 3.0,
    "centre": 0.3,
    "patch": 0.6,
    "patch_without": 0.2,
}
FINISH_WEIGHTS = {**WEIGHTS, "object": 1.0}
