"""Networks of transformers as parts of segmenters: detectors (phrase to boxes) and maskers (boxes to masks).

Each looks at one picture at a time, so that no number depends on a neighbour. What the stock processors do after the
network (thresholds, boxes to pixels, masks to the picture's size) is done here, and tested against them.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from beholder._errors import ModelError, NoValue
from beholder.backends.base import ResolvedModel
from beholder.backends.devices import choose_device, release_memory
from beholder.backends.forward import forward_pass
from beholder.backends.hf_text import HFTokenizer
from beholder.backends.segment.common import Instances
from beholder.backends.segment.fit import CLIP, HALF, IMAGENET, Fit
from beholder.backends.tensors import on_device, to_numpy
from beholder.backends.torch_io import load_transformers
from beholder.records import Status

_MOST_BOXES = 32
"""Boxes that become masks at once."""


class Facts(NamedTuple):
    """What is known of a family: transformers' class, its usual picture size, and the tokens of a phrase."""

    class_name: str
    fit: Fit
    tokens: int = 0


FAMILIES: dict[str, Facts] = {
    "sam3": Facts("Sam3Model", Fit("squash", (1008, 1008), "bilinear", *HALF), 32),
    "clipseg": Facts("CLIPSegForImageSegmentation", Fit("squash", (352, 352), "bilinear", *IMAGENET), 77),
    "gdino": Facts("GroundingDinoForObjectDetection", Fit("shortest", (800, 1333), "bilinear", *IMAGENET), 256),
    "mm-gdino": Facts("MMGroundingDinoForObjectDetection", Fit("shortest", (800, 1333), "bilinear", *IMAGENET), 256),
    "omdet": Facts("OmDetTurboForObjectDetection", Fit("squash", (640, 640), "bilinear", *IMAGENET), 77),
    "owlv2": Facts("Owlv2ForObjectDetection", Fit("square", (960, 960), "bilinear", *CLIP), 16),
    "sam": Facts("SamModel", Fit("longest", (1024, 1024), "bilinear", *IMAGENET)),
    "sam2": Facts("Sam2Model", Fit("squash", (1024, 1024), "bilinear", *IMAGENET)),
}


class Boxes(NamedTuple):
    """What a detector found: scores (k,) and boxes (k, 4) in pixels of the picture, cut to it."""

    scores: np.ndarray
    boxes: np.ndarray


class Part:
    """One network, on its device.

    Args:
        model: the segmenter's resolved model.
        role: which of its parts this is; its folder, weights, fit and family stand in the model under that name.
        device: "auto", "cpu", "cuda" …

    Raises:
        ModelError: transformers has no such class.
    """

    def __init__(self, model: ResolvedModel, role: str, *, device: str) -> None:
        import transformers

        facts = model.details["parts"][role]
        self.family, self.role, self.name = str(facts["family"]), role, model.asked
        class_name = FAMILIES[self.family].class_name
        if not hasattr(transformers, class_name):
            raise too_old(model.asked, transformers.__version__)
        folder = model.locations[role]
        own = dataclasses.replace(model, location=folder, details={"weights": facts["weights"]})
        self._device = choose_device(device, dtype=model.dtype)
        self.device = str(self._device)
        self.network: Any = load_transformers(own, class_name).to(self._device)
        self.dtype = self.network.dtype
        self.fit = Fit.from_json(model.preprocessing[role])
        tokens = int(facts.get("tokens", 0))
        self.tokenizer = HFTokenizer(Path(folder), length=tokens) if tokens else None

    def check(self, phrase: str) -> None:
        """Refuses a phrase of more tokens than the network takes.

        Raises:
            NoValue: naming both numbers.
        """
        if self.tokenizer is None:
            return
        count = int(self.tokenizer([self.written(phrase)]).n_tokens[0])
        if count > self.tokenizer.length:
            raise NoValue(
                Status.FAILED,
                f"segmentation prompt has {count} tokens, limit {self.tokenizer.length}: {phrase[:60]!r}",
            )

    def written(self, phrase: str) -> str:
        """The phrase as the network is given it."""
        return phrase

    def pixels(self, prepared: np.ndarray) -> Any:
        """A prepared picture as a batch of one on the device."""
        return on_device(np.ascontiguousarray(prepared[None]), self._device).to(self.dtype)

    def tokens(self, text: str, *, padded: bool = True) -> dict[str, Any]:
        """`input_ids` and `attention_mask` of one text, (1, n)."""
        assert self.tokenizer is not None
        found = self.tokenizer([text])
        end = self.tokenizer.length if padded else int(found.n_tokens[0])
        return {
            "input_ids": on_device(found.ids[:, :end], self._device),
            "attention_mask": on_device(found.mask[:, :end], self._device),
        }

    def close(self) -> None:
        """Releases the network and, on a GPU, its memory."""
        if self.network is not None:
            forget_results(self.network)
        self.network = None
        release_memory(self._device)


def forget_results(network: Any) -> None:
    """Empties the caches of a network's methods: they hold the modules of their results, and so weights."""
    for kind in {type(module) for module in network.modules()}:
        for method in list(vars(kind).values()):
            # transformers wraps some of these caches; the cache then is in the wrapper's closure.
            cells = getattr(method, "__closure__", None) if hasattr(method, "__wrapped__") else None
            for one in (method, *(_content(cell) for cell in cells or ())):
                if hasattr(one, "cache_clear"):
                    one.cache_clear()


def _content(cell: Any) -> Any:
    """What a closure's cell holds; None of one that was never filled."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def too_old(name: str, version: str) -> ModelError:
    """The error for a transformers that has no such model."""
    return ModelError(
        f"{name} needs transformers>=5.0",
        got=f"transformers {version}",
        fix="Update transformers, or use another segmenter: gdino+sam, owlv2+sam, clipseg, or masks",
    )


# detectors


class Detector(Part, ABC):
    """A network that finds boxes by a phrase."""

    def boxes(self, prepared: np.ndarray, size: Sequence[int], phrase: str, threshold: float) -> Boxes:
        """Boxes whose score is above the threshold."""
        with forward_pass():
            scores, relative = self.run(prepared, self.written(phrase))
        kept = scores > threshold
        centre, sides = relative[kept, :2], relative[kept, 2:]
        corners = np.concatenate([centre - sides / 2, centre + sides / 2], axis=1) * self.scale(size)
        height, width = size
        cut = np.clip(corners, 0, np.array([width, height, width, height], dtype=np.float64))
        return self.suppress(Boxes(scores[kept], cut.astype(np.float32)))

    def scale(self, size: Sequence[int]) -> np.ndarray:
        """What relative corners are multiplied with."""
        height, width = size
        return np.array([width, height, width, height], dtype=np.float64)

    def suppress(self, found: Boxes) -> Boxes:
        """Boxes without those that say the same; all of them, where the family does not do that."""
        return found

    @abstractmethod
    def run(self, prepared: np.ndarray, text: str) -> tuple[np.ndarray, np.ndarray]:
        """Scores (q,) and boxes (q, 4): centre and sides, as shares."""


class GroundingDino(Detector):
    """Grounding DINO and MM Grounding DINO: the score is the largest probability over the phrase's tokens."""

    def written(self, phrase: str) -> str:
        """Lower case with a full stop, as the model was trained."""
        return phrase.strip().lower().rstrip(".").rstrip() + "."

    def run(self, prepared: np.ndarray, text: str) -> tuple[np.ndarray, np.ndarray]:
        import torch

        pixels, tokens = self.pixels(prepared), self.tokens(text, padded=False)
        out = self.network(
            pixel_values=pixels,
            pixel_mask=torch.ones(pixels.shape[0], *pixels.shape[2:], dtype=torch.long, device=pixels.device),
            token_type_ids=torch.zeros_like(tokens["input_ids"]),
            **tokens,
        )
        return to_numpy(out.logits.float().sigmoid().amax(dim=-1)[0]), to_numpy(out.pred_boxes[0].float())


class OmDetTurbo(Detector):
    """OmDet-Turbo: one class, the task "Detect …."; boxes that overlap a better one by half or more are dropped."""

    overlap = 0.5

    def run(self, prepared: np.ndarray, text: str) -> tuple[np.ndarray, np.ndarray]:
        import torch

        names, task = self.tokens(text), self.tokens(f"Detect {text}.")
        out = self.network(
            pixel_values=self.pixels(prepared),
            classes_input_ids=names["input_ids"],
            classes_attention_mask=names["attention_mask"],
            tasks_input_ids=task["input_ids"],
            tasks_attention_mask=task["attention_mask"],
            classes_structure=torch.ones(1, dtype=torch.long, device=self._device),
        )
        scores = out.decoder_class_logits[0, :, 0].float().sigmoid()
        return to_numpy(scores), to_numpy(out.decoder_coord_logits[0].float())

    def suppress(self, found: Boxes) -> Boxes:
        kept: list[int] = []
        for at in np.argsort(-found.scores, kind="stable"):
            if all(box_overlap(found.boxes[at], found.boxes[other]) <= self.overlap for other in kept):
                kept.append(int(at))
        return Boxes(found.scores[kept], found.boxes[kept])

    def check(self, phrase: str) -> None:
        super().check(f"Detect {phrase}.")


class Owlv2(Detector):
    """OWLv2: its boxes are shares of the square that the picture was filled up to."""

    def scale(self, size: Sequence[int]) -> np.ndarray:
        return np.full(4, max(size), dtype=np.float64)

    def run(self, prepared: np.ndarray, text: str) -> tuple[np.ndarray, np.ndarray]:
        out = self.network(pixel_values=self.pixels(prepared), **self.tokens(text))
        return to_numpy(out.logits[0, :, 0].float().sigmoid()), to_numpy(out.pred_boxes[0].float())


def box_overlap(one: np.ndarray, other: np.ndarray) -> float:
    """Intersection over union of two boxes x0 y0 x1 y1; 0 where both are empty."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    shared = float(max(width, 0) * max(height, 0))
    areas = [float((box[2] - box[0]) * (box[3] - box[1])) for box in (one, other)]
    return shared / (sum(areas) - shared) if sum(areas) > shared else 0.0


# maskers


class Masker(Part):
    """SAM and SAM 2: a mask for each box."""

    def look(self, prepared: np.ndarray) -> Any:
        """The picture's embedding."""
        with forward_pass():
            return self.network.get_image_embeddings(self.pixels(prepared))

    def masks(self, seen: Any, size: Sequence[int], boxes: np.ndarray, mask_threshold: float) -> np.ndarray:
        """(k, H, W) bool: pixels whose probability is above the threshold."""
        import torch

        limit = _logit(mask_threshold)
        made = [np.zeros((0, *size), dtype=bool)]
        with forward_pass():
            for start in range(0, len(boxes), _MOST_BOXES):
                part = self._into_input(boxes[start : start + _MOST_BOXES], size)
                given = torch.from_numpy(part[None]).to(self._device).to(self.dtype)
                out = self.network(image_embeddings=seen, input_boxes=given, multimask_output=False)
                logits = self._to_picture(out.pred_masks[0].float(), size)
                made.append(np.asarray((logits[:, 0] > limit).cpu().numpy(), dtype=bool))
        return np.concatenate(made)

    def _into_input(self, boxes: np.ndarray, size: Sequence[int]) -> np.ndarray:
        height, width = self.fit.resized(*size)
        scale = np.array([width / size[1], height / size[0]] * 2)
        scaled: np.ndarray = (boxes.astype(np.float64) * scale).astype(np.float32)
        return scaled

    def _to_picture(self, logits: Any, size: Sequence[int]) -> Any:
        import torch

        def resize(values: Any, to: Sequence[int]) -> Any:
            return torch.nn.functional.interpolate(values, tuple(to), mode="bilinear", align_corners=False)

        if self.fit.kind == "longest":
            side = self.fit.size[1]
            height, width = self.fit.resized(*size)
            logits = resize(logits, (side, side))[..., :height, :width]
        return resize(logits, size)


def _logit(probability: float) -> float:
    if probability <= 0:
        return -math.inf
    return math.inf if probability >= 1 else math.log(probability / (1 - probability))


# networks that do both


class Sam3(Part):
    """SAM 3: instances by a phrase. The score is the instance's probability times that of the phrase being there."""

    def look(self, prepared: np.ndarray) -> Any:
        """The picture's features."""
        with forward_pass():
            return self.network.get_vision_features(self.pixels(prepared))

    def instances(
        self, seen: Any, size: Sequence[int], phrase: str, threshold: float, mask_threshold: float
    ) -> Instances:
        """The instances of a phrase."""
        import torch

        with forward_pass():
            out = self.network(vision_embeds=seen, **self.tokens(phrase))
            scores = (out.pred_logits[0].float().sigmoid() * out.presence_logits[0].float().sigmoid()).cpu()
            kept = scores > threshold
            if not bool(kept.any()):
                # The stock processor's masks have the network's size here, not the picture's.
                return Instances.none(size)
            soft = out.pred_masks[0].float()[kept.to(out.pred_masks.device)].sigmoid()[:, None]
            soft = torch.nn.functional.interpolate(soft, tuple(size), mode="bilinear", align_corners=False)
            masks = np.asarray((soft[:, 0] > mask_threshold).cpu().numpy(), dtype=bool)
            height, width = size
            limits = np.array([width, height, width, height], dtype=np.float64)
            boxes = np.clip(to_numpy(out.pred_boxes[0].float().cpu()[kept]) * limits, 0, limits)
        return Instances(masks, to_numpy(scores[kept]), boxes)


class ClipSeg(Part):
    """CLIPSeg: one soft mask a phrase; its score is its largest probability."""

    def look(self, prepared: np.ndarray) -> Any:
        return self.pixels(prepared)

    def instances(
        self, seen: Any, size: Sequence[int], phrase: str, threshold: float, mask_threshold: float
    ) -> Instances:
        """One instance, or none where no pixel is above the thresholds."""
        import torch

        with forward_pass():
            logits = self.network(pixel_values=seen, **self.tokens(phrase)).logits.float()
            # One phrase: releases differ in whether the axis of phrases is there.
            soft = logits.reshape(1, 1, *logits.shape[-2:]).sigmoid()
            soft = torch.nn.functional.interpolate(soft, tuple(size), mode="bilinear", align_corners=False)[0]
        best = float(soft.max())
        masks = np.asarray((soft > mask_threshold).cpu().numpy(), dtype=bool)
        return Instances(masks, np.array([best], dtype=np.float32)) if best > threshold else Instances.none(size)


CLASSES: Mapping[str, type[Part]] = {
    "sam3": Sam3, "clipseg": ClipSeg, "gdino": GroundingDino, "mm-gdino": GroundingDino, "omdet": OmDetTurbo,
    "owlv2": Owlv2, "sam": Masker, "sam2": Masker,
}  # fmt: skip
