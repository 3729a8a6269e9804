"""Pictures for the tests of this folder."""

from __future__ import annotations

import numpy as np

from beholder.media.base import Picture


def noise_picture(height: int, width: int, *, seed: int = 0) -> Picture:
    """A high-frequency picture: any other resampling shows at once."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Picture(pixels, (width, height), "RGB")
