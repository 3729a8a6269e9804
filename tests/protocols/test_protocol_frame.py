"""The frame of all protocols: cards, registry, options, tables as data, tables as text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.protocols.bench_data import picture

import beholder as package
from beholder.cli.bench import PROTOCOL_NAMES
from beholder.manifest import open_source
from beholder.manifest.schema import SampleSource
from beholder.metrics.catalog import METRICS
from beholder.protocol_runs import bench, make_protocol
from beholder.protocols.base import Finished, MetricUse, Protocol, ProtocolInfo
from beholder.protocols.catalog import PROTOCOLS
from beholder.protocols.results import Number, Results, ResultTable
from beholder.protocols.tally import cell_list, mean_number, number_of, ratio_number, summaries
from beholder.records import OptionInfo
from beholder.report.protocol import counts_text, render_results, result_records, result_table


class Plain(Protocol):
    """The least that a protocol is."""

    info = ProtocolInfo(
        name="plain", summary="For tests.", data=("A manifest.",), metrics=(MetricUse("clip_score(model=fake)"),),
        tables={"all": "means"}, paper=None, reference_code=None, version="1",
        options=(OptionInfo("side", "left", "A side.", choices=("left", "right")),),
    )  # fmt: skip

    def source(self, data: Any, *, mapping: Mapping[str, str] | None = None, allow_extra: bool = False) -> SampleSource:
        return open_source(data, mapping=mapping, allow_extra=allow_extra)

    def tables(self, finished: Finished) -> Iterable[ResultTable]:
        found = [number_of(item, (item.aggregate,), scored.label) for scored in finished.metrics
                 for item in summaries(finished, scored)]  # fmt: skip
        yield ResultTable("all", "Means", ("aggregate",), tuple(s.label for s in finished.metrics), tuple(found))


@pytest.mark.parametrize("name", PROTOCOLS.names())
def test_every_protocol_has_a_whole_card(name: str) -> None:
    info = PROTOCOLS.get(name).info
    assert info.name == name
    assert info.summary.endswith(".")
    assert all(text.endswith(".") for text in (*info.data, *info.caveats))
    assert info.metrics
    assert info.tables
    assert info.paper
    for use in info.metrics:
        assert use.name in METRICS, f"{name} names {use.name}"
        assert not use.tasks or use.why


@pytest.mark.parametrize("name", PROTOCOLS.names())
def test_info_prints_every_protocols_card(beholder: Callable[..., Any], name: str) -> None:
    done = beholder("info", name)
    assert done.exit_code == 0
    assert PROTOCOLS.get(name).info.summary[:40] in done.stdout
    assert json.loads(beholder("info", name, "--json").stdout)["name"] == name


def test_list_names_the_protocols(beholder: Callable[..., Any]) -> None:
    told = json.loads(beholder("list", "--protocols", "--json").stdout)
    assert [card["name"] for card in told["protocols"]] == PROTOCOLS.names()
    assert "genai-bench" in beholder("list", "--protocols").stdout
    assert [card.name for card in package.list_protocols()] == PROTOCOLS.names()


def test_the_help_of_bench_names_every_protocol() -> None:
    assert re.findall(r"[\w+-]+", PROTOCOL_NAMES.replace(" or ", " ")) == PROTOCOLS.names()


def test_a_protocol_object_runs_like_a_named_one(tmp_path: Path) -> None:
    rows = [
        {"output": str(picture(tmp_path / f"{at}.png", at)), "prompt": f"p{at}", "concept": "ab"[at // 3]}
        for at in range(4)
    ]
    found = bench(Plain(), rows, out=str(tmp_path / "run"))
    values = found.run.scores.column("clip_score").to_pylist()
    table = found.results.table("all")
    assert table.number("micro", column="clip_score").value == pytest.approx(sum(values) / 4)
    assert table.number("macro", column="clip_score").value == pytest.approx((sum(values[:3]) / 3 + values[3]) / 2)
    assert found.results.counts == {"outputs": 4}
    assert "clip_score" in repr(found)


def test_a_metric_object_of_ones_own_is_scored_and_named_by_its_identity(tmp_path: Path) -> None:
    from beholder.metrics.clip import ClipScore

    rows = [{"output": str(picture(tmp_path / "a.png", 1)), "prompt": "x"}]
    metric = ClipScore({"variant": "torchmetrics", "model": "fake"})
    found = bench(Plain(), rows, metrics=[metric], out=str(tmp_path / "run"))
    assert [item["identity"] for item in found.run.header["metrics"]] == [metric.identity]
    assert found.results.table("all").number("micro", column="clip_score").value is not None


def test_options_are_checked() -> None:
    assert Plain().options == {"side": "left"}
    assert Plain({"side": "right"}).options == {"side": "right"}
    assert Plain({"side": None}).options == {"side": "left"}
    with pytest.raises(package.UserError, match="left, right"):
        Plain({"side": "up"})
    with pytest.raises(package.UserError, match="unknown option"):
        Plain({"sides": "left"})
    with pytest.raises(package.UserError, match="genai-bench"):
        make_protocol("genai-bensh")


def table(**changes: Any) -> ResultTable:
    numbers = (
        Number(("a", "x"), "m", 0.51234, 0.50, 0.53, n=10, n_units=5, unit="prompt"),
        Number(("a", "y"), "m", None, n=0, n_missing={"no_mask": 3}, note="nothing to count"),
        Number(("b", "x"), "m", 0.7, n=8, sd=0.012, sd_over="seed"),
        Number(("paper", "x"), "m", 0.764, source="arXiv 1"),
    )
    facts = {"name": "t", "title": "Title", "keys": ("method", "part"), "columns": ("m", "k"), "numbers": numbers}
    return ResultTable(**{**facts, **changes})


def test_tables_go_through_json_and_come_back_equal() -> None:
    found = Results("p", "1", (table(),), {"outputs": 3}, ("A notice.",))
    assert Results.from_dict(json.loads(json.dumps(found.to_dict()))) == found


@pytest.mark.parametrize("broken", [{}, {"schema": 1, "tables": 3}, None, {"schema": 99}])
def test_what_is_no_table_file_says_so(broken: Any) -> None:
    with pytest.raises(package.UserError, match=r"protocol\.json"):
        Results.from_dict(broken)


def test_a_number_without_a_place_in_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="no place"):
        table(columns=("k",))
    with pytest.raises(package.UserError, match="number of the table t"):
        table().number("a", "z", column="m")


def test_published_rows_come_last_and_are_marked() -> None:
    shown = result_table(table())
    assert [column.title for column in shown.columns] == ["from", "method", "part", "m", "k", "n"]
    assert [row[0] for row in shown.rows] == ["this run"] * 3 + ["published"]
    assert shown.rows[0] == ("this run", "a", "x", "0.512 [0.500, 0.530]", "—", "10")
    assert shown.rows[2][3].endswith("± 0.012")
    assert shown.rows[3] == ("published", "paper", "x", "0.764", "—", "—")
    assert "Published numbers: arXiv 1." in shown.notes
    assert "± is the standard deviation over seeds." in shown.notes
    assert "a, y, m: without a value: 3 no_mask." in shown.notes


def test_a_table_without_a_column_for_n_tells_it_below() -> None:
    numbers = [
        Number(("one",), "a", 0.5, 0.4, 0.6, n=9),
        Number(("one",), "b", 0.5, n=4),
        Number(("two",), "b", 1.0, n=6),
    ]
    found = result_table(ResultTable("t", "Title", ("model",), ("a", "b"), tuple(numbers), show_n=False))
    assert "n" not in [column.title for column in found.columns]
    assert "n: 9 for a; 4–6 for b." in found.notes


def test_records_have_every_number_unrounded_with_its_source() -> None:
    records = result_records(Results("p", "1", (table(),)))
    assert [record["value"] for record in records] == [0.51234, None, 0.7, 0.764]
    assert [record["from"] for record in records] == ["this run"] * 3 + ["published"]
    assert records[1]["n_missing"] == {"no_mask": 3}
    assert records[0]["group"] == {"method": "a", "part": "x"}


@pytest.mark.parametrize("form", ["text", "md", "latex", "csv"])
def test_every_form_has_all_tables(form: str) -> None:
    found = Results("p", "1", (table(), table(name="u", title="Other")), {"outputs": 3, "by": {"a": 1}}, ("Note.",))
    text = render_results(found, form)
    assert text.count("0.764") == 2
    assert ("Title" in text and "Other" in text) or form == "csv"
    assert "outputs 3, by (a 1)" in text or form == "csv"
    assert counts_text({"outputs": 3, "none": None}) == "outputs 3"


def finished(n: int, **columns: Any) -> Finished:
    return Finished(n, columns, [])


def test_means_and_ratios_of_nothing_have_no_value() -> None:
    import numpy as np

    none = mean_number(np.array([]), np.array([], dtype=int), finished(0), ("a",), "m")
    assert (none.value, none.n, none.note) == (None, 0, "nothing to count")
    units = np.array([0, 0, 1])
    one = ratio_number(np.array([1.0, 0.0, 1.0]), np.array([2.0, 1.0, 1.0]), units, finished(3), ("a",), "m")
    assert (one.value, one.n, one.n_units) == (0.5, 4, 2)


@pytest.mark.parametrize(
    ("cell", "items"),
    [
        (None, []), ([1, 2], [1, 2]), ("[1, 2]", [1, 2]), ("['a', 'b']", ["a", "b"]), ("a|b", ["a", "b"]),
        ("a, b", ["a", "b"]), ("", []), ({"r1": 3}, [3]), ('{"r1": 3}', [3]), (4, ["4"]),
    ],
)  # fmt: skip
def test_lists_in_cells(cell: Any, items: list[Any]) -> None:
    assert cell_list(cell) == items


def test_protocols_neither_run_anything_nor_touch_a_model() -> None:
    import beholder.protocols

    for path in Path(beholder.protocols.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "beholder.backends" not in text, path
        assert "beholder.runs" not in text, path


def test_a_run_without_tables_has_none(tmp_path: Path) -> None:
    from beholder.protocol_runs import read_results

    rows = [{"output": str(picture(tmp_path / "a.png", 1)), "prompt": "x"}]
    run = package.evaluate(rows, metrics="clip_score(model=fake)", out=str(tmp_path / "run"))
    assert read_results(run) is None
    (tmp_path / "run" / "protocol.json").write_text("{")
    with pytest.raises(package.UserError, match="readable JSON"):
        read_results(run)
