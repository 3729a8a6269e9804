"""From a matching head's numbers to a probability."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def match_probability(logits: npt.ArrayLike) -> np.ndarray:
    """The probability that image and text match: 1 / (1 + exp(−x)), x being the match logit minus the no-match logit.

    For a head of two classes this is the softmax's second entry.

    Args:
        logits: (n,) differences of logits, any real dtype.

    Returns:
        (n,) float64 in [0, 1]; exactly 0 or 1 only where float64 cannot tell (beyond ±700 or +37). Not finite where
        the logit is NaN.

    Source: BLIP's image-text matching head, arXiv 2201.12086.

    >>> match_probability([0.0, np.log(3.0), -1000.0]).round(6).tolist()
    [0.5, 0.75, 0.0]
    """
    x = np.asarray(logits, dtype=np.float64)
    # exp of a number that is not positive cannot overflow.
    power = np.exp(-np.abs(x))
    result: np.ndarray = np.where(x >= 0, 1.0, power) / (1.0 + power)
    return result
