"""The Text, Batches and Files tables on metrics of pairs (itm_score, vqa_score): whole runs on tiny real models."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.inputs.conftest import noise
from tests.models_blip import make_tiny_blip
from tests.models_t5 import make_tiny_clip_flant5, make_tiny_instructblip_t5
from tests.models_video import make_tiny_xclip
from tests.models_vlm import make_llava

import beholder

LONG = "x " * 100
MAKERS: dict[str, Callable[[Path], Path]] = {
    "itm_score": make_tiny_blip, "vqa_score": make_llava, "vqa_score_t5": make_tiny_clip_flant5,
}  # fmt: skip
_made: dict[str, str] = {}


@pytest.fixture
def asked(request: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The metric on its tiny model, as it is written in a run."""
    name = request.param
    if name not in _made:
        folder = MAKERS[name](tmp_path_factory.mktemp("tiny") / name)
        _made[name] = f"{name.removesuffix('_t5')}(model={folder})"
    return _made[name]


both = pytest.mark.parametrize("asked", list(MAKERS), indirect=True)


def column(rows: list[dict[str, Any]], part: str = "") -> list[Any]:
    """The metric's values, or its column of that part."""
    label = next(name.removesuffix("_status") for name in rows[0] if name.endswith("_status"))
    return [row.get(label + part) for row in rows]


@both
def test_t1_t4_every_text_gets_a_value_or_a_status(asked: str, picture: str, scored: Any) -> None:
    texts = [LONG, "一只猫", "🐱🐱", "a cat", "", "   ", None, "\u200b"]
    rows = [{"id": str(at), "output": picture, "prompt": text} for at, text in enumerate(texts)]
    found = scored(rows, asked, model=None)
    statuses = column(found, "_status")
    assert statuses[4:] == ["empty_prompt"] * 4
    assert column(found)[4:] == [None] * 4
    assert set(statuses[1:4]) == {"ok"}
    assert all(0 <= value <= 1 for value in column(found)[1:4])
    # A long text is cut and flagged, or too long for the model, and never crashes.
    evidence = json.loads(column(found, "_evidence")[0] or "{}")
    if statuses[0] == "ok":
        assert "x x x" in (evidence.get("question") or LONG)
    else:
        assert statuses[0] == "too_large"
        assert "token" in column(found, "_reason")[0]


@both
def test_t5_d1_order_neighbours_and_batches_do_not_matter(asked: str, tmp_path: Path, scored: Any) -> None:
    pictures = [noise(tmp_path / f"{at}.png", seed=at) for at in range(4)]
    texts = ["a", "a photo of a cat and a dog", "the red car"]
    rows = [
        {"id": f"{at}/{text}", "output": picture, "prompt": text}
        for at, picture in enumerate(pictures)
        for text in texts
    ]
    whole = dict(zip([row["id"] for row in rows], column(scored(rows, asked, model=None, out="whole"))))
    for size, order in ((1, rows), (3, rows[::-1])):
        again = scored(order, asked, model=None, out=f"b{size}", batch_size=size, store=str(tmp_path / f"store{size}"))
        for row, value in zip(order, column(again), strict=True):
            assert value == pytest.approx(whole[row["id"]], abs=1e-5)
    assert len({round(value, 6) for value in whole.values()}) > len(texts), "scores must depend on the pictures"


@both
def test_d2_one_picture_twice_and_one_pair_twice(asked: str, picture: str, tmp_path: Path, scored: Any) -> None:
    copy = tmp_path / "copy.png"
    copy.write_bytes(Path(picture).read_bytes())
    rows = [{"id": str(at), "output": str(path), "prompt": "a cat"} for at, path in enumerate((picture, copy, picture))]
    values = column(scored(rows, asked, model=None))
    assert values[0] == values[1] == values[2]


@both
def test_f4_a_bad_file_costs_its_row(asked: str, picture: str, tmp_path: Path, scored: Any) -> None:
    half = tmp_path / "half.jpg"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(half, "JPEG")
    half.write_bytes(half.read_bytes()[: half.stat().st_size // 2])
    (tmp_path / "text.png").write_text("no picture")
    paths = [picture, str(half), str(tmp_path / "text.png"), str(tmp_path / "none.png")]
    rows = [{"id": str(at), "output": path, "prompt": "a cat"} for at, path in enumerate(paths)]
    found = scored(rows, asked, model=None, max_failed=1.0)
    assert column(found, "_status") == ["ok", "unreadable", "unreadable", "missing"]
    assert column(found)[1:] == [None] * 3


@both
def test_f5_an_animation_is_the_mean_of_its_frames(asked: str, tmp_path: Path, scored: Any) -> None:
    generator = np.random.default_rng(3)
    frames = [Image.fromarray(generator.integers(0, 256, (48, 40, 3), dtype=np.uint8)).quantize(256) for _ in range(3)]
    path = tmp_path / "three.gif"
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=100)
    for at in range(3):
        with Image.open(path) as image:
            image.seek(at)
            image.convert("RGB").save(tmp_path / f"{at}.png")
    name = asked.replace(")", ", frames=all)")
    rows = [{"id": "gif", "output": str(path), "prompt": "a cat"}]
    rows += [{"id": str(at), "output": str(tmp_path / f"{at}.png"), "prompt": "a cat"} for at in range(3)]
    found = scored(rows, name, model=None)
    values = column(found)
    assert values[0] == pytest.approx(np.mean(values[1:]), abs=1e-5)
    record = json.loads(column(found, "_evidence")[0])["frames"]
    assert record["indices"] == [0, 1, 2]


@pytest.mark.parametrize("kind", ["CLIPScore", "ITMScore", "VQAScore"])
def test_a_text_model_is_no_judge_of_pictures(kind: str, tmp_path: Path) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=1)
    GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt2")
    with pytest.raises(beholder.UserError, match="text-only model, model_type 'gpt2'"):
        getattr(beholder, kind)(model=str(tmp_path / "gpt2"))


def test_missing_shards_are_named(tmp_path: Path) -> None:
    folder = make_llava(tmp_path / "llava", shards="20KB")
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 2
    shards[1].unlink()
    with pytest.raises(beholder.UserError, match=shards[1].name):
        beholder.VQAScore(model=str(folder))


def test_an_encoder_is_no_matcher_and_says_so(tiny_model: Any, tmp_path: Path) -> None:
    with pytest.raises(beholder.UserError, match=r"a matcher .* got model_type 'clip'"):
        beholder.ITMScore(model=tiny_model())
    with pytest.raises(beholder.UserError, match="an encoder of images and texts, model_type 'clip'"):
        beholder.VQAScore(model=tiny_model())
    with pytest.raises(beholder.UserError, match="a matcher of images and texts, model_type 'blip'"):
        beholder.VQAScore(model=str(make_tiny_blip(tmp_path / "blip")))
    with pytest.raises(beholder.UserError, match="an encoder of images and texts, model_type 'xclip'"):
        beholder.VQAScore(model=str(make_tiny_xclip(tmp_path / "xclip")))


def test_the_name_that_an_error_gives_works(tmp_path: Path, picture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_tiny_xclip(tmp_path / "models" / "xclip")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(beholder.UserError, match="It scores pairs: xclip:") as error:
        beholder.CLIPScore(model="models/xclip")
    name = str(error.value).rpartition("It scores pairs: ")[2].rstrip(".")
    assert beholder.CLIPScore(model=name, device="cpu")(picture, "a cat").shape == (1, 1)


@pytest.mark.parametrize("metric", ["itm_score", "vqa_score", "vqa_checklist"])
def test_t1_truncated_texts_are_flagged_beside_videos_and_of_videos(
    metric: str, tmp_path: Path, picture: str, scored: Any
) -> None:
    folder = (make_tiny_blip if metric == "itm_score" else make_tiny_instructblip_t5)(tmp_path / "model")
    Image.new("RGB", (20, 20)).save(
        tmp_path / "two.gif", save_all=True, append_images=[Image.new("RGB", (20, 20), "red")], duration=100
    )
    rows = [
        {"id": f"{output[-3:]}-{text[:4]}", "output": output, "prompt": text, "questions": ["A cat?", text]}
        for output in (picture, str(tmp_path / "two.gif"))
        for text in ("long " * 200, "a cat")
    ]
    found = column(scored(rows, f"{metric}(model={folder})", model=None), "_evidence")
    evidence = [json.loads(cell or "{}") for cell in found]
    assert [item.get("truncated", False) for item in evidence] == [True, False, True, False]
    assert evidence[0]["n_tokens"] == evidence[2]["n_tokens"] > 200
