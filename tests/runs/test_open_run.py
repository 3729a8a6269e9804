"""`beholder.open_run` used in ways people use it, and misuse it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.runs.helpers import counting

import beholder
from beholder._errors import UserError
from beholder.runs import session


def values(found: beholder.Run | None) -> list[float]:
    assert found is not None
    numbers: list[float] = found.scores.column("clip_score").to_pylist()
    return numbers


@pytest.mark.parametrize("kind", ["numpy", "torch", "pil"])
@pytest.mark.parametrize("way", ["open_run", "generator"])
def test_a_loop_may_use_its_buffer_again(tmp_path: Path, kind: str, way: str) -> None:
    counting()
    buffer = np.zeros((8, 8, 3), np.uint8)
    pictures = {"numpy": buffer, "torch": torch.from_numpy(buffer), "pil": Image.new("RGB", (8, 8))}

    def rows():  # type: ignore[no-untyped-def]
        for at in range(3):
            buffer[:] = 50 * at
            if kind == "pil":
                pictures["pil"].paste((50 * at,) * 3, (0, 0, 8, 8))  # type: ignore[union-attr]
            yield {"output": pictures[kind], "prompt": "x", "id": str(at)}

    if way == "generator":
        found = beholder.evaluate(rows(), metrics="clip_score", model="counting", out=str(tmp_path / "out"))
    else:
        with beholder.open_run(str(tmp_path / "out"), metrics="clip_score", model="counting") as live:
            for row in rows():
                live.add(**row)
        assert live.run is not None
        found = live.run
    plain = [np.full((8, 8, 3), 50 * at, np.uint8) for at in range(3)]
    expected = beholder.score("clip_score", images=plain, texts="x", model="counting").matrix[:, 0]
    np.testing.assert_allclose(values(found), expected, atol=1e-6)
    assert len(set(values(found))) == 3


def test_samples_outside_the_block_are_refused(tmp_path: Path) -> None:
    counting()
    live = beholder.open_run(str(tmp_path / "out"), metrics="clip_score", model="counting")
    pixels = np.zeros((4, 4, 3), np.uint8)
    with pytest.raises(UserError, match="inside the block"):
        live.add(output=pixels, prompt="early")
    with live:
        live.add(output=pixels, prompt="in time")
    with pytest.raises(UserError, match="inside the block"):
        live.add(output=pixels, prompt="late")
    assert len(values(live.run)) == 1


def test_pictures_in_memory_are_scored_before_they_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting()
    monkeypatch.setattr(session, "CHUNK_BYTES", 3 * 8 * 8 * 3)
    with beholder.open_run(str(tmp_path / "out"), metrics="clip_score", model="counting") as live:
        for at in range(7):
            live.add(output=np.full((8, 8, 3), at, np.uint8), prompt="x", id=str(at))
            assert len(live._waiting) < 3
    assert len(values(live.run)) == 7


def test_an_error_of_the_loop_leaves_an_interrupted_run(tmp_path: Path) -> None:
    counting()
    with (
        pytest.raises(ZeroDivisionError),
        beholder.open_run(str(tmp_path / "out"), metrics="clip_score", model="counting") as live,
    ):
        live.add(output=np.zeros((4, 4, 3), np.uint8), prompt="x")
        1 / 0  # noqa: B018
    left = beholder.open_run_folder(tmp_path / "out")
    assert (left.header["status"], left.n, live.run) == ("interrupted", 1, None)


def test_an_error_of_a_generator_leaves_an_interrupted_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting()
    monkeypatch.setattr("beholder.runs.engine.CHUNK", 2)
    rows = ({"output": np.full((4, 4, 3), 1 // (5 - at), np.uint8), "prompt": "x", "id": str(at)} for at in range(9))
    with pytest.raises(ZeroDivisionError):
        beholder.evaluate(rows, metrics="clip_score", model="counting", out=str(tmp_path / "out"))
    left = beholder.open_run_folder(tmp_path / "out")
    assert (left.header["status"], left.n) == ("interrupted", 4)


def test_float_tensors_of_a_loop_have_a_stated_range(tmp_path: Path) -> None:
    """The message of a float array names value_range, so whatever takes such arrays takes that too."""
    counting()
    pixels = np.full((4, 4, 3), 0.5, np.float32)
    live = beholder.open_run(str(tmp_path / "a"), metrics="clip_score", model="counting", value_range=(0, 1))
    with live:
        live.add(output=pixels, prompt="x")
    rows = [{"output": pixels, "prompt": "x"}]
    run = beholder.evaluate(rows, metrics="clip_score", model="counting", out=str(tmp_path / "b"), value_range=(0, 1))
    assert values(run) == values(live.run)
    assert len(values(run)) == 1
    with pytest.raises(UserError, match="value_range is for data in memory"):
        beholder.evaluate(str(tmp_path), metrics="clip_score", model="counting", value_range=(0, 1))


def test_a_batch_is_never_taken_for_a_video() -> None:
    """What a DataLoader gives has four axes, as a video has: the call says which of both it means."""
    counting()
    batch = np.zeros((3, 4, 4, 3), np.uint8)
    scorer = beholder.CLIPScore(model="counting")
    for call in (
        lambda: beholder.score("clip_score", images=batch, texts="x", model="counting"),
        lambda: beholder.score("clip_i", images=batch[0], references=batch, model="counting"),
        lambda: scorer.forward(batch, ["x", "y", "z"]),
        lambda: scorer.batch_forward([{"images": batch, "texts": ["x", "y", "z"]}]),
    ):
        with pytest.raises(
            UserError, match=r"four axes \(3, 4, 4, 3\).*list\(array\) for pictures, \[array\] for a video"
        ):
            call()
    assert scorer.forward(list(batch), "x").shape == (3, 1)
    assert scorer.forward([batch], "x").shape == (1, 1)
    assert scorer.batch_forward([{"videos": batch, "texts": "x"}]).shape == (1, 1, 1)
    with pytest.raises(UserError, match="needs a stated value range"):
        scorer.forward([batch.astype(np.float32)], "x")
    with pytest.raises(UserError, match="got 3 images and 1 text"):
        scorer.pairs(list(batch), ["x"])
