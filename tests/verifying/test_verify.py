"""`beholder verify`: numbers that come out again, and what is said when they do not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.models import make_tiny_clip
from tests.runs.helpers import write_set
from typer.testing import CliRunner

import beholder
from beholder._errors import UserError
from beholder.cli.main import app
from beholder.verifying import verify


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    data = write_set(tmp_path / "set", 40, r3={"prompt": ""}, r5={"output": "img/none.png"})
    run = beholder.evaluate(
        str(data), metrics=["clip_score", "clip_i,as=fidelity", "pick_score(model=fake, output=probability)"],
        model="fake:dim=16", out=str(tmp_path / "run"), store=str(tmp_path / "store"), max_failed=1.0,
    )  # fmt: skip
    return run.path


def rewrite(run: Path, change: Any) -> None:
    """Changes a run's score table by hand."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(run / "scores.parquet")
    rows = change(table.to_pylist())
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), run / "scores.parquet")


def test_an_honest_run_comes_out_again(finished: Path) -> None:
    found = verify(finished, n=1000)
    assert found.passed
    assert (found.rows, found.gone, found.changes) == (40, (), ())
    by_label = {metric.label: metric for metric in found.metrics}
    assert (by_label["clip_score"].checked, by_label["clip_score"].identical) == (40, 40)
    assert (by_label["fidelity"].checked, by_label["fidelity"].identical) == (40, 40)
    (other,) = set(by_label) - {"clip_score", "fidelity"}
    assert by_label[other].checked == 0
    assert "other rows" in (by_label[other].note or "")


def test_a_part_is_drawn_by_the_seed(finished: Path) -> None:
    some = verify(finished, n=7, seed=1)
    assert {metric.checked for metric in some.metrics if metric.note is None} == {7}


def test_a_changed_number_a_changed_status_and_a_lost_row_are_found(finished: Path) -> None:
    def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        rows[0]["clip_score"] += 0.01
        rows[1]["fidelity"] += 1e-7
        rows[2] |= {"clip_score": None, "clip_score_status": "failed"}
        return [*rows, {**rows[4], "id": "no such row"}]

    rewrite(finished, change)
    found = verify(finished, n=1000)
    by_label = {metric.label: metric for metric in found.metrics}
    assert not found.passed
    first = beholder.open_run_folder(finished).scores.column("id").to_pylist()
    assert set(by_label["clip_score"].different) == {first[0], first[2]}
    assert by_label["clip_score"].largest == pytest.approx(0.01)
    assert (by_label["fidelity"].close, by_label["fidelity"].different) == (1, ())
    assert found.gone == ("no such row",)


def test_other_weights_are_named(tmp_path: Path) -> None:
    data = write_set(tmp_path / "set", 6)
    folder = make_tiny_clip(tmp_path / "clip", seed=0)
    beholder.evaluate(
        str(data), metrics="clip_score", model=str(folder), out=str(tmp_path / "run"), store=str(tmp_path / "store")
    )
    assert verify(tmp_path / "run").passed
    shutil.rmtree(folder)
    make_tiny_clip(folder, seed=1)
    found = verify(tmp_path / "run")
    assert not found.passed
    assert len(found.metrics[0].different) == 6
    assert any("weights" in change for change in found.changes)


def test_a_folder_that_moved_with_its_input_is_found(finished: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("set", "run"):
        shutil.move(tmp_path / name, moved / name)
    assert verify(moved / "run").passed
    shutil.rmtree(moved / "set")
    with pytest.raises(UserError, match="--data"):
        verify(moved / "run")


def test_what_cannot_be_verified_says_so(tmp_path: Path) -> None:
    rows = [{"id": "a", "output": b"", "prompt": "a"}]
    run = beholder.evaluate(
        rows, metrics="clip_score", model="fake", out=str(tmp_path / "m"), store=str(tmp_path / "s"), max_failed=1.0
    )
    with pytest.raises(UserError, match="in memory"):
        verify(run)
    with pytest.raises(UserError, match="at least one row"):
        verify(run, n=0)


def test_the_command(finished: Path) -> None:
    good = CliRunner().invoke(app, ["verify", str(finished), "-n", "10"])
    assert good.exit_code == 0, good.output
    assert "come out again" in good.stdout
    rewrite(finished, lambda rows: [{**row, "clip_score": (row["clip_score"] or 0) + 1} for row in rows])
    bad = CliRunner().invoke(app, ["verify", str(finished), "--as", "json", "-n", "10"])
    assert bad.exit_code == 1
    told = json.loads(bad.stdout)
    assert told["passed"] is False
    assert len(told["metrics"][0]["different"]) == 10
