"""Attribute evaluation beside the bare work: one pass of the encoder, one numpy pass, scipy's kernels.

The encoder has ViT-B/16's size and random weights. RA-CLIPScore is made for 20 attributes of the same pass that gives
the plain embedding. Scores are random numbers.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from beholder.backends.patch_pass import hf_tower, patch_columns
from beholder.functional.densities import common_grid, scott
from beholder.functional.divergence import pad, sad
from beholder.functional.pair_densities import PAIR_POINTS, pair_kl
from beholder.functional.patches import patch_cosines, ra_clip_scores
from beholder.functional.score_sums import fit
from beholder.stats.score_sets import ScoreSettings, judge_scores
from benchmarks.table import Row, at_least, at_most, seconds

IMAGES, ATTRIBUTES, SCORED, FEWER, TIMES, EIGHTH = 8, 20, 50_000, 5_000, 5, 8


def measure(folder: Path) -> list[Row]:
    return [_encoder(), *_statistics(), _kernels(FEWER), _kernels(SCORED)]


def _in_turns(calls: dict[str, Callable[[], object]], times: int = TIMES) -> dict[str, float]:
    """Median seconds of each, in turns, so that a busy machine slows all of them alike."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(times):
        for name, call in calls.items():
            found[name].append(seconds(call))
    return {name: statistics.median(values) for name, values in found.items()}


def _encoder() -> Row:
    import torch
    from transformers import CLIPConfig, CLIPModel

    vision = {
        "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
        "image_size": 224, "patch_size": 16,
    }  # fmt: skip
    network: Any = CLIPModel(CLIPConfig(vision_config=vision, text_config={"num_hidden_layers": 1})).eval()
    pixels = torch.randn(IMAGES, 3, 224, 224)
    texts = np.random.default_rng(0).normal(size=(2, ATTRIBUTES, 512)).astype(np.float32)

    def plain() -> object:
        with torch.inference_mode():
            return network.get_image_features(pixel_values=pixels).pooler_output.numpy()

    def ours() -> object:
        with torch.inference_mode():
            columns = patch_columns(hf_tower(network), pixels)
        cosines = patch_cosines(columns["embedding"], columns["patches"], texts[0], texts[1])
        return ra_clip_scores(cosines, columns["attention"], tau=100.0)

    took = _in_turns({"plain": plain, "ours": ours})
    return at_most(
        "RA-CLIPScore of 20 attributes, ViT-B/16, against its plain embedding", took["ours"], took["plain"], 1.35
    )


def _statistics() -> list[Row]:
    rng = np.random.default_rng(0)
    sets = [rng.beta(2, 3, (SCORED, ATTRIBUTES)) for _ in range(2)]

    def plain() -> object:
        return [(side.mean(axis=0), np.cov(side.T)) for side in sets]

    def ours() -> object:
        fits = [fit(side) for side in sets]
        return sad(fits[0], fits[1]), pad(fits[0], fits[1])

    settings = ScoreSettings(resamples=1000, permutations=0, companions=False)
    took = _in_turns({"plain": plain, "ours": ours, "boot": lambda: judge_scores(sets[0], sets[1], settings)})
    what = "SaD and PaD (Gaussian), 50,000 + 50,000 × 20 scores"
    return [
        at_most(f"{what}, against numpy's mean and covariance", took["ours"], took["plain"], 3),
        at_most(f"{what}: bootstrap of 1,000, against one evaluation", took["boot"], took["ours"], 60),
    ]


def _kernels(scored: int) -> Row:
    from scipy.stats import gaussian_kde

    rng = np.random.default_rng(0)
    p, q = (rng.multivariate_normal([0.5, m], [[0.01, 0.005], [0.005, 0.02]], scored) for m in (0.5, 0.55))
    widths = [[scott(len(s), 2) * float(np.sqrt(c.var(ddof=1) + 1e-6)) for c in s.T] for s in (p, q)]
    axes = [common_grid([p[:, a], q[:, a]], [widths[0][a], widths[1][a]], PAIR_POINTS) for a in (0, 1)]
    plane = np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")])
    part = plane[:, ::EIGHTH]
    took = _in_turns(
        {"ours": lambda: pair_kl(p, q), "scipy": lambda: [gaussian_kde(side.T)(part) for side in (p, q)]}, times=3
    )
    what = (
        f"a pair's PaD by kernels, {scored:,} + {scored:,} scores, times faster than scipy (an eighth of its grid, "
        "scaled up)"
    )
    return at_least(what, took["ours"], EIGHTH * took["scipy"], 50)
