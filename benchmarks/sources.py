"""Synthetic samples: distinct tiny pictures by index, made when they are asked for and kept nowhere."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from beholder.manifest.schema import Sample
from beholder.media.sources import as_medium


class TinySamples:
    """`count` samples of 8 × 8 pixels, each with a prompt of its own."""

    name = "tiny samples"
    replayable = True
    notices: tuple[str, ...] = ()

    def __init__(self, count: int) -> None:
        self._count = count

    def __iter__(self) -> Iterator[Sample]:
        for number in range(self._count):
            yield Sample(str(number), as_medium(tiny_pixels(number)), row=number + 1, prompt=f"prompt {number}")

    def check(self) -> None:
        """There is nothing to check."""

    def count(self) -> int:
        return self._count


def tiny_pixels(number: int) -> np.ndarray:
    """The picture of an index."""
    pixels = np.zeros(192, dtype=np.uint8)
    pixels[:8] = np.frombuffer(number.to_bytes(8, "little"), dtype=np.uint8)
    return pixels.reshape(8, 8, 3)
