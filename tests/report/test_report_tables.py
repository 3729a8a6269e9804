"""Which rows, columns and notes a table has."""

from __future__ import annotations

import dataclasses
import json

from tests.report.report_helpers import header, metric, summary

from beholder.report.tables import RunView, long_table, records, wide_table


def test_a_long_table_has_value_interval_n_and_missing_by_status() -> None:
    view = RunView("sdxl", header(metric("clip_score")), [summary(n=237, n_missing={"missing": 1, "unreadable": 2})])
    table = long_table(view)
    assert [column.title for column in table.columns] == ["metric", "value", "95 % CI", "n", "missing"]
    assert table.rows == (("clip_score ↑", "0.2753", "[0.2701, 0.2804]", "237", "3 (2 unreadable, 1 missing)"),)
    assert table.notes == (
        "clip_score: unit cosine, model hf:openai/clip-vit-large-patch14, micro aggregate, "
        "95 % interval by bootstrap-percentile over prompts.",
    )


def test_arrows_say_the_direction_and_are_absent_without_one() -> None:
    infos = {"up": True, "down": False, "none": None}
    metrics = [metric(name, info={"higher_is_better": way}) for name, way in infos.items()]
    table = long_table(RunView("r", header(*metrics), [summary(name) for name in infos]))
    assert [row[0] for row in table.rows] == ["up ↑", "down ↓", "none"]


def test_a_missing_value_is_a_dash_with_its_reason_below() -> None:
    none = summary("clip_i", None, n=0, n_missing={"no_reference": 240})
    table = long_table(RunView("r", header(), [none]))
    assert table.rows[0][1:3] == ("—", "—")
    assert table.notes[0] == "clip_i: no sample has a value: missing 240 (240 no_reference)."


def test_rows_go_metric_by_metric_in_the_order_asked_for() -> None:
    cells = [summary(label, group={"method": m}) for m in ("b", "a") for label in ("clip_i", "clip_score")]
    table = long_table(RunView("r", header(metric("clip_score"), metric("clip_i")), cells))
    assert [row[:2] for row in table.rows] == [
        ("clip_score ↑", "b"), ("clip_score ↑", "a"), ("clip_i ↑", "b"), ("clip_i ↑", "a"),
    ]  # fmt: skip


def test_only_headline_values_show_unless_all_are_asked_for() -> None:
    view = RunView("r", header(metric("clip_score")), [summary(), summary(aggregate="macro", headline=False)])
    assert len(long_table(view).rows) == 1
    table = long_table(view, show_all=True)
    assert [row[1] for row in table.rows] == ["micro", "macro"]
    assert len(records([view])) == 1
    assert len(records([view], show_all=True)) == 2


def test_all_aggregates_of_a_metric_share_a_note_by_how_they_were_made() -> None:
    ways = {"macro": "concept", "skip": "concept", "zero": "concept", "micro": "prompt", "pairs": "prompt"}
    cells = [
        summary(aggregate=name, unit=unit, headline=name == "macro", group={"method": m}, note="few rows")
        for m in "ab"
        for name, unit in ways.items()
    ]
    notes = long_table(RunView("r", header(metric("clip_score")), cells), show_all=True).notes
    assert notes == (
        "method=a, clip_score; method=b, clip_score: few rows.",
        "clip_score: unit cosine, model hf:openai/clip-vit-large-patch14, "
        "macro, skip and zero aggregates, 95 % interval by bootstrap-percentile over concepts; "
        "micro and pairs aggregates, 95 % interval by bootstrap-percentile over prompts.",
    )


def test_the_mean_over_seeds_shows_in_a_table_by_seed() -> None:
    cells = [summary(group={"seed": seed}) for seed in (0, 1)]
    over = summary(
        aggregate="over_seeds", low=None, high=None, ci_method=None, sd=0.0031, headline=False, note="by seed"
    )
    table = long_table(RunView("r", header(metric("clip_score")), [*cells, over]))
    assert [row[1] for row in table.rows] == ["0", "1", "all"]
    assert table.rows[2][2:4] == ("0.2753", "± 0.0031")
    assert "clip_score: by seed." in table.notes
    known = dataclasses.replace(over, low=0.27, high=0.28)
    table = long_table(RunView("r", header(metric("clip_score")), [*cells, known]))
    assert "clip_score: by seed; 95 % interval [0.2700, 0.2800] by t over seeds." in table.notes


def test_a_wide_table_has_a_row_a_run_and_group_and_a_column_a_metric() -> None:
    first = RunView("a", header(metric("clip_score"), metric("clip_i")), [summary(), summary("clip_i", 0.2744)])
    second = RunView("b", header(metric("clip_score")), [summary(n=200, n_missing={"unreadable": 40})])
    table = wide_table([first, second])
    assert [column.title for column in table.columns] == ["run", "clip_score ↑", "clip_i ↑"]
    assert table.rows == (
        ("a", "0.2753 [0.2701, 0.2804]", "0.2744 [0.2701, 0.2804]"),
        ("b", "0.2753 [0.2701, 0.2804]", "—"),
    )
    assert "b, clip_i: not computed." in table.notes
    assert "a: n = 240, none missing." in table.notes
    assert "b: n = 200, missing 40 (40 unreadable)." in table.notes


def test_every_cell_of_a_wide_table_says_what_stands_behind_it() -> None:
    def view(name: str, *counts: int) -> RunView:
        cells = [summary(label, n=n) for label, n in zip(("clip_score", "clip_i"), counts)]
        return RunView(name, header(metric("clip_score"), metric("clip_i")), cells)

    assert "Every cell: n = 80, none missing." in wide_table([view("a", 80, 80), view("b", 80, 80)]).notes
    mixed = wide_table([view("a", 80, 79), view("b", 79, 79)]).notes
    assert "a, clip_score: n = 80, none missing." in mixed
    assert "a, clip_i; b: n = 79, none missing." in mixed


def test_a_long_table_shows_what_is_asked_for_beside_a_value() -> None:
    view = RunView("r", header(metric("clip_score")), [summary(n=240)])
    pm = long_table(view, spread="pm")
    assert [column.title for column in pm.columns] == ["metric", "value", "±", "n", "missing"]
    assert pm.rows == (("clip_score ↑", "0.2753", "± 0.0051", "240", "0"),)
    assert pm.notes[0] == "± is half the length of the 95 % interval."
    none = long_table(view, spread="none")
    assert none.rows == (("clip_score ↑", "0.2753", "240", "0"),)


def test_metrics_with_equal_numbers_are_said_to_be_the_same() -> None:
    same = long_table(RunView("r", header(), [summary("clip_score"), summary("clip_t")]))
    assert "clip_t: same as clip_score in every number." in same.notes
    other = long_table(RunView("r", header(), [summary("clip_score"), summary("clip_t", 0.2752700001)]))
    assert not any("same as" in note for note in other.notes)
    empty = long_table(RunView("r", header(), [summary("clip_score", None), summary("clip_t", None)]))
    assert not any("same as" in note for note in empty.notes)


def test_one_note_for_many_cells_names_the_first_and_counts_the_rest() -> None:
    cells = [summary(group={"prompt": str(i)}, note="few prompts") for i in range(100)]
    notes = long_table(RunView("r", header(), cells)).notes
    assert notes[0].endswith("; and 88 more: few prompts.")


def test_records_are_unrounded_and_json_ready() -> None:
    view = RunView("r", header(metric("clip_score")), [summary(group={"method": None}), summary("clip_i", None)])
    found = json.loads(json.dumps(records([view]), allow_nan=False))
    assert (found[0]["value"], found[0]["group"], found[0]["higher_is_better"]) == (0.27527, {"method": None}, True)
    assert (found[1]["value"], found[1]["low"], found[1]["higher_is_better"]) == (None, None, None)
