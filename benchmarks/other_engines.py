"""torch's eager float32 beside torch.compile, ONNX Runtime, OpenVINO, and bfloat16: processor time of one thread.

Run by itself: `python -m benchmarks.other_engines [PATCH]` (32 by default). What is not installed is left out with a
word. Processor time, in turns, says which kernels are faster even where the machine is busy.
"""

from __future__ import annotations

import copy
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

BATCH, TIMES = 16, 4
Call = Callable[[], np.ndarray]


def main() -> None:
    import torch
    from transformers import CLIPConfig, CLIPModel

    patch = int(sys.argv[1]) if len(sys.argv) > 1 else 32
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tower = _tower(CLIPModel(CLIPConfig(vision_config={"patch_size": patch})).eval())
    pixels = torch.randn(BATCH, 3, 224, 224)
    with tempfile.TemporaryDirectory() as folder:
        calls = _calls(tower, pixels, Path(folder) / "tower.onnx")
        exact = calls["eager float32"]()
        took: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(TIMES):
            for name, call in calls.items():
                began = time.process_time()
                call()
                took[name].append(time.process_time() - began)
        for name, call in calls.items():
            speed = min(took["eager float32"]) / min(took[name])
            apart = _apart(call(), exact)
            sys.stdout.write(f"{name}: {min(took[name]):.3f} s, {speed:.2f} × eager, 1 − cos ≤ {apart:.1e}\n")


def _tower(network: Any) -> Any:
    """The vision tower up to the projected embedding."""
    import torch

    class Tower(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, pixels: Any) -> Any:
            return self.network.get_image_features(pixel_values=pixels).pooler_output

    return Tower().eval().requires_grad_(False)


def _calls(tower: Any, pixels: Any, file: Path) -> dict[str, Call]:
    import torch

    def of_torch(network: Any, batch: Any) -> Call:
        def call() -> np.ndarray:
            with torch.no_grad():
                result: np.ndarray = network(batch).float().numpy()
                return result

        return call

    half = copy.deepcopy(tower).to(torch.bfloat16)
    calls = {"eager float32": of_torch(tower, pixels), "eager bfloat16": of_torch(half, pixels.to(torch.bfloat16))}
    more: dict[str, Callable[[], Call]] = {
        "torch.compile float32": lambda: of_torch(torch.compile(tower), pixels),
        "ONNX Runtime float32": lambda: _onnx_runtime(tower, pixels, file),
        "OpenVINO float32": lambda: _openvino(file, pixels.numpy(), "f32"),
        "OpenVINO bfloat16": lambda: _openvino(file, pixels.numpy(), "bf16"),
    }
    for name, make in more.items():
        try:
            call = make()
            call()  # builds and warms up
            calls[name] = call
        except Exception as error:  # whatever another engine raises says only that it does not run here
            sys.stdout.write(f"{name}: not runnable: {type(error).__name__}: {str(error)[:120]}\n")
    return calls


def _onnx_runtime(tower: Any, pixels: Any, file: Path) -> Call:
    import onnxruntime
    import torch

    torch.onnx.export(tower, (pixels,), str(file), dynamo=False, opset_version=17, input_names=["pixels"])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return lambda: np.asarray(session.run(None, {"pixels": pixels.numpy()})[0])


def _openvino(file: Path, pixels: np.ndarray, precision: str) -> Call:
    import openvino

    settings = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": precision}
    core = openvino.Core()
    request = core.compile_model(core.read_model(str(file)), "CPU", settings).create_infer_request()
    return lambda: np.asarray(request.infer({0: pixels})[0])


def _apart(one: np.ndarray, other: np.ndarray) -> float:
    """The largest 1 − cos of a row of one with the same row of the other."""
    unit = [rows / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True) for rows in (one, other)]
    return float(np.abs(1 - (unit[0] * unit[1]).sum(axis=1)).max())


if __name__ == "__main__":
    main()
