"""Shards: each scores its part, and the parts joined are, row by row, the run of one process."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.runs.helpers import counting, write_set

import beholder
from beholder._errors import InputError, OptionError, RunConflictError, StoreError, UserError
from beholder.runs import engine
from beholder.runs.config import make_config
from beholder.runs.shards import Shard, parse_shard
from beholder.runs.store import FeatureStore
from beholder.runs.workers import run_on

METRICS = ["clip_score", "clip_i", "pick_score(model=fake, output=probability)"]


def whole(tmp_path: Path, data: Path, name: str = "whole", **more: Any) -> beholder.Run:
    return beholder.evaluate(
        str(data),
        **{"metrics": METRICS, "model": "counting", "out": str(tmp_path / name), "store": str(tmp_path / "s")} | more,
    )


def parts(tmp_path: Path, data: Path, count: int, *, only: Any = None, out: str = "run", **more: Any) -> Path:
    for index in only if only is not None else range(count):
        settings = {"metrics": METRICS, "model": "counting", "out": str(tmp_path / out), "shard": f"{index}/{count}"}
        beholder.evaluate(str(data), **settings | more)  # type: ignore[arg-type]
    return tmp_path / out


@pytest.mark.parametrize(("rows", "count"), [(40, 3), (7, 3), (2, 4), (25, 1)])
def test_joined_parts_equal_one_process(tmp_path: Path, rows: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counting()
    monkeypatch.setattr(engine, "CHUNK", 4)
    data = write_set(tmp_path, rows, r1={"prompt": ""}, r0={"output": "img/none.png"})
    one = whole(tmp_path, data)
    joined = beholder.merge(parts(tmp_path, data, count))
    assert joined.finished
    assert joined.scores.equals(one.scores)
    assert joined.summary == one.summary
    assert (joined.path / "scores.csv").read_bytes() == (one.path / "scores.csv").read_bytes()
    assert joined.header["plan_key"] == one.header["plan_key"]
    assert set(joined.notices) == set(one.notices)
    assert (joined.n, joined.n_faults) == (one.n, one.n_faults)
    assert len(joined.header["parts"]) == count
    assert joined.header["asked"]["shard"] is None


def test_columns_that_only_later_rows_fill_stand_where_one_process_puts_them(tmp_path: Path) -> None:
    counting()
    data = write_set(tmp_path, 4)
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    for at, row in enumerate(rows):
        row["note"] = [1.0, 0.1, 1e-7, "text"][at]
        if at < 2:
            row.pop("references")
            row.pop("prompt")
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    one = whole(tmp_path, data)
    joined = beholder.merge(parts(tmp_path, data, 4))
    assert joined.scores.column_names[:4] == ["id", "output", "references", "prompt"]
    assert joined.scores.column("note").to_pylist() == ["1", "0.1", "1e-07", "text"]
    assert joined.scores.equals(one.scores)
    assert (joined.path / "scores.csv").read_bytes() == (one.path / "scores.csv").read_bytes()


def test_every_part_has_its_own_index_and_no_table(tmp_path: Path) -> None:
    counting()
    run = parts(tmp_path, write_set(tmp_path, 12), 3)
    for index in range(3):
        part = run / "parts" / f"{index}-of-3"
        assert {"run.json", "journal.bin", "features"} <= {path.name for path in part.iterdir()}
        assert not (part / "scores.parquet").exists()
        assert (part / "features" / "index.sqlite").exists()
        opened = beholder.open_run_folder(part)
        assert (opened.header["status"], opened.n, opened.finished) == ("part", 4, False)
    assert not (run / "run.json").exists()


def test_the_index_of_a_part_is_locked_by_its_process(tmp_path: Path) -> None:
    one = FeatureStore(tmp_path / "s", alone=True)
    try:
        with pytest.raises(StoreError, match="can be written"):
            FeatureStore(tmp_path / "s", alone=True)
        assert not (tmp_path / "s" / "index.sqlite-shm").exists()
    finally:
        one.close()
    FeatureStore(tmp_path / "s").close()


def test_rows_are_shared_out_evenly_and_completely() -> None:
    for total in (0, 1, 7, 1000, 1_000_003):
        for count in (1, 2, 3, 7, 64):
            spans = [Shard(index, count).rows(total) for index in range(count)]
            assert spans[0][0] == 0
            assert spans[-1][1] == total
            assert all(one[1] == other[0] for one, other in itertools.pairwise(spans))
            sizes = [stop - start for start, stop in spans]
            assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("environment", "text", "found"),
    [
        ({}, "2/5", "2/5"),
        ({"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_MIN": "0", "SLURM_ARRAY_TASK_MAX": "7",
          "SLURM_ARRAY_TASK_COUNT": "8"}, "auto", "3/8"),
        ({"SLURM_ARRAY_TASK_ID": "5", "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_MAX": "9",
          "SLURM_ARRAY_TASK_COUNT": "5", "SLURM_ARRAY_TASK_STEP": "2"}, "auto", "2/5"),
        ({"SGE_TASK_ID": "4", "SGE_TASK_FIRST": "1", "SGE_TASK_LAST": "4", "SGE_TASK_STEPSIZE": "1"}, "auto", "3/4"),
        ({"SGE_TASK_ID": "undefined", "LSB_JOBINDEX": "2", "LSB_JOBINDEX_END": "6"}, "auto", "1/6"),
        ({"PBS_ARRAY_INDEX": "2"}, "auto/3", "2/3"),
        ({"JOB_COMPLETION_INDEX": "0"}, "auto/4", "0/4"),
    ],
)  # fmt: skip
def test_shards_as_written_and_as_schedulers_say(environment: dict[str, str], text: str, found: str) -> None:
    assert str(parse_shard(text, environment)) == found


@pytest.mark.parametrize(
    ("environment", "text", "message"),
    [
        ({}, "auto", "array job"),
        ({}, "3/3", "from 0 to N-1"),
        ({}, "0/0", "from 0 to N-1"),
        ({}, "1", "i/N"),
        ({}, "-1/3", "i/N"),
        ({"JOB_COMPLETION_INDEX": "0"}, "auto", "auto/N"),
        ({"PBS_ARRAY_INDEX": "3"}, "auto/3", "from 0 to N-1"),
        ({"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_MIN": "3", "SLURM_ARRAY_TASK_MAX": "7",
          "SLURM_ARRAY_TASK_COUNT": "2"}, "auto", "without gaps"),
        ({"SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_MIN": "0", "SLURM_ARRAY_TASK_MAX": "3",
          "SLURM_ARRAY_TASK_COUNT": "4"}, "auto/8", "as many shards"),
    ],
)  # fmt: skip
def test_shards_that_cannot_be_are_refused(environment: dict[str, str], text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_shard(text, environment)


def test_the_config_keeps_what_auto_stood_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ID", "1"), ("MIN", "0"), ("MAX", "1"), ("COUNT", "2")):
        monkeypatch.setenv(f"SLURM_ARRAY_TASK_{name}", value)
    assert make_config({"shard": "auto"}).shard == "1/2"
    with pytest.raises(InputError, match="one way at a time"):
        make_config({"shard": "0/2", "device": "cuda:all"})
    with pytest.raises(InputError, match="device cpu:2"):
        make_config({"shard": "0/2", "device": "cpu:2"})
    with pytest.raises(InputError, match="cpu:N"):
        make_config({"device": "cpu:0"})
    assert make_config({"shard": "0/2", "device": "cpu"}).shard == "0/2"


def test_gaps_overlaps_and_unfinished_parts_are_all_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting()
    data = write_set(tmp_path, 12)
    run = parts(tmp_path, data, 4, only=[0, 3])
    parts(tmp_path, data, 3, only=[0])
    header = run / "parts" / "3-of-4" / "run.json"
    text = json.loads(header.read_text())
    header.write_text(json.dumps({**text, "status": "interrupted"}))
    with pytest.raises(InputError) as caught:
        beholder.merge(run)
    told = str(caught.value)
    assert "3-of-4 is not finished (interrupted)" in told
    assert "the rows 1 to 3 are in" in told
    assert "0-of-4" in told
    assert "no part has the rows 5 to 9 (run --shard 1/4, --shard 2/4)" in told
    assert not (run / "run.json").exists()


def test_a_split_may_be_finished_by_another_one(tmp_path: Path) -> None:
    counting()
    data = write_set(tmp_path, 12)
    one = whole(tmp_path, data)
    parts(tmp_path, data, 2, only=[0])
    run = parts(tmp_path, data, 4, only=[2, 3])
    assert beholder.merge(run).scores.equals(one.scores)


def test_parts_of_different_runs_are_refused(tmp_path: Path) -> None:
    counting()
    counting("other", seed=5)
    data = write_set(tmp_path, 10)
    parts(tmp_path, data, 2, only=[0])
    other = parts(tmp_path, data, 2, only=[1], out="other", model="other")
    with pytest.raises(RunConflictError, match=r"differ in .*models"):
        beholder.merge([tmp_path / "run", other], out=tmp_path / "joined")
    seeds = parts(tmp_path, data, 2, only=[1], out="seed", seed=7)
    with pytest.raises(RunConflictError, match=r"differ in seed \(0 against 7\)"):
        beholder.merge([tmp_path / "run", seeds], out=tmp_path / "joined")


@pytest.mark.parametrize("change", ["more", "swapped"])
def test_parts_of_an_input_that_changed_are_refused(tmp_path: Path, change: str) -> None:
    counting()
    data = write_set(tmp_path, 10)
    run = parts(tmp_path, data, 2, only=[0])
    lines = data.read_text().splitlines(keepends=True)
    if change == "more":
        write_set(tmp_path, 12)
    else:
        data.write_text("".join(lines[5:] + lines[:5]))
    parts(tmp_path, data, 2, only=[1])
    with pytest.raises(RunConflictError, match="of the input"):
        beholder.merge(run)


def test_an_id_in_two_parts_is_refused(tmp_path: Path) -> None:
    counting()
    rows = [{"id": f"r{at}", "output": f"{tmp_path}/img/{at}.png", "prompt": "a"} for at in range(8)]
    write_set(tmp_path, 8)
    settings: dict[str, Any] = {"metrics": "clip_score", "model": "counting", "out": str(tmp_path / "o")}
    beholder.evaluate(rows, shard="0/2", **settings)
    # A table in memory has no hash to compare; the second part is made of the rows in another order.
    beholder.evaluate(rows[4:] + rows[:4], shard="1/2", **settings)
    with pytest.raises(InputError, match="the id 'r0' is in"):
        beholder.merge(tmp_path / "o")


def test_a_damaged_journal_of_a_part_is_told(tmp_path: Path) -> None:
    counting()
    data = write_set(tmp_path, 10)
    run = parts(tmp_path, data, 2)
    journal = run / "parts" / "1-of-2" / "journal.bin"
    damaged = bytearray(journal.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    journal.write_bytes(damaged)
    with pytest.raises(InputError, match="0 of 5 rows can be read; give its command again"):
        beholder.merge(run)
    parts(tmp_path, data, 2, only=[1])
    assert beholder.merge(run).n == 10


def test_parts_may_lie_anywhere_and_a_plain_run_is_no_part(tmp_path: Path) -> None:
    counting()
    data = write_set(tmp_path, 10)
    one = whole(tmp_path, data)
    run = parts(tmp_path, data, 2)
    shutil.move(run / "parts" / "1-of-2", tmp_path / "elsewhere")
    with pytest.raises(UserError, match="-o"):
        beholder.merge([run, tmp_path / "elsewhere"])
    joined = beholder.merge([run, tmp_path / "elsewhere"], out=tmp_path / "joined")
    assert joined.scores.equals(one.scores)
    with pytest.raises(UserError, match="must be a part or hold parts"):
        beholder.merge(one.path)
    with pytest.raises(UserError, match="must be a part or hold parts"):
        beholder.merge(tmp_path / "nothing")


def test_a_part_beside_another_runs_results_is_refused(tmp_path: Path) -> None:
    counting()
    data = write_set(tmp_path, 10)
    whole(tmp_path, data, name="run", metrics="clip_score")
    with pytest.raises(RunConflictError, match="another one"):
        parts(tmp_path, data, 2, only=[0])


def test_features_of_parts_are_taken_over_by_a_store(tmp_path: Path) -> None:
    encoder = counting()
    data = write_set(tmp_path, 12)
    run = parts(tmp_path, data, 3)
    beholder.merge(run, store=tmp_path / "s")
    made = encoder.prepared
    later = whole(tmp_path, data, metrics=["clip_i"])
    assert encoder.prepared == made
    assert later.scores.column("clip_i").equals(beholder.open_run_folder(run).scores.column("clip_i"))
    beholder.merge(run, store=tmp_path / "s")  # a second time changes nothing
    assert whole(tmp_path, data, name="again", metrics=["clip_i"]).scores.equals(later.scores)


WAITING = """
import sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
import beholder
from tests.runs.helpers import CountingEncoder
folder = Path({folder!r})

class Waiting(CountingEncoder):
    def encode_images(self, batch):
        (folder / "begun").touch()
        while not (folder / "go").exists():
            time.sleep(0.02)
        return super().encode_images(batch)

beholder.register_encoder("counting", Waiting())
beholder.evaluate({data!r}, metrics={metrics!r}, model="counting", out=str(folder / "run"), shard="1/2")
"""


def test_shards_run_at_the_same_time_and_merge_waits_for_all(tmp_path: Path) -> None:
    counting()
    data = write_set(tmp_path, 20)
    one = whole(tmp_path, data)
    root = str(Path(__file__).parents[2])
    script = WAITING.format(root=root, folder=str(tmp_path), data=str(data), metrics=METRICS)
    with subprocess.Popen([sys.executable, "-c", script]) as other:
        try:
            while not (tmp_path / "begun").exists():
                assert other.poll() is None
                time.sleep(0.02)
            run = parts(tmp_path, data, 2, only=[0])
            with pytest.raises(InputError, match=r"1-of-2 is not finished \(running\); wait for it, or give"):
                beholder.merge(run)
            assert not (run / "run.json").exists()
            with pytest.raises(RunConflictError, match="one process at a time"):
                parts(tmp_path, data, 2, only=[1])
        finally:
            (tmp_path / "go").touch()
        assert other.wait() == 0
    assert beholder.merge(run).scores.equals(one.scores)


def test_generators_cannot_be_sharded(tmp_path: Path) -> None:
    counting()
    write_set(tmp_path, 3)
    rows = ({"output": f"{tmp_path}/img/{at}.png", "prompt": "a"} for at in range(3))
    with pytest.raises(UserError, match="read again"):
        beholder.evaluate(rows, metrics="clip_score", model="counting", out=str(tmp_path / "o"), shard="0/2")


def test_two_processes_of_one_machine_equal_one(tmp_path: Path) -> None:
    data = write_set(tmp_path, 20, r3={"output": "img/none.png"})
    settings = {"data": str(data), "metrics": METRICS, "model": "fake", "store": str(tmp_path / "s")}
    one = whole(tmp_path, data, model="fake", store=str(tmp_path / "s1"))
    joined = beholder.evaluate(**settings, device="cpu:2", out=str(tmp_path / "two"))
    assert joined.scores.equals(one.scores)
    assert joined.summary == one.summary
    assert [part["count"] for part in joined.header["parts"]] == [2, 2]
    assert (tmp_path / "s" / "index.sqlite").exists()


class Counted:
    """Progress that remembers what it was told."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int | None]] = []
        self.done: dict[str, int] = {}

    def stage(self, text: str, total: int | None) -> None:
        self.stages.append((text, total))

    def advance(self, samples: int) -> None:
        text = self.stages[-1][0]
        self.done[text] = self.done.get(text, 0) + samples

    def notice(self, text: str) -> None: ...


def test_progress_of_several_processes_ends_at_its_total(tmp_path: Path) -> None:
    data, real = write_set(tmp_path / "a", 8), write_set(tmp_path / "b", 8)
    metrics = ["clip_score(model=fake)", "clip_i(model=fake:dim=8)", "precision(model=fake)"]
    config = make_config({"data": str(data), "metrics": metrics, "out": str(tmp_path / "o"), "real": str(real)})
    progress = Counted()
    run_on(["cpu", "cpu"], config.model_copy(update={"store": str(tmp_path / "s")}), progress=progress)
    assert progress.stages[0] == ("scoring in 2 processes", 8)  # both models look at the samples in one pass
    assert progress.done == {"scoring in 2 processes": 8}


def test_a_process_that_fails_is_told_and_objects_must_be_picklable(tmp_path: Path) -> None:
    data = write_set(tmp_path, 8)
    settings = {"data": str(data), "metrics": METRICS, "out": str(tmp_path / "o"), "store": str(tmp_path / "s")}
    (tmp_path / "o" / "parts").mkdir(parents=True)
    (tmp_path / "o" / "parts" / "1-of-2").write_text("in the way")
    with pytest.raises(UserError, match="1-of-2 must be a folder"):
        run_on(["cpu", "cpu"], make_config({**settings, "model": "fake"}))
    counting()
    encoder = counting()
    encoder.hook = lambda: None  # type: ignore[attr-defined]
    with pytest.raises(OptionError, match="picklable"):
        run_on(["cpu", "cpu"], make_config({**settings, "model": "counting"}))


def test_cuda_all_without_a_gpu_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(beholder.UserError, match="CUDA GPU"):
        whole(tmp_path, write_set(tmp_path, 4), model="fake", device="cuda:all")
