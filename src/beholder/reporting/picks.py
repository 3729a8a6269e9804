"""Which samples are shown first: the prompts that changed most, the worst, a random draw. For reports and figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beholder.comparing.baselines import Pairs
from beholder.report.html.data import Metric, Pick, Samples

SHOWN = 8
"""How many of each are shown."""


def first_screen(samples: Samples, metrics: Sequence[Metric], n_sides: int, pairs: Pairs, *, seed: int) -> list[Pick]:
    """What the first screen shows of each metric."""
    if n_sides > 1:
        return [pick for metric in metrics if (pick := changed_most(samples, metric, n_sides, pairs)) is not None]
    found = []
    for metric in metrics:
        found += [worst(samples, metric), random_rows(samples, metric, seed=seed)]
    return [pick for pick in found if pick.rows]


def goodness(samples: Samples, metric: Metric) -> np.ndarray:
    """(n,) values, negated where lower is better; NaN where there is none."""
    values = np.array([np.nan if v is None else v for v in samples.values[metric.label]], dtype=np.float64)
    return -values if metric.higher_is_better is False else values


def worst(samples: Samples, metric: Metric, *, count: int = SHOWN, best: bool = False) -> Pick:
    """The samples with the worst (or best) values; the lowest where a metric has no direction."""
    values = goodness(samples, metric)
    order = np.argsort(-values if best else values, kind="stable")
    rows = [int(at) for at in order if not np.isnan(values[at])][:count]
    words = ("highest", "lowest") if metric.higher_is_better is None else ("best", "worst")
    return Pick(words[not best], metric.label, [[at] for at in rows], [""] * len(rows))


def random_rows(samples: Samples, metric: Metric, *, seed: int, count: int = SHOWN) -> Pick:
    """Samples that a seeded draw chose among those with a value."""
    there = [at for at, value in enumerate(samples.values[metric.label]) if value is not None]
    drawn = np.random.default_rng(seed).permutation(len(there))[:count]
    return Pick("random", metric.label, [[there[at]] for at in drawn], [""] * len(drawn))


def median_rows(samples: Samples, metric: Metric, *, count: int = SHOWN) -> Pick:
    """The samples around the median."""
    values = goodness(samples, metric)
    there = [int(at) for at in np.argsort(values, kind="stable") if not np.isnan(values[at])]
    first = max(0, (len(there) - count + 1) // 2)
    rows = there[first : first + count]
    return Pick("median", metric.label, [[at] for at in rows], [""] * len(rows))


def changed_most(samples: Samples, metric: Metric, n_sides: int, pairs: Pairs, *, count: int = SHOWN) -> Pick | None:
    """The pairs whose values moved most from a side's baseline to that side, most first."""
    row = pair_rows(samples, n_sides)
    values = np.array([np.nan if v is None else v for v in samples.values[metric.label]], dtype=np.float64)
    if not row.size:
        return None
    table = np.where(row >= 0, values[row], np.nan)
    change = table[[at for _, at in pairs]] - table[[one for one, _ in pairs]]
    there = ~np.isnan(change).all(axis=0)
    if not there.any():
        return None
    largest = np.where(there, np.nanmax(np.abs(np.where(np.isnan(change), 0.0, change)), axis=0), -1.0)
    chosen = [int(key) for key in np.argsort(-largest, kind="stable")[:count] if largest[key] > 0]
    return Pick(
        "changed most",
        metric.label,
        [[int(at) for at in row[:, key]] for key in chosen],
        [f"{largest[key]:.{metric.decimals}f}" for key in chosen],
    )


def pair_rows(samples: Samples, n_sides: int) -> np.ndarray:
    """(sides, pairs) the row that stands for each side of each pair, its first; −1 where a side has none."""
    keys, sides = np.asarray(samples.keys, dtype=np.int64), np.asarray(samples.sides)
    row = np.full((n_sides, int(keys.max(initial=-1)) + 1), -1)
    # Read backwards, the first row of a pair is written last.
    for at in range(len(keys) - 1, -1, -1):
        if keys[at] >= 0:
            row[sides[at], keys[at]] = at
    return row
