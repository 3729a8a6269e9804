"""IR-101 and RetinaFace: published layouts, strict loading, and forward passes written out with plain operations."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.models_faces import layout, random_state, save_retinaface
from torch.nn import functional

from beholder._errors import WeightsMismatchError
from beholder.backends.faces import ir101, retinaface_net
from beholder.backends.own_networks import assign_weights
from beholder.backends.torch_io import read_states

SMALL = ((8, 2), (12, 3))
"""An IR network of two stages for pictures of 16 pixels: every kind of block, few numbers."""


def shapes_of(network: Any) -> dict[str, tuple[int, ...]]:
    return {key: tuple(value.shape) for key, value in network.state_dict().items()}


@pytest.mark.parametrize(
    ("name", "build", "entries", "parameters"),
    [
        ("curricularface-ir-101", ir101.build, 917, 65_150_912),
        ("retinaface-mobilenet0.25", retinaface_net.build, 300, 426_608),
    ],
    ids=["ir-101", "retinaface"],
)
def test_layouts_are_the_published_ones(name: str, build: Any, entries: int, parameters: int) -> None:
    published = layout(name)
    assert shapes_of(build()) == published
    assert len(published) == entries
    buffers = re.compile(r"running_(mean|var)$|num_batches_tracked$")
    assert sum(math.prod(shape) for key, shape in published.items() if not buffers.search(key)) == parameters


def test_maps_of_ir_101_halve_at_every_stage() -> None:
    network = ir101.IR(tuple((8, count) for _, count in ir101.STAGES)).eval()
    sides, maps = [], network.input_layer(torch.zeros(1, 3, 112, 112))
    for block in network.body:
        maps = block(maps)
        sides.append(maps.shape[-1])
    assert [sides[0], sides[3], sides[16], sides[46], sides[48]] == [56, 28, 14, 7, 7]
    assert sum(1 for a, b in zip([112, *sides], sides) if a != b) == 4


def test_missing_wrong_and_foreign_entries_are_errors() -> None:
    state = random_state(shapes_of(ir101.IR(SMALL, 16, 6)))
    lacking = {key: value for key, value in state.items() if key != "body.2.shortcut_layer.1.bias"}
    with pytest.raises(WeightsMismatchError, match=r"1 missing: body\.2\.shortcut_layer\.1\.bias"):
        assign_weights(ir101.build(SMALL, 16, 6), lacking, name="x")
    with pytest.raises(WeightsMismatchError, match=r"1 unexpected: head\.kernel"):
        assign_weights(ir101.build(SMALL, 16, 6), {**state, "head.kernel": torch.zeros(3)}, name="x")
    with pytest.raises(WeightsMismatchError, match=r"of another shape: output_layer\.3\.bias \(7,\) instead of \(6,\)"):
        assign_weights(ir101.build(SMALL, 16, 6), {**state, "output_layer.3.bias": torch.zeros(7)}, name="x")


def test_counters_may_be_missing_and_allowed_extras_are_left_out() -> None:
    state = random_state(shapes_of(ir101.IR(SMALL, 16, 6)))
    bare = {key: value for key, value in state.items() if not key.endswith("num_batches_tracked")}
    extra = {**bare, "head.kernel": torch.zeros(3)}
    network = assign_weights(ir101.build(SMALL, 16, 6), extra, name="x", may_be_extra=[re.compile("^head")])
    same = assign_weights(ir101.build(SMALL, 16, 6), state, name="x")
    pixels = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 3, 16, 16)).astype(np.float32))
    assert torch.equal(network(pixels), same(pixels))
    assert not network.training
    assert not any(parameter.requires_grad for parameter in network.parameters())


def normal(x: Any, state: dict[str, Any], at: str) -> Any:
    """Batch normalisation by its formula."""
    shape = (1, -1) + (1,) * (x.ndim - 2)
    mean, variance = state[f"{at}.running_mean"].reshape(shape), state[f"{at}.running_var"].reshape(shape)
    y = (x - mean) / torch.sqrt(variance + 1e-5)
    if f"{at}.weight" not in state:
        return y
    return y * state[f"{at}.weight"].reshape(shape) + state[f"{at}.bias"].reshape(shape)


def prelu(x: Any, slopes: Any) -> Any:
    return torch.where(x > 0, x, x * slopes.reshape(1, -1, 1, 1))


def plain_ir(state: dict[str, Any], x: Any, strides: list[int]) -> Any:
    """The network from the description of its layout, tensor by tensor."""
    x = functional.conv2d(x, state["input_layer.0.weight"], padding=1)
    x = prelu(normal(x, state, "input_layer.1"), state["input_layer.2.weight"])
    for number, stride in enumerate(strides):
        at = f"body.{number}"
        y = normal(x, state, f"{at}.res_layer.0")
        y = normal(functional.conv2d(y, state[f"{at}.res_layer.1.weight"], padding=1), state, f"{at}.res_layer.2")
        y = prelu(y, state[f"{at}.res_layer.3.weight"])
        y = functional.conv2d(y, state[f"{at}.res_layer.4.weight"], stride=stride, padding=1)
        y = normal(y, state, f"{at}.res_layer.5")
        if f"{at}.shortcut_layer.0.weight" in state:
            x = functional.conv2d(x, state[f"{at}.shortcut_layer.0.weight"], stride=stride)
            x = normal(x, state, f"{at}.shortcut_layer.1")
        else:
            x = x[:, :, ::stride, ::stride]
        x = x + y
    x = normal(x, state, "output_layer.0").flatten(1)
    x = x @ state["output_layer.3.weight"].T + state["output_layer.3.bias"]
    return normal(x, state, "output_layer.4")


def test_ir_is_its_description() -> None:
    state = random_state(shapes_of(ir101.IR(SMALL, 16, 6)), seed=3)
    network = assign_weights(ir101.build(SMALL, 16, 6), state, name="x")
    pixels = torch.from_numpy(np.random.default_rng(1).normal(size=(2, 3, 16, 16)).astype(np.float32))
    found = network(pixels)
    torch.testing.assert_close(found, plain_ir(state, pixels, [2, 1, 2, 1, 1]), rtol=1e-4, atol=1e-5)
    # Golden: torch 2.13 on a CPU, from the seeds above.
    np.testing.assert_allclose(found[0, :3], [-6.373905, 5.756014, 1.497106], rtol=2e-4)


def block(state: dict[str, Any], x: Any, at: str, *, stride: int = 1, active: bool = True) -> Any:
    kernel = state[f"{at}.0.weight"]
    x = normal(functional.conv2d(x, kernel, stride=stride, padding=kernel.shape[-1] // 2), state, f"{at}.1")
    return torch.where(x > 0, x, 0.1 * x) if active else x


def separable(state: dict[str, Any], x: Any, at: str, stride: int) -> Any:
    depth = state[f"{at}.0.weight"]
    x = normal(functional.conv2d(x, depth, stride=stride, padding=1, groups=len(depth)), state, f"{at}.1")
    x = torch.where(x > 0, x, 0.1 * x)
    x = normal(functional.conv2d(x, state[f"{at}.3.weight"]), state, f"{at}.4")
    return torch.where(x > 0, x, 0.1 * x)


def enlarged(x: Any, like: Any) -> Any:
    """Nearest neighbour: place i takes floor(i · small / large)."""
    rows = torch.arange(like.shape[2]) * x.shape[2] // like.shape[2]
    columns = torch.arange(like.shape[3]) * x.shape[3] // like.shape[3]
    return x[:, :, rows][:, :, :, columns]


def plain_retinaface(state: dict[str, Any], x: Any) -> tuple[Any, Any, Any]:
    """The network from the description of its layout, for one picture, anchors flattened by loops."""
    x = block(state, x, "body.stage1.0", stride=2)
    levels = []
    for stage, strides in ((1, (0, 1, 2, 1, 2, 1)), (2, (2, 1, 1, 1, 1, 1)), (3, (2, 1))):
        for number, stride in enumerate(strides):
            if stride:
                x = separable(state, x, f"body.stage{stage}.{number}", stride)
        levels.append(x)
    p1, p2, p3 = (block(state, level, f"fpn.output{i + 1}") for i, level in enumerate(levels))
    p2 = block(state, p2 + enlarged(p3, p2), "fpn.merge2")
    p1 = block(state, p1 + enlarged(p2, p1), "fpn.merge1")
    found: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    for i, level in enumerate((p1, p2, p3)):
        at = f"ssh{i + 1}"
        five = block(state, level, f"{at}.conv5X5_1")
        seven = block(state, five, f"{at}.conv7X7_2")
        parts = [
            block(state, level, f"{at}.conv3X3", active=False),
            block(state, five, f"{at}.conv5X5_2", active=False),
            block(state, seven, f"{at}.conv7x7_3", active=False),
        ]
        features = torch.cat(parts, dim=1).clamp(min=0)
        for kind, (head, values) in enumerate((("BboxHead", 4), ("ClassHead", 2), ("LandmarkHead", 10))):
            weight, bias = state[f"{head}.{i}.conv1x1.weight"][:, :, 0, 0], state[f"{head}.{i}.conv1x1.bias"]
            for row in range(features.shape[2]):
                for column in range(features.shape[3]):
                    numbers = weight @ features[0, :, row, column] + bias
                    found[kind].extend(numbers[anchor * values : (anchor + 1) * values] for anchor in range(2))
    boxes, classes, points = (torch.stack(rows) for rows in found)
    return boxes, torch.exp(classes[:, 1]) / torch.exp(classes).sum(dim=1), points


@pytest.mark.parametrize("size", [(64, 96), (50, 37)])
def test_retinaface_is_its_description(tmp_path: Path, size: tuple[int, int]) -> None:
    state = read_states([save_retinaface(tmp_path, seed=5, prefix="module.")])
    network = assign_weights(retinaface_net.build(), state, name="x")
    pixels = torch.from_numpy(np.random.default_rng(2).normal(0, 50, (1, 3, *size)).astype(np.float32))
    with torch.inference_mode():
        found = network(pixels)
        expected = plain_retinaface(state, pixels)
    for mine, plain in zip(found, expected):
        torch.testing.assert_close(mine[0], plain, rtol=1e-3, atol=1e-4)
    assert found[1].shape == (1, sum(2 * math.ceil(size[0] / s) * math.ceil(size[1] / s) for s in (8, 16, 32)))
    if size == (64, 96):
        # Golden: torch 2.13 on a CPU, from the seeds above.
        np.testing.assert_allclose(
            [float(found[1][0, i]) for i in (0, 100, -1)], [0.683427, 0.31843, 0.530837], rtol=1e-3
        )
