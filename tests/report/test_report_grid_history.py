"""Figures of samples, and the numbers of many runs over time."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from tests.comparing.made_runs import made_metric, made_run
from tests.report.report_runs import pictured_run, set_run

from beholder._errors import OptionError, UnknownNameError, UserError
from beholder.report.render import to_text
from beholder.reporting import history
from beholder.reporting.grids import GridCell, grid
from beholder.reporting.histories import draw_history, history_records, history_table


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[list[list[str]]]:
    """What would be drawn: the texts of the cells, row by row."""
    found: list[list[list[str]]] = []

    def keep(rows: list[list[GridCell]], out: Path, **texts: object) -> None:
        found.append([[cell.text for cell in row] for row in rows])

    monkeypatch.setattr("beholder.reporting.grids.draw_grid", keep)
    return found


def one_run(folder: Path, count: int = 9) -> Path:
    rows = [{"prompt": f"p{at}", "up": at / 10, "down": at / 10} for at in range(count)]
    return made_run(folder, rows, [made_metric("up"), made_metric("down", higher=False)])


def values(rows: list[list[str]]) -> list[float]:
    return [float(text.split("\n")[0].split()[-1]) for row in rows for text in row]


@pytest.mark.parametrize(
    ("pick", "metric", "expected"),
    [
        ("worst", "up", [0.0, 0.1, 0.2]),
        ("best", "up", [0.8, 0.7, 0.6]),
        ("worst", "down", [0.8, 0.7, 0.6]),
        ("median", "up", [0.3, 0.4, 0.5]),
    ],
)
def test_the_samples_of_one_run(
    tmp_path: Path, drawn: list[list[list[str]]], pick: str, metric: str, expected: list[float]
) -> None:
    grid(one_run(tmp_path / "r"), out=tmp_path / "g.pdf", pick=pick, metric=metric, n=3)
    assert values(drawn[0]) == expected


def test_a_random_draw_follows_its_seed(tmp_path: Path, drawn: list[list[list[str]]]) -> None:
    run = one_run(tmp_path / "r", 40)
    for seed in (0, 0, 1):
        grid(run, out=tmp_path / "g.pdf", pick="random", n=5, seed=seed)
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(values(drawn[0]))) == 5


def test_prompts_of_several_sides_are_rows(tmp_path: Path, drawn: list[list[list[str]]]) -> None:
    run = pictured_run(tmp_path)
    grid(run, out=tmp_path / "g.pdf", pick="worst", n=2)
    assert [values([row]) for row in drawn[0]] == [[0.3, 0.5], [0.31, 0.51]]
    grid(run, out=tmp_path / "g.pdf", pick="best", n=1, baseline="better")
    assert values(drawn[1]) == [0.6, 0.4]
    grid(run, out=tmp_path / "g.pdf", pick="median", n=1)
    assert values(drawn[2]) == [0.35, 0.55]
    grid(run, out=tmp_path / "g.pdf", pick="changed", n=3)
    assert len(drawn[3]) == 3


def test_a_side_without_any_value_does_not_empty_the_grid(tmp_path: Path, drawn: list[list[list[str]]]) -> None:
    rows = [{"prompt": f"p{at}", "method": method, "up": None if method == "b" else at / 10}
            for method in "ab" for at in range(4)]  # fmt: skip
    run = made_run(tmp_path / "r", rows, [made_metric("up")])
    grid(run, out=tmp_path / "g.pdf", pick="best", n=2)
    assert [row[0] for row in drawn[0]] == ["up 0.300", "up 0.200"]


@pytest.mark.parametrize(("ending", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_figures_are_written_and_repeat(tmp_path: Path, ending: str, magic: bytes) -> None:
    run = pictured_run(tmp_path)
    one = grid(run, out=tmp_path / f"a.{ending}", n=2, references=True)
    two = grid(run, out=tmp_path / f"b.{ending}", n=2, references=True)
    assert one.read_bytes() == two.read_bytes()
    assert one.read_bytes().startswith(magic)
    if ending == "png":
        with Image.open(one) as image:
            colours = {colour for _, colour in image.convert("RGB").getcolors(maxcolors=1 << 24) or []}
        assert {(9, 9, 200), (0, 0, 120), (20, 0, 120), (0, 80, 120)} <= colours  # reference, base 0 and 1, better 0
    if ending == "svg":
        assert "prompt number 0" in one.read_text("utf-8")


def test_what_a_grid_refuses(tmp_path: Path) -> None:
    run = one_run(tmp_path / "r")
    for wrong in ({"pick": "nicest"}, {"n": 0}, {"out": tmp_path / "g.gif"}, {"pick": "changed"}):
        with pytest.raises(OptionError):
            grid(run, **{"out": tmp_path / "g.pdf", **wrong})  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="metric"):
        grid(run, out=tmp_path / "g.pdf", metric="upp")
    empty = made_run(tmp_path / "empty", [{"prompt": "p", "clip_score": None}])
    with pytest.raises(UserError, match="with a value"):
        grid(empty, out=tmp_path / "g.pdf")
    with pytest.raises(UserError, match="metric of samples"):
        grid(set_run(tmp_path / "sets", {"fid": 1.0}), out=tmp_path / "g.pdf")


def dated(folder: Path, day: int, mean: float, **entry: object) -> Path:
    rows = [{"prompt": f"p{at}", "clip_score": mean + (at - 2) / 100} for at in range(5)]
    return made_run(folder, rows, [made_metric("clip_score", **entry)], finished=f"2025-03-0{day}T10:00:00Z")


def test_a_history_is_in_the_order_of_time_and_knows_its_changes(tmp_path: Path) -> None:
    late, early = dated(tmp_path / "a", 3, 0.5), dated(tmp_path / "b", 1, 0.3)
    middle = dated(tmp_path / "c", 2, 0.4)
    (tmp_path / "notes").mkdir()
    found = history(late, early, middle, tmp_path / "notes")
    assert found.runs == ("b", "c", "a")
    assert [item.change for item in found.entries] == [None, pytest.approx(0.1), pytest.approx(0.1)]
    assert [record["value"] for record in history_records(found)] == pytest.approx([0.3, 0.4, 0.5])
    assert len(found.skipped) == 1
    assert "Skipped: " in to_text(history_table(found))


def test_a_number_of_another_make_breaks_the_line(tmp_path: Path) -> None:
    runs = [dated(tmp_path / "a", 1, 0.3), dated(tmp_path / "b", 2, 30.0, identity="clip_score(variant=x100)")]
    found = history(*runs)
    assert found.entries[1].change is None
    table = history_table(found)
    assert [row[2].startswith("≠ ") for row in table.rows] == [False, True]
    assert any("clip_score(variant=x100) against clip_score" in note for note in table.notes)
    path = draw_history(found, tmp_path / "h.svg")
    assert "clip_score" in path.read_text("utf-8")


def test_what_a_history_refuses(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="run folders"):
        history(tmp_path)
    with pytest.raises(UnknownNameError, match="metric"):
        history(dated(tmp_path / "a", 1, 0.3), metrics=["clip"])
