"""`score`, `show`, `cite`: looking at numbers."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import FAKE, read_rows, write_rows

import beholder as package

Cli = Callable[..., Any]


@pytest.fixture
def runs(beholder: Cli, data: Path) -> tuple[str, str]:
    """Two runs of one data set; the second has another encoder and one metric less."""
    beholder("run", data, "-m", "clip_score", "-m", "clip_i", "--model", FAKE, "-o", "runs/one")
    beholder("run", data, "-m", "clip_score", "--model", "fake:dim=8", "-o", "runs/two")
    return "runs/one", "runs/two"


def test_score_prints_images_by_texts(beholder: Cli, data: Path) -> None:
    images = ["out/good/0.png", "out/good/1.png"]
    result = beholder("score", *images, "--text", "blue", "--text", "green", "--model", FAKE)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["image", "blue", "green"]
    wanted = package.score("clip_score", images=images, texts=["blue", "green"], model=FAKE).matrix
    for line, name, row in zip(lines[2:4], images, wanted):
        cells = line.split()
        assert cells[0] == name
        assert [float(cell) for cell in cells[1:]] == pytest.approx(row.tolist(), abs=1e-4)


def test_score_in_pairs_and_as_json(beholder: Cli, data: Path) -> None:
    args = ("score", "out/good/0.png", "out/good/1.png", "--pairs", "-t", "blue", "-t", "green", "--model", FAKE)
    lines = beholder(*args).stdout.splitlines()
    assert [line.split()[:2] for line in lines[2:4]] == [["out/good/0.png", "blue"], ["out/good/1.png", "green"]]
    found = json.loads(beholder(*args, "--json").stdout)
    assert [(row["image"], row["text"], row["status"]) for row in found["rows"]] == [
        ("out/good/0.png", "blue", "ok"), ("out/good/1.png", "green", "ok"),
    ]  # fmt: skip


def test_score_with_references(beholder: Cli, data: Path) -> None:
    args = ("score", "out/good/0.png", "-m", "clip_i", "-r", "out/good/0.png", "--model", FAKE, "--json")
    assert json.loads(beholder(*args).stdout)["rows"][0]["value"] == pytest.approx(1.0)


def test_a_picture_with_a_fault_is_a_dash_with_a_reason_and_exit_3(beholder: Cli, data: Path) -> None:
    result = beholder("score", "out/good/0.png", "none.png", "-t", "blue", "--model", FAKE)
    assert result.exit_code == 3
    line = next(line for line in result.stdout.splitlines() if line.startswith("none.png"))
    assert line.split() == ["none.png", "—"]
    assert "none.png, 'blue': missing: " in result.stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "clip_score needs --text"),
        (("-m", "clip_i"), "clip_i needs --reference"),
        (("-t", "a", "-t", "b", "--pairs"), "as many images as texts"),
        (("-t", "a", "-m", "clip_scor"), "Did you mean clip_score"),
        (("-t", "a", "--max-pixels", "-3"), "--max-pixels: Input should be greater than 0"),
        (("-t", "a", "--background", "1,2"), "a colour must be"),
    ],
)
def test_wrong_use_of_score(beholder: Cli, data: Path, args: tuple[str, ...], said: str) -> None:
    result = beholder("score", "out/good/0.png", *args, "--model", FAKE)
    assert result.exit_code == 2
    assert said in result.stderr


def test_show_prints_the_table_that_run_printed(beholder: Cli, data: Path) -> None:
    for more in ((), ("--by", "category")):
        folder = "-".join(("a", *more))
        printed = beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", folder, *more).stdout
        assert beholder("show", folder).stdout == printed


def test_show_of_several_runs_has_a_column_a_metric_and_warns_of_other_identities(
    beholder: Cli, runs: tuple[str, str]
) -> None:
    result = beholder("show", *runs)
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["run", "method", "clip_score", "↑", "clip_i", "↑"]
    assert [line.split()[:2] for line in lines[2:6]] == [
        ["one", "bad"],
        ["one", "good"],
        ["two", "bad"],
        ["two", "good"],
    ]
    assert "not computed" in result.stdout
    assert f"clip_score(model=fake:dim=8) against clip_score(model={FAKE})" in result.stderr
    assert "clip_i of" not in result.stderr


def test_runs_of_one_name_are_told_apart_by_their_paths(beholder: Cli, data: Path) -> None:
    for folder in ("x/run", "y/run"):
        beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", folder)
    assert "x/run" in beholder("show", "x/run", "y/run").stdout


def test_show_as_other_forms(beholder: Cli, runs: tuple[str, str]) -> None:
    assert beholder("show", runs[0], "--as", "md").stdout.startswith("| metric | method |")
    assert "\\begin{tabular}" in beholder("show", *runs, "--as", "latex").stdout
    rows = list(csv.DictReader(io.StringIO(beholder("show", *runs, "--as", "csv", "--all").stdout)))
    found = json.loads(beholder("show", *runs, "--as", "json", "--all").stdout)
    assert [run["name"] for run in found["runs"]] == ["one", "two"]
    assert [float(row["value"]) for row in rows] == [row["value"] for row in found["rows"]]


def test_show_groups_at_reading_time(beholder: Cli, runs: tuple[str, str]) -> None:
    lines = beholder("show", runs[0], "--by", "category").stdout.splitlines()
    assert [line.split()[2] for line in lines[2:4]] == ["even", "odd"]
    result = beholder("show", runs[0], "--by", "categroy")
    assert result.exit_code == 2
    assert "Did you mean category" in result.stderr


@pytest.mark.parametrize(
    ("args", "said"), [(("runs/none",), "runs/none"), (("runs/one", "--as", "yaml"), "text, md, latex, csv, json")]
)
def test_wrong_use_of_show(beholder: Cli, runs: tuple[str, str], args: tuple[str, ...], said: str) -> None:
    result = beholder("show", *args)
    assert result.exit_code == 2
    assert said in result.stderr


def test_cite_names_the_papers_of_a_run(beholder: Cli, runs: tuple[str, str]) -> None:
    result = beholder("cite", runs[0])
    assert "Hessel et al." in result.stdout
    assert "beholder, version" in result.stdout
    assert f"the card of {FAKE} names no paper" in result.stderr
    found = json.loads(beholder("cite", runs[0], "--as", "json").stdout)
    assert any("clip_score" in item["used_by"] for item in found)


def test_cite_a_metric_as_bibtex(beholder: Cli) -> None:
    text = beholder("cite", "clip_score", "--as", "bibtex").stdout
    assert "@misc{hessel2021," in text
    assert "eprint = {2104.08718}" in text
    assert "@misc{radford2021," in text, "the paper of the metric's encoder"
    assert text.count("@misc{") == len({line for line in text.splitlines() if line.startswith("@misc{")})


@pytest.mark.parametrize(("args", "said"), [(("clip_scor",), "clip_score"), (("clip_i", "--as", "xml"), "bibtex")])
def test_wrong_use_of_cite(beholder: Cli, args: tuple[str, ...], said: str) -> None:
    result = beholder("cite", *args)
    assert result.exit_code == 2
    assert said in result.stderr


def test_runs_of_which_one_has_no_method_are_not_grouped(beholder: Cli, data: Path) -> None:
    beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", "one")
    write_rows(data, [{"output": row["output"], "prompt": row["prompt"]} for row in read_rows(data)])
    beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", "two")
    lines = beholder("show", "one", "two").stdout.splitlines()
    assert lines[0].split() == ["run", "clip_score", "↑"]
    assert [line.split()[0] for line in lines[2:4]] == ["one", "two"]
    assert lines[2].split()[1:] == lines[3].split()[1:]
