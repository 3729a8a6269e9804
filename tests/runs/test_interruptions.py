"""A run that is killed, interrupted or disturbed goes on and ends like an undisturbed one."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.runs.helpers import counting, write_set

import beholder
from beholder._errors import RunConflictError, StoreError
from beholder.runs import session as session_module
from beholder.runs import store as store_module

# A run in a process of its own, slow enough to be killed in the middle: small chunks, small batches, quick flushes.
SCRIPT = """
import sys, time
sys.path.insert(0, {root!r})
import beholder
from beholder.runs import engine, store
from tests.runs.helpers import CountingEncoder
engine.CHUNK, store.FLUSH_SECONDS = 16, 0.0

class Slow(CountingEncoder):
    def encode_images(self, batch):
        time.sleep(0.01)
        return super().encode_images(batch)

beholder.register_encoder("counting", Slow())
print("ready", flush=True)
beholder.evaluate({data!r}, metrics=["clip_score", "clip_i"], model="counting", out={out!r}, store={store!r})
print("done", flush=True)
"""


def start(data: Path, out: Path, store: Path) -> subprocess.Popen[str]:
    root = str(Path(__file__).parents[2])
    script = SCRIPT.format(root=root, data=str(data), out=str(out), store=str(store))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def wait_for_growth(journal: Path, process: subprocess.Popen[str]) -> None:
    """Waits until a run writes scores (or is over), however slow the machine is."""
    size = journal.stat().st_size if journal.exists() else 0
    give_up = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < give_up:
        if journal.exists() and journal.stat().st_size > size:
            return
        time.sleep(0.002)


def test_a_killed_run_goes_on_and_ends_identical(tmp_path: Path) -> None:
    data = write_set(tmp_path, 200)
    quiet = start(data, tmp_path / "quiet", tmp_path / "store1")
    assert quiet.communicate()[0] == "done\n"
    kills = 0
    for delay in (0.0, 0.03, 0.06, 0.1, 0.15):
        process = start(data, tmp_path / "killed", tmp_path / "store2")
        wait_for_growth(tmp_path / "killed" / "journal.bin", process)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        output, _ = process.communicate()
        kills += "done" not in output
    assert kills >= 1, "the kills came too late to test anything"
    partial = beholder.open_run_folder(tmp_path / "killed")
    assert partial.n <= 200
    last = start(data, tmp_path / "killed", tmp_path / "store2")
    assert last.communicate()[0] == "done\n"
    one, other = beholder.open_run_folder(tmp_path / "quiet"), beholder.open_run_folder(tmp_path / "killed")
    assert one.scores.equals(other.scores)
    assert one.summary == other.summary
    assert (one.path / "scores.csv").read_bytes() == (other.path / "scores.csv").read_bytes()


def test_ctrl_c_leaves_a_run_that_can_be_opened_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = counting()
    monkeypatch.setattr("beholder.runs.engine.CHUNK", 8)
    data = write_set(tmp_path, 40)
    original = encoder.encode_images
    calls = 0

    def interrupted(batch: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return original(batch)  # type: ignore[arg-type]

    options = {"metrics": "clip_score", "model": "counting", "out": str(tmp_path / "o"), "store": str(tmp_path / "s")}
    monkeypatch.setattr(encoder, "encode_images", interrupted)
    with pytest.raises(KeyboardInterrupt):
        beholder.evaluate(str(data), **options)  # type: ignore[arg-type]
    partial = beholder.open_run_folder(tmp_path / "o")
    assert partial.header["status"] == "interrupted"
    assert not partial.finished
    assert partial.n == 16
    assert partial.summarise()[0].n == 16
    monkeypatch.setattr(encoder, "encode_images", original)
    encoder.prepared = 0
    finished = beholder.evaluate(str(data), **options)  # type: ignore[arg-type]
    assert finished.n == 40
    assert encoder.prepared == 24


def test_a_damaged_shard_is_made_again(tmp_path: Path) -> None:
    encoder = counting()
    data = write_set(tmp_path, 20)
    options = {"metrics": "clip_score", "model": "counting", "store": str(tmp_path / "s")}
    first = beholder.evaluate(str(data), out=str(tmp_path / "a"), **options)  # type: ignore[arg-type]
    for shard in (tmp_path / "s" / "shards").glob("*/*"):
        damaged = bytearray(shard.read_bytes())
        damaged[-4] ^= 0xFF
        shard.write_bytes(damaged)
    prepared = encoder.prepared
    second = beholder.evaluate(str(data), out=str(tmp_path / "b"), **options)  # type: ignore[arg-type]
    assert second.scores.equals(first.scores)
    assert encoder.prepared == 2 * prepared
    assert any("damaged" in text for text in second.notices)


def test_a_full_disk_stops_with_a_message_and_the_run_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting()
    data = write_set(tmp_path, 20)
    options = {"metrics": "clip_score", "model": "counting", "out": str(tmp_path / "o"), "store": str(tmp_path / "s")}

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(store_module, "FLUSH_ROWS", 1)
        patched.setattr(store_module, "write_atomic", full)
        with pytest.raises(StoreError, match="run the same command again"):
            beholder.evaluate(str(data), **options)  # type: ignore[arg-type]
    assert beholder.evaluate(str(data), **options).n_faults == 0  # type: ignore[arg-type]


def test_two_processes_never_write_to_one_folder(tmp_path: Path) -> None:
    counting()
    data = write_set(tmp_path, 200)
    process = start(data, tmp_path / "o", tmp_path / "s")
    deadline = time.monotonic() + 20
    while not (tmp_path / "o" / "run.json").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    with pytest.raises(RunConflictError, match="one process at a time"):
        beholder.evaluate(
            str(data),
            metrics=["clip_score", "clip_i"],
            model="counting",
            out=str(tmp_path / "o"),
            store=str(tmp_path / "s"),
        )
    assert process.communicate()[0] == "done\n"


def test_an_open_run_scores_what_a_loop_gives_it(tmp_path: Path) -> None:
    import numpy as np

    counting()
    generator = np.random.default_rng(0)
    pictures = generator.integers(0, 256, (10, 8, 8, 3), dtype=np.uint8)
    with beholder.open_run(
        str(tmp_path / "live"), metrics=["clip_score"], model="counting", store=str(tmp_path / "s")
    ) as live:
        for at, picture in enumerate(pictures):
            live.add(output=picture, prompt=f"thing {at % 3}", seed=at)
    assert live.run is not None
    assert live.run.n == 10
    assert live.run.n_faults == 0
    one = beholder.score("clip_score", images=pictures[4], texts="thing 1", model="counting")
    assert float(one) == pytest.approx(live.run.scores.column("clip_score")[4].as_py(), abs=1e-6)


def test_an_open_run_that_breaks_keeps_what_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    monkeypatch.setattr("beholder.runs.session.CHUNK", 4)
    counting()
    live = beholder.open_run(str(tmp_path / "o"), metrics=["clip_score"], model="counting", store=str(tmp_path / "s"))
    with pytest.raises(RuntimeError, match="out of prompts"), live:
        for at in range(6):
            live.add(output=np.full((4, 4, 3), at, dtype=np.uint8), prompt="a", seed=at)
        raise RuntimeError("out of prompts")
    kept = beholder.open_run_folder(tmp_path / "o")
    assert (kept.n, kept.header["status"]) == (6, "interrupted")


def test_an_open_run_refuses_an_id_twice_and_an_empty_block(tmp_path: Path) -> None:
    import numpy as np

    counting()
    picture = np.zeros((4, 4, 3), dtype=np.uint8)
    options = {"metrics": ["clip_score"], "model": "counting", "store": str(tmp_path / "s")}
    with (
        pytest.raises(beholder.UserError, match="unique"),
        beholder.open_run(str(tmp_path / "a"), **options) as live,  # type: ignore[arg-type]
    ):
        live.add(id="x", output=picture, prompt="a")
        live.add(id="x", output=picture, prompt="b")
    with (
        pytest.raises(beholder.UserError, match="at least one sample"),
        beholder.open_run(str(tmp_path / "b"), **options),  # type: ignore[arg-type]
    ):
        pass


def interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, after: int, metrics: str) -> None:
    """A run of `count` samples in chunks of 8 that is interrupted after some chunks."""
    monkeypatch.setattr("beholder.runs.engine.CHUNK", 8)
    original = session_module.Scorer.score
    calls = 0

    def score(self: Any, *args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > after:
            raise KeyboardInterrupt
        return original(self, *args)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(session_module.Scorer, "score", score)
        evaluate(write_set(tmp_path, count), tmp_path, metrics)


def evaluate(data: Path, tmp_path: Path, metrics: str) -> beholder.Run:
    return beholder.evaluate(str(data), metrics=metrics, out=str(tmp_path / "out"), store=str(tmp_path / "store"))


def test_an_interrupted_rerun_shows_what_is_scored_now_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting()
    metrics = "clip_score(model=counting)"
    monkeypatch.setattr("beholder.runs.engine.CHUNK", 8)
    evaluate(write_set(tmp_path, 12), tmp_path, metrics)
    interrupted(tmp_path, monkeypatch, 20, 1, metrics)
    left = beholder.open_run_folder(tmp_path / "out")
    assert (left.finished, left.n) == (False, 16)
    assert len(set(left.scores.column("id").to_pylist())) == 16
    assert evaluate(write_set(tmp_path, 20), tmp_path, metrics).n == 20


def test_probabilities_of_an_interrupted_run_are_probabilities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting()
    interrupted(tmp_path, monkeypatch, 30, 2, "pick_score(model=counting, output=probability)")
    left = beholder.open_run_folder(tmp_path / "out")
    assert left.n == 16
    sums: dict[str, float] = {}
    for row in left.scores.to_pylist():
        sums[row["prompt"]] = sums.get(row["prompt"], 0.0) + row["pick_score"]
    assert sums == pytest.approx(dict.fromkeys(sums, 1.0))
    assert "pick_score_group" not in left.columns


def test_a_kill_between_tables_and_summary_leaves_no_old_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting()
    metrics = "clip_score(model=counting)"
    evaluate(write_set(tmp_path, 12), tmp_path, metrics)

    def killed(*args: Any) -> None:
        raise SystemExit

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(beholder.Run, "save_summary", killed)
        evaluate(write_set(tmp_path, 20), tmp_path, metrics)
    left = beholder.open_run_folder(tmp_path / "out")
    assert left.n == 20
    assert {row.n for row in left.summary if row.headline and not row.group} == {20}
