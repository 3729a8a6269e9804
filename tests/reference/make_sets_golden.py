"""Makes `sets.json`: values of set metrics on drawn features, as published packages compute them.

Independent of the library: torch-fidelity 0.4 (fid, kid over all pairs as one subset, precision and recall), prdc 0.2
(all four neighbour metrics), vendi-score 0.0.3. They are no dependencies of ours: run it by hand where
they are installed:

    python tests/reference/make_sets_golden.py > tests/reference/sets.json
"""

from __future__ import annotations

import json
import sys

import numpy as np
import torch
from prdc import compute_prdc
from torch_fidelity.metric_fid import fid_features_to_statistics, fid_statistics_to_metric
from torch_fidelity.metric_kid import kid_features_to_metric
from torch_fidelity.metric_prc import prc_features_to_metric
from vendi_score import vendi

N, WIDTH = 200, 12


def draw(seed: int, shift: float, scale: float) -> np.ndarray:
    """(N, WIDTH) float32 features; the same on every machine."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(N, WIDTH)) * scale + shift).astype(np.float32)


def values(gen: np.ndarray, real: np.ndarray) -> dict[str, float]:
    one, other = torch.from_numpy(gen).double(), torch.from_numpy(real).double()
    fits = [fid_features_to_statistics(side) for side in (one, other)]
    fid = fid_statistics_to_metric(*fits, verbose=False)["frechet_inception_distance"]
    kid = kid_features_to_metric(one, other, kid_subsets=1, kid_subset_size=N, verbose=False)
    near = prc_features_to_metric(one, other, prc_neighborhood=3, verbose=False)
    prdc = compute_prdc(real_features=real, fake_features=gen, nearest_k=5)
    return {
        "fid": float(fid),
        "kid": float(kid["kernel_inception_distance_mean"]),
        "precision_3": float(near["precision"]),
        "recall_3": float(near["recall"]),
        **{f"{name}_5": float(prdc[name]) for name in ("precision", "recall", "density", "coverage")},
        "vendi": float(vendi.score_dual(gen.astype(np.float64), normalize=True)),
    }


def main() -> None:
    cases = [
        {"gen": [1, shift, scale], "real": [2, 0.0, 1.0], "values": values(draw(1, shift, scale), draw(2, 0.0, 1.0))}
        for shift, scale in ((0.0, 1.0), (0.3, 1.0), (0.0, 0.6), (1.0, 2.0))
    ]
    json.dump({"n": N, "width": WIDTH, "cases": cases}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
