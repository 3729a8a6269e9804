"""HPS, the aesthetic heads and ArtScore: published layouts, values from plain arithmetic, nothing loaded in part."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends import numpy_clip
from tests.backends.backends_pictures import noise_picture
from tests.models_scores import (
    HEADS,
    MAPS,
    artscore_shapes,
    head_shapes,
    hps_shapes,
    make_artscore,
    make_head,
    make_tiny_hps,
)

from beholder._errors import (
    ModelError,
    OptionError,
    UnknownNameError,
    WeightsMismatchError,
    WeightsMissingError,
)
from beholder.backends.base import LoadOptions
from beholder.backends.cards import card_of
from beholder.backends.cards_scores import ARTSCORE_FILE, HPS_FILES, LAION_V2_FILE, LAION_V25_FILE
from beholder.backends.pool import load_model, resolve_model
from beholder.media.base import Picture

LAYOUTS = Path(__file__).parents[1] / "reference" / "layouts"
OFFLINE = LoadOptions(offline=True)
full_only = pytest.mark.skipif(
    importlib.util.find_spec("open_clip") is None, reason="open_clip is not installed (base environment)"
)


def layout(name: str) -> dict[str, tuple[int, ...]]:
    tensors = json.loads((LAYOUTS / f"{name}.json").read_text(encoding="utf-8"))["tensors"]
    return {key: tuple(shape) for key, shape in tensors.items()}


def load(name: str, capability: str) -> Any:
    return load_model(resolve_model(name, capability=capability, options=OFFLINE), device="cpu")


def change(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Rewrites a checkpoint with some of its tensors changed."""
    import torch

    state = torch.load(path, weights_only=True)
    edit(state.get("state_dict", state))
    torch.save(state, path)


# HPS


@pytest.fixture(scope="module")
def hps_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_hps(tmp_path_factory.mktemp("hps"))


@pytest.fixture(scope="module")
def hps(hps_file: Path) -> Any:
    return load(f"hps:{hps_file}", "ImageTextEncoder")


def numpy_weights(path: Path) -> dict[str, np.ndarray]:
    """The file's tensors under the names of `numpy_clip`, by a map written for this test."""
    import torch

    state = {key: value.double().numpy() for key, value in torch.load(path, weights_only=True)["state_dict"].items()}
    result = {
        "visual_projection.weight": state["visual.proj"].T,
        "text_projection.weight": state["text_projection"].T,
        "vision_model.embeddings.class_embedding": state["visual.class_embedding"],
        "vision_model.embeddings.patch_embedding.weight": state["visual.conv1.weight"],
        "vision_model.embeddings.position_embedding.weight": state["visual.positional_embedding"],
        "text_model.embeddings.token_embedding.weight": state["token_embedding.weight"],
        "text_model.embeddings.position_embedding.weight": state["positional_embedding"],
    }
    for part in ("weight", "bias"):
        result[f"vision_model.pre_layrnorm.{part}"] = state[f"visual.ln_pre.{part}"]
        result[f"vision_model.post_layernorm.{part}"] = state[f"visual.ln_post.{part}"]
        result[f"text_model.final_layer_norm.{part}"] = state[f"ln_final.{part}"]
        for tower, prefix in (("vision_model", "visual.transformer"), ("text_model", "transformer")):
            for block in range(2):
                old, new = f"{prefix}.resblocks.{block}", f"{tower}.encoder.layers.{block}"
                result[f"{new}.layer_norm1.{part}"] = state[f"{old}.ln_1.{part}"]
                result[f"{new}.layer_norm2.{part}"] = state[f"{old}.ln_2.{part}"]
                result[f"{new}.mlp.fc1.{part}"] = state[f"{old}.mlp.c_fc.{part}"]
                result[f"{new}.mlp.fc2.{part}"] = state[f"{old}.mlp.c_proj.{part}"]
                result[f"{new}.self_attn.out_proj.{part}"] = state[f"{old}.attn.out_proj.{part}"]
                for letter, piece in zip("qkv", np.split(state[f"{old}.attn.in_proj_{part}"], 3), strict=True):
                    result[f"{new}.self_attn.{letter}_proj.{part}"] = piece
    return result


def test_hps_embeds_as_plain_numpy_does(hps: Any, hps_file: Path) -> None:
    weights = numpy_weights(hps_file)
    picture = noise_picture(30, 30, seed=1)
    prepared = hps.prepare_image(picture)
    pixels = np.stack([hps._pixels.table()[channel][prepared[channel]] for channel in range(3)])
    found = hps.encode_images(prepared[None])[0]
    np.testing.assert_allclose(
        found, numpy_clip.image_embedding(weights, pixels, heads=HEADS, quick=False), atol=2e-5, rtol=0
    )
    # The tokenizer of `models.write_clip_tokenizer`: start 514, "cat" 513, end 515.
    text = hps.encode_texts(["cat cat"])
    ids = np.array([514, 513, 513, 515])
    expected = numpy_clip.text_embedding(weights, ids, heads=HEADS, quick=False, end_id=515)
    np.testing.assert_allclose(text["embedding"][0], expected, atol=2e-5, rtol=0)
    assert text["n_tokens"].tolist() == [4]


def test_hps_golden_values(hps: Any) -> None:
    # Seed 0 of `make_tiny_hps`, float32 on a CPU of this project's machines.
    image = hps.encode_images(hps.prepare_image(noise_picture(30, 30, seed=1))[None])[0]
    text = hps.encode_texts(["a photo of a cat"])["embedding"][0]
    np.testing.assert_allclose(image[:3], HPS_IMAGE, atol=2e-5, rtol=0)
    np.testing.assert_allclose(text[:3], HPS_TEXT, atol=2e-5, rtol=0)
    assert hps.constants["logit_scale"] == pytest.approx(np.exp(4.0))


HPS_IMAGE = [0.355226, -0.193803, -0.498455]
HPS_TEXT = [0.02872, 0.06745, 0.448834]


def test_the_long_side_is_fitted_and_black_fills_the_rest(hps: Any) -> None:
    white = Picture(np.full((20, 40, 3), 255, np.uint8), (40, 20), "RGB")
    prepared = hps.prepare_image(white)
    # 40×20 becomes 30×15; of the 15 rows that lack, 7 stand above and 8 below.
    assert prepared.shape == (3, 30, 30)
    rows = prepared[0].max(axis=1)
    assert rows.tolist() == [0] * 7 + [255] * 15 + [0] * 8
    tall = hps.prepare_image(Picture(np.full((40, 20, 3), 255, np.uint8), (20, 40), "RGB"))
    assert tall[0].max(axis=0).tolist() == [0] * 7 + [255] * 15 + [0] * 8


@full_only
def test_open_clip_gives_the_same_embeddings(hps: Any, hps_file: Path, tmp_path: Path) -> None:
    import open_clip
    import torch

    shapes = hps_shapes()
    network = open_clip.CLIP(
        embed_dim=16,
        vision_cfg={"image_size": 30, "layers": 2, "width": 32, "head_width": 2, "patch_size": 6},
        text_cfg={"context_length": 77, "vocab_size": 516, "width": 32, "heads": HEADS, "layers": 2},
    ).eval()
    state = torch.load(hps_file, weights_only=True)["state_dict"]
    assert {key: tuple(value.shape) for key, value in network.state_dict().items()} == shapes
    network.load_state_dict({key: value.float() for key, value in state.items()}, strict=True)
    prepared = hps.prepare_image(noise_picture(30, 30, seed=3))
    pixels = np.stack([hps._pixels.table()[channel][prepared[channel]] for channel in range(3)])
    ids = np.zeros((1, 77), dtype=np.int64)
    ids[0, :4] = [514, 513, 513, 515]  # open_clip fills with zeros behind the end token
    with torch.inference_mode():
        image = network.encode_image(torch.from_numpy(pixels[None])).numpy()
        text = network.encode_text(torch.from_numpy(ids)).numpy()
    np.testing.assert_allclose(hps.encode_images(prepared[None]), image, atol=2e-5, rtol=0)
    np.testing.assert_allclose(hps.encode_texts(["cat cat"])["embedding"], text, atol=2e-5, rtol=0)


def test_hps_has_the_published_layout() -> None:
    import torch

    from beholder.backends.hps import clip_config, to_transformers

    published = layout("hps-vit-h-14")
    state = {key: torch.empty(shape, device="meta") for key, shape in published.items()}
    named = to_transformers(state, name="x")
    config = clip_config(state, name="x")
    from transformers import CLIPModel

    with torch.device("meta"):
        network = CLIPModel(config)
    own = {key: tuple(value.shape) for key, value in network.state_dict().items()}
    assert {key: tuple(value.shape) for key, value in named.items()} == own
    assert config.vision_config.image_size == 224
    assert (config.text_config.num_hidden_layers, config.vision_config.num_hidden_layers) == (24, 32)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda state: state.pop("visual.ln_post.bias"), "1 missing: visual.ln_post.bias"),
        (lambda state: state.update({"score.weight": state["logit_scale"]}), "1 unexpected: score.weight"),
        (lambda state: state.update({"ln_final.bias": state["ln_final.bias"][:3]}), "of another shape"),
        (lambda state: state.pop("visual.conv1.weight"), "visual.conv1.weight"),
    ],
)
def test_hps_files_that_do_not_fit(edit: Any, said: str, hps_file: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(hps_file.parent, tmp_path / "copy"))
    change(folder / hps_file.name, edit)
    with pytest.raises(WeightsMismatchError, match=said):
        load(f"hps:{folder / hps_file.name}", "ImageTextEncoder")


def test_versions_of_hps_have_names_and_weights_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hps_file: Path
) -> None:
    monkeypatch.setenv("BEHOLDER_CACHE", str(tmp_path))
    folder, processor = tmp_path / "xswu" / "HPSv2", tmp_path / "laion" / "CLIP-ViT-H-14-laion2B-s32B-b79K"
    shutil.copytree(hps_file.parent, processor, ignore=shutil.ignore_patterns("*.pt"))
    make_tiny_hps(folder, name="HPS_v2_compressed.pt", seed=0)
    make_tiny_hps(folder, name="HPS_v2.1_compressed.pt", seed=1)
    old, new = (resolve_model(name, options=OFFLINE) for name in ("hpsv2", "hpsv2.1"))
    assert (old.id, new.id) == ("hps:v2.0", "hps:v2.1")
    assert (old.card.files, new.card.files) == ((HPS_FILES["v2.0"],), (HPS_FILES["v2.1"],))
    assert old.key != new.key
    assert old.card.licence == "Apache-2.0"
    with pytest.raises(UnknownNameError, match=r"hps:v2\.0"):
        resolve_model("hps:v3", options=OFFLINE)
    (folder / "HPS_v2.1_compressed.pt").unlink()
    with pytest.raises(WeightsMissingError, match=r"hpsv2\.1.*xswu/HPSv2.*Apache-2\.0"):
        resolve_model("hpsv2.1", options=OFFLINE)


# heads


def test_a_head_is_the_chain_of_its_maps_on_the_unit_vector(tmp_path: Path) -> None:
    import torch

    for layers in MAPS:
        path = make_head(tmp_path / f"{layers}.pth", 16, layout=layers, seed=5)
        head = load(f"aesthetic:{path}", "EmbeddingHead")
        embeddings = np.random.default_rng(0).normal(size=(4, 16)).astype(np.float32)
        value = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
        state = torch.load(path, weights_only=True)
        for place in MAPS[layers]:
            value = value @ state[f"{layers}.{place}.weight"].numpy().T + state[f"{layers}.{place}.bias"].numpy()
        found = head.score_embeddings(list(embeddings)).columns["score"]
        np.testing.assert_allclose(found, value[:, 0], atol=2e-6, rtol=0)
        np.testing.assert_allclose(head.score_embeddings(list(7 * embeddings)).columns["score"], found, atol=1e-6)
        assert head.constants["low"] < found.min() < found.max() < head.constants["high"]


def test_the_limits_of_a_head_are_reached(tmp_path: Path) -> None:
    head = load(f"aesthetic:{make_head(tmp_path / 'a.pth', 4)}", "EmbeddingHead")
    axes = [*np.eye(4, dtype=np.float32)]
    slopes = np.array([head.score_embeddings([axis]).columns["score"][0] for axis in axes])
    middle = (head.constants["low"] + head.constants["high"]) / 2
    best = (slopes - middle).astype(np.float32)  # the map is affine: its steepest direction
    assert head.score_embeddings([best]).columns["score"][0] == pytest.approx(head.constants["high"], abs=1e-6)
    assert head.score_embeddings([-best]).columns["score"][0] == pytest.approx(head.constants["low"], abs=1e-6)


def test_embeddings_without_direction_and_of_another_width(tmp_path: Path) -> None:
    head = load(f"aesthetic:{make_head(tmp_path / 'a.pth', 4)}", "EmbeddingHead")
    made = head.score_embeddings([np.zeros(4, np.float32), np.ones(4, np.float32)])
    assert {row: str(failure.status) for row, failure in made.failures.items()} == {0: "degenerate_embedding"}
    with pytest.raises(ModelError, match=r"embeddings of 4 numbers; got 5"):
        head.score_embeddings([np.ones(5, np.float32)])


@pytest.mark.parametrize(("name", "layers", "width"), [("v2", "layers", 768), ("v2.5", "scoring_head", 1152)])
def test_heads_have_the_published_layout(name: str, layers: str, width: int) -> None:
    import torch

    from beholder.backends.aesthetic import read_maps

    published = layout(f"laion-aesthetic-{name}")
    assert published == head_shapes(width, layout=layers)
    maps = read_maps({key: torch.zeros(shape) for key, shape in published.items()}, name="x")
    assert [matrix.shape for matrix, _ in maps] == [(1024, width), (128, 1024), (64, 128), (16, 64), (1, 16)]


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda state: state.pop("layers.4.bias"), "missing: layers.4.bias"),
        (lambda state: state.update({"layers.8.weight": state["layers.7.weight"]}), "unexpected: layers.8.weight"),
        (lambda state: state.update({"layers.7.weight": state["layers.7.weight"].T}), "shapes"),
        # v1 is one map, and heads with activations have theirs elsewhere.
        (lambda state: [state.pop(key) for key in list(state) if not key.startswith("layers.0")], "missing"),
    ],
)
def test_head_files_that_do_not_fit(edit: Any, said: str, tmp_path: Path) -> None:
    path = make_head(tmp_path / "a.pth")
    change(path, edit)
    with pytest.raises(WeightsMismatchError, match=said):
        load(f"aesthetic:{path}", "EmbeddingHead")


def test_where_heads_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEHOLDER_CACHE", str(tmp_path / "cache"))
    with pytest.raises(WeightsMissingError, match=r"laion-aesthetic-v2 .*Apache-2\.0") as caught:
        resolve_model("laion-aesthetic-v2", capability="EmbeddingHead", options=OFFLINE)
    assert LAION_V2_FILE in str(caught.value)
    assert "github.com/christophschuhmann/improved-aesthetic-predictor" in str(caught.value)
    # A file of the published name is held to the published hash; OpenS2V's copy of another name is not known by hash.
    make_head(tmp_path / "cache" / LAION_V25_FILE, 1152, layout="scoring_head")
    with pytest.raises(WeightsMismatchError, match="sha256"):
        resolve_model("laion-aesthetic-v2.5", capability="EmbeddingHead", options=OFFLINE)
    folder = tmp_path / "opens2v"
    make_head(folder / "aesthetic-model.pth", 768)
    monkeypatch.setenv("WORLDFOUNDRY_OPENS2V_WEIGHT_DIR", str(folder))
    found = resolve_model("laion-aesthetic-v2", capability="EmbeddingHead", options=OFFLINE)
    assert found.card.files == ("aesthetic-model.pth",)
    assert found.id == "aesthetic:laion-v2"
    by_folder = resolve_model(f"aesthetic:{tmp_path / 'cache'}", capability="EmbeddingHead", options=OFFLINE)
    assert by_folder.card.files == (LAION_V25_FILE,)
    with pytest.raises(UnknownNameError, match=r"aesthetic:v2\.5"):
        resolve_model("aesthetic:v3", capability="EmbeddingHead", options=OFFLINE)


# ArtScore


def plain_forward(state: dict[str, Any], pixels: Any, depths: tuple[int, ...], *, dense: bool) -> Any:
    """ResNet with plain functions over the checkpoint's tensors, in float64."""
    import torch
    from torch.nn import functional

    state = {key: value.double() if value.is_floating_point() else value for key, value in state.items()}

    def norm(x: Any, name: str) -> Any:
        shape = (1, -1, 1, 1)
        mean, var = state[f"{name}.running_mean"].view(shape), state[f"{name}.running_var"].view(shape)
        return (x - mean) / torch.sqrt(var + 1e-5) * state[f"{name}.weight"].view(shape) + state[f"{name}.bias"].view(
            shape
        )

    x = functional.conv2d(pixels.double(), state["conv1.weight"], stride=2, padding=3)
    x = functional.max_pool2d(norm(x, "bn1").relu(), 3, 2, 1)
    for stage, depth in enumerate(depths):
        for at in range(depth):
            name, stride = f"layer{stage + 1}.{at}", 2 if at == 0 and stage else 1
            y = norm(functional.conv2d(x, state[f"{name}.conv1.weight"]), f"{name}.bn1").relu()
            y = functional.conv2d(y, state[f"{name}.conv2.weight"], stride=stride, padding=1)
            y = norm(functional.conv2d(norm(y, f"{name}.bn2").relu(), state[f"{name}.conv3.weight"]), f"{name}.bn3")
            if at == 0:
                x = norm(
                    functional.conv2d(x, state[f"{name}.downsample.0.weight"], stride=stride), f"{name}.downsample.1"
                )
            x = (x + y).relu()
    x = x.flatten(2).mean(2)
    if dense:
        x = functional.linear(x, state["fc.0.weight"], state["fc.0.bias"]).relu()
        return functional.linear(x, state["fc.3.weight"], state["fc.3.bias"])[:, 0]
    return functional.linear(x, state["fc.weight"], state["fc.bias"])[:, 0]


ARTSCORES = {
    ("resnet50", True): [-0.27049, -0.26979],
    ("resnet50", False): [-0.87893, -0.8531],
    ("resnet101", True): [-0.074929, -0.075184],
    ("resnet101", False): [-1.673507, -1.547128],
}
"""Golden scores of two pictures, by configuration: seed 2 of `make_artscore`, float32 on a CPU."""


@pytest.mark.parametrize(("arch", "dense"), list(ARTSCORES))
def test_artscore_in_all_four_configurations(arch: str, dense: bool, tmp_path: Path) -> None:
    import torch

    from beholder.backends.artscore import DEPTHS, architecture

    # The file's name says another configuration than its contents, on purpose.
    path = make_artscore(tmp_path / "model@resnet101_denseLayer@False.pth", arch, dense=dense, seed=2)
    state = torch.load(path, weights_only=True)
    assert architecture(state) == (arch, dense)
    scorer = load(f"artscore:{path}", "ImageScorer")
    prepared = [scorer.prepare([noise_picture(80, 60, seed=seed)]) for seed in (0, 1)]
    found = scorer.score_images(prepared).columns["score"]
    pixels = (torch.from_numpy(np.stack(prepared)) / 255 - torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)) / (
        torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    )
    expected = plain_forward(state, pixels, DEPTHS[arch], dense=dense).numpy()
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(found, ARTSCORES[arch, dense], rtol=2e-5, atol=2e-5)
    # eval mode: nothing random, and neighbours do not matter
    assert scorer.score_images(prepared).columns["score"].tolist() == found.tolist()
    np.testing.assert_allclose(scorer.score_images(prepared[1:]).columns["score"], found[1:], rtol=1e-5)


def test_both_resizings(tmp_path: Path) -> None:
    scorer = load(f"artscore:{make_artscore(tmp_path / 'a.pt')}", "ImageScorer")
    square, wide = noise_picture(300, 300, seed=0), noise_picture(100, 200, seed=1)
    shapes = [scorer.prepare([picture], resize=way).shape for picture in (square, wide) for way in ("train", "readme")]
    assert shapes == [(3, 224, 224), (3, 224, 224), (3, 224, 224), (3, 224, 448)]
    assert (scorer.prepare([square]) == scorer.prepare([square], resize="readme")).all()
    mixed = scorer.score_images([scorer.prepare([picture], resize="readme") for picture in (wide, square, wide)])
    scores = mixed.columns["score"]
    # Equal rows of a batch may differ in their last bits: which, depends on the processor.
    np.testing.assert_allclose(scores[0], scores[2], rtol=1e-5)
    assert scores[0] != scores[1]
    assert scores[0] != scorer.score_images([scorer.prepare([wide])]).columns["score"][0]


def test_pillow_resizes_as_torchvision_does(tmp_path: Path) -> None:
    from PIL import Image

    scorer = load(f"artscore:{make_artscore(tmp_path / 'a.pth')}", "ImageScorer")
    picture = noise_picture(301, 517, seed=4)
    squashed = Image.fromarray(picture.pixels).resize((224, 224), Image.Resampling.BILINEAR)
    assert (scorer.prepare([picture]) == np.asarray(squashed).transpose(2, 0, 1)).all()
    # The long side is cut to a whole number: 224 · 517 / 301 = 384.7…
    kept = Image.fromarray(picture.pixels).resize((384, 224), Image.Resampling.BILINEAR)
    assert (scorer.prepare([picture], resize="readme") == np.asarray(kept).transpose(2, 0, 1)).all()


def test_artscore_has_the_published_layout() -> None:
    import torch
    from torch import nn

    from beholder.backends.resnet import ResNet

    published = layout("artscore-resnet50")
    assert published == artscore_shapes(width=64)
    with torch.device("meta"):
        fc = nn.Sequential(nn.Linear(2048, 1000), nn.ReLU(), nn.Dropout(), nn.Linear(1000, 1))
        network = ResNet((3, 4, 6, 3), fc)
    assert {key: tuple(value.shape) for key, value in network.state_dict().items()} == published
    card = card_of("artscore:resnet50")
    assert card is not None
    assert "ranks and differences" in " ".join(card.notes)


@full_only  # torchvision comes with open_clip
def test_torchvisions_own_network_gives_the_same_values() -> None:
    import torch
    import torchvision
    from tests.models_scores import random_state

    from beholder.backends.artscore import load_network

    state = random_state(artscore_shapes(width=64), 3)
    theirs = torchvision.models.resnet50()
    theirs.fc = torch.nn.Sequential(
        torch.nn.Linear(2048, 1000), torch.nn.ReLU(), torch.nn.Dropout(), torch.nn.Linear(1000, 1)
    )
    theirs.load_state_dict(state, strict=True)
    pixels = torch.randn((1, 3, 96, 128), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        expected = theirs.eval()(pixels)
        found = load_network(state, name="x")(pixels)
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda state: state.pop("fc.3.weight"), "1 missing: fc.3.weight"),
        (lambda state: state.update({"fc.5.bias": state["fc.3.bias"]}), "1 unexpected: fc.5.bias"),
        (lambda state: state.pop("conv1.weight"), "without conv1.weight"),
        (lambda state: state.update({"fc.0.weight": state["fc.0.weight"][:, :-1]}), "of another shape"),
    ],
)
def test_artscore_files_that_do_not_fit(edit: Any, said: str, tmp_path: Path) -> None:
    path = make_artscore(tmp_path / "a.pth")
    change(path, edit)
    with pytest.raises(WeightsMismatchError, match=said):
        load(f"artscore:{path}", "ImageScorer")


def test_where_artscore_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEHOLDER_CACHE", str(tmp_path / "cache"))

    def resolve(name: str = "artscore") -> Any:
        return resolve_model(name, capability="ImageScorer", options=OFFLINE)

    folder = tmp_path / "weights"
    folder.mkdir()
    with pytest.raises(WeightsMissingError) as caught:
        resolve()
    assert ARTSCORE_FILE in str(caught.value)
    assert "github.com/jchen175/ArtScore" in str(caught.value)
    monkeypatch.setenv("WORLDFOUNDRY_CKPT_DIR", str(folder))
    with pytest.raises(WeightsMissingError, match="WORLDFOUNDRY_CKPT_DIR"):
        resolve()
    make_artscore(folder / "mine.pt")
    assert resolve().card.files == ("mine.pt",)
    make_artscore(folder / "other.pth", seed=1)
    with pytest.raises(OptionError, match=r"mine\.pt, other\.pth"):
        resolve()
    make_artscore(folder / ARTSCORE_FILE, seed=2)
    assert resolve().card.files == (ARTSCORE_FILE,)
    assert resolve(f"artscore:{folder / 'other.pth'}").id == "artscore:./other.pth"
    (folder / "readme.txt").write_text("text", encoding="utf-8")
    with pytest.raises(ModelError, match=r"\.pth or \.pt"):
        resolve(f"artscore:{folder / 'readme.txt'}")
    monkeypatch.delenv("WORLDFOUNDRY_CKPT_DIR")
    make_artscore(tmp_path / "cache" / ARTSCORE_FILE)
    assert resolve().id == "artscore:resnet50"
    with pytest.raises(UnknownNameError, match=r"artscore:resnet50"):
        resolve("artscore:vgg19")
