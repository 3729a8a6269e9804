"""Whatever ids, methods, labels and prompts say, a run, its report and its exports write inside their own folders."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import beholder
from beholder.cli.bench_official import write_official
from beholder.reporting.make import write_report

NAMES = [
    "../../escaped", "/escaped-abs", "..", "a/../../b", "nul\0byte", "NUL", "C:\\escaped", "x" * 3000, "..\\escaped",
    "</script><script>alert(1)</script>",
]  # fmt: skip
MARK = "MARK-OF-A-FILE-THAT-IS-NO-PICTURE"


def hostile_rows(home: Path) -> list[dict[str, Any]]:
    rows = []
    for at, name in enumerate(NAMES):
        Image.new("RGB", (12, 12), (at * 20, 90, 40)).save(home / f"{at}.png")
        columns = dict.fromkeys(("id", "method", "concept", "prompt_id", "group", "task", "extra"), name)
        rows.append({**columns, "output": str(home / f"{at}.png"), "prompt": name, "seed": name})
    (home / "notes.txt").write_text(MARK * 40)
    (home / "notes.png").write_text(MARK * 40)
    for name in ("notes.txt", "notes.png"):
        rows.append({"id": name, "method": "m", "output": str(home / name), "prompt": "p", "references": None})
    return rows


def files_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Deep below the temporary folder, so that a path which climbs out still lands where it is seen."""
    home = tmp_path / "a/b/c/d"
    home.mkdir(parents=True)
    monkeypatch.chdir(home)
    return home


@pytest.mark.parametrize("page", ["page", "page.html"])
def test_runs_and_reports_stay_in_their_folders(tmp_path: Path, home: Path, page: str) -> None:
    manifest = home / "rows.jsonl"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in hostile_rows(home)), encoding="utf-8")
    before = files_below(tmp_path)
    out = home / "run"
    metrics = ["clip_score,model=fake:dim=8,as=../../escaped", "clip_score,model=fake:dim=8;seed=1,as=/escaped-abs"]
    run = beholder.evaluate(
        str(manifest), metrics=metrics, out=str(out), store=str(home / "store"), by="method", max_failed=1
    )
    assert set(run.scores.column("../../escaped_status").to_pylist()) == {"ok", "unreadable"}
    write_report(run, out=home / page)
    new = files_below(tmp_path) - before
    tops = ("a/b/c/d/run", "a/b/c/d/store", f"a/b/c/d/{page}")
    assert new
    assert all(any(path == top or path.startswith(f"{top}/") for top in tops) for path in new), new
    assert not any("escaped" in path for path in new)
    assert {path.name for path in out.iterdir()} <= {
        "run.json", "journal.bin", "scores.parquet", "scores.csv", "summary.json", ".lock",
    }  # fmt: skip


@pytest.mark.parametrize("page", ["page", "page.html"])
def test_a_report_holds_no_file_that_is_no_picture_and_runs_no_text(home: Path, page: str) -> None:
    manifest = home / "rows.jsonl"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in hostile_rows(home)), encoding="utf-8")
    run = beholder.evaluate(
        str(manifest), metrics="clip_score", model="fake:dim=8", out=str(home / "run"), store=str(home / "store"),
        max_failed=1,
    )  # fmt: skip
    place = write_report(run, out=home / page)
    files = [place] if place.suffix == ".html" and page.endswith("html") else list((home / page).rglob("*"))
    text = b"".join(path.read_bytes() for path in files if path.is_file())
    assert MARK.encode() not in text
    assert base64.b64encode((MARK * 3).encode())[:40] not in text
    assert b"<script>alert(1)" not in text
    assert b"notes.png" in text  # the search would find what is there


class Official:
    """A protocol that exports one file a method."""

    def export(self, finished: Any, method: str | None) -> dict[str, bytes]:
        return {"official.json": b"{}"}


def test_official_files_of_hostile_methods_stay_in_their_folder(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Finished:
        def values_of(self, column: str, *, none: str) -> list[str]:
            return [*NAMES, "sound", ""]

    monkeypatch.setattr("beholder.protocol_runs.finished_run", lambda run: Finished())
    before = files_below(tmp_path)
    write_official(Official(), None, str(home / "official"), quiet=True)
    new = files_below(tmp_path) - before
    assert all(path.startswith("a/b/c/d/official") for path in new)
    assert {"a/b/c/d/official/sound/official.json", "a/b/c/d/official/videos/official.json"} <= new
    assert sum(path.endswith("official.json") for path in new) == len(NAMES) + 2
