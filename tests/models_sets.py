"""The Inception network of FID with drawn weights, in the published layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from beholder.backends.inception_network import InceptionV3


def inception_state() -> dict[str, torch.Tensor]:
    """Weights that keep the scale of activations, from numpy's generator: the same on every machine."""
    with torch.device("meta"):
        shapes = {name: tuple(value.shape) for name, value in InceptionV3().state_dict().items()}
    rng = np.random.default_rng(0)
    state = {}
    for name, shape in shapes.items():
        if name.endswith("num_batches_tracked"):
            continue
        values = rng.random(shape, dtype=np.float32)
        if name.endswith(("running_var", "bn.weight")):
            values += np.float32(0.5)
        elif len(shape) > 1:
            values = (values - np.float32(0.5)) * np.float32((24 / np.prod(shape[1:])) ** 0.5)
        else:
            values = (values - np.float32(0.5)) * np.float32(0.2)
        state[name] = torch.from_numpy(values)
    return state


def make_inception(path: Path) -> Path:
    """The drawn weights as a `.pth` file."""
    torch.save(inception_state(), path)
    return path
