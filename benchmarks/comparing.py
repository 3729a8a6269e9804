"""Comparing two runs of 10,000 samples and 8 metrics, and agreement over 3 million pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import beholder
from beholder.stats.agreement import Judged, pairwise_accuracy
from benchmarks.table import Row, at_most, seconds

SAMPLES, METRICS, ITEMS = 10_000, 8, 2500


def measure(folder: Path) -> list[Row]:
    rng = np.random.default_rng(4)
    runs = [_run(folder / name, seed) for seed, name in enumerate(("a", "b"))]
    compared = seconds(lambda: beholder.compare(*runs, allow_different=True))
    values = rng.normal(size=SAMPLES)
    draws = lambda: values[rng.integers(0, SAMPLES, size=(2000, SAMPLES))].mean(axis=1)  # noqa: E731
    plain = seconds(lambda: np.quantile(draws(), [0.025, 0.975]))
    judged = Judged(rng.normal(size=ITEMS), rng.integers(1, 6, ITEMS).astype(float), np.zeros(ITEMS, dtype=int))
    accuracy = seconds(lambda: pairwise_accuracy(judged, calibration="none"))
    sorting = seconds(lambda: np.argsort(rng.normal(size=ITEMS * (ITEMS - 1) // 2)))
    what = f"two runs of {SAMPLES:,} samples and {METRICS} metrics, compared, against a plain bootstrap of one metric"
    return [
        at_most(what, compared, plain, 20),
        at_most("pairwise accuracy over 3 million pairs, against sorting as many numbers", accuracy, sorting, 6),
    ]


def _run(folder: Path, seed: int) -> beholder.Run:
    """A run of eight fake encoders over the same samples; the fake encoder's seed tells the runs apart."""
    metrics = [f"clip_score,model=fake:dim=8;seed={8 * seed + at},as=m{at}" for at in range(METRICS)]
    rows = ({"id": str(at), "output": _picture(at + SAMPLES * seed), "prompt": f"p{at}"} for at in range(SAMPLES))
    return beholder.evaluate(
        list(rows), metrics=metrics, out=str(folder), store=str(folder.parent / f"store{seed}"), resamples=100
    )


def _picture(number: int) -> np.ndarray:
    return np.frombuffer(number.to_bytes(4, "little") * 12, dtype=np.uint8).reshape(4, 4, 3).copy()
