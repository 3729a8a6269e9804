from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder._errors import OptionError
from beholder.functional import (
    clamp_aggregate,
    clip_i,
    clip_score,
    cosine_matrix,
    normalise,
    ref_clip_score,
    scale_cosine,
)


def vectors(*cosines: float) -> tuple[np.ndarray, np.ndarray]:
    """Images whose cosine with the text (1, 0) is given."""
    images = np.array([[c, np.sqrt(1 - c * c)] for c in cosines])
    return images, np.tile([1.0, 0.0], (len(cosines), 1))


def test_variants_of_one_pair() -> None:
    # The table of CLIPScore variants: cos .30 and cos -.20.
    images, texts = vectors(0.30, -0.20)
    expected = {"raw": [0.30, -0.20], "x100": [30, -20], "hessel": [0.75, 0.0], "torchmetrics": [30, -20]}
    for variant, values in expected.items():
        found = clip_score(images, texts, variant=variant).values  # type: ignore[arg-type]
        np.testing.assert_allclose(found, values, rtol=0, atol=1e-5)


def test_the_aggregate_clamp_is_not_the_sample_clamp() -> None:
    # S4: cosines +a and -a tell the two rules apart; so do .30 and -.20, 5.0 against .375.
    assert clamp_aggregate(float(np.mean([30.0, -20.0])), variant="torchmetrics") == 5.0
    assert np.mean(scale_cosine([0.3, -0.2], variant="hessel")) == pytest.approx(0.375)
    assert clamp_aggregate(float(scale_cosine([0.4, -0.4], variant="torchmetrics").mean()), variant="torchmetrics") == 0
    assert scale_cosine([0.4, -0.4], variant="hessel").mean() == pytest.approx(0.5)
    for variant in ("raw", "x100", "hessel"):
        assert clamp_aggregate(-3.0, variant=variant) == -3.0  # type: ignore[arg-type]


@given(st.floats(-1, 1))
def test_variants_are_related_exactly(cos: float) -> None:
    # K5, S1.
    raw, x100, hessel, parity = (
        float(scale_cosine(cos, variant=variant))  # type: ignore[arg-type]
        for variant in ("raw", "x100", "hessel", "torchmetrics")
    )
    assert raw == cos
    assert x100 == parity == 100 * cos
    assert hessel == (2.5 * cos if cos > 0 else 0)


def test_ref_clip_score_by_hand() -> None:
    # 2ab/(a+b): a = .75, b = .5 → .6; a = 2.5, b = 1 → 5/3.5; either zero → 0; b below 0 counts as 0.
    found = ref_clip_score([0.75, 2.5, 0.0, 0.75, 0.75], [0.5, 1.0, 0.9, 0.0, -0.3])
    np.testing.assert_allclose(found, [0.6, 10 / 7, 0, 0, 0], rtol=1e-15)
    assert np.isfinite(ref_clip_score([5e-324, 1e-200], [5e-324, 1e-200])).all()


@given(st.floats(0, 2.5), st.floats(-1, 1))
def test_ref_clip_score_lies_between_its_parts(a: float, b: float) -> None:
    value = float(ref_clip_score(a, b))
    assert 0 <= value <= 10 / 7 + 1e-12
    if a > 1e-9 and b > 1e-9:
        assert min(a, b) * (1 - 1e-12) <= value <= max(a, b) * (1 + 1e-12)
        assert value == pytest.approx(2 / (1 / a + 1 / b))


def test_clip_i_all_pairs_by_hand() -> None:
    # K7: 2 generated × 3 references; rows of the cosine matrix: (1, .6, 0) and (0, .8, 1).
    generated = np.array([[1.0, 0.0], [0.0, 1.0]])
    references = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    near = {"rtol": 0, "atol": 1e-7}
    np.testing.assert_allclose(clip_i(generated, references).values, [1.6 / 3, 1.8 / 3], **near)
    np.testing.assert_allclose(clip_i(generated, references, reduce="max").values, [1, 1], **near)
    np.testing.assert_allclose(clip_i(generated, references, reduce="first").values, [1, 0], **near)
    with pytest.raises(OptionError, match="2 vs 3"):
        clip_i(generated, references, pairing="zip")
    np.testing.assert_allclose(clip_i(generated, references[:2], pairing="zip").values, [1, 0.8], **near)


def test_clip_i_is_the_dot_product_of_the_means() -> None:
    # mean_g mean_r f(g)·f(r) = mean f(g) · mean f(r): the un-renormalised means.
    rng = np.random.default_rng(5)
    generated, references = rng.normal(size=(40, 64)) + 0.4, rng.normal(size=(7, 64)) + 0.4
    g, r = (normalise(x).vectors.astype(np.float64) for x in (generated, references))
    assert clip_i(generated, references).values.mean() == pytest.approx(float(g.mean(0) @ r.mean(0)), abs=1e-7)
    mean_cos = cosine_matrix(g.mean(0, keepdims=True), r.mean(0, keepdims=True)).values[0, 0]
    assert abs(clip_i(generated, references).values.mean() - mean_cos) > 0.01, "it is not the cosine of the means"


def test_parity_with_published_arithmetic() -> None:
    # torchmetrics: 100·(i/|i|·t/|t|).sum(-1); jmhessel/clipscore: 2.5·clip(rowsum, 0); both in plain float64 here.
    rng = np.random.default_rng(6)
    images, texts = rng.normal(size=(50, 128)), rng.normal(size=(50, 128))
    rows = (images / np.linalg.norm(images, axis=1, keepdims=True) * texts).sum(1) / np.linalg.norm(texts, axis=1)
    near = {"rtol": 0, "atol": 1e-4}
    np.testing.assert_allclose(clip_score(images, texts, variant="torchmetrics").values, 100 * rows, **near)
    np.testing.assert_allclose(clip_score(images, texts, variant="hessel").values, 2.5 * np.clip(rows, 0, None), **near)
