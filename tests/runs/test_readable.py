"""Models that are not loaded for files that nobody can read, and decoders that are asked for before anything runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.runs.helpers import write_set

import beholder
from beholder._errors import MissingExtraError
from beholder.backends import pool

VIDEO = b"\x1a\x45\xdf\xa3" + bytes(100)
"""What begins as a Matroska file does."""


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the models that were loaded."""
    names: list[str] = []
    load = pool.load_model

    def noted(model: Any, **more: Any) -> Any:
        names.append(model.id)
        return load(model, **more)

    monkeypatch.setattr(pool, "load_model", noted)
    return names


def evaluate(data: Path, tmp_path: Path, out: str, metrics: Any, **more: Any) -> beholder.Run:
    return beholder.evaluate(
        str(data), metrics=metrics, model="fake:dim=8", out=str(tmp_path / out), store=str(tmp_path / "s"), **more
    )


def test_a_rerun_with_an_unreadable_file_loads_no_model(tmp_path: Path, loaded: list[str]) -> None:
    data = write_set(tmp_path, 6)
    (tmp_path / "img" / "2.png").write_bytes(b"no picture")
    first = evaluate(data, tmp_path, "a", ["clip_score", "clip_i"])
    assert loaded == ["fake:dim=8"]
    again = evaluate(data, tmp_path, "b", ["clip_score", "clip_i"])
    other = evaluate(data, tmp_path, "c", "clip_i(reduce=max)")
    assert loaded == ["fake:dim=8"]
    assert again.scores.equals(first.scores)
    assert [row["clip_i_status"] for row in other.scores.to_pylist()] == ["ok"] * 2 + ["unreadable"] + ["ok"] * 3
    # A row that does need the model still gets it, and the verdict on the other row stays.
    rng = np.random.default_rng(9)
    Image.fromarray(rng.integers(0, 256, (9, 9, 3), np.uint8)).save(tmp_path / "img" / "3.png")
    third = evaluate(data, tmp_path, "d", "clip_score")
    assert loaded == ["fake:dim=8"] * 2
    assert [row["clip_score_status"] for row in third.scores.to_pylist()] == ["ok"] * 2 + ["unreadable"] + ["ok"] * 3
    before, after = (run.scores.column("clip_score").to_pylist() for run in (first, third))
    assert [one == other for one, other in zip(before, after)] == [True, True, True, False, True, True]


def test_nothing_readable_at_all_needs_no_image_model(tmp_path: Path, loaded: list[str]) -> None:
    data = write_set(tmp_path, 4)
    for at in range(4):
        (tmp_path / "img" / f"{at}.png").write_bytes(b"none" + bytes([at]))
    run = evaluate(data, tmp_path, "a", "clip_i", max_failed=1)
    assert {row["clip_i_status"] for row in run.scores.to_pylist()} == {"unreadable"}
    assert loaded == ["fake:dim=8"]  # for the references
    run = evaluate(data, tmp_path, "b", "clip_i(reduce=max)", max_failed=1)
    assert loaded == ["fake:dim=8"]


def test_derived_pictures_and_pairs_of_unreadable_files_load_nothing(tmp_path: Path, loaded: list[str]) -> None:
    data = write_set(tmp_path, 3, r1={"seg_prompt": "red"})
    (tmp_path / "img" / "1.png").write_bytes(b"none")
    rows = [json.loads(line) | {"seg_prompt": "red"} for line in data.read_text().splitlines()]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    metrics = ["clip_i_seg(segmenter=fake)", "itm_score(model=fake)"]
    first = evaluate(data, tmp_path, "a", metrics)
    count = len(loaded)
    assert count == 3
    again = evaluate(data, tmp_path, "b", metrics)
    assert len(loaded) == count
    assert again.scores.equals(first.scores)


def rows_file(tmp_path: Path, outputs: list[str]) -> Path:
    same = {"prompt": "x", "references": ["img/ref0_0.png"], "seg_prompt": "red"}
    rows = [{"id": str(at), "output": name, "concept": f"c{at}", **same} for at, name in enumerate(outputs)]
    path = tmp_path / "videos.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_without_pyav_videos_stop_a_run_before_it_begins(
    tmp_path: Path, loaded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_set(tmp_path, 3)
    monkeypatch.setitem(sys.modules, "av", None)
    for name in ("a.mp4", "b", "c.mp4"):
        (tmp_path / name).write_bytes(VIDEO)
    first, second = Image.new("RGB", (8, 8)), Image.new("RGB", (8, 8), (255, 0, 0))
    first.save(tmp_path / "e.gif", save_all=True, append_images=[second])
    (tmp_path / "e.gif").rename(tmp_path / "e.mp4")  # the bytes decide what it is
    data = rows_file(tmp_path, ["img/0.png", "a.mp4", "e.mp4", "b", "gone.mp4"])
    with pytest.raises(MissingExtraError) as caught:
        evaluate(data, tmp_path, "a", "clip_score")
    assert str(caught.value) == (
        "reading video files (2 of 5 rows hold video files; the first: row 2, a.mp4) needs the package 'av'; got an "
        'environment without it. Install it with: pip install "beholder[video]".'
    )
    assert loaded == []
    assert not (tmp_path / "a").exists()
    with pytest.raises(MissingExtraError, match=r"1 of 1 rows is a video; the first: row 1, c\.mp4"):
        evaluate(rows_file(tmp_path, ["c.mp4"]), tmp_path, "a", "clip_score")


def test_without_pyav_rows_whose_videos_nobody_looks_at_are_no_fault_of_the_set_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_set(tmp_path, 3)
    monkeypatch.setitem(sys.modules, "av", None)
    (tmp_path / "a.mp4").write_bytes(VIDEO)
    data = rows_file(tmp_path, ["img/0.png", "a.mp4", "gone.mp4"])
    run = evaluate(data, tmp_path, "a", "background_share(segmenter=fake)", max_failed=1)
    assert [row["background_share_status"] for row in run.scores.to_pylist()][1:] == ["not_applicable", "missing"]
    generated = ({"output": str(tmp_path / name), "prompt": "x"} for name in ("img/0.png", "a.mp4"))
    with pytest.raises(MissingExtraError, match="reading a video file needs the package 'av'"):
        beholder.evaluate(generated, metrics="clip_score", model="fake:dim=8", out=str(tmp_path / "b"))
