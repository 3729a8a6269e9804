"""From the cosines of a video's frames to one face similarity: OpenS2V's rule, and what it hides."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError


class FaceSimilarity(NamedTuple):
    """Face similarity of a video.

    Args:
        official: mean of the positive cosines; 0.0 where there is none (OpenS2V's rule, which drops frames without a
            face and frames whose cosine is not positive).
        mean_detected: mean over frames with a face of max(0, cosine); None without such a frame.
        mean_raw: mean over frames with a face of the cosine itself; None without such a frame.
        mean_all: mean over all frames of max(0, cosine), frames without a face counting 0.
        n_frames: frames looked at.
        n_detected: frames with a face.
        n_positive: frames with a positive cosine.
        detection_rate: n_detected / n_frames.
    """

    official: float
    mean_detected: float | None
    mean_raw: float | None
    mean_all: float
    n_frames: int
    n_detected: int
    n_positive: int
    detection_rate: float


def face_similarity(cosines: npt.ArrayLike, *, n_frames: int) -> FaceSimilarity:
    """All aggregates of the cosines of the frames that show a face.

    Args:
        cosines: (n_detected,) cosines in [-1, 1].
        n_frames: all frames, those without a face included.

    Returns:
        The aggregates; see `FaceSimilarity`.

    Raises:
        OptionError: no frames, or more cosines than frames.

    Source: get_facesim.py of https://github.com/PKU-YuanGroup/OpenS2V-Nexus, arXiv 2505.20292.

    >>> result = face_similarity([0.8, -0.2], n_frames=4)
    >>> result.official, round(result.mean_raw, 3), result.mean_all, result.detection_rate
    (0.8, 0.3, 0.2, 0.5)
    """
    values = np.asarray(cosines, dtype=np.float64)
    if values.ndim != 1 or n_frames < 1 or len(values) > n_frames:
        raise OptionError("there must be at most one cosine a frame", got=f"{values.shape} for {n_frames} frames")
    clipped = np.maximum(values, 0.0)
    positive = values[values > 0]
    return FaceSimilarity(
        official=float(positive.mean()) if len(positive) else 0.0,
        mean_detected=float(clipped.mean()) if len(values) else None,
        mean_raw=float(values.mean()) if len(values) else None,
        mean_all=float(clipped.sum() / n_frames),
        n_frames=n_frames,
        n_detected=len(values),
        n_positive=len(positive),
        detection_rate=len(values) / n_frames,
    )
