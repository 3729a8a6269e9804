"""`beholder.knowcusbench.compute_metrics`: the source document's four keys, with its faults mended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.protocols.bench_data import picture

import beholder
from beholder.backends.fake import FakeEncoder

FAST = {"model": "fake", "pick_model": "fake"}


def images(folder: Path, count: int, start: int = 0) -> list[str]:
    return [str(picture(folder / f"{start + at}.png", start + at)) for at in range(count)]


def half_masks(folder: Path, count: int) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    pixels = np.zeros((16, 16), dtype=np.uint8)
    pixels[:, :8] = 255
    for at in range(count):
        Image.fromarray(pixels).save(folder / f"m{at}.png")
    return [str(folder / f"m{at}.png") for at in range(count)]


def embed(path: str, *, masked: bool = False) -> np.ndarray:
    """The fake encoder's unit vector of a file, by hand; with `masked` its right half is black."""
    from beholder.media.base import DecodeOptions, Picture
    from beholder.media.sources import as_medium

    encoder = FakeEncoder("fake")
    found = as_medium(path).decode(DecodeOptions())
    if masked:
        pixels = found.pixels.copy()
        pixels[:, 8:] = 0
        found = Picture(pixels, found.size, found.source_mode, found.notes)
    vector = encoder.encode_images(encoder.prepare_image(found)[None])[0].astype(np.float64)
    return vector / np.linalg.norm(vector)


def embed_text(text: str) -> np.ndarray:
    vector = FakeEncoder("fake").encode_texts([text])["embedding"][0].astype(np.float64)
    return vector / np.linalg.norm(vector)


def test_the_four_keys_by_hand(tmp_path: Path) -> None:
    predictions, gold = images(tmp_path, 3), {"cat": images(tmp_path, 2, 10), "dog": images(tmp_path, 1, 20)}
    concepts, prompts = ["cat", "cat", "dog"], ["a cat at sea", "a cat", "a dog"]
    found = beholder.knowcusbench.compute_metrics(
        predictions, gold, prompts, concepts=concepts, masks=half_masks(tmp_path / "m", 3), **FAST
    )
    assert list(found) == ["CLIP-I", "CLIP-I-Seg", "CLIP-T", "Pick Score"]
    each: dict[str, list[float]] = {key: [] for key in found}
    for path, concept, prompt in zip(predictions, concepts, prompts):
        real = np.mean([embed(ref) for ref in gold[concept]], axis=0)
        each["CLIP-I"].append(float(embed(path) @ real))
        each["CLIP-I-Seg"].append(float(embed(path, masked=True) @ real))
        each["CLIP-T"].append(float(embed(path) @ embed_text(prompt)))
        each["Pick Score"].append(100.0 * each["CLIP-T"][-1])
    for key, values in each.items():
        assert found[key] == pytest.approx(((values[0] + values[1]) / 2 + values[2]) / 2, abs=2e-5), key


def test_all_pairs_by_default_and_zip_only_where_lengths_are_equal(tmp_path: Path) -> None:
    predictions, gold = images(tmp_path, 2), images(tmp_path, 3, 10)
    settings: Any = {"concepts": ["cat", "cat"], "metrics": ["CLIP-I"], "model": "fake"}
    call = beholder.knowcusbench.compute_metrics
    pairs = np.mean([embed(a) @ embed(b) for a in predictions for b in gold])
    assert call(predictions, gold, ["x", "y"], **settings)["CLIP-I"] == pytest.approx(pairs, abs=2e-6)
    with pytest.raises(beholder.UserError, match="2 vs 3"):
        call(predictions, gold, ["x", "y"], pairing="zip", **settings)
    with pytest.raises(beholder.UserError, match="images by concept"):
        call(predictions, {"cat": gold}, ["x", "y"], pairing="zip", **settings)
    zipped = np.mean([embed(a) @ embed(b) for a, b in zip(predictions, gold)])
    found = call(predictions, gold[:2], ["x", "y"], pairing="zip", **settings)
    assert found["CLIP-I"] == pytest.approx(zipped, abs=2e-6)


def test_reconstructions_count_for_neither_clip_t_nor_pick_score(tmp_path: Path) -> None:
    predictions, gold = images(tmp_path, 2), images(tmp_path, 1, 10)
    settings: Any = {"concepts": ["cat", "cat"], "metrics": ["CLIP-T", "Pick Score"], **FAST}
    call = beholder.knowcusbench.compute_metrics
    mixed = call(predictions, gold, ["my gift", "a cat"], tasks=["reconstruction", "generation"], **settings)
    alone = call(predictions[1:], gold, ["a cat"], **{**settings, "concepts": ["cat"]})
    assert mixed == pytest.approx(alone)
    none = call(predictions, gold, ["a", "b"], tasks=["reconstruction"] * 2, **settings)
    assert none == {"CLIP-T": None, "Pick Score": None}


def test_pictures_in_memory_are_taken_too(tmp_path: Path) -> None:
    paths, gold = images(tmp_path, 2), images(tmp_path, 1, 10)
    settings: Any = {"concepts": ["cat", "cat"], "metrics": ["CLIP-I"], "model": "fake"}
    call = beholder.knowcusbench.compute_metrics
    opened = [Image.open(path).convert("RGB") for path in paths]
    real = [Image.open(gold[0]).convert("RGB")]
    assert call(opened, real, ["x", "y"], **settings) == pytest.approx(call(paths, gold, ["x", "y"], **settings))


def test_predictions_without_a_mask_are_left_out(tmp_path: Path) -> None:
    predictions, gold = images(tmp_path, 2), images(tmp_path, 1, 10)
    masks = half_masks(tmp_path / "m", 1)
    settings: Any = {"metrics": ["CLIP-I-Seg"], "model": "fake"}
    call = beholder.knowcusbench.compute_metrics
    both = call(predictions, gold, ["x", "y"], concepts=["cat"] * 2, masks=[*masks, None], **settings)
    one = call(predictions[:1], gold, ["x"], concepts=["cat"], masks=masks, **settings)
    assert both == pytest.approx(one)


def test_a_segmenter_finds_the_subject_by_the_phrase(tmp_path: Path) -> None:
    pixels = np.zeros((16, 16, 3), dtype=np.uint8)
    pixels[:, :] = (0, 0, 255)
    pixels[4:12, 4:12] = (255, 0, 0)
    Image.fromarray(pixels).save(tmp_path / "p.png")
    gold = images(tmp_path, 1, 10)
    settings: Any = {"concepts": ["ball"], "metrics": ["CLIP-I-Seg"], "model": "fake", "segmenter": "color"}
    found = beholder.knowcusbench.compute_metrics([str(tmp_path / "p.png")], gold, ["x"], **settings)
    pixels[pixels[..., 0] == 0] = 0
    Image.fromarray(pixels).save(tmp_path / "cut.png")
    assert found["CLIP-I-Seg"] == pytest.approx(embed(str(tmp_path / "cut.png")) @ embed(gold[0]), abs=2e-6)
    other = beholder.knowcusbench.compute_metrics(
        [str(tmp_path / "p.png")], gold, ["x"], seg_prompts={"ball": "green thing"}, **settings
    )
    assert other["CLIP-I-Seg"] is None, "nothing green is there, and no phrase but the given one is looked for"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prompts": ["x"]}, "prompts must have one entry a prediction; got 2 vs 1"),
        ({"concepts": ["cat"]}, "concepts must have one entry"),
        ({"gold": {"dog": ["r.png"]}}, "none of 'cat'"),
        ({"gold": {"cat": []}}, "none of 'cat'"),
        ({"concepts": ["cat", "dog"]}, "by concept"),
        ({"metrics": ["CLIP"]}, "CLIP-I, CLIP-I-Seg, CLIP-T, Pick Score"),
        ({"pairing": "some"}, "all or zip"),
        ({"predictions": [], "prompts": [], "concepts": []}, "there must be a prediction"),
        ({"prompts": "xy"}, "prompts must be a list; got 'xy'"),
        ({"concepts": "cc"}, "concepts must be a list"),
        ({"gold": {"cat": "r.png"}}, "real images of 'cat' must be a list"),
    ],
)
def test_wrong_calls_say_what_is_wrong(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    call: dict[str, Any] = {"predictions": images(tmp_path, 2), "gold": images(tmp_path, 1, 10), "prompts": ["x", "y"],
                            "concepts": ["cat", "cat"], "metrics": ["CLIP-I"], "model": "fake", **changes}  # fmt: skip
    first = (call.pop("predictions"), call.pop("gold"), call.pop("prompts"))
    with pytest.raises(beholder.UserError, match=said):
        beholder.knowcusbench.compute_metrics(*first, **call)


def test_what_cannot_be_scored_is_no_silent_gap_in_a_mean(tmp_path: Path) -> None:
    predictions, gold = images(tmp_path, 2), images(tmp_path, 1, 10)
    call = beholder.knowcusbench.compute_metrics
    settings: Any = {"concepts": ["cat"] * 2, "model": "fake", "metrics": ["CLIP-I", "CLIP-T"]}
    gone = str(tmp_path / "gone.png")
    with pytest.raises(beholder.InputError, match=r"prediction 1: missing: .*gone\.png") as caught:
        call([predictions[0], gone], gold, ["x", "y"], **settings)
    assert len(caught.value.faults) == 1, "two metrics meet it, and it is one fault"
    with pytest.raises(beholder.InputError, match=r"prediction 0: missing.*(?s:.)*prediction 1: missing"):
        call(predictions, [*gold, gone], ["x", "y"], **settings)
    wrong = np.ones((3, 5), dtype=bool)
    settings["metrics"] = ["CLIP-I-Seg"]
    with pytest.raises(beholder.InputError, match="the mask is 5×3 pixels"):
        call(predictions, gold, ["x", "y"], masks=[wrong, None], **settings)


def test_generators_will_do(tmp_path: Path) -> None:
    predictions, gold = images(tmp_path, 2), images(tmp_path, 1, 10)
    settings: Any = {"concepts": ["cat"] * 2, "model": "fake", "metrics": ["CLIP-I"]}
    call = beholder.knowcusbench.compute_metrics
    assert call(iter(predictions), iter(gold), iter("xy"), **settings) == call(
        predictions, gold, ["x", "y"], **settings
    )
