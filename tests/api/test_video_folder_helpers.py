"""compute_facesim_cur_videos and joined folders: OpenS2V's rules row by row, and what has no partner."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.media.video_inputs import clip as encoded
from tests.media.video_inputs import needs_av
from tests.metrics.test_face_metrics import DrawnFaces, cos, draw

from beholder import compute_facesim_cur, compute_facesim_cur_videos, register_model
from beholder._errors import InputError, UserError
from beholder.backends import pool
from beholder.helpers.calls import release_models
from beholder.helpers.video_sets import read_video_set

BOX = (8, 8, 24, 28)


@pytest.fixture(autouse=True)
def no_models_kept() -> Iterator[None]:
    release_models()
    yield
    release_models()


@pytest.fixture
def faces(monkeypatch: pytest.MonkeyPatch) -> DrawnFaces:
    """Drawn faces in the place of the real face models."""
    made = DrawnFaces()
    register_model("drawn", made)
    names = ("curricularface:ir-101", "insightface")
    resolve, load = pool.resolve_model, pool.load_model

    def resolved(name: str, **settings: Any) -> Any:
        return dataclasses.replace(made.model, asked=name) if name in names else resolve(name, **settings)

    monkeypatch.setattr(pool, "resolve_model", resolved)
    monkeypatch.setattr(
        pool, "load_model", lambda model, device: made if model.asked in names else load(model, device=device)
    )
    return made


def video(path: Path, angles: Sequence[int | None]) -> None:
    """A clip without loss; None is a frame without a face."""
    import av

    frames = []
    for angle in angles:
        pixels = np.full((48, 64, 3), 100, dtype=np.uint8)
        if angle is not None:
            pixels[BOX[1] : BOX[3], BOX[0] : BOX[2]] = (angle, 190, 255)
        frames.append(av.VideoFrame.from_ndarray(pixels, format="rgb24"))
    container = "mp4" if path.suffix == ".mp4" else "matroska"
    encoded(
        "libx264rgb", container, count=len(frames), size=(64, 48), pix_fmt="rgb24", options={"qp": "0"},
        frames=frames, path=path,
    )  # fmt: skip


def write(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


PERSON = "images/man/1.png"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Videos and references of every row of the rules."""
    draw(tmp_path / "refs" / PERSON, (0, 190, BOX))
    draw(tmp_path / "refs" / "images" / "woman" / "nobody.png")
    draw(tmp_path / "refs" / "images" / "thing" / "cup.png", (90, 190, BOX))
    (tmp_path / "refs" / "images" / "man" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    videos = tmp_path / "videos"
    videos.mkdir()
    clips: dict[str, Sequence[int | None]] = {
        "singleface_1.mp4": [0, 60, 120, None], "singlehuman_2.mp4": [None, None], "faceobj_3.mp4": [120, 120],
        "humanobj_4.mp4": [0], "multiface_5.mp4": [0], "singleface_6.mkv": [0, 60], "singleface_8.mp4": [0],
        "singleface_9.mp4": [0], "singleface_10.mp4": [0], "singleface_11.mp4": [0], "singleface_13.x.mp4": [60],
    }  # fmt: skip
    for name, angles in clips.items():
        video(videos / name, angles)
    (videos / "singleface_12.mp4").write_bytes(b"no video at all")
    thing = "images/thing/cup.png"
    listed = {
        "singleface_1": [thing, PERSON, "images/woman/nobody.png"], "singlehuman_2": [PERSON], "faceobj_3": [PERSON],
        "humanobj_4": [thing], "multiface_5": [PERSON], "singleface_6": [PERSON], "singleface_7": [PERSON],
        "singleface_9": ["images/woman/nobody.png"], "singleface_10": ["images/man/broken.png"],
        "singleface_11": ["images/man/lost.png"], "singleface_12": [PERSON], "singleface_13.x": [PERSON],
    }  # fmt: skip
    write(tmp_path / "eval.json", {stem: {"img_paths": paths} for stem, paths in listed.items()})
    return tmp_path


def called(data: Path, **options: Any) -> dict[str, dict[str, Any]]:
    return compute_facesim_cur_videos(
        input_video_folder=data / "videos", input_image_folder=str(data / "refs"), input_json_file=data / "eval.json",
        **options,
    )  # fmt: skip


@needs_av
def test_every_row_of_the_rules(data: Path, faces: DrawnFaces) -> None:
    found = called(data)
    assert list(found) == [
        "faceobj_3", "humanobj_4", "multiface_5", *(f"singleface_{n}" for n in (1, 6, 7, 8, 9, 10, 11, 12)),
        "singleface_13.x", "singlehuman_2",
    ]  # fmt: skip
    statuses = {stem: entry["status"] for stem, entry in found.items()}
    assert statuses == {
        "singleface_1": "ok", "singlehuman_2": "no_face", "faceobj_3": "ok", "humanobj_4": "not_applicable",
        "multiface_5": "not_applicable", "singleface_6": "ok", "singleface_7": "missing",
        "singleface_8": "no_reference", "singleface_9": "no_face", "singleface_10": "unreadable",
        "singleface_11": "missing", "singleface_12": "unreadable", "singleface_13.x": "ok",
    }  # fmt: skip
    assert json.loads(json.dumps(found)) == found
    assert all((entry["cur_score"] is None) == (entry["reason"] is not None) for entry in found.values())
    # What the published script writes: nothing for most, its 0.0 for a face in no frame.
    written = {stem: entry["official"] for stem, entry in found.items() if entry["official_included"]}
    assert written == {"singleface_1": found["singleface_1"]["cur_score"], "singlehuman_2": 0.0, "faceobj_3": 0.0}
    assert all(entry["official"] is None for entry in found.values() if not entry["official_included"])
    assert (found["singlehuman_2"]["side"], found["singleface_9"]["side"]) == ("gen", "ref")
    assert {stem for stem, entry in found.items() if "notes" in entry} == {"singleface_6", "singleface_13.x"}
    assert found["singleface_13.x"]["cur_score"] == pytest.approx(0.5, abs=1e-6)


@needs_av
def test_the_official_value_and_its_companions(data: Path, faces: DrawnFaces) -> None:
    entry = called(data)["singleface_1"]
    # Frames 0 to 3 for 32 places, ⌊3 i / 31⌋: frame 3, which shows no face, has the last place only.
    places = np.bincount([3 * i // 31 for i in range(32)])
    cosines = np.repeat([cos(0), cos(60), cos(120)], places[:3])
    assert entry["reference"] == PERSON, "the first person, not the first reference"
    assert entry["cur_score"] == pytest.approx(cosines[cosines > 0].mean(), abs=1e-6)
    assert (entry["n_frames"], entry["n_detected"], entry["n_positive"]) == (32, 31, (cosines > 0).sum())
    assert entry["detection_rate"] == 31 / 32
    assert entry["mean_raw"] == pytest.approx(cosines.mean(), abs=1e-6)
    assert entry["mean_detected"] == pytest.approx(np.maximum(cosines, 0).mean(), abs=1e-6)
    assert entry["mean_all"] == pytest.approx(np.maximum(cosines, 0).sum() / 32, abs=1e-6)
    negative = called(data)["faceobj_3"]
    assert (negative["cur_score"], negative["mean_raw"]) == (0.0, pytest.approx(-0.5, abs=1e-6))


@needs_av
def test_arc_score_keeps_zeros_and_other_settings_are_not_official(data: Path, faces: DrawnFaces) -> None:
    found = called(data, arc_score=True)
    one = found["singleface_1"]
    assert one["arc_score"] == pytest.approx(one["mean_detected"], abs=1e-6), "one model stands in for both"
    assert found["singlehuman_2"]["arc_score"] is None
    for options in ({"matching": "best"}, {"frames": "uniform:8"}, {"model": "drawn"}):
        other = called(data, **options)["singleface_1"]
        assert other["status"] == "ok"
        assert (other["official"], other["official_included"]) == (None, False)


@needs_av
def test_nothing_to_score_asks_for_no_model(tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    video(tmp_path / "videos" / "multihuman_1.mp4", [0])
    write(tmp_path / "eval.json", {"multihuman_1": {"img_paths": [PERSON]}})
    (tmp_path / "refs").mkdir()
    assert called(tmp_path, offline=True)["multihuman_1"]["status"] == "not_applicable"


# the folder and the JSON file


def names(folder: Path, *files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for file in files:
        (folder / file).write_bytes(b"")
    return folder


def test_both_sides_are_joined_and_nothing_is_dropped(tmp_path: Path) -> None:
    videos = names(tmp_path / "v", "b_10.mp4", "b_2.mp4", "x.y.mov", "notes.txt", ".hidden.mp4")
    told = write(tmp_path / "e.json", {"b_2": {"img_paths": ["a"], "class_label": ["Man"], "prompt": "p"}, "c": {}})
    found = read_video_set(videos, told)
    assert [(e.stem, e.video is not None, e.listed, e.seen_officially) for e in found] == [
        ("b_2", True, True, True), ("b_10", True, False, True), ("c", False, True, False), ("x.y", True, False, False),
    ]  # fmt: skip
    assert (found[0].img_paths, found[0].labels, found[0].prompt) == (("a",), ("Man",), "p")


def test_all_faults_of_the_form_are_told_at_once(tmp_path: Path) -> None:
    videos = names(tmp_path / "v", "a.mp4", "a.mkv", "b.mp4")
    content = {
        "b": {"img_paths": ["1", "2"], "class_label": ["Man"]}, "c": ["x"], "d": {"img_paths": "one.png"},
        "e": {"prompt": 3},
    }  # fmt: skip
    with pytest.raises(InputError) as caught:
        read_video_set(videos, write(tmp_path / "e.json", content))
    assert [fault.where for fault in caught.value.faults] == ["a", "b", "c", "d", "e"]
    assert "a.mkv, a.mp4" in str(caught.value)
    assert "2 img_paths and 1 class_label" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "must be JSON"), ("[]", "object of entries"), ('{"z": {}}', "no entry has a video"), (None, "can be read")],
)
def test_files_of_another_kind(tmp_path: Path, text: str | None, said: str) -> None:
    videos = names(tmp_path / "v", "a.mp4")
    if text is not None:
        (tmp_path / "e.json").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=said):
        read_video_set(videos, tmp_path / "e.json")
    with pytest.raises(UserError, match="found 0 videos"):
        read_video_set(names(tmp_path / "none"), write(tmp_path / "f.json", {"a": {}}))


# two folders of pictures


def test_folders_are_joined_by_name_not_by_position(tmp_path: Path, faces: DrawnFaces) -> None:
    for number, angle in ((1, 0), (2, 60), (10, 90)):
        draw(tmp_path / "ref" / "people" / f"{number}.png", (angle, 190, BOX))
        draw(tmp_path / "gen" / "people" / f"{number}.bmp", (angle, 180, BOX))
    found = compute_facesim_cur(tmp_path / "ref", str(tmp_path / "gen"), model="drawn")
    assert [pair.value for pair in found.pairs] == [pytest.approx(1.0, abs=1e-6)] * 3
    assert [Path(pair.reference).name for pair in found.pairs] == ["1.png", "2.png", "10.png"]
    assert found.leftovers == ()


def test_files_without_a_partner_are_listed(tmp_path: Path, faces: DrawnFaces) -> None:
    for name in ("ref/a.png", "ref/only_ref.png", "gen/a.png", "gen/only_gen.png"):
        draw(tmp_path / name, (0, 190, BOX))
    with pytest.raises(InputError) as caught:
        compute_facesim_cur(tmp_path / "ref", tmp_path / "gen", model="drawn")
    assert [Path(str(fault.where)).name for fault in caught.value.faults] == ["only_ref.png", "only_gen.png"]
    found = compute_facesim_cur(tmp_path / "ref", tmp_path / "gen", model="drawn", allow_extra=True)
    assert (found.n, [Path(path).name for path in found.leftovers]) == (1, ["only_ref.png", "only_gen.png"])
    draw(tmp_path / "gen" / "a.bmp", (0, 190, BOX))
    with pytest.raises(InputError, match="another extension"):
        compute_facesim_cur(tmp_path / "ref", tmp_path / "gen", model="drawn", allow_extra=True)
    draw(tmp_path / "other" / "z.png", (0, 190, BOX))
    with pytest.raises(InputError, match="no file of this name"):
        compute_facesim_cur(tmp_path / "ref", tmp_path / "other", model="drawn", allow_extra=True)


def test_a_folder_in_a_list_is_a_video(tmp_path: Path, faces: DrawnFaces) -> None:
    for at, angle in enumerate((0, 60)):
        draw(tmp_path / "clip" / f"{at}.png", (angle, 190, BOX))
    person = draw(tmp_path / "person.png", (0, 190, BOX))
    found = compute_facesim_cur([person], [tmp_path / "clip"], model="drawn")
    # ⌊i / 31⌋ of 32 places: the second frame has the last one.
    assert found.pairs[0].value == pytest.approx((31 * 1.0 + 0.5) / 32, abs=1e-6)
