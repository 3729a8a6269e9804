"""Heterogeneous CLIPScore: cosines of embeddings after both sides were centred."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError
from beholder.functional.similarity import Scores, cosine_matrix, matrix


def mean_embedding(embeddings: npt.ArrayLike) -> np.ndarray:
    """(d,) float64 mean of raw embeddings (n, d): the centre that `hcs` takes.

    Raises:
        OptionError: no rows.

    >>> mean_embedding([[1.0, 0.0], [0.0, 1.0]]).tolist()
    [0.5, 0.5]
    """
    rows = matrix(embeddings)
    if not len(rows):
        raise OptionError("a centre needs at least one embedding", got="none")
    centre: np.ndarray = rows.mean(axis=0, dtype=np.float64)
    return centre


def hcs(
    images: npt.ArrayLike, texts: npt.ArrayLike, *, image_centre: npt.ArrayLike, text_centre: npt.ArrayLike
) -> Scores:
    """100·cos(x − C_img, t − C_text) of every image with every text.

    Args:
        images: (n, d) raw, unnormalised embeddings.
        texts: (C, d) raw embeddings of the prompts that are scored.
        image_centre: (d,) mean of the *reference* images' embeddings; it serves generated images too.
        text_centre: (d,) mean of the attributes' text embeddings.

    Returns:
        Values (n, C) in [−100, 100], and the pairs without one.

    Degenerate: an image or a text that equals its centre has no direction. Of the centred texts of C prompts the sum is
    zero: with two attributes the scores are each other's negative, and adding an attribute moves all scores.

    Source: arXiv 2608.12088, eq. 2, and the public code of arXiv 2310.17261 (raw embeddings are averaged and
    subtracted, normalised only after).

    >>> hcs([[2.0, 1.0]], [[1.0, 2.0]], image_centre=[1.0, 1.0], text_centre=[1.0, 1.0]).values.tolist()
    [[0.0]]
    """
    centred = [
        (matrix(side).astype(np.float64) - np.asarray(centre, dtype=np.float64)).astype(np.float32)
        for side, centre in ((images, image_centre), (texts, text_centre))
    ]
    found = cosine_matrix(centred[0], centred[1])
    return Scores(100.0 * found.values, found.degenerate)
