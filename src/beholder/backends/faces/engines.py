"""The engines "retinaface", "curricularface", "insightface" and "dlib": which files each needs, and what it is."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beholder.backends import cards_faces as names
from beholder.backends.base import LoadOptions, ResolvedModel
from beholder.backends.describing import CardEngine, describe_parts
from beholder.backends.devices import only_float32
from beholder.backends.faces.find import Need, Part, find_parts
from beholder.backends.hashes import beholder_cache
from beholder.backends.names import BUILT_IN, parse_name
from beholder.backends.places import Place
from beholder.records import ModelCard

OPENS2V_VARIABLE = "WORLDFOUNDRY_OPENS2V_WEIGHT_DIR"
_PACK = ("face_extractor/models/buffalo_l", "models/buffalo_l", "buffalo_l")

DETECTOR = Part("detector", names.DETECTOR_FILE, _PACK)
RECOGNITION = Part("recognition", names.RECOGNITION_FILE, _PACK)
BACKBONE = Part("recognition", names.BACKBONE_FILE, ("face_extractor",))
RETINAFACE = Part("detector", names.RETINAFACE_FILE)
PREDICTOR = Part("landmarks", names.PREDICTOR_FILE, ("models",))
DLIB_NETWORK = Part("recognition", names.DLIB_FILE, ("models",))

_SCRFD_INPUT = {
    "resize": "square of det_size, shape kept, upper left, black beyond; OpenCV bilinear",
    "colour": "RGB",
    "scale": "(x - 127.5) / 128",
    "retry": "once with a border of 25 % gray 128",
}


class FaceEngine(CardEngine):
    """One family of face models: finds its files and loads them as a `FaceAnalyser`.

    Args:
        name: the engine's name.
        parts: the files of its model.
        preprocessing: how a picture enters the networks, JSON-ready.
        loader: "module:class" of the loaded model.
    """

    def __init__(self, name: str, parts: tuple[Part, ...], preprocessing: Mapping[str, Any], loader: str) -> None:
        self.name, self._parts, self._preprocessing, self._loader = name, parts, preprocessing, loader

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        parsed = parse_name(name, engines=(*BUILT_IN, self.name))
        known = self.cards()[0]
        card = self.card(parsed, what="model", fix="Or name a folder with it")
        card = card or dataclasses.replace(known, id=parsed.id, weights=f"./{parsed.weights}", sha256={}, aliases=())
        dtype = only_float32(dtype)
        need = self._need(name, card if parsed.path is None else dataclasses.replace(card, source=known.source))
        found = find_parts(need, options, named=parsed.path)
        return describe_parts(
            parsed,
            card,
            found,
            capability="FaceAnalyser",
            dtype=dtype,
            preprocessing={**self._preprocessing, **self._versions()},
            location=next(iter(found.values())).parent,
            locations={role: str(path) for role, path in found.items()},
        )

    def load(self, model: ResolvedModel, *, device: str) -> Any:
        module, _, attribute = self._loader.partition(":")
        return getattr(importlib.import_module(module), attribute)(model, device=device)

    def _need(self, asked: str, card: ModelCard) -> Need:
        cache = Place(beholder_cache(), "our cache")
        if self.name == "retinaface":
            hub = Path(os.environ.get("TORCH_HOME") or "~/.cache/torch").expanduser() / "hub" / "checkpoints"
            return Need(asked, card, self._parts, homes=(cache, Place(hub, "torch.hub")), url=names.RETINAFACE_URL)
        if self.name == "dlib":
            return Need(asked, card, self._parts, homes=(cache, *_dlib_data()), package="dlib", extra="dlib")
        root = Place(Path("~/.insightface").expanduser(), "InsightFace")
        return Need(
            asked, card, self._parts, variable=OPENS2V_VARIABLE, homes=(cache, root), package="onnxruntime",
            extra="faces",
        )  # fmt: skip

    def _versions(self) -> dict[str, str]:
        """dlib's detector stands in its program, so its version is part of what the numbers depend on."""
        if self.name != "dlib":
            return {}
        for package in ("dlib", "dlib-bin"):
            try:
                return {"dlib": importlib.metadata.version(package).partition(".post")[0]}
            except importlib.metadata.PackageNotFoundError:
                continue
        return {"dlib": "unknown"}


def _dlib_data() -> tuple[Place, ...]:
    """The folder of the data package, which is not imported: its own start needs an old setuptools."""
    spec = importlib.util.find_spec("face_recognition_models")
    folders = (spec.submodule_search_locations or ()) if spec is not None else ()
    return tuple(Place(Path(folder), "the package face-recognition-models") for folder in folders)


RETINAFACE_ENGINE = FaceEngine(
    "retinaface",
    (RETINAFACE,),
    {"library": "numpy", "resize": "none", "colour": "BGR", "mean": [104, 117, 123], "scale": 1},
    "beholder.backends.faces.retinaface:RetinaFaceAnalyser",
)
CURRICULARFACE_ENGINE = FaceEngine(
    "curricularface",
    (BACKBONE, DETECTOR),
    {
        "library": "numpy", "arithmetic": "OpenCV 4", "detector": _SCRFD_INPUT, "align": "ArcFace template at 224",
        "crop": "the picture itself", "shrink": "2×2 mean to 112", "colour": "RGB", "scale": "(x / 255 - 0.5) / 0.5",
    },
    "beholder.backends.faces.scrfd_models:CurricularFaceAnalyser",
)  # fmt: skip
INSIGHTFACE_ENGINE = FaceEngine(
    "insightface",
    (DETECTOR, RECOGNITION),
    {
        "library": "numpy", "arithmetic": "OpenCV 4", "detector": _SCRFD_INPUT, "align": "ArcFace template at 112",
        "crop": "the picture that the face was found in", "colour": "RGB", "scale": "(x - 127.5) / 127.5",
    },
    "beholder.backends.faces.scrfd_models:InsightFaceAnalyser",
)  # fmt: skip
DLIB_ENGINE = FaceEngine(
    "dlib",
    (PREDICTOR, DLIB_NETWORK),
    {"library": "dlib", "detector": "HOG, frontal", "align": "five points, 150×150, padding 0.25", "jitter": 0},
    "beholder.backends.faces.dlib_model:DlibAnalyser",
)
