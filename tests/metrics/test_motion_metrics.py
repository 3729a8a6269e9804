"""Motion, smoothness, flicker and consistency on drawn clips."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFilter
from tests.runs.helpers import counting
from tests.runs.test_visuals import frames_folder, rows_of

import beholder
from beholder._errors import PlannedError
from beholder.backends.base import Made, ResolvedModel
from beholder.backends.clip_meters import in_windows
from beholder.backends.columns import object_column
from beholder.backends.pool import register_model
from beholder.media.base import Picture
from beholder.records import ModelCard

cv2 = pytest.importorskip("cv2")


def texture(side: int = 160) -> np.ndarray:
    noise = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    soft = np.asarray(Image.fromarray(noise).filter(ImageFilter.GaussianBlur(3))).astype(float)
    return ((soft - soft.min()) / np.ptp(soft) * 255).astype(np.uint8)


def clip(folder: Path, frames: Sequence[np.ndarray]) -> str:
    folder.mkdir()
    for at, frame in enumerate(frames):
        Image.fromarray(frame).save(folder / f"{at:03}.png")
    return str(folder)


def value(tmp_path: Path, spec: str, frames: Sequence[np.ndarray]) -> tuple[Any, dict[str, Any]]:
    name = f"clip{len(list(tmp_path.iterdir()))}"
    (row,) = rows_of(tmp_path, [{"output": clip(tmp_path / name, frames)}], spec, out=name + "-run", max_failed=1.0)
    (label,) = [name.removesuffix("_status") for name in row if name.endswith("_status")]
    return row[label] if row[label] is not None else row[label + "_status"], json.loads(
        row.get(label + "_evidence") or "{}"
    )


@pytest.mark.parametrize("step", [2, -2])
def test_a_moved_texture(tmp_path: Path, step: int) -> None:
    image = texture()
    frames = [np.roll(image, step * at, axis=1)[:, 20:140] for at in range(5)]
    found, evidence = value(tmp_path, "motion_amplitude", frames)
    assert found == pytest.approx(1.0, abs=0.1), "two components, of which one is 0, are averaged"
    assert evidence["motion_magnitude"] == pytest.approx(2.0, abs=0.15)
    assert evidence["n_frames"] == 5


def test_a_zoom_cancels_out(tmp_path: Path) -> None:
    image = Image.fromarray(texture(240))
    frames = []
    for at in range(4):
        margin = 40 + 4 * at
        frames.append(np.asarray(image.crop((margin, margin, 240 - margin, 240 - margin)).resize((160, 160))))
    found, evidence = value(tmp_path, "motion_amplitude", frames)
    assert found < 0.1
    assert evidence["motion_magnitude"] > 1.0
    assert value(tmp_path, "motion_amplitude(variant=magnitude)", frames)[0] == evidence["motion_magnitude"]


def test_against_the_published_steps(tmp_path: Path) -> None:
    frames = [np.roll(texture(96), (at, 3 * at), axis=(0, 1)) for at in range(4)]
    small = []
    for before, after in pairwise(frames):
        one, other = (cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY) for frame in (before, after))
        flow = cv2.calcOpticalFlowFarneback(one, other, None, 0.5, 3, 15, 3, 5, 1.2, 0)
        small.append(cv2.resize(flow, (16, int(96 * (16 / 96))), interpolation=cv2.INTER_AREA))
    wanted = abs(float(np.mean(np.mean(np.array(small), axis=0))))
    assert value(tmp_path, "motion_amplitude", frames)[0] == pytest.approx(wanted, abs=1e-6)


def test_nothing_moves_and_one_frame(tmp_path: Path) -> None:
    still = [texture()] * 3
    assert value(tmp_path, "motion_amplitude", still)[0] == pytest.approx(0.0, abs=1e-3)
    assert value(tmp_path, "temporal_flickering", still)[0] == 1.0
    for spec in ("motion_amplitude", "temporal_flickering", "motion_smoothness(model=sharpness)"):
        assert value(tmp_path, spec, still[:1])[0] == "too_short"
    counting()
    for spec in ("subject_consistency(model=counting)", "background_consistency(model=counting)"):
        assert value(tmp_path, spec, still[:1])[0] == "too_short"
        assert value(tmp_path, spec, still)[0] == pytest.approx(1.0, abs=1e-6)


def test_gray_levels_are_exchanged_officially() -> None:
    red = np.zeros((1, 1, 3), np.uint8)
    red[..., 0] = 255
    assert cv2.cvtColor(red, cv2.COLOR_BGR2GRAY)[0, 0] == 29, "what the official value sees of a red frame"
    assert cv2.cvtColor(red, cv2.COLOR_RGB2GRAY)[0, 0] == 76


def test_frames_that_cannot_be_measured(tmp_path: Path) -> None:
    wide = [np.zeros((2, 80, 3), np.uint8)] * 2
    assert value(tmp_path, "motion_amplitude", wide)[0] == "not_applicable"
    uneven = [np.zeros((20, 20, 3), np.uint8), np.zeros((20, 24, 3), np.uint8)]
    assert value(tmp_path, "temporal_flickering", uneven)[0] == "failed"


def test_flicker_is_the_mean_difference(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    frames = [rng.integers(0, 256, (12, 10, 3), dtype=np.uint8) for _ in range(4)]
    steps = [np.abs(a.astype(float) - b.astype(float)).mean() for a, b in pairwise(frames)]
    found, evidence = value(tmp_path, "temporal_flickering", frames)
    assert found == pytest.approx((255 - np.mean(steps)) / 255, abs=1e-12)
    assert evidence["n_frames"] == 4


class Brightness:
    """A frame's quality is the mean level of the three frames around it."""

    batch, takes_video, streams = 4, True, True
    constants: Mapping[str, float] = {}

    def __init__(self) -> None:
        card = ModelCard(id="brightness", engine="own", family="own", arch="own", weights="")
        self.model = ResolvedModel("brightness", "brightness", card, "", "1", {}, "float32", capability="FrameScorer")
        register_model("brightness", self)

    def prepare(self, pictures: Iterator[Picture]) -> np.ndarray:
        levels = (float(picture.pixels.mean()) / 255 for picture in pictures)
        return np.array([sum(window) / 3 for window in in_windows(levels)])

    def score_frames(self, visuals: Sequence[Any]) -> Made:
        return Made({"scores": object_column(list(visuals))})

    def close(self) -> None: ...


def test_smoothness_with_a_scorer_of_ones_own(tmp_path: Path) -> None:
    Brightness()
    frames = [np.full((4, 4, 3), level, np.uint8) for level in [100] * 6 + [200] * 6]
    found, evidence = value(tmp_path, "motion_smoothness(model=brightness)", frames)
    # Windows of three carry the jump over four frames: 100, 133, 167, 200 from frame 4 to 7.
    assert evidence["artefacts"] == [4, 5, 6, 7]
    assert found == pytest.approx(1 - 4 / 12)
    assert len(evidence["scores"]) == 12
    loose, _ = value(tmp_path, "motion_smoothness(model=brightness,jump=0.5)", frames)
    assert loose == 1.0


def test_q_align_is_planned() -> None:
    with pytest.raises(PlannedError, match="Q-Align"):
        beholder.score("motion_smoothness", images="x.mp4")


def test_consistency_of_a_run_is_that_of_its_frames(tmp_path: Path) -> None:
    encoder = counting()
    folder = frames_folder(tmp_path / "clip", 5)
    (row,) = rows_of(tmp_path, [{"output": str(folder)}], "subject_consistency(model=counting)")
    prepared = [
        encoder.prepare_image(Picture(np.asarray(Image.open(folder / f"{at}.png")), (16, 12), "RGB")) for at in range(5)
    ]
    e = encoder.encode_images(np.stack(prepared)).astype(float)
    e /= np.linalg.norm(e, axis=1, keepdims=True)
    wanted = np.mean([(max(0, e[at] @ e[at - 1]) + max(0, e[at] @ e[0])) / 2 for at in range(1, 5)])
    assert row["subject_consistency"] == pytest.approx(wanted, abs=1e-5)
