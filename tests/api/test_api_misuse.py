"""The public calls with what people hand over: each is taken, or refused with what must hold and what was got."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.runs.helpers import counting, write_set

import beholder
from beholder._errors import InputError, OptionError, RunConflictError, UserError


@pytest.fixture
def cat(tmp_path: Path) -> Path:
    Image.new("RGB", (8, 8), (200, 10, 10)).save(tmp_path / "cat.png")
    return tmp_path / "cat.png"


@pytest.mark.parametrize("metrics", [None, 5, [None], [5], {"clip_score": {}}, beholder.SampleMetric])
def test_metrics_of_a_wrong_type_are_refused(tmp_path: Path, cat: Path, metrics: Any) -> None:
    with pytest.raises(OptionError, match="a metric must be its name"):
        beholder.evaluate([str(cat)], metrics=metrics, out=str(tmp_path / "out"))
    with pytest.raises(OptionError, match="a metric must be its name"):
        beholder.open_run(str(tmp_path / "out"), metrics=metrics)
    if not isinstance(metrics, list):
        with pytest.raises(OptionError, match="a metric must be its name"):
            beholder.score(metrics, images=str(cat), texts="a")


def test_metrics_may_come_from_a_generator(tmp_path: Path) -> None:
    data = str(write_set(tmp_path, 3))
    found = beholder.evaluate(
        data, metrics=(name for name in ("clip_score", "clip_i")), model="fake", out=str(tmp_path / "out")
    )
    assert found.labels == ["clip_score", "clip_i"]


@pytest.mark.parametrize("texts", [5, b"abc", {"a": 1}, [5], ["a", b"b"], "half \ud83d"])
def test_texts_that_are_none_are_refused(cat: Path, texts: Any) -> None:
    with pytest.raises(OptionError, match="texts"):
        beholder.score("clip_score", images=str(cat), texts=texts, model="fake")


def test_one_reference_text_is_one_caption_and_not_its_letters(cat: Path) -> None:
    encoder = beholder.FakeEncoder("captions", dim=2, texts={"x": [1, 0], "ab": [1, 0], "a": [0, 1], "b": [0, 1]})
    beholder.register_encoder("captions", encoder)
    metric = 'clip_score(variant=ref_hessel, prefix="")'
    one, several = (
        beholder.score(metric, images=str(cat), texts="x", reference_texts=given, model="captions")
        for given in ("ab", ["ab"])
    )
    assert one.rows[0].score.value == several.rows[0].score.value
    a = float(beholder.score('clip_score(variant=hessel, prefix="")', images=str(cat), texts="x", model="captions"))
    assert float(one) == pytest.approx(2 * a / (a + 1), abs=1e-6)
    assert float(one) > 0


def test_an_open_file_is_one_image(cat: Path) -> None:
    data = cat.read_bytes()
    expected = float(beholder.score("clip_score", images=data, texts="a", model="fake"))
    with cat.open("rb") as handle:
        assert float(beholder.score("clip_score", images=handle, texts="a", model="fake")) == expected
    assert float(beholder.score("clip_score", images=io.BytesIO(data), texts="a", model="fake")) == expected
    with pytest.raises(OptionError, match="rb"):
        beholder.score("clip_score", images=io.StringIO("text"), texts="a", model="fake")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("background", (300, 0, 0)), ("background", (-1, 0, 0)), ("background", "white"), ("device", "banana"),
        ("device", "cuda:x"), ("dtype", "float8"), ("max_pixels", 0), ("offline", "maybe"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_refused_whatever_the_model(cat: Path, option: str, value: Any) -> None:
    with pytest.raises(InputError, match=option):
        beholder.score("clip_score", images=str(cat), texts="a", model="fake", **{option: value})


def test_paths_may_be_path_objects(tmp_path: Path) -> None:
    data = write_set(tmp_path, 3)
    found = beholder.evaluate(
        prompts=data, outputs=tmp_path / "img" / "{prompt_id}.png", allow_extra=True,  # type: ignore[arg-type]
        metrics="clip_score", model="fake", out=tmp_path / "out", store=tmp_path / "store",  # type: ignore[arg-type]
    )  # fmt: skip
    assert found.n == 3
    assert found.header["asked"]["out"] == str(tmp_path / "out")


def test_the_input_is_named_once(tmp_path: Path) -> None:
    data = str(write_set(tmp_path, 3))
    for given in (data, [data]):
        with pytest.raises(OptionError, match="named once"):
            beholder.evaluate(given, prompts=data, outputs="x", metrics="clip_score", model="fake")


@pytest.mark.parametrize("mapping", [["a"], {"a": 5}, 5])
def test_a_mapping_of_a_wrong_type_is_refused(tmp_path: Path, mapping: Any) -> None:
    with pytest.raises(InputError, match="mapping"):
        beholder.evaluate(
            str(write_set(tmp_path, 3)), mapping=mapping, metrics="clip_score", model="fake", out=str(tmp_path / "o")
        )


def test_by_takes_one_name_and_none(tmp_path: Path) -> None:
    data = write_set(tmp_path, 6)
    found = beholder.evaluate(data, metrics="clip_score", model="fake", by=None, out=str(tmp_path / "o"))  # type: ignore[arg-type]
    one, several = found.summarise("concept"), found.summarise(["concept"])
    assert one == several
    assert {"concept": "c1"} in [row.group for row in one]


def test_another_input_never_takes_the_place_of_a_run(tmp_path: Path) -> None:
    counting()
    first, second = write_set(tmp_path / "a", 4), write_set(tmp_path / "b", 3)
    out = str(tmp_path / "out")
    beholder.evaluate(first, metrics="clip_score", model="counting", out=out)
    with pytest.raises(RunConflictError, match=r"another input, .*a/samples.jsonl.*--overwrite"):
        beholder.evaluate(second, metrics="clip_score", model="counting", out=out)
    assert beholder.open_run_folder(out).n == 4
    assert beholder.evaluate(second, metrics="clip_score", model="counting", out=out, overwrite=True).n == 3


def test_a_project_that_was_moved_goes_on(tmp_path: Path) -> None:
    counting()
    data = write_set(tmp_path / "old", 3)
    beholder.evaluate(data, metrics="clip_score", model="counting", out=str(tmp_path / "old" / "run"))
    (tmp_path / "old").rename(tmp_path / "new")
    moved = tmp_path / "new" / "samples.jsonl"
    assert beholder.evaluate(moved, metrics="clip_score", model="counting", out=str(tmp_path / "new" / "run")).n == 3


def test_inputs_of_one_name_have_folders_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    counting()
    paths = [write_set(tmp_path / name, count) for name, count in (("a", 3), ("b", 4))]
    runs = [beholder.evaluate(path, metrics="clip_score", model="counting") for path in paths]
    assert [beholder.open_run_folder(run.path).n for run in runs] == [3, 4]
    assert beholder.evaluate("a/samples.jsonl", metrics="clip_score", model="counting").path == runs[0].path


def test_data_in_memory_never_takes_the_place_of_a_finished_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cat: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"output": str(cat), "prompt": text, "id": text} for text in "abc"]
    runs = [beholder.evaluate(part, metrics="clip_score", model="fake") for part in (rows, rows[:1])]
    assert [beholder.open_run_folder(run.path).n for run in runs] == [3, 1]


def test_what_tells_two_runs_apart_is_named_alone(tmp_path: Path) -> None:
    data, out = write_set(tmp_path, 3), str(tmp_path / "out")
    beholder.evaluate(data, metrics="clip_score", model="fake", out=out)
    with pytest.raises(RunConflictError) as caught:
        beholder.evaluate(data, metrics="clip_score", model="fake", out=out, background=(0, 0, 0))
    assert caught.value.got == "a run that differs in background ([255, 255, 255] against [0, 0, 0])"


@pytest.mark.parametrize("out", ["file", "file/below", "n" * 300, "/proc/none"])
def test_a_folder_that_cannot_be_made_is_a_users_error(tmp_path: Path, out: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match=r"must be a folder that can be written.*Name another with -o"):
        beholder.evaluate(write_set(tmp_path, 2), metrics="clip_score", model="fake", out=str(tmp_path / out))


def test_the_arrays_of_one_picture_are_one_picture(cat: Path) -> None:
    pixels = np.asarray(Image.open(cat))
    table = beholder.score("clip_score", images=[pixels, np.asfortranarray(pixels)], texts="a", model="fake")
    assert table.matrix[0] == table.matrix[1]
