"""Distribution and downloads: X1 and X2 of the table in README.md."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.inputs.conftest import noise
from tests.models import make_tiny_clip

import beholder
from beholder._errors import ModelError, UserError, WeightsMissingError


class Uneven(beholder.FakeEncoder):
    """Prepares pictures in threads that finish out of order; one picture raises there."""

    image_batch = 4

    def prepare_image(self, picture: Any) -> np.ndarray:
        red = int(picture.pixels[0, 0, 0])
        time.sleep(random.Random(red).random() / 100)
        if red == 77:
            raise MemoryError("worker gone")
        return super().prepare_image(picture)


def test_x1_rows_are_joined_by_id_and_an_exception_in_a_worker_costs_its_row(tmp_path: Path, scored: Any) -> None:
    beholder.register_encoder("uneven", Uneven("plain", dim=16))
    beholder.register_encoder("even", beholder.FakeEncoder("plain", dim=16))
    rows = []
    for at in range(60):
        Image.new("RGB", (5, 5), (at if at != 30 else 77, 200, 3 * at)).save(tmp_path / f"{at}.png")
        rows.append({"id": f"row {at}", "output": str(tmp_path / f"{at}.png"), "prompt": f"p {at % 7}"})
    found = scored(rows, model="uneven", workers=6)
    straight = scored(rows, model="even", workers=1, out="even", store=tmp_path / "other")
    assert [row["id"] for row in found] == [row["id"] for row in rows]
    for row, other in zip(found, straight, strict=True):
        if row["id"] == "row 30":
            assert (row["clip_score"], row["clip_score_status"]) == (None, "failed")
            assert "MemoryError: worker gone" in row["clip_score_reason"]
        else:
            assert row["clip_score"] == pytest.approx(other["clip_score"], abs=1e-6)


def test_x2_without_network_one_message_says_where_was_looked_and_what_to_do(
    tmp_path: Path, picture: str, monkeypatch: pytest.MonkeyPatch, cli: Any
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    with pytest.raises(WeightsMissingError):
        beholder.score("clip_score", images=picture, texts="a")
    result = cli("score", picture, "-t", "a")
    assert result.exit_code == 2
    for told in ("openai:ViT-L-14", "1.7 GB", "licence", str(tmp_path / "hub"), "models pull", "demo:emoji"):
        assert told in result.stderr, told
    assert "Traceback" not in result.stderr


def test_x2_half_a_weight_file_and_a_changed_one_are_never_scored_with(tmp_path: Path, picture: str, cli: Any) -> None:
    whole = make_tiny_clip(tmp_path / "whole")
    half = Path(shutil.copytree(whole, tmp_path / "half"))
    data = (half / "model.safetensors").read_bytes()
    (half / "model.safetensors").write_bytes(data[: len(data) // 2])
    with pytest.raises(ModelError):
        beholder.score("clip_score", images=picture, texts="a", model=str(half))
    assert cli("score", picture, "-t", "a", "--model", half).exit_code == 2
    rows = [{"output": picture, "prompt": "a"}]
    hashes = []
    for _ in range(2):
        found = beholder.evaluate(rows, metrics="clip_score", model=str(whole), out=str(tmp_path / f"o{len(hashes)}"))
        hashes += [item["weights_sha256"] for item in found.header["models"].values()]
        changed = bytearray((whole / "model.safetensors").read_bytes())
        changed[-1] ^= 1
        (whole / "model.safetensors").write_bytes(bytes(changed))
    assert len(set(hashes)) == 2


def test_x2_a_pickle_that_runs_code_is_refused_and_does_not_run(tmp_path: Path, picture: str) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "ran",))

    folder = make_tiny_clip(tmp_path / "evil")
    (folder / "model.safetensors").unlink()
    torch.save({"logit_scale": Evil()}, folder / "pytorch_model.bin")
    with pytest.raises(UserError):
        beholder.score("clip_score", images=picture, texts="a", model=str(folder))
    assert not (tmp_path / "ran").exists()


def test_x2_weights_in_a_bin_file_score_like_safetensors(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    folder = make_tiny_clip(tmp_path / "plain")
    image = noise(tmp_path / "a.png")
    expected = float(beholder.score("clip_score", images=image, texts="a cat", model=str(folder)))
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert float(beholder.score("clip_score", images=image, texts="a cat", model=str(folder))) == expected
