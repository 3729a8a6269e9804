"""OpenS2V's leaderboard: bounds, weights, totals, published rows, official files."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from beholder._errors import InputError, OptionError, UserError
from beholder.protocol_runs import make_protocol
from beholder.protocols.opens2v.board import PARTS, TRACKS, VERSIONS, Board, check_total, make_board, weights
from beholder.protocols.opens2v.official import official_bytes, read_official
from beholder.protocols.opens2v.published import published

KLING = {
    "aes": 0.44594517904800374, "smooth": 0.8693211435903602, "ampl": 0.4160163568750958, "face": 0.4010164068564032,
    "gme": 0.6620000359470859, "nexus": 0.4588851569398767, "natural": 0.745910020449898,
}  # fmt: skip


@pytest.mark.parametrize(("version", "track"), list(itertools.product(VERSIONS, TRACKS)))
def test_weights_add_up_to_one(version: str, track: str) -> None:
    assert sum(weights(version, track).values()) == pytest.approx(1, abs=1e-12)


def test_another_board_is_refused() -> None:
    with pytest.raises(OptionError):
        weights("2.0", "open")


ROWS = [(track, model) for track in ("open", "human") for model in published("1.1", track)]


@pytest.mark.parametrize(("track", "model"), ROWS)
def test_published_totals(track: str, model: str) -> None:
    row = published("1.1", track)[model]
    parts = {key: row[key] / 100 for key in row if key != "total"}
    board = Board("1.1", track, parts)
    assert 100 * (board.total or 0) == pytest.approx(row["total"], abs=0.015)


def test_there_are_all_published_rows() -> None:
    assert (len(published("1.1", "open")), len(published("1.1", "human"))) == (11, 6)
    assert published("1.0", "open") == {}


def test_the_row_of_full_precision() -> None:
    assert Board("1.1", "open", KLING).total == pytest.approx(0.562269546381486, abs=1e-15)


def test_videos_are_cut_before_the_mean() -> None:
    board = make_board({"aes": [9.0, 5.0]}, version="1.1", track="open")
    assert board.parts["aes"] == pytest.approx(((7 + 5) / 2 - 4) / 3)
    low = make_board({"aes": [2.0, 5.0], "natural": [0.5, 6.0]}, version="1.1", track="open")
    assert low.parts["aes"] == pytest.approx(((4 + 5) / 2 - 4) / 3)
    assert low.parts["natural"] == pytest.approx(0.5)


def test_zeros_of_nexus_do_not_count_and_those_of_facesim_do() -> None:
    board = make_board({"nexus": [0.0, 0.02, 0.4], "face": [0.0, 0.5]}, version="1.1", track="open")
    assert board.parts["nexus"] == pytest.approx((0.02 + 0.05) / 2 / 0.05)
    assert board.n["nexus"] == 2
    assert board.parts["face"] == 0.25


def test_signs() -> None:
    board = make_board({"gme": [-0.5, 0.9], "ampl": [-0.25, 3.0], "face": [-0.1]}, version="1.1", track="open")
    assert board.parts["gme"] == pytest.approx(0.2)
    assert board.parts["ampl"] == pytest.approx((0.25 + 1) / 2)
    assert board.parts["face"] == pytest.approx(-0.1)


def test_a_part_without_values_gives_no_total() -> None:
    values = {key: [0.5] for key in KLING if key not in ("aes", "natural")}
    board = make_board(values, version="1.1", track="open")
    assert board.total is None
    assert board.missing == ("aes", "natural")
    assert board.parts["aes"] is None, "never (0 - 4)/3"
    assert board.share == pytest.approx(0.6)
    assert board.renormalised == pytest.approx(board.partial / 0.6)
    assert set(make_board(values, version="1.1", track="human").parts) == {
        "aes",
        "smooth",
        "ampl",
        "face",
        "gme",
        "natural",
    }


def test_totals_with_two_columns_exchanged() -> None:
    right = sum(weight * KLING[key] for key, weight in weights("1.1", "open").items())
    exchanged = {**KLING, "smooth": KLING["ampl"], "ampl": KLING["smooth"]}
    assert check_total(KLING, right, version="1.1", track="open") == "fits"
    assert check_total(exchanged, right, version="1.1", track="open") == "swapped"
    assert check_total(KLING, right + 0.01, version="1.1", track="open") == "differs"


# official files

SAMPLE: dict[str, Any] = {
    "aesthetic_score": {"faceobj_14": {"aes_score": 4.811809062957764},
                        "singleface_3": {"aes_score": 5.194509506225586}},
    "motion_amplitude": {"faceobj_14": {"motion_fb": 0.35025984048843384, "motion_lk": 6.7},
                         "singleface_3": {"motion_fb": 0.038793787360191345}},
    "motion_smoothness": {"faceobj_14": {"motion_smoothness": 0.8985507246376812},
                          "singleface_3": {"motion_smoothness": 1}},
    "facesim": {"singleface_3": {"cur_score": 0.9420197624713182, "arc_score": 0.9367029462009668}},
    "gmescore": {"faceobj_14": {"gme_score": 0.68115234375}, "singleface_3": {"gme_score": 0.67236328125}},
    "nexusscore": {"faceobj_14": {"nexus_score": 0.01300811767578125}},
    "naturalscore_1": {"faceobj_14": "4", "singleface_3": "3"},
    "naturalscore_2": {"faceobj_14": "4", "singleface_3": "3"},
    "naturalscore_3": {"faceobj_14": "4", "singleface_3": "4"},
}  # fmt: skip
"""The demo's own values in the published form."""


def write(folder: Path, files: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    return folder


def test_the_demo_values(tmp_path: Path) -> None:
    board = read_official(write(tmp_path / "a", SAMPLE)).board(version="1.1", track="open")
    wanted = {
        "aes": ((4.811809062957764 + 5.194509506225586) / 2 - 4) / 3,
        "smooth": (0.8985507246376812 + 1) / 2,
        "ampl": (0.35025984048843384 + 0.038793787360191345) / 2,
        "face": 0.9420197624713182,
        "gme": (0.68115234375 + 0.67236328125) / 2,
        "nexus": 0.01300811767578125 / 0.05,
        "natural": ((4 + 10 / 3) / 2 - 1) / 4,
    }
    for key, value in wanted.items():
        assert board.parts[key] == pytest.approx(value, abs=1e-12)
    total = 0.16 * wanted["aes"] + 0.06 * wanted["smooth"] + 0.02 * wanted["ampl"] + 0.2 * wanted["face"]
    total += 0.12 * wanted["gme"] + 0.2 * wanted["nexus"] + 0.24 * wanted["natural"]
    assert board.total == pytest.approx(total, abs=1e-12)


def test_files_go_round(tmp_path: Path) -> None:
    files = read_official(write(tmp_path / "a", SAMPLE))
    values = {key: found for key, found in files.values.items() if key != "natural"}
    for name, data in official_bytes(values, files.runs).items():
        (tmp_path / "b").mkdir(exist_ok=True)
        (tmp_path / "b" / name).write_bytes(data)
    again = read_official(tmp_path / "b")
    assert again.values == files.values
    assert json.loads((tmp_path / "b" / "naturalscore_3.json").read_text()) == SAMPLE["naturalscore_3"], (
        "marks are texts"
    )
    assert {path.stem for path in (tmp_path / "b").iterdir()} == set(SAMPLE)


def test_marks_that_are_none(tmp_path: Path) -> None:
    bad = {**SAMPLE, "naturalscore_2": {"faceobj_14": "error", "singleface_3": "Score: 4"}}
    files = read_official(write(tmp_path / "a", bad))
    assert files.runs["faceobj_14"] == [4, None, 4]
    assert files.values["natural"] == {"faceobj_14": 4, "singleface_3": 3.5}
    assert any("2 marks" in text for text in files.remarks)


def test_shards_in_any_order(tmp_path: Path) -> None:
    split = {f"gmescore_{at}": {stem: entry} for at, (stem, entry) in enumerate(SAMPLE["gmescore"].items())}
    turned = {f"gmescore_{1 - at}": {stem: entry} for at, (stem, entry) in enumerate(SAMPLE["gmescore"].items())}
    rest = {name: content for name, content in SAMPLE.items() if name != "gmescore"}
    boards = [read_official(write(tmp_path / name, {**rest, **part})).board(version="1.1", track="open")
              for name, part in (("a", split), ("b", turned))]  # fmt: skip
    assert boards[0] == boards[1]
    assert boards[0] == read_official(write(tmp_path / "c", SAMPLE)).board(version="1.1", track="open")
    clash = {**split, "gmescore_7": {"faceobj_14": {"gme_score": 0.1}}}
    with pytest.raises(InputError, match="faceobj_14 has"):
        read_official(write(tmp_path / "d", {**rest, **clash}))


def test_older_names_and_strays(tmp_path: Path) -> None:
    old = {name: content for name, content in SAMPLE.items() if name not in ("motion_amplitude", "nexusscore")}
    old |= {"motionscore": SAMPLE["motion_amplitude"], "nexusscore": {"a_1": {"retrieval_score": 0.01}}}
    old |= {"notes": {"anything": 1}}
    files = read_official(write(tmp_path / "a", old))
    assert files.values["nexus"] == {"a_1": 0.01}
    assert files.values["ampl"]["faceobj_14"] == 0.35025984048843384
    assert files.stray == ["notes.json"]
    assert any("notes.json" in text for text in files.remarks)


def test_a_stated_total_with_exchanged_columns(tmp_path: Path) -> None:
    total = sum(weight * KLING[key] for key, weight in weights("1.1", "open").items())
    stated = {PARTS[key].output: value for key, value in KLING.items()} | {"total_score": total}
    stated |= {"motion_smoothness": KLING["ampl"], "motion_amplitude": KLING["smooth"]}
    files = read_official(write(tmp_path / "a", {**SAMPLE, "model_Open-Domain": stated}))
    (told,) = files.check(version="1.1", track="open")
    assert "exchanged" in told


def test_wrong_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="folder"):
        read_official(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="gmescore"):
        read_official(tmp_path / "empty")
    wrong = {"gmescore": {"a": {"gme_score": "high"}, "b": {"gme_score": None}}, "facesim": "[1]", "nexusscore": "{"}
    with pytest.raises(InputError) as caught:
        read_official(write(tmp_path / "wrong", wrong))
    text = str(caught.value)
    assert all(name in text for name in ("gmescore.json", "facesim.json", "nexusscore.json"))


def test_the_protocol_on_official_files(tmp_path: Path) -> None:
    folder = write(tmp_path / "Model", SAMPLE)
    results = make_protocol("opens2v", {"from_official": str(folder)}).official_results()  # type: ignore[attr-defined]
    board = results.table("board")
    files = read_official(folder)
    number = board.number("Model", column="Total v1.1 open")
    assert number.value == pytest.approx(100 * (files.board(version="1.1", track="open").total or 0), abs=1e-9)
    assert board.number("Kling1.6", column="Total v1.1 open", published=True).value == 56.23
    assert results.table("subtracks").number("Model", "faceobj", column="GmeScore").value == pytest.approx(68.115234375)
    lacking = {name: content for name, content in SAMPLE.items() if name != "motion_smoothness"}
    settings = {"from_official": str(write(tmp_path / "Other", lacking)), "renormalised": True}
    partial = make_protocol("opens2v", settings).official_results().table("board")  # type: ignore[attr-defined]
    total = partial.number("Other", column="Total v1.1 open")
    assert total.value is None
    assert total.note == "no total: Smoothness without any value"
    assert partial.number("Other", column="Partial sum").value < 100
    older = make_protocol("opens2v", {**settings, "version": "1.0"}).official_results().table("board")  # type: ignore[attr-defined]
    assert older.number("Other", column="Total v1.0 open").value is not None
