"""Engine "inception" for `ImageEncoder`: the network that FID and KID are defined on.

    inception:fid                   the weights that torch-fidelity and pytorch-fid publish (one file, two names)
    inception:/path/to/file.pth     a local file of that layout

Each picture is resized by itself to 299 × 299 as TensorFlow 1 did it (bilinear, corners where they lie, no
antialiasing), in floats that are never rounded back; then (p − 128) / 128. Pictures of any sizes share a batch.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import WeightsMismatchError
from beholder.backends.base import ImageEncoder, LoadOptions, ResolvedModel
from beholder.backends.cards_sets import INCEPTION_FILE, INCEPTION_MIRROR, INCEPTION_SHA256, INCEPTION_URL
from beholder.backends.describing import CardEngine, describe_parts
from beholder.backends.devices import choose_device, choose_dtype, release_memory
from beholder.backends.faces.find import Need, Part, find_parts
from beholder.backends.forward import forward_pass
from beholder.backends.hashes import beholder_cache
from beholder.backends.names import BUILT_IN, parse_name
from beholder.backends.own_networks import assign_weights
from beholder.backends.places import Place
from beholder.backends.tensors import on_device, to_numpy
from beholder.backends.torch_io import read_states
from beholder.media.base import Picture

SIDE = 299
_PIXELS = {
    "resize": "squash", "size": [SIDE, SIDE], "interpolation": "bilinear as TensorFlow 1", "antialias": False,
    "range": "(p - 128) / 128",
}  # fmt: skip
_PART = Part("network", INCEPTION_FILE, also=(INCEPTION_MIRROR,))


class InceptionEngine(CardEngine):
    """The published file, and local ones."""

    name = "inception"

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        parsed = parse_name(name, engines=(*BUILT_IN, self.name))
        fix = "There is {known}; a file is written inception:./file.pth"
        card = self.card(parsed, what="Inception model", fix=fix)
        card = card or dataclasses.replace(
            self.cards()[0], id=parsed.id, weights=f"./{parsed.weights}", aliases=(), source=None
        )
        need = Need(parsed.asked, card, (_PART,), homes=(_torch_hub(), Place(beholder_cache(), "our cache")),
                    url=INCEPTION_URL if parsed.path is None else None)  # fmt: skip
        file = find_parts(need, options, named=parsed.path)["network"]
        if parsed.path is None:
            _check_published(file)
        return describe_parts(
            parsed,
            card,
            {"network": file},
            capability="ImageEncoder",
            dtype=choose_dtype(dtype, size_bytes=file.stat().st_size),
            preprocessing=_PIXELS,
        )

    def load(self, model: ResolvedModel, *, device: str) -> ImageEncoder:
        return InceptionEncoder(model, device=device)


INCEPTION = InceptionEngine()


def _torch_hub() -> Place:
    """Where torch-fidelity and pytorch-fid leave the file."""
    home = os.environ.get("TORCH_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torch"
    return Place(Path(home) / "hub" / "checkpoints", "torch's hub cache")


def _check_published(file: Path) -> None:
    """Holds the published file to the beginning of its hash, which its name tells.

    Raises:
        WeightsMismatchError: it is another file.
    """
    from beholder._hashing import hash_file

    found = hash_file(file)
    if not found.startswith(INCEPTION_SHA256):
        raise WeightsMismatchError(
            f"the sha256 of {file.name} must begin with {INCEPTION_SHA256}", got=found[:12],
            fix=f"Fetch it again, or name it as a file of your own: inception:{file.name}",
        )  # fmt: skip


class InceptionEncoder:
    """The loaded network; an `ImageEncoder`."""

    def __init__(self, model: ResolvedModel, *, device: str) -> None:
        import torch

        from beholder.backends.inception_network import InceptionV3

        self.model = model
        self.constants: Mapping[str, float] = {}
        self._device = choose_device(device, dtype=model.dtype)
        self.device = str(self._device)
        self.image_batch = 16 if self._device.type == "cpu" else 64
        with torch.device("meta"):
            network = InceptionV3()
        state = read_states([Path(model.location)])
        self._dtype = getattr(torch, model.dtype)
        assign_weights(network, state, name=model.asked, dtype=self._dtype)
        self._network: Any = network.to(self._device)

    def prepare_image(self, picture: Picture) -> np.ndarray:
        """(3, 299, 299) float32, 0 to 255; thread-safe."""
        return np.ascontiguousarray(resize(picture.pixels, SIDE).transpose(2, 0, 1))

    def encode_images(self, batch: np.ndarray) -> np.ndarray:
        """(n, 3, 299, 299) from `prepare_image` to (n, 2048) float32."""
        with forward_pass():
            pixels = (on_device(batch, self._device) - 128.0) / 128.0
            return to_numpy(self._network(pixels.to(self._dtype)))

    def close(self) -> None:
        """Releases the network and, on a GPU, its memory."""
        self._network = None
        release_memory(self._device)


def resize(pixels: np.ndarray, side: int) -> np.ndarray:
    """(h, w, c) uint8 to (side, side, c) float32: place i of the result looks at i · size / side, with no half pixel.

    >>> resize(np.array([[[0], [100]]], dtype=np.uint8), 4)[0, :, 0].tolist()
    [0.0, 50.0, 100.0, 100.0]
    """
    rows, columns = (_places(size, side) for size in pixels.shape[:2])
    whole = pixels.astype(np.float32)
    across = whole[:, columns[0]] + (whole[:, columns[1]] - whole[:, columns[0]]) * columns[2][None, :, None]
    made: np.ndarray = across[rows[0]] + (across[rows[1]] - across[rows[0]]) * rows[2][:, None, None]
    return made


def _places(size: int, side: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each place of the result: the two pixels that it lies between, and how far it is from the first."""
    at = np.arange(side, dtype=np.float32) * np.float32(size / side)
    low = np.floor(at).astype(np.int64)
    return low, np.minimum(low + 1, size - 1), at - low.astype(np.float32)
