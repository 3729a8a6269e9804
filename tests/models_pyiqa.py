"""A stand-in for the package pyiqa: its public names, and metrics that are easy to compute by hand.

sharp          without a reference: mean of the squared differences of neighbouring pixels, times a stored weight
crops          without a reference, at random crops drawn from numpy's generator, as several of pyiqa's metrics are
loss           lower is better; with a reference: mean squared difference
small          refuses pictures below 8 pixels a side
needs_file     reads a file by URL from pyiqa's folder
"""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

CONFIGS: dict[str, dict[str, Any]] = {
    "sharp": {"metric_mode": "NR", "score_range": "0, ~1"},
    "crops": {"metric_mode": "NR", "lower_better": True, "score_range": "~0, ~100"},
    "loss": {"metric_mode": "FR", "lower_better": True, "score_range": "0, 1"},
    "small": {"metric_mode": "NR"},
    "needs_file": {"metric_mode": "NR"},
    "fid": {"metric_mode": "NR", "lower_better": True},
    "clipscore": {"metric_mode": "NR"},
}


class Network(torch.nn.Module):
    """One of the metrics above."""

    def __init__(self, name: str, weight: float) -> None:
        super().__init__()
        self.name = name
        self.register_buffer("weight", torch.tensor(weight))
        self.batches: list[int] = []

    def forward(self, target: torch.Tensor, reference: torch.Tensor | None = None) -> torch.Tensor:
        self.batches.append(len(target))
        assert float(target.min()) >= 0.0
        assert float(target.max()) <= 1.0
        if self.name == "small":
            assert min(target.shape[2:]) >= 8, "pictures must have 8 pixels a side"
        if self.name == "crops":
            picks = np.random.randint(0, target.shape[3], len(target))  # one crop a picture
            return torch.stack([item[:, :, int(at)].mean() for item, at in zip(target, picks)])
        if reference is not None:
            return ((target - reference) ** 2).mean(dim=(1, 2, 3))
        return self.weight * ((target[..., 1:] - target[..., :-1]) ** 2).mean(dim=(1, 2, 3))


class Fake:
    """What a test knows of the installed stand-in.

    Args:
        folder: pyiqa's folder of weights.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.weight = 2.0
        self.fetched: list[str] = []
        self.made: list[Network] = []


def install(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Fake:
    """Puts the stand-in where `import pyiqa` finds it."""
    from beholder.metrics.catalog import METRICS

    fake = Fake(folder)
    modules = {name: types.ModuleType(name) for name in
               ("pyiqa", "pyiqa.default_model_configs", "pyiqa.utils", "pyiqa.utils.download_util")}  # fmt: skip
    _, configs, utils, download = modules.values()
    modules["pyiqa"].__dict__.update(
        __version__="9.9",
        __path__=[],
        default_model_configs=configs,
        utils=utils,
        create_metric=_creator(fake, download),
    )
    configs.__dict__["DEFAULT_CONFIGS"] = CONFIGS
    utils.__dict__["download_util"] = download
    download.__dict__.update(
        DEFAULT_CACHE_DIR=str(folder),
        urlparse=lambda url: types.SimpleNamespace(path=url),
        download_url_to_file=lambda url, target: (fake.fetched.append(url), Path(target).write_bytes(b"fetched")),
    )
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    # Classes that were made of another pyiqa must not be found again.
    monkeypatch.setattr(METRICS, "_loaded", {k: v for k, v in METRICS._loaded.items() if not k.startswith("pyiqa:")})
    return fake


def _creator(fake: Fake, download: types.ModuleType) -> Any:
    def create_metric(name: str, device: Any = None) -> Network:
        if name == "needs_file":
            url = "https://example.org/w/weights.pth"
            path = fake.folder / Path(download.__dict__["urlparse"](url).path).name
            if not path.exists():
                download.__dict__["download_url_to_file"](url, str(path))
            if path.read_bytes().startswith(b"PK"):
                torch.load(path, weights_only=False)
        network = Network(name, fake.weight).to(device)
        fake.made.append(network)
        return network

    return create_metric
