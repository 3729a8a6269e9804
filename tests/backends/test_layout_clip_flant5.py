"""The published layout of CLIP-FlanT5 (tests/reference/layouts/clip_flant5.json) against what the loader takes."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models_t5 import T5, TOWER, clip_flant5_state

from beholder.backends.flan_t5 import TOWERS, ClipFlanT5, read_clip_t5, split_state

LAYOUT = json.loads(
    (Path(__file__).parents[1] / "reference" / "layouts" / "clip_flant5.json").read_text(encoding="utf-8")
)
REPEATED = ("encoder", "decoder", "tower")


def _expand(sizes: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """Every tensor's name and shape at the given sizes."""
    tensors = {}
    for pattern, shape in LAYOUT["tensors"].items():
        part = next((name for name in REPEATED if f"{{{name}}}" in pattern), None)
        for number in range(sizes[part] if part else 1):
            name = pattern.replace(f"{{{part}}}", str(number))
            tensors[name] = tuple(sizes[size] if isinstance(size, str) else size for size in shape)
    return tensors


def _published(name: str) -> dict[str, Any]:
    """The published config.json, as far as it is known."""
    sizes = LAYOUT["sizes"][name]
    return {
        **LAYOUT["config"], "d_model": sizes["d_model"], "d_kv": 64, "d_ff": sizes["d_ff"],
        "num_heads": sizes["heads"], "num_layers": 24, "num_decoder_layers": 24, "vocab_size": sizes["vocab"],
        "feed_forward_proj": "gated-gelu",
    }  # fmt: skip


def test_a_checkpoint_saved_in_this_layout_is_the_tiny_one_that_loads() -> None:
    sizes = {
        "d_model": T5["d_model"], "d_ff": T5["d_ff"], "heads": 4, "inner": 32, "vocab": T5["vocab_size"], "buckets": 32,
        "encoder": 2, "decoder": 2, "tower": TOWER["num_hidden_layers"], "tower_width": TOWER["hidden_size"],
        "tower_inner": TOWER["intermediate_size"], "patch": 6, "positions": 26,
    }  # fmt: skip
    state = clip_flant5_state(seed=0, scale=0.1)
    assert {key: tuple(value.shape) for key, value in state.items()} == _expand(sizes)
    for alias in LAYOUT["one_matrix"][1:]:
        assert torch.equal(state[alias], state["shared.weight"])


@pytest.mark.parametrize("name", list(LAYOUT["sizes"]))
def test_the_networks_of_the_published_sizes_want_exactly_these_tensors(name: str) -> None:
    from transformers import CLIPVisionConfig, CLIPVisionModel, T5Config, T5ForConditionalGeneration

    from beholder.backends.flan_t5 import _projector

    config = read_clip_t5(_published(name))
    with torch.device("meta"):
        language = T5ForConditionalGeneration(T5Config.from_dict(dict(config.language))).state_dict()
        tower = CLIPVisionModel(CLIPVisionConfig(**config.tower)).state_dict()
        projector = _projector(config).state_dict()
    wanted = {key: tuple(value.shape) for key, value in language.items()}
    wanted |= {f"mm_projector.{key}": tuple(value.shape) for key, value in projector.items()}
    for key, value in tower.items():
        wanted["vision_tower.vision_tower.vision_model." + key.removeprefix("vision_model.")] = tuple(value.shape)
    assert wanted == _expand(LAYOUT["sizes"][name])


@pytest.mark.parametrize("name", list(LAYOUT["download_bytes"]))
def test_the_tensors_in_bfloat16_are_the_size_of_the_download(name: str) -> None:
    """Without the tower's 607 MB, or with the embeddings stored three times, the sizes would not meet."""
    shapes = _expand(LAYOUT["sizes"][name])
    stored = 2 * sum(math.prod(shape) for key, shape in shapes.items() if key not in LAYOUT["one_matrix"][1:])
    spare = LAYOUT["download_bytes"][name] - stored
    assert 0 < spare < 10_000_000  # tokenizer, configuration, names


def test_every_tensor_goes_into_one_part() -> None:
    shapes = _expand(LAYOUT["sizes"]["clip-flant5-xl"])
    state = {key: torch.zeros(1) for key in shapes}
    parts = split_state(state, name="x")
    assert len(parts.tower) == 5 + 2 + 24 * 16
    assert set(parts.projector) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    taken = itertools.chain(parts.tower, parts.projector, parts.language, LAYOUT["one_matrix"][1:])
    assert len(list(taken)) == len(shapes)


def test_the_published_configuration_gives_the_published_recipe(tmp_path: Path) -> None:
    raw = _published("clip-flant5-xxl")
    config = read_clip_t5(raw)
    assert (config.select_layer, config.depth, config.width) == (-2, 2, 4096)
    assert config.tower == TOWERS["openai/clip-vit-large-patch14-336"]
    described = ClipFlanT5.describe(raw, tmp_path)  # the published repository has no preprocessor_config.json
    assert described["visual_tokens"] == 576
    assert described["crop"] == [336, 336]
    assert described["resize"] == "shortest"
    assert described["interpolation"] == "bicubic"
    assert described["pad_to_square"] == [122, 116, 104]
