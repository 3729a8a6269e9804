"""Finding the files of face models: places, names, one message for all that is missing, and fetching by address."""

from __future__ import annotations

import http.server
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.models_faces import layout, random_state, save_retinaface

from beholder._errors import (
    MissingExtraError,
    ModelError,
    OptionError,
    UnknownNameError,
    WeightsMismatchError,
    WeightsMissingError,
)
from beholder.backends import cards_faces, hub
from beholder.backends.base import LoadOptions
from beholder.backends.faces import find
from beholder.backends.pool import list_models, load_model, notices, resolve_model
from beholder.media.base import Picture

OFFLINE = LoadOptions(offline=True)


@pytest.fixture(autouse=True)
def no_homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of other tools on this machine are not seen."""
    for name in ("HOME", "TORCH_HOME", "HF_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.delenv("WORLDFOUNDRY_OPENS2V_WEIGHT_DIR", raising=False)


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The packages that are there; a test may take some away."""
    there = {"onnxruntime", "dlib"}
    real = find.importlib.util.find_spec
    monkeypatch.setattr(
        find.importlib.util,
        "find_spec",
        lambda name: (object() if name in there else None) if name in ("onnxruntime", "dlib") else real(name),
    )
    return there


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(path.name.encode())
    return path


def face_model(name: str, options: LoadOptions = OFFLINE) -> Any:
    return resolve_model(name, capability="FaceAnalyser", options=options)


def test_one_message_names_all_that_is_missing(packages: set[str], tmp_path: Path) -> None:
    packages.clear()
    with pytest.raises(WeightsMissingError) as caught:
        face_model("curricularface")
    text = str(caught.value)
    for part in (
        cards_faces.BACKBONE_FILE, cards_faces.DETECTOR_FILE, "non-commercial", 'pip install "beholder[faces]"',
        "is missing too", "WORLDFOUNDRY_OPENS2V_WEIGHT_DIR", "BestWishYsh/OpenS2V-Weight", "offline",
        "curricularface:/path/to/folder", str(tmp_path / "home"),
    ):  # fmt: skip
        assert part in text


def test_only_the_missing_file_is_named(packages: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path / "w" / cards_faces.BACKBONE_FILE)
    monkeypatch.setenv("WORLDFOUNDRY_OPENS2V_WEIGHT_DIR", str(tmp_path / "w"))
    with pytest.raises(WeightsMissingError) as caught:
        # A folder was named, so nothing is fetched although that is allowed.
        face_model("curricularface", LoadOptions(offline=False))
    assert caught.value.got == f"no {cards_faces.DETECTOR_FILE} (detector)"


@pytest.mark.parametrize("folder", ["face_extractor/models/buffalo_l", "models/buffalo_l", "buffalo_l", "."])
def test_the_variables_folder_is_laid_out_like_the_hubs(
    folder: str, packages: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path / "w" / cards_faces.BACKBONE_FILE)
    touch(tmp_path / "w" / folder / cards_faces.DETECTOR_FILE)
    monkeypatch.setenv("WORLDFOUNDRY_OPENS2V_WEIGHT_DIR", str(tmp_path / "w"))
    model = face_model("curricularface")
    assert model.id == "curricularface:ir-101"
    assert model.card.commercial is False
    assert model.capability == "FaceAnalyser"
    assert set(model.locations) == {"detector", "recognition"}


def test_a_missing_package_alone_is_told_with_the_licence(packages: set[str], tmp_path: Path) -> None:
    packages.clear()
    for name in (cards_faces.DETECTOR_FILE, cards_faces.RECOGNITION_FILE):
        touch(tmp_path / "pack" / name)
    with pytest.raises(MissingExtraError, match=r"non-commercial.*beholder\[faces\]"):
        face_model(f"insightface:{tmp_path / 'pack'}")


def test_insightfaces_own_folder_and_the_hubs_cache_serve(packages: set[str], tmp_path: Path) -> None:
    own = tmp_path / "home" / ".insightface" / "models" / "buffalo_l"
    for name in (cards_faces.DETECTOR_FILE, cards_faces.RECOGNITION_FILE):
        touch(own / name)
    assert face_model("insightface:buffalo_l").locations["detector"] == str(own / cards_faces.DETECTOR_FILE)
    snapshot = tmp_path / "home" / "hub" / "models--BestWishYsh--OpenS2V-Weight" / "snapshots" / "abc"
    touch(snapshot / cards_faces.BACKBONE_FILE)
    assert face_model("curricularface").locations["recognition"] == str(snapshot / cards_faces.BACKBONE_FILE)


def test_a_named_folder_is_the_only_place(packages: set[str], tmp_path: Path) -> None:
    save_retinaface(tmp_path / "home" / "hub" / "checkpoints")
    assert face_model("retinaface").id == "retinaface:mobilenet0.25"
    (tmp_path / "empty").mkdir()
    with pytest.raises(WeightsMissingError, match="named"):
        face_model(f"retinaface:{tmp_path / 'empty'}")


def test_a_named_file_and_equal_files_have_one_hash(tmp_path: Path) -> None:
    path = save_retinaface(tmp_path / "a")
    moved = tmp_path / "b" / "other_name.pth"
    moved.parent.mkdir()
    shutil.copy(path, moved)
    model, twin = face_model(f"retinaface:{path}"), face_model(f"retinaface:{moved}")
    assert model.id == "retinaface:./mobilenet0.25_Final.pth"
    assert model.key == twin.key
    assert model.key != face_model(f"retinaface:{save_retinaface(tmp_path / 'c', seed=1)}").key
    with pytest.raises(ModelError, match=r"must end in \.pth"):
        face_model(f"retinaface:{touch(tmp_path / 'x.onnx')}")


def test_wrong_names_and_dtypes() -> None:
    with pytest.raises(UnknownNameError, match=r"retinaface:mobilenet0\.25"):
        face_model("retinaface:mobilenet")
    with pytest.raises(OptionError, match="dtype must be"):
        resolve_model("retinaface", capability="FaceAnalyser", dtype="int8", options=OFFLINE)
    with pytest.raises(OptionError, match="FaceAnalyser"):
        resolve_model("retinaface")


def test_a_damaged_or_foreign_file_is_an_error(packages: set[str], tmp_path: Path) -> None:
    (tmp_path / cards_faces.RETINAFACE_FILE).write_bytes(b"")
    with pytest.raises(WeightsMismatchError, match="is empty"):
        face_model(f"retinaface:{tmp_path}")
    for name in (cards_faces.PREDICTOR_FILE, cards_faces.DLIB_FILE):
        touch(tmp_path / "home" / "cache" / name)
    with pytest.raises(WeightsMismatchError, match=r"shape_predictor_5.* must have sha256"):
        face_model("dlib", LoadOptions(cache_dir=str(tmp_path / "home" / "cache"), offline=True))


def test_weights_that_do_not_fit_are_an_error(tmp_path: Path) -> None:
    state = random_state(layout("retinaface-mobilenet0.25"))
    state.pop("ssh2.conv7x7_3.0.weight")
    torch.save(state, tmp_path / "x.pth")
    with pytest.raises(WeightsMismatchError, match=r"1 missing: ssh2\.conv7x7_3\.0\.weight"):
        load_model(face_model(f"retinaface:{tmp_path / 'x.pth'}"), device="cpu")


def test_cards_are_listed_with_their_licences() -> None:
    cards = {card.id: card for card in list_models()}
    assert cards["curricularface:ir-101"].commercial is False
    assert cards["insightface:buffalo_l"].commercial is False
    assert cards["dlib:resnet-v1"].commercial is True
    assert all(cards[name].licence for name in ("retinaface:mobilenet0.25", "dlib:resnet-v1"))


def test_retinaface_finds_what_its_network_says(tmp_path: Path) -> None:
    """A network whose heads have biases only: every place gives the same answer, whatever the picture."""
    state = {key: torch.zeros_like(value) for key, value in random_state(layout("retinaface-mobilenet0.25")).items()}
    for level in range(3):
        state[f"ClassHead.{level}.conv1x1.bias"] = torch.tensor([0.0, -3.0, 0.0, 3.0 if level == 2 else -3.0])
    torch.save(state, tmp_path / "x.pth")
    analyser = load_model(face_model(f"retinaface:{tmp_path / 'x.pth'}"), device="cpu")
    pictures = [Picture(np.full((h, w, 3), 90, np.uint8), (w, h), "RGB") for h, w in ((40, 70), (64, 64))]
    made = analyser.analyse([analyser.prepare([picture]) for picture in pictures])
    # Only anchors of side 512 say yes, with 1 / (1 + e^-3); they overlap, so one face a picture stays.
    assert [scores.tolist() for scores in made.columns["scores"]] == [pytest.approx([1 / (1 + np.exp(-3))])] * 2
    assert [boxes.tolist() for boxes in made.columns["boxes"]] == [[[0, 0, 70, 40]], [[0, 0, 64, 64]]]
    assert made.columns["areas"][0].tolist() == [512.0**2]
    np.testing.assert_allclose(made.columns["landmarks"][0], np.full((1, 5, 2), 16.0))
    assert "embedding" not in made.columns
    assert not made.failures
    none = analyser.analyse([analyser.prepare([pictures[0]])], threshold=0.99)
    assert none.columns["boxes"][0].shape == (0, 4)
    with pytest.raises(UnknownNameError, match="setting of retinaface"):
        analyser.analyse([], treshold=0.5)
    with pytest.raises(OptionError, match="threshold of retinaface"):
        analyser.analyse([], threshold="high")
    with pytest.raises(OptionError, match="one picture"):
        analyser.prepare(pictures)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A web server of a folder."""
    folder = tmp_path / "web"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(folder))  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as web:
        thread = threading.Thread(target=web.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{web.server_address[1]}", folder
        web.shutdown()
        thread.join()


def test_a_file_on_no_hub_is_fetched_once(
    server: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, folder = server
    path = save_retinaface(folder)
    monkeypatch.setattr(cards_faces, "RETINAFACE_URL", f"{address}/{path.name}")
    options = LoadOptions(cache_dir=str(tmp_path / "weights"), offline=False)
    model = face_model("retinaface", options)
    assert (tmp_path / "weights" / path.name).read_bytes() == path.read_bytes()
    path.unlink()
    assert face_model("retinaface", options).key == model.key
    assert [item.name for item in (tmp_path / "weights").iterdir()] == ["mobilenet0.25_Final.pth"]


def test_a_fetch_that_fails_names_places_licence_and_extra(
    server: tuple[str, Path], packages: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cards_faces, "RETINAFACE_URL", f"{server[0]}/none.pth")
    options = LoadOptions(cache_dir=str(tmp_path / "weights"), offline=False)
    with pytest.raises(WeightsMissingError, match=r"(?s)licence: MIT.*404.*/weights .*retinaface:/path/to/folder"):
        face_model("retinaface", options)
    packages.add("onnxruntime")
    monkeypatch.setenv("HF_ENDPOINT", server[0])
    with pytest.raises(WeightsMissingError, match=r"(?s)non-commercial.*det_10g.*hub.*/weights .*beholder\[faces\]"):
        face_model("insightface", options)


def test_a_fetch_that_fails_leaves_nothing(server: tuple[str, Path], tmp_path: Path) -> None:
    address, folder = server
    options = LoadOptions(cache_dir=str(tmp_path / "weights"))
    with pytest.raises(WeightsMissingError, match=r"404.*\n?.*put it in"):
        hub.fetch_url(f"{address}/none.pth", "none.pth", options, name="x")
    (folder / "some.pth").write_bytes(b"abc")
    with pytest.raises(WeightsMismatchError, match="must have sha256"):
        hub.fetch_url(f"{address}/some.pth", "some.pth", options, name="x", sha256="0" * 64)
    assert list((tmp_path / "weights").iterdir()) == []


def test_face_models_run_in_float32_whatever_is_asked_and_say_so(packages: set[str], tmp_path: Path) -> None:
    path = f"retinaface:{save_retinaface(tmp_path)}"
    plain = face_model(path)
    asked = resolve_model(path, capability="FaceAnalyser", dtype="bf16", options=OFFLINE)
    assert asked.dtype == "float32"
    assert asked.key == plain.key
    told = f"{plain.id} has no other dtype than float32 and runs in that, not in bf16"
    assert notices(asked, dtype="bf16")[0] == told
    assert told not in (*notices(plain), *notices(plain, dtype="fp32"))
