"""Engine "hf" for `ImageEncoder`: DINO, DINOv2 and DINOv3 through transformers' stock classes.

The embedding is the class token of the last layer, after the last norm, as it is.

vit         DINO. Short side to 8/7 of the input (256 for 224), bicubic; centre crop; ImageNet's mean and deviation:
            the published evaluation. The files' own preprocessing squashes and does not give the published numbers.
dinov2      as its files say: short side to 256, bicubic, centre crop of 224.
dinov3_vit  as its files say: squashed to 224.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from beholder._errors import ModelError
from beholder.backends import hub
from beholder.backends.base import ImageEncoder, LoadOptions, ResolvedModel
from beholder.backends.cards import card_of
from beholder.backends.describing import (
    FolderEngine,
    describe_files,
    paths_of,
    plain_card,
)
from beholder.backends.devices import choose_device, release_memory
from beholder.backends.files import Choice, choose_plain, read_json
from beholder.backends.forward import forward_pass
from beholder.backends.hf_config import image_config
from beholder.backends.names import ModelName, parse_name
from beholder.backends.preprocess import Preprocessing, read_preprocessor
from beholder.backends.tensors import normalise, on_device, to_numpy
from beholder.backends.torch_io import load_transformers
from beholder.media.base import Picture
from beholder.records import ModelCard

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Family(NamedTuple):
    """A model type: its class, what it is built with, and names that its files may hold beside the network's."""

    class_name: str
    build: Mapping[str, Any]
    may_be_extra: tuple[str, ...] = ()


FAMILIES = {
    "vit": Family("ViTModel", {"add_pooling_layer": False}, ("pooler.dense.weight", "pooler.dense.bias")),
    "dinov2": Family("Dinov2Model", {}),
    "dinov3_vit": Family("DINOv3ViTModel", {}),
}
"""Model types that are served. A stored pooler of `vit` was never trained and is not used."""


class DinoEngine(FolderEngine):
    """Self-supervised vision transformers in transformers' layout: from the hub or from a folder."""

    name = "hf"

    def cards(self) -> Sequence[ModelCard]:
        return [card for card in super().cards() if "ImageEncoder" in card.capabilities]

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        parsed = parse_name(name)
        if parsed.engine != "hf":
            raise ModelError("an encoder of pictures must be one of transformers", got=repr(name))
        found = self.find(parsed, options)
        return _describe(parsed, found, dtype)

    def choose(self, names: Iterable[str]) -> Choice:
        return choose_plain(names, ("config.json", "preprocessor_config.json"))

    def load(self, model: ResolvedModel, *, device: str) -> ImageEncoder:
        return DinoEncoder(model, device=device)


HF_DINO = DinoEngine()


def _describe(parsed: ModelName, found: hub.Found, dtype: str) -> ResolvedModel:
    config = read_json(found.folder / "config.json")
    kind = str(config.get("model_type"))
    if kind not in FAMILIES:
        raise ModelError(
            f"an encoder of pictures must be of one of the types {', '.join(FAMILIES)}",
            got=f"model_type {kind!r} in {parsed.asked}",
        )
    pixels = _pixels(kind, int(config.get("image_size", 224)), image_config(found.folder))
    card = card_of(parsed.id) or plain_card(parsed, engine="hf", family=kind, capabilities=("ImageEncoder",))
    width = int(config.get("hidden_size", 0)) or None
    return describe_files(
        parsed,
        dataclasses.replace(card, input_size=pixels.input_size, embed_dim=width),
        found,
        capability="ImageEncoder",
        dtype=dtype,
        preprocessing={**pixels.as_json(), "pooling": "class token after the last norm"},
        paths=paths_of(found),
        details={"model_type": kind},
    )


def _pixels(kind: str, side: int, config: Mapping[str, Any]) -> Preprocessing:
    if kind == "vit":
        short = round(side * 8 / 7)
        return Preprocessing("shortest", (short, short), (side, side), "even", "bicubic", 1 / 255, _MEAN, _STD)
    crops = {"do_center_crop": kind == "dinov2", "image_mean": _MEAN, "image_std": _STD}
    return read_preprocessor({**crops, **config}, model_type=kind, image_size=side)


class DinoEncoder:
    """A loaded model; an `ImageEncoder`."""

    def __init__(self, model: ResolvedModel, *, device: str) -> None:
        self.model = model
        self.constants: Mapping[str, float] = {}
        self._device = choose_device(device, dtype=model.dtype)
        self.device = str(self._device)
        self.image_batch = 32 if self._device.type == "cpu" else 128
        self._pixels = Preprocessing.from_json(model.preprocessing)
        family = FAMILIES[str(model.details["model_type"])]
        network = load_transformers(model, family.class_name, build=family.build, may_be_extra=family.may_be_extra)
        self._network: Any = network.to(self._device)
        self._table = on_device(self._pixels.table(), self._device)

    def prepare_image(self, picture: Picture) -> np.ndarray:
        """(3, h, w) uint8; thread-safe."""
        return self._pixels.to_uint8(picture.pixels)

    def encode_images(self, batch: np.ndarray) -> np.ndarray:
        """(n, 3, h, w) uint8 from `prepare_image` to (n, d) float32, unnormalised."""
        with forward_pass():
            pixels = normalise(on_device(batch, self._device), self._table).to(self._network.dtype)
            return to_numpy(self._network(pixel_values=pixels).last_hidden_state[:, 0])

    def close(self) -> None:
        """Releases the network and, on a GPU, its memory."""
        self._network = None
        release_memory(self._device)
