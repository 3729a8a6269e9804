"""Masks of pictures: run lengths, polygons, boxes, areas, unions, fills and crops. Numpy only.

A mask is bool (H, W), True on the subject; a set of masks is bool (n, H, W), n may be 0. Boxes are x0 y0 x1 y1 in
pixels, x1 and y1 exclusive, so that a box of whole pixels has the area (x1 - x0) · (y1 - y0).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Union

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError

Fill = Literal["black", "white", "gray", "mean", "noise", "keep"]
Crop = Literal["none", "bbox", "square"]
Instances = Literal["best", "union", "largest", "all-mean"]

CLIP_MEAN = (123, 117, 104)
"""The mean colour of CLIP's normalisation as 8-bit RGB: about 0 after normalising."""
IMAGENET_MEAN = (124, 116, 104)
"""The mean colour of ImageNet's normalisation as 8-bit RGB."""

_COLOURS = {"black": (0, 0, 0), "white": (255, 255, 255), "gray": (128, 128, 128), "keep": (0, 0, 0)}

_EXPORT_AGAIN = "Export the mask again, or give it as a picture"
_RUN_BITS = 60
"""Longer runs than 2^60 pixels are no runs of a picture."""


def encode_masks(masks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Run lengths of masks, column by column, as COCO counts them: background first, so a mask may begin with 0.

    Args:
        masks: (n, H, W) bool.

    Returns:
        counts: uint32, the runs of all masks one behind the other; each mask's runs sum to H · W.
        lengths: (n,) int32, how many runs each mask has.

    >>> encode_masks(np.array([[[0, 1], [0, 1]]], bool))
    (array([2, 2], dtype=uint32), array([2], dtype=int32))

    Raises:
        OptionError: not three axes.
    """
    masks = np.asarray(masks, dtype=bool)
    if masks.ndim != 3:
        raise OptionError("masks must be an array (n, H, W)", got=f"shape {masks.shape}")
    parts, lengths = [np.zeros(0, np.uint32)], []
    for mask in masks:
        flat = mask.ravel(order="F")
        edges = np.flatnonzero(flat[1:] != flat[:-1]) + 1
        runs = np.diff(np.concatenate([[0], edges, [flat.size]]))
        if flat.size and flat[0]:
            runs = np.concatenate([[0], runs])
        parts.append(runs.astype(np.uint32))
        lengths.append(len(runs))
    return np.concatenate(parts), np.asarray(lengths, dtype=np.int32)


def decode_masks(counts: npt.ArrayLike, lengths: npt.ArrayLike, size: Sequence[int]) -> np.ndarray:
    """The masks (n, H, W) bool that `encode_masks` took.

    Args:
        counts: the runs of all masks.
        lengths: how many runs each mask has.
        size: (height, width).

    Raises:
        OptionError: runs that do not fill the size.
    """
    height, width = (int(side) for side in size)
    runs, ends = np.asarray(counts, dtype=np.int64), np.cumsum(np.asarray(lengths, dtype=np.int64))
    if len(runs) != (ends[-1] if len(ends) else 0):
        raise OptionError("lengths must add up to the number of runs", got=f"{ends[-1:].tolist()} for {len(runs)}")
    masks = np.zeros((len(ends), height, width), dtype=bool)
    start = 0
    for at, end in enumerate(ends):
        own = runs[start:end]
        start = int(end)
        # Each run is looked at first: a sum of larger ones could leave the range of int64 and wrap to the right one.
        if (own < 0).any() or (own > height * width).any() or own.sum() != height * width:
            raise OptionError(
                f"the runs of a mask of {width}×{height} pixels must be 0 at least and add up to {height * width}",
                got=f"{sum(own.tolist())}, the smallest {min(own.tolist(), default=0)}",
                fix=_EXPORT_AGAIN,
            )
        values = np.arange(len(own)) % 2 == 1
        masks[at] = np.repeat(values, own).reshape((height, width), order="F")
    return masks


def run_areas(counts: npt.ArrayLike, lengths: npt.ArrayLike) -> np.ndarray:
    """(n,) int64: the pixels of each mask, from its runs alone."""
    runs, sizes = np.asarray(counts, dtype=np.int64), np.asarray(lengths, dtype=np.int64)
    areas, start = np.zeros(len(sizes), dtype=np.int64), 0
    for at, length in enumerate(sizes):
        areas[at] = runs[start + 1 : start + length : 2].sum()
        start += int(length)
    return areas


def parse_counts(text: Union[str, bytes]) -> np.ndarray:
    """The runs in COCO's compressed text: base 32 from the character "0" on, differences to the run but one before.

    Raises:
        OptionError: text that is cut short, has other characters, or runs longer than any picture.
    """
    data = text.encode("ascii", "replace") if isinstance(text, str) else bytes(text)
    runs: list[int] = []
    at = 0
    while at < len(data):
        value, shift = 0, 0
        while True:
            if at == len(data) or not 48 <= data[at] < 112 or shift >= _RUN_BITS:
                raise _counts_error(text)
            piece = data[at] - 48
            at += 1
            value |= (piece & 31) << shift
            shift += 5
            if not piece & 32:
                break
        if piece & 16:
            value -= 1 << shift
        if len(runs) > 2:
            value += runs[-2]
        if abs(value) >> _RUN_BITS:
            raise _counts_error(text)
        runs.append(value)
    return np.asarray(runs, dtype=np.int64)


def _counts_error(text: Union[str, bytes]) -> OptionError:
    return OptionError(
        f"compressed counts must be whole, of the characters '0' to 'o', and runs of less than 2^{_RUN_BITS} pixels",
        got=repr(text[:80]),
        fix=_EXPORT_AGAIN,
    )


def polygon_mask(polygons: Sequence[npt.ArrayLike], size: Sequence[int]) -> np.ndarray:
    """The pixels whose centres lie in one of the polygons (even-odd rule), (H, W) bool.

    Args:
        polygons: each x0 y0 x1 y1 … in pixels, or (k, 2); at least three corners.
        size: (height, width).

    Differs from COCO's own rasteriser by pixels on the outline, which it rounds another way.

    >>> polygon_mask([[0, 0, 2, 0, 2, 1, 0, 1]], (2, 3)).astype(int)
    array([[1, 1, 0],
           [0, 0, 0]])

    Raises:
        OptionError: a polygon of fewer than three corners, or with half a corner.
    """
    height, width = (int(side) for side in size)
    mask = np.zeros((height, width), dtype=bool)
    centres = np.arange(width) + 0.5
    for polygon in polygons:
        flat = np.asarray(polygon, dtype=np.float64).ravel()
        if len(flat) < 6 or len(flat) % 2 or not np.isfinite(flat).all():
            raise OptionError("a polygon must have at least three corners x y", got=f"{len(flat)} numbers")
        x, y = flat[::2], flat[1::2]
        x1, y1 = np.roll(x, -1), np.roll(y, -1)
        rows = range(max(0, int(np.floor(y.min()))), min(height, int(np.ceil(y.max()))))
        for row in rows:
            level = row + 0.5
            crossing = (y <= level) != (y1 <= level)
            ends = x[crossing] + (level - y[crossing]) * (x1 - x)[crossing] / (y1 - y)[crossing]
            mask[row] |= np.searchsorted(np.sort(ends), centres) % 2 == 1
    return mask


def box_masks(boxes: npt.ArrayLike, size: Sequence[int]) -> np.ndarray:
    """(n, H, W) bool: the pixels whose centres lie in each box x0 y0 x1 y1; what leaves the picture is cut off."""
    height, width = (int(side) for side in size)
    corners = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    x, y = np.arange(width) + 0.5, np.arange(height) + 0.5
    across = (x >= corners[:, :1]) & (x < corners[:, 2:3])
    down = (y >= corners[:, 1:2]) & (y < corners[:, 3:])
    masks: np.ndarray = down[:, :, None] & across[:, None, :]
    return masks


def mask_boxes(masks: np.ndarray) -> np.ndarray:
    """(n, 4) float32: the smallest boxes x0 y0 x1 y1 around masks; zeros for an empty one."""
    boxes = np.zeros((len(masks), 4), dtype=np.float32)
    for at, mask in enumerate(masks):
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        if len(rows):
            boxes[at] = columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
    return boxes


def choose_instances(
    areas: npt.ArrayLike, scores: npt.ArrayLike, *, instances: Instances, least: float
) -> list[np.ndarray]:
    """Which instances make up each picture of the subject.

    Args:
        areas: (n,) pixels of each instance.
        scores: (n,) how sure each is.
        instances: best (highest score, then largest), largest (then highest score), union (all as one), all-mean (each
            by itself).
        least: pixels that an instance must have; smaller ones are left out first.

    Returns:
        Lists of numbers of instances, one a picture; [] where there is none.

    >>> choose_instances([9, 4, 1], [0.5, 0.9, 1.0], instances="best", least=2)
    [array([1])]
    """
    size, sure = np.asarray(areas, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    kept = np.flatnonzero((size >= least) & (size > 0))
    if not len(kept):
        return []
    if instances == "union":
        return [kept]
    if instances == "all-mean":
        return [np.array([at]) for at in kept]
    first, second = (sure, size) if instances == "best" else (size, sure)
    order = np.lexsort((kept, -second[kept], -first[kept]))
    return [kept[order[:1]]]


def fill_outside(
    pixels: np.ndarray, mask: np.ndarray, *, fill: Fill, mean: tuple[int, int, int] = CLIP_MEAN, seed: int = 0
) -> np.ndarray:
    """The picture with everything outside the mask replaced.

    Args:
        pixels: (H, W, 3) uint8.
        mask: (H, W) bool.
        fill: black (0), white (255), gray (128), mean (the colour `mean`), noise (each channel uniform from 0 to 255,
            drawn from `seed` and the picture's size), keep (nothing is replaced).
        mean: RGB of `fill=mean`.
        seed: seed of the noise.

    Raises:
        OptionError: a mask of another size.
    """
    if mask.shape != pixels.shape[:2]:
        raise OptionError("a mask must have its picture's size", got=f"{mask.shape} for {pixels.shape[:2]}")
    if fill == "keep":
        return pixels
    if fill == "noise":
        outside: np.ndarray = np.random.default_rng(seed).integers(0, 256, pixels.shape, dtype=np.uint8)
    else:
        outside = np.broadcast_to(np.asarray(fill_colour(fill, mean), dtype=np.uint8), pixels.shape)
    filled: np.ndarray = np.where(mask[..., None], pixels, outside)
    return filled


def fill_colour(fill: Fill, mean: tuple[int, int, int] = CLIP_MEAN) -> tuple[int, int, int]:
    """The colour of a fill; black stands for keep and noise, which have none."""
    return mean if fill == "mean" else _COLOURS.get(fill, (0, 0, 0))


def crop_to_mask(
    pixels: np.ndarray, mask: np.ndarray, *, crop: Crop, pad: float = 0.0, colour: tuple[int, int, int] = (0, 0, 0)
) -> np.ndarray:
    """The part of a picture around the mask.

    Args:
        pixels: (H, W, 3) uint8.
        mask: (H, W) bool, with at least one pixel.
        crop: none (the whole picture), bbox (the mask's box, wider by `pad`), square (the smallest square around that,
            moved into the picture where it fits, else filled up with `colour`).
        pad: share of the box's sides that is added on each of its sides.
        colour: RGB of what lies beyond the picture.

    >>> picture = np.zeros((4, 6, 3), np.uint8); subject = np.zeros((4, 6), bool); subject[1, 1:4] = True
    >>> [crop_to_mask(picture, subject, crop=how).shape[:2] for how in ("none", "bbox", "square")]
    [(4, 6), (1, 3), (3, 3)]
    """
    if crop == "none":
        return pixels
    height, width = mask.shape
    x0, y0, x1, y1 = (int(edge) for edge in mask_boxes(mask[None])[0])
    across, down = round(pad * (x1 - x0)), round(pad * (y1 - y0))
    x0, x1 = max(0, x0 - across), min(width, x1 + across)
    y0, y1 = max(0, y0 - down), min(height, y1 + down)
    if crop == "bbox":
        return np.ascontiguousarray(pixels[y0:y1, x0:x1])
    side = max(x1 - x0, y1 - y0)
    left, right = _spread(x0, x1, side, width)
    top, bottom = _spread(y0, y1, side, height)
    canvas = np.empty((side, side, 3), dtype=np.uint8)
    canvas[:] = colour
    inner = pixels[max(0, top) : min(height, bottom), max(0, left) : min(width, right)]
    down, across = max(0, -top), max(0, -left)
    canvas[down : down + inner.shape[0], across : across + inner.shape[1]] = inner
    return canvas


def _spread(start: int, end: int, side: int, limit: int) -> tuple[int, int]:
    """An interval of length `side` around [start, end), moved into [0, limit) where it fits, else centred on it."""
    first = start - (side - (end - start)) // 2
    first = min(max(0, first), limit - side) if side <= limit else -((side - limit) // 2)
    return first, first + side
