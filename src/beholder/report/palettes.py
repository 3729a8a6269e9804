"""Two palettes that also say their order without hue: to colour-blind eyes and on a gray printer.

Lightness rises from end to end in both. The diverging one is dark blue below, neutral gray at the centre and light
yellow above, so that even in gray a darker cell is a lower one: palettes with two dark ends lose the sign there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SEQUENTIAL = ("#0b1f4b", "#36598c", "#7d8c8a", "#d0ae50", "#fff3b5")
DIVERGING = ("#08245e", "#4a6ba3", "#8f8f8f", "#d9a548", "#ffedb3")
_TO_LMS = np.array([
    [0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
])  # fmt: skip
_TO_LAB = np.array([
    [0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
])  # fmt: skip


def palette(anchors: Sequence[str], count: int) -> np.ndarray:
    """(count, 3) sRGB colours in [0, 1] between anchors, evenly spaced in OKLab.

    >>> palette(["#000000", "#ffffff"], 2).round(3).tolist()
    [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    """
    lab = np.stack([_oklab(_hex(anchor)) for anchor in anchors])
    at = np.linspace(0.0, len(anchors) - 1.0, count)
    points = np.arange(len(anchors))
    mixed = np.stack([np.interp(at, points, lab[:, axis]) for axis in range(3)], axis=1)
    linear = (np.linalg.inv(_TO_LAB) @ mixed.T) ** 3
    return encode(np.clip((np.linalg.inv(_TO_LMS) @ linear).T, 0.0, 1.0))


def _hex(colour: str) -> np.ndarray:
    return np.asarray([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])


def _oklab(rgb: np.ndarray) -> np.ndarray:
    lab: np.ndarray = _TO_LAB @ np.cbrt(_TO_LMS @ decode(rgb))
    return lab


def decode(rgb: np.ndarray) -> np.ndarray:
    """sRGB in [0, 1] to linear light."""
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def encode(linear: np.ndarray) -> np.ndarray:
    """Linear light to sRGB in [0, 1]."""
    return np.where(linear <= 0.0031308, linear * 12.92, 1.055 * np.maximum(linear, 1e-12) ** (1 / 2.4) - 0.055)


def lightness(rgb: np.ndarray) -> np.ndarray:
    """CIE L* (0 to 100) of sRGB colours (…, 3): what is left of them in gray."""
    y: np.ndarray = decode(rgb) @ np.array([0.2126, 0.7152, 0.0722])
    return np.where(y > 216 / 24389, 116 * np.cbrt(y) - 16, y * 24389 / 27)
