"""The Inception network of FID: its published layout, features against torch-fidelity's, sizes, files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.models_sets import inception_state, make_inception

from beholder._errors import WeightsMismatchError, WeightsMissingError
from beholder.backends.base import LoadOptions
from beholder.backends.inception import resize
from beholder.backends.inception_network import InceptionV3
from beholder.backends.pool import load_model, resolve_model
from beholder.media.base import Picture

REFERENCE = Path(__file__).parents[1] / "reference"
SIZES = ((32, 48), (299, 299), (40, 310))


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_inception(tmp_path_factory.mktemp("inception") / "net.pth")


@pytest.fixture(scope="module")
def encoder(weights: Path) -> Iterator[Any]:
    loaded = load_model(resolve_model(f"inception:{weights}"), device="cpu")
    yield loaded
    loaded.close()


def pictures() -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.integers(0, 256, (*size, 3), dtype=np.uint8) for size in SIZES]


def prepared(encoder: Any, pixels: np.ndarray) -> np.ndarray:
    return np.asarray(encoder.prepare_image(Picture(pixels, pixels.shape[:2], "RGB")))


def test_names_and_shapes_are_the_published_ones() -> None:
    listed = json.loads((REFERENCE / "layouts" / "inception-fid.json").read_text(encoding="utf-8"))["tensors"]
    with torch.device("meta"):
        own = {name: list(value.shape) for name, value in InceptionV3().state_dict().items()}
    assert own == listed


def test_m5_features_of_pictures_of_several_sizes_in_one_batch_are_torch_fidelitys(encoder: Any) -> None:
    golden = json.loads((REFERENCE / "inception_golden.json").read_text(encoding="utf-8"))["features"]
    batch = np.stack([prepared(encoder, pixels) for pixels in pictures()])
    features = encoder.encode_images(batch)
    assert features.shape == (3, 2048)
    assert features.dtype == np.float32
    for size, row in zip(SIZES, features):
        told = golden["x".join(map(str, size))]
        # Float32 sums of a deep network in another order of blocks.
        np.testing.assert_allclose(row[:4], told["first"], rtol=2e-4, atol=1e-3)
        assert row.astype(np.float64).mean() == pytest.approx(told["mean"], rel=2e-5)
        assert np.linalg.norm(row.astype(np.float64)) == pytest.approx(told["norm"], rel=2e-5)


def test_resizing_is_tensorflows(encoder: Any) -> None:
    pixels = pictures()[0]
    made = resize(pixels, 7)
    for i in range(7):
        for j in range(7):
            y, x = i * 32 / 7, j * 48 / 7
            top, left = int(y), int(x)
            low, right = min(top + 1, 31), min(left + 1, 47)
            above = pixels[top, left] * (1 - (x - left)) + pixels[top, right] * (x - left)
            below = pixels[low, left] * (1 - (x - left)) + pixels[low, right] * (x - left)
            np.testing.assert_allclose(made[i, j], above * (1 - (y - top)) + below * (y - top), atol=1e-3)
    whole = pictures()[1]
    assert (resize(whole, 299) == whole).all()
    assert resize(np.full((1, 1, 3), 9, np.uint8), 5).tolist() == [[[9.0] * 3] * 5] * 5


def test_weights_that_lack_a_tensor_or_hold_another_are_refused(tmp_path: Path) -> None:
    state = inception_state()
    del state["Mixed_7c.branch_pool.conv.weight"]
    torch.save(state, tmp_path / "short.pth")
    with pytest.raises(WeightsMismatchError, match="Mixed_7c"):
        load_model(resolve_model(f"inception:{tmp_path / 'short.pth'}"), device="cpu")


def test_the_published_file_is_looked_for_in_torchs_cache_and_held_to_its_hash(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(WeightsMissingError, match="hub"):
        resolve_model("inception:fid", options=LoadOptions(offline=True))
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    (folder / "pt_inception-2015-12-05-6726825d.pth").write_bytes(weights.read_bytes())
    with pytest.raises(WeightsMismatchError, match="6726825d"):
        resolve_model("inception:fid", options=LoadOptions(offline=True))
