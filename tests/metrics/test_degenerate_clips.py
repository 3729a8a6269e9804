"""Clips that are hardly clips, through all of OpenS2V's measures in one run: each has a status, none costs another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.metrics.test_natural_score import Judge
from tests.metrics.test_nexus_score import RED, Colours, MeanColour
from tests.runs.helpers import counting

import beholder
from beholder.backends.columns import object_column
from beholder.demo.stand_ins import FACES, HEAD, register_stand_ins

METRICS = (
    "gme_score(model=mean-colour)",
    "nexus_score(detector=colours,model=mean-colour)",
    f"facesim_cur(model={FACES},references=opens2v)",
    f"laion_aesthetic(model={HEAD},encoder=counting,frames=uniform:32)",
    "temporal_flickering",
    "subject_consistency(model=counting)",
    "motion_smoothness(model=sharpness)",
    "natural_score(model=judge)",
)
NAMES = tuple(metric.partition("(")[0] for metric in METRICS)


def frame(number: int, *, subject: bool = True, size: tuple[int, int] = (24, 16)) -> Image.Image:
    pixels = np.random.default_rng(number).integers(20, 90, (size[1], size[0], 3), dtype=np.uint8)
    if subject:
        pixels[3:11, 4:12] = RED
    pixels[-1, -1] = (90, 0, 0)
    return Image.fromarray(pixels)


def folder(path: Path, frames: list[Image.Image]) -> str:
    path.mkdir()
    for at, picture in enumerate(frames):
        picture.save(path / f"{at}.png")
    return str(path)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    tmp = tmp_path_factory.mktemp("clips")
    counting()
    Colours()
    MeanColour()
    register_stand_ins()
    Judge(["4/5", "Score: 4", "评分：四"])
    Image.new("RGB", (6, 6), RED).save(tmp / "red.png")
    (tmp / "man").mkdir()
    frame(0).save(tmp / "man" / "1.png")
    Image.new("RGB", (6, 6), (1, 2, 3)).save(tmp / "man" / "blank.png")
    (tmp / "garbage.webp").write_bytes(b"RIFF no video at all")
    (tmp / "empty.webp").write_bytes(b"")
    (tmp / "none").mkdir()
    plain = {"prompt": "a cup", "references": [str(tmp / "red.png")], "seg_prompt": ["Cup"]}
    man = {"references": [str(tmp / "man" / "1.png")], "seg_prompt": ["Man"]}
    whole = [frame(at) for at in range(5)]
    rows = {
        "singleobj_1": {**plain, "output": folder(tmp / "whole", whole)},
        "singleobj_2": {**plain, "output": folder(tmp / "one", whole[:1])},
        "singleobj_3": {**plain, "output": str(tmp / "garbage.webp")},
        "singleobj_4": {**plain, "output": str(tmp / "empty.webp")},
        "singleobj_5": {**plain, "output": folder(tmp / "sizes", [frame(0), frame(1, size=(32, 20)), frame(2)])},
        "a.dotted.singleobj_6.v2": {**plain, "output": folder(tmp / "dotted", whole[::-1])},
        "singleobj_7": {**plain, "output": folder(tmp / "no-prompt", whole[1:]), "prompt": None},
        "singleobj_8": {**plain, "output": folder(tmp / "nothing", [frame(at, subject=False) for at in range(3)])},
        "singleface_9": {**plain, **man, "output": folder(tmp / "no-pairs", whole[2:])},
        "singleobj_10": {**plain, "output": str(tmp / "none")},
        "singleobj_11": {**plain, "output": str(tmp / "not-there.mp4")},
        "singleobj_12": {**plain, "output": folder(tmp / "again", whole[3:]), "prompt": " \n"},
    }
    run = beholder.evaluate(
        [{"id": stem, **row} for stem, row in rows.items()], metrics=METRICS, out=str(tmp / "run"),
        store=str(tmp / "store"), max_failed=1.0,
    )  # fmt: skip
    return {row["id"]: row for row in run.scores.to_pylist()}


def statuses(row: dict[str, Any]) -> dict[str, str]:
    return {name: row[f"{name}_status"] for name in NAMES}


OK = dict.fromkeys(NAMES, "ok") | {"facesim_cur": "not_applicable"}
SHORT = {"temporal_flickering": "too_short", "subject_consistency": "too_short", "motion_smoothness": "too_short"}
WANTED: dict[str, dict[str, str]] = {
    "singleobj_1": OK,
    "singleobj_2": OK | SHORT,
    "singleobj_3": dict.fromkeys(NAMES, "unreadable") | {"facesim_cur": "not_applicable"},
    "singleobj_4": dict.fromkeys(NAMES, "unreadable") | {"facesim_cur": "not_applicable"},
    "singleobj_5": OK | {"temporal_flickering": "failed"},
    "a.dotted.singleobj_6.v2": OK,
    "singleobj_7": OK | {"gme_score": "empty_prompt"},
    "singleobj_8": OK | {"nexus_score": "no_detection"},
    "singleface_9": OK | {"nexus_score": "not_applicable", "facesim_cur": "ok"},
    "singleobj_10": dict.fromkeys(NAMES, "unreadable") | {"facesim_cur": "not_applicable"},
    "singleobj_11": dict.fromkeys(NAMES, "missing") | {"facesim_cur": "not_applicable"},
    "singleobj_12": OK | {"gme_score": "empty_prompt"},
}


@pytest.mark.parametrize("stem", WANTED)
def test_each_clip_has_its_statuses(found: dict[str, dict[str, Any]], stem: str) -> None:
    row = found[stem]
    assert statuses(row) == WANTED[stem]
    for name in NAMES:
        assert (row[name] is None) == (row[f"{name}_status"] != "ok")
        assert row[f"{name}_status"] == "ok" or row[f"{name}_reason"]


def test_marks_are_read_in_every_form(found: dict[str, dict[str, Any]]) -> None:
    assert found["singleobj_1"]["natural_score"] == 4
    assert json.loads(found["singleobj_1"]["natural_score_evidence"])["runs"] == [4, 4, 4]


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        ("", "unparsable"),
        ("First, 3 people walk through 2 doors; then 4 birds fly by.", "unparsable"),
        ("抱歉，我无法评价。", "unparsable"),
        ("这段视频可以打4分", "ok"),
        ("4/5", "ok"),
    ],
)
def test_a_judge_that_says_anything(tmp_path: Path, reply: str, status: str) -> None:
    Judge([reply] * 3)
    (row,) = beholder.evaluate(
        [{"output": folder(tmp_path / "clip", [frame(0), frame(1)])}], metrics="natural_score(model=judge)",
        out=str(tmp_path / "run"), store=str(tmp_path / "store"), max_failed=1.0,
    ).scores.to_pylist()  # fmt: skip
    assert row["natural_score_status"] == status
    assert row["natural_score"] == (4 if status == "ok" else None)
    assert json.loads(row["natural_score_evidence"])["replies"] == [reply] * 3


def test_no_face(tmp_path: Path) -> None:
    from beholder.backends.base import Made, ResolvedModel
    from beholder.backends.pool import register_model
    from beholder.records import ModelCard

    class Faceless:
        """Finds a face in pictures whose corner is bright, and nowhere else."""

        batch, takes_video, constants = 4, False, {}  # type: ignore[var-annotated]
        model = ResolvedModel(
            "faceless", "faceless", ModelCard(id="faceless", engine="own", family="own", arch="own", weights=""), "",
            "faceless", {}, "float32", capability="FaceAnalyser",
        )  # fmt: skip

        def prepare(self, pictures: Any) -> Any:
            return int(pictures[0].pixels[0, 0, 0])

        def analyse(self, visuals: Any, **_: Any) -> Made:
            count = [int(value > 200) for value in visuals]
            return Made({
                "boxes": object_column([np.tile(np.array([[0, 0, 5, 5]], np.float32), (k, 1)) for k in count]),
                "landmarks": object_column([np.zeros((k, 5, 2), np.float32) for k in count]),
                "scores": object_column([np.ones(k, np.float32) for k in count]),
                "embedding": object_column([np.ones((k, 4), np.float32) for k in count]),
            })  # fmt: skip

        def close(self) -> None: ...

    register_model("faceless", Faceless())
    (tmp_path / "man").mkdir()
    Image.new("RGB", (8, 8), (250, 9, 9)).save(tmp_path / "man" / "face.png")
    Image.new("RGB", (8, 8), (5, 9, 9)).save(tmp_path / "man" / "none.png")
    dark, bright = [Image.new("RGB", (8, 8), (at, 0, 0)) for at in (1, 2)], [Image.new("RGB", (8, 8), (251, 0, 0))] * 2
    clips = {"singleface_1": (dark, "face"), "singleface_2": (bright, "none"), "singleface_3": (bright, "face")}
    rows = [
        {"id": stem, "output": folder(tmp_path / stem, frames), "references": [str(tmp_path / "man" / f"{ref}.png")]}
        for stem, (frames, ref) in clips.items()
    ]
    scored = beholder.evaluate(
        rows, metrics="facesim_cur(model=faceless,references=opens2v)", out=str(tmp_path / "run"),
        store=str(tmp_path / "store"), max_failed=1.0,
    ).scores.to_pylist()  # fmt: skip
    assert [row["facesim_cur_status"] for row in scored] == ["no_face", "no_face", "ok"]
    told = [json.loads(row["facesim_cur_evidence"] or "{}") for row in scored]
    assert [item.get("side") for item in told][:2] == ["gen", "ref"]
    assert told[0]["official"] == 0, "OpenS2V counts it as 0"
    assert told[1]["official"] is None, "OpenS2V leaves it out"
    assert scored[2]["facesim_cur"] == pytest.approx(1)
