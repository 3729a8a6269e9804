"""Segmenters with weights: tiny random models in the published layouts, against the stock processors and plain sums."""

from __future__ import annotations

import functools
import gc
import importlib.metadata
import importlib.util
import json
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.models_segment import MASKERS, make_tiny_clipseg, make_tiny_gdino, make_tiny_pair, make_tiny_sam3

from beholder._errors import ModelError, WeightsMismatchError, WeightsMissingError
from beholder.backends.base import LoadOptions, Made
from beholder.backends.pool import find_card, load_model, resolve_model
from beholder.backends.segment.fit import CLIP, HALF, IMAGENET, Fit
from beholder.backends.segment.networks import FAMILIES, box_overlap, forget_results
from beholder.functional.masks import decode_masks
from beholder.media.base import Picture

PAIRS = ("gdino+sam", "gdino+sam2", "mm-gdino+sam", "mm-gdino+sam2", "omdet+sam", "owlv2+sam")


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (50, 70, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("segmenters")
    made = {name: make_tiny_pair(base / name, name, seed=3) for name in PAIRS}
    made["sam3"] = make_tiny_sam3(base / "sam3", seed=1)
    made["clipseg"] = make_tiny_clipseg(base / "clipseg", seed=1)
    return made


def load(name: str, folder: Path) -> Any:
    return load_model(resolve_model(f"{name}:{folder}", capability="Segmenter"), device="cpu")


def segment(model: Any, pixels: np.ndarray, *texts: str, threshold: float, mask_threshold: float = 0.5) -> Made:
    visual = model.prepare([Picture(pixels, (pixels.shape[1], pixels.shape[0]), "RGB")])
    made: Made = model.segment(
        [visual], [(0, text) for text in texts], threshold=threshold, mask_threshold=mask_threshold
    )
    return made


def masks_of(made: Made, row: int = 0) -> np.ndarray:
    columns = made.columns
    return decode_masks(columns["counts"][row], columns["lengths"][row], columns["size"][row])


# pictures on their way in


def stock_pixels(name: str, pixels: np.ndarray, **settings: Any) -> np.ndarray:
    import transformers

    processor = getattr(transformers, name)(**settings)
    found: np.ndarray = np.asarray(processor(images=pixels, return_tensors="np")["pixel_values"][0])
    return found


@pytest.mark.parametrize("shape", [(50, 70), (70, 50), (64, 64), (33, 200)])
def test_pictures_enter_as_the_stock_processors_do_it(shape: tuple[int, int]) -> None:
    picture = np.random.default_rng(1).integers(0, 256, (*shape, 3), dtype=np.uint8)
    cases = [
        (
            Fit("shortest", (64, 96), "bilinear", *IMAGENET), "GroundingDinoImageProcessorPil",
            {"size": {"shortest_edge": 64, "longest_edge": 96}},
        ),
        (
            Fit("longest", (64, 64), "bilinear", *IMAGENET), "SamImageProcessorPil",
            {"size": {"longest_edge": 64}, "pad_size": {"height": 64, "width": 64}},
        ),
        (
            Fit("square", (48, 48), "bilinear", *CLIP), "Owlv2ImageProcessorPil",
            {"size": {"height": 48, "width": 48}},
        ),
        (
            Fit("squash", (32, 32), "bilinear", *HALF), "ViTImageProcessorPil",
            {"size": {"height": 32, "width": 32}},
        ),
    ]  # fmt: skip
    for fit, name, settings in cases:
        mine, stock = fit(picture), stock_pixels(name, picture, **settings)
        assert mine.dtype == np.float32
        assert mine.shape == stock.shape, name
        np.testing.assert_allclose(mine, stock, atol=2e-5, err_msg=name)
        assert Fit.from_json(json.loads(json.dumps(fit.as_json()))) == fit


# after the network


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def bilinear(values: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Bilinear resizing with pixel centres, written as two matrix products."""

    def weights(old: int, new: int) -> np.ndarray:
        table = np.zeros((new, old))
        for row in range(new):
            place = max((row + 0.5) * old / new - 0.5, 0.0)
            low = int(place)
            high = min(low + 1, old - 1)
            table[row, low] += 1 - (place - low)
            table[row, high] += place - low
        return table

    return weights(values.shape[0], size[0]) @ values @ weights(values.shape[1], size[1]).T


def sam3_outputs(model: Any, pixels: np.ndarray, phrase: str) -> Any:
    import torch

    part = model._part
    with torch.inference_mode():
        ids = part.tokens(phrase)
        assert ids["input_ids"].shape == (1, 32)
        return part.network(pixel_values=part.pixels(part.fit(pixels)), **ids)


def test_sam3_against_plain_sums(folders: dict[str, Path], pixels: np.ndarray) -> None:
    model = load("sam3", folders["sam3"])
    out = sam3_outputs(model, pixels, "a dog")
    scores = sigmoid(out.pred_logits[0].numpy()) * sigmoid(out.presence_logits[0].numpy())
    threshold = float(np.sort(scores)[1:3].mean())
    kept = [int(at) for at in np.argsort(-scores, kind="stable") if scores[at] > threshold]
    assert 0 < len(kept) < len(scores)
    made = segment(model, pixels, "a dog", threshold=threshold)
    np.testing.assert_allclose(made.columns["scores"][0], scores[kept], atol=1e-5)
    soft = sigmoid(out.pred_masks[0].numpy())
    for found, at in zip(masks_of(made), kept, strict=True):
        values = bilinear(soft[at], (50, 70))
        clear = np.abs(values - 0.5) > 1e-4
        assert (found == (values > 0.5))[clear].all()
        assert clear.mean() > 0.9
    boxes = np.clip(out.pred_boxes[0].numpy()[kept] * [70, 50, 70, 50], 0, [70, 50, 70, 50])
    np.testing.assert_allclose(made.columns["boxes"][0], boxes, atol=1e-4)
    if importlib.util.find_spec("torchvision"):  # the stock class needs it
        from transformers import Sam3ImageProcessor

        stock = Sam3ImageProcessor().post_process_instance_segmentation(
            out, threshold=threshold, mask_threshold=0.5, target_sizes=[(50, 70)]
        )[0]
        order = np.argsort(-stock["scores"].numpy(), kind="stable")
        assert (masks_of(made) == stock["masks"].numpy()[order].astype(bool)).all()


def test_sam3_finds_nothing_in_the_pictures_own_size(folders: dict[str, Path], pixels: np.ndarray) -> None:
    # K9: nothing kept, and the network's masks are of another size.
    made = segment(load("sam3", folders["sam3"]), pixels, "a dog", threshold=0.999)
    assert not made.failures
    assert masks_of(made).shape == (0, 50, 70)
    assert made.columns["boxes"][0].shape == (0, 4)


def test_sam3_as_it_was_published_inside_the_video_model(tmp_path: Path, pixels: np.ndarray) -> None:
    plain = load("sam3", make_tiny_sam3(tmp_path / "plain", seed=5))
    video = load("sam3", make_tiny_sam3(tmp_path / "video", seed=5, video=True))
    one, two = (segment(model, pixels, "a dog", threshold=0.01) for model in (plain, video))
    assert one.columns["scores"][0].tolist() == two.columns["scores"][0].tolist()
    assert (masks_of(one) == masks_of(two)).all()


@pytest.mark.parametrize("name", ["sam3", "clipseg", *PAIRS])
def test_a_long_phrase_is_refused_before_the_model_runs(
    name: str, folders: dict[str, Path], pixels: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    # K11
    model = load(name, folders[name])
    monkeypatch.setattr(model, "look", lambda payload: pytest.fail("the model ran"))
    made = segment(model, pixels, "cat " * 300, threshold=0.0)
    assert "tokens, limit" in made.failures[0].reason
    limit = {"sam3": 32, "clipseg": 77, "owlv2+sam": 16, "omdet+sam": 77}.get(name, 64)
    assert f"limit {limit}" in made.failures[0].reason


def test_clipseg(folders: dict[str, Path], pixels: np.ndarray) -> None:
    import torch

    model = load("clipseg", folders["clipseg"])
    part = model._part
    with torch.inference_mode():
        out = part.network(pixel_values=part.pixels(part.fit(pixels)), **part.tokens("a dog"))
    soft = bilinear(sigmoid(out.logits.numpy().reshape(32, 32)), (50, 70))
    limit = float(np.median(soft))
    made = segment(model, pixels, "a dog", threshold=0.0, mask_threshold=limit)
    clear = np.abs(soft - limit) > 1e-4
    assert (masks_of(made)[0] == (soft > limit))[clear].all()
    assert made.columns["scores"][0].tolist() == pytest.approx([soft.max()], abs=1e-5)
    assert len(segment(model, pixels, "a dog", threshold=0.9999).columns["scores"][0]) == 0


@pytest.mark.parametrize("name", PAIRS)
def test_boxes_and_masks_of_pairs(name: str, folders: dict[str, Path], pixels: np.ndarray) -> None:
    model = load(name, folders[name])
    made = segment(model, pixels, "A Dog", "cat", "A Dog", threshold=0.0)
    scores = made.columns["scores"][0]
    assert len(scores) > 0
    assert (np.diff(scores) <= 0).all()
    boxes = made.columns["boxes"][0]
    assert boxes.min() >= 0
    assert (boxes[:, [0, 2]] <= 70).all()
    assert (boxes[:, [1, 3]] <= 50).all()
    # The same question again gives the same answer, and one picture's answer does not hang on what stands beside it.
    assert (masks_of(made, 0) == masks_of(made, 2)).all()
    other = np.roll(pixels, 7, axis=1)
    both = [model.prepare([Picture(p, (70, 50), "RGB")]) for p in (other, pixels)]
    beside = model.segment(both, [(0, "cat"), (1, "A Dog")], threshold=0.0)
    assert (masks_of(beside, 1) == masks_of(made, 0)).all()
    middle = float(np.median(scores))
    fewer = segment(model, pixels, "A Dog", threshold=middle).columns["scores"][0]
    assert fewer.tolist() == scores[scores > middle].tolist()


def test_grounding_dino_gives_the_stock_boxes(tmp_path: Path, pixels: np.ndarray) -> None:
    import torch
    from transformers import BertTokenizer, GroundingDinoImageProcessorPil, GroundingDinoProcessor

    folder = make_tiny_pair(tmp_path / "pair", "gdino+sam", seed=7)
    detector = load("gdino+sam", folder)._detector
    assert detector.written("A Dog") == detector.written(" a dog. ") == "a dog."  # K16
    processor = GroundingDinoProcessor(
        GroundingDinoImageProcessorPil.from_pretrained(folder / "detector"),
        BertTokenizer.from_pretrained(folder / "detector"),
    )
    inputs = processor(images=pixels, text=[["A Dog"]], return_tensors="pt")
    with torch.inference_mode():
        out = detector.network(**inputs)
    stock = processor.post_process_grounded_object_detection(
        out, inputs.input_ids, threshold=0.2, text_threshold=0.2, target_sizes=[(50, 70)]
    )[0]
    mine = detector.boxes(detector.fit(pixels), (50, 70), "A Dog", 0.2)
    np.testing.assert_allclose(mine.scores, stock["scores"].numpy(), atol=1e-5)
    np.testing.assert_allclose(mine.boxes, np.clip(stock["boxes"].numpy(), 0, [70, 50, 70, 50]), atol=1e-3)


def test_owlv2_boxes_are_of_the_square_and_cut_to_the_picture(tmp_path: Path, pixels: np.ndarray) -> None:
    import torch
    from transformers import Owlv2ImageProcessorPil

    folder = make_tiny_pair(tmp_path / "pair", "owlv2+sam", seed=2)
    detector = load("owlv2+sam", folder)._detector
    tall = pixels.transpose(1, 0, 2)[:, :30].copy()
    with torch.inference_mode():
        out = detector.network(pixel_values=detector.pixels(detector.fit(tall)), **detector.tokens("a dog"))
    stock = Owlv2ImageProcessorPil().post_process_object_detection(out, threshold=0.1, target_sizes=[(70, 30)])[0]
    mine = detector.boxes(detector.fit(tall), (70, 30), "a dog", 0.1)
    np.testing.assert_allclose(mine.boxes, np.clip(stock["boxes"].numpy(), 0, [30, 70, 30, 70]), atol=1e-3)
    np.testing.assert_allclose(mine.scores, stock["scores"].numpy(), atol=1e-5)
    assert stock["boxes"][:, 2].max() > 30  # what the stock class gives leaves the picture


def test_omdet_drops_boxes_that_say_the_same(folders: dict[str, Path], pixels: np.ndarray) -> None:
    detector = load("omdet+sam", folders["omdet+sam"])._detector
    found = detector.boxes(detector.fit(pixels), (50, 70), "dog", 0.0)
    assert len(found.scores) > 0
    for at in range(len(found.scores)):
        for other in range(at):
            assert box_overlap(found.boxes[at], found.boxes[other]) <= 0.5
    assert box_overlap(np.array([0, 0, 2, 2]), np.array([1, 0, 3, 2])) == pytest.approx(1 / 3)
    assert box_overlap(np.zeros(4), np.zeros(4)) == 0.0


@pytest.mark.parametrize("masker", MASKERS)
def test_masks_of_boxes_against_plain_sums(masker: str, folders: dict[str, Path], pixels: np.ndarray) -> None:
    import torch

    part = load(f"gdino+{masker}", folders[f"gdino+{masker}"])._masker
    boxes = np.array([[3.0, 4.0, 40.0, 30.0], [20.0, 10.0, 69.0, 49.0]], np.float32)
    seen = part.look(part.fit(pixels))
    found = part.masks(seen, (50, 70), boxes, 0.5)
    side = part.fit.size[1]
    height, width = (round(50 * 64 / 70), 64) if masker == "sam" else (side, side)
    scaled = boxes * np.array([width / 70, height / 50] * 2, np.float32)
    with torch.inference_mode():
        out = part.network(image_embeddings=seen, input_boxes=torch.from_numpy(scaled[None]), multimask_output=False)
    for mask, logits in zip(found, out.pred_masks[0, :, 0].numpy(), strict=True):
        if masker == "sam":
            values = bilinear(bilinear(logits, (side, side))[:height, :width], (50, 70))
        else:
            values = bilinear(logits, (50, 70))
        clear = np.abs(values) > 1e-4
        assert (mask == (values > 0))[clear].all()
        assert clear.mean() > 0.9
    assert part.masks(seen, (50, 70), boxes[:0], 0.5).shape == (0, 50, 70)
    assert part.masks(seen, (50, 70), boxes, 0.0).all()
    assert not part.masks(seen, (50, 70), boxes, 1.0).any()


# files


def test_missing_weights_name_another_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "empty"))
    offline = LoadOptions(offline=True)
    with pytest.raises(WeightsMissingError) as gone:
        resolve_model("sam3", capability="Segmenter", options=offline)
    for word in ("facebook/sam3", "SAM License", "--segmenter gdino+sam2", "masks", "--segmenter sam3:/path"):
        assert word in str(gone.value)
    assert "--model" not in str(gone.value)
    with pytest.raises(WeightsMissingError) as other:
        resolve_model("sam3:some/other", capability="Segmenter", options=offline)
    assert "--model" not in str(other.value)
    with pytest.raises(WeightsMissingError, match="--segmenter sam3 or clipseg, or masks"):
        resolve_model("gdino+sam2", capability="Segmenter", options=offline)
    with pytest.raises(ModelError, match="no such folder") as nowhere:  # K12
        resolve_model(f"sam3:{tmp_path}/nowhere", capability="Segmenter", options=offline)
    assert str(tmp_path / "nowhere") in str(nowhere.value)
    assert len(str(nowhere.value).splitlines()) == 1


def test_an_old_transformers_is_said(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    # K13
    resolved = resolve_model(f"sam3:{folders['sam3']}", capability="Segmenter")
    with monkeypatch.context() as patch:
        patch.setattr(importlib.metadata, "version", lambda name: "4.57.5")
        with pytest.raises(ModelError, match=r"needs transformers>=5.0; got transformers 4.57.5.*clipseg"):
            resolve_model(f"sam3:{folders['sam3']}", capability="Segmenter")
    monkeypatch.setitem(FAMILIES, "sam3", FAMILIES["sam3"]._replace(class_name="Sam3ModelThatIsNotThere"))
    with pytest.raises(ModelError, match=r"needs transformers>=5.0"):
        load_model(resolved, device="cpu")


def test_folders_that_hold_something_else(tmp_path: Path, folders: dict[str, Path]) -> None:
    with pytest.raises(ModelError, match="of the type sam3"):
        resolve_model(f"sam3:{folders['clipseg']}", capability="Segmenter")
    with pytest.raises(WeightsMissingError, match="folders detector and segmenter"):
        resolve_model(f"gdino+sam:{folders['sam3']}", capability="Segmenter")
    make_tiny_gdino(tmp_path / "half" / "detector")
    (tmp_path / "half" / "segmenter").mkdir()
    with pytest.raises(WeightsMissingError, match="lacks"):
        resolve_model(f"gdino+sam:{tmp_path / 'half'}", capability="Segmenter")
    with pytest.raises(ModelError, match="2 repositories"):
        resolve_model("gdino+sam:one/name", capability="Segmenter", options=LoadOptions(offline=True))


def test_weights_that_do_not_fit_are_an_error(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = make_tiny_sam3(tmp_path / "sam3")
    state = load_file(folder / "model.safetensors")
    state.pop(next(key for key in state if "mask_decoder" in key))
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(WeightsMismatchError, match="1 missing"):
        load("sam3", folder)


def test_names_and_keys(folders: dict[str, Path], tmp_path: Path) -> None:
    card = find_card("sam3")
    assert card is not None
    assert card.id == "sam3:facebook/sam3"
    assert card.capabilities == ("Segmenter",)
    for name in ("clipseg", *PAIRS):
        found = find_card(name)
        assert found is not None
        assert found.engine == name
    one = resolve_model(f"gdino+sam:{folders['gdino+sam']}", capability="Segmenter")
    assert one.id == "gdino+sam:./gdino+sam"
    other = make_tiny_pair(tmp_path / "gdino+sam", "gdino+sam", seed=4)
    assert resolve_model(f"gdino+sam:{other}", capability="Segmenter").key != one.key


@pytest.mark.parametrize("name", ["sam3", "omdet+sam", "mm-gdino+sam2"])
def test_nothing_holds_the_weights_of_a_closed_segmenter(
    name: str, folders: dict[str, Path], pixels: np.ndarray
) -> None:
    model = load(name, folders[name])
    parts = [part.network for part in vars(model).values() if hasattr(part, "network")]
    weights = [weakref.ref(weight) for network in parts for weight in network.parameters()]
    segment(model, pixels, "a dog", threshold=0.001)
    assert len(weights) > 10
    model.close()
    del model, parts
    gc.collect()
    assert not any(weight() is not None for weight in weights)


def test_methods_of_any_make_are_looked_at_when_caches_are_emptied() -> None:
    def wrapper() -> Any:
        def call(self: Any) -> Any:
            return later(self)

        call.__wrapped__ = call  # type: ignore[attr-defined]
        return call
        later = None  # never reached: the cell is never filled

    import torch

    class Odd(torch.nn.Module):
        odd = wrapper()
        kept = functools.lru_cache(lambda self: object())

    network = Odd()
    held = network.kept()
    forget_results(network)
    assert network.kept() is not held
