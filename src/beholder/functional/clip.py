"""CLIPScore in its published variants, RefCLIPScore and CLIP-I: embeddings or cosines in, values out."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError
from beholder.functional.similarity import Embeddings, Reduce, Scores, Units, choice, cosine, cosine_matrix, normalise

Variant = Literal["raw", "x100", "hessel", "torchmetrics"]
Pairing = Literal["all", "zip"]

HESSEL_WEIGHT = 2.5
"""The weight w of CLIPScore as published."""


def scale_cosine(cosines: npt.ArrayLike, *, variant: Variant = "raw") -> np.ndarray:
    """The value of a CLIPScore variant for a cosine.

        raw            cos               [-1, 1]
        x100           100 cos           [-100, 100]
        hessel         2.5 max(cos, 0)   [0, 2.5]
        torchmetrics   100 cos           [-100, 100]; the aggregate is clamped, see `clamp_aggregate`

    Args:
        cosines: any shape.
        variant: which of the published scales.

    Returns:
        float64, same shape.

    Raises:
        OptionError: an unknown variant.

    >>> scale_cosine([0.3, -0.2], variant="hessel")
    array([0.75, 0.  ])
    """
    choice("variant", variant, Variant)
    values = np.asarray(cosines, dtype=np.float64)
    if variant == "raw":
        return values.copy()
    return HESSEL_WEIGHT * np.maximum(values, 0.0) if variant == "hessel" else 100.0 * values


def clamp_aggregate(mean: float, *, variant: Variant = "raw") -> float:
    """What a CLIPScore variant does to the mean of its values: `torchmetrics` takes max(mean, 0), the others nothing.

    >>> clamp_aggregate(-5.0, variant="torchmetrics"), clamp_aggregate(-5.0, variant="x100")
    (0.0, -5.0)
    """
    choice("variant", variant, Variant)
    return max(mean, 0.0) if variant == "torchmetrics" else mean


def clip_score(images: Embeddings, texts: Embeddings, *, variant: Variant = "raw") -> Scores:
    """CLIPScore of image i with text i: the cosine on the scale of a named variant (see `scale_cosine`).

    Args:
        images: (n, d) image embeddings.
        texts: (n, d) text embeddings of the same model.
        variant: raw, x100, hessel or torchmetrics.

    Returns:
        (n,) values; for the ranges see `scale_cosine`.

    Raises:
        OptionError: shapes differ, or an unknown variant.

    Degenerate: flagged where either side is zero or not finite.
    Source: arXiv 2104.08718 (hessel).
    Differs: torchmetrics cuts long texts by slicing token ids; that is the tokenizer's matter, not done here.

    >>> clip_score([[3.0, 4.0]], [[1.0, 0.0]], variant="x100").values.round(4)
    array([60.])
    """
    found = cosine(images, texts)
    return Scores(scale_cosine(found.values, variant=variant), found.degenerate)


def ref_clip_score(clip_scores: npt.ArrayLike, reference_cosines: npt.ArrayLike) -> np.ndarray:
    """RefCLIPScore: the harmonic mean 2ab / (a + b) of CLIPScore and the similarity to the reference captions.

    a = 2.5 max(cos(image, text), 0) and b = max(max_r cos(text, r), 0).

    Args:
        clip_scores: (n,) values of the variant `hessel`, in [0, 2.5].
        reference_cosines: (n,) largest cosine of the text with its reference captions.

    Returns:
        (n,) float64 in [0, 10/7].

    Degenerate: 0 when either part is 0.
    Source: arXiv 2104.08718.
    Differs: the public code leaves out the clamp of b that the paper states; here it is done.

    >>> ref_clip_score([0.75, 0.75], [0.5, -0.1])
    array([0.6, 0. ])
    """
    a = np.asarray(clip_scores, dtype=np.float64)
    b = np.maximum(np.asarray(reference_cosines, dtype=np.float64), 0.0)
    both = (a > 0) & (b > 0)
    # max / min keeps the quotient exact in range where a·b would underflow.
    low, high = np.minimum(a, b), np.where(both, np.maximum(a, b), 1.0)
    return np.where(both, 2.0 * low / (1.0 + low / high), 0.0)


def clip_i(
    generated: Embeddings, references: Embeddings, *, pairing: Pairing = "all", reduce: Reduce = "mean"
) -> Scores:
    """CLIP-I of each generated image: its cosine with the real images of the same subject.

    `all`: s(g) = mean over r of cos(g, r); `max` and `first` take the largest or the first instead of the mean. The
    mean over all g equals the dot product of the mean unit vectors of both sides.
    `zip`: s(g_i) = cos(g_i, r_i).

    Args:
        generated: (g, d) image embeddings.
        references: (r, d) image embeddings of the same model.
        pairing: every image with all references, or image i with reference i.
        reduce: how the references of one image become one value; means nothing for `zip`.

    Returns:
        (g,) values in [-1, 1].

    Raises:
        OptionError: `zip` with unequal numbers, no reference at all, or an unknown option.

    Degenerate: an image that is degenerate, or has a degenerate reference, is flagged.
    Source: arXiv 2208.12242, and "average pairwise cosine similarity" in arXiv 2603.12743.

    >>> clip_i([[1.0, 0.0]], [[1.0, 0.0], [0.6, 0.8]]).values.round(6)
    array([0.8])
    """
    choice("pairing", pairing, Pairing)
    choice("reduce", reduce, Reduce)
    left, right = normalise(generated), normalise(references)
    counts = len(left.vectors), len(right.vectors)
    if pairing == "zip":
        if counts[0] != counts[1]:
            raise OptionError(
                "pairing 'zip' needs as many references as generated images", got=f"{counts[0]} vs {counts[1]}"
            )
        return cosine(left, right)
    if not counts[1]:
        raise OptionError("clip_i needs at least one reference", got="0")
    if reduce == "first":
        right = Units(right.vectors[:1], right.degenerate[:1])
    found = cosine_matrix(left, right)
    values = found.values.max(axis=1) if reduce == "max" else found.values.mean(axis=1)
    bad = np.logical_or.reduce(found.degenerate, axis=1)
    return Scores(np.where(bad, 0.0, values), bad)
