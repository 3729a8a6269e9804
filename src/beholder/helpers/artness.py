"""load_artscore_model and compute_artscore."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import numpy as np

from beholder._errors import OptionError
from beholder._identity import OptionValue
from beholder.helpers.calls import as_float, one_medium, planned, score_media
from beholder.media.base import DecodeOptions
from beholder.runs.config import RunConfig
from beholder.runs.plan import Plan
from beholder.runs.quick import QuickScorer
from beholder.score_table import media_list


class ArtScoreModel:
    """A loaded ArtScore network that is called with pictures. Only ranks and differences of its scores mean anything.

    Args:
        config: settings.
        plan: the metric and its model.
        resize: "train" or "readme".
    """

    def __init__(self, config: RunConfig, plan: Plan, *, resize: str) -> None:
        self._plan, self._resize = plan, resize
        self._quick = QuickScorer(plan, config)
        self._backend: Any = next(iter(self._quick.load().values()))

    @property
    def info(self) -> dict[str, Any]:
        """Checkpoint, network, preprocessing and what the scores mean."""
        (model,) = self._plan.models.values()
        return {
            "checkpoint": model.card.files[0], "weights_sha256": model.weights_sha256, "model": model.id,
            "network": self._backend.network, "resize": self._resize,
            "preprocessing": dict(model.preprocessing[self._resize]), "device": self._backend.device,
            "notes": model.card.notes,
        }  # fmt: skip

    def __call__(self, images: Any) -> Any:
        """One picture (PIL of any mode, path, bytes, array) to a float; a list of n to an (n,) float64 array.

        Raises:
            UserError: a picture that cannot be read, with its reason.
        """
        media = media_list(images)
        if not media:
            raise OptionError("at least one picture is needed", got="none")
        scores = score_media(self._quick, self._plan, [(medium, ()) for medium in media])
        values = [as_float(score.value, score.status, score.reason) for score in scores]
        return np.array(values) if isinstance(images, (list, tuple)) else values[0]

    def score(self, path: Any) -> float:
        """The score of one picture."""
        return float(self(path))

    def transform(self, image: Any) -> np.ndarray:
        """(3, h, w) float32: what the network is given of a picture."""
        result: np.ndarray = self._backend.to_float(one_medium(image).decode(DecodeOptions()), self._resize)
        return result

    def close(self) -> None:
        """Unloads the network; the next call loads it again."""
        self._quick.release()


def load_artscore_model(
    checkpoint_path: str | os.PathLike[str] | None = None,
    device: str = "auto",
    *,
    resize: str = "train",
    dtype: str = "auto",
    cache_dir: str | None = None,
    offline: bool | None = None,
) -> ArtScoreModel:
    """Loads ArtScore.

    Args:
        checkpoint_path: a checkpoint or the folder that holds one; None looks into the folder that
            WORLDFOUNDRY_CKPT_DIR names, and then where all weights are.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        resize: "train" squashes to 224×224; "readme" brings the short side to 224.
        dtype: "auto", "float32", "bfloat16", "float16".
        cache_dir: folder to look for weights in first.
        offline: True never fetches anything.

    Raises:
        UserError: no checkpoint, with the places looked in and how to get it; several; one that does not fit; a device
            that this machine does not have.

    Source: arXiv 2305.04923.
    """
    options: dict[str, OptionValue] = {"resize": resize}
    if checkpoint_path is not None:
        options["model"] = f"artscore:{os.path.abspath(os.path.expanduser(checkpoint_path))}"
    config, plan = planned("artscore", options, device, cache_dir, offline, dtype=dtype)
    return ArtScoreModel(config, plan, resize=resize)


def compute_artscore(
    path: Any, device: str = "auto", *, checkpoint_path: str | os.PathLike[str] | None = None, resize: str = "train"
) -> Any:
    """ArtScore of a picture (a float) or of a list of pictures (an array); see `load_artscore_model`."""
    return _artscore(None if checkpoint_path is None else os.fspath(checkpoint_path), device, resize)(path)


def forget() -> None:
    """Unloads the network that `compute_artscore` keeps."""
    _artscore.cache_clear()


@lru_cache(maxsize=1)
def _artscore(checkpoint_path: str | None, device: str, resize: str) -> ArtScoreModel:
    return load_artscore_model(checkpoint_path, device, resize=resize)
