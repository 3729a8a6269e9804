"""DINO and CLIP with pictures prepared as VBench prepares them: the encoders of its two consistencies.

VBench (Huang et al., arXiv 2311.17982) resizes frames as float tensors and without antialiasing, which no published
preprocessing of these models does. For DINO it brings the short side to 224 and looks at the whole frame, so the grid
of patches follows the frame and the positions are stretched to it the way DINO's own code does; for CLIP it takes the
middle square. Values are then divided by 255 and normalised. The networks are transformers' own.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from beholder._errors import ModelError
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
from beholder.backends.hf_dino import FAMILIES as DINO
from beholder.backends.names import BUILT_IN, parse_name
from beholder.backends.preprocess import OPENAI_MEAN, OPENAI_STD
from beholder.backends.tensors import projected, to_numpy, to_torch
from beholder.backends.torch_io import load_transformers
from beholder.media.base import Picture


class Way(NamedTuple):
    """How VBench prepares pictures for a model type.

    Args:
        interpolation: torch's name of the filter.
        crop: True takes the middle square.
        mean: per channel, after the division by 255.
        std: per channel.
        pooling: what of the network is the embedding.
    """

    interpolation: str
    crop: bool
    mean: tuple[float, ...]
    std: tuple[float, ...]
    pooling: str

    def as_json(self, side: int) -> dict[str, Any]:
        """The preprocessing, JSON-ready; `side` is 224 for both of VBench's models."""
        return {
            "library": "torch",
            "resize": "shortest",
            "size": [side, side],
            "crop": [side, side] if self.crop else None,
            "interpolation": self.interpolation,
            "antialias": False,
            "rescale": 1 / 255,
            "mean": list(self.mean),
            "std": list(self.std),
            "pooling": self.pooling,
        }


WAYS = {
    "vit": Way("bilinear", False, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "class token after the last norm"),
    "clip": Way("bicubic", True, OPENAI_MEAN, OPENAI_STD, "projected"),
}


class VBenchEngine(FolderEngine):
    """DINO (`vit`) and CLIP in transformers' layout, from the hub or from a folder."""

    name = "vbench"

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        parsed = parse_name(name, engines=(*BUILT_IN, self.name))
        found = self.find(parsed, options)
        config = read_json(found.folder / "config.json")
        kind = str(config.get("model_type"))
        if kind not in WAYS:
            raise ModelError(
                "VBench's encoders are DINO (model_type vit) and CLIP", got=f"{kind!r} in {parsed.asked}"
            )  # fmt: skip
        card = card_of(parsed.id) or plain_card(parsed, engine=self.name, family=kind, capabilities=("ImageEncoder",))
        width = config.get("hidden_size") if kind == "vit" else config.get("projection_dim")
        side = int((config if kind == "vit" else config.get("vision_config", {})).get("image_size", 224))
        return describe_files(
            parsed,
            dataclasses.replace(card, input_size=(side, side), embed_dim=width),
            found,
            capability="ImageEncoder",
            dtype=dtype,
            preprocessing=WAYS[kind].as_json(side),
            paths=paths_of(found),
            details={"model_type": kind},
        )

    def choose(self, names: Iterable[str]) -> Choice:
        return choose_plain(names, ("config.json",))  # what the files say of preprocessing is not asked

    def load(self, model: ResolvedModel, *, device: str) -> ImageEncoder:
        return VBenchEncoder(model, device=device)


VBENCH = VBenchEngine()


class VBenchEncoder:
    """A loaded model; an `ImageEncoder`. Prepared pictures differ in shape, so each is one object of a batch."""

    def __init__(self, model: ResolvedModel, *, device: str) -> None:
        self.model = model
        self.constants: Mapping[str, float] = {}
        self._device = choose_device(device, dtype=model.dtype)
        self.device = str(self._device)
        self.image_batch = 32 if self._device.type == "cpu" else 128
        self._kind = str(model.details["model_type"])
        self._way, self._side = WAYS[self._kind], int(model.preprocessing["size"][0])
        self._network: Any = self._load(model).to(self._device)

    def _load(self, model: ResolvedModel) -> Any:
        if self._kind == "clip":
            return load_transformers(model, "CLIPModel")
        family = DINO["vit"]
        network = load_transformers(model, family.class_name, build=family.build, may_be_extra=family.may_be_extra)
        embeddings: Any = network.embeddings
        embeddings.interpolate_pos_encoding = functools.partial(stretched_positions, embeddings)
        return network

    def prepare_image(self, picture: Picture) -> np.ndarray:
        """(1,) object: (3, h, w) float32 levels of 0 to 255; thread-safe."""
        from torch.nn.functional import interpolate

        levels = to_torch(np.array(picture.pixels)).permute(2, 0, 1)[None].float()
        size, side = _resized(*levels.shape[2:], side=self._side), self._side
        made = interpolate(levels, size=size, mode=self._way.interpolation, align_corners=False)
        if self._way.crop:
            top, left = (round((full - side) / 2) for full in size)
            made = made[:, :, top : top + side, left : left + side]
        result = np.empty(1, dtype=object)
        result[0] = np.ascontiguousarray(made[0].numpy())
        return result

    def encode_images(self, batch: np.ndarray) -> np.ndarray:
        """(n, 1) objects from `prepare_image` to (n, d) float32, unnormalised; pictures of one shape go together."""
        pictures = [row[0] for row in batch]
        rows: dict[tuple[int, ...], list[int]] = {}
        for at, levels in enumerate(pictures):
            rows.setdefault(levels.shape, []).append(at)
        made: dict[int, np.ndarray] = {}
        for own in rows.values():
            made.update(zip(own, self._encode(np.stack([pictures[at] for at in own]))))
        return np.stack([made[at] for at in range(len(pictures))])

    def _encode(self, levels: np.ndarray) -> np.ndarray:
        import torch

        with forward_pass():
            both = torch.tensor([self._way.mean, self._way.std], dtype=torch.float32)
            mean, std = both.view(2, 1, 3, 1, 1)
            pixels = ((to_torch(levels) / 255.0 - mean) / std).to(self._device, self._network.dtype)
            if self._kind == "clip":
                return to_numpy(projected(self._network.get_image_features(pixel_values=pixels)))
            out = self._network(pixel_values=pixels, interpolate_pos_encoding=True)
            return to_numpy(out.last_hidden_state[:, 0])

    def close(self) -> None:
        """Releases the network and, on a GPU, its memory."""
        self._network = None
        release_memory(self._device)


def _resized(height: int, width: int, *, side: int) -> tuple[int, int]:
    """The short side as wanted, the long one cut to whole pixels, as torchvision does it."""
    if width <= height:
        return int(side * height / width), side
    return side, int(side * width / height)


def stretched_positions(embeddings: Any, tokens: Any, height: int, width: int) -> Any:
    """DINO's positions on the grid of a picture: bicubic, by factors a tenth of a patch too large, as its code has it.

    Args:
        embeddings: the network's embeddings, with `position_embeddings` (1, 1 + s², d) and `patch_size`.
        tokens: (n, 1 + patches, d).
        height: of the pictures, in pixels.
        width: likewise.

    Returns:
        (1, 1 + patches, d).
    """
    import torch

    known = embeddings.position_embeddings
    count = known.shape[1] - 1
    if tokens.shape[1] - 1 == count and height == width:
        return known
    size, side = _patch_size(embeddings.patch_size), math.sqrt(count)
    grid = known[:, 1:].reshape(1, int(side), int(side), -1).permute(0, 3, 1, 2)
    factors = tuple((length // size + 0.1) / side for length in (height, width))
    made = torch.nn.functional.interpolate(grid, scale_factor=factors, mode="bicubic")
    return torch.cat((known[:, :1], made.permute(0, 2, 3, 1).flatten(1, 2)), dim=1)


def _patch_size(value: int | Sequence[int]) -> int:
    return int(value if isinstance(value, int) else value[0])
