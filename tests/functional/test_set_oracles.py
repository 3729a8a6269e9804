"""Set metrics against published packages on given features: torchmetrics here, three others by their stored values."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from beholder.functional.diversity import vendi_score
from beholder.functional.gaussians import fit_features, frechet_distance
from beholder.functional.kernel_distances import cubic_kernel, kernel_sums, squared_mmd
from beholder.functional.neighbours import neighbour_metrics

GOLDEN = json.loads((Path(__file__).parents[1] / "reference" / "sets.json").read_text(encoding="utf-8"))
CASES = pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: str(case["gen"]))


def draw(seed: int, shift: float, scale: float) -> np.ndarray:
    """As `tests/reference/make_sets_golden.py` draws."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(GOLDEN["n"], GOLDEN["width"])) * scale + shift).astype(np.float32)


def sets(case: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    return draw(*case["gen"]), draw(*case["real"])


def kid(gen: np.ndarray, real: np.ndarray) -> float:
    codes = np.arange(len(gen)) % 4
    return squared_mmd(kernel_sums(real, gen, cubic_kernel, x_groups=codes, y_groups=codes), unbiased=True)


@CASES
def test_values_of_torch_fidelity_prdc_and_vendi_score(case: dict[str, Any]) -> None:
    gen, real = sets(case)
    theirs = case["values"]
    assert frechet_distance(fit_features(gen), fit_features(real)) == pytest.approx(theirs["fid"], rel=1e-6)
    assert kid(gen, real) == pytest.approx(theirs["kid"], rel=1e-6, abs=1e-9)
    for k, names in ((3, ("precision", "recall")), (5, ("precision", "recall", "density", "coverage"))):
        found = neighbour_metrics(real, gen, k=k)
        for name in names:
            assert getattr(found, name) == pytest.approx(theirs[f"{name}_{k}"], abs=1e-6), (name, k)
    assert vendi_score(gen) == pytest.approx(theirs["vendi"], rel=1e-6)


class Given(torch.nn.Module):
    """A feature extractor of torchmetrics that gives what it is given."""

    num_features = GOLDEN["width"]

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return features.reshape(len(features), -1)


@CASES
def test_torchmetrics_on_the_same_features(case: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it says of itself
        from torchmetrics.image.fid import FrechetInceptionDistance
        from torchmetrics.image.kid import KernelInceptionDistance

        gen, real = sets(case)
        metrics: list[Any] = [
            FrechetInceptionDistance(Given(), normalize=True, input_img_size=(1, 1, GOLDEN["width"])).set_dtype(
                torch.float64
            ),
            KernelInceptionDistance(Given(), subsets=1, subset_size=len(gen), normalize=True),
        ]
        for metric in metrics:
            for rows, is_real in ((real, True), (gen, False)):
                metric.update(torch.from_numpy(rows).double()[:, None, None], real=is_real)
        fid, (mean, _) = (metric.compute() for metric in metrics)
    assert frechet_distance(fit_features(gen), fit_features(real)) == pytest.approx(float(fid), rel=1e-5)
    assert kid(gen, real) == pytest.approx(float(mean), rel=1e-5, abs=1e-7)
