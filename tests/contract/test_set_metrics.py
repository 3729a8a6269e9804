"""What every metric of whole sets keeps to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from beholder._identity import parse_spec
from beholder.functional.gaussians import fit_features
from beholder.metrics.attribute_sets import AttributeSetMetric
from beholder.metrics.base import FeatureBatch, make_metric
from beholder.metrics.catalog import METRICS
from beholder.metrics.sets import FeatureSet, FittedSet, SetMetric, SetSettings, SetValue

SPECS = [
    # Those of attributes take patch tokens and texts: see test_attribute_set_metrics.py.
    *(name for name in METRICS.names() if issubclass(METRICS.get(name), SetMetric)
      and not issubclass(METRICS.get(name), AttributeSetMetric)),
    "cmmd(estimator=unbiased)", "vendi(over=prompt)", "vendi(order=0.5)", "diversity(over=set)", "recall(k=1)",
]  # fmt: skip
every = pytest.mark.parametrize("spec", SPECS)


def made(spec: str) -> SetMetric:
    metric = make_metric(parse_spec(spec))
    assert isinstance(metric, SetMetric)
    return metric


def feature_set(rows: np.ndarray, *, order: np.ndarray | None = None, block: int = 7) -> FeatureSet:
    """A set whose blocks come in any order, as from a store."""
    numbers = np.arange(len(rows)) if order is None else order

    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, len(rows), block):
            own = numbers[start : start + block]
            yield own, rows[own].astype(np.float32)

    return FeatureSet(len(rows), blocks, np.arange(len(rows)) // 5)


def rows(seed: int, n: int = 60, d: int = 8, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d)) + shift + 1.0


def measure(metric: SetMetric, gen: FeatureSet, real: FeatureSet, seed: int = 0) -> SetValue:
    return metric.measure(gen, real if metric.needs_real else None, SetSettings(seed=seed), {})


@every
def test_values_are_finite_in_range_and_inside_their_interval(spec: str) -> None:
    metric = made(spec)
    found = measure(metric, feature_set(rows(1)), feature_set(rows(2)))
    low, high = metric.value_range
    assert np.isfinite(found.value)
    assert low is None or found.value >= low
    assert high is None or found.value <= high
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value <= found.high
    assert found.low < found.high
    assert low is None or found.low >= low
    assert found.ci_method
    assert found.n_units > 0


@every
def test_the_order_in_which_blocks_come_does_not_matter(spec: str) -> None:
    metric = made(spec)
    order = np.random.default_rng(3).permutation(60)
    one = measure(metric, feature_set(rows(1)), feature_set(rows(2)))
    other = measure(metric, feature_set(rows(1), order=order, block=11), feature_set(rows(2), order=order[::-1]))
    assert other.value == pytest.approx(one.value, rel=1e-10, abs=1e-12)
    assert other.low == pytest.approx(one.low, rel=1e-8, abs=1e-9)


@every
def test_the_seed_moves_the_interval_and_not_the_value(spec: str) -> None:
    metric = made(spec)
    sides = feature_set(rows(1)), feature_set(rows(2))
    found = [measure(metric, *sides, seed=seed) for seed in (0, 0, 1)]
    assert found[0] == found[1]
    assert found[0].value == pytest.approx(found[2].value, rel=1e-12)
    assert found[0].sd != found[2].sd or found[0].unit == "prompt"


@every
def test_sets_that_are_further_apart_score_worse(spec: str) -> None:
    metric = made(spec)
    if not metric.needs_real:
        assert metric.info.higher_is_better is None
        return
    near, far = (measure(metric, feature_set(rows(1, shift=shift)), feature_set(rows(2))) for shift in (0.1, 3.0))
    assert (near.value > far.value) is metric.info.higher_is_better


@every
def test_rows_that_cannot_take_part_have_a_status(spec: str) -> None:
    metric = made(spec)
    features = rows(1, n=4).astype(np.float32)
    features[1], features[3, 0] = 0.0, np.nan
    found = metric.score(FeatureBatch({"image": {"embedding": features}}, {}, 4))
    assert set(found.statuses) == ({1, 3} if metric.needs_direction else {3})
    assert not metric.score(FeatureBatch({"image": {"embedding": features[:0]}}, {}, 0)).statuses


@pytest.mark.parametrize("spec", ["fid", "fd"])
def test_mean_and_covariance_are_as_good_as_the_pictures(spec: str) -> None:
    metric: Any = made(spec)
    gen, real = feature_set(rows(1)), rows(2).astype(np.float32)
    whole = measure(metric, gen, feature_set(real))
    found = metric.measure(gen, FittedSet(fit_features(real), 60), SetSettings(), {})
    assert found.value == pytest.approx(whole.value, rel=1e-10)
    assert "mean and covariance alone" in (found.note or "")
    assert found.sd < whole.sd


@every
def test_few_pictures_give_a_value_without_an_interval(spec: str) -> None:
    metric = made(spec)
    if metric.options.get("over") == "prompt":
        return
    found = measure(metric, feature_set(rows(1, n=6)), feature_set(rows(2, n=6)))
    assert np.isfinite(found.value)
    assert (found.low, found.ci_method) == (None, None)


def test_m2_fewer_pictures_than_dimensions_is_told() -> None:
    found = measure(made("fd"), feature_set(rows(1, n=20, d=30)), feature_set(rows(2, n=20, d=30)))
    assert "n = 20 is less than the 30 dimensions" in (found.note or "")
    told = measure(made("fd"), feature_set(rows(1)), feature_set(rows(2))).note
    assert told is None


def test_metrics_of_neighbours_share_their_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    from beholder.metrics import set_neighbours

    calls: list[int] = []
    real = set_neighbours.neighbour_metrics

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(1)
        return real(*args, **options)

    monkeypatch.setattr(set_neighbours, "neighbour_metrics", counted)
    memo: dict[Any, Any] = {}
    for name in ("precision", "recall", "density", "coverage"):
        made(name).measure(feature_set(rows(1)), feature_set(rows(2)), SetSettings(), memo)
    assert len(calls) == 1 + set_neighbours.DRAWS


def test_prompts_with_one_output_are_left_out_of_diversity() -> None:
    features = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    plain = feature_set(features)
    units = FeatureSet(5, plain.blocks, np.array([0, 0, 1, 2, 2]))
    found = made("diversity").measure(units, None, SetSettings(), {})
    assert found.value == pytest.approx(0.5)  # 1 of the first prompt, 0 of the third
    assert (found.n_units, found.unit) == (2, "prompt")
    assert found.note == "1 prompts with one output are left out"
