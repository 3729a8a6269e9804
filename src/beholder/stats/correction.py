"""Many tests at once: Holm's and Benjamini and Hochberg's corrections."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError


def holm(p_values: npt.ArrayLike) -> np.ndarray:
    """Adjusted p-values that bound the chance of even one false discovery.

    Sorted upwards, p_(i) becomes the largest of (m − j + 1)·p_(j) over j ≤ i, at most 1.

    Args:
        p_values: (m,) in [0, 1].

    Returns:
        (m,) in the order given.

    Raises:
        OptionError: a p-value outside [0, 1].

    Source: Holm 1979 (Scandinavian Journal of Statistics 6:65).

    >>> holm([0.01, 0.04, 0.03]).round(10).tolist()
    [0.03, 0.06, 0.06]
    """
    p, order = _sorted(p_values)
    scaled = np.maximum.accumulate(p * np.arange(len(p), 0, -1))
    return _placed(np.minimum(scaled, 1.0), order)


def benjamini_hochberg(p_values: npt.ArrayLike) -> np.ndarray:
    """Adjusted p-values that bound the expected share of false discoveries (independent or positively dependent tests).

    Sorted upwards, p_(i) becomes the smallest of m/j·p_(j) over j ≥ i, at most 1.

    Args:
        p_values: (m,) in [0, 1].

    Returns:
        (m,) in the order given.

    Raises:
        OptionError: a p-value outside [0, 1].

    Source: Benjamini and Hochberg 1995 (JRSS B 57:289).

    >>> benjamini_hochberg([0.01, 0.04, 0.03]).round(10).tolist()
    [0.03, 0.04, 0.04]
    """
    p, order = _sorted(p_values)
    scaled = p * len(p) / np.arange(1, len(p) + 1)
    return _placed(np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0), order)


def _sorted(p_values: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    p = np.asarray(p_values, dtype=np.float64).ravel()
    if not ((p >= 0) & (p <= 1)).all():
        raise OptionError("p-values must lie between 0 and 1", got=str(p.tolist()))
    order = np.argsort(p, kind="stable")
    return p[order], order


def _placed(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    result = np.empty_like(values)
    result[order] = values
    return result
