"""Runs that have the same methods: each method against itself across the runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.comparing.made_runs import made_metric, made_run
from typer.testing import CliRunner

import beholder
from beholder._errors import UnknownNameError, UserError
from beholder.cli.main import app
from beholder.records import Summary
from beholder.report.comparison import comparison_json, comparison_table, flat_records
from beholder.report.html.overview import overview
from beholder.report.tables import Table
from beholder.reporting.collect import collect
from beholder.stats.correction import benjamini_hochberg, holm

PROMPTS = [f"p{at}" for at in range(8)]


def rows(means: dict[str, float], *, seeds: dict[str, int] | None = None) -> list[dict[str, Any]]:
    """Eight prompts a method, whose values are its mean ± 0.01."""
    return [
        {
            "id": f"{method}-{prompt}", "prompt": prompt, "method": method, "seed": (seeds or {}).get(method, 0),
            "kind": "odd" if at % 2 else "even", "clip_score": mean + (0.01 if at % 2 else -0.01),
        }
        for method, mean in means.items()
        for at, prompt in enumerate(PROMPTS)
    ]  # fmt: skip


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """A: m1 0.20, m2 0.50. B: m1 0.25, m2 0.40, in the other order. So +0.05 and −0.10, and against A:m1 +0.20."""
    return (
        made_run(tmp_path / "A", rows({"m1": 0.2, "m2": 0.5})),
        made_run(tmp_path / "B", rows({"m2": 0.4, "m1": 0.25})),
    )


def differences(found: Any) -> dict[tuple[str, str], float]:
    return {(row.a, row.b): round(row.difference.value, 9) for row in found.rows if not row.group}


def text_of(table: Table) -> str:
    return "\n".join([*(" | ".join(row) for row in table.rows), *table.notes])


def test_each_method_is_compared_with_the_same_method_of_the_first_run(two: tuple[Path, Path]) -> None:
    found = beholder.compare(*two)
    assert differences(found) == {("A:m1", "B:m1"): 0.05, ("A:m2", "B:m2"): -0.1}
    assert found.matched == "A"
    assert found.baselines == {"B:m2": "A:m2", "B:m1": "A:m1"}
    assert [(pair.a, pair.b, pair.unpaired_a) for pair in found.pairings] == [("A:m2", "B:m2", 0), ("A:m1", "B:m1", 0)]
    assert found.notices[0].startswith(
        "the runs have the same methods, so each method is compared with the same method"
    )
    assert found.row("clip_score", "B:m2").verdict == "worse"


def test_p_values_are_corrected_over_what_is_compared(two: tuple[Path, Path]) -> None:
    found = beholder.compare(*two, by="kind")
    # Two methods, over all rows and in two groups: six tests.
    p = [row.difference.p.value for row in found.rows]
    assert len(p) == 6
    assert [row.holm for row in found.rows] == pytest.approx(list(holm(p)))
    assert [row.bh for row in found.rows] == pytest.approx(list(benjamini_hochberg(p)))
    # Eight differences of one sign: of the 2^8 patterns two are as far out. Holm over two tests doubles that.
    plain = beholder.compare(*two)
    assert [row.difference.p.value for row in plain.rows] == pytest.approx([2 / 256, 2 / 256])
    assert [row.holm for row in plain.rows] == pytest.approx([4 / 256, 4 / 256])


def test_a_side_that_is_named_is_the_baseline_of_all(two: tuple[Path, Path]) -> None:
    found = beholder.compare(*two, baseline="A:m1")
    assert differences(found) == {("A:m1", "A:m2"): 0.3, ("A:m1", "B:m2"): 0.2, ("A:m1", "B:m1"): 0.05}
    assert found.matched is None
    assert not found.notices


def test_a_run_may_be_named_as_the_baseline(two: tuple[Path, Path]) -> None:
    found = beholder.compare(*two, baseline="B")
    assert differences(found) == {("B:m1", "A:m1"): -0.05, ("B:m2", "A:m2"): 0.1}
    assert found.sides[:2] == ("B:m2", "B:m1")
    with pytest.raises(UnknownNameError, match="runs: A, B"):
        beholder.compare(*two, baseline="C")


def test_three_runs_are_each_matched_with_the_first(two: tuple[Path, Path], tmp_path: Path) -> None:
    third = made_run(tmp_path / "C", rows({"m1": 0.3, "m2": 0.3}))
    assert differences(beholder.compare(*two, third)) == {
        ("A:m1", "B:m1"): 0.05, ("A:m2", "B:m2"): -0.1, ("A:m1", "C:m1"): 0.1, ("A:m2", "C:m2"): -0.2,
    }  # fmt: skip


def test_other_methods_are_not_matched_and_that_is_said(two: tuple[Path, Path], tmp_path: Path) -> None:
    other = made_run(tmp_path / "C", rows({"m1": 0.3, "m3": 0.3}))
    found = beholder.compare(two[0], other)
    assert {row.a for row in found.rows} == {"A:m1"}
    assert found.notices[0] == (
        "the runs do not have the same methods (A: m1, m2; C: m1, m3), so all sides are compared with A:m1"
    )
    with pytest.raises(UnknownNameError, match="Sides: A:m1"):
        beholder.compare(two[0], other, baseline="C")
    one = made_run(tmp_path / "D", rows({"m1": 0.3}))
    assert {row.a for row in beholder.compare(two[0], one).rows} == {"A:m1"}


def test_seeds_of_each_run_leave_the_key_though_its_methods_share_them(tmp_path: Path) -> None:
    a = made_run(tmp_path / "A", rows({"m1": 0.2, "m2": 0.5}, seeds={"m1": 1, "m2": 1}))
    b = made_run(tmp_path / "B", rows({"m1": 0.25, "m2": 0.4}, seeds={"m1": 2, "m2": 2}))
    found = beholder.compare(a, b)
    assert found.key == ("prompt",)
    assert differences(found) == {("A:m1", "B:m1"): 0.05, ("A:m2", "B:m2"): -0.1}


def test_what_differs_and_what_does_not_pair_is_told_by_matched_sides(two: tuple[Path, Path], tmp_path: Path) -> None:
    settings = {"settings": {"prefix": "A photo of"}}
    other = made_run(tmp_path / "C", rows({"m1": 0.2, "m2": 0.5}), [made_metric("clip_score", **settings)])
    with pytest.raises(UserError, match="clip_score of C:m2 is not the same number as that of A:m2"):
        beholder.compare(two[0], other)
    elsewhere = [row | {"prompt": f"other {row['prompt']}"} for row in rows({"m1": 0.2, "m2": 0.5})]
    with pytest.raises(
        UserError, match=r"no row of A:m1 with a partner in D:m1; no row of A:m2 with a partner in D:m2"
    ):
        beholder.compare(two[0], made_run(tmp_path / "D", elsewhere))


def test_table_and_records_name_each_rows_own_baseline(two: tuple[Path, Path]) -> None:
    found = beholder.compare(*two)
    table = comparison_table(found)
    assert [column.title for column in table.columns[:3]] == ["metric", "side", "against"]
    assert [row[1:3] for row in table.rows] == [("B:m2", "A:m2"), ("B:m1", "A:m1")]
    told = text_of(table)
    assert "Δ is side − the same method of A; paired on prompt, seed" in told
    assert "p Holm and p BH over the 2 tests shown" in told
    assert "B:m1 against A:m1, of 1 metric: better on 1." in told
    assert [(row["run"], row["baseline"]) for row in flat_records(found)] == [("B:m2", "A:m2"), ("B:m1", "A:m1")]
    facts = comparison_json(found)
    assert (facts["matched"], facts["baselines"]) == ("A", {"B:m2": "A:m2", "B:m1": "A:m1"})
    assert "against" not in [
        column.title for column in comparison_table(beholder.compare(*two, baseline="A:m1")).columns
    ]


def test_the_report_compares_as_compare_does(two: tuple[Path, Path]) -> None:
    report = collect(two, by=["kind"])
    names = [side.name for side in report.sides]
    assert {names[at]: names[one] for at, one in report.against.items()} == {"B:m2": "A:m2", "B:m1": "A:m1"}
    shown = {names[at]: delta.text.split()[0].replace("−", "-") for (at, _), delta in report.deltas.items()}
    assert {name: float(text) for name, text in shown.items()} == {"B:m1": 0.05, "B:m2": -0.1}
    assert report.verdicts == ["B:m2 beats A:m2 on none of 1 metric, worse on 1.", "B:m1 beats A:m1 on 1 of 1 metric."]
    assert report.group_tables["kind"]["notes"] == ["Δ is the paired difference to the same method of A."]
    assert "differs from the same method of A" in report.markdown
    # What moved most is −0.1 of m2, not the +0.3 between the methods of A.
    assert {float(text) for pick in report.picks for text in pick.notes} == {0.1}


def test_the_command_says_what_is_matched(two: tuple[Path, Path]) -> None:
    run = CliRunner()
    shown = run.invoke(app, ["compare", *map(str, two), "--as", "json"])
    assert shown.exit_code == 0
    assert json.loads(shown.stdout)["matched"] == "A"
    assert "name one side with --baseline" in shown.stderr
    other = run.invoke(app, ["compare", *map(str, two), "--baseline", "A:m1", "--as", "json"])
    assert {row["baseline"] for row in json.loads(other.stdout)["rows"]} == {"A:m1"}


def test_the_page_names_the_baseline_under_each_side(two: tuple[Path, Path]) -> None:
    page = str(overview(collect(two)))
    assert page.count(">baseline<") == 2
    assert (page.count(">against A:m1<"), page.count(">against A:m2<")) == (1, 1)
    alone = str(overview(collect(two, baseline="A:m1")))
    assert (alone.count(">baseline<"), alone.count(">against ")) == (1, 0)


def test_show_marks_what_differs_from_the_same_method_of_a_run(two: tuple[Path, Path]) -> None:
    shown = CliRunner().invoke(app, ["show", *map(str, two), "--baseline", "A", "--as", "md"])
    assert shown.exit_code == 0
    assert "differs from the same method of A" in shown.stdout
    lines = [line for line in shown.stdout.splitlines() if line.startswith("|")]
    assert {line.split("|")[1].strip() for line in lines if "*" in line.replace("**", "")} == {"B"}


def test_metrics_of_sets_are_matched_too(tmp_path: Path) -> None:
    values = {"A": {"m1": 10.0, "m2": 30.0}, "B": {"m1": 12.0, "m2": 25.0}}
    # 100 and 50 pictures: methods of one run need not be of one size where they are not compared.
    sizes = {"m1": 100, "m2": 50}
    folders = []
    for name, own in values.items():
        rows_of_run = [
            {"id": f"{method}-{at}", "method": method, "prompt": f"p{at}"} for method in own for at in range(3)
        ]
        folder = made_run(tmp_path / name, rows_of_run, [made_metric("fd", higher=False)])
        table = pq.read_table(folder / "scores.parquet").drop_columns(["fd", "fd_status"])
        pq.write_table(table, folder / "scores.parquet")
        stored = [
            Summary("fd", "fd", "set", value, None, None, 0.95, None, "picture", sizes[method], sizes[method],
                    sd=1.0, group={"method": method})
            for method, value in own.items()
        ]  # fmt: skip
        (folder / "sets.json").write_text(json.dumps([vars(row) for row in stored]))
        folders.append(folder)
    found = beholder.compare(*folders)
    assert {(row.a, row.b): row.difference for row in found.sets} == {("A:m1", "B:m1"): 2.0, ("A:m2", "B:m2"): -5.0}
    # ±1.96·√2 around the differences.
    assert [round(row.high - row.difference, 3) for row in found.sets if row.high is not None] == [2.772, 2.772]
    assert [row.verdict for row in found.sets] == ["inconclusive", "better"]
    assert found.matched == "A"
    assert found.notices
    assert "B:m2 against A:m2, of 1 metric: better on 1." in text_of(comparison_table(found))
