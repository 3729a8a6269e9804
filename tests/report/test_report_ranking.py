"""Best in bold, second underlined, ± and marks: by hand from the same summaries."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.report.report_helpers import header, metric, summary

from beholder._errors import OptionError
from beholder.report.ranking import Marks, check_spread, format_with_spread, group_key
from beholder.report.render import to_latex, to_markdown, to_text
from beholder.report.tables import RunView, wide_table

UP, DOWN = metric("up"), metric("down", info={"higher_is_better": False})


def view(name: str, up: float | None, down: float | None, **changes: object) -> RunView:
    rows = [summary("up", up, **changes), summary("down", down, **changes)]
    return RunView(name, header(UP, DOWN, metric("flat", info={"higher_is_better": None})), rows)


THREE = [view("a", 0.31, 0.1), view("b", 0.29, 0.3), view("c", 0.30, 0.2)]


def test_the_direction_decides_what_is_best() -> None:
    table = wide_table(THREE, spread="none", rank=True)
    assert table.styles == {(0, 1): "best", (2, 1): "second", (0, 2): "best", (2, 2): "second"}
    assert "| a | **0.3100** | **0.1000** |" in to_markdown(table)
    assert "| c | <u>0.3000</u> | <u>0.2000</u> |" in to_markdown(table)
    assert r"a & \textbf{0.3100} & \textbf{0.1000} \\" in to_latex(table)
    assert r"c & \underline{0.3000} & \underline{0.2000} \\" in to_latex(table)
    assert "*" not in to_text(table).split("\n\n")[0]


def test_values_that_print_alike_share_a_place() -> None:
    table = wide_table([view("a", 0.310001, None), view("b", 0.310002, None), view("c", 0.2, None)], rank=True)
    assert table.styles == {(0, 1): "best", (1, 1): "best", (2, 1): "second"}


def test_nothing_competes_alone_or_without_a_direction() -> None:
    assert wide_table([view("a", 0.3, None)], rank=True).styles == {}
    flat = [RunView(name, THREE[0].header, [summary("flat", value)]) for name, value in (("a", 0.1), ("b", 0.2))]
    assert wide_table(flat, rank=True).styles == {}
    assert wide_table(THREE).styles == {}


def test_categories_do_not_compete_with_each_other() -> None:
    rows = [summary("up", value, group={"category": name}) for name, value in (("cats", 0.9), ("dogs", 0.1))]
    other = [summary("up", value, group={"category": name}) for name, value in (("cats", 0.8), ("dogs", 0.2))]
    table = wide_table([RunView("a", header(UP), rows), RunView("b", header(UP), other)], rank=True)
    assert table.styles == {(0, 2): "best", (1, 2): "second", (2, 2): "second", (3, 2): "best"}


def test_half_of_the_interval_stands_behind_plus_minus() -> None:
    # (0.2806 − 0.2702)/2 = 0.0052
    assert format_with_spread(0.27527, 0.2702, 0.2806, "pm") == "0.2753 ± 0.0052"
    assert format_with_spread(0.27527, None, None, "pm") == "0.2753"
    assert format_with_spread(None, None, None, "pm") == "—"
    table = wide_table(THREE, spread="pm")
    assert "± is half the length of the 95 % interval." in table.notes
    assert r"0.3100 $\pm$ 0.0051" in to_latex(table)


def test_marks_stand_where_the_comparison_says_so() -> None:
    marks = Marks("a", frozenset({("b", None, "up", ()), ("c", "m", "down", ())}), 0.95)
    table = wide_table(THREE, spread="none", marks=marks)
    assert [row[1] for row in table.rows] == ["0.3100", "0.2900*", "0.3000"]
    assert [row[2] for row in table.rows] == ["0.1000", "0.3000", "0.2000"]
    assert any(note.startswith("* differs from a ") for note in table.notes)
    assert r"0.2900$^{*}$" in to_latex(table)


def test_an_asterisk_in_a_name_is_no_mark_in_latex() -> None:
    marks = Marks("a*", frozenset({("b*", None, "up", ())}), 0.95)
    table = wide_table([replace(run, name=f"{run.name}*") for run in THREE], spread="none", marks=marks)
    lines = to_latex(table).splitlines()
    (row,) = [line for line in lines if line.startswith("b")]
    assert row.startswith(r"b\textasteriskcentered{} & ")
    assert r"0.2900$^{*}$" in row
    (note,) = [line for line in lines if "differs from" in line]
    assert note.startswith(r"$^{*}$ differs from a\textasteriskcentered{} (paired")


def test_other_words_are_refused() -> None:
    with pytest.raises(OptionError, match="interval, pm, none"):
        check_spread("sd")


def test_marks_of_groups_stand_in_their_groups() -> None:
    def view(name: str) -> RunView:
        groups: list[dict[str, object]] = [{"category": "x"}, {"category": None}, {"category": 2.0}, {}]
        return RunView(name, header(UP), [summary("up", 0.3, group=group) for group in groups])

    different = {("b", None, "up", group_key(group)) for group in ({"category": "x"}, {"category": "2"})}
    table = wide_table([view("a"), view("b")], spread="none", marks=Marks("a", frozenset(different), 0.95))
    marked = {(row[0], row[1]) for row in table.rows if row[-1].endswith("*")}
    assert marked == {("b", "x"), ("b", "2.0")}
