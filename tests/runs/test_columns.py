"""Columns of a run's tables: labels and input columns never take each other's place, and no value ends a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runs.helpers import counting, write_set

import beholder
from beholder._errors import OptionError
from beholder.runs import engine


def run(data: Any, tmp_path: Path, *, metrics: Any = "clip_score", **options: Any) -> beholder.Run:
    counting()
    options.setdefault("model", "counting")
    return beholder.evaluate(data, metrics=metrics, out=str(tmp_path / "out"), store=str(tmp_path / "s"), **options)


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (["clip_score,as=id"], "input column"),
        (["clip_score,as=prompt"], "input column"),
        (["clip_score,as=references"], "input column"),
        (["clip_score,as=a", "clip_i,as=a_status"], "another column of 'a'"),
        (["clip_i,as=a_pairs", "clip_score,as=a"], "another column of 'a'"),
        (['clip_score,as="two\\nlines"'], "one line"),
        (['clip_score,as=" "'], "one line"),
    ],
)
def test_a_label_that_would_take_the_place_of_a_column_is_refused(
    tmp_path: Path, metrics: list[str], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        run(str(write_set(tmp_path, 3)), tmp_path, metrics=metrics)
    assert not (tmp_path / "out").exists()


def test_a_label_may_hold_any_printable_text(tmp_path: Path) -> None:
    label = "Größe/%| a,b"
    found = run(str(write_set(tmp_path, 3)), tmp_path, metrics=[f'clip_score,as="{label}"'])
    assert found.labels == [label]
    assert found.scores.column(f"{label}_status").to_pylist() == ["ok"] * 3


def test_input_columns_named_like_score_columns_are_all_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CHUNK", 1)
    own = {"clip_score": 5, "clip_score_group": "g", "extra_clip_score": 7, "extra_extra_clip_score": 8, "extra_x": 9}
    data = write_set(tmp_path, 2, r0=own, r1={"clip_score": 6})
    rows = run(str(data), tmp_path).scores.to_pylist()
    kept = {
        "extra_clip_score": 5, "extra_clip_score_group": "g", "extra_extra_clip_score": 7,
        "extra_extra_extra_clip_score": 8, "extra_x": 9,
    }  # fmt: skip
    assert {name: rows[0][name] for name in kept} == kept
    assert rows[1]["extra_clip_score"] == 6
    assert rows[1]["extra_extra_clip_score"] is None
    assert all(-1 <= row["clip_score"] <= 1 for row in rows)


def test_a_metrics_values_cannot_be_grouped_by(tmp_path: Path) -> None:
    data = write_set(tmp_path, 2, r0={"clip_score": 5}, r1={"clip_score": 6})
    with pytest.raises(OptionError, match="as=LABEL"):
        run(str(data), tmp_path, by="clip_score")
    found = run(str(data), tmp_path)
    with pytest.raises(OptionError, match="as=LABEL"):
        found.summarise("clip_score")
    assert {"extra_clip_score": 5} in [row.group for row in found.summarise("extra_clip_score")]


def test_rows_can_be_grouped_by_a_list(tmp_path: Path) -> None:
    found = run(str(write_set(tmp_path, 6)), tmp_path, by="references")
    assert {"references": "img/ref0_0.png|img/ref0_1.png"} in [row.group for row in found.summary]


def test_numbers_of_any_size_and_kind_share_a_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CHUNK", 2)
    values = [2**60 + 1, 3, 0.5, 1, True, None]
    changes = {f"r{at}": {"x": value, "y": 10**400 if at == 3 else at + 0.5} for at, value in enumerate(values)}
    rows = run(str(write_set(tmp_path, 6, **changes)), tmp_path).scores.to_pylist()
    assert [row["x"] for row in rows] == ["1152921504606846977", "3", "0.5", "1", "true", None]
    assert rows[3]["y"] == str(10**400)
    changes = {f"r{at}": {"x": value} for at, value in enumerate(values[:4])}
    rows = run(str(write_set(tmp_path, 4, **changes)), tmp_path).scores.to_pylist()
    assert [row["x"] for row in rows] == [float(2**60), 3.0, 0.5, 1.0]


@pytest.mark.parametrize("chunk", [1, 2, 5])
def test_nan_is_an_empty_cell_and_rounds_no_whole_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(engine, "CHUNK", chunk)
    nan = float("nan")
    columns = {
        "whole": [2**60 + 1, nan, 3, nan, nan],
        "truth": [True, nan, nan, nan, False],
        "words": [nan, "a", nan, nan, "b"],
    }
    picture = np.zeros((8, 8, 3), np.uint8)
    rows = [
        {"id": str(at), "output": picture, "prompt": "a", **{name: values[at] for name, values in columns.items()}}
        for at in range(5)
    ]
    scores = run(rows, tmp_path).scores
    for name, values in columns.items():
        assert scores.column(name).to_pylist() == [None if value != value else value for value in values], name
