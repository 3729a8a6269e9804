"""How varied a set is in itself: the Vendi score, and the mean distance of its pairs. Embeddings need no scaling."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError
from beholder.functional.similarity import normalise


def vendi_score(embeddings: npt.ArrayLike, *, order: float = 1.0) -> float:
    """The effective number of different items of a set, by cosines.

    With λ the eigenvalues of K / n, K the cosines of all pairs: exp(−Σ λ log λ) for order 1, else
    (Σ λ^q)^(1 / (1 − q)). The eigenvalues are those of the smaller of K / n (n × n) and UᵀU / n (d × d).

    Args:
        embeddings: (n, d), n at least 1.
        order: q > 0; a small order counts rare items more.

    Returns:
        Between 1 (all alike) and min(n, d).

    Raises:
        OptionError: an empty set, an order that is not above 0, or a row without direction.

    Source: Friedman and Dieng, arXiv 2210.02410; orders: Pasarkar and Dieng, arXiv 2310.12952.

    >>> round(vendi_score([[1.0, 0.0], [0.0, 1.0]]), 6), round(vendi_score([[1.0, 0.0], [2.0, 0.0]]), 6)
    (2.0, 1.0)
    """
    units = _units(embeddings, least=1)
    products = units.T @ units if units.shape[1] < len(units) else units @ units.T
    return vendi_of_products(products / len(units), order=order)


def vendi_of_products(products: np.ndarray, *, order: float = 1.0) -> float:
    """The Vendi score from UᵀU / n or UUᵀ / n, U being the unit rows."""
    if not order > 0:
        raise OptionError("the order of the Vendi score must be above 0", got=repr(order))
    values = np.linalg.eigvalsh(products)
    values = values[values > 1e-14 * max(float(values.max(initial=0.0)), 1e-300)]
    if not len(values):
        raise OptionError("the Vendi score needs at least one image", got="none")
    values = values / values.sum()
    if abs(order - 1.0) < 1e-12:
        found = float(np.exp(-(values * np.log(values)).sum()))
    elif np.isinf(order):
        found = float(1.0 / values.max())
    else:
        found = float((values**order).sum() ** (1.0 / (1.0 - order)))
    return max(found, 1.0)


def mean_pair_distance(embeddings: npt.ArrayLike) -> float:
    """1 − the mean cosine over all pairs of different rows; 0 where all point one way, about 1 where unrelated.

    Args:
        embeddings: (n, d), n at least 2.

    Returns:
        Between 0 and 1 + 1 / (n − 1).

    Raises:
        OptionError: fewer than two rows, or a row without direction.

    >>> mean_pair_distance([[1.0, 0.0], [0.0, 3.0]])
    1.0
    """
    units = _units(embeddings, least=2)
    n = len(units)
    total = units.sum(axis=0)
    distance = 1.0 - (float(total @ total) - float((units * units).sum())) / (n * (n - 1))
    return 0.0 if distance < 1e-6 else distance


def _units(embeddings: npt.ArrayLike, *, least: int) -> np.ndarray:
    rows = np.asarray(embeddings)
    if rows.ndim != 2 or len(rows) < least:
        raise OptionError(f"a set must be (n, d) with n at least {least}", got=f"n = {len(rows)}")
    units = normalise(rows)
    if units.degenerate.any():
        raise OptionError("every embedding must have a direction", got=f"{int(units.degenerate.sum())} without one")
    return units.vectors.astype(np.float64)
