"""Metrics of whole sets in runs in parts: joined parts have the values of one process, to the last bit."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.runs.helpers import counting

import beholder
from beholder._errors import InputError, OptionError, StoreError, UserError
from beholder.runs import engine, set_features
from beholder.runs.config import make_config
from beholder.runs.results import Run
from beholder.runs.workers import run_on

ENCODER = "fake:dim=8"
METRICS = [
    "clip_score", "fd", f"kid(model={ENCODER})", f"cmmd(model={ENCODER})", "precision", "recall", "density",
    "coverage", "vendi", "diversity",
]  # fmt: skip


def folder(path: Path, count: int, seed: int) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    for at in range(count):
        Image.fromarray(rng.integers(0, 256, (8, 10, 3), dtype=np.uint8)).save(path / f"{at:03}.png")
    return path


def photographs(tmp_path: Path) -> Path:
    """As many real pictures as outputs, one of them broken too."""
    files = folder(tmp_path / "real", 40, 1)
    (files / "003.png").write_bytes(b"broken")
    return files


def manifest(path: Path, files: Path, **cells: list[str]) -> Path:
    rows = [
        {"id": f"{files.name}{at}", "output": str(file), "prompt": f"p{at % 7}",
         **{name: values[at % len(values)] for name, values in cells.items()}}
        for at, file in enumerate(sorted(files.glob("*.png")))
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def generated(tmp_path: Path, count: int = 40) -> Path:
    """A manifest with a row that cannot be read, and a picture that stands twice, in rows of different shards."""
    files = folder(tmp_path / "gen", count, 0)
    shutil.copy(files / "001.png", files / f"{count - 2:03}.png")
    (files / "005.png").write_bytes(b"broken")
    return manifest(tmp_path / "gen.jsonl", files, method=["a", "b"], style=["x", "y", "z"])


def local(tmp_path: Path, data: Path, **settings: Any) -> Run:
    return beholder.evaluate(
        str(data), **{"model": ENCODER, "out": str(tmp_path / "local"), "store": str(tmp_path / "s")} | settings
    )


def sharded(tmp_path: Path, data: Path, count: int = 3, *, only: Any = None, out: str = "run", **settings: Any) -> Path:
    for index in range(count) if only is None else only:
        settings = {"model": ENCODER, "out": str(tmp_path / out)} | settings
        beholder.evaluate(str(data), shard=f"{index}/{count}", **settings)
    return tmp_path / out


def equal(one: Run, other: Run) -> None:
    """Every summary, interval and note the same; and every row."""
    assert [asdict(row) for row in other.summary] == [asdict(row) for row in one.summary]
    assert other.scores.equals(one.scores)
    assert other.header["real"] == one.header["real"]
    assert set(other.notices) == set(one.notices)
    assert (other.n, other.n_faults) == (one.n, one.n_faults)


@pytest.mark.parametrize("form", ["folder", "manifest", "n"])
def test_joined_parts_have_the_values_of_one_process(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "CHUNK", 5)
    monkeypatch.setattr(set_features, "BLOCK", 7)
    monkeypatch.setattr(set_features, "WINDOW_BYTES", 14 * 8 * 4)
    data = generated(tmp_path)
    files = photographs(tmp_path)
    real = manifest(tmp_path / "real.jsonl", files) if form == "manifest" else files
    settings: dict[str, Any] = {"metrics": METRICS, "real": str(real), "max_failed": 0.1, "by": ["style"]}
    if form == "n":
        settings |= {"n": 12, "seed": 3}
    one = local(tmp_path, data, **settings)
    joined = beholder.merge(sharded(tmp_path, data, **settings))
    equal(one, joined)
    whole = {row.label: row for row in joined.summary if not row.group}
    assert whole["fd"].value is not None
    assert whole["fd"].n_missing == {"unreadable": 1}
    assert whole["diversity"].n_units == 14  # seven prompts of two methods
    assert any("1 pictures of the real set" in text for text in joined.notices)
    if form == "n":
        (alone,) = [row for row in joined.summary if row.label == "diversity" and row.group == {"style": "x"}]
        assert (alone.value, alone.n) == (None, 14)
        assert "not_enough_evidence; got no prompt with two outputs" in alone.note
        assert {tuple(row.group.values()) for row in joined.summary if row.label == "vendi"} >= {("x",), ("a",)}


@pytest.mark.parametrize("known", [True, False])
def test_statistics_of_a_file_go_along(tmp_path: Path, known: bool) -> None:
    data, files = generated(tmp_path), photographs(tmp_path)
    path = tmp_path / "ref.npz"
    beholder.make_stats(str(files), out=str(path), model=ENCODER, store=str(tmp_path / "s"), max_failed=0.1)
    if not known:  # as other tools write it
        with np.load(path) as found:
            np.savez(path, mu=found["mu"], sigma=found["sigma"])
    settings: dict[str, Any] = {"metrics": ["fd"], "real": str(path), "max_failed": 0.1, "n": 39}
    one = local(tmp_path, data, **settings)
    run = sharded(tmp_path, data, **settings)
    path.unlink()  # one part has kept them
    assert [part.name for part in sorted((run / "parts").iterdir()) if (part / "real.npz").exists()] == ["2-of-3"]
    equal(one, beholder.merge(run))


def test_joined_parts_are_measured_by_other_groups_later(tmp_path: Path) -> None:
    data, files = generated(tmp_path), photographs(tmp_path)
    settings: dict[str, Any] = {"metrics": ["fd", "vendi"], "real": str(files), "max_failed": 0.1, "n": 9}
    asked = local(tmp_path, data, by=["style"], **settings)
    run = beholder.merge(sharded(tmp_path, data, **settings))
    assert Run(run.path).summarise(by="style") == asked.summary
    shutil.rmtree(run.path / "parts" / "2-of-3")
    later = Run(run.path).summarise(by="style")
    assert all(not row.group for row in later if row.label == "fd" and "style" in row.group)
    assert "with --by style" in next(row for row in later if row.label == "fd" and not row.group).note


def test_parts_on_one_store_and_parts_that_moved(tmp_path: Path) -> None:
    data, files = generated(tmp_path), photographs(tmp_path)
    settings: dict[str, Any] = {"metrics": ["fd", "vendi"], "real": str(files), "max_failed": 0.1}
    one = local(tmp_path, data, **settings)
    shared = sharded(tmp_path, data, out="shared", store=str(tmp_path / "both"), **settings)
    equal(one, beholder.merge(shared))
    moved = sharded(tmp_path, data, **settings)
    (tmp_path / "far").mkdir()
    for index in range(3):
        (moved / "parts" / f"{index}-of-3").rename(tmp_path / "far" / f"part{index}")
    equal(one, beholder.merge(sorted((tmp_path / "far").iterdir()), out=tmp_path / "whole"))
    shutil.rmtree(tmp_path / "both")
    with pytest.raises(StoreError, match=r"both is not there.*without --store"):
        beholder.merge(shared)
    assert not (tmp_path / "both").exists()


def test_each_part_encodes_its_share_of_the_real_set(tmp_path: Path) -> None:
    encoder = counting("shares")
    files = folder(tmp_path / "real", 30, 1)
    data = manifest(tmp_path / "gen.jsonl", folder(tmp_path / "gen", 30, 0))
    settings: dict[str, Any] = {"metrics": ["fd", "recall"], "real": str(files), "model": "shares"}
    for index in range(3):
        before = encoder.prepared
        sharded(tmp_path, data, only=[index], **settings)
        assert encoder.prepared - before == 20
    before = encoder.prepared
    run = beholder.merge(tmp_path / "run")
    assert encoder.prepared == before
    assert run.header["real"]["n"] == 30


def test_features_that_were_lost_are_made_again_by_the_same_command(tmp_path: Path) -> None:
    data, files = generated(tmp_path), photographs(tmp_path)
    settings: dict[str, Any] = {"metrics": ["fd", "clip_score"], "real": str(files), "max_failed": 0.1}
    one = local(tmp_path, data, **settings)
    run = sharded(tmp_path, data, **settings)
    shutil.rmtree(run / "parts" / "1-of-3" / "features" / "shards")
    with pytest.raises(StoreError, match=r"no longer there.*command of .*1-of-3 again"):
        beholder.merge(run)
    sharded(tmp_path, data, only=[1], **settings)
    healed = beholder.merge(run)
    assert [asdict(row) for row in healed.summary] == [asdict(row) for row in one.summary]
    assert any("dropped and computed anew" in text for text in healed.notices)
    # The same of a run in one process.
    shutil.rmtree(tmp_path / "s")
    equal(one, local(tmp_path, data, **settings))


def test_pictures_of_the_real_set_that_no_part_has_are_named(tmp_path: Path) -> None:
    files = folder(tmp_path / "real", 6, 1)
    data = manifest(tmp_path / "gen.jsonl", folder(tmp_path / "gen", 6, 0))
    extra = folder(tmp_path / "more", 8, 2)
    settings: dict[str, Any] = {"metrics": ["fd"], "n": 4, "real": str(extra)}
    # Six rows in seven shards: the first has no row, but the first picture of the real set.
    run = sharded(tmp_path, data, 7, **settings)
    one = local(tmp_path, data, **settings)
    equal(one, beholder.merge(run))
    shutil.rmtree(run / "parts" / "0-of-7")
    with pytest.raises(InputError, match=r"picture 1 of the real set \(run --shard 0/7\)"):
        beholder.merge(run)
    # Another split of the same rows is as good: halves of a half.
    other = sharded(tmp_path, data, 2, only=[0], out="other", **settings)
    sharded(tmp_path, data, 4, only=[2, 3], out="other", **settings)
    equal(one, beholder.merge(other))
    (other / "parts" / "2-of-4" / "real.parquet").unlink()
    with pytest.raises(UserError, match=r"2-of-4 must hold its share of the real set"):
        beholder.merge(other)
    # A real set that changed between two parts.
    mixed = sharded(tmp_path, data, 2, only=[0], out="mixed", metrics=["fd"], n=4, real=str(files))
    folder(files, 7, 1)
    sharded(tmp_path, data, 2, only=[1], out="mixed", metrics=["fd"], n=4, real=str(files))
    with pytest.raises(OptionError, match=r"number of its pictures must be the same; got 6 in .* and 7 in"):
        beholder.merge(mixed)


def test_faults_of_sets_are_told_before_a_part_begins(tmp_path: Path) -> None:
    encoder = counting("shard-faults")
    data = manifest(tmp_path / "gen.jsonl", folder(tmp_path / "gen", 6, 0))
    files = folder(tmp_path / "real", 9, 1)
    with pytest.raises(OptionError, match=r"6 generated and 9 real pictures.*--n 6"):
        sharded(tmp_path, data, only=[1], metrics=["fd"], real=str(files), model="shard-faults")
    with pytest.raises(OptionError, match="--real"):
        sharded(tmp_path, data, only=[1], metrics=["fd"], model="shard-faults")
    assert encoder.prepared == 0
    assert not (tmp_path / "run").exists()


def test_two_processes_of_one_machine_measure_sets(tmp_path: Path) -> None:
    data, files = generated(tmp_path), photographs(tmp_path)
    settings: dict[str, Any] = {
        "data": str(data), "metrics": ["fd", "recall", "diversity"], "model": ENCODER, "max_failed": 0.1,
    }  # fmt: skip
    one = local(tmp_path, data, metrics=settings["metrics"], real=str(files), max_failed=0.1)
    config = make_config({**settings, "real": str(files), "out": str(tmp_path / "two"), "store": str(tmp_path / "t")})
    equal(one, run_on(["cpu", "cpu"], config))
    rows = [{"output": str(file)} for file in sorted(files.glob("*.png"))]
    config = make_config({**settings, "out": str(tmp_path / "three"), "store": str(tmp_path / "t")})
    given = run_on(["cpu", "cpu"], config, real=rows)
    assert [asdict(row) for row in given.summary] == [asdict(row) for row in one.summary]
