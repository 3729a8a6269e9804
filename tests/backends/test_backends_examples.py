"""Detectors that are prompted by a picture: YOLO-World's layout and arithmetic, OWLv2 against its stock class."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.models_faces import layout
from tests.models_opens2v import make_yolo_world, yolo_sizes, yolo_state
from torch.nn import functional

from beholder._errors import WeightsMismatchError, WeightsMissingError
from beholder.backends import yolo_world_network as network_of
from beholder.backends.base import LoadOptions
from beholder.backends.letterbox import letterbox
from beholder.backends.own_networks import assign_weights
from beholder.backends.pool import load_model, resolve_model
from beholder.functional.boxes import suppress
from beholder.media.base import Picture


def shapes_of(network: Any) -> dict[str, tuple[int, ...]]:
    return {key: tuple(value.shape) for key, value in network.state_dict().items()}


def picture(width: int, height: int, seed: int = 0) -> Picture:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Picture(pixels, (width, height), "RGB")


# layout and arithmetic


def test_the_layout_is_the_published_one() -> None:
    published = layout("yolo-world-v2-l-image")
    assert shapes_of(network_of.build()) == published
    buffers = re.compile(r"running_(mean|var)$|num_batches_tracked$")
    count = sum(math.prod(shape) for key, shape in published.items() if not buffers.search(key))
    assert (len(published), count) == (655, 47_882_146)


def test_widths_are_read_from_a_checkpoint() -> None:
    state = yolo_state(layout("yolo-world-v2-l-image"))
    found = network_of.sizes_of(state)
    assert shapes_of(network_of.build(found)) == layout("yolo-world-v2-l-image")
    small = yolo_state(shapes_of(network_of.YoloWorld(yolo_sizes())))
    assert shapes_of(network_of.build(network_of.sizes_of(small))) == {k: tuple(v.shape) for k, v in small.items()}
    assert network_of.sizes_of({}) == network_of.Sizes()


class Plain:
    """The forward pass written out from the state dict's names, operation by operation."""

    def __init__(self, state: dict[str, Any], heads: dict[str, int]) -> None:
        self.state, self.heads = state, heads

    def conv(self, name: str, x: Any, stride: int = 1, active: bool = True) -> Any:
        weight = self.state[f"{name}.conv.weight"]
        y = functional.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)
        mean, var = self.state[f"{name}.bn.running_mean"], self.state[f"{name}.bn.running_var"]
        y = (y - mean[:, None, None]) / torch.sqrt(var + 0.001)[:, None, None]
        y = y * self.state[f"{name}.bn.weight"][:, None, None] + self.state[f"{name}.bn.bias"][:, None, None]
        return y * torch.sigmoid(y) if active else y

    def csp(self, name: str, x: Any, add: bool, guide: Any = None) -> Any:
        y = self.conv(f"{name}.main_conv", x)
        half = y.shape[1] // 2
        parts, at = [y[:, :half], y[:, half:]], 0
        while f"{name}.blocks.{at}.conv1.conv.weight" in self.state:
            z = self.conv(f"{name}.blocks.{at}.conv2", self.conv(f"{name}.blocks.{at}.conv1", parts[-1]))
            parts.append(z + parts[-1] if add else z)
            at += 1
        if guide is not None:
            parts.append(self.attention(f"{name}.attn_block", parts[-1], guide))
        return self.conv(f"{name}.final_conv", torch.cat(parts, 1))

    def attention(self, name: str, x: Any, guide: Any) -> Any:
        heads, each = self.heads[name], x.shape[1] // self.heads[name]
        key = self.state[f"{name}.guide_fc.weight"] @ guide + self.state[f"{name}.guide_fc.bias"]
        y = self.conv(f"{name}.project_conv", x, active=False)
        result = torch.empty_like(y)
        for head in range(heads):
            own = slice(head * each, (head + 1) * each)
            match = (x[:, own] * key[own][None, :, None, None]).sum(1) / math.sqrt(each)
            weight = torch.sigmoid(match + self.state[f"{name}.bias"][head])
            result[:, own] = y[:, own] * weight[:, None]
        return result

    def run(self, x: Any, guide: Any) -> tuple[Any, Any]:
        b = "backbone.image_model"
        x = self.conv(f"{b}.stem", x, 2)
        maps = []
        for at in range(1, 5):
            x = self.csp(f"{b}.stage{at}.1", self.conv(f"{b}.stage{at}.0", x, 2), True)
            if at == 4:
                y = [self.conv(f"{b}.stage4.2.conv1", x)]
                for _ in range(3):
                    y.append(functional.max_pool2d(y[-1], 5, 1, 2))
                x = self.conv(f"{b}.stage4.2.conv2", torch.cat(y, 1))
            maps.append(x)
        low, middle, high = maps[1:]

        def up(z: Any) -> Any:
            return z.repeat_interleave(2, 2).repeat_interleave(2, 3)

        inner = self.csp("neck.top_down_layers.0", torch.cat([up(high), middle], 1), False, guide)
        one = self.csp("neck.top_down_layers.1", torch.cat([up(inner), low], 1), False, guide)
        down = self.conv("neck.downsample_layers.0", one, 2)
        two = self.csp("neck.bottom_up_layers.0", torch.cat([down, inner], 1), False, guide)
        down = self.conv("neck.downsample_layers.1", two, 2)
        three = self.csp("neck.bottom_up_layers.1", torch.cat([down, high], 1), False, guide)
        scores, boxes = [], []
        for at, (z, stride) in enumerate(zip((one, two, three), (8, 16, 32))):
            s, b4 = self.head(at, z, stride, guide)
            scores += s
            boxes += b4
        return torch.stack(scores), torch.stack(boxes)

    def head(self, at: int, z: Any, stride: int, guide: Any) -> tuple[list[Any], list[Any]]:
        h = "bbox_head.head_module"
        y = self.conv(f"{h}.cls_preds.{at}.1", self.conv(f"{h}.cls_preds.{at}.0", z))
        y = functional.conv2d(y, self.state[f"{h}.cls_preds.{at}.2.weight"], self.state[f"{h}.cls_preds.{at}.2.bias"])
        n = f"{h}.cls_contrasts.{at}"
        y = (y - self.state[f"{n}.norm.running_mean"][:, None, None]) / torch.sqrt(
            self.state[f"{n}.norm.running_var"] + 0.001
        )[:, None, None]
        y = y * self.state[f"{n}.norm.weight"][:, None, None] + self.state[f"{n}.norm.bias"][:, None, None]
        r = self.conv(f"{h}.reg_preds.{at}.1", self.conv(f"{h}.reg_preds.{at}.0", z))
        r = functional.conv2d(r, self.state[f"{h}.reg_preds.{at}.2.weight"], self.state[f"{h}.reg_preds.{at}.2.bias"])
        bins, scores, boxes = r.shape[1] // 4, [], []
        for row in range(z.shape[2]):
            for column in range(z.shape[3]):
                logit = (y[0, :, row, column] * guide).sum() * torch.exp(self.state[f"{n}.logit_scale"])
                scores.append(torch.sigmoid(logit + self.state[f"{n}.bias"]))
                reach = [
                    (r[0, side * bins : (side + 1) * bins, row, column].softmax(0) * torch.arange(bins)).sum() * stride
                    for side in range(4)
                ]
                x0, y0 = (column + 0.5) * stride, (row + 0.5) * stride
                boxes.append(torch.stack([x0 - reach[0], y0 - reach[1], x0 + reach[2], y0 + reach[3]]))
        return scores, boxes


def test_the_forward_pass_against_plain_operations() -> None:
    sizes = yolo_sizes()
    state = yolo_state(shapes_of(network_of.YoloWorld(sizes)), seed=3, gain=1.0)
    network = assign_weights(network_of.build(sizes), dict(state), name="x")
    pixels = torch.from_numpy(np.random.default_rng(0).uniform(0, 1, (1, 3, 64, 96)).astype(np.float32))
    with torch.inference_mode():
        guide = network.prompt(torch.from_numpy(np.random.default_rng(1).normal(size=(1, 12)).astype(np.float32)))
        scores, boxes = network.find(network.look(pixels), guide[:, None])
        layers = ("top_down_layers.0", "top_down_layers.1", "bottom_up_layers.0", "bottom_up_layers.1")
        heads = {f"neck.{name}.attn_block": len(state[f"neck.{name}.attn_block.bias"]) for name in layers}
        wanted, places = Plain(state, heads).run(pixels, guide[0])
    np.testing.assert_allclose(scores[0], wanted, rtol=0, atol=2e-5)
    np.testing.assert_allclose(boxes[0], places, rtol=0, atol=2e-3)
    assert scores.std() > 1e-3


def test_the_projector_adds_nothing_to_its_input() -> None:
    sizes = yolo_sizes()
    state = yolo_state(shapes_of(network_of.YoloWorld(sizes)), seed=5)
    network = assign_weights(network_of.build(sizes), dict(state), name="x")
    given = np.random.default_rng(2).normal(size=(3, 12)).astype(np.float32)
    unit = given / np.linalg.norm(given, axis=1, keepdims=True)
    one = unit @ state["image_prompt_encoder.projector.0.weight"].numpy().T
    one += state["image_prompt_encoder.projector.0.bias"].numpy()
    one = one * 0.5 * (1 + np.vectorize(math.erf)(one / math.sqrt(2)))
    two = one @ state["image_prompt_encoder.projector.2.weight"].numpy().T
    two += state["image_prompt_encoder.projector.2.bias"].numpy()
    wanted = two / np.linalg.norm(two, axis=1, keepdims=True)
    with torch.inference_mode():
        found = network.prompt(torch.from_numpy(given)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
    residual = (two + unit) / np.linalg.norm(two + unit, axis=1, keepdims=True)
    assert np.abs(found - residual).max() > 1e-2


def test_missing_and_foreign_entries_are_errors() -> None:
    sizes = yolo_sizes()
    state = yolo_state(shapes_of(network_of.YoloWorld(sizes)))
    lacking = {key: value for key, value in state.items() if key != "image_prompt_encoder.projector.2.bias"}
    with pytest.raises(WeightsMismatchError, match=r"1 missing: image_prompt_encoder\.projector\.2\.bias"):
        assign_weights(network_of.build(sizes), lacking, name="x")
    with pytest.raises(WeightsMismatchError, match=r"1 unexpected: neck\.text_enhancer\.weight"):
        assign_weights(network_of.build(sizes), {**state, "neck.text_enhancer.weight": torch.zeros(3)}, name="x")


# pixels


@pytest.mark.parametrize(
    ("size", "inside", "margin"),
    [((1280, 720), (640, 360), (0, 140)), ((480, 832), (369, 640), (135, 0)), ((320, 320), (640, 640), (0, 0)),
     ((640, 640), (640, 640), (0, 0))],
)  # fmt: skip
def test_letterbox(size: tuple[int, int], inside: tuple[int, int], margin: tuple[int, int]) -> None:
    item = picture(*size)
    made = letterbox(item.pixels)
    assert made.pixels.shape == (640, 640, 3)
    assert made.margin == margin
    gray = (made.pixels == 114).all(axis=2)
    rows, columns = np.flatnonzero(~gray.all(axis=1)), np.flatnonzero(~gray.all(axis=0))
    assert (columns[0], rows[0]) == margin
    assert (len(columns), len(rows)) == inside
    whole = np.array([[margin[0], margin[1], margin[0] + inside[0], margin[1] + inside[1]]])
    np.testing.assert_allclose(made.to_picture(whole), [[0, 0, *size]], rtol=0, atol=1e-3)
    np.testing.assert_allclose(made.to_picture(np.array([[-9, -9, 900, 900]])), [[0, 0, *size]], rtol=0, atol=1e-3)


def test_the_pixels_of_the_letterbox_are_opencvs() -> None:
    cv2 = pytest.importorskip("cv2")
    for width, height, way in ((1280, 720, cv2.INTER_AREA), (320, 200, cv2.INTER_LINEAR)):
        item = picture(width, height)
        made = letterbox(item.pixels)
        tall = int(height * 640 / width)
        wanted = cv2.resize(item.pixels, (640, tall), interpolation=way)
        found = made.pixels[made.margin[1] : made.margin[1] + tall]
        assert np.abs(found.astype(int) - wanted).max() <= 1


# the whole detector


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_yolo_world(tmp_path_factory.mktemp("yolo"), gain=1.5)


@pytest.fixture
def detector(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("WORLDFOUNDRY_YOLO_WORLD_CKPT", str(files[0]))
    monkeypatch.setenv("WORLDFOUNDRY_YOLO_CLIP_MODEL", str(files[1]))
    return load_model(resolve_model("yolo-world-v2-l-image", capability="ExampleDetector"), device="cpu")


def test_boxes_are_those_of_the_network(detector: Any) -> None:
    frames, examples = [picture(300, 200, 1), picture(128, 256, 2)], [picture(40, 30, 3), picture(20, 50, 4)]
    visuals = [detector.prepare([frame]) for frame in frames]
    prompts = [detector.prepare_example(example) for example in examples]
    pairs = [(0, prompts[0]), (0, prompts[1]), (1, prompts[1])]
    made = detector.detect_examples(visuals, pairs)
    assert made.columns["size"].tolist() == [[200, 300], [200, 300], [256, 128]]
    for row, (at, prompt) in enumerate(pairs):
        letter = letterbox(frames[at].pixels)
        pixels = torch.from_numpy(letter.pixels[..., ::-1].copy()).permute(2, 0, 1)[None].float() / 255
        with torch.inference_mode():
            scores, boxes = detector._network.find(detector._network.look(pixels), torch.from_numpy(prompt)[None, None])
        scores, boxes = scores[0].numpy(), boxes[0].numpy()
        # The published threshold, then ours: what is over ours is the same.
        kept = suppress(boxes[scores > 0.001], scores[scores > 0.001], iou=0.7)
        wanted = [
            (score, box)
            for score, box in zip(scores[scores > 0.001][kept], letter.to_picture(boxes[scores > 0.001][kept]))
            if score > 0.05
        ][:300]
        assert 300 > len(made.columns["scores"][row]) == len(wanted) > 0
        np.testing.assert_allclose(made.columns["scores"][row], [score for score, _ in wanted], rtol=0, atol=2e-5)
        found = sorted(made.columns["boxes"][row].round(1).tolist())  # two scores may be equal but for rounding
        np.testing.assert_allclose(found, sorted(box.round(1).tolist() for _, box in wanted), rtol=0, atol=0.2)
    alone = detector.detect_examples(visuals[1:], [(0, prompts[1])])
    np.testing.assert_allclose(alone.columns["scores"][0], made.columns["scores"][2], rtol=0, atol=2e-5)


def test_the_order_of_channels_is_part_of_the_model(files: tuple[Path, Path], detector: Any) -> None:
    other = load_model(resolve_model("yolo-world-v2-l-image-rgb", capability="ExampleDetector"), device="cpu")
    assert other.model.key != detector.model.key
    item = picture(64, 64)
    one, two = detector.prepare([item]).pixels, other.prepare([item]).pixels
    np.testing.assert_array_equal(one, two[..., ::-1])
    assert (one != two).any()
    np.testing.assert_allclose(detector.prepare_example(item), other.prepare_example(item), rtol=0, atol=1e-6)


def test_examples_are_embedded_by_stock_clip(files: tuple[Path, Path], detector: Any) -> None:
    from transformers import CLIPImageProcessorPil, CLIPModel

    item = picture(70, 50)
    processor = CLIPImageProcessorPil.from_pretrained(str(files[1]), local_files_only=True)
    clip = CLIPModel.from_pretrained(str(files[1])).eval()
    pixels = torch.from_numpy(np.asarray(processor(images=[item.pixels], return_tensors="np")["pixel_values"]))
    with torch.inference_mode():
        seen = clip.visual_projection(clip.vision_model(pixels).pooler_output)
        wanted = detector._network.prompt(seen)[0].numpy()
    np.testing.assert_allclose(detector.prepare_example(item), wanted, rtol=0, atol=1e-5)
    assert np.linalg.norm(wanted) == pytest.approx(1, abs=1e-5)


def test_all_that_is_missing_stands_in_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLDFOUNDRY_YOLO_WORLD_CKPT", str(tmp_path / "none.pth"))
    monkeypatch.setenv("WORLDFOUNDRY_YOLO_CLIP_MODEL", str(tmp_path / "none"))
    with pytest.raises(WeightsMissingError) as caught:
        resolve_model("yolo-world-v2-l-image", capability="ExampleDetector", options=LoadOptions(offline=True))
    text = str(caught.value)
    assert "WORLDFOUNDRY_YOLO_WORLD_CKPT" in text
    assert "WORLDFOUNDRY_YOLO_CLIP_MODEL" in text


def test_the_folder_of_opens2vs_weights(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLDFOUNDRY_YOLO_WORLD_CKPT", raising=False)
    monkeypatch.setenv("WORLDFOUNDRY_OPENS2V_WEIGHT_DIR", str(files[0].parent))
    monkeypatch.setenv("WORLDFOUNDRY_YOLO_CLIP_MODEL", str(files[1]))
    assert resolve_model("yolo-world-v2-l-image", capability="ExampleDetector").id == "yolo_world:v2-l-image-prompt"


# OWLv2


def test_owlv2_against_its_stock_class(tmp_path: Path) -> None:
    from tests.models_segment import make_tiny_owlv2
    from transformers import Owlv2ForObjectDetection

    folder = make_tiny_owlv2(tmp_path / "owl")
    detector = load_model(resolve_model(f"owlv2:{folder}", capability="ExampleDetector"), device="cpu")
    frames, example = [picture(60, 40, 1), picture(30, 50, 2)], picture(20, 20, 3)
    visuals = [detector.prepare([frame]) for frame in frames]
    prompt = detector.prepare_example(example)
    made = detector.detect_examples(visuals, [(1, prompt), (0, prompt)])
    stock = Owlv2ForObjectDetection.from_pretrained(str(folder)).eval()
    query = torch.from_numpy(detector.prepare([example])[0][None].copy())
    for row, at in ((0, 1), (1, 0)):
        pixels = torch.from_numpy(visuals[at][0][None].copy())
        with torch.inference_mode():
            out = stock.image_guided_detection(pixel_values=pixels, query_pixel_values=query)
        scores = out.logits[0, :, 0].sigmoid().numpy()
        centre = out.target_pred_boxes[0].numpy()
        corners = np.concatenate([centre[:, :2] - centre[:, 2:] / 2, centre[:, :2] + centre[:, 2:] / 2], 1)
        good = scores > 0.05
        kept = suppress(corners[good], scores[good], iou=0.3)
        width, height = frames[at].size
        wanted = np.clip(corners[good][kept] * max(width, height), 0, [width, height, width, height])
        np.testing.assert_allclose(made.columns["scores"][row], scores[good][kept], rtol=0, atol=1e-5)
        np.testing.assert_allclose(made.columns["boxes"][row], wanted, rtol=0, atol=1e-2)
        assert len(wanted)
