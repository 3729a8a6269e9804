"""compute_gme_score, compute_nexus_score, compute_natural_score: as typed, with injected models; bad input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.metrics.test_natural_score import Judge
from tests.metrics.test_nexus_score import GREEN, RED, Colours, MeanColour

import beholder
from beholder._errors import DeviceError, InputError, ModelError, UserError, WeightsMissingError
from beholder.backends import devices


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str, str]:
    """Videos, references and manifest, as the page names them."""
    pytest.importorskip("av", reason="PyAV is not installed (base environment)")
    import av

    videos, refs = tmp_path / "videos", tmp_path / "ref_images"
    refs.mkdir()
    Image.new("RGB", (6, 6), RED).save(refs / "red.png")
    Image.new("RGB", (6, 6), GREEN).save(refs / "green.png")
    videos.mkdir()
    for stem, colours in (("singleobj_1", [RED]), ("multiobject_2", [RED, GREEN]), ("lonely.v2", [RED])):
        with av.open(str(videos / f"{stem}.mp4"), "w") as container:
            stream = container.add_stream("libx264rgb", rate=8, options={"qp": "0"})
            stream.width, stream.height, stream.pix_fmt = 64, 32, "rgb24"
            for _ in range(4):
                pixels = np.zeros((32, 64, 3), np.uint8)
                for place, colour in enumerate(colours):
                    pixels[4:12, 20 * place + 2 : 20 * place + 12] = colour
                pixels[-1, -1] = (90, 0, 0)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, "rgb24")))
            container.mux(stream.encode())
    (videos / "broken_3.mp4").write_bytes(b"no video at all")
    manifest = tmp_path / "eval.json"
    manifest.write_text(json.dumps({
        "singleobj_1": {"img_paths": ["red.png"], "class_label": ["Cup"], "prompt": "a cup"},
        "multiobject_2": {"img_paths": ["red.png", "green.png"], "class_label": ["Cup", "Park"]},
        "broken_3": {"img_paths": ["red.png"], "class_label": ["Cup"], "prompt": "a cup"},
        "absent_4": {"img_paths": ["red.png"], "class_label": ["Cup"], "prompt": "a cup"},
        "singleface_5": {"img_paths": ["red.png"], "class_label": ["Woman"], "prompt": "a woman"},
    }))  # fmt: skip
    (videos / "singleface_5.mp4").write_bytes((videos / "singleobj_1.mp4").read_bytes())
    monkeypatch.setenv("BEHOLDER_CACHE", str(tmp_path / "cache"))
    return str(videos), str(refs), str(manifest)


def test_the_pages_calls(data: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    videos, refs, manifest = data
    Colours()
    MeanColour()
    Judge(["4", "4/5", "Score: 3"])
    monkeypatch.setattr(devices, "_check_cuda", lambda *_: None)
    from beholder.helpers import opens2v

    stand_ins = {
        opens2v.compute_gme_score: {"model": "mean-colour"},
        opens2v.compute_nexus_score: {"model": "mean-colour", "detector": "colours"},
        opens2v.compute_natural_score: {"model": "judge"},
    }
    for call, models in stand_ins.items():
        monkeypatch.setattr(call, "__kwdefaults__", {**(call.__kwdefaults__ or {}), **models})
    from beholder import (
        compute_gme_score,
        compute_natural_score,
        compute_nexus_score,
    )

    gme = compute_gme_score(
        input_video_folder=videos,
        input_image_folder=refs,
        input_json_file=manifest,
        device="cuda",
    )
    nexus = compute_nexus_score(
        input_video_folder=videos,
        input_image_folder=refs,
        input_json_file=manifest,
        device="cuda",
    )
    natural = compute_natural_score(
        input_video_folder=videos,
        input_json_file=manifest,
    )  # needs OPENAI_API_KEY
    json.dumps([gme, nexus, natural], allow_nan=False)
    stems = {"absent_4", "broken_3", "lonely.v2", "multiobject_2", "singleface_5", "singleobj_1"}
    assert set(gme) == set(nexus) == set(natural) == stems

    assert {stem: entry["status"] for stem, entry in gme.items()} == {
        "absent_4": "missing", "broken_3": "unreadable", "lonely.v2": "empty_prompt",
        "multiobject_2": "empty_prompt", "singleface_5": "ok", "singleobj_1": "ok",
    }  # fmt: skip
    assert gme["singleobj_1"]["official"] == gme["singleobj_1"]["gme_score"]
    assert gme["singleobj_1"]["official_included"] is True
    assert len(gme["singleobj_1"]["per_frame"]) == 32

    assert {stem: entry["status"] for stem, entry in nexus.items()} == {
        "absent_4": "missing", "broken_3": "unreadable", "lonely.v2": "no_reference",
        "multiobject_2": "ok", "singleface_5": "not_applicable", "singleobj_1": "ok",
    }  # fmt: skip
    assert nexus["singleobj_1"]["nexus_score"] == pytest.approx(1 / 32, abs=1e-3)
    assert [item["label"] for item in nexus["multiobject_2"]["references"]] == ["Cup", "Park"]
    assert nexus["singleface_5"]["reason"].startswith("no_pairs")

    assert natural["singleobj_1"]["natural_score"] == pytest.approx(11 / 3)
    assert natural["singleobj_1"]["runs"] == [4, 4, 3]
    assert natural["lonely.v2"]["status"] == "ok"
    assert "no entry" in natural["lonely.v2"]["notes"][0]
    assert natural["broken_3"]["status"] == "unreadable"


def test_a_machine_without_cuda(data: tuple[str, str, str]) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("needs a machine without a GPU")
    videos, refs, manifest = data
    with pytest.raises(DeviceError, match="cuda"):
        beholder.compute_gme_score(
            input_video_folder=videos, input_image_folder=refs, input_json_file=manifest, device="cuda"
        )


def test_a_missing_key_comes_before_everything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ModelError, match="OPENAI_API_KEY"):
        beholder.compute_natural_score(input_video_folder=tmp_path / "nowhere", input_json_file="nowhere.json")


def test_all_missing_weights_in_one_message(data: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    videos, refs, manifest = data
    for name in ("WORLDFOUNDRY_YOLO_WORLD_CKPT", "WORLDFOUNDRY_YOLO_CLIP_MODEL", "WORLDFOUNDRY_GME_MODEL_PATH"):
        monkeypatch.setenv(name, "/nowhere")
    with pytest.raises(WeightsMissingError) as caught:
        beholder.compute_nexus_score(videos, refs, manifest, device="cpu", offline=True)
    text = str(caught.value)
    for name in ("WORLDFOUNDRY_YOLO_WORLD_CKPT", "WORLDFOUNDRY_YOLO_CLIP_MODEL", "WORLDFOUNDRY_GME_MODEL_PATH"):
        assert name in text


def test_wrong_files(tmp_path: Path) -> None:
    MeanColour()
    with pytest.raises(UserError):
        beholder.compute_gme_score(tmp_path, None, tmp_path / "none.json", device="cpu", model="mean-colour")
    with pytest.raises(UserError, match="input_json_file"):
        beholder.compute_gme_score(tmp_path, device="cpu")
    (tmp_path / "eval.json").write_text('{"a": {"img_paths": ["x", "y"], "class_label": ["Cup"]}, "b": 3}')
    Image.new("RGB", (4, 4)).save(tmp_path / "x.png")
    with pytest.raises((InputError, UserError)) as caught:
        beholder.compute_gme_score(tmp_path, None, tmp_path / "eval.json", device="cpu", model="mean-colour")
    assert "eval.json" in str(caught.value) or "video" in str(caught.value)
