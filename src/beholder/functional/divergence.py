"""Divergences between the score distributions of two sets: SaD, PaD, the dependence term, and SaD's companions.

All divergences are in nats. Every function takes batches: leading dimensions of the fits (resamples) go through.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError
from beholder.functional.score_sums import Gaussian
from beholder.functional.similarity import choice

Direction = Literal["gen||ref", "ref||gen"]
FLOOR = 1e-6
"""Added to every variance: an attribute that no image has would otherwise divide by zero."""


def pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    """First and second of all unordered pairs of `count` attributes, in the order of every array of pairs.

    >>> [side.tolist() for side in pairs(3)]
    [[0, 0, 1], [1, 2, 2]]
    """
    first, second = np.triu_indices(count, k=1)
    return first, second


def sad(ref: Gaussian, gen: Gaussian, *, direction: Direction = "gen||ref", floor: float = FLOOR) -> np.ndarray:
    """Single-attribute divergence: KL between the normal distributions of each attribute's scores.

    KL(g‖r) = ½·[v_g/v_r + (μ_g − μ_r)²/v_r − 1 + ln(v_r/v_g)] with v = s² + floor.

    Args:
        ref: fit of the reference set.
        gen: fit of the generated set.
        direction: "gen||ref" (the paper), or "ref||gen" (the code of HCS).
        floor: added to every variance, above 0.

    Returns:
        (…, C) nats, at least 0. Two sets of one distribution give about (1/N + 1/M), never 0: read it beside its null.

    Source: arXiv 2608.12088, eqs. 10 and 12. Blind to shapes of equal mean and variance (two peaks and one).

    >>> ref, gen = Gaussian(np.array([0.0]), np.array([[1.0]])), Gaussian(np.array([1.0]), np.array([[1.0]]))
    >>> sad(ref, gen, floor=1e-12).round(6).tolist()
    [0.5]
    """
    first, second = _directed(ref, gen, direction, floor)
    v_f, v_s = (np.diagonal(side.cov, axis1=-2, axis2=-1) + floor for side in (first, second))
    shift = np.square(first.mean - second.mean)
    result: np.ndarray = np.maximum(0.5 * (v_f / v_s + shift / v_s - 1.0 + np.log(v_s / v_f)), 0.0)
    return result


def pad(ref: Gaussian, gen: Gaussian, *, direction: Direction = "gen||ref", floor: float = FLOOR) -> np.ndarray:
    """Paired-attribute divergence: KL between the joint normal distributions of two attributes' scores.

    KL(g‖r) = ½·[tr(S_r⁻¹ S_g) + d' S_r⁻¹ d − 2 + ln(det S_r / det S_g)] with S = covariance + floor·I, d = μ_g − μ_r.

    Args:
        ref: fit of the reference set.
        gen: fit of the generated set.
        direction: see `sad`.
        floor: see `sad`.

    Returns:
        (…, C(C−1)/2) nats, at least 0, in the order of `pairs`.

    Source: arXiv 2608.12088, eqs. 11 and 13.

    >>> same = Gaussian(np.array([0.1, 0.2]), np.array([[1.0, 0.5], [0.5, 1.0]]))
    >>> pad(same, same).tolist()
    [0.0]
    """
    first, second = _directed(ref, gen, direction, floor)
    i, j = pairs(first.mean.shape[-1])
    a, b, c = _entries(first, i, j, floor)
    p, q, r = _entries(second, i, j, floor)
    d_i, d_j = (first.mean[..., k] - second.mean[..., k] for k in (i, j))
    det_first, det_second = a * b - c * c, p * q - r * r
    trace = (q * a + p * b - 2.0 * r * c) / det_second
    shift = (q * d_i**2 + p * d_j**2 - 2.0 * r * d_i * d_j) / det_second
    result: np.ndarray = np.maximum(0.5 * (trace + shift - 2.0 + np.log(det_second / det_first)), 0.0)
    return result


def condition_numbers(fit: Gaussian, *, floor: float = FLOOR) -> np.ndarray:
    """(…, C(C−1)/2) ratio of the eigenvalues of each pair's covariance with the floor; large for pairs that nearly
    say the same.

    >>> condition_numbers(Gaussian(np.zeros(2), np.diag([3.0, 1.0])), floor=1e-12).round(6).tolist()
    [3.0]
    """
    i, j = pairs(fit.mean.shape[-1])
    a, b, c = _entries(fit, i, j, floor)
    spread = np.sqrt(np.square((a - b) / 2.0) + c * c)
    middle = (a + b) / 2.0
    # The small eigenvalue from the determinant: middle − spread would cancel for near-collinear pairs.
    large = middle + spread
    result: np.ndarray = large * large / (a * b - c * c)
    return result


def dependence(pad_values: npt.ArrayLike, sad_values: npt.ArrayLike) -> np.ndarray:
    """PaD − SaD_p − SaD_q: the part of PaD that is a change of coupling.

    Args:
        pad_values: (…, C(C−1)/2), in the order of `pairs`.
        sad_values: (…, C), same direction, density and floor.

    Returns:
        (…, C(C−1)/2) nats, signed: negative values occur where the reference is itself correlated.

    Source: ours (chain rule of KL). Its mean under no difference is about ½·(1/N + 1/M), whatever the correlation.

    >>> dependence([0.7], [0.1, 0.2]).round(6).tolist()
    [0.4]
    """
    single = np.asarray(sad_values, dtype=np.float64)
    i, j = pairs(single.shape[-1])
    result: np.ndarray = np.asarray(pad_values, dtype=np.float64) - single[..., i] - single[..., j]
    return result


def gaussian_null_mean(dimensions: int, n: int, m: int) -> float:
    """(k/2)·(1/n + 1/m), k = d + d(d+1)/2: what a KL between normal fits is on average when nothing differs.

    >>> gaussian_null_mean(1, 500, 500), gaussian_null_mean(2, 500, 500)
    (0.004, 0.01)
    """
    if min(n, m, dimensions) < 1:
        raise OptionError("counts must be at least 1", got=f"d={dimensions}, n={n}, m={m}")
    return (dimensions + dimensions * (dimensions + 1) / 2) / 2 * (1 / n + 1 / m)


def wasserstein(ref: npt.ArrayLike, gen: npt.ArrayLike) -> np.ndarray:
    """W1 of each attribute's scores: the area between the two distribution functions.

    Args:
        ref: (N, C) scores.
        gen: (M, C) scores.

    Returns:
        (C,) at least 0, in the scores' own unit.

    Raises:
        OptionError: an empty set, or widths that differ.

    >>> wasserstein([[0.0], [1.0]], [[0.5], [1.0]]).tolist()
    [0.25]
    """
    first, second = np.asarray(ref, dtype=np.float64), np.asarray(gen, dtype=np.float64)
    if not len(first) or not len(second) or first.shape[1:] != second.shape[1:]:
        raise OptionError("both sets need scores of the same attributes", got=f"{first.shape} and {second.shape}")
    pooled = np.concatenate([first, second])
    order = np.argsort(pooled, axis=0, kind="stable")
    steps = np.where(order < len(first), 1.0 / len(first), -1.0 / len(second))
    gaps = np.diff(np.take_along_axis(pooled, order, axis=0), axis=0)
    result: np.ndarray = (np.abs(np.cumsum(steps, axis=0)[:-1]) * gaps).sum(axis=0)
    return result


def jensen_shannon(p: npt.ArrayLike, q: npt.ArrayLike, *, axis: int = -1) -> np.ndarray:
    """Jensen-Shannon divergence of discrete distributions: ½KL(p‖m) + ½KL(q‖m), m = (p + q)/2.

    Args:
        p: probabilities that sum to 1 along `axis`.
        q: the same.
        axis: the axis of the outcomes.

    Returns:
        Nats, from 0 to ln 2. (The public code of HCS prints half the Jeffreys divergence under this name.)

    >>> jensen_shannon([1.0, 0.0], [0.0, 1.0]).round(6).tolist()
    0.693147
    """
    first, second = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    middle = (first + second) / 2.0
    parts = []
    for side in (first, second):
        ratio = np.divide(side, middle, out=np.ones_like(middle), where=(side > 0) & (middle > 0))
        parts.append((side * np.log(ratio)).sum(axis=axis))
    result: np.ndarray = np.maximum((parts[0] + parts[1]) / 2.0, 0.0)
    return result


def _entries(fit: Gaussian, i: np.ndarray, j: np.ndarray, floor: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return fit.cov[..., i, i] + floor, fit.cov[..., j, j] + floor, fit.cov[..., i, j]


def _directed(ref: Gaussian, gen: Gaussian, direction: str, floor: float) -> tuple[Gaussian, Gaussian]:
    choice("direction", direction, Direction)
    if not floor > 0:
        raise OptionError("the floor of variances must be above 0", got=repr(floor))
    return (gen, ref) if direction == "gen||ref" else (ref, gen)
