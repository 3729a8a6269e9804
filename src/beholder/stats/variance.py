"""Where the scatter of paired differences comes from: concepts, prompts, seeds of a prompt, judgements of an output."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class VarianceSplit:
    """Variance components of differences; None where the data has nothing that tells a component.

    Args:
        prompt: variance of the prompts' true differences; within a concept where `concept` is known.
        seed: variance of the seeds' true differences within a prompt.
        judge: variance of one judgement around its output's mean, on both sides together.
        seeds_per_prompt: mean number of seeds of a prompt.
        judgements: harmonic mean number of judgements behind a seed's difference.
        concept: variance of the concepts' true differences; None where prompts have none, or one each.
        prompts_per_concept: Σ m²/Σ m of the concepts' numbers m of prompts; 1 without concepts.
    """

    prompt: float | None
    seed: float | None
    judge: float | None
    seeds_per_prompt: float
    judgements: float = 1.0
    concept: float | None = None
    prompts_per_concept: float = 1.0

    def of_mean(self, prompts: float, seeds: float) -> float | None:
        """Variance of the mean difference with so many prompts and seeds a prompt; None where it is not known.

        Concepts have as many prompts as now: more prompts are more concepts.
        """
        if self.prompt is None:
            return None
        inner = (self.seed or 0.0) + (self.judge or 0.0) / self.judgements
        shared = (self.concept or 0.0) * self.prompts_per_concept
        return (shared + self.prompt + inner / seeds) / prompts


def split_variance(
    values: np.ndarray,
    prompts: np.ndarray,
    *,
    noise: np.ndarray | None = None,
    judge: float | None = None,
    concepts: np.ndarray | None = None,
) -> VarianceSplit:
    """Splits the variance of seed-level differences by a nested random-effects analysis of variance.

    With N values of P prompts, n_p of each: MSB = Σ n_p (d̄_p − d̄)²/(P − 1), MSW = Σ (d − d̄_p)²/(N − P),
    n0 = (N − Σ n_p²/N)/(P − 1); seed = MSW − mean noise, prompt = (MSB − MSW)/n0, each at least 0. Where no prompt has
    two seeds the two cannot be told apart, and `prompt` is the variance of the prompts' differences less the noise.
    With K concepts of m_k prompts the prompts' means are split the same way, by concept: concept = (MSB − MSW)/n0, and
    prompt is MSW less what seeds explain of a prompt's mean.

    Args:
        values: (N,) difference of each seed of each prompt.
        prompts: (N,) code of the prompt, 0 or more.
        noise: (N,) variance of each value that repeated judgements explain, or None.
        judge: variance of one judgement, to be passed on.
        concepts: (N,) code of the concept that the prompt belongs to, or None.

    Source: the method of moments, Searle, Casella and McCulloch 1992, chapter 3.

    >>> import numpy as np
    >>> split_variance(np.array([1.0, 3.0, 11.0, 13.0]), np.array([0, 0, 1, 1])).seed
    2.0
    """
    _, first, codes = np.unique(prompts, return_index=True, return_inverse=True)
    sizes = np.bincount(codes).astype(np.float64)
    n, n_prompts = len(values), len(sizes)
    explained = 0.0 if noise is None or not n else float(noise.mean())
    repeats = judge / explained if judge and explained > 0 else 1.0
    per_prompt = n / n_prompts if n_prompts else 0.0
    if n_prompts < 2:
        within = float(np.var(values, ddof=1)) if n > 1 else None
        return VarianceSplit(None, None if within is None else max(0.0, within - explained), judge, per_prompt, repeats)
    means = np.bincount(codes, weights=values) / sizes
    if n == n_prompts:
        alone = max(0.0, float(np.var(means, ddof=1)) - explained)
        split = VarianceSplit(alone, None, judge, per_prompt, repeats)
        inner = explained
    else:
        between, within, typical = _mean_squares(values, codes)
        prompt = max(0.0, (between - within) / typical)
        split = VarianceSplit(prompt, max(0.0, within - explained), judge, per_prompt, repeats)
        inner = within * float((1 / sizes).mean())
    return split if concepts is None else _by_concept(split, means, concepts[first], inner)


def _by_concept(split: VarianceSplit, means: np.ndarray, concepts: np.ndarray, inner: float) -> VarianceSplit:
    """The split with what the prompts of one concept share; `inner` is the variance of a prompt's mean by its seeds."""
    codes = np.unique(concepts, return_inverse=True)[1]
    sizes = np.bincount(codes).astype(np.float64)
    if not 1 < len(sizes) < len(means):
        return split
    between, within, typical = _mean_squares(means, codes)
    return replace(
        split,
        prompt=max(0.0, within - inner),
        concept=max(0.0, (between - within) / typical),
        prompts_per_concept=float(np.square(sizes).sum() / sizes.sum()),
    )


def _mean_squares(values: np.ndarray, codes: np.ndarray) -> tuple[float, float, float]:
    """Mean squares between and within groups, and n0, the typical size of a group; some group has two values."""
    sizes = np.bincount(codes).astype(np.float64)
    n, k = len(values), len(sizes)
    means = np.bincount(codes, weights=values) / sizes
    between = float((sizes * np.square(means - values.mean())).sum()) / (k - 1)
    within = float(np.square(values - means[codes]).sum()) / (n - k)
    return between, within, (n - float(np.square(sizes).sum()) / n) / (k - 1)
