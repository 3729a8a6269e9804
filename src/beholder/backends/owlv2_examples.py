"""Engine "owlv2": OWLv2 prompted by a picture, an `ExampleDetector` through transformers' stock class.

Minderer et al. 2023, arXiv 2306.09683. The example's embedding is that of the one of its own boxes which the published
rule picks (high overlap with the whole example, and unlike its other boxes); scores are the sigmoid of its match.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from beholder._errors import ModelError, NoValue
from beholder.backends.base import LoadOptions, Made, ResolvedModel
from beholder.backends.cards import card_of
from beholder.backends.columns import object_column
from beholder.backends.describing import (
    FolderEngine,
    describe_files,
)
from beholder.backends.devices import choose_device, release_memory
from beholder.backends.files import Choice, choose_plain, read_json
from beholder.backends.forward import forward_pass
from beholder.backends.names import BUILT_IN, parse_name
from beholder.backends.segment.fit import CLIP, Fit, read_fit
from beholder.backends.tensors import on_device, to_numpy
from beholder.backends.torch_io import load_transformers
from beholder.functional.boxes import suppress
from beholder.media.base import Picture
from beholder.records import Status

FLOOR = 0.05
IOU = 0.3
"""Overlap over which a worse box goes: transformers' own for OWLv2's example boxes."""
MOST = 300
_FIT = Fit("square", (960, 960), "bilinear", *CLIP)


def choose(names: Any) -> Choice:
    """Weights, configuration and preprocessing; no text goes in, so no tokenizer."""
    return choose_plain(names, ("config.json",), also=("preprocessor_config.json",))


class Owlv2Engine(FolderEngine):
    """OWLv2 in transformers' layout: from the hub or from a folder."""

    name = "owlv2"

    def choose(self, names: Iterable[str]) -> Choice:
        return choose(names)

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        parsed = parse_name(name, engines=(*BUILT_IN, self.name))
        found = self.find(parsed, options)
        kind = read_json(found.folder / "config.json").get("model_type")
        if kind != "owlv2":
            raise ModelError("an OWLv2 is needed", got=f"model_type {kind!r} in {parsed.asked}")
        path = found.folder / "preprocessor_config.json"
        fit = read_fit(read_json(path) if path.is_file() else {}, _FIT)
        preprocessing = {"fit": fit.as_json(), "floor": FLOOR, "iou": IOU, "most": MOST}
        card = card_of(parsed.id) or dataclasses.replace(
            self.cards()[0], id=parsed.id, weights=parsed.weights, aliases=(), source=None
        )
        return describe_files(
            parsed, card, found, capability="ExampleDetector", dtype=dtype, preprocessing=preprocessing
        )

    def load(self, model: ResolvedModel, *, device: str) -> Owlv2Detector:
        return Owlv2Detector(model, device=device)


OWLV2 = Owlv2Engine()


class Owlv2Detector:
    """OWLv2 prompted by pictures; an `ExampleDetector`."""

    takes_video = False

    def __init__(self, model: ResolvedModel, *, device: str) -> None:
        self.model = model
        self.constants: Mapping[str, float] = {}
        self._device = choose_device(device, dtype=model.dtype)
        self.device = str(self._device)
        self.batch = self.pair_batch = 2 if self._device.type == "cpu" else 16
        self._network: Any = load_transformers(model, "Owlv2ForObjectDetection").to(self._device)
        self._fit = Fit.from_json(model.preprocessing["fit"])

    def prepare(self, pictures: Sequence[Picture]) -> tuple[np.ndarray, tuple[int, int]]:
        """A picture's pixels in OWLv2's square, and its (width, height)."""
        return self._fit(pictures[0].pixels), pictures[0].size

    def prepare_example(self, picture: Picture) -> np.ndarray:
        """(width,) float32: the embedding of an example.

        Raises:
            NoValue: `not_applicable`: none of its boxes covers enough of it.
        """
        with forward_pass():
            flat, grid = self._look(self._fit(picture.pixels))
            embedding, _, _ = self._network.embed_image_query(flat, grid)
            if embedding is None:
                raise NoValue(Status.NOT_APPLICABLE, "OWLv2 finds nothing in the example that it could look for")
            return to_numpy(embedding.reshape(-1, embedding.shape[-1])[0])

    def detect_examples(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, np.ndarray]]) -> Made:
        """Boxes over `FLOOR`, suppressed at 0.3, the best 300; see `ExampleDetector`."""
        boxes, scores = [], []
        with forward_pass():
            seen = {}
            for at in sorted({at for at, _ in pairs}):
                flat, grid = self._look(visuals[at][0])
                seen[at] = (flat, to_numpy(self._network.box_predictor(flat, grid)[0]))
            for at, example in pairs:
                flat, places = seen[at]
                query = on_device(example[None, None], self._device).to(flat.dtype)
                logits, _ = self._network.class_predictor(image_feats=flat, query_embeds=query)
                found = to_numpy(logits[0, :, 0].float().sigmoid())
                mine, score = _boxes(places, found, visuals[at][1])
                boxes.append(mine)
                scores.append(score)
        size = np.array([visuals[at][1][::-1] for at, _ in pairs], dtype=np.int32)
        return Made({"boxes": object_column(boxes), "scores": object_column(scores), "size": size})

    def close(self) -> None:
        """Releases the network and, on a GPU, its memory."""
        self._network = None
        release_memory(self._device)

    def _look(self, prepared: np.ndarray) -> tuple[Any, Any]:
        """(1, places, width) features of one picture, and the same as a map."""
        pixels = on_device(np.ascontiguousarray(prepared[None]), self._device).to(self._network.dtype)
        grid = self._network.image_embedder(pixel_values=pixels)[0]
        return grid.reshape(1, -1, grid.shape[-1]), grid


def _boxes(places: np.ndarray, scores: np.ndarray, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Boxes (centre and sides, as shares of the square) that are kept, in pixels of the picture, with their scores."""
    good = np.flatnonzero(scores > FLOOR)
    centre, half = places[good, :2].astype(np.float64), places[good, 2:].astype(np.float64) / 2
    corners = np.concatenate([centre - half, centre + half], axis=1) * max(size)
    kept = suppress(corners, scores[good], iou=IOU)[:MOST]
    cut = np.clip(corners[kept], 0, np.array([*size, *size])).astype(np.float32)
    return cut, scores[good][kept].astype(np.float32)
