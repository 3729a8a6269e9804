"""`run --shard`, `merge` and `speed` on the command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import FAKE

from beholder.runs.speed import Speed, StageRate

Cli = Callable[..., Any]


def test_shards_from_a_toml_file_are_joined(beholder: Cli, data: Path) -> None:
    assert beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", "whole", "--json").exit_code == 0
    Path("run.toml").write_text(f'data = "{data}"\nmetrics = ["clip_score"]\nmodel = "{FAKE}"\nout = "run"\n')
    for index in range(2):
        done = beholder("run", "run.toml", "--shard", f"{index}/2")
        assert done.exit_code == 0, done.stderr
        assert done.stdout == ""
        assert "6 of 12 rows are scored" in done.stderr
        assert "beholder merge run" in done.stderr
    joined = beholder("merge", "run", "--json")
    assert joined.exit_code == 0, joined.stderr
    assert json.loads(joined.stdout)["n"] == 12
    assert (Path("run") / "scores.csv").read_bytes() == (Path("whole") / "scores.csv").read_bytes()
    assert beholder("show", "run").exit_code == 0
    part = beholder("run", "run.toml", "--shard", "0/2", "--json")
    assert json.loads(part.stdout) == {
        "path": "run/parts/0-of-2", "status": "part", "index": 0, "count": 2, "start": 0, "stop": 6, "total": 12,
    }  # fmt: skip


def test_a_gap_is_an_error_with_the_command_that_fills_it(beholder: Cli, data: Path) -> None:
    beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", "run", "--shard", "1/3")
    result = beholder("merge", "run")
    assert result.exit_code == 2
    assert "no part has the rows 1 to 4 (run --shard 0/3)" in result.stderr
    assert "no part has the rows 9 to 12 (run --shard 2/3)" in result.stderr


@pytest.mark.parametrize("shard", ["3/3", "auto", "x"])
def test_a_shard_that_cannot_be_is_told_with_its_flag(
    beholder: Cli, data: Path, shard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLURM_ARRAY_TASK_ID", "SGE_TASK_ID", "LSB_JOBINDEX", "PBS_ARRAY_INDEX", "JOB_COMPLETION_INDEX"):
        monkeypatch.delenv(name, raising=False)
    result = beholder("run", data, "-m", "clip_score", "--model", FAKE, "--shard", shard)
    assert result.exit_code == 2
    assert "--shard" in result.stderr


def test_speed_measures_every_stage_and_multiplies(beholder: Cli, data: Path) -> None:
    result = beholder("speed", data, "-m", "clip_score", "-m", "clip_i", "--model", FAKE, "--price", "3", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    stages = [stage["stage"] for stage in found["stages"]]
    assert stages[0] == "read rows"
    assert any(name.startswith("decode and prepare") for name in stages)
    assert any(name.startswith("make text_embedding") for name in stages)
    assert stages[-1] == "score and write rows"
    assert all(stage["seconds"] > 0 for stage in found["stages"])
    assert found["samples"] == 12
    assert [(item["samples"], item["workers"]) for item in found["estimates"]] == [
        (10**6, 1), (10**6, 8), (10**6, 64), (10**8, 1), (10**8, 8), (10**8, 64),
    ]  # fmt: skip
    one = found["estimates"][0]
    hours = (10**6 * found["seconds_per_sample"] + found["load_seconds"]) / 3600
    assert one["hours"] == pytest.approx(hours)
    assert one["money"] == pytest.approx(3 * hours)
    text = beholder("speed", data, "-m", "clip_score", "--model", FAKE, "--machines", "4", "--count", "1000")
    assert "ms a sample in one process" in text.stdout
    assert "1,000" in text.stdout
    assert not Path("runs").exists()


def test_an_estimate_is_the_sum_of_the_stages_that_follow_each_other() -> None:
    stages = (
        StageRate("a", 10, 2.0, 1.0),
        StageRate("b", 4, 8.0, 0.5),
        StageRate("beside b", 4, 7.0, 0.5, in_total=False),
    )
    speed = Speed(10, stages, 36.0, "cpu")
    assert speed.seconds_per_sample == pytest.approx(0.2 + 1.0)
    found = speed.estimate(3000, 10, price=5.0)
    assert found.hours == pytest.approx((3000 * 1.2 / 10 + 36) / 3600)
    assert found.money == pytest.approx(found.hours * 50)


def test_set_metrics_of_shards_are_shown_by_columns_that_nobody_asked_for(beholder: Cli, data: Path) -> None:
    for index in range(3):
        done = beholder("run", data, "-m", f"vendi(model={FAKE})", "-o", "run", "--shard", f"{index}/3")
        assert done.exit_code == 0, done.stderr
    assert beholder("merge", "run").exit_code == 0
    rows = json.loads(beholder("show", "run", "--by", "method", "--as", "json").stdout)["rows"]
    assert len(rows) == 2
    assert all(row["value"] >= 1 for row in rows)
    shutil.rmtree(Path("run") / "parts")
    gone = beholder("show", "run", "--by", "prompt")
    assert gone.exit_code == 0
    assert "no values by prompt" in gone.stderr
    assert "--by prompt" in gone.stderr
