"""facesim_cur and facescore: OpenS2V's and FaceScore's rules, their companions, and whole runs with drawn faces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import beholder
from beholder._errors import NoValue, OptionError
from beholder.backends.base import Made, ResolvedModel
from beholder.backends.columns import object_column
from beholder.backends.fake_models import FakeModel
from beholder.backends.pool import register_model
from beholder.functional.facesim import face_similarity
from beholder.media.base import Picture
from beholder.metrics.base import FeatureBatch, Ragged
from beholder.metrics.face_identity import FaceSimCur
from beholder.metrics.face_quality import FaceScore, crop_box, crop_faces
from beholder.records import ModelCard, Status

CONFIDENCE = {190: 0.95, 180: 0.9, 179: 0.8999, 120: 0.6}


class DrawnFaces:
    """Finds squares of the colour (angle, confidence, 255): one face for each angle, whose embedding points there."""

    batch = 4
    takes_video = False

    def __init__(self, capability: str = "FaceAnalyser") -> None:
        self.constants: dict[str, float] = {}
        self.seen = 0
        card = ModelCard(id="drawn", engine="fake", family="fake", arch="drawn", weights="")
        self.model = ResolvedModel("drawn", "drawn", card, "", "0" * 64, {}, "float32", capability=capability)

    def prepare(self, pictures: Sequence[Picture]) -> np.ndarray:
        return pictures[0].pixels

    def analyse(self, visuals: Sequence[Any], **settings: Any) -> Made:
        self.seen += len(visuals)
        found = [self._faces(pixels) for pixels in visuals]
        return Made({name: object_column([row[name] for row in found]) for name in found[0]})

    def _faces(self, pixels: np.ndarray) -> dict[str, np.ndarray]:
        faces = []
        for angle, mark in sorted({tuple(colour[:2]) for colour in pixels.reshape(-1, 3) if colour[2] == 255}):
            y, x = np.nonzero((pixels == (angle, mark, 255)).all(axis=-1))
            radians = np.deg2rad(float(angle))
            vector = np.zeros(2) if angle == 255 else 3 * np.array([np.cos(radians), np.sin(radians)])
            faces.append((CONFIDENCE[int(mark)], (x.min(), y.min(), x.max() + 1, y.max() + 1), vector))
        faces.sort(key=lambda face: -face[0])
        boxes = np.array([face[1] for face in faces], dtype=np.float32).reshape(-1, 4)
        return {
            "scores": np.array([face[0] for face in faces], dtype=np.float32),
            "boxes": boxes,
            "landmarks": np.zeros((len(faces), 5, 2), dtype=np.float32),
            "areas": (boxes[:, 2] - boxes[:, 0]).astype(np.float64) * (boxes[:, 3] - boxes[:, 1]),
            "embedding": np.array([face[2] for face in faces], dtype=np.float32).reshape(-1, 2),
        }

    def close(self) -> None:
        pass


@pytest.fixture
def drawn() -> DrawnFaces:
    model = DrawnFaces()
    register_model("drawn", model)
    return model


def draw(path: Path, *faces: tuple[int, int, tuple[int, int, int, int]], size: tuple[int, int] = (64, 48)) -> str:
    """A gray picture with faces: (angle, confidence mark, (x0, y0, x1, y1))."""
    pixels = np.full((size[1], size[0], 3), 100, dtype=np.uint8)
    for angle, mark, (x0, y0, x1, y1) in faces:
        pixels[y0:y1, x0:x1] = (angle, mark, 255)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return str(path)


def clip(folder: Path, angles: Sequence[int | None]) -> str:
    """A folder of frames; None is a frame without a face."""
    for number, angle in enumerate(angles):
        corner = (8 + number % 8, 8 + number // 8, 30, 30)  # no two frames are equal
        faces = [] if angle is None else [(angle, 190, corner)]
        draw(folder / f"{number:03}.png", *faces)
    return str(folder)


def run(tmp_path: Path, rows: list[dict[str, Any]], metric: str, name: str = "out") -> list[dict[str, Any]]:
    named = [{"id": str(number), **row} for number, row in enumerate(rows)]
    # Rows without a value by nature do not make a run fail; faults are looked at here.
    table = beholder.evaluate(
        named, metrics=metric, out=str(tmp_path / name), store=str(tmp_path / "s"), max_failed=1.0
    )
    label = metric.partition("(")[0]
    keys = {label: "value", f"{label}_status": "status", f"{label}_reason": "reason", f"{label}_evidence": "evidence"}
    found = [{keys[key]: value for key, value in row.items() if key in keys} for row in table.scores.to_pylist()]
    return [{**row, "evidence": json.loads(row["evidence"]) if row.get("evidence") else {}} for row in found]


def cos(degrees: float) -> float:
    return float(np.cos(np.deg2rad(degrees)))


BIG, SMALL = (4, 4, 30, 30), (40, 4, 50, 14)


def test_pictures_are_compared_by_their_largest_faces(drawn: DrawnFaces, tmp_path: Path) -> None:
    reference = draw(tmp_path / "r.png", (10, 190, BIG), (90, 190, SMALL))
    rows = [
        {"output": draw(tmp_path / "a.png", (40, 190, BIG)), "references": [reference]},
        {"output": draw(tmp_path / "b.png", (10, 190, SMALL), (70, 120, BIG)), "references": [reference]},
        {"output": draw(tmp_path / "c.png", (150, 190, BIG)), "references": [reference]},
    ]
    found = run(tmp_path, rows, "facesim_cur(model=drawn)")
    assert [row["status"] for row in found] == ["ok"] * 3
    assert [row["value"] for row in found] == pytest.approx([cos(30), cos(60), cos(140)], abs=1e-6)
    assert found[1]["evidence"] == {"n_faces": 2, "n_reference_faces": 2}
    clipped = run(tmp_path, rows, "facesim_cur(model=drawn, clip=true)", "clipped")
    assert [row["value"] for row in clipped] == pytest.approx([cos(30), cos(60), 0.0], abs=1e-6)


def test_statuses_say_which_side_has_no_face(drawn: DrawnFaces, tmp_path: Path) -> None:
    face, nobody = draw(tmp_path / "f.png", (10, 190, BIG)), draw(tmp_path / "n.png")
    zero = draw(tmp_path / "z.png", (255, 190, BIG))
    rows: list[dict[str, Any]] = [
        {"output": nobody, "references": [face]},
        {"output": face, "references": [nobody]},
        {"output": nobody, "references": [nobody]},
        {"output": face, "references": []},
        {"output": zero, "references": [face]},
        {"output": face, "references": [nobody, face]},
    ]
    found = run(tmp_path, rows, "facesim_cur(model=drawn)")
    assert [row["status"] for row in found] == [
        "no_face", "no_face", "no_face", "no_reference", "degenerate_embedding", "ok",
    ]  # fmt: skip
    assert [row["evidence"].get("side") for row in found[:3]] == ["gen", "ref", "both"]
    assert "side=gen" in found[0]["reason"]
    assert all(row["value"] is None for row in found[:5])
    assert found[5]["value"] == pytest.approx(1.0, abs=1e-6)
    assert found[5]["evidence"] == {"references_without_face": 1}


def test_one_frame_of_32_scores_like_all_of_them(drawn: DrawnFaces, tmp_path: Path) -> None:
    reference = draw(tmp_path / "r.png", (10, 190, BIG))
    one = clip(tmp_path / "one", [None] * 13 + [40] + [None] * 18)
    rows = [
        {"output": one, "references": [reference]},
        {"output": clip(tmp_path / "all", [40] * 32), "references": [reference]},
        {"output": clip(tmp_path / "none", [None] * 32), "references": [reference]},
        {"output": clip(tmp_path / "far", [130] * 32), "references": [reference]},
        {"output": clip(tmp_path / "mixed", [10, 130, 100, None] * 8), "references": [reference]},
    ]
    found = run(tmp_path, rows, "facesim_cur(model=drawn)")
    assert [row["status"] for row in found] == ["ok", "ok", "no_face", "ok", "ok"]
    assert found[0]["value"] == pytest.approx(found[1]["value"], abs=1e-6) == pytest.approx(cos(30), abs=1e-6)
    evidence = [row["evidence"] for row in found]
    assert evidence[0]["detection_rate"] == 1 / 32
    assert evidence[0]["mean_all"] == pytest.approx(cos(30) / 32, abs=1e-6)
    assert evidence[1]["mean_all"] == pytest.approx(cos(30), abs=1e-6)
    assert (evidence[2]["side"], evidence[2]["official"], evidence[2]["n_frames"]) == ("gen", 0.0, 32)
    # Another person in every frame: OpenS2V says 0, the cosine itself is negative.
    assert found[3]["value"] == 0.0
    assert evidence[3]["mean_raw"] == pytest.approx(cos(120), abs=1e-6)
    assert evidence[3]["n_positive"] == 0
    # 8 frames each of cosine 1, cos 120°, cos 90° and nobody. A cosine of 0 up to rounding may count or not.
    assert evidence[4]["mean_raw"] == pytest.approx((1 + cos(120) + cos(90)) / 3, abs=1e-6)
    assert evidence[4]["mean_all"] == pytest.approx(8 / 32, abs=1e-6)
    assert evidence[4]["n_detected"] == 24


@pytest.mark.parametrize("how", ["mean_detected", "mean_raw", "mean_all"])
def test_other_means_by_name(drawn: DrawnFaces, tmp_path: Path, how: str) -> None:
    reference = draw(tmp_path / "r.png", (10, 190, BIG))
    rows = [{"output": clip(tmp_path / "v", [40, 160, None, 10]), "references": [reference]}]
    found = run(tmp_path, rows, f"facesim_cur(model=drawn, frames=all, over_frames={how})")
    expected = {
        "mean_detected": (cos(30) + 0 + 1) / 3,
        "mean_raw": (cos(30) + cos(150) + 1) / 3,
        "mean_all": (cos(30) + 0 + 0 + 1) / 4,
    }
    assert found[0]["value"] == pytest.approx(expected[how], abs=1e-6)


def test_rules_of_a_video_by_hand() -> None:
    result = face_similarity([0.5, 0.0, -0.3, 0.9], n_frames=10)
    assert result == (0.7, pytest.approx(0.35), pytest.approx(0.275), pytest.approx(0.14), 10, 4, 2, 0.4)
    assert face_similarity([], n_frames=3) == (0.0, None, None, 0.0, 3, 0, 0, 0.0)
    for values, frames in (([0.1, 0.2], 1), ([], 0)):
        with pytest.raises(OptionError, match="one cosine a frame"):
            face_similarity(values, n_frames=frames)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", [20, 50]),
        (", reduce=max", [20]),
        (", reduce=first", [20]),
        (", matching=best", [5, 10]),
        (", matching=assignment", [5, 10]),
    ],
)
def test_several_references_and_faces(drawn: DrawnFaces, tmp_path: Path, options: str, expected: list[int]) -> None:
    """References at 10° and 80°, the output's faces at 30° (largest), 15° and 90°."""
    references = [draw(tmp_path / f"r{angle}.png", (angle, 190, BIG)) for angle in (10, 80)]
    output = draw(tmp_path / "o.png", (30, 190, (0, 0, 20, 40)), (15, 190, (30, 0, 40, 9)), (90, 190, (44, 0, 50, 9)))
    found = run(tmp_path, [{"output": output, "references": references}], f"facesim_cur(model=drawn{options})")
    assert found[0]["value"] == pytest.approx(np.mean([cos(angle) for angle in expected]), abs=1e-6)


def test_two_references_share_no_face_under_assignment(drawn: DrawnFaces, tmp_path: Path) -> None:
    references = [draw(tmp_path / f"r{angle}.png", (angle, 190, BIG)) for angle in (10, 20)]
    output = draw(tmp_path / "o.png", (14, 190, BIG), (100, 190, SMALL))
    rows = [{"output": output, "references": references}]
    best = run(tmp_path, rows, "facesim_cur(model=drawn, matching=best)")[0]["value"]
    assigned = run(tmp_path, rows, "facesim_cur(model=drawn, matching=assignment)", "b")[0]["value"]
    assert best == pytest.approx((cos(4) + cos(6)) / 2, abs=1e-6)
    assert assigned == pytest.approx((cos(4) + cos(80)) / 2, abs=1e-6)


def test_faces_are_analysed_once_for_all_metrics_and_reruns(drawn: DrawnFaces, tmp_path: Path) -> None:
    reference = draw(tmp_path / "r.png", (10, 190, BIG))
    rows = [{"output": draw(tmp_path / f"{a}.png", (a, 190, BIG)), "references": [reference]} for a in (20, 30, 40)]
    run(tmp_path, rows, "facesim_cur(model=drawn)")
    seen = drawn.seen
    run(tmp_path, rows, "facesim_cur(model=drawn, matching=assignment)", "again")
    assert drawn.seen == seen


def test_a_detector_without_embeddings_is_told() -> None:
    nothing = {"boxes": object_column([np.zeros((0, 4))]), "scores": object_column([np.zeros(0)])}
    slots = {"output": nothing, "references": Ragged(nothing, np.array([0, 1]))}
    found = FaceSimCur({"model": "retinaface"}).score(FeatureBatch(slots, {}, 1))
    assert found.statuses[0][0] is Status.FAILED
    assert "no embeddings" in found.statuses[0][1]


# FaceScore


def test_the_published_crop() -> None:
    x0, y0, x1, y1 = crop_box((104.03, 28.23, 143.57, 78.54), 1000, 1000)
    assert (x0, y0, x1 - x0, y1 - y0) == (103, 27, 41, 52)
    assert crop_box((0.0, 0.0, 50.4, 60.2), 50, 60) == (0, 0, 50, 60)
    assert crop_box((60.0, 60.0, 60.0, 60.0), 60, 60) == (59, 59, 60, 60)


def test_crops_come_in_the_order_of_the_faces_and_bring_their_pixels() -> None:
    pixels = np.arange(40 * 50 * 3, dtype=np.uint32).astype(np.uint8).reshape(40, 50, 3)
    columns = {
        "scores": np.array([0.99, 0.9, 0.8999], dtype=np.float32),
        "boxes": np.array([[10.5, 5.2, 20.1, 15.9], [0, 0, 8, 9], [1, 1, 9, 9]], dtype=np.float32),
    }
    first, second = crop_faces(Picture(pixels, (50, 40), "L"), columns, threshold=0.9)
    np.testing.assert_array_equal(first.pixels, pixels[4:16, 9:21])
    np.testing.assert_array_equal(second.pixels, pixels[0:10, 0:9])
    assert first.size == (12, 12)
    with pytest.raises(NoValue, match=r"no face .* 0\.995; the best confidence is 0\.9900") as caught:
        crop_faces(Picture(pixels, (50, 40), "L"), columns, threshold=0.995)
    assert caught.value.status == "no_face"


def expected_scores(path: str, boxes: list[tuple[int, int, int, int]]) -> list[float]:
    """The fake reward of crops that are cut here."""
    pixels, model = np.asarray(Image.open(path)), FakeModel("Matcher", "fake:seed=7", seed=7)
    crops = []
    for x0, y0, x1, y1 in boxes:
        cut = np.ascontiguousarray(pixels[max(0, y0 - 1) : y1 + 1, max(0, x0 - 1) : x1 + 1])
        crops.append(model.prepare([Picture(cut, (cut.shape[1], cut.shape[0]), "RGB")]))
    made = model.match(crops, [(number, "A face.") for number in range(len(crops))])
    return [float(value) for value in made.columns["logit"]]


def test_each_face_is_scored_and_aggregated_by_name(drawn: DrawnFaces, tmp_path: Path) -> None:
    boxes = [(4, 6, 24, 26), (0, 30, 10, 40), (30, 8, 60, 44)]
    path = draw(tmp_path / "o.png", (10, 190, boxes[0]), (20, 180, boxes[1]), (30, 179, boxes[2]))
    scores = expected_scores(path, boxes[:2])
    values = {"mean": np.mean(scores), "min": min(scores), "max": max(scores), "largest": scores[0]}
    for how, value in values.items():
        metric = f"facescore(model=fake:seed=7, detector=drawn, aggregate={how})"
        (row,) = run(tmp_path, [{"output": path}], metric, how)
        assert row["value"] == pytest.approx(value, abs=1e-6)
        assert row["evidence"]["n_faces"] == 2
        first, second = row["evidence"]["faces"]
        assert (first["score"], first["box"], first["confidence"]) == (pytest.approx(scores[0]), [4, 6, 24, 26], 0.95)
        # The published code loses the face at the left edge.
        assert (first["official"], second["official"]) == (first["score"], None)
    (lower,) = run(tmp_path, [{"output": path}], "facescore(model=fake:seed=7, detector=drawn, threshold=0.85)", "low")
    assert lower["value"] == pytest.approx(np.mean(expected_scores(path, boxes)), abs=1e-6)


def test_no_face_is_a_status_with_the_best_confidence(drawn: DrawnFaces, tmp_path: Path) -> None:
    rows = [
        {"output": draw(tmp_path / "none.png")},
        {"output": draw(tmp_path / "unsure.png", (10, 179, BIG), (20, 120, SMALL))},
        {"output": draw(tmp_path / "sure.png", (10, 180, BIG))},
        {"output": str(tmp_path / "missing.png")},
    ]
    found = run(tmp_path, rows, "facescore(model=fake, detector=drawn)")
    assert [row["status"] for row in found] == ["no_face", "no_face", "ok", "missing"]
    assert "0.8999" in found[1]["reason"]
    assert [row["value"] is None for row in found] == [True, True, False, True]


def test_gray_files_and_turned_files_are_scored_like_plain_ones(drawn: DrawnFaces, tmp_path: Path) -> None:
    path = draw(tmp_path / "o.png", (10, 190, (4, 6, 24, 26)))
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.open(path).transpose(Image.Transpose.ROTATE_90).save(tmp_path / "turned.png", exif=exif)
    Image.open(path).convert("RGBA").save(tmp_path / "rgba.png")
    rows = [{"output": str(item)} for item in (path, tmp_path / "turned.png", tmp_path / "rgba.png")]
    found = run(tmp_path, rows, "facescore(model=fake:seed=7, detector=drawn)")
    assert [row["value"] for row in found] == [pytest.approx(expected_scores(path, [(4, 6, 24, 26)])[0])] * 3


def test_identities() -> None:
    assert repr(FaceSimCur()) == "facesim_cur"
    assert repr(FaceScore({"aggregate": "min"})) == "facescore(aggregate=min)"
    # --model names an encoder of images and texts and leaves these alone.
    assert FaceSimCur(default_model="openai:ViT-B-32") == FaceSimCur()
    assert FaceScore(default_model="openai:ViT-B-32") == FaceScore()


def test_facescore_in_its_real_format(drawn: DrawnFaces, tmp_path: Path) -> None:
    """The reward network's own loading code, on each crop by itself."""
    from tests.models_blip import make_tiny_reward

    from beholder.backends.pool import load_model, resolve_model

    folder = make_tiny_reward(tmp_path / "fs", weights="FS_model.pt")
    box = (4, 6, 44, 40)
    path = draw(tmp_path / "o.png", (10, 190, box))
    (row,) = run(tmp_path, [{"output": path}], f"facescore(model=facescore:{folder}, detector=drawn)")
    model = load_model(resolve_model(f"facescore:{folder}", capability="Matcher"), device="cpu")
    cut = np.ascontiguousarray(np.asarray(Image.open(path))[5:41, 3:45])
    made = model.match([model.prepare([Picture(cut, (42, 36), "RGB")])], [(0, "A face.")])
    assert row["status"] == "ok"
    assert row["value"] == pytest.approx(float(made.columns["logit"][0]), abs=1e-5)
