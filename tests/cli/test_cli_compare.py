"""`compare`, `agree`, `plan` and `gate` as commands: forms, exit codes, what is said where."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.comparing.made_runs import made_metric, made_run

Call = Callable[..., Any]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs `a` and `b` (0.05 better), `methods` (both in one), and a file of ratings that follows the scores."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    values = rng.normal(0.3, 0.05, size=(40, 2))
    values[:, 1] = values[:, 0] + 0.05 + 0.01 * rng.normal(size=40)
    both = []
    for at, name in enumerate("ab"):
        rows = [
            {"id": f"{name}{p}", "prompt": f"p{p}", "kind": "xy"[p % 2], "clip_score": float(values[p, at])}
            for p in range(40)
        ]
        made_run(tmp_path / name, rows)
        both += [{**row, "method": name} for row in rows]
    made_run(tmp_path / "methods", both)
    lines = ["id,rating", *(f"{row['id']},{row['clip_score'] > 0.3:d}" for row in both)]
    (tmp_path / "ratings.csv").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def test_compare_prints_a_table_and_json(beholder: Call, runs: Path) -> None:
    result = beholder("compare", "a", "b")
    assert result.exit_code == 0
    assert "better" in result.stdout
    assert "b against a, of 1 metric: better on 1." in result.stdout
    assert result.stderr == ""
    found = json.loads(beholder("compare", "methods", "--by", "kind", "--as", "json").stdout)
    assert found["sides"] == ["a", "b"]
    assert found["key"] == ["prompt"]
    assert [row["group"] for row in found["rows"]] == [{}, {"kind": "x"}, {"kind": "y"}]
    assert found["rows"][0]["difference"] == pytest.approx(0.05, abs=0.01)
    assert found["pairings"][0]["unpaired_a"] == 0


@pytest.mark.parametrize(("form", "mark"), [("md", "| clip_score ↑ |"), ("latex", "\\toprule"), ("csv", "run,kind,")])
def test_every_form_of_a_comparison(beholder: Call, runs: Path, form: str, mark: str) -> None:
    result = beholder("compare", "a", "b", "--by", "kind", "--as", form)
    assert result.exit_code == 0
    assert mark in result.stdout
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(result.stdout)))
        assert [row["kind"] for row in rows] == ["", "x", "y"]
        assert float(rows[0]["p"]) < 0.01


def test_three_sides_have_ranks(beholder: Call, runs: Path) -> None:
    made_run(runs / "c", [{"prompt": f"p{p}", "clip_score": None if p else 0.1} for p in range(40)])
    result = beholder("compare", "a", "b", "methods")
    assert result.exit_code == 0
    assert "of resamples keep the first" in result.stdout
    few = beholder("compare", "a", "c")
    assert few.exit_code == 0
    assert "missing in c: 39 unreadable" in few.stdout
    assert "no interval: it needs two prompts, got 1" in few.stdout


def test_compare_refuses_what_differs_and_warns_when_told_to_go_on(beholder: Call, runs: Path) -> None:
    rows = [{"prompt": f"p{p}", "clip_score": 0.1 * p} for p in range(9)]
    made_run(runs / "c", rows, [made_metric("clip_score", identity="clip_score(variant=x100)")])
    result = beholder("compare", "a", "c")
    assert result.exit_code == 2
    assert "clip_score(variant=x100) against clip_score" in result.stderr
    assert result.stdout == ""
    on = beholder("compare", "a", "c", "--allow-different", "--quiet")
    assert on.exit_code == 0
    assert on.stderr.count("Warning: ") == 2
    assert beholder("compare", "a").exit_code == 2
    assert beholder("compare", "a", "b", "--as", "html").exit_code == 2
    assert beholder("compare", "a", "b", "--level", "1").exit_code == 2


def test_agree_prints_chance_lines_and_json(beholder: Call, runs: Path) -> None:
    result = beholder("agree", "methods", "--human", "ratings.csv")
    assert result.exit_code == 0
    assert "(constant metric)" in result.stdout
    assert "(random metric)" in result.stdout
    assert "no Krippendorff's alpha: there is one rater" in result.stdout
    found = json.loads(
        beholder(
            "agree", "methods", "--human", "ratings.csv", "--pairs", "pooled", "--calibration", "paper", "--as", "json"
        ).stdout
    )
    row = found["rows"][0]
    assert row["accuracy"] > 0.5 > row["random"]
    assert (row["n_items"], row["n_pairs"]) == (80, 80 * 79 // 2)
    assert beholder("agree", "methods", "--human", "ratings.csv", "--as", "csv").stdout.startswith(
        "run,metric,accuracy"
    )


def test_agree_tells_all_faults(beholder: Call, runs: Path) -> None:
    (runs / "bad.csv").write_text("id,stars\na1,3\nzz,2\na1,1\n", encoding="utf-8")
    result = beholder("agree", "methods", "--human", "bad.csv", "--map", "stars=rating")
    assert result.exit_code == 2
    assert "bad.csv has 2 faults:" in result.stderr
    assert "row 2: no sample of the run has id 'zz'" in result.stderr
    assert "row 3: the same rating without a rater stands in row 1 already" in result.stderr
    assert beholder("agree", "methods").exit_code == 2
    assert beholder("agree", "methods", "--human", "bad.csv", "--winoground", "a,b,c").exit_code == 2


def test_winoground_as_a_command(beholder: Call, runs: Path) -> None:
    rows = [
        {"item": n, "image": i, "caption": c, "clip_score": 0.9 if i == c else 0.1}
        for n in range(5)
        for i in (0, 1)
        for c in (0, 1)
    ]
    made_run(runs / "w", rows)
    result = beholder("agree", "w", "--winoground", "item,image,caption")
    assert result.exit_code == 0
    assert "group" in result.stdout
    found = json.loads(beholder("agree", "w", "--winoground", "item,image,caption", "--as", "json").stdout)
    assert [row["value"] for row in found["rows"]] == [1.0, 1.0, 1.0]


def test_plan_as_a_command(beholder: Call, runs: Path) -> None:
    result = beholder("plan", "a", "b", "--detect", "0.005")
    assert result.exit_code == 0
    assert "prompts at 1 seed" in result.stdout
    found = json.loads(beholder("plan", "a", "--detect", "0.01", "--seeds", "3", "--as", "json").stdout)
    assert [(row["seeds"], row["basis"]) for row in found["rows"]] == [(3, "unpaired")]
    assert found["rows"][0]["outputs"] == 3 * found["rows"][0]["prompts"]
    assert beholder("plan", "a", "--detect", "0").exit_code == 2
    assert beholder("plan", "a").exit_code == 2


def test_gate_exits_1_when_it_is_not_met(beholder: Call, runs: Path) -> None:
    met = beholder("gate", "b", "--against", "a", "--metric", "clip_score", "--max-drop", "0.01", "--junit", "gate.xml")
    assert met.exit_code == 0
    assert "Gate met." in met.stdout
    written = (runs / "gate.xml").read_text(encoding="utf-8")
    assert '<testsuite name="beholder gate" tests="2" failures="0" errors="0">' in written
    beholder("gate", "a", "--require", "clip_score>=0", "--junit", "out/deep/gate.xml")
    assert (runs / "out/deep/gate.xml").exists()
    nowhere = beholder("gate", "a", "--require", "clip_score>=0", "--junit", "a/run.json/gate.xml")
    assert nowhere.exit_code == 2
    assert "--junit must name a file that can be written" in nowhere.stderr
    failed = beholder("gate", "a", "--baseline", "b", "--max-drop", "clip_score=0.01", "--as", "json")
    assert failed.exit_code == 1
    assert json.loads(failed.stdout)["passed"] is False
    floor = beholder("gate", "a", "--require", "clip_score>=0.9")
    assert floor.exit_code == 1
    assert "Gate not met." in floor.stdout
    assert beholder("gate", "a").exit_code == 2
    assert beholder("gate", "a", "--require", "clip_score").exit_code == 2


def test_marks_of_show_follow_the_grouping(beholder: Call, runs: Path) -> None:
    table = beholder("show", "a", "b", "--by", "kind", "--baseline", "a", "--ci", "none", "--as", "md").stdout
    rows = [line for line in table.splitlines() if line.startswith("| b |")]
    assert len(rows) == 2
    assert all("\\*" in line for line in rows)
    assert "\\*" not in "".join(line for line in table.splitlines() if line.startswith("| a |"))
    # The sides of one run are its methods, so they get rows of their own.
    one = beholder("show", "methods", "--by", "kind", "--baseline", "a", "--ci", "none", "--as", "md").stdout
    assert [line.split("|")[1:3] for line in one.splitlines()[2:6]] == [
        [f" {method} ", f" {kind} "] for method in "ab" for kind in "xy"
    ]
    assert one.count("\\*") == 3, "two cells and the note"


def test_sides_of_one_mean_are_told_as_equal_in_the_order(beholder: Callable[..., Any], tmp_path: Path) -> None:
    for name, shift in (("a", 0.0), ("b", 0.0), ("c", -0.5)):
        made_run(tmp_path / name, [{"prompt": f"p{at}", "clip_score": shift + at / 9} for at in range(9)])
    result = beholder("compare", *(str(tmp_path / name) for name in "abc"))
    assert "clip_score: order a = b > c; " in result.stdout
