"""What is wrong with a benchmark's data is told before weights are asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import beholder
from beholder._errors import InputError, WeightsMissingError


class Told:
    """Progress that keeps its notices."""

    def __init__(self) -> None:
        self.notices: list[str] = []

    def stage(self, text: str, total: int | None) -> None: ...

    def advance(self, samples: int) -> None: ...

    def notice(self, text: str) -> None:
        self.notices.append(text)


def manifest(folder: Path, rows: list[dict[str, Any]]) -> str:
    Image.new("RGB", (16, 16)).save(folder / "a.png")
    path = folder / "data.jsonl"
    path.write_text("".join(json.dumps({"output": "a.png"} | row) + "\n" for row in rows))
    return str(path)


def before_weights(folder: Path, protocol: str, rows: list[dict[str, Any]]) -> list[str]:
    told = Told()
    with pytest.raises(WeightsMissingError):
        beholder.bench(protocol, manifest(folder, rows), offline=True, cache_dir=str(folder), progress=told)
    return told.notices


def test_rows_without_concepts_or_references_are_told(tmp_path: Path) -> None:
    assert before_weights(tmp_path, "knowcusbench", [{"prompt": "x"}]) == [
        "row 1, references: the row has no references",
        "row 1, seg_prompt: the row has neither seg_prompt nor class_name to segment by. All of them: "
        "beholder validate DATA --protocol knowcusbench",
    ]


def test_many_faults_are_counted(tmp_path: Path) -> None:
    rows = [{"id": str(at), "concept": f"c{at}", "prompt": "x", "output": f"{at}.png"} for at in range(5)]
    told = before_weights(tmp_path, "dreambench", rows)
    assert told[:3] == [f"row {at + 1}, references: concept 'c{at}' has no references" for at in range(3)]
    assert told[3:] == ["2 more faults of rows. All of them: beholder validate DATA --protocol dreambench"]


def test_what_a_protocol_warns_of_is_told_too(tmp_path: Path) -> None:
    assert before_weights(tmp_path, "dsg", [{"prompt": "x"}]) == ["outputs without questions, which have no value: 1"]


def test_a_fault_of_form_stops_before_anything_else(tmp_path: Path) -> None:
    told = Told()
    data = manifest(tmp_path, [{"id": "a"}, {"id": "a"}])
    with pytest.raises(InputError, match="rows 1 and 2 have one id"):
        beholder.bench("dreambench", data, offline=True, cache_dir=str(tmp_path), progress=told)
    assert told.notices == []


def test_rows_that_can_be_read_once_are_left_to_the_run(tmp_path: Path) -> None:
    Image.new("RGB", (16, 16)).save(tmp_path / "a.png")
    rows = ({"id": str(at), "output": str(tmp_path / "a.png"), "prompt": "x"} for at in range(2))
    found = beholder.bench(
        "genai-bench", rows, metrics=["clip_score"], only=True, model="fake", out=str(tmp_path / "run"),
        store=str(tmp_path / "store"),
    )  # fmt: skip
    assert found.run.n == 2
