"""`beholder report`, `grid`, `history` and the exports of `show`, on runs made by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.comparing.made_runs import made_metric, made_run
from tests.report.report_runs import pictured_run


def test_report_prints_the_page(beholder: Callable[..., Any], tmp_path: Path) -> None:
    run = pictured_run(tmp_path)
    done = beholder("report", str(run), "-o", str(tmp_path / "page.html"), "--baseline", "better")
    assert (done.exit_code, done.stdout) == (0, f"{tmp_path / 'page.html'}\n")
    assert "base beats better on none of 1 metric, worse on 1." in (tmp_path / "page.html").read_text("utf-8")
    assert beholder("report", str(run), "--baseline", "none").exit_code == 2
    assert beholder("report", str(tmp_path)).exit_code == 2


def test_report_by_a_column_shows_its_groups(beholder: Callable[..., Any], tmp_path: Path) -> None:
    run = pictured_run(tmp_path)
    plain = beholder("report", str(run), "-o", str(tmp_path / "r"), "--by", "category", "--by", "prompt_id")
    assert plain.exit_code == 0
    text = (tmp_path / "r" / "data" / "groups.js").read_text("utf-8")
    found = json.loads(text[text.index(",") + 1 : text.rindex(")")])
    assert list(found) == ["category", "prompt_id"]
    assert {bar["group"] for bar in found["category"]["bars"]["quality"]} == {"cats", "dogs"}
    wrong = beholder("report", str(run), "-o", str(tmp_path / "w"), "--by", "nothing")
    assert wrong.exit_code == 2
    assert "nothing" in wrong.stderr
    assert not (tmp_path / "w").exists()


def test_what_cannot_be_compared_has_no_verdict_and_marks_name_their_units(
    beholder: Callable[..., Any], tmp_path: Path
) -> None:
    rows = [
        {"prompt": f"p{at}", "concept": f"c{at % 8}", "method": method, "here": at / 40 + (method == "b"),
         "gone": None if method == "b" else 0.5}
        for at in range(40) for method in "ab"
    ]  # fmt: skip
    run = made_run(tmp_path / "run", rows, [made_metric("here"), made_metric("gone")])
    assert beholder("report", str(run), "-o", str(tmp_path / "page.html")).exit_code == 0
    text = (tmp_path / "page.html").read_text("utf-8")
    assert "Δ — nothing to compare" in text
    assert "Δ — ≈" not in text
    shown = beholder("show", str(run), "--wide", "--as", "md", "--baseline", "a").stdout
    assert "differs from a (paired, over concepts: " in shown


def test_grid_writes_a_figure(beholder: Callable[..., Any], tmp_path: Path) -> None:
    run = pictured_run(tmp_path)
    done = beholder("grid", str(run), "--pick", "random", "--n", "2", "-o", str(tmp_path / "g.png"))
    assert (done.exit_code, done.stdout) == (0, f"{tmp_path / 'g.png'}\n")
    assert (tmp_path / "g.png").read_bytes().startswith(b"\x89PNG")
    wrong = beholder("grid", str(run), "--pick", "nicest")
    assert wrong.exit_code == 2
    assert "worst, best, median, random, changed" in wrong.stderr


def test_history_as_table_json_and_figure(beholder: Callable[..., Any], tmp_path: Path) -> None:
    run = pictured_run(tmp_path)
    done = beholder("history", str(run), str(tmp_path), "-m", "quality", "-o", str(tmp_path / "h.pdf"))
    assert done.exit_code == 0
    assert "quality ↑" in done.stdout
    assert "Skipped" in done.stdout
    assert (tmp_path / "h.pdf").exists()
    rows = json.loads(beholder("history", str(run), "--as", "json").stdout)["rows"]
    assert [row["label"] for row in rows] == ["quality", "other"]


def test_show_writes_the_table_of_a_paper(beholder: Callable[..., Any], tmp_path: Path) -> None:
    run = pictured_run(tmp_path)
    done = beholder("show", str(run), "--wide", "--as", "latex", "--ci", "pm", "--baseline", "base")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    base, better = (next(line for line in lines if line.startswith(name)) for name in ("base", "better"))
    assert base.startswith(r"base & \underline{0.35")
    assert better.startswith(r"better & \textbf{0.55")
    assert r"$^{*}$" in better
    assert r"$^{*}$" not in base
    assert r"$\pm$" in better
    plain = beholder("show", str(run), "--wide", "--as", "md", "--no-rank", "--ci", "none").stdout
    assert "| base | 0.35" in plain
    assert "**" not in plain
    assert beholder("show", str(run), "--wide", "--ci", "sd").exit_code == 2
