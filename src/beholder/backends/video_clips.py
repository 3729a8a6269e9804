"""Clips: pictures to a fixed number of prepared frames, and prepared clips to a network's input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from beholder.backends.preprocess import Preprocessing
from beholder.backends.tensors import normalise, on_device, stacked
from beholder.media.base import Picture
from beholder.media.sampling import frame_indices


def prepare_clip(pictures: Sequence[Picture], pixels: Preprocessing, frames: int) -> np.ndarray:
    """Pictures to a clip, (frames, 3, h, w) uint8: spread evenly over them, repeated where there are too few.

    A single picture becomes a clip of equal frames. A picture that is used twice is prepared once.
    """
    chosen = frame_indices(f"uniform:{frames}", len(pictures)).tolist()
    made = {at: pixels.to_uint8(pictures[at].pixels) for at in dict.fromkeys(chosen)}
    return np.stack([made[at] for at in chosen])


def clip_tensor(clips: Sequence[np.ndarray], table: Any) -> Any:
    """Prepared clips to (n, frames, 3, h, w) float32 on the table's device."""
    stack = on_device(stacked(clips, table.device), table.device)
    return normalise(stack.flatten(0, 1), table).unflatten(0, stack.shape[:2])
