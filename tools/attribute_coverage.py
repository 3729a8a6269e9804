"""How often intervals of SaD and PaD hold the true divergence: the figures of the table in docs/attributes.md.

Scores of twenty attributes are drawn from normals, whose divergences are known.

    python tools/attribute_coverage.py [REPETITIONS [IMAGES …]]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from beholder.functional.divergence import pad, sad
from beholder.functional.score_sums import Gaussian
from beholder.stats.score_sets import ScoreSettings, judge_scores

ATTRIBUTES = 20
SPREAD = 0.05
"""Standard deviation of the reference's scores."""

CASES = {"none": (0.0, 1.0, 0.0), "small": (0.2, 1.0, 0.2), "medium": (0.5, 1.2, 0.4), "large": (1.0, 1.5, 0.7)}
"""Of the generated scores: shift and standard deviation in those of the reference, and correlation (reference: 0)."""


NAMES = {"sad": "SaD", "pad": "PaD", "sad_mean": "mean SaD", "pad_mean": "mean PaD"}


@dataclass(frozen=True)
class Coverage:
    """What was found over many data sets.

    Args:
        truth: the true divergence.
        value: mean of the values.
        percentile: share of data sets whose interval holds the truth.
        corrected: the same of the interval of the corrected value.
        own: share of data sets whose interval holds their own value.
    """

    truth: float
    value: float
    percentile: float
    corrected: float
    own: float


def normals(shift: float, ratio: float, correlation: float) -> tuple[Gaussian, Gaussian]:
    """The distributions of the reference's and of the generated scores."""
    alone = np.eye(ATTRIBUTES)
    joint = correlation + (1.0 - correlation) * alone
    middle = np.full(ATTRIBUTES, 0.5)
    return Gaussian(middle, SPREAD**2 * alone), Gaussian(middle + SPREAD * shift, (ratio * SPREAD) ** 2 * joint)


def measure(case: tuple[float, float, float], n: int, repetitions: int) -> dict[str, Coverage]:
    """Coverage by statistic: of the first attribute, of the first pair, and of both means."""
    sides = normals(*case)
    # All attributes, and all pairs, have one divergence; without a difference it is 0 to the last bits.
    truths = {"sad": float(sad(*sides)[0]), "pad": float(pad(*sides)[0])}
    truths = {name: value if value > 1e-9 else 0.0 for name, value in truths.items()}
    rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in NAMES}
    for seed in range(repetitions):
        rng = np.random.default_rng([seed, n])
        ref, gen = (rng.multivariate_normal(side.mean, side.cov, size=n) for side in sides)
        judged = judge_scores(ref, gen, ScoreSettings(companions=False, seed=seed))
        for name, own in rows.items():
            one, truth = judged[name], truths[name[:3]]
            parts = (one.value, one.low, one.high, one.corrected_low, one.corrected_high)
            value, low, high, first, last = (float(np.ravel(part)[0]) for part in parts if part is not None)
            own.append((truth, value, low <= truth <= high, first <= truth <= last, low <= value <= high))
    return {name: Coverage(*map(float, np.mean(own, axis=0))) for name, own in rows.items()}


def main() -> None:
    repetitions, *sizes = [int(text) for text in sys.argv[1:]] or [200]
    titles = ("images a set", "difference", "statistic", "truth", "mean value", "interval holds the truth",
              "corrected one holds it", "interval holds its value")  # fmt: skip
    write(titles)
    write(["---"] * len(titles))
    for n in sizes or (100, 500):
        for label, case in CASES.items():
            for name, found in measure(case, n, repetitions).items():
                shares = [f"{100 * share:.0f} %" for share in (found.percentile, found.corrected, found.own)]
                write([str(n), label, NAMES[name], f"{found.truth:.3f}", f"{found.value:.3f}", *shares])


def write(cells: Sequence[str]) -> None:
    """One row of the table."""
    sys.stdout.write("| " + " | ".join(cells) + " |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
