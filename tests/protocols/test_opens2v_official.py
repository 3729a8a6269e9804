"""Official files of several models, and files that are not what they should be."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.metrics.test_natural_score import Judge
from tests.protocols.test_opens2v_board import SAMPLE, write
from tests.protocols.test_opens2v_data import clip, dataset

from beholder._errors import InputError
from beholder.protocol_runs import bench, make_protocol
from beholder.protocols.opens2v.official import read_official, read_official_folder

OTHER = {**SAMPLE, "gmescore": {"faceobj_14": {"gme_score": 0.25}}}


def two_models(folder: Path) -> Path:
    """Videos of the models a and b."""
    data = dataset(folder)
    for model in ("a", "b"):
        for stem in ("singleobj_1", "faceobj_14"):
            clip(data / "videos" / model / f"{stem}.webp")
    return data


def board_of(folder: Path, data: Path, out: Path) -> Any:
    protocol = make_protocol("opens2v", {"from_official": str(folder)})
    found = bench(protocol, str(data), metrics=["natural_score(model=judge)"], only=True, out=str(out),
                  store=str(out.parent / "store"))  # fmt: skip
    return found.results.table("board")


def test_files_of_one_model_are_not_those_of_another(tmp_path: Path) -> None:
    Judge(["4", "4", "4"])
    data = two_models(tmp_path / "data")
    named = board_of(write(tmp_path / "b", SAMPLE), data, tmp_path / "run1")
    assert named.number("b", column="GmeScore").value == pytest.approx(68.115234375)
    assert named.number("a", column="GmeScore").value is None
    assert any("not used for a" in note for note in named.notes)
    unnamed = board_of(write(tmp_path / "files", SAMPLE), data, tmp_path / "run2")
    assert unnamed.number("b", column="GmeScore").value is None
    assert any("not used for a, b" in note for note in unnamed.notes)


def test_a_folder_a_model(beholder: Callable[..., Any], tmp_path: Path) -> None:
    Judge(["4", "4", "4"])
    write(tmp_path / "files" / "a", SAMPLE)
    write(tmp_path / "files" / "b", OTHER)
    board = board_of(tmp_path / "files", two_models(tmp_path / "data"), tmp_path / "run")
    assert board.number("a", column="GmeScore").value == pytest.approx(68.115234375)
    assert board.number("b", column="GmeScore").value == pytest.approx(25)
    assert any("a: official files tell of videos" in note and "singleface_3" in note for note in board.notes)
    alone = make_protocol("opens2v", {"from_official": str(tmp_path / "files")}).official_results().table("board")  # type: ignore[attr-defined]
    for name, files in (("a", SAMPLE), ("b", OTHER)):
        total = read_official(write(tmp_path / f"one-{name}", files)).board(version="1.1", track="open").total
        assert alone.number(name, column="Total v1.1 open").value == pytest.approx(100 * (total or 0))
    done = beholder("bench", "opens2v", "--from-official", str(tmp_path / "files"), "--as", "json")
    assert done.exit_code == 0, done.stderr


def test_all_faults_at_once(tmp_path: Path) -> None:
    bad = {
        "gmescore": '{"a_1": {"gme_score": 0.1}, "a_1": {"gme_score": 0.9}}',
        "facesim": '{"a_1": {"cur_score": "0.5"}, "b_2": {"cur_score": null}, "c_3": {"cur_score": true}, '
                   '"d_4": {"cur_score": NaN}, "e_5": {"arc_score": 0.5}}',
        "nexusscore": "[" * 100_000,
        "aesthetic_score": {"a_1": {"aes_score": 10**400}},
        "motion_amplitude": {"a_1": {"motion_fb": 0.1}},
        "motionscore": {"a_1": {"motion_fb": 0.2}},
    }  # fmt: skip
    for folder in (write(tmp_path / "one", bad), write(tmp_path / "several" / "m", bad).parent):
        with pytest.raises(InputError) as caught:
            read_official_folder(folder)
        text = str(caught.value)
        assert len(caught.value.faults) == 8
        for told in ("more than once: 'a_1'", "got '0.5'", "b_2", "c_3", "d_4", "nexusscore.json", "aes_score", "0.2"):
            assert told in text
        assert "e_5" not in text, "an entry of another release"


def test_a_byte_order_mark_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "gmescore.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(SAMPLE["gmescore"]).encode())
    assert read_official(tmp_path).values["gme"]["faceobj_14"] == 0.68115234375


def test_faults_of_official_files_come_before_the_judge_is_asked(tmp_path: Path) -> None:
    judge = Judge(["4", "4", "4"])
    folder = write(tmp_path / "files", {**SAMPLE, "facesim": "{"})
    with pytest.raises(InputError, match=r"facesim\.json"):
        board_of(folder, two_models(tmp_path / "data"), tmp_path / "run")
    assert judge.asked == []
