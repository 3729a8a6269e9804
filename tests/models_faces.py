"""Face models for tests: random weights in the published layouts, and tiny ONNX models that do what a test can see.

The SCRFD model marks places where a picture is bright in red and dark in blue: its score at stride 8 is
sigmoid(20 · (mean red − mean blue) / 2 − 10) of the 8×8 pixels beside the place; the coarser strides see nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

LAYOUTS = Path(__file__).with_name("reference") / "layouts"
SCRFD_REACH = ((1.0, 2.0, 3.0, 4.0), (2.0, 2.0, 2.0, 2.0))
"""Left, top, right and lower reach of the two anchors' boxes, in strides."""
SCRFD_POINTS = ((-1.0, -1.0), (1.0, -1.0), (0.0, 0.25), (-0.75, 1.5), (0.75, 1.5))
"""Where the five points lie from the place, in strides."""


def layout(name: str) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a published state dict."""
    raw = json.loads((LAYOUTS / f"{name}.json").read_text(encoding="utf-8"))
    return {key: tuple(shape) for key, shape in raw["tensors"].items()}


def random_state(shapes: dict[str, tuple[int, ...]], *, seed: int = 0, gain: float = 1.0) -> dict[str, Any]:
    """Weights from the seed alone: small around 0, variances around 1, scales around 1."""
    import torch

    generator = np.random.default_rng(seed)
    state: dict[str, Any] = {}
    for key, shape in shapes.items():
        if key.endswith("num_batches_tracked"):
            state[key] = torch.tensor(7)
            continue
        values = generator.standard_normal(shape, dtype=np.float32)
        if key.endswith("running_var"):
            values = np.float32(1) + np.float32(0.3) * np.tanh(values)
        elif len(shape) == 1 and key.endswith("weight"):
            values = np.float32(1) + np.float32(0.2) * np.tanh(values)
        elif len(shape) == 1:
            values *= np.float32(0.1)
        else:
            values *= np.float32(gain / np.sqrt(np.prod(shape[1:])))
        state[key] = torch.from_numpy(np.ascontiguousarray(values))
    return state


def save_retinaface(folder: Path, *, seed: int = 0, prefix: str = "") -> Path:
    """A RetinaFace file with random weights."""
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    state = random_state(layout("retinaface-mobilenet0.25"), seed=seed)
    path = folder / "mobilenet0.25_Final.pth"
    torch.save({prefix + key: value for key, value in state.items()}, path)
    return path


def save_scrfd(path: Path) -> Path:
    """A detector with the nine outputs of det_10g."""
    from onnx import TensorProto, helper, numpy_helper

    nodes, outputs, weights = [], [], []

    def constant(name: str, values: Any) -> str:
        weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    for kind, columns in (("score", 1), ("box", 4), ("points", 10)):
        for stride in (8, 16, 32):
            kernel = np.zeros((2 * columns, 3, stride, stride), dtype=np.float32)
            if kind == "score":
                bias = np.full(2, -10.0, dtype=np.float32)
                # Inputs run from -1 to 1: 10 at full difference. The second anchor is a little less sure.
                if stride == 8:
                    kernel[:, 0], kernel[:, 2] = 10 / 64, -10 / 64
                    bias[1] = -10.5
            else:
                rows = SCRFD_REACH if kind == "box" else (np.ravel(SCRFD_POINTS),) * 2
                bias = np.concatenate([np.asarray(row, dtype=np.float32) for row in rows])
            name = f"{kind}{stride}"
            inputs = ["picture", constant(f"{name}_w", kernel), constant(f"{name}_b", bias)]
            nodes.append(helper.make_node("Conv", inputs, [f"{name}_c"], strides=[stride, stride],
                                          kernel_shape=[stride, stride]))  # fmt: skip
            last = f"{name}_c"
            if kind == "score":
                nodes.append(helper.make_node("Sigmoid", [last], [f"{name}_s"]))
                last = f"{name}_s"
            nodes.append(helper.make_node("Transpose", [last], [f"{name}_t"], perm=[2, 3, 0, 1]))
            shape = constant(f"{name}_shape", np.array([-1, columns], dtype=np.int64))
            nodes.append(helper.make_node("Reshape", [f"{name}_t", shape], [name]))
            outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, columns]))
    picture = helper.make_tensor_value_info("picture", TensorProto.FLOAT, [1, 3, None, None])
    return _save(path, helper.make_graph(nodes, "scrfd", [picture], outputs, weights))


def save_arcface(path: Path, *, seed: int = 0) -> np.ndarray:
    """A recognition model: means of 16×16 blocks through a matrix, which is returned, (147, 512)."""
    from onnx import TensorProto, helper, numpy_helper

    matrix = np.random.default_rng(seed).standard_normal((147, 512), dtype=np.float32)
    nodes = [
        helper.make_node("AveragePool", ["crop"], ["pooled"], kernel_shape=[16, 16], strides=[16, 16]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "matrix"], ["embedding"]),
    ]
    crop = helper.make_tensor_value_info("crop", TensorProto.FLOAT, [None, 3, 112, 112])
    embedding = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, [None, 512])
    _save(path, helper.make_graph(nodes, "arcface", [crop], [embedding], [numpy_helper.from_array(matrix, "matrix")]))
    return matrix


def _save(path: Path, graph: Any) -> Path:
    import onnx

    path.parent.mkdir(parents=True, exist_ok=True)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    onnx.save(model, str(path))
    return path
