"""Faces that broke other tools (P1 to P4), scored from end to end with a face model that finds drawn faces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps
from tests.metrics.test_face_metrics import DrawnFaces, draw

import beholder
from beholder import FakeModel, register_model

FACESIM = "facesim_cur(model=drawn)"
FACESCORE = "facescore(detector=drawn, model=reward)"


@pytest.fixture(autouse=True)
def models() -> None:
    register_model("drawn", DrawnFaces())
    register_model("reward", FakeModel("Matcher", "reward"))


def portrait(path: Path, angle: int = 0, box: tuple[int, int, int, int] = (8, 8, 24, 28)) -> str:
    return draw(path, (angle, 190, box))


def run(folder: Path, rows: list[dict[str, Any]], *metrics: str) -> Any:
    manifest = folder / "samples.jsonl"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return beholder.evaluate(str(manifest), metrics=metrics, out=str(folder / "run"), store=str(folder / "store"))


def aggregates(found: Any, label: str) -> dict[str, float | None]:
    return {row.aggregate: row.value for row in found.summary if row.label == label}


def test_p1_a_landscape_has_no_face_and_both_aggregates_have_names(tmp_path: Path) -> None:
    reference, same = portrait(tmp_path / "ref.png"), portrait(tmp_path / "same.png")
    landscape = draw(tmp_path / "landscape.png")
    rows = [
        {"id": "same", "output": same, "references": [reference]},
        {"id": "landscape", "output": landscape, "references": [reference]},
        {"id": "no person to find", "output": same, "references": [landscape]},
    ]
    found = run(tmp_path, rows, FACESIM, FACESCORE)
    assert found.scores.column("facesim_cur_status").to_pylist() == ["ok", "no_face", "no_face"]
    assert found.scores.column("facesim_cur").to_pylist() == [pytest.approx(1.0, abs=1e-6), None, None]
    similar = aggregates(found, "facesim_cur")
    assert similar["micro"] == pytest.approx(1.0, abs=1e-6)  # left out
    assert similar["no_face_as_zero"] == pytest.approx(0.5, abs=1e-6)  # the row without a reference face is not counted
    assert similar["face_share"] == 0.5
    assert found.scores.column("facescore_status").to_pylist() == ["ok", "no_face", "ok"]
    assert aggregates(found, "facescore")["face_share"] == pytest.approx(2 / 3)
    assert found.exit_code == 0, "no face is no fault"


def test_p2_turned_gray_and_at_the_border(tmp_path: Path) -> None:
    upright = Image.open(portrait(tmp_path / "upright.png"))
    exif = Image.Exif()
    exif[0x0112] = 6
    upright.rotate(90, expand=True).save(tmp_path / "turned.png", exif=exif)
    assert ImageOps.exif_transpose(Image.open(tmp_path / "turned.png")).size == upright.size
    edge = portrait(tmp_path / "edge.png", box=(0, 0, 16, 20))
    reference = str(tmp_path / "upright.png")
    rows = [{"output": path, "references": [reference]} for path in (reference, str(tmp_path / "turned.png"), edge)]
    found = run(tmp_path, rows, FACESIM, FACESCORE)
    scores = found.scores.column("facescore").to_pylist()
    assert scores[0] == scores[1], "one decoded picture serves detection and crop"
    evidence = [json.loads(text)["faces"] for text in found.scores.column("facescore_evidence").to_pylist()]
    assert evidence[0] == evidence[1]
    assert evidence[2][0]["box"] == [0.0, 0.0, 16.0, 20.0]
    assert evidence[2][0]["official"] is None, "the published code loses it, silently"
    assert found.scores.column("facesim_cur").to_pylist() == [pytest.approx(1.0, abs=1e-6)] * 3


class GrayFace(DrawnFaces):
    """One face in the middle, whatever the colours: gray pictures have none that `DrawnFaces` would see."""

    def _faces(self, pixels: np.ndarray) -> dict[str, np.ndarray]:
        return {
            "scores": np.array([0.95], np.float32), "boxes": np.array([[2, 2, 20, 20]], np.float32),
            "landmarks": np.zeros((1, 5, 2), np.float32), "areas": np.array([324.0]),
            "embedding": pixels.reshape(-1, 3).mean(axis=0)[None].astype(np.float32),
        }  # fmt: skip


def test_p2_a_gray_file_is_its_colour_copy(tmp_path: Path) -> None:
    register_model("drawn", GrayFace())
    gray = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 30), dtype=np.uint8))
    gray.save(tmp_path / "gray.png")
    gray.convert("RGB").save(tmp_path / "colour.png")
    rows = [{"output": f"{name}.png", "references": ["colour.png"]} for name in ("gray", "colour")]
    found = run(tmp_path, rows, FACESIM, FACESCORE)
    for label in ("facesim_cur", "facescore"):
        one, other = found.scores.column(label).to_pylist()
        assert one == other is not None


def test_p3_two_faces_and_two_references(tmp_path: Path) -> None:
    both = draw(tmp_path / "both.png", (0, 190, (2, 2, 12, 14)), (90, 180, (20, 10, 50, 40)))
    references = [portrait(tmp_path / "a.png", 0), portrait(tmp_path / "b.png", 90)]
    modes = ("largest", "best", "assignment")
    found = run(
        tmp_path, [{"output": both, "references": references}],
        *(f"facesim_cur(matching={mode}, model=drawn)" for mode in modes),
    )  # fmt: skip
    values = [found.scores.column(label)[0].as_py() for label in found.labels]
    # The largest face is the second person's: its cosine is 0 with one reference and 1 with the other.
    assert values == [pytest.approx(0.5, abs=1e-6), pytest.approx(1.0, abs=1e-6), pytest.approx(1.0, abs=1e-6)]


def test_p4_a_face_in_one_frame_of_many(tmp_path: Path) -> None:
    reference = portrait(tmp_path / "ref.png")
    clip = tmp_path / "clip"
    clip.mkdir()
    for at in range(8):
        portrait(clip / f"{at}.png") if at == 5 else draw(clip / f"{at}.png")
    found = run(tmp_path, [{"output": "clip", "references": [reference]}], "facesim_cur(frames=all, model=drawn)")
    assert found.scores.column("facesim_cur")[0].as_py() == pytest.approx(1.0, abs=1e-6), "the official value"
    evidence = json.loads(found.scores.column("facesim_cur_evidence")[0].as_py())
    assert evidence["detection_rate"] == pytest.approx(1 / 8)
    assert evidence["mean_all"] == pytest.approx(1 / 8, abs=1e-6)
    assert (evidence["n_frames"], evidence["n_detected"]) == (8, 1)
