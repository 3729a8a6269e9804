"""SCRFD, CurricularFace and InsightFace on tiny ONNX models whose answers are known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.models_faces import SCRFD_POINTS, SCRFD_REACH, layout, random_state, save_arcface, save_scrfd

from beholder._errors import OptionError, WeightsMismatchError
from beholder.backends.base import LoadOptions
from beholder.backends.cards_faces import BACKBONE_FILE, DETECTOR_FILE, RECOGNITION_FILE
from beholder.backends.faces.ir101 import IR
from beholder.backends.faces.onnx import Scrfd, fit_size
from beholder.backends.faces.scrfd_models import align_face
from beholder.backends.pool import load_model, resolve_model
from beholder.functional.faces import ARCFACE_TEMPLATE, similarity_transform
from beholder.functional.opencv_pixels import halve, pad_constant, resize_linear, warp_affine
from beholder.media.base import Picture

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (base environment)")

PLAIN = (128, 128, 128)
RED = (255, 0, 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All files of the OpenS2V weights that faces need, the backbone in its full size."""
    root = tmp_path_factory.mktemp("opens2v")
    pack = root / "face_extractor" / "models" / "buffalo_l"
    save_scrfd(pack / DETECTOR_FILE)
    save_arcface(pack / RECOGNITION_FILE)
    torch.save(random_state(layout("curricularface-ir-101"), gain=0.5), root / BACKBONE_FILE)
    return root


def load(name: str) -> Any:
    model = resolve_model(name, capability="FaceAnalyser", options=LoadOptions(offline=True))
    return load_model(model, device="cpu")


@pytest.fixture(scope="module")
def curricularface(folder: Path) -> Any:
    return load(f"curricularface:{folder}")


@pytest.fixture(scope="module")
def insightface(folder: Path) -> Any:
    return load(f"insightface:{folder}")


def scene(width: int, height: int, places: Sequence[tuple[int, int]], block: int = 8) -> np.ndarray:
    """Gray, with a red square at each place."""
    pixels = np.full((height, width, 3), PLAIN, dtype=np.uint8)
    generator = np.random.default_rng(width * height)
    pixels[..., 1] = generator.integers(0, 255, (height, width))
    for x, y in places:
        pixels[y : y + block, x : x + block] = RED
    return pixels


def analyse(model: Any, *pixels: np.ndarray, **settings: Any) -> Any:
    pictures = [Picture(array, (array.shape[1], array.shape[0]), "RGB") for array in pixels]
    return model.analyse([model.prepare([picture]) for picture in pictures], **settings)


def test_a_face_is_found_where_it_is(folder: Path) -> None:
    detector = Scrfd(folder / "face_extractor/models/buffalo_l" / DETECTOR_FILE, device="cpu", name="x")
    found = detector.detect(scene(320, 320, [(96, 160), (200, 40)]), side=320, threshold=0.5)
    assert found.scores.tolist() == pytest.approx([1 / (1 + np.exp(-10))] * 2, abs=1e-5)
    # The first place in reading order comes first among equals.
    for box, points, (x, y) in zip(found.boxes, found.landmarks, [(200, 40), (96, 160)]):
        left, top, right, lower = (8 * reach for reach in SCRFD_REACH[0])
        np.testing.assert_allclose(box, [x - left, y - top, x + right, y + lower], atol=1e-4)
        np.testing.assert_allclose(points, np.array([x, y]) + 8 * np.asarray(SCRFD_POINTS), atol=1e-4)


def test_red_is_not_blue(folder: Path) -> None:
    detector = Scrfd(folder / "face_extractor/models/buffalo_l" / DETECTOR_FILE, device="cpu", name="x")
    red = np.full((64, 64, 3), RED, dtype=np.uint8)
    assert len(detector.detect(red, side=64, threshold=0.5)) > 0
    assert len(detector.detect(red[..., ::-1].copy(), side=64, threshold=0.5)) == 0


def test_large_pictures_are_shrunk_and_boxes_grow_back(folder: Path) -> None:
    detector = Scrfd(folder / "face_extractor/models/buffalo_l" / DETECTOR_FILE, device="cpu", name="x")
    pixels = np.repeat(np.repeat(scene(160, 96, [(96, 40)]), 2, axis=0), 2, axis=1)
    small = detector.detect(resize_linear(pixels, (160, 96)), side=160, threshold=0.5)
    large = detector.detect(pixels, side=160, threshold=0.5)
    np.testing.assert_allclose(large.boxes, 2 * small.boxes, atol=1e-4)
    np.testing.assert_allclose(large.landmarks, 2 * small.landmarks, atol=1e-4)


@pytest.mark.parametrize(
    ("size", "fitted"),
    [
        ((400, 300), (320, 240)),
        ((300, 400), (240, 320)),
        ((320, 320), (320, 320)),
        ((7, 999), (2, 320)),
        ((2000, 3), (320, 1)),
    ],
)
def test_pictures_fit_into_the_square(size: tuple[int, int], fitted: tuple[int, int]) -> None:
    assert fit_size(*size, 320) == fitted


def test_columns_of_several_pictures(insightface: Any) -> None:
    two, none, one = scene(320, 240, [(96, 160), (8, 8)]), scene(200, 320, []), scene(320, 320, [(304, 304)])
    made = analyse(insightface, two, none, one)
    columns = made.columns
    assert [len(boxes) for boxes in columns["boxes"]] == [2, 0, 1]
    assert [embedding.shape for embedding in columns["embedding"]] == [(2, 512), (0, 512), (1, 512)]
    assert columns["landmarks"][1].shape == (0, 5, 2)
    assert not made.failures
    # The corner's box reaches beyond the picture and is cut; its area is the whole box's.
    assert columns["boxes"][2].tolist() == [[296, 288, 320, 320]]
    assert columns["areas"][2].tolist() == pytest.approx([32.0 * 48.0])
    alone = analyse(insightface, one).columns
    for name in ("boxes", "scores", "landmarks", "embedding"):
        np.testing.assert_array_equal(columns[name][2], alone[name][0])


def test_curricularface_embeds_the_aligned_face(curricularface: Any, folder: Path) -> None:
    pixels = scene(320, 320, [(96, 160)])
    columns = analyse(curricularface, pixels).columns
    matrix = similarity_transform(columns["landmarks"][0][0], 2 * np.asarray(ARCFACE_TEMPLATE))
    crop = halve(warp_affine(pixels, matrix, (224, 224))).transpose(2, 0, 1)[None]
    network = IR().eval()
    network.load_state_dict(torch.load(folder / BACKBONE_FILE, weights_only=True))
    with torch.inference_mode():
        expected = network(torch.from_numpy(crop).float().div(255).sub(0.5).div(0.5))[0].numpy()
    np.testing.assert_allclose(columns["embedding"][0][0], expected, rtol=1e-4, atol=1e-4)
    assert np.linalg.norm(expected) > 1e-3


def test_insightface_embeds_a_direct_crop(insightface: Any, tmp_path: Path) -> None:
    weights = save_arcface(tmp_path / "again.onnx")
    pixels = scene(320, 320, [(96, 160)])
    columns = analyse(insightface, pixels).columns
    matrix = similarity_transform(columns["landmarks"][0][0], ARCFACE_TEMPLATE)
    crop = (warp_affine(pixels, matrix, (112, 112)).astype(np.float64) - 127.5) / 127.5
    pooled = crop.reshape(7, 16, 7, 16, 3).mean(axis=(1, 3)).transpose(2, 0, 1).ravel()
    np.testing.assert_allclose(columns["embedding"][0][0], pooled @ weights, rtol=1e-3, atol=1e-3)


def test_a_second_look_pads_and_moves_back(curricularface: Any, insightface: Any) -> None:
    """A red square that the first look's grid cuts apart, and the second's does not: the border moves the grid."""
    pixels = scene(48, 48, [(4, 4)])
    padded, (left, top) = pad_constant(pixels, share=0.25, value=128)
    assert (left, top) == (12, 12)
    inside = analyse(insightface, padded, det_size=96, pad_retry=False, threshold=1e-3).columns
    best = float(inside["scores"][0][0])
    first = float(analyse(insightface, pixels, det_size=96, pad_retry=False, threshold=1e-6).columns["scores"][0][0])
    assert best > first
    between = (best + first) / 2
    for model in (insightface, curricularface):
        assert len(analyse(model, pixels, det_size=96, threshold=between, pad_retry=False).columns["boxes"][0]) == 0
        columns = analyse(model, pixels, det_size=96, threshold=between).columns
        assert columns["padded"].tolist() == [True]
        np.testing.assert_allclose(columns["landmarks"][0][0], inside["landmarks"][0][0] - [left, top], atol=1e-4)
    # InsightFace's crop is that of the padded picture, CurricularFace's that of the picture itself.
    arc = analyse(insightface, pixels, det_size=96, threshold=between).columns
    np.testing.assert_array_equal(arc["embedding"][0][0], inside["embedding"][0][0])
    cur = analyse(curricularface, pixels, det_size=96, threshold=between).columns
    crop = halve(align_face(pixels, cur["landmarks"][0][0], 224))
    other = halve(align_face(padded, inside["landmarks"][0][0], 224))
    assert (crop != other).any()
    embedded = curricularface.embed(pixels, cur["landmarks"][0][0])
    np.testing.assert_array_equal(cur["embedding"][0][0], embedded)


def test_a_landscape_has_no_face_in_either_look(curricularface: Any) -> None:
    made = analyse(curricularface, scene(100, 80, []))
    assert made.columns["boxes"][0].shape == (0, 4)
    assert made.columns["embedding"][0].shape == (0, 512)
    assert made.columns["padded"].tolist() == [False]
    assert not made.failures


def test_sizes_that_the_detector_cannot_take(insightface: Any) -> None:
    for side in (0, 100, 16):
        with pytest.raises(OptionError, match="multiple of 32"):
            analyse(insightface, scene(64, 64, []), det_size=side)


def test_other_onnx_files_are_refused(folder: Path, tmp_path: Path) -> None:
    arcface = folder / "face_extractor/models/buffalo_l" / RECOGNITION_FILE
    with pytest.raises(WeightsMismatchError, match="nine outputs"):
        Scrfd(arcface, device="cpu", name="x")
    broken = tmp_path / "det_10g.onnx"
    broken.write_bytes(b"no model")
    with pytest.raises(WeightsMismatchError, match="whole ONNX model"):
        Scrfd(broken, device="cpu", name="x")
