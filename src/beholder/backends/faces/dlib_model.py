"""dlib's frontal face detector, five-point predictor and recognition network as a `FaceAnalyser`."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beholder._errors import MissingExtraError, NoValue, WeightsMismatchError
from beholder.backends.base import Made, ResolvedModel
from beholder.backends.devices import choose_device
from beholder.backends.faces.rows import FaceRow, columns_of, one_picture, read_settings

WIDTH = 128


@dataclass(frozen=True)
class DlibSettings:
    """Settings of `analyse`.

    Args:
        upsample: how often the picture is doubled before it is searched: once finds faces of 40 pixels and more.
        threshold: a face's score is greater than this; dlib's own is 0.
    """

    upsample: int = 1
    threshold: float = 0.0


class DlibAnalyser:
    """A loaded dlib model; runs on the CPU. Boxes are dlib's rectangles: their right and lower pixels are inside."""

    batch = 8
    takes_video = False

    def __init__(self, model: ResolvedModel, *, device: str) -> None:
        try:
            import dlib
        except ImportError as error:
            raise MissingExtraError(model.asked, "dlib", "dlib") from error
        choose_device(device, dtype=model.dtype)
        self.model = model
        self.constants: Mapping[str, float] = {}
        self._dlib: Any = dlib
        self._detector: Any = dlib.get_frontal_face_detector()
        try:
            self._predictor: Any = dlib.shape_predictor(model.locations["landmarks"])
            self._network: Any = dlib.face_recognition_model_v1(model.locations["recognition"])
        except RuntimeError as error:
            raise WeightsMismatchError(f"the files of {model.asked} must be dlib's own", got=str(error)) from error
        # dlib's objects keep working memory of their own and are not made for several threads.
        self._lock = threading.Lock()

    def prepare(self, pictures: Sequence[Any]) -> np.ndarray:
        return one_picture(pictures)

    def analyse(self, visuals: Sequence[Any], **settings: Any) -> Made:
        """All columns of `FaceAnalyser`, embeddings of 128 numbers; see `DlibSettings`."""
        chosen = read_settings(DlibSettings, settings, engine="dlib")
        with self._lock:
            rows: list[FaceRow | NoValue] = [self._faces(pixels, chosen) for pixels in visuals]
        return columns_of(rows)

    def close(self) -> None:
        """Releases the networks."""
        self._detector = self._predictor = self._network = None

    def _faces(self, pixels: np.ndarray, settings: DlibSettings) -> FaceRow:
        rectangles, scores, _ = self._detector.run(pixels, settings.upsample, settings.threshold)
        order = np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable")
        boxes, landmarks, embeddings = [], [], []
        for number in order:
            rectangle = rectangles[int(number)]
            shape = self._predictor(pixels, rectangle)
            boxes.append([rectangle.left(), rectangle.top(), rectangle.right() + 1, rectangle.bottom() + 1])
            landmarks.append([[point.x, point.y] for point in shape.parts()])
            embeddings.append(np.asarray(self._network.compute_face_descriptor(pixels, shape, 0)))
        return FaceRow(
            (pixels.shape[1], pixels.shape[0]),
            np.asarray(boxes, dtype=np.float32).reshape(-1, 4),
            np.asarray(scores, dtype=np.float32)[order],
            np.asarray(landmarks, dtype=np.float32).reshape(-1, 5, 2),
            np.asarray(embeddings, dtype=np.float32).reshape(-1, WIDTH),
        )
