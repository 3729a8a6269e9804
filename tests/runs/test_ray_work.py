"""Work on other machines, without Ray: another view of the data gives a message or a status, never a number."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.runs.helpers import write_set

from beholder._errors import UserError
from beholder.media.files import LocalFile
from beholder.records import Status
from beholder.runs import ray, remote_work
from beholder.runs.config import make_config
from beholder.runs.file_states import CHANGED, state_of
from beholder.runs.item_codec import write_item
from beholder.runs.plan import make_plan
from beholder.runs.remote_work import WORK, DecodeStage, ModelStage, Recipe, judge


def recipe(**more: Any) -> Recipe:
    config = make_config({"metrics": ["clip_i"], "model": "fake", "data": "x"})
    plan = make_plan(config)
    (model,) = plan.models.values()
    return Recipe(model, {name: space for name, (space, _) in plan.spaces().items()}, config.decode, **more)


def work(tmp_path: Path, made: Recipe, count: int = 4) -> pa.Table:
    """Pictures of a small set, as a run plans them."""
    write_set(tmp_path, count)
    rows = []
    for at in range(count):
        path = str(tmp_path / "img" / f"{at}.png")
        item = write_item(LocalFile(path, f"{at}.png"))
        states = json.dumps({path: state_of(path)})
        rows.append(
            {"space": next(iter(made.spaces)), "key": bytes([at]) * 16, "item": item, "source": None, "states": states}
        )
    return pa.Table.from_pylist(rows, schema=WORK)


def made_of(stage: ModelStage, table: pa.Table) -> tuple[list[bytes], list[Any]]:
    (row,) = (row for part in stage(table) for row in part.to_pylist())
    return row["keys"], json.loads(row["failures"])


@pytest.mark.parametrize("where", ["decoding", "model"])
@pytest.mark.parametrize("seen", [None, (1, 2, 3, 4)], ids=["no file", "another file"])
def test_a_machine_that_sees_other_files_makes_no_feature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, seen: Any
) -> None:
    made = recipe()
    table = work(tmp_path, made)
    odd = str(tmp_path / "img" / "1.png")
    with monkeypatch.context() as patch:
        patch.setattr(remote_work, "state_of", lambda path: seen if path == odd else state_of(path))
        if where == "decoding":
            table = DecodeStage(made)(table)
        else:
            keys, failures = made_of(ModelStage(made), table)
    if where == "decoding":
        keys, failures = made_of(ModelStage(made), table)
    assert keys == [bytes([at]) * 16 for at in (0, 2, 3)]
    key, (status, reason), fault = judge(failures[0])
    assert (key, status) == (bytes([1]) * 16, Status.FAILED)
    assert fault is not None
    assert fault.startswith(f"{'no' if seen is None else 'another'} file at {odd} on ")
    assert "must see the data at the same path" in reason


def test_a_file_that_changed_for_all_machines_changed(tmp_path: Path) -> None:
    made = recipe()
    table = work(tmp_path, made)
    os.utime(tmp_path / "img" / "0.png")
    (tmp_path / "img" / "2.png").unlink()
    keys, failures = made_of(ModelStage(made), DecodeStage(made)(table))
    assert len(keys) == 2
    found = {key: (verdict, fault) for key, verdict, fault in map(judge, failures)}
    assert found[bytes([0]) * 16] == ((Status.FAILED, CHANGED), None)
    assert found[bytes([2]) * 16][0][0] is Status.MISSING
    assert found[bytes([2]) * 16][1] is None


def session(taken: list[Any]) -> Any:
    scorer = SimpleNamespace(take=lambda *given: taken.append(given), used={})
    return SimpleNamespace(scorer=scorer, progress=SimpleNamespace(advance=lambda count: None))


def test_a_machine_that_sees_nothing_stops_the_run_and_one_stale_file_does_not(tmp_path: Path) -> None:
    path = str(tmp_path / "a.png")
    Path(path).write_text("here")
    told = ["00", "missing", "no such file", [path, state_of(path), None, "node7"]]
    row = {"space": "s", "keys": [], "data": b"", "failures": json.dumps([told]), "error": None,
           "told": json.dumps({"constants": {}, "ran": {}})}  # fmt: skip
    taken: list[Any] = []
    model: Any = SimpleNamespace(key="m")
    with pytest.raises(UserError, match=r"must see the data at the same path; got no file at .*a\.png on node7"):
        ray._keep(session(taken), model, row)
    assert not taken
    other = ["01", "unreadable", "no picture", None]
    ray._keep(session(taken), model, row | {"failures": json.dumps([told, other])})
    (_, _, _, failures, _) = taken[0]
    assert failures[b"\x00"][0] is Status.FAILED
    assert failures[b"\x01"] == (Status.UNREADABLE, "no picture")


def test_a_machine_without_the_run_folder_or_with_another_version_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="see the run folder at the same path; got no "):
        list(ray._read(pa.table({"group": [0]}), str(tmp_path / "none.parquet")))
    for stage in (DecodeStage, ModelStage):
        with pytest.raises(UserError, match=r"same version of beholder; got .*, not 0\.0\.1"):
            stage(recipe(version="0.0.1"))


def test_work_is_cut_into_full_groups_of_one_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "ROWS", 4)
    path = tmp_path / "w.parquet"
    row = {"key": b"k", "item": "i", "source": None, "states": "{}"}
    with pq.ParquetWriter(path, WORK) as writer, ray._Grouped(writer) as grouped:
        for _ in range(3):
            grouped.add("a", [{**row, "space": "a"}] * 3)
            grouped.add("b", [{**row, "space": "b"}])
    file = pq.ParquetFile(path)
    groups = [file.read_row_group(at).column("space").to_pylist() for at in range(file.num_row_groups)]
    assert groups == [["a"] * 4, ["a"] * 4, ["a"], ["b"] * 3]
    parts = list(ray._read(pa.table({"group": [0, 3]}), str(path)))
    assert [part.num_rows for part in parts] == [4, 3]


def test_a_stage_makes_and_tells_its_items_in_parts(tmp_path: Path) -> None:
    made = recipe(rows=3)
    parts = list(ModelStage(made)(work(tmp_path, made, 7)))
    assert [len(part.to_pylist()[0]["keys"]) for part in parts] == [3, 3, 1]


def test_work_of_several_spaces_on_the_same_pictures_is_counted_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = remote_work.TRIES + 1
    made = recipe(folder=str(tmp_path))
    space = next(iter(made.spaces.values()))
    made = replace(made, spaces={str(at): space for at in range(begun)})
    table = work(tmp_path, made, 1)
    stage = ModelStage(made)
    for name in list(made.spaces)[1:]:  # other actors have begun with these, and are not done
        stage._mark(table.set_column(0, "space", pa.array([name])))
    assert made_of(stage, table) == ([bytes(16)], [])
