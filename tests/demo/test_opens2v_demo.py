"""The worked set of opens2v: drawn videos, stand-ins, the whole path, and what its numbers show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from beholder._errors import UserError
from beholder.demo import opens2v
from beholder.demo.opens2v import MARK, METHODS, SUBJECTS, draw_video, run_opens2v_demo
from beholder.demo.stand_ins import ColourDetector, SteadyJudge
from beholder.media.base import Picture
from beholder.media.clip_writer import write_clip
from beholder.protocol_runs import ProtocolRun, finished_run, make_protocol
from beholder.protocols.opens2v.board import PARTS
from beholder.protocols.opens2v.official import read_official
from beholder.runs.progress import NoProgress

TOTAL = "Total v1.1 open"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> ProtocolRun:
    import os

    folder = tmp_path_factory.mktemp("demo")
    os.environ["BEHOLDER_CACHE"] = str(folder / "cache")
    try:
        return run_opens2v_demo(str(folder / "out"), subjects=(SUBJECTS[0], SUBJECTS[3], SUBJECTS[5]))
    finally:
        del os.environ["BEHOLDER_CACHE"]


def test_the_manifest_has_the_published_shape(demo: ProtocolRun) -> None:
    folder = demo.run.path.parent
    manifest = json.loads((folder / "eval.json").read_text())
    assert set(manifest) == {"singleobj_1", "singleface_1", "faceobj_1"}
    for entry in manifest.values():
        assert set(entry) == {"img_paths", "prompt", "synthesis_flag", "class_label"}
        assert len(entry["img_paths"]) == len(entry["class_label"])
        assert all((folder / path).is_file() for path in entry["img_paths"])
    assert len(list((folder / "videos").glob("*/*"))) == 3 * len(METHODS)


def test_the_numbers_show_what_the_set_was_drawn_for(demo: ProtocolRun) -> None:
    board, beside = demo.results.table("board"), demo.results.table("companions")

    def part(model: str, column: str, table: Any = board) -> float:
        value = table.number(model, column=column).value
        assert value is not None
        return float(value)

    assert part("steady", "FaceSim") > 50 > part("swapped", "FaceSim")
    assert part("steady", "GmeScore") > part("swapped", "GmeScore")
    assert part("steady", "Smoothness") > part("flicker", "Smoothness")
    assert part("flicker", "NexusScore") > part("steady", "NexusScore"), "the official value pays for flicker"
    assert part("steady", "Nexus corrected", beside) > part("flicker", "Nexus corrected", beside)
    assert part("steady", "Nexus coverage", beside) > part("flicker", "Nexus coverage", beside)


def test_totals_are_those_of_the_parts(demo: ProtocolRun) -> None:
    pytest.importorskip("cv2")
    board = demo.results.table("board")
    weights = {"Aesthetic": 0.16, "Smoothness": 0.06, "Amplitude": 0.02, "FaceSim": 0.20, "GmeScore": 0.12,
               "NexusScore": 0.20, "NaturalScore": 0.24}  # fmt: skip
    for model in ("steady", "flicker"):
        parts = {name: board.number(model, column=name).value for name in weights}
        total = board.number(model, column=TOTAL).value
        assert total == pytest.approx(sum(weight * (parts[name] or 0) for name, weight in weights.items()), abs=1e-9)
    swapped = board.number("swapped", column=TOTAL)
    assert swapped.value is None
    assert swapped.note == "no total: NexusScore without any value"
    assert board.number("swapped", column="Partial sum").value is not None


def test_every_video_without_a_part_has_its_reason(demo: ProtocolRun) -> None:
    why = {number.row[:3]: (number.row[3], number.note) for number in demo.results.table("why").numbers}
    assert why["swapped", "singleobj_1", "NexusScore"][0] == "no_detection"
    status, reason = why["steady", "singleface_1", "NexusScore"]
    assert status == "not_applicable"
    assert reason is not None
    assert "no_pairs" in reason
    assert why["steady", "singleobj_1", "FaceSim"][0] == "not_applicable"
    assert ("steady", "singleobj_1", "NexusScore") not in why


def test_official_files_go_round(demo: ProtocolRun, tmp_path: Path) -> None:
    pytest.importorskip("av", reason="PyAV is not installed (base environment)")
    protocol = make_protocol("opens2v")
    finished = finished_run(demo.run)
    with pytest.raises(UserError, match="one model"):
        protocol.export(finished)  # type: ignore[attr-defined]
    pytest.importorskip("cv2")
    table = demo.results.table("board")
    for model in METHODS:
        folder = tmp_path / model
        folder.mkdir()
        for name, data in protocol.export(finished, model).items():  # type: ignore[attr-defined]
            (folder / name).write_bytes(data)
        assert {path.stem for path in folder.iterdir()} == {
            "aesthetic_score", "motion_amplitude", "motion_smoothness", "facesim", "gmescore", "nexusscore",
            "naturalscore_1", "naturalscore_2", "naturalscore_3",
        }  # fmt: skip
        board = read_official(folder).board(version="1.1", track="open")
        told = {key: table.number(model, column=PARTS[key].title).value for key in board.parts}
        for key, part in board.parts.items():
            assert (part is None) == (told[key] is None), key
            assert part is None or 100 * part == pytest.approx(told[key], abs=1e-9), key
        total = table.number(model, column=TOTAL).value
        assert (board.total is None) == (total is None) == (model == "swapped")
        assert total is None or 100 * (board.total or 0) == pytest.approx(total, abs=1e-9)
        faces = json.loads((folder / "facesim.json").read_text())
        assert set(faces) == {"singleface_1", "faceobj_1"}
        assert all(set(entry) == {"cur_score"} for entry in faces.values())
    assert json.loads((tmp_path / "swapped" / "nexusscore.json").read_text()) == {}, "nothing found: no video, no zero"


def test_without_mp4_nothing_is_official(demo: ProtocolRun) -> None:
    if any((demo.run.path.parent / "videos").glob("*/*.mp4")):
        return
    assert make_protocol("opens2v").export(finished_run(demo.run), "steady") == {}  # type: ignore[attr-defined]


def test_the_command_says_stand_in_on_every_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo: ProtocolRun
) -> None:
    from typer.testing import CliRunner

    from beholder.cli.main import app

    monkeypatch.setattr("beholder.demo.opens2v.run_opens2v_demo", lambda *_, **__: demo)
    done = CliRunner().invoke(app, ["demo", "--protocol", "opens2v", "-o", str(tmp_path / "out")])
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert len(lines) > 20
    assert all(line.startswith(MARK.rstrip()) for line in lines)
    (told,) = [line for line in done.stderr.splitlines() if "Run folder" in line]
    assert told.startswith(MARK)
    assert "Kling" not in done.stdout, "no published row stands beside stand-ins"


def test_the_detector_finds_the_examples_colours() -> None:
    detector = ColourDetector()
    example = np.full((20, 20, 3), 255, np.uint8)
    example[4:16, 4:16] = (200, 30, 30)
    frame = np.full((40, 60, 3), 255, np.uint8)
    frame[10:20, 30:45] = (200, 30, 30)
    empty = np.full((40, 60, 3), 255, np.uint8)
    pictures = [Picture(array, (array.shape[1], array.shape[0]), "RGB") for array in (frame, empty)]
    prompt = detector.prepare_example(Picture(example, (20, 20), "RGB"))
    made = detector.detect_examples([detector.prepare([item]) for item in pictures], [(0, prompt), (1, prompt)])
    assert made.columns["boxes"][0].tolist() == [[30, 10, 45, 20]]
    assert made.columns["scores"][0].tolist() == pytest.approx([1.0])
    assert len(made.columns["boxes"][1]) == 0


def test_the_judge_prefers_steady_frames() -> None:
    judge = SteadyJudge()
    rng = np.random.default_rng(0)
    videos = {method: draw_video(SUBJECTS[0], method, rng) for method in ("steady", "flicker")}
    seen = [judge.prepare([Picture(frame, (128, 128), "RGB") for frame in frames]) for frames in videos.values()]
    marks = judge.reply(seen, [(0, "?"), (1, "?")]).columns["text"]
    assert int(marks[0]) > int(marks[1])


def test_a_clip_is_written_without_loss(tmp_path: Path) -> None:
    frames = draw_video(SUBJECTS[0], "steady", np.random.default_rng(0))[:4]
    path = write_clip(tmp_path / "clip", frames)
    if path.suffix == ".webp":
        with Image.open(path) as image:
            found = []
            for at in range(4):
                image.seek(at)
                found.append(np.asarray(image.convert("RGB")))
    else:
        import av

        with av.open(str(path)) as container:
            found = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    np.testing.assert_array_equal(found, frames)


def test_without_opencv_the_demo_says_why_there_is_no_total(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    class Stop(Exception):
        pass

    class Listener(NoProgress):
        def notice(self, text: str) -> None:
            said.append(text)

        def stage(self, title: str, total: int | None) -> None:
            raise Stop

    for found, count in ((None, 1), (object(), 0)):
        said.clear()
        monkeypatch.setattr("importlib.util.find_spec", lambda name, found=found: found)
        monkeypatch.setattr(opens2v, "make_plan", lambda config: None)
        with pytest.raises(Stop):
            run_opens2v_demo(str(tmp_path / str(count)), progress=Listener())
        assert len(said) == count
    assert "beholder[motion]" in opens2v.NO_OPENCV
