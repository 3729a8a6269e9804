"""RetinaFace as a `FaceAnalyser`: boxes and five landmarks at full resolution, no embedding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import NoValue
from beholder.backends.base import Made, ResolvedModel
from beholder.backends.devices import choose_device, release_memory
from beholder.backends.faces.decode import decode_retina, retina_anchors
from beholder.backends.faces.rows import FaceRow, columns_of, one_picture, read_settings
from beholder.backends.forward import forward_pass
from beholder.backends.own_networks import assign_weights
from beholder.backends.tensors import to_numpy
from beholder.backends.torch_io import read_states

MEAN_BGR = (104.0, 117.0, 123.0)


@dataclass(frozen=True)
class RetinaSettings:
    """Settings of `analyse`.

    Args:
        threshold: a face's score is greater than this.
        overlap: of non-maximum suppression.
    """

    threshold: float = 0.5
    overlap: float = 0.4


class RetinaFaceAnalyser:
    """A loaded RetinaFace; a `FaceAnalyser`. Pictures enter in full size, one at a time, since sizes differ."""

    batch = 4
    takes_video = False

    def __init__(self, model: ResolvedModel, *, device: str) -> None:
        from beholder.backends.faces import retinaface_net

        self.model = model
        self.constants: Mapping[str, float] = {}
        self._device = choose_device(device, dtype=model.dtype)
        state = read_states([Path(model.locations["detector"])])
        self._network: Any = assign_weights(retinaface_net.build(), state, name=model.asked).to(self._device)

    def prepare(self, pictures: Sequence[Any]) -> np.ndarray:
        return one_picture(pictures)

    def analyse(self, visuals: Sequence[Any], **settings: Any) -> Made:
        """Columns of `FaceAnalyser` without "embedding"."""
        chosen = read_settings(RetinaSettings, settings, engine="retinaface")
        rows: list[FaceRow | NoValue] = [self._faces(pixels, chosen) for pixels in visuals]
        return columns_of(rows)

    def close(self) -> None:
        """Releases the network and, on a GPU, its memory."""
        self._network = None
        release_memory(self._device)

    def _faces(self, pixels: np.ndarray, settings: RetinaSettings) -> FaceRow:
        import torch

        height, width = pixels.shape[:2]
        values = pixels[:, :, ::-1].astype(np.float32) - np.asarray(MEAN_BGR, dtype=np.float32)
        tensor = torch.from_numpy(np.ascontiguousarray(values.transpose(2, 0, 1)))[None]
        with forward_pass():
            offsets, scores, points = (to_numpy(part[0]) for part in self._network(tensor.to(self._device)))
        found = decode_retina(
            offsets, scores, points, retina_anchors(height, width),
            threshold=settings.threshold, overlap=settings.overlap,
        )  # fmt: skip
        return FaceRow((width, height), found.boxes, found.scores, found.landmarks)
