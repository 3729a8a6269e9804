"""How large a difference is, apart from its unit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError


@dataclass(frozen=True)
class Effect:
    """Effect sizes of paired differences, one a prompt.

    Args:
        d_z: mean difference over its standard deviation; None for fewer than two prompts or without scatter.
        superiority: share of prompts above 0 plus half of the ties: the chance that b is higher on a prompt.
        above: share of prompts where b is higher.
        tied: share of ties.
        below: share of prompts where b is lower.
    """

    d_z: float | None
    superiority: float
    above: float
    tied: float
    below: float


def paired_effect(differences: npt.ArrayLike, *, tie: float = 0.0) -> Effect:
    """Effect sizes of b − a.

    Args:
        differences: (P,) one difference a prompt, finite; at least one.
        tie: differences up to this size are ties.

    Raises:
        OptionError: no differences, or a negative tie.

    >>> found = paired_effect([1.0, 2.0, 0.0, -1.0])
    >>> found.superiority, found.above, found.tied, found.below
    (0.625, 0.5, 0.25, 0.25)
    """
    d = np.asarray(differences, dtype=np.float64).ravel()
    if not len(d):
        raise OptionError("an effect size needs at least one difference", got="none")
    if not tie >= 0:
        raise OptionError("a tie must be 0 or more", got=repr(tie))
    above, below = float(np.mean(d > tie)), float(np.mean(d < -tie))
    tied = float(np.mean(np.abs(d) <= tie))
    spread = float(d.std(ddof=1)) if len(d) > 1 else 0.0
    # Equal differences have a spread of rounding errors only.
    plain = spread <= 1e-12 * float(np.abs(d).max())
    return Effect(None if plain else float(d.mean()) / spread, above + tied / 2, above, tied, below)
