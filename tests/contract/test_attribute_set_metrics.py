"""What every metric of the attributes of whole sets keeps to, on features of an encoder that knows everything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from beholder._errors import NoValue, OptionError
from beholder._identity import parse_spec
from beholder.metrics.attribute_sets import AttributeSetMetric
from beholder.metrics.base import FeatureBatch, Ragged, make_metric
from beholder.metrics.catalog import METRICS
from beholder.metrics.sets import FeatureSet, PictureTable, SetSettings, SetValue, TextTable
from beholder.records import Status

NAMES = [name for name in METRICS.names() if issubclass(METRICS.get(name), AttributeSetMetric)]
LIST = ("a cat", "a dog", "a hat|a bare head")
GRID, WIDTH = (4, 4), 6
every = pytest.mark.parametrize("name", NAMES)
DIRECTIONS = np.eye(WIDTH, dtype=np.float32)


def made(name: str, **options: Any) -> AttributeSetMetric:
    metric = make_metric(parse_spec(name))
    made = type(metric)({"attributes": LIST, "tau": 12.0, **options})
    assert isinstance(made, AttributeSetMetric)
    return made


def embed(texts: Sequence[str]) -> TextTable:
    """The direction of what a text names; what is without it has that of the background."""
    names = ["cat", "dog", "a hat"]
    rows = [
        DIRECTIONS[next((k for k, name in enumerate(names) if name in text and "without" not in text), 3)]
        for text in texts
    ]
    return TextTable({"embedding": np.stack(rows)}, {"logit_scale": 12.0})


def picture_set(
    n: int, shares: Sequence[float], *, seed: int, order: np.ndarray | None = None, block: int = 7, column: int = 1
) -> FeatureSet:
    """Pictures with things in a share of them, in one column of patches; blocks come in any order."""
    rng = np.random.default_rng(seed)
    patches = np.tile(DIRECTIONS[3], (n, 16, 1)).astype(np.float64)
    whole = np.tile(DIRECTIONS[3], (n, 1)).astype(np.float64)
    for at in range(n):
        for thing, share in enumerate(shares):
            if rng.random() < share:
                patches[at, column::4] = DIRECTIONS[thing]
                whole[at] += DIRECTIONS[thing]
    patches += 0.3 * rng.normal(size=patches.shape)
    whole += 0.3 * rng.normal(size=whole.shape)
    keys = [rng.bytes(16) for _ in range(n)]
    numbers = np.arange(n) if order is None else order

    def tables() -> Iterator[PictureTable]:
        for start in range(0, n, block):
            own = numbers[start : start + block]
            yield PictureTable(own, [keys[at] for at in own], {
                "embedding": whole[own].astype(np.float32), "embedding_bypassed": whole[own].astype(np.float32),
                "patches": patches[own].astype(np.float16), "grid": np.full((len(own), 2), 4, np.int32),
                "attention": np.tile(np.eye(16, dtype=np.float16), (len(own), 1, 1)),
            })  # fmt: skip

    return FeatureSet(n, lambda: iter(()), None, tables, embed)


def measure(metric: AttributeSetMetric, gen: FeatureSet, real: FeatureSet, seed: int = 0) -> SetValue:
    return metric.measure(gen, real, SetSettings(seed=seed), {})


SHARES = (0.5, 0.3, 0.6)


@every
def test_values_are_finite_with_an_interval_and_a_null(name: str) -> None:
    metric = made(name)
    found = measure(metric, picture_set(60, (0.9, 0.3, 0.6), seed=1), picture_set(70, SHARES, seed=2))
    assert np.isfinite(found.value)
    low, high = metric.value_range
    assert low is None or found.value >= low
    assert high is None or found.value <= high
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.high
    assert "null" in (found.note or "")
    assert found.ci_method == "bootstrap-percentile"


@every
def test_neither_order_nor_blocks_matter(name: str) -> None:
    order = np.random.default_rng(3).permutation(60)
    sides = [
        measure(made(name), picture_set(60, SHARES, seed=1, order=o, block=b), picture_set(60, SHARES, seed=2))
        for o, b in ((None, 7), (order, 11))
    ]
    assert sides[0] == sides[1]


@every
def test_seeds(name: str) -> None:
    sides = picture_set(40, (0.9, 0.3, 0.6), seed=1), picture_set(40, SHARES, seed=2)
    found = [measure(made(name), *sides, seed=seed) for seed in (0, 0, 1)]
    assert found[0] == found[1]
    assert found[0].value == found[2].value
    assert found[0].low != found[2].low


@pytest.mark.parametrize("name", [name for name in NAMES if name != "dependence"])
def test_further_apart_is_worse_and_a_set_has_no_distance_to_itself(name: str) -> None:
    real = picture_set(60, SHARES, seed=2)
    near, far = picture_set(60, SHARES, seed=1), picture_set(60, (0.95, 0.95, 0.1), seed=4, column=3)
    assert made(name).info.higher_is_better is False
    assert measure(made(name), far, real).value > 2 * measure(made(name), near, real).value
    assert measure(made(name), real, real).value == pytest.approx(0.0, abs=1e-12)


def test_means_over_lists() -> None:
    gen, real = picture_set(60, (0.9, 0.3, 0.6), seed=1), picture_set(70, SHARES, seed=2)
    alone = [measure(made("sad", attributes=(item,)), gen, real).value for item in LIST]
    assert measure(made("sad"), gen, real).value == pytest.approx(np.mean(alone), rel=1e-12)
    pad, term = (measure(made(name, attributes=LIST[:2]), gen, real).value for name in ("pad", "dependence"))
    assert term == pytest.approx(pad - alone[0] - alone[1], rel=1e-9)
    heat = [measure(made("r_sad", attributes=(item,)), gen, real).value for item in LIST]
    assert measure(made("r_sad"), gen, real).value == pytest.approx(np.mean(heat), rel=1e-12)


def test_relevance_flags() -> None:
    gen, real = picture_set(60, (0.9, 0.0, 0.6), seed=1), picture_set(60, (0.5, 0.0, 0.6), seed=2)
    floors = {"prevalence_floor": 0.3, "spread_floor": 0.35}
    whole = measure(made("sad", **floors), gen, real)
    assert "irrelevant: a dog" in (whole.note or "")
    relevant = measure(made("sad", over="relevant", **floors), gen, real)
    rest = measure(made("sad", attributes=(LIST[0], LIST[2]), **floors), gen, real)
    assert relevant.value == pytest.approx(rest.value, rel=1e-12)
    with pytest.raises(NoValue, match="not_applicable"):
        measure(made("sad", over="relevant", prevalence_floor=2.0, spread_floor=2.0), gen, real)


def test_places() -> None:
    real, gen = picture_set(80, (0.9, 0.0, 0.0), seed=2), picture_set(80, (0.9, 0.0, 0.0), seed=1, column=3)
    found = measure(made("placement", attributes=LIST[:1]), gen, real)
    assert "centroid moved +0." in (found.note or "")
    assert "right" in (found.note or "")
    with pytest.raises(NoValue, match="not_enough_evidence"):
        measure(made("placement", mass_floor=0.99), gen, real)


def test_what_is_refused() -> None:
    for name in NAMES:
        with pytest.raises(OptionError, match="needs a list"):
            _ = made(name, attributes=()).least
    for name in ("pad", "dependence"):
        with pytest.raises(OptionError, match="two attributes"):
            _ = made(name, attributes=("a cat",)).least
    with pytest.raises(OptionError, match="regions"):
        _ = made("regional_kl", regions=0).least


@every
def test_rows_that_cannot_take_part_have_a_status(name: str) -> None:
    metric, count = made(name), 5
    table = next(picture_set(count, SHARES, seed=1, block=count).tables())  # type: ignore[misc]
    columns = {key: np.array(values) for key, values in table.columns.items()}
    columns["embedding"][1] = 0.0
    columns["patches"][3, 2] = np.nan
    texts = np.tile(embed(metric.texts()).columns["embedding"], (count, 1))
    slots = {"image": columns, "texts": Ragged({"embedding": texts}, np.arange(count + 1) * 6)}
    found = metric.score(FeatureBatch(slots, {}, count))
    assert {row: status for row, (status, _) in found.statuses.items()} == dict.fromkeys(
        (1, 3), Status.DEGENERATE_EMBEDDING
    )
