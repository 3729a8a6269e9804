from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from beholder._errors import OptionError
from beholder.functional import (
    Scores,
    clip_i,
    clip_score,
    cosine,
    cosine_matrix,
    cosine_ragged,
    normalise,
    pick_score,
    reduce_ragged,
    ref_clip_score,
    scale_cosine,
    win_probabilities,
)

REFERENCE = Path(__file__).parents[1] / "reference"
FLOAT32 = 5e-7
"""Float32 unit vectors of 512 numbers: a few units in the last place of 1.0 (6e-8 each)."""


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden", REFERENCE / "make_similarity_golden.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def golden() -> dict:
    return json.loads((REFERENCE / "similarity.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def items() -> dict[str, np.ndarray]:
    make = _generator()
    images = [make.embedding(i) for i in (1, 2, 3, 4)]
    texts = [
        make.lean(image, make.embedding(20 + i), pull) for i, (image, pull) in enumerate(zip(images, (2, 1, 0, -1)))
    ]
    references = [make.lean(images[0], make.embedding(i), 1) for i in (50, 51, 52)]
    return {"images": np.array(images), "texts": np.array(texts), "references": np.array(references)}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64])
def test_golden_values(golden: dict, items: dict[str, np.ndarray], dtype: type) -> None:
    images, texts, references = (items[name].astype(dtype) for name in ("images", "texts", "references"))
    near = {"rtol": 0, "atol": FLOAT32}
    np.testing.assert_allclose(cosine(images, texts).values, golden["cosine"], **near)
    np.testing.assert_allclose(cosine_matrix(images, references).values, golden["matrix"], **near)
    hessel = clip_score(images, texts, variant="hessel").values
    np.testing.assert_allclose(hessel, golden["hessel"], rtol=0, atol=2.5 * FLOAT32)
    captions = cosine_matrix(texts, references).values.max(axis=1)
    np.testing.assert_allclose(ref_clip_score(hessel, captions), golden["ref_hessel"], rtol=0, atol=2.5 * FLOAT32)
    np.testing.assert_allclose(clip_i(images, references).values, golden["clip_i_mean"], **near)
    np.testing.assert_allclose(clip_i(images, references, reduce="max").values, golden["clip_i_max"], **near)
    picks = pick_score(images, texts, scale=golden["scale"]).values
    np.testing.assert_allclose(picks, golden["pick_score"], rtol=0, atol=100 * FLOAT32)
    np.testing.assert_allclose(win_probabilities(golden["pick_score"]), golden["win"], rtol=1e-10)


def test_hand_values() -> None:
    # 3-4-5 and 5-12-13 triangles: cos = 3/5, (3·5 + 4·12) / (5·13) = 63/65, and -1.
    found = cosine([[3, 4], [3, 4], [3, 4]], [[1, 0], [5, 12], [-6, -8]])
    np.testing.assert_allclose(found.values, [3 / 5, 63 / 65, -1], rtol=0, atol=1e-7)
    assert not found.degenerate.any()


def test_values_are_float64() -> None:
    assert cosine(np.ones((1, 4), np.float16), np.ones((1, 4), np.float16)).values.dtype == np.float64
    assert cosine_matrix(np.ones((1, 4), np.float32), np.ones((2, 4))).values.dtype == np.float64


@pytest.mark.parametrize("width", [2, 3, 64, 511, 512, 1024])
def test_a_cosine_never_leaves_its_range(width: int) -> None:
    # D3: 512-d half-precision features; float32 sums of squares of unit vectors often give 1.0000001.
    rows = np.random.default_rng(0).normal(size=(2000, width)).astype(np.float16)
    unit = normalise(rows).vectors
    assert (np.add.reduce(unit * unit, axis=1) > 1).any(), "the input must be able to exceed 1"
    for values in (cosine(rows, rows).values, cosine(rows, -rows).values, cosine_matrix(rows[:50], rows[:50]).values):
        assert np.abs(values).max() <= 1.0
    np.testing.assert_allclose(cosine(rows, rows).values, 1, atol=FLOAT32)


def test_only_rounding_is_clipped() -> None:
    from beholder.functional.similarity import Units

    wrong = Units(np.array([[1.1, 0.0]], np.float32), np.array([False]))
    assert cosine(wrong, wrong).values[0] == pytest.approx(1.21)


@pytest.mark.parametrize("factor", [7.0, 1e-30, 1e30, 1e-300, 1e300])
def test_scaling_a_feature_changes_nothing(factor: float) -> None:
    # K20: no feature is normalised by whoever made it.
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(20, 512)), rng.normal(size=(20, 512))
    np.testing.assert_allclose(cosine(factor * a, b).values, cosine(a, b).values, rtol=0, atol=FLOAT32)
    np.testing.assert_allclose(cosine_matrix(a, factor * b).values, cosine_matrix(a, b).values, rtol=0, atol=FLOAT32)


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf, -np.inf])
def test_a_row_without_direction_is_flagged(bad: float) -> None:
    # D4: one bad row costs one row.
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(3, 8)), rng.normal(size=(3, 8))
    good = cosine(a, b).values
    if bad == 0.0:
        a[1] = 0.0
    else:
        a[1, 3] = bad
    found = cosine(a, b)
    assert found.degenerate.tolist() == [False, True, False]
    assert found.values[[0, 2]].tolist() == good[[0, 2]].tolist()
    assert cosine(b, a).degenerate.tolist() == [False, True, False]
    assert cosine_matrix(b, a).degenerate.tolist() == [[False, True, False]] * 3
    for values in (found.values, cosine_matrix(a, b).values, clip_i(a, b).values, pick_score(a, b, scale=100.0).values):
        assert np.isfinite(values).all()
    assert clip_i(a, b).degenerate.tolist() == [False, True, False]
    assert clip_i(b, a).degenerate.tolist() == [True, True, True]
    assert clip_i(b, a, reduce="first").degenerate.tolist() == [False, False, False]


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(np.float32, (5, 7), elements=st.floats(-100, 100, width=32)), st.permutations(range(5)))
def test_a_row_does_not_depend_on_its_neighbours(rows: np.ndarray, order: list[int]) -> None:
    # D1, D2: bit for bit, whatever the batch.
    other = rows[::-1].copy() + np.float32(1)
    together = cosine(rows, other)
    alone = [cosine(rows[i : i + 1], other[i : i + 1]).values[0] for i in range(5)]
    assert together.values.tolist() == alone
    assert cosine(rows[order], other[order]).values.tolist() == together.values[order].tolist()


def test_batches_of_one_and_of_many_agree_bitwise() -> None:
    rng = np.random.default_rng(3)
    for width in (1, 2, 16, 512, 768, 1024):
        a, b = rng.normal(size=(65, width)).astype(np.float32), rng.normal(size=(65, width)).astype(np.float32)
        alone = [cosine(a[i : i + 1], b[i : i + 1]).values[0] for i in range(65)]
        assert cosine(a, b).values.tolist() == alone
        assert cosine(np.asfortranarray(a), b).values.tolist() == alone


def test_matrix_and_ragged_agree_with_pairs() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(3, 32)), rng.normal(size=(6, 32))
    matrix = cosine_matrix(a, b).values
    offsets = [0, 2, 2, 6]
    ragged = cosine_ragged(a, b, offsets).values
    np.testing.assert_allclose(ragged, [*matrix[0, :2], *matrix[2, 2:]], rtol=0, atol=FLOAT32)


def test_reduce_ragged_by_hand() -> None:
    scores = Scores(np.array([0.2, 0.6, 1.0, -0.5]), np.array([False, False, False, True]))
    offsets = [0, 2, 2, 3, 4]  # a list of two, an empty one, one good item, one degenerate item
    for reduce, first in (("mean", 0.4), ("max", 0.6), ("first", 0.2)):
        found = reduce_ragged(scores, offsets, reduce=reduce)  # type: ignore[arg-type]
        assert found.values.tolist() == pytest.approx([first, 0, 1.0, 0])
        assert found.degenerate.tolist() == [False, True, False, True]
    empty = reduce_ragged(Scores(np.empty(0), np.empty(0, bool)), [0])
    assert empty.values.shape == (0,)
    assert reduce_ragged(Scores(np.empty(0), np.empty(0, bool)), [0, 0]).degenerate.tolist() == [True]


def test_empty_input_gives_empty_output() -> None:
    none = np.empty((0, 8), np.float32)
    assert cosine(none, none).values.shape == (0,)
    assert cosine_matrix(none, np.ones((3, 8))).values.shape == (0, 3)
    assert cosine_ragged(none, none, [0]).values.shape == (0,)
    assert clip_i(none, np.ones((3, 8))).values.shape == (0,)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: cosine(np.ones((2, 3)), np.ones((3, 3))), "equal shapes"),
        (lambda: cosine_matrix(np.ones((2, 3)), np.ones((2, 4))), "one width"),
        (lambda: cosine(np.ones(3), np.ones(3)), "a matrix"),
        (lambda: cosine([["a"]], [["b"]]), "real numbers"),
        (lambda: cosine_ragged(np.ones((2, 3)), np.ones((2, 3)), [0, 2]), "offsets must hold 3"),
        (lambda: cosine_ragged(np.ones((2, 3)), np.ones((2, 3)), [0, 3, 2]), "rise from 0 to 2"),
        (lambda: reduce_ragged(Scores(np.ones(1), np.zeros(1, bool)), [0, 1], reduce="last"), "max, min, median"),  # type: ignore[arg-type]
        (lambda: scale_cosine([0.1], variant="best"), "raw, x100, hessel, torchmetrics"),  # type: ignore[arg-type]
        (lambda: clip_i(np.ones((2, 3)), np.ones((2, 3)), pairing="some"), "all, zip"),  # type: ignore[arg-type]
        (lambda: clip_i(np.ones((2, 3)), np.ones((0, 3))), "at least one reference"),
    ],
)
def test_wrong_use_says_what_must_hold(call, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        call()
