"""Rows that have nothing to score and whose file is not there: the missing file is told, by every metric alike."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from PIL import Image
from tests.runs.helpers import write_set

import beholder
from beholder.manifest.schema import Sample
from beholder.media.files import LocalFile
from beholder.records import Status
from beholder.runs.absent import put_faults_first

METRICS = ["clip_score", "clip_i", 'hcs(attributes=["a cat"])', "vqa_score(model=fake)", "itm_score(model=fake)"]


def evaluate(tmp_path: Path, data: Path, **more: object) -> beholder.Run:
    given = {"metrics": METRICS, "model": "fake", "out": str(tmp_path / "run"), "store": str(tmp_path / "store")}
    return beholder.evaluate(str(data), **given | more)  # type: ignore[arg-type]


def test_a_missing_file_is_a_fault_whatever_else_the_row_lacks(tmp_path: Path) -> None:
    none = "img/none.png"
    data = write_set(
        tmp_path, 6, r1={"output": none, "prompt": "", "references": []}, r2={"prompt": "", "references": []},
        r3={"references": ["img/ref0_0.png", none], "prompt": " "},
    )  # fmt: skip
    run = evaluate(tmp_path, data)
    rows = run.scores.to_pylist()
    for label in run.labels:
        assert rows[1][f"{label}_status"] == "missing", label
        assert rows[1][f"{label}_reason"].endswith("img/none.png: no such file")
        assert rows[2][f"{label}_status"] in ("empty_prompt", "no_reference")
    # A reference that is not there is the fault of the metrics that look at references.
    told = {label.partition("(")[0]: rows[3][f"{label}_status"] for label in run.labels}
    assert told == {
        "clip_score": "empty_prompt", "clip_i": "missing", "hcs": "missing", "vqa_score": "empty_prompt",
        "itm_score": "empty_prompt",
    }  # fmt: skip
    assert run.n_faults == 2
    assert run.exit_code == 3


def test_a_file_that_is_back_is_seen_by_the_same_command(tmp_path: Path) -> None:
    data = write_set(tmp_path, 3, r1={"output": "img/none.png", "prompt": ""})
    assert evaluate(tmp_path, data, metrics=["clip_score"]).n_faults == 1
    Image.new("RGB", (16, 16)).save(tmp_path / "img" / "none.png")
    run = evaluate(tmp_path, data, metrics=["clip_score"])
    assert run.scores.column("clip_score_status").to_pylist() == ["ok", "empty_prompt", "ok"]
    assert run.exit_code == 0


def test_a_row_that_names_no_output_and_no_prompt_names_no_output(tmp_path: Path) -> None:
    data = write_set(tmp_path, 3, r1={"output": "", "prompt": ""})
    run = evaluate(tmp_path, data, metrics=["clip_score"])
    assert run.scores.column("clip_score_status").to_pylist() == ["ok", "missing", "ok"]


def test_members_of_a_tar_are_looked_up(tmp_path: Path) -> None:
    data = write_set(
        tmp_path, 4, r1={"output": "a.tar::img/none.png", "prompt": ""}, r2={"output": "a.tar::img/2.png", "prompt": ""}
    )
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(tmp_path / "img" / "2.png", "img/2.png")
    statuses = evaluate(tmp_path, data, metrics=["clip_score"]).scores.column("clip_score_status").to_pylist()
    assert statuses == ["ok", "missing", "empty_prompt", "ok"]


def test_no_file_is_opened_for_a_row_without_anything_to_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_set(tmp_path, 3, r0={"prompt": ""}, r1={"prompt": ""}, r2={"prompt": ""})

    def refuse(self: LocalFile) -> str:
        raise AssertionError(self.path)

    for name in ("fingerprint", "load", "read_and_hash"):
        monkeypatch.setattr(LocalFile, name, refuse)
    statuses = evaluate(tmp_path, data, metrics=["clip_score"]).scores.column("clip_score_status").to_pylist()
    assert statuses == ["empty_prompt"] * 3


def test_a_file_that_may_not_be_read_is_told_and_other_verdicts_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.png").touch()
    here, gone = (LocalFile(str(tmp_path / name), name) for name in ("a.png", "b.png"))
    samples = [Sample(id=str(at), output=medium) for at, medium in enumerate((here, gone, gone))]
    verdicts = {0: (Status.EMPTY_PROMPT, ""), 1: (Status.NOT_APPLICABLE, "another task"), 2: (Status.FAILED, "raised")}
    before = dict(verdicts)
    put_faults_first(samples, ("output", "prompt"), verdicts)
    assert verdicts == before
    monkeypatch.setattr("beholder.media.files.os.access", lambda *_: False)
    put_faults_first(samples, ("output", "prompt"), verdicts)
    assert verdicts[0] == (Status.UNREADABLE, "a.png: cannot be read (Permission denied)")
    assert verdicts[1] == before[1]
