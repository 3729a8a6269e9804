"""Pairwise votes: strengths after Bradley and Terry, and the two-by-two items of Winoground."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from beholder._errors import OptionError

_MOST_STEPS = 100_000


@dataclass(frozen=True)
class Strengths:
    """Bradley and Terry's strengths.

    Args:
        values: (k,) log strengths, of mean 0: P(i beats j) = 1/(1 + exp(v_j − v_i)); None where they do not exist.
        steps: iterations that were needed.
        note: why there are none.
    """

    values: np.ndarray | None
    steps: int
    note: str | None = None


def bradley_terry(wins: np.ndarray, *, tolerance: float = 1e-10, start: np.ndarray | None = None) -> Strengths:
    """Maximum-likelihood strengths from counts of wins.

    Minorisation-maximisation: p_i ← W_i / Σ_j n_ij/(p_i + p_j), until no log strength moves by `tolerance`.

    Args:
        wins: (k, k) how often i beat j; half a win each for a tie.
        tolerance: when to stop.
        start: (k,) log strengths to start from; all 0 when None.

    Raises:
        OptionError: not a square matrix of finite counts of 0 or more.

    Degenerate: the strengths exist only where every split of the contenders into two camps has a win in both
    directions; otherwise there are none, and the note says so.

    Source: Hunter 2004, The Annals of Statistics 32:384.

    >>> import numpy as np
    >>> found = bradley_terry(np.array([[0.0, 3.0], [1.0, 0.0]])).values
    >>> round(float(found[0] - found[1]), 6)        # log 3
    1.098612
    """
    w = np.asarray(wins, dtype=np.float64)
    if w.ndim != 2 or w.shape[0] != w.shape[1] or not np.isfinite(w).all() or (w < 0).any():
        raise OptionError("wins must be a square table of counts of 0 or more", got=f"shape {w.shape}")
    w = w - np.diag(np.diag(w))
    if len(w) < 2:
        return Strengths(None, 0, "strengths need two contenders")
    camps, _ = csgraph.connected_components(sparse.csr_matrix(w > 0), connection="strong")
    if camps > 1:
        return Strengths(None, 0, "no strengths: some contenders never lost, or never won, against the others")
    met, total = w + w.T, w.sum(axis=1)
    logs = np.zeros(len(w)) if start is None else np.asarray(start, dtype=np.float64)
    for step in range(1, _MOST_STEPS + 1):
        p = np.exp(logs)
        new = np.log(total / (met / (p[:, None] + p[None, :])).sum(axis=1))
        new -= new.mean()
        moved = float(np.abs(new - logs).max())
        logs = new
        if moved < tolerance:
            return Strengths(logs, step)
    return Strengths(None, _MOST_STEPS, f"no convergence after {_MOST_STEPS} steps")


@dataclass(frozen=True)
class TwoByTwo:
    """(n,) whether each item of two pictures and two captions is told right; chance is 1/4, 1/4 and 1/6."""

    text: np.ndarray
    image: np.ndarray
    group: np.ndarray


WINOGROUND_CHANCE = {"text": 1 / 4, "image": 1 / 4, "group": 1 / 6}
"""What a random metric gets."""


def winoground(scores: np.ndarray) -> TwoByTwo:
    """Text, image and group scores of items with two pictures and two captions.

    text: each picture scores higher with its own caption; image: each caption scores higher with its own picture;
    group: both. Equal scores are not right.

    Args:
        scores: (n, 2, 2) score of picture i with caption j; i = j belong together.

    Raises:
        OptionError: another shape, or numbers that are not finite.

    Source: Thrush et al. 2022, arXiv 2204.03162.

    >>> import numpy as np
    >>> found = winoground(np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.95, 0.99]]]))
    >>> found.text.tolist(), found.image.tolist(), found.group.tolist()
    ([True, True], [True, False], [True, False])
    """
    s = np.asarray(scores, dtype=np.float64)
    if s.ndim != 3 or s.shape[1:] != (2, 2) or not np.isfinite(s).all():
        raise OptionError("scores must be finite and of shape (n, 2, 2)", got=str(s.shape))
    text = (s[:, 0, 0] > s[:, 0, 1]) & (s[:, 1, 1] > s[:, 1, 0])
    image = (s[:, 0, 0] > s[:, 1, 0]) & (s[:, 1, 1] > s[:, 0, 1])
    return TwoByTwo(text, image, text & image)
