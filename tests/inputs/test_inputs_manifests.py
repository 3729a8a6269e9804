"""Manifests that broke other tools: N1 to N5 of the table in README.md."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from tests.inputs.conftest import noise

import beholder


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_n1_outputs_are_joined_by_id_never_by_position(tmp_path: Path, cli: Any) -> None:
    (tmp_path / "out").mkdir()
    prompts = {}
    for number in (10, 1, 2, 20):
        noise(tmp_path / "out" / f"{number}.png", seed=number)
        prompts[number] = f"prompt of {number}"
    with (tmp_path / "p.csv").open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerows([("prompt_id", "prompt"), *((number, prompts[number]) for number in (20, 2, 10, 1))])
    template = str(tmp_path / "out" / "{prompt_id}.png")
    made = cli(
        "run", "--prompts", tmp_path / "p.csv", "--outputs", template, "-m", "clip_score", "--model", "fake",
        "-o", tmp_path / "a",
    )  # fmt: skip
    assert made.exit_code == 0, made.stderr
    table = beholder.open_run_folder(tmp_path / "a").scores.to_pylist()
    assert len(table) == 4
    for row in table:
        number = int(row["prompt_id"])
        assert row["prompt"] == prompts[number]
        own = beholder.score(
            "clip_score", images=template.format(prompt_id=number), texts=prompts[number], model="fake"
        )
        assert row["clip_score"] == pytest.approx(float(own), abs=1e-6)


def test_n2_doubles_and_leftovers_are_listed(tmp_path: Path, cli: Any) -> None:
    (tmp_path / "out").mkdir()
    for name in ("a.png", "a.jpg", "b.png", "c.png"):
        noise(tmp_path / "out" / name)
    for name in ("a", "b", "d"):
        (tmp_path / "out" / f"{name}.txt").write_text(f"prompt {name}")
    result = cli("run", tmp_path / "out", "-m", "clip_score", "--model", "fake", "-o", tmp_path / "r")
    assert result.exit_code == 2
    for told in ("a.png: another file has this name", "c.png: no prompt", "d.txt: no file"):
        assert told in result.stderr, told
    assert not (tmp_path / "r").exists()
    double = write(
        tmp_path / "s.jsonl", [{"id": "x", "output": f"out/{name}.png", "prompt": "p"} for name in ("a", "b")]
    )
    twice = cli("run", double, "-m", "clip_score", "--model", "fake")
    assert twice.exit_code == 2
    assert "rows 1 and 2 have one id, 'x'" in twice.stderr


def test_n3_nothing_matched_is_never_an_empty_success(tmp_path: Path, cli: Any) -> None:
    (tmp_path / "out").mkdir()
    noise(tmp_path / "out" / "a.png")
    (tmp_path / "p.csv").write_text("prompt_id,prompt\nz,a cat\n")
    for extra in ((), ("--allow-extra",)):
        result = cli(
            "run", "--prompts", tmp_path / "p.csv", "--outputs", str(tmp_path / "out" / "{prompt_id}.png"),
            "-m", "clip_score", "--model", "fake", "-o", tmp_path / "r", *extra,
        )  # fmt: skip
        assert result.exit_code == 2, extra
        assert "nothing matched" in result.stderr
        assert not (tmp_path / "r").exists()
    for name, text in (("e.jsonl", ""), ("e.csv", "output,prompt\n"), ("e.json", "[]")):
        (tmp_path / name).write_text(text)
        assert cli("run", tmp_path / name, "-m", "clip_score", "--model", "fake").exit_code == 2, name


def test_n4_unequal_counts_and_prompts_equal_but_for_case(tmp_path: Path, cli: Any) -> None:
    rows = []
    for at in range(30):
        prompt, concept = ("A Cat", "many") if at < 25 else ("a cat", "few")
        path = noise(tmp_path / f"{at}.png", seed=at)
        rows.append({"id": str(at), "output": path, "prompt": prompt, "concept": concept})
    manifest = write(tmp_path / "s.jsonl", rows)
    made = cli("run", manifest, "-m", "clip_score", "--model", "fake", "-o", tmp_path / "r", "--json")
    assert made.exit_code == 0
    run = beholder.open_run_folder(tmp_path / "r")
    values = run.scores.column("clip_score").to_pylist()
    many, few = sum(values[:25]) / 25, sum(values[25:]) / 5
    found = {row["aggregate"]: row for row in json.loads(made.stdout)["summary"] if not row["group"]}
    assert found["macro"]["value"] == pytest.approx((many + few) / 2, abs=1e-12)
    assert found["micro"]["value"] == pytest.approx((25 * many + 5 * few) / 30, abs=1e-12)
    assert found["micro"]["n_units"] == 2, "prompts that differ in case are two prompts"
    checked = json.loads(cli("validate", manifest, "--json").stdout)
    assert checked["counts"]["outputs_per_prompt"] == {"min": 5, "max": 25, "prompts_by_outputs": {"5": 1, "25": 1}}
    assert any("equal but for case" in text and "'A Cat' and 'a cat'" in text for text in checked["notices"])


def test_n5_many_references_a_row_and_a_missing_one(tmp_path: Path, cli: Any) -> None:
    paths = [noise(tmp_path / f"{at}.png", seed=at) for at in range(8)]
    rows = [{"id": str(at), "output": paths[at], "prompt": "p", "references": paths[3:]} for at in range(3)]
    rows.append({"id": "lost", "output": paths[0], "prompt": "p", "references": [paths[3], "gone.png"]})
    rows.append({"id": "none", "output": paths[0], "prompt": "p", "references": []})
    manifest = write(tmp_path / "s.jsonl", rows)
    args = ("run", manifest, "-m", "clip_score", "-m", "clip_i", "-m", "clip_i,pairing=zip,as=zipped")
    made = cli(*args, "--model", "fake", "-o", tmp_path / "r", "-q")
    assert made.exit_code == 3
    table = {row["id"]: row for row in beholder.open_run_folder(tmp_path / "r").scores.to_pylist()}
    for at in range(3):
        pairs = [
            float(beholder.score("clip_i", images=paths[at], references=[path], model="fake")) for path in paths[3:]
        ]
        assert table[str(at)]["clip_i"] == pytest.approx(sum(pairs) / 5, abs=1e-6)
        assert (table[str(at)]["zipped_status"], table[str(at)]["zipped"]) == ("failed", None)
        assert "5" in table[str(at)]["zipped_reason"]
    assert (table["lost"]["clip_i_status"], table["lost"]["clip_i"]) == ("missing", None)
    assert "gone.png" in table["lost"]["clip_i_reason"]
    assert table["lost"]["clip_score_status"] == "ok"
    assert table["none"]["clip_i_status"] == "no_reference"
