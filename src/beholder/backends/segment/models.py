"""Loaded segmenters made of networks: one network, or a detector with a masker behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from beholder.backends.base import ResolvedModel
from beholder.backends.segment.common import Instances, SegmenterModel
from beholder.backends.segment.networks import CLASSES, Detector, Masker
from beholder.media.base import Picture


class OneNetwork(SegmenterModel):
    """SAM 3 and CLIPSeg."""

    def __init__(self, model: ResolvedModel, *, device: str) -> None:
        super().__init__(model)
        (role,) = model.details["parts"]
        self._part: Any = CLASSES[str(model.details["parts"][role]["family"])](model, role, device=device)
        self.device = self._part.device

    def payload(self, picture: Picture) -> Any:
        return self._part.fit(picture.pixels)

    def check(self, phrase: str) -> None:
        self._part.check(phrase)

    def look(self, payload: Any) -> Any:
        return self._part.look(payload)

    def find(self, seen: Any, size: Sequence[int], phrase: str, threshold: float, mask_threshold: float) -> Instances:
        found: Instances = self._part.instances(seen, size, phrase, threshold, mask_threshold)
        return found

    def close(self) -> None:
        self._part.close()


class BoxesThenMasks(SegmenterModel):
    """A detector finds boxes, a masker fills them; the score is the detector's."""

    def __init__(self, model: ResolvedModel, *, device: str) -> None:
        super().__init__(model)
        parts = model.details["parts"]
        detector = CLASSES[str(parts["detector"]["family"])](model, "detector", device=device)
        masker = CLASSES[str(parts["segmenter"]["family"])](model, "segmenter", device=device)
        assert isinstance(detector, Detector)
        assert isinstance(masker, Masker)
        self._detector, self._masker = detector, masker
        self.device = detector.device

    def payload(self, picture: Picture) -> Any:
        return self._detector.fit(picture.pixels), self._masker.fit(picture.pixels)

    def check(self, phrase: str) -> None:
        self._detector.check(phrase)

    def look(self, payload: Any) -> Any:
        # The masker's work waits until a box was found; `dict` keeps it for the other phrases.
        return {"detector": payload[0], "masker": payload[1]}

    def find(self, seen: Any, size: Sequence[int], phrase: str, threshold: float, mask_threshold: float) -> Instances:
        found = self._detector.boxes(seen["detector"], size, phrase, threshold)
        if not len(found.scores):
            return Instances.none(size)
        if "embedding" not in seen:
            seen["embedding"] = self._masker.look(seen["masker"])
        masks = self._masker.masks(seen["embedding"], size, found.boxes, mask_threshold)
        return Instances(masks, found.scores, found.boxes)

    def close(self) -> None:
        self._detector.close()
        self._masker.close()
