"""dlib on real photographs with its real weights: who is who, who is nobody, and orientation, gray and borders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps
from tests.photographs import portraits, scene

from beholder._errors import MissingExtraError, UnknownNameError
from beholder.backends.base import LoadOptions
from beholder.backends.pool import load_model, resolve_model
from beholder.functional.faces import Faces, match_faces
from beholder.functional.similarity import cosine
from beholder.media.base import DecodeOptions, Picture
from beholder.media.sources import as_medium

dlib = pytest.importorskip("dlib", reason="dlib is not installed (base environment)")

OBAMA, BIDEN = ("obama.jpg", "obama2.jpg", "obama_partial_face2.jpg"), ("biden.jpg",)


@pytest.fixture(scope="module")
def model() -> Any:
    return resolve_model("dlib", capability="FaceAnalyser", options=LoadOptions(offline=True))


@pytest.fixture(scope="module")
def analyser(model: Any) -> Any:
    return load_model(model, device="cpu")


@pytest.fixture(scope="module")
def people(request: pytest.FixtureRequest) -> Path:
    assert request.config.cache is not None
    return portraits(request.config.cache.mkdir("face-photographs"))


def decoded(path: Path) -> Picture:
    return as_medium(path).decode(DecodeOptions())


def portrait(path: Path) -> Picture:
    """A photograph brought to 560 pixels: large enough for its face, and quickly searched."""
    image = Image.fromarray(decoded(path).pixels)
    image.thumbnail((560, 560), Image.Resampling.BICUBIC)
    return Picture(np.asarray(image), image.size, "RGB")


def look(analyser: Any, *pictures: Picture, **settings: Any) -> list[dict[str, np.ndarray]]:
    """One dict a picture, of its faces."""
    made = analyser.analyse([analyser.prepare([picture]) for picture in pictures], **settings)
    assert not made.failures
    return [{name: column[row] for name, column in made.columns.items()} for row in range(len(pictures))]


def faces(found: dict[str, np.ndarray]) -> Faces:
    return Faces(found["embedding"], found["areas"])


@pytest.fixture(scope="module")
def embeddings(analyser: Any, people: Path) -> dict[str, np.ndarray]:
    paths = {name: people / name for name in (*OBAMA, *BIDEN)} | {"astronaut": scene("astronaut.png")}
    found = look(analyser, *(portrait(path) for path in paths.values()))
    return {name: row["embedding"][0] for name, row in zip(paths, found)}


def test_one_person_is_above_different_persons(embeddings: dict[str, np.ndarray]) -> None:
    person = {name: "o" if name in OBAMA else name for name in embeddings}
    same, other = [], []
    for a in embeddings:
        for b in embeddings:
            if a < b:
                value = float(cosine([embeddings[a]], [embeddings[b]]).values[0])
                (same if person[a] == person[b] else other).append(value)
    assert len(same) == 3
    assert len(other) == 7
    assert min(same) > max(other) + 0.1


def test_cosines_have_their_golden_values(embeddings: dict[str, np.ndarray]) -> None:
    # dlib-bin 20.0.1 on x86-64; 0.005 allows for another build's vector instructions and rectangle by a pixel.
    for pair, golden in {
        ("obama.jpg", "obama2.jpg"): 0.9623, ("obama.jpg", "biden.jpg"): 0.8137, ("obama.jpg", "astronaut"): 0.8243,
    }.items():  # fmt: skip
        value = cosine([embeddings[pair[0]]], [embeddings[pair[1]]]).values[0]
        assert value == pytest.approx(golden, abs=0.005)


def test_dlibs_own_rule_agrees(embeddings: dict[str, np.ndarray]) -> None:
    """Euclidean distance below 0.6 means one person: the rule that the network was trained for."""
    distance = {name: float(np.linalg.norm(embeddings["obama.jpg"] - value)) for name, value in embeddings.items()}
    assert {name for name, value in distance.items() if value < 0.6} == set(OBAMA)


def test_a_face_is_what_dlib_says_when_it_is_called_by_hand(analyser: Any, model: Any, people: Path) -> None:
    picture = portrait(people / "obama.jpg")
    pixels = picture.pixels
    (rectangle,) = dlib.get_frontal_face_detector()(pixels, 1)
    shape = dlib.shape_predictor(model.locations["landmarks"])(pixels, rectangle)
    chip = dlib.get_face_chip(pixels, shape)
    assert chip.shape == (150, 150, 3)
    network = dlib.face_recognition_model_v1(model.locations["recognition"])
    (found,) = look(analyser, picture)
    np.testing.assert_allclose(found["embedding"][0], network.compute_face_descriptor(chip), atol=1e-5)
    edges = [rectangle.left(), rectangle.top(), rectangle.right() + 1, rectangle.bottom() + 1]
    assert found["boxes"].tolist() == [edges]
    # In the full picture the face lies at 349, 142 to 618, 410; the picture is shrunk by 560 / 1137.
    assert found["boxes"][0].tolist() == pytest.approx([172, 70, 304, 202], abs=15)
    assert found["landmarks"].shape == (1, 5, 2)
    inside = (found["landmarks"][0] > found["boxes"][0, :2]) & (found["landmarks"][0] < found["boxes"][0, 2:])
    assert inside.all()


def test_scenes_without_a_person_have_no_face(analyser: Any) -> None:
    pictures = [decoded(scene(name)) for name in ("coffee.png", "chelsea.png", "rocket.jpg", "brick.png")]
    for found in look(analyser, *pictures):
        assert found["boxes"].shape == (0, 4)
        assert found["landmarks"].shape == (0, 5, 2)
        assert found["embedding"].shape == (0, 128)


@pytest.mark.parametrize("orientation", [3, 6, 8])
def test_a_rotated_file_is_the_upright_picture(analyser: Any, people: Path, tmp_path: Path, orientation: int) -> None:
    upright = Image.open(people / "obama.jpg").convert("RGB").resize((455, 568))
    turns = {3: Image.Transpose.ROTATE_180, 6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}
    stored = upright.transpose(turns[orientation])
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(tmp_path / "turned.png", exif=exif)
    upright.save(tmp_path / "upright.png")
    assert ImageOps.exif_transpose(Image.open(tmp_path / "turned.png")).size == upright.size
    turned, straight = look(analyser, decoded(tmp_path / "turned.png"), decoded(tmp_path / "upright.png"))
    assert len(straight["boxes"]) == 1
    for name in ("boxes", "scores", "landmarks", "embedding"):
        np.testing.assert_array_equal(turned[name], straight[name])


def test_a_gray_portrait_is_the_same_person(
    analyser: Any, people: Path, tmp_path: Path, embeddings: dict[str, np.ndarray]
) -> None:
    gray = Image.fromarray(portrait(people / "obama.jpg").pixels).convert("L")
    gray.save(tmp_path / "gray.png")
    gray.convert("RGB").save(tmp_path / "rgb.png")
    one, copy = look(analyser, decoded(tmp_path / "gray.png"), decoded(tmp_path / "rgb.png"))
    np.testing.assert_array_equal(one["embedding"], copy["embedding"])
    values = [cosine(one["embedding"], [embeddings[name]]).values[0] for name in ("obama.jpg", "biden.jpg")]
    assert values[0] > 0.95 > values[1]


def test_several_faces_find_their_references(analyser: Any, people: Path) -> None:
    """Two persons in one picture; `assignment` tells who is who, whatever their order and size."""
    biden = Image.open(people / "biden.jpg").convert("RGB").resize((243, 551))
    obama = Image.open(people / "obama.jpg").convert("RGB").resize((455, 568))
    group = Image.new("RGB", (700, 568))
    group.paste(biden, (0, 0))
    group.paste(obama, (245, 0))
    picture = Picture(np.asarray(group), group.size, "RGB")
    together, first, second = look(
        analyser, picture, *(portrait(people / name) for name in ("obama2.jpg", "biden.jpg"))
    )
    assert len(together["boxes"]) == 2
    assert together["scores"].tolist() == sorted(together["scores"].tolist(), reverse=True)
    references = Faces(np.concatenate([first["embedding"], second["embedding"]]), np.array([1.0, 2.0]))
    result = match_faces(references, faces(together), matching="assignment")
    left = {number: bool(box[0] < 243) for number, box in enumerate(together["boxes"])}
    assert [left[int(face)] for _, face in result.pairs] == [False, True]
    assert result.values.min() > 0.9
    # The largest face is Obama's, but the largest reference is Biden's: the official rule compares two persons.
    assert match_faces(references, faces(together)).values[0] < 0.9


def test_a_box_beyond_the_border_is_cut(analyser: Any, people: Path) -> None:
    (found,) = look(analyser, portrait(people / "obama_partial_face.jpg"))
    x0, y0, x1, y1 = found["boxes"][0].tolist()
    assert x0 == 0
    assert found["areas"][0] > (x1 - x0) * (y1 - y0)
    assert found["embedding"].shape == (1, 128)


def test_a_batch_is_its_pictures(analyser: Any, people: Path) -> None:
    pictures = [portrait(path) for path in (people / "obama2.jpg", scene("coffee.png"), scene("astronaut.png"))]
    for together, alone in zip(look(analyser, *pictures), [look(analyser, picture)[0] for picture in pictures]):
        for name, value in together.items():
            np.testing.assert_array_equal(value, alone[name])


def test_settings(analyser: Any) -> None:
    picture = decoded(scene("astronaut.png"))
    (sure,) = look(analyser, picture, threshold=0.5)
    (unsure,) = look(analyser, picture, threshold=0.0)
    assert len(sure["boxes"]) == 1
    assert len(unsure["boxes"]) >= 1
    assert (sure["scores"] > 0.5).all()
    small = Picture(np.asarray(Image.fromarray(picture.pixels).resize((230, 230))), (230, 230), "RGB")
    (missed,) = look(analyser, small, upsample=0, threshold=0.5)
    (found,) = look(analyser, small, upsample=1, threshold=0.5)
    assert (len(missed["boxes"]), len(found["boxes"])) == (0, 1)
    with pytest.raises(UnknownNameError, match="setting of dlib"):
        look(analyser, picture, det_size=320)


def test_weights_are_the_cards_and_the_data_package_is_not_imported(model: Any) -> None:
    import sys

    assert model.card.commercial is True
    assert model.card.sha256
    assert "face_recognition_models" not in sys.modules
    assert all("68" not in path for path in model.locations.values())
    assert model.preprocessing["dlib"] != "unknown"


def test_without_the_package_the_extra_is_named(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "dlib", None)
    with pytest.raises(MissingExtraError, match=r"beholder\[dlib\]"):
        load_model(model, device="cpu")


def test_a_run_tells_persons_apart(people: Path, tmp_path: Path) -> None:
    import beholder

    for name in ("obama.jpg", "obama2.jpg", "biden.jpg"):
        Image.fromarray(portrait(people / name).pixels).save(tmp_path / f"{name}.png")
    outputs = [tmp_path / "obama2.jpg.png", tmp_path / "biden.jpg.png", scene("coffee.png")]
    rows = [
        {"id": str(number), "output": str(path), "references": [str(tmp_path / "obama.jpg.png")]}
        for number, path in enumerate(outputs)
    ]
    run = beholder.evaluate(rows, metrics="facesim_cur(model=dlib)", out=str(tmp_path / "run"), offline=True)
    assert run.scores.column("facesim_cur_status").to_pylist() == ["ok", "ok", "no_face"]
    same, other, nobody = run.scores.column("facesim_cur").to_pylist()
    assert same > other + 0.1
    assert nobody is None
