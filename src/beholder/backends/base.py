"""What a metric may ask of a model, and what an engine must give: capabilities, features, resolved models.

A *resolved* model is known by its files alone: card, weights hash, preprocessing, dtype. That is enough to look
features up in the store, so a run whose features are all stored never loads a model. A *backend* is the loaded model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from beholder._hashing import hash_json
from beholder.media.base import Picture
from beholder.records import ModelCard

if TYPE_CHECKING:
    import numpy as np

Columns = Mapping[str, "np.ndarray"]
"""One feature of n items as arrays by name, each with leading dimension n."""


@dataclass(frozen=True)
class ResolvedModel:
    """A model that was found, not yet loaded.

    Args:
        asked: the name that was asked for.
        id: canonical id, `engine:arch/weights`.
        card: its card, completed from the files (input size, context length, embedding width).
        location: folder or file that holds the weights; "" for models made in memory. Never printed into run files.
        weights_sha256: hash over all weight files (and tokenizer and preprocessing files, since they move numbers).
        preprocessing: the pinned preprocessing, JSON-ready.
        dtype: dtype of the forward pass ("float32", "bfloat16", "float16").
        details: what the engine needs for loading, JSON-ready, free of paths.
        locations: further folders by role (a tokenizer that stands elsewhere). Never printed into run files.
        constants: numbers that belong to the checkpoint ("logit_scale": exp of the stored parameter), known before
            loading, so that a run whose features are all stored has them too.
    """

    asked: str
    id: str
    card: ModelCard
    location: str
    weights_sha256: str
    preprocessing: Mapping[str, Any]
    dtype: str
    details: Mapping[str, Any] = field(default_factory=dict)
    locations: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, float] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Hash of everything about the model that a feature depends on; no path, no device."""
        return hash_json(
            {
                "weights": self.weights_sha256,
                "engine": self.id.partition(":")[0],
                "arch": self.card.arch,
                "preprocessing": dict(self.preprocessing),
                "dtype": self.dtype,
            }
        )


class Engine(Protocol):
    """A family of backends behind one name ("hf", "open_clip", "demo", "fake")."""

    name: str

    def cards(self) -> Sequence[ModelCard]:
        """Cards of the models it knows by name; imports nothing heavy."""
        ...

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        """Finds a model's files (fetching them when allowed) and hashes them. Imports no torch where it can be helped.

        Raises:
            UnknownNameError: the engine has no such model.
            WeightsMissingError: nowhere to be found; the message names every place looked in, size, licence, commands.
            WeightsMismatchError: a file's hash is not the card's.
        """
        ...

    def load(self, model: ResolvedModel, *, device: str) -> ImageTextEncoder:
        """Loads the model completely or raises `WeightsMismatchError`."""
        ...


@dataclass(frozen=True)
class LoadOptions:
    """Where weights may come from.

    Args:
        cache_dir: a folder to look in first, or None.
        offline: True forbids every fetch; None follows HF_HUB_OFFLINE.
    """

    cache_dir: str | None = None
    offline: bool | None = None


@runtime_checkable
class ImageTextEncoder(Protocol):
    """Images and texts to one space: CLIP and its kin.

    `constants` holds numbers that belong to the checkpoint ("logit_scale": exp of the stored parameter).
    `encode_images` takes a stack of prepared images, (n, …), and gives *projected, unnormalised* float32 embeddings
    (n, d); n is always `image_batch` or less, and the engine pads short batches by repeating rows so that n is fixed.
    `encode_texts` gives columns "embedding" (n, d) float32, "n_tokens" (n,) int32 (tokens before truncation, start
    and end included), "truncated" (n,) bool. Every text is padded to one fixed length, so that a row's numbers don't
    depend on its neighbours.
    """

    model: ResolvedModel
    constants: Mapping[str, float]
    image_batch: int
    text_batch: int

    def prepare_image(self, picture: Picture) -> np.ndarray:
        """One decoded picture to the model's input; runs in decode threads, so it must be thread-safe."""
        ...

    def encode_images(self, batch: np.ndarray) -> np.ndarray: ...

    def encode_texts(self, texts: Sequence[str]) -> Columns: ...

    def close(self) -> None: ...


FeatureKind = Literal["image_embedding", "text_embedding"]
"""Kinds of feature there are: each names its item ("image_…": a medium, "text_…": a string) and is made by one
capability. Later capabilities add kinds here and a maker in `features.py`."""
