"""VBench's way with pictures, written plainly: float resizing without antialiasing, DINO's stretched positions."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.models import make_tiny_clip
from tests.models_segment import make_tiny_dino, make_tiny_dinov2

import beholder
from beholder._errors import ModelError, WeightsMissingError
from beholder.backends.base import LoadOptions
from beholder.backends.pool import find_card, load_model, resolve_model
from beholder.media.base import Picture

DINO_MEAN, DINO_STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
CLIP_MEAN = np.array([0.48145466, 0.4578275, 0.40821073])
CLIP_STD = np.array([0.26862954, 0.26130258, 0.27577711])


def cubic(x: float) -> float:
    """Keys' kernel with a = -0.75, torch's."""
    x, a = abs(x), -0.75
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def weights(old: int, new: int, scale: float, kind: str) -> np.ndarray:
    """(new, old) weights of an interpolation whose samples lie `scale` apart; edges repeat."""
    made = np.zeros((new, old))
    for at in range(new):
        place = (at + 0.5) * scale - 0.5
        place = max(place, 0.0) if kind == "linear" else place
        first = int(np.floor(place))
        taps = (0, 1) if kind == "linear" else (-1, 0, 1, 2)
        for tap in taps:
            far = place - (first + tap)
            made[at, min(max(first + tap, 0), old - 1)] += 1 - abs(far) if kind == "linear" else cubic(far)
    return made


def resized(pixels: np.ndarray, height: int, width: int, kind: str) -> np.ndarray:
    old = pixels.shape[:2]
    rows, columns = (weights(a, b, a / b, kind) for a, b in zip(old, (height, width), strict=True))
    return np.einsum("yh,xw,hwc->yxc", rows, columns, pixels.astype(np.float64))


def encoder_of(folder: Path) -> Any:
    return load_model(resolve_model(f"vbench:{folder}"), device="cpu")


def picture(pixels: np.ndarray) -> Picture:
    return Picture(pixels, (pixels.shape[1], pixels.shape[0]), "RGB")


@pytest.mark.parametrize("shape", [(50, 93), (70, 41), (20, 20), (64, 64)])
def test_dino_looks_at_the_whole_frame(tmp_path: Path, shape: tuple[int, int]) -> None:
    import torch

    pixels = np.random.default_rng(1).integers(0, 256, (*shape, 3), dtype=np.uint8)
    encoder = encoder_of(make_tiny_dino(tmp_path / "dino", seed=1))
    height, width = (32, int(32 * shape[1] / shape[0])) if shape[1] > shape[0] else (int(32 * shape[0] / shape[1]), 32)
    wanted = resized(pixels, height, width, "linear")
    prepared = encoder.prepare_image(picture(pixels))
    np.testing.assert_allclose(prepared[0].transpose(1, 2, 0), wanted, atol=2e-3)

    known = encoder._network.embeddings.position_embeddings.detach().numpy()[0].astype(np.float64)
    rows, columns = height // 8, width // 8
    if (rows, columns) == (4, 4):
        places = known
    else:
        grid = known[1:].reshape(4, 4, -1)
        down, across = (weights(4, n, 4 / (n + 0.1), "cubic") for n in (rows, columns))
        places = np.concatenate(
            [known[:1], np.einsum("yh,xw,hwd->yxd", down, across, grid).reshape(rows * columns, -1)]
        )
    plain = copy.deepcopy(encoder._network)
    plain.embeddings.interpolate_pos_encoding = lambda tokens, h, w: torch.tensor(places[None], dtype=torch.float32)
    ready = ((wanted / 255 - DINO_MEAN) / DINO_STD).transpose(2, 0, 1)[None]
    with torch.inference_mode():
        out = plain(pixel_values=torch.tensor(ready, dtype=torch.float32), interpolate_pos_encoding=True)
    found = encoder.encode_images(prepared[None])
    np.testing.assert_allclose(found, out.last_hidden_state[:, 0].numpy(), atol=2e-4)


def test_clip_takes_the_middle_by_cubic_interpolation(tmp_path: Path) -> None:
    import torch

    pixels = np.random.default_rng(2).integers(0, 256, (61, 90, 3), dtype=np.uint8)
    encoder = encoder_of(make_tiny_clip(tmp_path / "clip", seed=1))
    wide = int(30 * 90 / 61)
    wanted = resized(pixels, 30, wide, "cubic")[:, round((wide - 30) / 2) :][:, :30]
    prepared = encoder.prepare_image(picture(pixels))
    np.testing.assert_allclose(prepared[0].transpose(1, 2, 0), wanted, atol=5e-3)
    assert prepared[0].min() < 0 or prepared[0].max() > 255, "floats overshoot where bytes would be cut"
    ready = ((wanted / 255 - CLIP_MEAN) / CLIP_STD).transpose(2, 0, 1)[None]
    with torch.inference_mode():
        out = encoder._network.get_image_features(pixel_values=torch.tensor(ready, dtype=torch.float32))
    expected = getattr(out, "pooler_output", out).numpy()
    np.testing.assert_allclose(encoder.encode_images(prepared[None]), expected, atol=2e-4)


def test_a_batch_of_several_shapes_is_that_of_each(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    encoder = encoder_of(make_tiny_dino(tmp_path / "dino"))
    shapes = [(40, 60), (60, 40), (40, 60), (33, 90)]
    units = [encoder.prepare_image(picture(rng.integers(0, 256, (*size, 3), dtype=np.uint8))) for size in shapes]
    together = encoder.encode_images(np.stack(units))
    each = np.concatenate([encoder.encode_images(unit[None]) for unit in units])
    np.testing.assert_allclose(together, each, atol=1e-5)


def test_golden_values(tmp_path: Path) -> None:
    # Made with transformers 5.24, torch 2.13 on a CPU; the tolerance covers other versions' sums.
    pixels = np.random.default_rng(0).integers(0, 256, (50, 71, 3), dtype=np.uint8)
    for make, values in ((make_tiny_dino, GOLDEN["dino"]), (make_tiny_clip, GOLDEN["clip"])):
        encoder = encoder_of(make(tmp_path / make.__name__, seed=1))
        found = encoder.encode_images(encoder.prepare_image(picture(pixels))[None])[0, :4]
        np.testing.assert_allclose(found, values, atol=2e-3)


GOLDEN = {"dino": [0.0997, -1.9306, -0.0034, 1.6883], "clip": [0.3604, -1.1627, -0.1062, -0.8603]}


def test_runs_with_videos_of_several_shapes(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    rows = []
    for number, size in enumerate([(40, 60), (60, 40)]):
        folder = tmp_path / f"clip{number}"
        folder.mkdir()
        for at in range(3):
            Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)).save(folder / f"{at}.png")
        rows.append({"id": str(number), "output": str(folder)})
    dino, clip = make_tiny_dino(tmp_path / "dino"), make_tiny_clip(tmp_path / "clip")
    metrics = [f"subject_consistency(model=vbench:{dino})", f"background_consistency(model=vbench:{clip})"]
    scored = beholder.evaluate(rows, metrics=metrics, out=str(tmp_path / "run"), store=str(tmp_path / "store"))
    encoder = encoder_of(dino)
    for row in scored.scores.to_pylist():
        frames = [np.asarray(Image.open(tmp_path / f"clip{row['id']}" / f"{at}.png")) for at in range(3)]
        e = np.concatenate([encoder.encode_images(encoder.prepare_image(picture(frame))[None]) for frame in frames])
        e = e.astype(float) / np.linalg.norm(e, axis=1, keepdims=True)
        each = [(max(0, e[at] @ e[at - 1]) + max(0, e[at] @ e[0])) / 2 for at in (1, 2)]
        assert row["subject_consistency"] == pytest.approx(np.mean(each), abs=1e-5)
        assert row["background_consistency_status"] == "ok"


def test_what_is_refused_and_what_is_known(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="dinov2"):
        resolve_model(f"vbench:{make_tiny_dinov2(tmp_path / 'dinov2')}")
    with pytest.raises(WeightsMissingError, match="dino-vitb16"):
        resolve_model("vbench-dino", options=LoadOptions(offline=True, cache_dir=str(tmp_path)))
    card = find_card("vbench-clip")
    assert card is not None
    assert (card.id, card.capabilities) == ("vbench:openai/clip-vit-base-patch32", ("ImageEncoder",))
    folder = make_tiny_dino(tmp_path / "dino")
    assert resolve_model(str(folder)).key != resolve_model(f"vbench:{folder}").key, "other pixels, other features"


def test_a_programs_default_dtype_moves_no_number(tmp_path: Path) -> None:
    import torch

    encoder = encoder_of(make_tiny_dino(tmp_path / "dino", seed=1))
    batch = np.stack([encoder.prepare_image(picture(np.full((40, 50, 3), 90, dtype=np.uint8)))])
    wanted = encoder.encode_images(batch)
    torch.set_default_dtype(torch.bfloat16)
    try:
        np.testing.assert_array_equal(encoder.encode_images(batch), wanted)
    finally:
        torch.set_default_dtype(torch.float32)
