"""X-CLIP and VideoPrism: equal to transformers' own forward passes, from pictures to numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.models import make_tiny_clip
from tests.models_video import make_tiny_videoprism, make_tiny_xclip

from beholder._errors import ModelError, OptionError, PlannedError, WeightsMismatchError, WeightsMissingError
from beholder.backends import pool
from beholder.media.base import Picture

TEXTS = ("a cat", "a photo of a red car", "a dog")
ALL = [(clip, text) for clip in range(3) for text in TEXTS]

# Computed once by this code on a CPU (transformers 5.24, torch 2.13); the stock forward agrees to 2e-6.
XCLIP_GOLDEN = [0.17153890, 0.39787620, 0.19081222]
VIDEOPRISM_GOLDEN = [[0.06400976, 0.07945284], [0.07272410, 0.07967336]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("video")
    return {
        "xclip": make_tiny_xclip(folder / "xclip"),
        "videoprism": make_tiny_videoprism(folder / "videoprism"),
        "clip": make_tiny_clip(folder / "clip"),
    }


@pytest.fixture(scope="module")
def xclip(folders: dict[str, Path]) -> Any:
    return load(f"xclip:{folders['xclip']}", "Matcher")


@pytest.fixture(scope="module")
def videoprism(folders: dict[str, Path]) -> Any:
    return load(f"hf:{folders['videoprism']}", "VideoTextEncoder")


def load(name: str, capability: str) -> Any:
    return pool.load_model(pool.resolve_model(name, capability=capability), device="cpu")


def frames(seed: int, count: int = 4) -> list[Picture]:
    pixels = np.random.default_rng(seed).integers(0, 256, (count, 45, 61, 3), dtype=np.uint8)
    return [Picture(frame, (61, 45), "RGB") for frame in pixels]


def clips(model: Any, count: int = 3) -> list[Any]:
    return [model.prepare(frames(seed)) for seed in range(count)]


def test_xclip_cosines_are_the_stock_logits_without_their_scale(xclip: Any, folders: dict[str, Path]) -> None:
    import torch
    from PIL import Image
    from transformers import AutoTokenizer, XCLIPModel
    from transformers.models.videomae.image_processing_pil_videomae import VideoMAEImageProcessorPil

    stock = XCLIPModel.from_pretrained(folders["xclip"]).eval()
    processor = VideoMAEImageProcessorPil.from_pretrained(folders["xclip"])
    videos = [[Image.fromarray(frame.pixels) for frame in frames(seed)] for seed in range(3)]
    pixels = torch.cat([processor(video, return_tensors="pt")["pixel_values"] for video in videos])
    tokens = AutoTokenizer.from_pretrained(folders["xclip"])(list(TEXTS), padding=True, return_tensors="pt")
    with torch.inference_mode():
        logits = stock(pixel_values=pixels, **tokens).logits_per_video
        expected = (logits / stock.logit_scale.exp()).numpy()
    made = xclip.match(clips(xclip), ALL).columns
    np.testing.assert_allclose(made["cosine"].reshape(3, 3), expected, atol=2e-6)
    assert made["cosine"].dtype == np.float32
    assert xclip.constants["logit_scale"] == pytest.approx(stock.logit_scale.exp().item())
    # What makes it a matter of pairs: the best text embedding for one video is not that for another.
    with torch.inference_mode():
        embeddings = stock(pixel_values=pixels, **tokens).text_embeds
    assert (embeddings[0] - embeddings[1]).abs().max() > 1e-3


def test_xclip_golden(xclip: Any) -> None:
    found = xclip.match(clips(xclip, 2), [(0, "a cat"), (0, "a dog"), (1, "a cat")]).columns["cosine"]
    np.testing.assert_allclose(found, XCLIP_GOLDEN, atol=5e-6)


def test_xclip_pairs_do_not_depend_on_their_neighbours(xclip: Any) -> None:
    visuals = clips(xclip, 5)
    pairs = [(4, "a cat"), (0, "a dog"), (4, "x"), (1, "a cat"), (0, "a dog")]
    together = xclip.match(visuals, pairs).columns["cosine"]
    alone = [xclip.match([visuals[clip]], [(0, text)]).columns["cosine"][0] for clip, text in pairs]
    np.testing.assert_allclose(together, alone, atol=2e-6)
    assert together[1] == together[4]


def test_xclip_has_no_matching_head(xclip: Any) -> None:
    with pytest.raises(OptionError, match="X-CLIP has no matching head"):
        xclip.match(clips(xclip, 1), [(0, "a cat")], head="itm")
    made = xclip.match(clips(xclip, 1), [(0, "a cat")], head="itc").columns
    assert set(made) == {"cosine", "n_tokens", "truncated"}


def test_long_texts_are_cut_and_flagged(xclip: Any, videoprism: Any) -> None:
    made = xclip.match(clips(xclip, 1), [(0, "cat " * 100), (0, "a cat")]).columns
    assert made["truncated"].tolist() == [True, False]
    assert made["n_tokens"][0] == 102
    rows = videoprism.encode_texts(["cat " * 30, "a cat"])
    assert rows["truncated"].tolist() == [True, False]
    assert rows["n_tokens"].tolist() == [30, 2]


def test_videoprism_is_the_stock_model(videoprism: Any, folders: dict[str, Path]) -> None:
    import torch
    from PIL import Image
    from transformers import AutoTokenizer, VideoPrismClipModel

    stock = VideoPrismClipModel.from_pretrained(folders["videoprism"]).eval()
    rows = [
        np.stack([
            np.asarray(Image.fromarray(frame.pixels).resize((36, 36), Image.Resampling.BICUBIC))
            for frame in frames(seed)
        ])
        for seed in range(3)
    ]  # fmt: skip
    pixels = torch.from_numpy(np.stack(rows)).permute(0, 1, 4, 2, 3).float() / 255
    tokenizer = AutoTokenizer.from_pretrained(folders["videoprism"])
    tokens = tokenizer(list(TEXTS), padding="max_length", max_length=16, return_tensors="pt")
    with torch.inference_mode():
        output = stock(
            pixel_values_videos=pixels, input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]
        )
    videos = videoprism.encode_videos(clips(videoprism)).columns["embedding"]
    texts = videoprism.encode_texts(TEXTS)["embedding"]
    assert videos.dtype == texts.dtype == np.float32
    np.testing.assert_allclose(videos, output.video_embeds.numpy(), atol=2e-6)
    np.testing.assert_allclose(texts, output.text_embeds.numpy(), atol=2e-6)


def test_videoprism_golden(videoprism: Any) -> None:
    videos = videoprism.encode_videos(clips(videoprism, 2)).columns["embedding"]
    texts = videoprism.encode_texts(["a cat", "a dog"])["embedding"]
    np.testing.assert_allclose(videos @ texts.T, VIDEOPRISM_GOLDEN, atol=5e-6)


def test_videoprism_rows_do_not_depend_on_their_neighbours(videoprism: Any) -> None:
    visuals = clips(videoprism, 3)
    together = videoprism.encode_videos(visuals).columns["embedding"]
    alone = np.concatenate([videoprism.encode_videos([one]).columns["embedding"] for one in visuals])
    np.testing.assert_allclose(together, alone, atol=2e-6)
    texts = videoprism.encode_texts(TEXTS)["embedding"]
    np.testing.assert_allclose(texts[1:2], videoprism.encode_texts(TEXTS[1:2])["embedding"], atol=2e-6)


def test_the_order_of_frames_matters(xclip: Any, videoprism: Any) -> None:
    for model in (xclip, videoprism):
        both = [model.prepare(frames(0)), model.prepare(frames(0)[::-1])]
        if model is xclip:
            first, second = model.match(both, [(0, "a cat"), (1, "a cat")]).columns["cosine"]
        else:
            first, second = model.encode_videos(both).columns["embedding"]
        assert np.abs(first - second).max() > 1e-5


def test_a_picture_is_a_clip_of_equal_frames(xclip: Any, videoprism: Any) -> None:
    for model in (xclip, videoprism):
        one = frames(3, 1)
        assert np.array_equal(model.prepare(one), model.prepare(one * 4))
        assert len(model.prepare(one)) == model.frames == 4


def test_an_xclip_does_not_embed_texts(folders: dict[str, Path]) -> None:
    with pytest.raises(OptionError, match="its text embeddings depend on the video"):
        pool.resolve_model(f"hf:{folders['xclip']}", capability="VideoTextEncoder")


def test_other_models_are_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="VideoPrism"):
        pool.resolve_model(f"hf:{folders['clip']}", capability="VideoTextEncoder")
    with pytest.raises(ModelError, match="'videoprism'"):
        pool.resolve_model(f"xclip:{folders['videoprism']}", capability="Matcher")
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(WeightsMissingError, match="whole model"):
        pool.resolve_model(f"xclip:{tmp_path}", capability="Matcher")


def test_languagebind_says_why_it_is_not_there() -> None:
    for name in ("hf:LanguageBind/LanguageBind_Video", "languagebind-video-ft"):
        with pytest.raises(PlannedError, match="attend over time"):
            pool.resolve_model(name, capability="VideoTextEncoder")


def test_preprocessing_that_does_not_fit_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    import json
    import shutil

    folder = tmp_path / "xclip"
    shutil.copytree(folders["xclip"], folder)
    path = folder / "preprocessor_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"crop_size": 24}), encoding="utf-8")
    with pytest.raises(ModelError, match="24×24 from its preprocessing configuration"):
        pool.resolve_model(f"xclip:{folder}", capability="Matcher")


def test_weights_must_fit_completely(folders: dict[str, Path], tmp_path: Path) -> None:
    import shutil

    from safetensors.numpy import load_file, save_file

    folder = tmp_path / "xclip"
    shutil.copytree(folders["xclip"], folder)
    state = load_file(folder / "model.safetensors")
    state.pop("prompts_visual_projection")
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(WeightsMismatchError, match="1 missing: prompts_visual_projection"):
        load(f"xclip:{folder}", "Matcher")
