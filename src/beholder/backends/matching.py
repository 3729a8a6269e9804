"""What BLIP's matchers have in common: pairs in, one matching value a pair out, each visual looked at once.

A matcher's network has two ways to compare ("heads"): `itm` reads the text while it looks at the image and tells
whether they match; `itc` encodes both apart and takes a cosine. BLIP-2 has 32 image vectors, one for each query token,
and its cosine is the largest of the 32: no single embedding stands for an image, so this is a pair's value too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from beholder._errors import ModelError, NoValue, OptionError
from beholder.backends.base import Made, ResolvedModel
from beholder.backends.devices import choose_device, release_memory
from beholder.backends.forward import forward_pass
from beholder.backends.hf_text import HFTokenizer, Tokens
from beholder.backends.preprocess import Preprocessing
from beholder.backends.tensors import normalise, on_device, stacked, to_numpy
from beholder.media.base import Picture
from beholder.records import Status

MAX_TOKENS = 35
"""Tokens that a text may have, [CLS] and [SEP] included: as in BLIP's retrieval, BLIP-2's and ImageReward's code."""


class Network(Protocol):
    """A loaded network, as a matcher uses it. Tensors lie on its device.

    `look` gives a visual's image tokens: all the work that its texts share. `vocabulary` is how many token ids have an
    embedding. Vectors are not normalised; `image_vectors` is (n, q, d).
    """

    heads: tuple[str, ...]
    vocabulary: int
    dtype: Any

    def look(self, pixels: Any) -> Any: ...

    def logits(self, image: Any, ids: Any, mask: Any) -> Any: ...

    def image_vectors(self, image: Any) -> Any: ...

    def text_vectors(self, ids: Any, mask: Any) -> Any: ...


class PairMatcher:
    """A `Matcher` of the BLIP family.

    Args:
        model: the resolved model.
        network: its loaded network, on the CPU.
        device: "auto", "cpu", "cuda" …
        extra_tokens: special tokens that the model's authors added to the tokenizer, in their order.
        tokenizer: transformers' class of the tokenizer, for files that don't say it.
    """

    takes_video = False

    def __init__(
        self,
        model: ResolvedModel,
        network: Any,
        *,
        device: str,
        extra_tokens: Sequence[str] = (),
        tokenizer: str = "AutoTokenizer",
    ) -> None:
        self.model = model
        self.constants: Mapping[str, float] = dict(model.constants)
        self._device = choose_device(device, dtype=model.dtype)
        self.device = str(self._device)
        self.batch, self.pair_batch = (8, 16) if self._device.type == "cpu" else (32, 128)
        self._pixels = Preprocessing.from_json(model.preprocessing)
        self._table = on_device(self._pixels.table(), self._device)
        folder = Path(model.locations.get("processor") or model.location)
        length = int(model.preprocessing["text"]["context_length"])
        self._tokenizer = HFTokenizer(folder, length=length, extra_tokens=extra_tokens, kind=tokenizer)
        self._network: Network = network.to(self._device)

    def prepare(self, pictures: Sequence[Picture]) -> np.ndarray:
        """(3, h, w) uint8 of one picture; thread-safe."""
        if len(pictures) != 1:
            raise ModelError("a matcher of pictures takes one picture at a time", got=f"{len(pictures)}")
        return self._pixels.to_uint8(pictures[0].pixels)

    def match(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, str]], *, head: str = "itm") -> Made:
        """Matching values of pairs.

        Args:
            visuals: what `prepare` gave; each is looked at once, whatever number of texts it has.
            pairs: (number of the visual, text).
            head: "itm" gives the column "logit"; "itc" gives "cosine", in [-1, 1], where the network has that head.

        Returns:
            That column, (n,) float32, "n_tokens" (n,) int32 and "truncated" (n,) bool. A vector without a direction,
            or a token without an embedding, is a failure of its row.

        Raises:
            OptionError: a head that this model does not have.
        """
        if head not in self._network.heads:
            allowed = " or ".join(repr(name) for name in self._network.heads)
            raise OptionError(f"head of {self.model.asked} must be {allowed}", got=repr(head))
        texts = list(dict.fromkeys(text for _, text in pairs))
        tokens, foreign = self._read(texts)
        number = {text: at for at, text in enumerate(texts)}
        images = np.asarray([at for at, _ in pairs], dtype=np.intp)
        rows = np.asarray([number[text] for _, text in pairs], dtype=np.intp)
        with forward_pass():
            seen = self._look(visuals, images)
            if head == "itm":
                values, undirected = self._logits(seen, tokens, images, rows), np.zeros(len(pairs), bool)
            else:
                values, undirected = self._cosines(seen, tokens, images, rows)
        failures = {int(row): _UNDIRECTED for row in np.flatnonzero(undirected)}
        failures |= {int(row): _FOREIGN for row in np.flatnonzero(foreign[rows])}
        columns = {
            "logit" if head == "itm" else "cosine": values,
            "n_tokens": tokens.n_tokens[rows],
            "truncated": tokens.truncated[rows],
        }
        return Made(columns, failures)

    def close(self) -> None:
        """Releases the network and, on a GPU, its memory."""
        del self._network
        release_memory(self._device)

    def _read(self, texts: Sequence[str]) -> tuple[Tokens, np.ndarray]:
        """Tokens of texts, and which texts hold an id that the network has no embedding for (they are blanked)."""
        if not texts:
            none = np.zeros((0, self._tokenizer.length), np.int64)
            return Tokens(none, none, np.zeros(0, np.int32), np.zeros(0, bool)), np.zeros(0, bool)
        tokens = self._tokenizer(texts)
        foreign: np.ndarray = np.any(tokens.ids >= self._network.vocabulary, axis=1)
        tokens.ids[foreign] = self._tokenizer.pad_id
        return tokens, foreign

    def _look(self, visuals: Sequence[Any], images: np.ndarray) -> Any:
        """Image tokens of all visuals that a pair names (the others are looked past), (len(visuals), t, w)."""
        import torch

        used = np.unique(images)
        seen: Any = None
        for start in range(0, len(used), self.batch):
            chosen = used[start : start + self.batch]
            pixels = on_device(stacked([visuals[at] for at in chosen], self._device), self._device)
            states = self._network.look(normalise(pixels, self._table).to(self._network.dtype))
            if seen is None:
                seen = states.new_zeros((len(visuals), *states.shape[1:]))
            seen[torch.from_numpy(chosen).to(self._device)] = states
        return seen

    def _logits(self, seen: Any, tokens: Tokens, images: np.ndarray, rows: np.ndarray) -> np.ndarray:
        values = np.zeros(len(rows), dtype=np.float32)
        for start in range(0, len(rows), self.pair_batch):
            part = slice(start, start + self.pair_batch)
            image = seen[on_device(images[part], self._device)]
            values[part] = to_numpy(self._network.logits(image, *self._inputs(tokens, rows[part])))
        return values

    def _cosines(
        self, seen: Any, tokens: Tokens, images: np.ndarray, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The largest cosine over an image's vectors, and where a vector has no direction."""
        if not len(rows):
            return np.zeros(0, np.float32), np.zeros(0, bool)
        used, place = np.unique(images, return_inverse=True)
        pictures = [
            to_numpy(self._network.image_vectors(seen[on_device(part, self._device)]))
            for part in np.array_split(used, range(self.batch, len(used), self.batch))
        ]
        everything = np.arange(len(tokens.n_tokens))
        texts = [
            to_numpy(self._network.text_vectors(*self._inputs(tokens, part)))
            for part in np.array_split(everything, range(self.pair_batch, len(everything), self.pair_batch))
        ]
        image, bad_image = _units(np.concatenate(pictures))
        text, bad_text = _units(np.concatenate(texts))
        # Row-wise sums, not a matrix product: a row's bits do not depend on how many rows there are.
        cosines = (image[place] * text[rows][:, None, :]).sum(axis=-1).max(axis=-1)
        undirected: np.ndarray = np.any(bad_image, axis=-1)[place] | bad_text[rows]
        return np.clip(cosines, -1, 1).astype(np.float32), undirected

    def _inputs(self, tokens: Tokens, rows: np.ndarray) -> tuple[Any, Any]:
        return (
            on_device(tokens.ids[rows], self._device),
            on_device(tokens.mask[rows].astype(bool), self._device),
        )


_UNDIRECTED = NoValue(Status.DEGENERATE_EMBEDDING, "a projected vector is zero or not finite, so it has no direction")
_FOREIGN = NoValue(Status.FAILED, "the text spells a special token that the model has no embedding for")


def _units(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of length 1 (float32) along the last axis, and which have no direction."""
    norms = np.sqrt(np.square(vectors, dtype=np.float64).sum(axis=-1))
    bad: np.ndarray = ~np.isfinite(norms) | (norms == 0)
    units = np.where(bad[..., None], 0, vectors) / np.where(bad, 1, norms)[..., None]
    return units.astype(np.float32), bad


def describe_text(length: int) -> dict[str, Any]:
    """The text part of a matcher's preprocessing."""
    return {"context_length": length, "padding": "max_length", "tokenizer": "bert"}
