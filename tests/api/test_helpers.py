"""The page's helper calls: typed as on the page with models stood in for, and everything about their results."""

from __future__ import annotations

import dataclasses
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.metrics.test_face_metrics import DrawnFaces, draw
from tests.models_blip import make_tiny_reward
from tests.models_scores import make_artscore

import beholder
from beholder import (
    FakeModel,
    UserError,
    compute_artscore,
    compute_facescore,
    compute_facesim_cur,
    load_artscore_model,
    register_model,
)
from beholder._errors import DeviceError, OptionError, WeightsMismatchError, WeightsMissingError
from beholder._identity import MetricSpec
from beholder.backends import pool
from beholder.backends.artscore import ArtScorer
from beholder.backends.cards_scores import ARTSCORE_FILE
from beholder.helpers.calls import release_models

ALICE, BOB = 0, 60
"""Angles of two persons' embeddings: their cosine is 0.5."""


@pytest.fixture(autouse=True)
def no_models_kept() -> Iterator[None]:
    release_models()
    yield
    release_models()


@pytest.fixture
def faces() -> DrawnFaces:
    made = DrawnFaces()
    register_model("drawn", made)
    return made


@pytest.fixture
def reward() -> FakeModel:
    made = FakeModel("Matcher", "reward")
    register_model("reward", made)
    return made


FACESCORE = {"detector": "drawn", "model_name": "reward"}


def one_face(path: Path, angle: int = ALICE, mark: int = 190) -> str:
    return draw(path, (angle, mark, (8, 8, 24, 28)))


# the page


def test_the_pages_lines_as_they_are_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], faces: DrawnFaces,
    reward: FakeModel,
) -> None:  # fmt: skip
    """Models and the GPU are stood in for; every line after the import is the page's own."""
    monkeypatch.chdir(tmp_path)
    for folder in ("outputs", "ref", "gen", "weights"):
        (tmp_path / folder).mkdir()
    one_face(tmp_path / "outputs" / "face.png")
    for name, real, made in (("face_a", ALICE, ALICE), ("face_b", ALICE, BOB)):
        one_face(tmp_path / "ref" / f"{name}.png", real)
        one_face(tmp_path / "gen" / f"{name}.png", made)
    Image.new("RGB", (300, 200), (200, 120, 40)).save("sample.png")
    make_artscore(tmp_path / "weights" / ARTSCORE_FILE)
    monkeypatch.setenv("WORLDFOUNDRY_CKPT_DIR", str(tmp_path / "weights"))
    stand_ins = {"retinaface": faces, "curricularface:ir-101": faces, "facescore": reward}
    resolve, load = pool.resolve_model, pool.load_model

    def resolved(name: str, **settings: Any) -> Any:
        if name in stand_ins:
            return dataclasses.replace(stand_ins[name].model, asked=name)
        return resolve(name, **settings)

    monkeypatch.setattr(pool, "resolve_model", resolved)
    monkeypatch.setattr(
        pool,
        "load_model",
        lambda model, device: stand_ins[model.asked] if model.asked in stand_ins else load(model, device="cpu"),
    )
    # Not `choose_device`: a module that is first imported meanwhile would keep another one for good.
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)

    score = compute_facescore("outputs/face.png", device="cuda")
    print(score)  # noqa: T201

    model = load_artscore_model(device="cuda")
    image = Image.open("sample.png").convert("RGB")
    score = model(image)
    print(float(score))  # noqa: T201

    score = compute_facesim_cur(
        ref_paths=["ref/face_a.png", "ref/face_b.png"],
        gen_paths=["gen/face_a.png", "gen/face_b.png"],
        device="cuda",
    )
    print(score)  # noqa: T201

    lines = [float(line) for line in capsys.readouterr().out.splitlines()]
    assert -4 <= lines[0] <= 4
    assert lines[1] == model.score("sample.png")
    assert lines[2] == pytest.approx((1 + 0.5) / 2, abs=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda: compute_facescore("x.png", device="cuda"),
        lambda: compute_facesim_cur(["a.png"], ["b.png"], device="cuda"),
        lambda: load_artscore_model(device="cuda"),
    ],
)
def test_a_gpu_that_is_not_there_is_a_clear_error(call: Any) -> None:
    import torch

    if torch.cuda.is_available():
        return
    with pytest.raises(DeviceError, match="needs a CUDA GPU"):
        call()


def test_missing_weights_are_one_message() -> None:
    with pytest.raises(WeightsMissingError, match=r"facescore|retinaface"):
        compute_facescore("x.png")
    with pytest.raises(
        WeightsMissingError, match=r"(?s)non-commercial.*WORLDFOUNDRY_OPENS2V_WEIGHT_DIR.*beholder\[faces\]"
    ):
        compute_facesim_cur(["a.png"], ["b.png"])
    with pytest.raises(WeightsMissingError, match=ARTSCORE_FILE.replace("[", r"\[")):
        load_artscore_model()


# compute_facescore


def test_faces_of_a_result(tmp_path: Path, faces: DrawnFaces, reward: FakeModel) -> None:
    path = draw(tmp_path / "two.png", (ALICE, 190, (4, 4, 14, 16)), (BOB, 180, (20, 10, 50, 40)))
    results = {how: compute_facescore(path, aggregate=how, **FACESCORE) for how in ("mean", "min", "max", "largest")}
    scores = [face.score for face in results["mean"].faces]
    assert results["mean"].n_faces == 2
    assert scores[0] != scores[1]
    assert {how: float(result) for how, result in results.items()} == pytest.approx(
        {"mean": sum(scores) / 2, "min": min(scores), "max": max(scores), "largest": scores[1]}
    )
    first = results["mean"].faces[0]
    assert (first.box, first.confidence, first.official) == ((4.0, 4.0, 14.0, 16.0), pytest.approx(0.95), first.score)
    assert str(results["mean"]) == str(results["mean"].value)
    assert {result.aggregate for result in results.values()} == set(results)
    from_memory = compute_facescore(Image.open(path), **FACESCORE)
    assert float(from_memory) == float(results["mean"])
    assert float(compute_facescore(np.asarray(Image.open(path)), **FACESCORE)) == float(from_memory)


def test_pictures_without_a_score_have_a_status(tmp_path: Path, faces: DrawnFaces, reward: FakeModel) -> None:
    faint = compute_facescore(one_face(tmp_path / "faint.png", mark=179), **FACESCORE)
    assert (faint.value, faint.status, faint.n_faces) == (None, "no_face", 0)
    assert "no_face" in str(faint)
    assert "0.8999" in str(faint)
    with pytest.raises(UserError, match="status no_face"):
        float(faint)
    assert float(compute_facescore(str(tmp_path / "faint.png"), threshold=0.85, **FACESCORE)) < math.inf
    (tmp_path / "broken.png").write_bytes(b"no picture")
    assert compute_facescore(str(tmp_path / "broken.png"), **FACESCORE).status == "unreadable"
    assert compute_facescore(str(tmp_path / "not there é.png"), **FACESCORE).status == "missing"
    with pytest.raises(OptionError, match="aggregate"):
        compute_facescore(str(tmp_path / "faint.png"), aggregate="median", **FACESCORE)
    with pytest.raises(OptionError, match="one picture"):
        compute_facescore([], **FACESCORE)


def test_models_stay_loaded_between_calls(
    tmp_path: Path, faces: DrawnFaces, reward: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = []
    load = pool.load_model
    monkeypatch.setattr(
        pool, "load_model", lambda model, device: loads.append(model.asked) or load(model, device=device)
    )
    path = one_face(tmp_path / "a.png")
    first = compute_facescore(path, **FACESCORE)
    assert float(compute_facescore(path, **FACESCORE)) == float(first)
    assert loads == ["drawn", "reward"]
    release_models()
    compute_facescore(path, **FACESCORE)
    assert len(loads) == 4


def test_a_checkpoint_by_its_path_and_a_configuration_elsewhere(tmp_path: Path, faces: DrawnFaces) -> None:
    folder = make_tiny_reward(tmp_path / "reward", weights="FS_model.pt")
    path = one_face(tmp_path / "a.png")
    by_folder = compute_facescore(path, detector="drawn", model_name=str(folder))
    by_file = compute_facescore(path, detector="drawn", model_name=str(folder / "FS_model.pt"))
    assert float(by_file) == float(by_folder)
    elsewhere = tmp_path / "elsewhere.json"
    shutil.move(folder / "med_config.json", elsewhere)
    release_models()
    with pytest.raises(WeightsMissingError, match=r"med_config\.json"):
        compute_facescore(path, detector="drawn", model_name=str(folder / "FS_model.pt"))
    moved = compute_facescore(path, detector="drawn", model_name=str(folder / "FS_model.pt"), med_config=elsewhere)
    assert float(moved) == float(by_folder)
    with pytest.raises(OptionError, match="local checkpoint"):
        compute_facescore(path, detector="drawn", med_config=elsewhere)


# compute_facesim_cur


def test_pairs_and_what_is_missing(tmp_path: Path, faces: DrawnFaces) -> None:
    alice, bob = one_face(tmp_path / "alice.png"), one_face(tmp_path / "bob.png", BOB)
    nobody = draw(tmp_path / "nobody.png")
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    found = compute_facesim_cur(
        [alice, alice, nobody, alice, nobody], [bob, nobody, bob, str(broken), nobody], model="drawn"
    )
    assert [pair.value for pair in found.pairs] == [pytest.approx(0.5, abs=1e-6), None, None, None, None]
    assert [pair.status for pair in found.pairs] == ["ok", "no_face", "no_face", "unreadable", "no_face"]
    assert [pair.side for pair in found.pairs] == [None, "gen", "ref", None, "both"]
    assert (found.n, found.n_missing) == (1, 4)
    assert float(found) == pytest.approx(0.5, abs=1e-6)
    assert found.mean_all == pytest.approx(0.25, abs=1e-6)
    assert str(found) == str(found.value)
    nothing = compute_facesim_cur(nobody, alice, model="drawn")
    assert (nothing.value, nothing.mean_all, nothing.n) == (None, None, 0)
    assert "no_face" in str(nothing)
    with pytest.raises(UserError, match="no_face"):
        float(nothing)


def test_lists_must_fit(faces: DrawnFaces) -> None:
    with pytest.raises(OptionError, match="2 ref_paths and 1 gen_paths"):
        compute_facesim_cur(["a.png", "b.png"], ["c.png"], model="drawn")
    with pytest.raises(OptionError, match="0 ref_paths"):
        compute_facesim_cur([], [], model="drawn")


def test_negative_cosines_stay_unless_they_are_clipped(tmp_path: Path, faces: DrawnFaces) -> None:
    alice, other = one_face(tmp_path / "a.png", 0), one_face(tmp_path / "b.png", 120)
    assert float(compute_facesim_cur(alice, other, model="drawn")) == pytest.approx(-0.5, abs=1e-6)
    assert float(compute_facesim_cur(alice, other, model="drawn", clip=True)) == 0.0


# ArtScore


@pytest.fixture
def art(tmp_path: Path) -> Path:
    return make_artscore(tmp_path / "any name.pt", seed=3)


def test_every_form_of_a_picture_scores_the_same(art: Path, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    colour = Image.fromarray(generator.integers(0, 256, (90, 60, 3), dtype=np.uint8))
    gray = Image.fromarray(generator.integers(0, 256, (90, 60), dtype=np.uint8))
    model = load_artscore_model(art)
    opaque = colour.convert("RGBA")
    palette = colour.quantize(16)
    wide = Image.fromarray(np.asarray(gray).astype(np.uint16) * 257)
    assert type(model(colour)) is float
    assert model(opaque) == model(colour)
    assert model(palette) == model(palette.convert("RGB"))
    assert model(gray) == model(gray.convert("RGB"))
    assert model(wide) == pytest.approx(model(gray), abs=1e-6)
    colour.save(tmp_path / "a.png")
    assert model.score(tmp_path / "a.png") == model(colour) == compute_artscore(tmp_path / "a.png", checkpoint_path=art)
    several = model([colour, gray])
    assert isinstance(several, np.ndarray)
    assert several.tolist() == pytest.approx([model(colour), model(gray)], abs=1e-6)
    assert model(colour) == model(colour), "eval mode"
    table = beholder.score(MetricSpec("artscore", {"model": f"artscore:{art}"}), images=colour)
    assert float(table) == pytest.approx(model(colour), abs=1e-6)


def test_resizings_info_and_the_input_itself(art: Path) -> None:
    square, wide = (
        Image.new("RGB", (50, 50), (9, 99, 199)),
        Image.fromarray(np.random.default_rng(1).integers(0, 256, (40, 80, 3), dtype=np.uint8)),
    )
    train, readme = (load_artscore_model(art, resize=way) for way in ("train", "readme"))
    assert train(square) == readme(square)
    assert train(wide) != readme(wide)
    assert (train.transform(wide).shape, readme.transform(wide).shape) == ((3, 224, 224), (3, 224, 448))
    expected = (np.array([9, 99, 199]) / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    np.testing.assert_allclose(train.transform(square)[:, 7, 8], expected, rtol=1e-5)
    assert train.info["checkpoint"] == "any name.pt"
    assert train.info["network"] == "resnet50 with two maps behind it"
    assert readme.info["preprocessing"]["resize"] == "shortest"
    assert "ranks and differences" in " ".join(load_artscore_model(art).info["notes"])
    with pytest.raises(OptionError, match="train, readme"):
        load_artscore_model(art, resize="crop")


def test_artscores_of_what_cannot_be_read_and_of_wrong_files(art: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"no picture")
    model = load_artscore_model(art)
    with pytest.raises(UserError, match="unreadable"):
        model(str(tmp_path / "broken.png"))
    with pytest.raises(OptionError, match="at least one picture"):
        model([])
    import torch

    state = torch.load(art, weights_only=True)
    state.pop("fc.3.weight")
    torch.save(state, tmp_path / "less.pth")
    with pytest.raises(WeightsMismatchError, match=r"1 missing: fc\.3\.weight"):
        load_artscore_model(tmp_path / "less.pth")
    model.close()
    assert isinstance(model._quick.load()[next(iter(model._plan.models))], ArtScorer)
