"""ONNX models through onnxruntime: SCRFD as the detector, ArcFace as the recognition network."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import MissingExtraError, OptionError, WeightsMismatchError
from beholder.backends.faces.decode import Detections, decode_scrfd
from beholder.functional.opencv_pixels import resize_linear

STRIDES = (8, 16, 32)
_QUIET = 3


def open_session(path: Path, *, device: str, name: str) -> Any:
    """An onnxruntime session. On a GPU where onnxruntime was built for it and `device` is one, else on the CPU.

    Raises:
        MissingExtraError: no onnxruntime.
        WeightsMismatchError: the file does not load.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError(name, "onnxruntime", "faces") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _QUIET
    threads = os.environ.get("OMP_NUM_THREADS", "")
    options.intra_op_num_threads = int(threads) if threads.isdigit() else 0
    providers: list[Any] = ["CPUExecutionProvider"]
    kind, _, number = device.partition(":")
    if kind == "cuda" and "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        # Whole float32, as torch's networks have it (`forward.py`): a picture's faces are the same on every device.
        providers.insert(0, ("CUDAExecutionProvider", {"device_id": int(number or 0), "use_tf32": 0}))
    try:
        return onnxruntime.InferenceSession(str(path), sess_options=options, providers=providers)
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        raise WeightsMismatchError(
            f"{path.name} must be a whole ONNX model", got=f"{type(error).__name__}: {first}", fix="Fetch it again"
        ) from error


def fit_size(width: int, height: int, side: int) -> tuple[int, int]:
    """(width, height) of a picture scaled into a square with its shape kept, rounded down as InsightFace does.

    >>> fit_size(400, 300, 320)
    (320, 240)
    """
    if height / width > 1:
        return max(1, int(side / (height / width))), side
    return side, max(1, int(side * (height / width)))


class Scrfd:
    """InsightFace's detector SCRFD (det_10g and its kin with five landmarks).

    A picture is scaled into a square of `side` pixels (OpenCV's bilinear, no averaging), placed at its upper left
    corner with black beyond, and enters as RGB, (x − 127.5) / 128.

    Args:
        path: the ONNX file.
        device: device of the run.
        name: the model, for messages.

    Raises:
        WeightsMismatchError: a model with other outputs than scores, boxes and landmarks at strides 8, 16 and 32.
    """

    def __init__(self, path: Path, *, device: str, name: str) -> None:
        self._session = open_session(path, device=device, name=name)
        outputs = self._session.get_outputs()
        if len(outputs) != 3 * len(STRIDES):
            raise WeightsMismatchError(
                f"{path.name} must be an SCRFD detector with landmarks: nine outputs (scores, boxes and landmarks at "
                "strides 8, 16 and 32)",
                got=f"{len(outputs)} outputs",
            )
        entry = self._session.get_inputs()[0]
        self._input, self._fixed = entry.name, entry.shape[2] if isinstance(entry.shape[2], int) else None
        self._file = path.name

    def detect(self, pixels: np.ndarray, *, side: int, threshold: float, overlap: float = 0.4) -> Detections:
        """Faces of an RGB picture, in its pixels."""
        if side < max(STRIDES) or side % max(STRIDES) or self._fixed not in (None, side):
            only = f"; this file takes {self._fixed} only" if self._fixed else ""
            raise OptionError(f"det_size must be a multiple of 32{only}", got=str(side))
        height, width = pixels.shape[:2]
        new_width, new_height = fit_size(width, height, side)
        canvas = np.zeros((side, side, 3), dtype=np.uint8)
        canvas[:new_height, :new_width] = resize_linear(pixels, (new_width, new_height))
        values = (canvas.astype(np.float32) - np.float32(127.5)) / np.float32(128)
        outputs = self._session.run(None, {self._input: values.transpose(2, 0, 1)[None]})
        found = decode_scrfd(self._levels(outputs, side), (side, side), threshold=threshold, overlap=overlap)
        scale = np.float32(new_height / height)
        return Detections(found.boxes / scale, found.scores, found.landmarks / scale)

    def _levels(self, outputs: Sequence[np.ndarray], side: int) -> dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]]:
        levels: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        for number, stride in enumerate(STRIDES):
            score, box, points = (np.asarray(outputs[kind * 3 + number], dtype=np.float32) for kind in range(3))
            count = 2 * (side // stride) ** 2
            if (score.size, box.size, points.size) != (count, 4 * count, 10 * count):
                raise WeightsMismatchError(
                    f"{self._file} must give two anchors a place at stride {stride}: {count} scores",
                    got=f"{score.size} scores, {box.size} box and {points.size} landmark numbers",
                )
            levels[stride] = (score.reshape(-1), box.reshape(-1, 4), points.reshape(-1, 10))
        return levels


class ArcFaceOnnx:
    """A recognition network as an ONNX file (w600k_r50): aligned 112×112 RGB crops, (x − 127.5) / 127.5."""

    def __init__(self, path: Path, *, device: str, name: str) -> None:
        self._session = open_session(path, device=device, name=name)
        entry, out = self._session.get_inputs()[0], self._session.get_outputs()
        if list(entry.shape[1:]) != [3, 112, 112] or len(out) != 1:
            raise WeightsMismatchError(
                f"{path.name} must take pictures of 3×112×112 and give one embedding", got=f"input {entry.shape}"
            )
        self._input = entry.name

    def embed(self, crop: np.ndarray) -> np.ndarray:
        """(112, 112, 3) uint8 RGB to (d,) float32, not normalised."""
        values = (crop.astype(np.float32) - np.float32(127.5)) / np.float32(127.5)
        result: np.ndarray = self._session.run(None, {self._input: values.transpose(2, 0, 1)[None]})[0]
        return result.reshape(-1).astype(np.float32)
