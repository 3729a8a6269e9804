"""The worked data set of knowcusbench: copied surroundings fool CLIP-I, not CLIP-I-Seg; plain backgrounds fool none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import beholder
from beholder.demo.subjects import SubjectDemo, run_subject_demo
from beholder.protocol_runs import ProtocolRun, check_data
from beholder.scenes import SUBJECT_METHODS, subject_set, write_subject_set


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> SubjectDemo:
    """The demo of seed 0, with two outputs a prompt."""
    folder = tmp_path_factory.mktemp("subjects")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BEHOLDER_CACHE", str(folder / "cache"))
        return run_subject_demo(str(folder / "demo"), seeds=2)


def bounds(found: ProtocolRun, column: str) -> dict[str, tuple[float, float]]:
    """By method: the interval of a column of the table in the paper's shape."""
    table = found.results.table("paper")
    result = {}
    for method in SUBJECT_METHODS:
        number = table.number(method, column=column)
        assert number.low is not None
        assert number.high is not None
        result[method] = (number.low, number.high)
    return result


def difference(found: ProtocolRun, label: str) -> Any:
    """faithful − copycat, paired."""
    return beholder.compare(found.run, baseline="copycat", metrics=[label]).row(label, "faithful").difference


@pytest.mark.parametrize("task", ["Rec", "Gen"])
def test_clip_i_prefers_the_copied_surroundings_beyond_its_interval(demo: SubjectDemo, task: str) -> None:
    found = bounds(demo.flattering, f"{task} CLIP-I")
    assert found["copycat"][0] > found["faithful"][1]


@pytest.mark.parametrize("task", ["Rec", "Gen"])
def test_clip_i_seg_prefers_the_right_subject_beyond_its_interval(demo: SubjectDemo, task: str) -> None:
    found = bounds(demo.flattering, f"{task} CLIP-I-Seg")
    assert found["faithful"][0] > found["copycat"][1]
    values = [demo.flattering.results.table("paper").number(m, column=f"{task} CLIP-I-Seg").value
              for m in SUBJECT_METHODS]  # fmt: skip
    assert values == sorted(values, key=lambda value: -(value or 0.0))


@pytest.mark.parametrize("task", ["Rec", "Gen"])
@pytest.mark.parametrize("metric", ["CLIP-I", "CLIP-I-Seg"])
def test_before_plain_backgrounds_there_is_no_reversal(demo: SubjectDemo, task: str, metric: str) -> None:
    found = bounds(demo.control, f"{task} {metric}")
    assert found["faithful"][0] > found["wavering"][1]
    assert found["wavering"][0] > found["copycat"][1]


def test_paired_differences_say_the_same(demo: SubjectDemo) -> None:
    fooled, right = difference(demo.flattering, "clip_i"), difference(demo.flattering, "clip_i_seg")
    assert fooled.interval.high < 0 < right.interval.low
    for label in ("clip_i", "clip_i_seg"):
        assert difference(demo.control, label).interval.low > 0


def test_the_background_share_gives_the_copycat_away(demo: SubjectDemo) -> None:
    for task in ("Rec", "Gen"):
        found = bounds(demo.flattering, f"{task} background_share")
        assert found["copycat"][0] > 0.5
        assert found["faithful"][1] < 0.5


def test_prompts_are_followed_by_the_faithful_only(demo: SubjectDemo) -> None:
    found = bounds(demo.flattering, "Gen CLIP-T")
    assert found["faithful"][0] > found["wavering"][1]
    assert found["wavering"][0] > found["copycat"][1]


def test_the_data_set_is_one_of_the_protocol(demo: SubjectDemo) -> None:
    folder = demo.flattering.run.path.parent
    report = check_data("knowcusbench", folder)
    assert [str(fault) for fault in report.faults] == []
    tasks = report.counts["tasks"]
    assert tasks["reconstruction"]["knowledge"] == 32
    assert tasks["generation"]["prompts"] == 24
    assert tasks["generation"]["seeds"] == 2
    assert demo.flattering.results.counts["outputs"] == 336
    assert demo.flattering.run.n_faults == 0


def test_pictures_show_what_the_set_says() -> None:
    drawn = subject_set(3, concepts=2, seeds=1)
    assert {(item.method, item.right) for item in drawn.items} == {
        ("faithful", True), ("wavering", True), ("wavering", False), ("copycat", False),
    }  # fmt: skip
    for concept in drawn.concepts:
        assert all(scene.objects[-1].name == concept.name for scene in concept.references)
        assert all(scene.objects[:-1] == concept.surroundings.objects for scene in concept.references)
        assert len(concept.surroundings.objects) == 2
    by_name = {concept.name: concept for concept in drawn.concepts}
    for item in drawn.items:
        assert (item.scene.objects[-1].name == item.concept) is item.right
        surroundings = by_name[item.concept].surroundings
        copied = item.scene.background == surroundings.background and item.scene.objects[:-1] == surroundings.objects
        assert copied is (item.method == "copycat")
        assert item.mask().any()
        color = by_name[item.concept].prompts.get(item.prompt_id)
        if color is not None and item.method != "copycat":
            assert item.scene.background.color == color
    assert subject_set(3, concepts=2, seeds=1) == drawn


def test_the_control_is_plain() -> None:
    drawn = subject_set(3, concepts=2, seeds=1, neutral=True)
    for item in drawn.items:
        assert len(item.scene.objects) == 1
        pixels = np.asarray(item.image())
        assert (pixels[~item.mask()] == 128).all(axis=-1).mean() > 0.85


def test_equal_sets_give_equal_bytes(tmp_path: Path) -> None:
    drawn = subject_set(1, concepts=1, seeds=1)
    for name in ("a", "b"):
        write_subject_set(drawn, tmp_path / name, size=32)
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*") if path.is_file())
    assert all((tmp_path / "a" / path).read_bytes() == (tmp_path / "b" / path).read_bytes() for path in files)
    content = json.loads((tmp_path / "a" / "manifest.json").read_text())
    mask = Image.open(tmp_path / "a" / content["items"][0]["mask"])
    assert set(np.unique(np.asarray(mask))) == {0, 255}


@pytest.mark.parametrize("wrong", [{"concepts": 0}, {"knowledge": 7}, {"concepts": 10**6}, {"seeds": 0}])
def test_wrong_sizes_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(beholder.UserError, match="concepts must be"):
        subject_set(0, **wrong)


def test_the_demo_takes_the_place_of_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(beholder.UserError, match=r"mine\.txt"):
        run_subject_demo(str(tmp_path))


def test_only_protocols_with_a_worked_data_set_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from beholder.cli.main import app

    monkeypatch.setenv("COLUMNS", "200")
    done = CliRunner().invoke(app, ["demo", "--protocol", "tifa"])
    assert done.exit_code == 2
    assert "knowcusbench" in done.stderr
