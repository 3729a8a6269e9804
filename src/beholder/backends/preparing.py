"""Preparing pictures without a loaded model, where that is possible: on machines that decode and hold no weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from beholder.backends.base import ResolvedModel
from beholder.media.base import Picture

PrepareImage = Callable[[Picture], np.ndarray]

_PINNED = ("hf", "demo", "open_clip")
"""Engines whose `ImageTextEncoder`s do to pictures what `ResolvedModel.preprocessing` says, and nothing else."""


def image_preparer(model: ResolvedModel, registered: Mapping[str, Any]) -> PrepareImage | None:
    """What the model's `prepare_image` does; None where only the loaded model can tell.

    Args:
        model: the model.
        registered: encoders of the user's own, by name.
    """
    from beholder.backends.fake import FakeEncoder

    kept = registered.get(model.asked)
    if kept is not None:
        return kept.prepare_image if isinstance(kept, FakeEncoder) else None
    if model.card.engine == "fake":
        from beholder.backends.pool import load_model

        prepare: PrepareImage = load_model(model, device="cpu").prepare_image
        return prepare
    if model.capability != "ImageTextEncoder" or model.card.engine not in _PINNED:
        return None
    from beholder.backends.preprocess import Preprocessing

    pixels = Preprocessing.from_json(model.preprocessing)
    return lambda picture: pixels.to_uint8(picture.pixels)
