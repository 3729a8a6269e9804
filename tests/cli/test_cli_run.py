"""`beholder run` from end to end, with the fake encoder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import FAKE, read_rows, write_rows

from beholder.runs.results import open_run_folder

Cli = Callable[..., Any]


def test_a_run_prints_its_table_on_stdout_and_talks_on_stderr(beholder: Cli, data: Path) -> None:
    result = beholder("run", data, "-m", "clip_score", "-m", "clip_i", "--model", FAKE, "-o", "runs/a")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split()[:3] == ["metric", "method", "value"]
    assert [line.split()[0] for line in lines[2:6]] == ["clip_score", "clip_score", "clip_i", "clip_i"]
    assert "Run folder: runs/a" in result.stderr
    assert "scoring: 12 samples" in result.stderr
    assert "12 samples in" in result.stderr
    assert "\x1b" not in result.stdout + result.stderr
    run = open_run_folder("runs/a")
    assert (run.n, run.n_faults) == (12, 0)


def test_json_is_one_object_on_stdout_and_quiet_says_nothing(beholder: Cli, data: Path) -> None:
    result = beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", "a", "--json", "--quiet")
    assert result.stderr == ""
    found = json.loads(result.stdout)
    assert (found["path"], found["n"], found["n_faults"], found["exit_code"]) == ("a", 12, 0, 0)
    run = open_run_folder("a")
    values = {tuple(row["group"].items()): row["value"] for row in found["summary"]}
    assert values == {tuple(item.group.items()): item.value for item in run.summary}
    assert None not in values.values()


def test_faults_exit_3_and_are_named_unless_they_are_allowed(beholder: Cli, data: Path) -> None:
    (data.parent / "out/bad/2.png").unlink()
    args = ("run", data, "-m", "clip_score", "--model", FAKE, "-o", "a")
    result = beholder(*args)
    assert result.exit_code == 3
    assert "1 of 12 samples (8.33 %) has a fault, more than the 0 % that --max-failed allows" in result.stderr
    assert "bad-2: missing:" in result.stderr
    assert "1 (1 missing)" in result.stdout
    assert beholder(*args, "--max-failed", "0.1", "--json", "-q").exit_code == 0


def test_by_groups_the_table(beholder: Cli, data: Path) -> None:
    args = ("run", data, "-m", "clip_score", "--model", FAKE, "-o", "a", "--by", "method", "--by", "category")
    lines = beholder(*args).stdout.splitlines()
    assert lines[0].split()[:4] == ["metric", "method", "category", "value"]
    assert [line.split()[2:4] for line in lines[2:6]] == [
        ["bad", "even"], ["bad", "odd"], ["good", "even"], ["good", "odd"],
    ]  # fmt: skip


def test_labels_and_one_metric_twice(beholder: Cli, data: Path) -> None:
    args = ("-m", "clip_i,as=mean", "-m", "clip_i,reduce=max,as=best", "--model", FAKE, "-o", "a", "--json")
    found = json.loads(beholder("run", data, *args).stdout)
    assert [item["label"] for item in found["metrics"]] == ["mean", "best"]


def test_a_toml_file_holds_everything_and_the_command_line_wins(beholder: Cli, data: Path) -> None:
    (data.parent / "eval.toml").write_text(
        'data = "samples.jsonl"\nmetrics = "clip_score"\nmodel = "fake:dim=8"\nout = "from_file"\nseed = 7\n'
    )
    assert beholder("run", "eval.toml", "--model", FAKE).exit_code == 0
    asked = open_run_folder("from_file").header["asked"]
    assert (asked["model"], asked["seed"], asked["metrics"]) == (FAKE, 7, ["clip_score"])


def test_like_takes_over_the_identity_and_a_preset_says_what_it_sets(beholder: Cli, data: Path) -> None:
    beholder("run", data, "-m", "clip_i,reduce=max", "--model", FAKE, "-o", "a", "--seed", "5")
    result = beholder("run", data, "--like", "a", "--preset", "dreambooth", "-o", "b")
    assert result.exit_code == 0, result.stderr
    asked = open_run_folder("b").header["asked"]
    assert (asked["metrics"], asked["model"], asked["seed"]) == (["clip_i,reduce=max"], FAKE, 5)
    assert "--preset dreambooth sets" in result.stderr
    assert "dino_i; clip_i(model=openai:ViT-B-32); clip_t(model=openai:ViT-B-32) (overridden)" in result.stderr
    assert "  seed = 5" in result.stderr


def test_prompts_and_outputs_instead_of_a_manifest(beholder: Cli, data: Path) -> None:
    (data.parent / "prompts.csv").write_text("prompt_id,prompt\n" + "".join(f"{i},colour {i}\n" for i in range(6)))
    args = ("--prompts", "prompts.csv", "--outputs", "out/{method}/{prompt_id}.png")
    result = beholder("run", *args, "-m", "clip_score", "--model", FAKE, "--json", "-o", "a")
    assert json.loads(result.stdout)["n"] == 12
    assert beholder("validate", *args).exit_code == 0
    assert beholder("manifest", *args, "-o", "made.jsonl").exit_code == 0
    assert len(read_rows(Path("made.jsonl"))) == 12


def test_a_dry_run_computes_nothing(beholder: Cli, data: Path) -> None:
    args = ("run", data, "-m", "clip_score", "--model", FAKE, "-o", "a", "--dry-run")
    result = beholder(*args)
    assert result.exit_code == 0
    assert "12 samples" in result.stdout
    assert json.loads(beholder(*args, "--json").stdout)["samples"] == 12
    assert not Path("a").exists()


def test_all_wrong_arguments_are_told_at_once(beholder: Cli, data: Path) -> None:
    result = beholder(
        "run", "nowhere.jsonl", "-m", "clip_scor", "-m", "clip_i,reduc=max", "-m", "clip_t(", "--batch-size", "many",
        "--level", "3", "--map", "x", "--background", "pink", "--truncation", "cut", "--workers", "0",
    )  # fmt: skip
    assert result.exit_code == 2
    assert result.stdout == ""
    for said in (
        "10 faults", "nowhere.jsonl", "Did you mean clip_score", "Did you mean reduce?", "clip_t(", "--batch-size",
        "--level", "--map", "colour", "--truncation", "--workers",
    ):  # fmt: skip
        assert said in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "the input must be named"),
        (("samples.jsonl", "--prompts", "p.csv", "--outputs", "x"), "named once"),
        (("--prompts", "samples.jsonl"), "--prompts and --outputs must be given together; got no --outputs"),
        (("samples.jsonl", "--model", "fake:dim=0"), "dim"),
        (("samples.jsonl", "--preset", "dreambot"), "Did you mean dreambooth?"),
        (("samples.jsonl", "--like", "nowhere"), "--like needs a run folder"),
        (("samples.jsonl", "-m", "clip_score"), "each metric must be asked for once"),
        (("nowhere.toml",), "nowhere.toml"),
        (("broken.toml",), "valid TOML"),
        (("typo.toml",), "Did you mean metrics?"),
    ],
)
def test_wrong_use_exits_2_with_the_way_out(beholder: Cli, data: Path, args: tuple[str, ...], said: str) -> None:
    Path("broken.toml").write_text("metrics = [")
    Path("typo.toml").write_text('data = "samples.jsonl"\nmetric = "clip_score"\nlike = 3\n')
    result = beholder("run", *args, "-m", "clip_score")
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_a_run_without_metrics_says_how_to_name_one(beholder: Cli, data: Path) -> None:
    result = beholder("run", data)
    assert result.exit_code == 2
    assert "-m clip_score" in result.stderr


def test_faults_of_form_stop_the_run_and_are_all_listed(beholder: Cli, data: Path) -> None:
    rows = read_rows(data)
    rows[3]["id"] = rows[7]["id"] = rows[0]["id"]
    write_rows(data, rows)
    result = beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", "a")
    assert result.exit_code == 2
    assert "row 4" in result.stderr
    assert "row 8" in result.stderr
    assert not Path("a").exists()


def test_a_folder_of_another_run_is_a_conflict(beholder: Cli, data: Path) -> None:
    beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", "a")
    again = ("run", data, "-m", "clip_i", "--model", FAKE, "-o", "a")
    result = beholder(*again)
    assert result.exit_code == 2
    assert "--overwrite" in result.stderr
    assert beholder(*again, "--overwrite").exit_code == 0


def test_missing_weights_exit_2_and_name_the_way_out(beholder: Cli, data: Path, tmp_path: Path) -> None:
    result = beholder("run", data, "-m", "clip_score", "--offline", "--cache-dir", tmp_path / "none", "-o", "a")
    assert result.exit_code == 2
    assert "beholder models pull openai:ViT-L-14" in result.stderr
    assert "--model demo:emoji" in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals work otherwise there")
def test_sigterm_inside_a_run_exits_143_and_leaves_the_program_s_handlers(
    beholder: Cli, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import beholder.runs.session as session

    def terminate(*args: Any, **settings: Any) -> None:
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(session, "execute", terminate)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    result = beholder("run", data, "-m", "clip_score", "--model", FAKE)
    assert result.exit_code == 143
    assert "Ended by SIGTERM. What was scored is kept: the same command goes on" in result.stderr
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        own = signal.getsignal(signal.SIGTERM)
        monkeypatch.setattr(session, "execute", lambda *_, **__: signal.getsignal(signal.SIGTERM) is own and 1 / 0)
        assert "ZeroDivisionError" in beholder("run", data, "-m", "clip_score", "--model", FAKE).stderr
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_interrupt_exits_130_and_says_how_to_go_on(
    beholder: Cli, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import beholder.runs.session as session

    def interrupt(*args: Any, **settings: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "execute", interrupt)
    result = beholder("run", data, "-m", "clip_score", "--model", FAKE)
    assert result.exit_code == 130
    assert "the same command goes on" in result.stderr


SLOW = """
import sys, time
from beholder.backends.fake import FakeEncoder
plain = FakeEncoder.prepare_image
def slow(self, picture):
    print("decoding", file=sys.stderr, flush=True)
    time.sleep(0.2)
    return plain(self, picture)
FakeEncoder.prepare_image = slow
from beholder.cli.main import main
main()
"""


@pytest.mark.skipif(os.name == "nt", reason="signals work otherwise there")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_and_sigterm_leave_a_run_that_the_same_command_finishes(
    beholder: Cli, data: Path, number: signal.Signals, code: int
) -> None:
    args = ["run", str(data), "-m", "clip_score", "--model", FAKE, "-o", "a"]
    process = subprocess.Popen([sys.executable, "-c", SLOW, *args], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert any("decoding" in line for line in process.stderr)
    process.send_signal(number)
    _, talk = process.communicate(timeout=60)
    assert process.returncode == code
    assert "the same command goes on" in talk
    assert "Traceback" not in talk
    assert open_run_folder("a").header["status"] == "interrupted"
    assert "is not finished (interrupted)" in beholder("show", "a").stderr
    assert beholder(*args).exit_code == 0
    assert open_run_folder("a").header["status"] == "finished"
