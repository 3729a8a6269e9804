"""Files that broke other tools: F1 to F5 and M4 of the table in README.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.inputs.conftest import noise

import beholder


def value(image: Any, **settings: Any) -> float:
    """The score of a picture; the fake encoder tells every changed pixel."""
    return float(beholder.score("clip_score", images=image, texts="a", model="fake", **settings))


def plain(pixels: np.ndarray) -> float:
    return value(Image.fromarray(pixels.astype(np.uint8)))


@pytest.mark.parametrize("background", [(255, 255, 255), (0, 0, 0), (10, 200, 30)])
def test_f1_transparency_is_composed_over_the_stated_background_and_recorded(
    tmp_path: Path, background: tuple[int, int, int]
) -> None:
    clear = np.zeros((8, 6, 4), np.uint8)
    clear[:4] = (40, 90, 160, 255)
    expected = np.empty((8, 6, 3), np.uint8)
    expected[:4], expected[4:] = (40, 90, 160), background
    Image.fromarray(clear).save(tmp_path / "rgba.png")
    gray = Image.fromarray(clear[:, :, 0]).convert("LA")
    gray.putalpha(Image.fromarray(clear[:, :, 3]))
    gray.save(tmp_path / "la.png")
    palette = Image.new("P", (6, 8), 0)
    palette.paste(1, (0, 4, 6, 8))
    palette.putpalette([40, 90, 160, 7, 7, 7])
    palette.save(tmp_path / "p.png", transparency=1)
    assert value(str(tmp_path / "rgba.png"), background=background) == pytest.approx(plain(expected), abs=1e-6)
    assert value(str(tmp_path / "p.png"), background=background) == pytest.approx(plain(expected), abs=1e-6)
    expected[:4] = 40
    assert value(str(tmp_path / "la.png"), background=background) == pytest.approx(plain(expected), abs=1e-6)
    rows = [{"output": str(tmp_path / "rgba.png"), "prompt": "a"}]
    out = str(tmp_path / "out")
    run = beholder.evaluate(rows, metrics="clip_score", model="fake", out=out, background=background)
    assert run.header["decode"]["background"] == list(background)


def test_f2_a_16_bit_ramp_is_scaled_and_not_white(tmp_path: Path) -> None:
    ramp = np.linspace(0, 65535, 256 * 4).round().astype(np.uint16).reshape(32, 32)
    Image.fromarray(ramp).save(tmp_path / "ramp.png")
    scaled = np.floor(ramp / 65535 * 255 + 0.5)
    assert scaled.mean() == pytest.approx(127.5, abs=0.01)
    expected = plain(np.stack([scaled] * 3, axis=2))
    assert value(str(tmp_path / "ramp.png")) == pytest.approx(expected, abs=1e-6)
    assert value(ramp) == pytest.approx(expected, abs=1e-6)
    assert value(np.full((32, 32, 3), 255, np.uint8)) != pytest.approx(expected, abs=1e-3)


def test_f3_a_turned_photograph_is_turned_once_for_outputs_and_references(tmp_path: Path, scored: Any) -> None:
    upright = np.random.default_rng(0).integers(0, 256, (24, 16, 3), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.rot90(upright, 1)).save(tmp_path / "turned.png", exif=exif)
    Image.fromarray(upright).save(tmp_path / "upright.png")
    turned, straight = str(tmp_path / "turned.png"), str(tmp_path / "upright.png")
    rows = [
        {"output": turned, "prompt": "a", "references": [straight], "id": "1"},
        {"output": straight, "prompt": "a", "references": [turned], "id": "2"},
    ]
    found = scored(rows, ["clip_score", "clip_i"])
    assert found[0]["clip_score"] == found[1]["clip_score"]
    assert [row["clip_i"] for row in found] == pytest.approx([1.0, 1.0], abs=1e-6)


def test_f4_broken_files_cost_their_rows_and_the_exit_code_follows_the_allowed_share(tmp_path: Path, cli: Any) -> None:
    noise(tmp_path / "good.png")
    Image.open(tmp_path / "good.png").save(tmp_path / "whole.jpg")
    data = (tmp_path / "whole.jpg").read_bytes()
    (tmp_path / "half.jpg").write_bytes(data[: len(data) // 2])
    (tmp_path / "nothing.png").write_bytes(b"")
    (tmp_path / "text.png").write_text("this is no picture")
    (tmp_path / "folder.png").mkdir()
    Image.open(tmp_path / "good.png").save(tmp_path / "exif.jpg", exif=b"Exif\0\0II*\0\xff\xff\xff\xff broken")
    names = ["good.png", "half.jpg", "nothing.png", "text.png", "folder.png", "none.png", "exif.jpg", "whole.jpg"]
    manifest = tmp_path / "s.jsonl"
    manifest.write_text("".join(json.dumps({"output": name, "prompt": "a"}) + "\n" for name in names))
    args = ("run", manifest, "-m", "clip_score", "--model", "fake", "-q", "--json")
    strict = cli(*args, "-o", tmp_path / "strict")
    assert strict.exit_code == 3
    assert json.loads(strict.stdout)["n_faults"] == 5
    table = {row["id"]: row for row in beholder.open_run_folder(tmp_path / "strict").scores.to_pylist()}
    statuses = {name: table[name]["clip_score_status"] for name in names}
    assert statuses == {
        "good.png": "ok", "half.jpg": "unreadable", "nothing.png": "unreadable", "text.png": "unreadable",
        "folder.png": "unreadable", "none.png": "missing", "exif.jpg": "ok", "whole.jpg": "ok",
    }  # fmt: skip
    assert all(table[name]["clip_score_reason"].startswith(name) for name in names if statuses[name] != "ok")
    assert cli(*args, "-o", tmp_path / "a", "--max-failed", "0.62").exit_code == 3
    assert cli(*args, "-o", tmp_path / "b", "--max-failed", "0.63").exit_code == 0
    checked = cli("validate", manifest)
    assert checked.exit_code == 2
    assert all(name in checked.stdout for name in names if statuses[name] != "ok")


def test_f5_an_animation_is_a_video_and_a_picture_only_by_explicit_choice(tmp_path: Path, scored: Any) -> None:
    frames = [Image.new("RGB", (6, 6), (80 * at, 10, 200)) for at in range(3)]
    path = str(tmp_path / "three.gif")
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=[100, 200, 300])
    (video,) = scored([{"output": path, "prompt": "a"}], metrics=["clip_score(frames=all)"])
    assert video["clip_score"] == pytest.approx(np.mean([value(frame) for frame in frames]), abs=1e-6)
    record = json.loads(video["clip_score_evidence"])["frames"]
    assert (record["policy"], record["indices"], record["times"]) == ("all", [0, 1, 2], [0.0, 0.1, 0.3])
    (first,) = scored([{"output": path, "prompt": "a"}], out="first", first_frame=True)
    assert first["clip_score"] == pytest.approx(value(frames[0]), abs=1e-6)


def test_files_over_the_size_limit_are_too_large_before_they_are_decoded(picture: str, scored: Any) -> None:
    rows = [{"output": picture, "prompt": "a"}]
    assert scored(rows)[0]["clip_score_status"] == "ok"
    (found,) = scored(rows, max_pixels=40 * 48 - 1, out="small")
    assert (found["clip_score_status"], found["clip_score"]) == ("too_large", None)
    assert scored(rows, max_pixels=40 * 48, out="just")[0]["clip_score_status"] == "ok"


def test_m4_folders_that_hold_no_pictures(tmp_path: Path, cli: Any, picture: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "a.xyz").write_text("x")
    for folder in ("empty", "odd"):
        result = cli("run", tmp_path / folder, "-m", "clip_score", "--model", "fake")
        assert result.exit_code == 2
        assert f"found 0 images and videos under {tmp_path / folder}, extensions .jpg" in result.stderr
    (tmp_path / "p.txt").write_text("a cat\n")
    template = cli(
        "run", "--prompts", tmp_path / "p.txt", "--outputs", picture + "/{prompt_id}.png", "-m", "clip_score",
        "--model", "fake",
    )  # fmt: skip
    assert template.exit_code == 2, template.stdout
    assert "folder" in template.stderr
