"""What a message says: what must hold, what was got once, and a way out that works when it is typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FAKE = "fake:dim=16"
Cli = Callable[..., Any]


@pytest.mark.parametrize("shard", ["3/2", "x"])
def test_a_shard_that_cannot_be_is_told_once(beholder: Cli, data: Path, shard: str) -> None:
    result = beholder("run", data, "-m", "clip_score", "--model", FAKE, "--shard", shard)
    assert result.exit_code == 2
    assert result.stderr.count("; got") == 1


def test_runs_named_twice_are_named(beholder: Cli, data: Path) -> None:
    beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", "a")
    result = beholder("compare", "a", "a")
    assert result.exit_code == 2
    assert "one folder named twice: a. Name each once." in result.stderr


def test_a_history_says_why_a_folder_is_no_run(beholder: Cli, data: Path) -> None:
    beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", "runs/a")
    assert "got runs, which is no run but holds some: name runs/*." in beholder("history", "runs").stderr
    assert "got no folder nothere." in beholder("history", "nothere").stderr
    assert "got out, which holds no run." in beholder("history", "out").stderr


@pytest.mark.parametrize("option", ["--out", "--root", "--store", "--cache-dir", "--real", "--outputs"])
def test_a_blank_path_is_no_path(beholder: Cli, data: Path, option: str) -> None:
    """A variable of the shell that was never set: --root "$DIR" must not mean that every file may be read."""
    result = beholder("run", data, "-m", "clip_score", "--model", FAKE, option, "")
    assert result.exit_code == 2
    assert f"{option}: Input should be a path, not blank; got ''" in result.stderr


@pytest.mark.parametrize(("metric", "more"), [("fid", " --real DIR"), ("vendi", "")])
def test_a_score_of_a_set_metric_is_refused_before_anything_is_asked_for(
    beholder: Cli, data: Path, metric: str, more: str
) -> None:
    result = beholder("score", "out/good/1.png", "-m", metric)
    assert result.exit_code == 2
    assert f"got {metric}, of whole sets. Give it a set: beholder run DATA -m {metric}{more}." in result.stderr
    assert "--text" not in result.stderr
    assert "weights" not in result.stderr


def test_a_folder_that_is_scored_is_said_to_be_one_video(beholder: Cli, data: Path) -> None:
    done = beholder("score", "out/good", "out/good/1.png", "--text", "x", "--model", FAKE)
    assert done.exit_code == 0, done.stderr
    assert "Note: out/good is a folder: one video" in done.stderr
    assert done.stderr.count("is a folder") == 1


def test_faults_of_the_input_are_told_before_weights_are_fetched(beholder: Cli, data: Path, tmp_path: Path) -> None:
    data.write_text(data.read_text() + "no json\n")
    result = beholder("run", data, "-m", "clip_score", "--offline", "--cache-dir", tmp_path / "none")
    assert result.exit_code == 2
    assert "row 13: not valid JSON" in result.stderr
    assert "weights" not in result.stderr
    assert "unknown metric" in beholder("run", data, "-m", "clip_scor").stderr


def test_leftovers_name_their_option_once(beholder: Cli, data: Path) -> None:
    Path("out/good/1.txt").write_text("one")
    result = beholder("run", "out/good", "-m", "clip_score", "--model", FAKE)
    assert result.exit_code == 2
    assert result.stderr.count("--allow-extra") == 1
    assert "0.png: no prompt for this file\n" in result.stderr
    assert "Accept leftovers with --allow-extra" in beholder("validate", "out/good").stdout


def test_a_long_list_of_faults_ends_with_what_it_holds(beholder: Cli, data: Path) -> None:
    Path("many").mkdir()
    for at in range(50):
        Path(f"many/{at}.png").write_bytes(Path("out/good/1.png").read_bytes())
    Path("prompts.csv").write_text("prompt_id,prompt\n77,seventy\n")
    given = ("--prompts", "prompts.csv", "--outputs", "many/{prompt_id}.png")
    result = beholder("run", *given, "-m", "clip_score", "--model", FAKE)
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert "has 52 faults" in lines[0]
    assert lines[-2:] == [
        "50 times: no prompt for this file",
        "Accept leftovers with --allow-extra (allow_extra=True).",
    ]
    assert sum(line.endswith("png: no prompt for this file") for line in lines) == 50, "all are listed"


@pytest.mark.parametrize(
    ("metric", "way"), [("clip_score", "give a column prompt, an a.txt beside"), ("clip_i", "give a column references")]
)
def test_a_run_without_any_value_says_what_to_give(beholder: Cli, data: Path, metric: str, way: str) -> None:
    result = beholder("run", "out/good", "-m", metric, "--model", FAKE, "-o", "a")
    assert result.exit_code == 0
    assert way in result.stderr
    whole = beholder("run", data, "-m", metric, "--model", FAKE, "-o", "b")
    assert way not in whole.stderr


def test_nothing_that_a_manifest_says_acts_on_the_terminal(beholder: Cli, data: Path) -> None:
    rows = [
        {"output": "out/good/1.png", "prompt": "x", "method": "a\x1b]0;title\x07", "id": "one"},
        {"output": "out/good/2\x1b[2J.png", "prompt": "\u202eleft", "method": "قطة", "id": "two\x9b"},
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = [
        beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", "a"),
        beholder("show", "a"), beholder("show", "a", "--by", "id"), beholder("validate", data),
    ]  # fmt: skip
    text = "".join(item.stdout + item.stderr for item in done)
    assert not set(text) & set("\x1b\x07\x9b\u202e")
    assert "a\\u001b]0;title\\u0007" in text
    assert "2\\u001b[2J.png" in text
    assert "قطة" in text


def test_what_could_not_be_paired_has_no_verdict(beholder: Cli, data: Path) -> None:
    """Two runs of both methods, and seeds that a method shares with itself only."""
    rows = [json.loads(line) | {"seed": at} for at, line in enumerate(data.read_text().splitlines())]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in "ab":
        beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", name)
    done = beholder("compare", "a", "b", "--baseline", "a:good")
    assert done.exit_code == 0, done.stderr
    assert "inconclusive" not in done.stdout
    assert "against a:good, of 1 metric: nothing to compare on 1." in done.stdout
    assert "against a:good, of 1 metric: equal on 1." in done.stdout


def test_one_is_written_as_one(beholder: Cli, data: Path) -> None:
    beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", "a")
    assert "over the 1 test shown" in beholder("compare", "a").stdout
    names = [json.loads(line)["id"] for line in data.read_text().splitlines()]
    Path("said.csv").write_text("id,rating\n" + "".join(f"{name},{at % 5}\n" for at, name in enumerate(names)))
    assert "12 ratings by 1 rater;" in beholder("agree", "a", "--human", "said.csv").stdout


def test_a_comparison_over_concepts_says_which_mean_it_shows(beholder: Cli, data: Path) -> None:
    beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", "a")
    assert "headline of show" not in beholder("compare", "a").stdout
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    data.write_text("".join(json.dumps(row | {"concept": row["category"]}) + "\n" for row in rows))
    beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", "b")
    assert "then prompts (the headline of show averages concepts first)" in beholder("compare", "b").stdout


def test_methods_that_are_taken_together_are_named(beholder: Cli, data: Path) -> None:
    beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", "both")
    rows = [json.loads(line) for line in data.read_text().splitlines()][:6]
    data.write_text("".join(json.dumps(row | {"method": None}) + "\n" for row in rows))
    data.write_text(data.read_text().replace('"method": null, ', ""))
    beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", "one")
    done = beholder("show", "both", "one")
    assert "Note: both: the rows of all methods are taken together" in done.stderr
    assert "taken together" not in beholder("show", "both").stderr


def test_an_unknown_protocol_says_where_protocols_are_listed(beholder: Cli, data: Path) -> None:
    assert "See: beholder list --protocols" in beholder("bench", "nope", data).stderr


def test_an_output_that_nobody_reads_is_no_gate_that_failed() -> None:
    """`beholder gate … | head -1` under pipefail: 1 would say that the gate was not met."""
    reads, writes = os.pipe()
    os.close(reads)
    command = [sys.executable, "-m", "beholder", "info", "clip_score"]
    done = subprocess.run(command, stdout=writes, stderr=subprocess.PIPE, text=True)
    os.close(writes)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_cache_that_cannot_be_written_stops_a_run_and_no_quick_look(
    beholder: Cli, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEHOLDER_CACHE", str(data / "below a file"))
    stopped = beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", "a")
    assert stopped.exit_code == 2
    assert "Name another with --store, or set BEHOLDER_CACHE." in stopped.stderr
    assert beholder("score", "out/good/1.png", "--text", "x", "--model", FAKE).exit_code == 0
    assert beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", "a", "--store", "other").exit_code == 0


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("run", "two.csv", "-m", "clip_score"), "give it another name: --map image=other_image (mapping=)"),
        (("run", "none.csv", "-m", "clip_score"), "or be mapped to it with --map COLUMN=output (mapping=)"),
        (("run", "samples.jsonl", "-m", "clip_score", "--map", "foo=prompt"), "foo: --map (mapping=) names a column"),
        (("validate", "p.txt"), "--prompts p.txt --outputs 'out/{prompt_id}_{seed}.png' (prompts=, outputs=)."),
        (("bench", "genai-bench", ".", "--only"), "got --only (only=True) without -m. Name one: -m METRIC (metrics=)."),
    ],
)
def test_messages_name_the_flag_and_the_argument(beholder: Cli, data: Path, args: tuple[str, ...], told: str) -> None:
    Path("two.csv").write_text("output,image,prompt\nout/good/1.png,out/good/1.png,red\n")
    Path("none.csv").write_text("place,prompt\nout/good/1.png,red\n")
    Path("p.txt").write_text("a cat\n")
    result = beholder(*args)
    assert result.exit_code == 2
    assert told in result.stderr


def test_no_message_shows_the_number_of_an_error(beholder: Cli, data: Path) -> None:
    beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", "a")
    for args in (
        ("show", "nowhere"),
        ("agree", "a", "--human", "none.csv"),
        ("run", data, "-m", "clip_score", "--model", FAKE, "--store", data / "s"),
        ("attributes", "--real", "out/good", "--gen", "out/bad", "--attributes", "none.txt"),
    ):
        result = beholder(*args)
        assert result.exit_code == 2, args
        assert "Errno" not in result.stderr


def test_what_a_model_of_two_parts_lacks_is_told_one_below_the_other(beholder: Cli, data: Path) -> None:
    rows = [{"output": "out/good/1.png", "prompt": "x", "references": ["out/good/2.png"], "class_label": ["cat"]}]
    data.write_text(json.dumps(rows[0]) + "\n")
    result = beholder("run", data, "-m", "nexus_score", "--offline")
    assert result.exit_code == 2
    head = "yolo-world-v2-l-image needs its checkpoint and the CLIP that embeds examples; got neither."
    assert f"\n{head} WORLDFOUNDRY_YOLO_WORLD_CKPT names the file" in result.stderr
    assert "\n\nthe weights of yolo-world-v2-l-image must be on this machine (licence: GPL-3.0); got" in result.stderr
    assert all(line.count("; got ") <= 1 for line in result.stderr.splitlines())


def test_statistics_that_cannot_be_are_told_with_one_got(beholder: Cli, data: Path) -> None:
    np.savez("s.npz", mu=np.zeros(2), sigma=np.array([[1.0, 0.5], [0.0, 1.0]]))
    result = beholder("run", data, "-m", "fd(model=fake:dim=2)", "--real", "s.npz")
    assert result.exit_code == 2
    assert result.stderr == "Error: in the statistics of s.npz a covariance must be symmetric; got one that is not.\n"


@pytest.mark.parametrize(
    "command",
    [("show",), ("compare", "demo/run"), ("report", "-o", "r.html"), ("verify",), ("grid",), ("run", "--like")],
    ids=lambda command: command[0],
)
def test_a_folder_above_a_run_names_the_run(beholder: Cli, data: Path, command: tuple[str, ...]) -> None:
    beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", "demo/run")
    result = beholder(*command, "demo")
    assert result.exit_code == 2
    assert "got demo" in result.stderr
    assert "Name the run in it: demo/run." in result.stderr


def test_a_folder_that_is_no_run_is_told_why(beholder: Cli, data: Path) -> None:
    for name in "abcd":
        (Path("demo") / name).mkdir(parents=True)
        (Path("demo") / name / "run.json").write_text("{}")
    (Path("o") / "parts" / "0-of-2").mkdir(parents=True)
    told = {name: beholder("show", name).stderr for name in ("demo", "out", "samples.jsonl", "nowhere", "o", "demo/a")}
    assert "got demo, which holds none. Name one of the runs in it: demo/a, demo/b, demo/c and 1 more." in told["demo"]
    assert "got out, which holds none. Name a folder that `beholder run` made." in told["out"]
    assert "got samples.jsonl, which is a file." in told["samples.jsonl"]
    assert "got nowhere, which is not there." in told["nowhere"]
    assert "got o, which holds none. Its shards are not joined yet: beholder merge o." in told["o"]
    assert "got demo/a (run.json lacks what a run's header holds: asked, " in told["demo/a"]
