"""Run folders that were damaged: what can be read is read, the rest is a message, and the same command mends them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runs.helpers import counting, write_set

import beholder
from beholder._errors import OptionError, UserError
from beholder.runs.config import settings_like

DAMAGES = {"cut": lambda data: data[: len(data) // 2], "empty": lambda data: b"", "junk": lambda data: b"[1]"}


@pytest.fixture
def run(tmp_path: Path) -> beholder.Run:
    counting()
    return again(tmp_path)


def again(tmp_path: Path) -> beholder.Run:
    return beholder.evaluate(
        write_set(tmp_path, 6), metrics=["clip_score", "clip_i"], model="counting", out=str(tmp_path / "out"),
        store=str(tmp_path / "store"), by="seed",
    )  # fmt: skip


@pytest.mark.parametrize("damage", [*DAMAGES, "gone"])
@pytest.mark.parametrize("name", ["run.json", "summary.json", "scores.parquet", "scores.csv", "journal.bin"])
def test_a_damaged_file_is_told_of_or_made_again(tmp_path: Path, run: beholder.Run, name: str, damage: str) -> None:
    scores, summary = run.scores, run.summary
    path = run.path / name
    path.unlink() if damage == "gone" else path.write_bytes(DAMAGES[damage](path.read_bytes()))
    if name == "run.json":
        with pytest.raises(UserError, match=r"run.json that can be read"):
            beholder.open_run_folder(run.path)
        with pytest.raises(OptionError, match="--like needs a run folder"):
            settings_like(run.path)
    else:
        opened = beholder.open_run_folder(run.path)
        assert opened.summary == summary
        if name == "scores.parquet" and damage != "gone":
            for read in (lambda: opened.scores, lambda: opened.n, lambda: opened.columns, lambda: opened.summarise()):
                with pytest.raises(UserError, match=r"must be readable.*run again"):
                    read()
        elif name == "scores.parquet":
            assert opened.scores.select(scores.column_names).equals(scores)  # read from the journal
        else:
            assert opened.scores.equals(scores)
    mended = again(tmp_path)
    assert mended.scores.equals(scores)
    assert mended.summary == summary
    assert (mended.path / name).stat().st_size > 3
