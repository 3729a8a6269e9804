"""The metrics of attributes of sets in runs: the numbers of `beholder attributes`, from the same features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.attributing.attribute_sets import draw_set
from typer.testing import CliRunner

import beholder
from beholder import evaluate, merge
from beholder._errors import OptionError
from beholder.cli.main import app

LIST = ["a cat", "a dog"]
ALL = ["sad", "pad", "dependence", "r_sad", "placement", "regional_kl"]


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("sets")
    ref = draw_set(root / "ref", 40, {"cat": 0.4, "dog": 0.5}, seed=1)
    far = draw_set(root / "far", 30, {"cat": 0.95, "dog": 0.4}, seed=3)
    return {"ref": str(ref), "far": str(far), "store": str(root / "store")}


def asked(name: str) -> str:
    return f'{name}(attributes=["a cat", "a dog"])'


def values(run: Any) -> dict[str, tuple[Any, Any, Any]]:
    return {row.label: (row.value, row.low, row.high) for row in run.summary if row.aggregate == "set"}


def test_the_numbers_are_those_of_the_attribute_command(
    sets: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    common: dict[str, Any] = {"model": "demo:emoji", "store": sets["store"]}
    whole = beholder.attributes(
        real=sets["ref"], gen=sets["far"], attributes=LIST, out=str(tmp_path / "a"), **common
    )  # fmt: skip
    monkeypatch.setattr("beholder.backends.hf_clip.HFClipEncoder.encode_patches", None)
    run = evaluate(
        sets["far"], metrics=[asked(name) for name in ALL], real=sets["ref"], out=str(tmp_path / "r"), **common
    )
    found = values(run)
    (summary,) = whole.sets.to_pylist()
    for name in ("sad", "pad"):
        expected = tuple(summary[f"{name}_mean{part}"] for part in ("", "_low", "_high"))
        assert found[name] == pytest.approx(expected, rel=1e-9), "the same draws too"
    rows, pairs = whole.attributes.to_pylist(), whole.pairs.to_pylist()
    assert found["dependence"][0] == pytest.approx(pairs[0]["dependence"], rel=1e-12)
    for name, column in (("r_sad", "mar"), ("placement", "placement_jsd"), ("regional_kl", "regional_kl")):
        assert found[name][0] == pytest.approx(np.mean([row[column] for row in rows]), rel=1e-12)
    cat = evaluate(
        sets["far"], metrics=['r_sad(attributes=["a cat"])'], real=sets["ref"], out=str(tmp_path / "c"), **common
    )
    assert values(cat)["r_sad"] == pytest.approx([rows[0][f"mar{part}"] for part in ("", "_low", "_high")])
    notes = {row.label: row.note for row in run.summary if row.aggregate == "set"}
    assert "largest: a cat" in notes["sad"]
    assert f"null level {summary['sad_mean_null_level']:.4g} (95%)" in notes["sad"]
    for name in ("sad", "pad"):
        value, low, high = (summary[f"{name}_mean_corrected{end}"] for end in ("", "_low", "_high"))
        assert f"corrected {value:.4g} [{low:.4g}, {high:.4g}]" in notes[name]
    assert not any("corrected" in notes[name] for name in ("dependence", "r_sad", "placement", "regional_kl"))


def test_parts_give_the_numbers_of_one_process(sets: dict[str, str], tmp_path: Path) -> None:
    common: dict[str, Any] = {"model": "demo:emoji", "real": sets["ref"], "metrics": [asked("sad"), asked("placement")]}
    whole = evaluate(sets["far"], out=str(tmp_path / "whole"), store=sets["store"], **common)
    for part in range(2):
        evaluate(sets["far"], out=str(tmp_path / "parts"), shard=f"{part}/2", **common)
    # An image may get other last bits in a smaller batch: which, depends on the processor.
    found, expected = values(merge(str(tmp_path / "parts"))), values(whole)
    assert list(found) == list(expected)
    for name, numbers in expected.items():
        assert found[name] == pytest.approx(numbers, rel=1e-9)


def test_the_command(sets: dict[str, str], tmp_path: Path) -> None:
    listed = tmp_path / "list.csv"
    listed.write_text("positive,counterpart\na cat,a dog\na dog,\n")
    call = ["run", sets["far"], "--real", sets["ref"], "--model", "demo:emoji", "--store", sets["store"], "-q"]
    found = CliRunner().invoke(
        app, [*call, "-m", "sad", "-m", "fd", "--n", "20", "--attributes", str(listed), "-o", str(tmp_path / "o")]
    )
    assert found.exit_code == 0, found.output
    run = beholder.Run(tmp_path / "o")
    identity = next(row.metric for row in run.summary if row.label == "sad")
    assert identity == 'sad(attributes=["a cat|a dog", "a dog"], model=demo:emoji)'
    for more, message in (
        (["-m", "sad"], "--attributes FILE"),
        (["-m", "pad", "--attributes", str(tmp_path / "gone.txt")], "gone.txt"),
        (["-m", "fd", "--attributes", "faces"], "takes a list of attributes"),
    ):
        found = CliRunner().invoke(app, [*call, *more, "-o", str(tmp_path / "p")])
        assert found.exit_code == 2
        assert message in found.output
    shown = CliRunner().invoke(app, ["list"])
    assert all(name in shown.output for name in ALL)


def test_a_place_without_evidence_has_no_value(sets: dict[str, str], tmp_path: Path) -> None:
    common: dict[str, Any] = {"model": "demo:emoji", "store": sets["store"], "real": sets["ref"]}
    run = evaluate(sets["far"], metrics=['placement(attributes=["an apple"])'], out=str(tmp_path / "o"), **common)
    (row,) = (row for row in run.summary if row.aggregate == "set")
    assert row.value is None
    assert "not_enough_evidence" in (row.note or "")
    with pytest.raises(OptionError, match="two attributes"):
        evaluate(sets["far"], metrics=['pad(attributes=["a cat"])'], out=str(tmp_path / "p"), **common)
