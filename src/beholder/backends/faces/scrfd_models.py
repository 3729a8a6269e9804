"""SCRFD with a recognition network: CurricularFace (our own IR-101) and InsightFace's ArcFace."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import NoValue
from beholder.backends.base import Made, ResolvedModel
from beholder.backends.devices import choose_device, release_memory
from beholder.backends.faces.decode import Detections
from beholder.backends.faces.onnx import ArcFaceOnnx, Scrfd
from beholder.backends.faces.rows import FaceRow, align_failed, columns_of, one_picture, read_settings
from beholder.backends.forward import forward_pass
from beholder.backends.own_networks import assign_weights
from beholder.backends.tensors import to_numpy
from beholder.backends.torch_io import read_states
from beholder.functional.faces import ARCFACE_TEMPLATE, similarity_transform
from beholder.functional.opencv_pixels import halve, pad_constant, warp_affine

PAD_SHARE, PAD_GRAY = 0.25, 128


@dataclass(frozen=True)
class ScrfdSettings:
    """Settings of `analyse`.

    Args:
        det_size: side of the detector's square, a multiple of 32.
        threshold: a face's score is at least this.
        overlap: of non-maximum suppression.
        pad_retry: whether a picture without a face is looked at once more with a gray border; close-up faces need it.
    """

    det_size: int = 320
    threshold: float = 0.5
    overlap: float = 0.4
    pad_retry: bool = True


def align_face(pixels: np.ndarray, landmarks: np.ndarray, side: int) -> np.ndarray:
    """The face at the places of ArcFace's template, scaled to `side`: (side, side, 3) uint8.

    Raises:
        NoValue: `failed` for landmarks that cannot be aligned.
    """
    target = np.asarray(ARCFACE_TEMPLATE) * (side / 112)
    return warp_affine(pixels, similarity_transform(landmarks, target), (side, side))


class ScrfdModel(ABC):
    """Detects as OpenS2V does (a second look with a border), then embeds every face that was found."""

    batch = 8
    takes_video = False
    width = 512

    def __init__(self, model: ResolvedModel, *, device: str) -> None:
        self.model = model
        self.constants: Mapping[str, float] = {}
        self._device = choose_device(device, dtype=model.dtype)
        self._detector: Any = Scrfd(Path(model.locations["detector"]), device=str(self._device), name=model.asked)

    def prepare(self, pictures: Sequence[Any]) -> np.ndarray:
        return one_picture(pictures)

    def analyse(self, visuals: Sequence[Any], **settings: Any) -> Made:
        """All columns of `FaceAnalyser`; see `ScrfdSettings`."""
        chosen = read_settings(ScrfdSettings, settings, engine=self.model.card.engine)
        rows: list[FaceRow | NoValue] = []
        for pixels in visuals:
            try:
                rows.append(self._faces(pixels, chosen))
            except NoValue as error:
                rows.append(align_failed(error))
        return columns_of(rows)

    def close(self) -> None:
        """Releases the detector."""
        self._detector = None

    @abstractmethod
    def embed(self, crop_from: np.ndarray, landmarks: np.ndarray) -> np.ndarray:
        """One face to (d,) float32, not normalised."""

    @abstractmethod
    def crops(
        self, pixels: np.ndarray, padded: np.ndarray, shift: tuple[int, int]
    ) -> tuple[np.ndarray, tuple[int, int]]:
        """(picture to crop from, what to add to landmarks) for a face that was found in the padded picture."""

    def _faces(self, pixels: np.ndarray, settings: ScrfdSettings) -> FaceRow:
        found, source, shift, padded = self._detect(pixels, settings)
        rows = [self.embed(source, points + np.asarray(shift, dtype=np.float32)) for points in found.landmarks]
        embedding = np.stack(rows) if rows else np.zeros((0, self.width), dtype=np.float32)
        size = (pixels.shape[1], pixels.shape[0])
        return FaceRow(size, found.boxes, found.scores, found.landmarks, embedding, padded)

    def _detect(
        self, pixels: np.ndarray, settings: ScrfdSettings
    ) -> tuple[Detections, np.ndarray, tuple[int, int], bool]:
        """Faces in the picture's own pixels, the picture to crop from, what to add to landmarks there, second look."""
        options = {"side": settings.det_size, "threshold": settings.threshold, "overlap": settings.overlap}
        found = self._detector.detect(pixels, **options)
        if len(found) or not settings.pad_retry:
            return found, pixels, (0, 0), False
        padded, (left, top) = pad_constant(pixels, share=PAD_SHARE, value=PAD_GRAY)
        found = self._detector.detect(padded, **options).moved(left, top)
        source, shift = self.crops(pixels, padded, (left, top))
        return found, source, shift, len(found) > 0


class CurricularFaceAnalyser(ScrfdModel):
    """Crops at 224 from the picture itself, halved to 112, through IR-101; a `FaceAnalyser`."""

    def __init__(self, model: ResolvedModel, *, device: str) -> None:
        from beholder.backends.faces import ir101

        super().__init__(model, device=device)
        state = read_states([Path(model.locations["recognition"])])
        self._network: Any = assign_weights(ir101.build(), state, name=model.asked).to(self._device)

    def crops(
        self, pixels: np.ndarray, padded: np.ndarray, shift: tuple[int, int]
    ) -> tuple[np.ndarray, tuple[int, int]]:
        return pixels, (0, 0)

    def embed(self, crop_from: np.ndarray, landmarks: np.ndarray) -> np.ndarray:
        import torch

        crop = halve(align_face(crop_from, landmarks, 224)).astype(np.float32)
        values = (crop / np.float32(255) - np.float32(0.5)) / np.float32(0.5)
        tensor = torch.from_numpy(np.ascontiguousarray(values.transpose(2, 0, 1)))[None]
        # One face at a time: its numbers then depend on nothing else in the picture or the batch.
        with forward_pass():
            embedding: np.ndarray = to_numpy(self._network(tensor.to(self._device)))[0]
        return embedding

    def close(self) -> None:
        super().close()
        self._network = None
        release_memory(self._device)


class InsightFaceAnalyser(ScrfdModel):
    """Crops at 112 from the picture that the face was found in, through ArcFace; a `FaceAnalyser`."""

    def __init__(self, model: ResolvedModel, *, device: str) -> None:
        super().__init__(model, device=device)
        path = Path(model.locations["recognition"])
        self._recognition: Any = ArcFaceOnnx(path, device=str(self._device), name=model.asked)

    def crops(
        self, pixels: np.ndarray, padded: np.ndarray, shift: tuple[int, int]
    ) -> tuple[np.ndarray, tuple[int, int]]:
        return padded, shift

    def embed(self, crop_from: np.ndarray, landmarks: np.ndarray) -> np.ndarray:
        embedding: np.ndarray = self._recognition.embed(align_face(crop_from, landmarks, 112))
        return embedding

    def close(self) -> None:
        super().close()
        self._recognition = None
