"""Distances of two sets: Fréchet (`fid`, `fd`) and kernel ones (`kid`, `cmmd`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from beholder.functional.gaussians import FeatureSums, Fit, frechet_distance, quick_distance
from beholder.functional.kernel_distances import (
    CMMD_SCALE,
    KernelSums,
    cubic_kernel,
    gaussian_kernel,
    kernel_sums,
    squared_mmd,
)
from beholder.functional.set_draws import LEAST_ROWS, deal_groups, half_interval, half_marks
from beholder.functional.similarity import normalise
from beholder.metrics.sets import (
    DINO,
    FRAMES,
    FeatureSet,
    FittedSet,
    Memo,
    SetMetric,
    SetSettings,
    SetValue,
    model_option,
)
from beholder.records import MetricInfo, OptionInfo

INCEPTION = "inception:fid"
GROUPS = 10
"""Groups whose sums are held for intervals of Fréchet distances: memory is so many covariances a set."""
KERNEL_GROUPS, KERNEL_DRAWS = 20, 200
HALVES = "half-sampling"

_LICENCE = "The encoder's licence stands in its card."
_UNEQUAL = "Sets of unequal size are refused unless --n draws equal ones, since the value depends on the size."


class FrechetMetric(SetMetric):
    """The Fréchet distance on one encoder's features. Memory does not grow with the sets: sums stream."""

    takes_fit = True

    def measure(
        self, gen: FeatureSet, real: FeatureSet | FittedSet | None, settings: SetSettings, memo: Memo
    ) -> SetValue:
        if real is None:
            raise TypeError("a Fréchet distance needs a real set")
        sides = [_sums_of(side, settings, f"frechet {name}") for name, side in (("real", real), ("gen", gen))]
        fits = [side if isinstance(side, Fit) else _merged(side).fit() for side in sides]
        value = frechet_distance(*fits)
        draws = self._draws(sides, settings)
        found = half_interval(value, draws, level=settings.level, low=0.0)
        notes = []
        width = len(fits[0].mean)
        small = min(side.n for side in (gen, real) if side.n is not None)
        if small < width:
            notes.append(
                f"n = {small} is less than the {width} dimensions of the features: the covariance is singular and the "
                "distance is mostly that of the sample size"
            )
        if isinstance(real, FittedSet):
            notes.append(_of_fit(real, gen.n))
        note = "; ".join(notes) or None
        if found is None:
            return SetValue(value, n_units=gen.n, note=note)
        return SetValue(
            value, found.low, found.high, found.sd, n_units=gen.n, ci_method=HALVES, note=note
        )  # fmt: skip

    def _draws(self, sides: list[Any], settings: SetSettings) -> np.ndarray:
        """Distances of halves; of a set known by its fit alone, the fit itself."""
        held = [side for side in sides if not isinstance(side, Fit)]
        if any(sum(part.n for part in side) < LEAST_ROWS or len(side) < GROUPS for side in held):
            return np.zeros(0)
        rng = settings.rng("frechet halves")
        width = held[0][0].width
        count = 100 if width <= 256 else 40 if width <= 1024 else 10
        marks = [half_marks(GROUPS, count, rng) for _ in sides]
        values = []
        for at in range(count):
            fits = [
                side if isinstance(side, Fit) else _merged([p for p, keep in zip(side, m[at]) if keep]).fit()
                for side, m in zip(sides, marks)
            ]
            values.append(quick_distance(*fits))
        return np.asarray(values)


def _of_fit(real: FittedSet, n: int) -> str:
    told = "an unknown number of" if real.n is None else str(real.n)
    size = "" if real.n == n else f", against {n} generated ones: the value depends on both numbers"
    return (
        f"the real set is known by its mean and covariance alone, of {told} pictures{size}; the interval is about the "
        "generated set"
    )


def _sums_of(side: FeatureSet | FittedSet, settings: SetSettings, what: str) -> Any:
    """Sums of a set by group, or its fit; one block of features in memory at a time."""
    if isinstance(side, FittedSet):
        return side.fit
    groups = GROUPS if side.n >= 2 * GROUPS else 1
    codes = deal_groups(side.n, groups, settings.rng(what))
    sums: list[FeatureSums] = []
    for numbers, block in side.blocks():
        sums = sums or [FeatureSums(block.shape[1]) for _ in range(groups)]
        own = codes[numbers]
        for group, part in enumerate(sums):
            part.add(block[own == group])
    return sums


def _merged(parts: list[FeatureSums]) -> FeatureSums:
    total = FeatureSums(parts[0].width)
    for part in parts:
        total.merge(part)
    return total


_FRECHET: dict[str, Any] = {
    "family": "sets", "kind": "set", "inputs": ("output",),
    "formula": "|μ₁ − μ₂|² + tr Σ₁ + tr Σ₂ − 2 tr (Σ₁Σ₂)^½, means and covariances (ddof 1) of the features of two sets",
    "unit": "squared feature distance", "range": (0.0, None), "higher_is_better": False,
    "degenerate": "Fewer than 2 pictures in a set are an error; fewer than dimensions, a note. Equal sets give 0.",
    "version": "1", "capability": "ImageTextEncoder", "licence_note": _LICENCE,
}  # fmt: skip


class Fid(FrechetMetric):
    """`fid`: see its card."""

    info = MetricInfo(
        name="fid",
        summary="Fréchet Inception Distance of the outputs to a real set.",
        paper="Heusel et al., GANs Trained by a Two Time-Scale Update Rule, arXiv 1706.08500.",
        reference_code="https://github.com/mseitzer/pytorch-fid",
        default_model=INCEPTION,
        options=(model_option(INCEPTION, "Encoder; another one makes it an `fd`."), FRAMES),
        notes=(
            _UNEQUAL,
            "Values of fewer than 10,000 pictures are biased upwards and serve comparisons of equal n only.",
        ),
        **_FRECHET,
    )

    @classmethod
    def takes_model(cls) -> bool:
        """The Inception network is the metric's definition."""
        return False


class Fd(FrechetMetric):
    """`fd`: see its card."""

    info = MetricInfo(
        name="fd",
        summary="Fréchet distance of the outputs to a real set, on the features of any encoder.",
        paper="Stein et al., Exposing flaws of generative model evaluation metrics, arXiv 2306.04675.",
        reference_code="https://github.com/layer6ai-labs/dgm-eval",
        default_model=DINO,
        options=(model_option(DINO), FRAMES),
        notes=(_UNEQUAL, "Features are taken as the encoder gives them, not scaled to length 1."),
        **_FRECHET,
    )


class KernelMetric(SetMetric):
    """A squared maximum mean discrepancy. All features are held; kernels come in blocks."""

    unbiased = True
    scale = 1.0

    def features(self, side: FeatureSet) -> np.ndarray:
        """(n, d) what the kernel is given."""
        return side.rows()

    def sums(self, gen: FeatureSet, real: FeatureSet, settings: SetSettings) -> KernelSums:
        """Sums of the metric's kernel by group."""
        raise NotImplementedError

    def measure(
        self, gen: FeatureSet, real: FeatureSet | FittedSet | None, settings: SetSettings, memo: Memo
    ) -> SetValue:
        if not isinstance(real, FeatureSet):
            raise TypeError("a kernel distance needs the features of a real set")
        sums = self.sums(gen, real, settings)
        value = self.scale * squared_mmd(sums, unbiased=self.unbiased)
        if min(gen.n, real.n) < max(LEAST_ROWS, 4):
            return SetValue(value, n_units=gen.n)
        rng = settings.rng("kernel halves")
        marks = [half_marks(len(sums.x_counts), KERNEL_DRAWS, rng) for _ in range(2)]
        draws = [self.scale * squared_mmd(sums, unbiased=self.unbiased, x_chosen=p, y_chosen=q) for p, q in zip(*marks)]
        low, high = self.value_range
        found = half_interval(value, np.asarray(draws), level=settings.level, low=low, high=high)
        if found is None:
            return SetValue(value, n_units=gen.n)
        return SetValue(value, found.low, found.high, found.sd, n_units=gen.n, ci_method=HALVES)

    def _grouped(self, gen: FeatureSet, real: FeatureSet, settings: SetSettings, kernel: Any) -> KernelSums:
        count = min(KERNEL_GROUPS, max(2, min(gen.n, real.n) // 2))
        codes = [deal_groups(side.n, count, settings.rng(f"kernel {name}")) for name, side in
                 (("real", real), ("gen", gen))]  # fmt: skip
        return kernel_sums(
            self.features(real), self.features(gen), kernel, x_groups=codes[0], y_groups=codes[1]
        )  # fmt: skip


class Kid(KernelMetric):
    """`kid`: see its card."""

    info = MetricInfo(
        name="kid",
        family="sets",
        kind="set",
        summary="Kernel Inception Distance of the outputs to a real set; unbiased for any number of pictures.",
        inputs=("output",),
        formula="unbiased squared MMD with the kernel (x·y / d + 1)³ over all pairs",
        unit="squared MMD",
        range=(None, None),
        higher_is_better=False,
        degenerate="Fewer than 2 pictures in a set are an error. Equal sets give a little less than 0.",
        paper="Bińkowski et al., Demystifying MMD GANs, arXiv 1801.01401.",
        reference_code="https://github.com/toshas/torch-fidelity",
        version="1",
        capability="ImageTextEncoder",
        default_model=INCEPTION,
        options=(model_option(INCEPTION), FRAMES),
        licence_note=_LICENCE,
        notes=(
            "Over all pairs at once; packages that average subsets of 1000 estimate the same number.",
            "Tables often show it times 1000.",
            "All features are held in memory, the kernel in blocks.",
        ),
    )

    @classmethod
    def takes_model(cls) -> bool:
        """The Inception network is the metric's definition."""
        return False

    def sums(self, gen: FeatureSet, real: FeatureSet, settings: SetSettings) -> KernelSums:
        return self._grouped(gen, real, settings, cubic_kernel)


class Cmmd(KernelMetric):
    """`cmmd`: see its card."""

    unbiased = False
    scale = CMMD_SCALE
    needs_direction = True

    info = MetricInfo(
        name="cmmd",
        family="sets",
        kind="set",
        summary="CLIP maximum mean discrepancy of the outputs to a real set.",
        inputs=("output",),
        formula="1000 · squared MMD with the kernel exp(−|x − y|² / 200) over embeddings of length 1; `estimator` says "
        "whether pairs of a picture with itself take part",
        unit="1000 squared MMD",
        range=(0.0, None),
        higher_is_better=False,
        degenerate="Fewer than 2 pictures in a set are an error; an embedding without direction leaves the set. "
        "Equal sets give 0.",
        paper="Jayasumana et al., Rethinking FID, arXiv 2401.09603.",
        reference_code="https://github.com/google-research/google-research",
        version="1",
        capability="ImageTextEncoder",
        default_model="openai:ViT-L-14-336",
        options=(
            model_option("openai:ViT-L-14-336"),
            OptionInfo(
                "estimator", "biased", "biased as the authors' code, or unbiased (may lie below 0).",
                choices=("biased", "unbiased"),
            ),
            FRAMES,
        ),
        licence_note=_LICENCE,
        notes=("All features are held in memory, the kernel in blocks.",),
    )  # fmt: skip

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.unbiased = self.options["estimator"] == "unbiased"

    @classmethod
    def takes_model(cls) -> bool:
        """The encoder is part of the metric's definition."""
        return False

    @property
    def value_range(self) -> tuple[float | None, float | None]:
        return (None, None) if self.unbiased else (0.0, None)

    def features(self, side: FeatureSet) -> np.ndarray:
        return normalise(side.rows()).vectors

    def sums(self, gen: FeatureSet, real: FeatureSet, settings: SetSettings) -> KernelSums:
        return self._grouped(gen, real, settings, gaussian_kernel)
