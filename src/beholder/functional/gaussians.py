"""Sets of features as normal distributions: sums that stream and merge, and the Fréchet distance of two fits.

Memory is d² numbers, whatever the number of images. All sums are float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError


class Fit(NamedTuple):
    """A normal distribution fitted to features.

    Args:
        mean: (d,) float64.
        cov: (d, d) float64, with ddof 1.
    """

    mean: np.ndarray
    cov: np.ndarray


class FeatureSums:
    """Number, mean and centred products of features of width d.

    Sums are centred on the running mean (Chan, Golub and LeVeque), so features far from 0 lose nothing. Merging is
    exact in real arithmetic; in float64 another order differs by a few units in the last place (1e-10 of a distance).
    Sums that are exact in any order, like those of scores (`score_sums`), need a known scale and several products of
    d² numbers for one; runs in parts read their pictures in one order instead, and give the same bits.

    >>> whole, part = FeatureSums(1), FeatureSums(1)
    >>> whole.add([[0.0], [1.0]]); part.add([[2.0]])
    >>> whole.merge(part)
    >>> whole.n, whole.fit().mean.tolist(), whole.fit().cov.tolist()
    (3, [1.0], [[1.0]])
    """

    def __init__(self, width: int) -> None:
        self.n, self.width = 0, width
        self.mean = np.zeros(width)
        self.products = np.zeros((width, width))

    def add(self, features: npt.ArrayLike) -> None:
        """Adds features (n, d) of any real dtype.

        Raises:
            OptionError: another width, or numbers that are not finite.
        """
        rows = np.asarray(features, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise OptionError(f"features must be (n, {self.width})", got=str(rows.shape))
        if not np.isfinite(rows).all():
            raise OptionError("features must be finite", got="NaN or infinity")
        if not len(rows):
            return
        mean = rows.mean(axis=0)
        centred = rows - mean
        self._join(len(rows), mean, centred.T @ centred)

    def merge(self, other: FeatureSums) -> None:
        """Takes in another state.

        Raises:
            OptionError: another width.
        """
        if other.width != self.width:
            raise OptionError("sums that merge must have one width", got=f"{self.width} and {other.width}")
        if other.n:
            self._join(other.n, other.mean, other.products)

    def _join(self, n: int, mean: np.ndarray, products: np.ndarray) -> None:
        total = self.n + n
        shift = mean - self.mean
        self.products += products
        self.products += np.outer(shift, shift) * (self.n * n / total)
        self.mean = self.mean + shift * (n / total)
        self.n = total

    def fit(self) -> Fit:
        """Mean and covariance (ddof 1).

        Raises:
            OptionError: fewer than two rows.
        """
        if self.n < 2:
            raise OptionError("a covariance needs at least 2 images", got=f"n = {self.n}")
        return Fit(self.mean.copy(), self.products / (self.n - 1))


def fit_features(features: npt.ArrayLike) -> Fit:
    """Mean and covariance of features (n, d).

    >>> fit_features([[0.0], [1.0]]).cov.tolist()
    [[0.5]]
    """
    rows = np.asarray(features)
    sums = FeatureSums(rows.shape[1])
    sums.add(rows)
    return sums.fit()


def frechet_distance(one: Fit, other: Fit) -> float:
    """Fréchet distance of two normal distributions (squared 2-Wasserstein distance).

    |μ₁ − μ₂|² + tr Σ₁ + tr Σ₂ − 2 tr (Σ₁Σ₂)^½

    The last trace is the sum of the singular values of Σ₁^½Σ₂^½. Taken so, singular covariances (fewer images than
    dimensions, constant features) are nothing special: no offset is added, and no complex root can appear.

    Args:
        one, other: fits of one width.

    Returns:
        At least 0; 0 for equal fits, to about 1e-12 of the traces (what rounding leaves below 0 is set to 0).

    Raises:
        OptionError: unequal widths, numbers that are not finite, or a covariance that is not symmetric.

    Source: Dowson and Landau 1982; Heusel et al., arXiv 1706.08500.

    >>> import numpy as np
    >>> frechet_distance(Fit(np.zeros(1), np.eye(1)), Fit(np.ones(1), 4 * np.eye(1)))
    2.0
    """
    for fit in (one, other):
        check_fit(fit)
    if one.mean.shape != other.mean.shape:
        raise OptionError("fits must have one width", got=f"{one.mean.shape[0]} and {other.mean.shape[0]}")
    difference = one.mean - other.mean
    roots = [_root(fit.cov) for fit in (one, other)]
    overlap = roots[0].T @ roots[1]
    shared = float(np.linalg.svd(overlap, compute_uv=False).sum()) if min(overlap.shape) else 0.0
    traces = float(np.trace(one.cov) + np.trace(other.cov))
    value = float(difference @ difference) + traces - 2.0 * shared
    return 0.0 if value <= 1e-13 * traces * len(difference) ** 0.5 else value


def quick_distance(one: Fit, other: Fit) -> float:
    """The Fréchet distance for spreads of many draws: several times faster, right to about 1e-5 of the traces.

    A Cholesky factor of Σ₁, with 1e-12 of its mean variance added, stands for the root.
    """
    difference = one.mean - other.mean
    traces = float(np.trace(one.cov) + np.trace(other.cov))
    d = len(difference)
    nudge = 1e-12 * max(float(np.trace(one.cov)) / d, 1e-300)
    try:
        factor = np.linalg.cholesky(one.cov + nudge * np.eye(d))
    except np.linalg.LinAlgError:
        return frechet_distance(one, other)
    values = np.linalg.eigvalsh(factor.T @ other.cov @ factor)
    return max(float(difference @ difference) + traces - 2.0 * float(np.sqrt(np.maximum(values, 0.0)).sum()), 0.0)


def check_fit(fit: Fit) -> None:
    """Refuses what is no mean and covariance.

    Raises:
        OptionError: wrong shapes, numbers that are not finite, a covariance that is not symmetric or has a direction
            of negative variance.
    """
    mean, cov = fit
    if mean.ndim != 1 or cov.shape != (len(mean), len(mean)):
        raise OptionError("a fit must have a mean (d,) and a covariance (d, d)", got=f"{mean.shape} and {cov.shape}")
    if not (np.isfinite(mean).all() and np.isfinite(cov).all()):
        raise OptionError("mean and covariance must be finite", got="NaN or infinity")
    scale = float(np.abs(cov).max(initial=0.0))
    if float(np.abs(cov - cov.T).max(initial=0.0)) > 1e-5 * scale:
        raise OptionError("a covariance must be symmetric", got="one that is not")
    if float(np.diag(cov).min(initial=0.0)) < -1e-5 * scale:
        raise OptionError("a variance must not be negative", got=f"{np.diag(cov).min():g}")


def _root(cov: np.ndarray) -> np.ndarray:
    """(d, r) R with R Rᵀ = cov, without the directions that hold rounding only."""
    values, vectors = np.linalg.eigh((cov + cov.T) / 2)
    keep = values > values.max(initial=0.0) * len(values) * np.finfo(np.float64).eps
    root: np.ndarray = vectors[:, keep] * np.sqrt(values[keep])
    return root
