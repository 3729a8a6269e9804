"""Engine "artscore" for `ImageScorer`: how much a picture looks like an artwork rather than a photograph.

    artscore, artscore:resnet50     the file of the repository jchen175/ArtScore
    artscore:/path/to/file.pth      a checkpoint of that layout: torchvision's ResNet-50 or -101 with the head fc.0 and
                                    fc.3 (2048 → 1000, ReLU, 1000 → 1), or the plain head fc (2048 → 1)

Which of the four it is, the names in the file say, not its file name. Places that are looked in: the folder that
WORLDFOUNDRY_CKPT_DIR names (the published file, or the only .pth or .pt in it), then those of all models.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import ModelError, OptionError, WeightsMismatchError
from beholder.backends import cards_scores as names
from beholder.backends.base import ImageScorer, LoadOptions, Made, ResolvedModel
from beholder.backends.describing import CardEngine, describe_parts
from beholder.backends.devices import choose_device, choose_dtype, release_memory
from beholder.backends.faces.find import Need, Part, find_parts
from beholder.backends.forward import forward_pass
from beholder.backends.hashes import beholder_cache
from beholder.backends.names import BUILT_IN, ModelName, parse_name
from beholder.backends.own_networks import assign_weights
from beholder.backends.places import Place
from beholder.backends.preprocess import Preprocessing
from beholder.backends.tensors import normalise, on_device, stacked
from beholder.backends.torch_io import read_states
from beholder.media.base import Picture
from beholder.records import ModelCard

VARIABLE = "WORLDFOUNDRY_CKPT_DIR"
SIDE = 224
DEPTHS = {"resnet50": (3, 4, 6, 3), "resnet101": (3, 4, 23, 3)}
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_SUFFIXES = (".pth", ".pt")
_PIXELS = {
    "train": Preprocessing("squash", (SIDE, SIDE), None, "even", "bilinear", 1 / 255, _MEAN, _STD),
    "readme": Preprocessing("shortest", (SIDE, SIDE), None, "even", "bilinear", 1 / 255, _MEAN, _STD),
}
_PART = Part("checkpoint", names.ARTSCORE_FILE, ("ckpt",))


class ArtScoreEngine(CardEngine):
    """The published checkpoint, and local ones."""

    name = "artscore"

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        parsed = parse_name(name, engines=(*BUILT_IN, self.name))
        fix = "There is {known}; a file is written artscore:./file.pth"
        card = self.card(parsed, what="ArtScore model", fix=fix) or ModelCard(
            id=parsed.id, engine=self.name, family="artscore", arch="resnet", weights=f"./{parsed.weights}",
            capabilities=("ImageScorer",), notes=self.cards()[0].notes,
        )  # fmt: skip
        file = _find(parsed, card, options)
        return describe_parts(
            parsed,
            dataclasses.replace(card, input_size=(SIDE, SIDE)),
            {"checkpoint": file},
            capability="ImageScorer",
            dtype=choose_dtype(dtype, size_bytes=file.stat().st_size),
            preprocessing={resize: pixels.as_json() for resize, pixels in _PIXELS.items()},
        )

    def load(self, model: ResolvedModel, *, device: str) -> ImageScorer:
        return ArtScorer(model, device=device)


ARTSCORE = ArtScoreEngine()


def _find(parsed: ModelName, card: ModelCard, options: LoadOptions) -> Path:
    """The checkpoint: the file or folder that was named, else from the places in their order, else fetched."""
    folder = os.environ.get(VARIABLE)
    named = parsed.path
    if named is None and folder:
        named = _only_file(Path(folder).expanduser(), VARIABLE)
    elif named is not None and named.is_dir():
        named = _only_file(named, parsed.asked)
    need = Need(
        parsed.asked, card, (_PART,), variable=VARIABLE, homes=(Place(beholder_cache(), "our cache"),),
        url=names.ARTSCORE_URL if parsed.path is None else None,
    )  # fmt: skip
    if named is not None and named.is_file() and named.suffix not in _SUFFIXES:
        raise ModelError("an ArtScore checkpoint must end in .pth or .pt", got=named.name)
    # `find_parts` knows a part by its file's ending; .pt is as good as .pth.
    parts = (dataclasses.replace(_PART, name=f"checkpoint{named.suffix}"),) if named and named.is_file() else (_PART,)
    return find_parts(dataclasses.replace(need, parts=parts), options, named=named)["checkpoint"]


def _only_file(folder: Path, what: str) -> Path | None:
    """The published file in a folder, or the only checkpoint there; None where there is none.

    Raises:
        OptionError: several checkpoints of other names.
    """
    if not folder.is_dir():
        return None
    published = [folder / place / _PART.name for place in ("", *_PART.folders)]
    hit = next((path for path in published if path.is_file()), None)
    if hit is not None:
        return hit
    found = sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES and path.is_file())
    if len(found) > 1:
        raise OptionError(
            f"the folder of {what} must hold one ArtScore checkpoint, or {_PART.name}",
            got=", ".join(path.name for path in found),
            fix="Name the file: artscore:/path/to/file.pth, or checkpoint_path=",
        )
    return found[0] if found else None


class ArtScorer:
    """A loaded ArtScore network; an `ImageScorer`. `resize` chooses between the two published preparations."""

    takes_video = False
    prepare_with = ("resize",)

    def __init__(self, model: ResolvedModel, *, device: str) -> None:
        self.model = model
        self.constants: Mapping[str, float] = {}
        self._device = choose_device(device, dtype=model.dtype)
        self.device = str(self._device)
        self.batch = 16 if self._device.type == "cpu" else 64
        state = read_states([Path(model.location)])
        arch, dense = architecture(state)
        self.network = f"{arch} with {'two maps' if dense else 'one map'} behind it"
        network = load_network(state, name=model.asked, dtype=model.dtype)
        self._network: Any = network.to(self._device)
        self._dtype = next(self._network.parameters()).dtype
        self._table = on_device(_PIXELS["train"].table(), self._device)

    def prepare(self, pictures: Sequence[Picture], resize: str = "train") -> np.ndarray:
        """(3, h, w) uint8: 224×224 for `train`, short side 224 for `readme`; thread-safe."""
        pixels = pictures[0].pixels
        if resize == "train":
            return _PIXELS["train"].to_uint8(pixels)
        # `to_uint8` holds a model to one size, which this way has not.
        height, width = _PIXELS["readme"].resized(*pixels.shape[:2])
        whole = dataclasses.replace(_PIXELS["readme"], resize="squash", size=(height, width))
        return whole.to_uint8(pixels)

    def to_float(self, picture: Picture, resize: str = "train") -> np.ndarray:
        """(3, h, w) float32: what the network is given of a picture."""
        prepared, table = self.prepare([picture], resize), _PIXELS["train"].table()
        return np.stack([table[channel][prepared[channel]] for channel in range(3)])

    def score_images(self, visuals: Sequence[Any]) -> Made:
        """The column "score" (n,) float32; pictures of one size go through the network together."""
        scores = np.zeros(len(visuals), dtype=np.float32)
        by_shape: dict[tuple[int, ...], list[int]] = {}
        for row, visual in enumerate(visuals):
            by_shape.setdefault(visual.shape, []).append(row)
        with forward_pass():
            for rows in by_shape.values():
                batch = on_device(stacked([visuals[row] for row in rows], self._device), self._device)
                pixels = normalise(batch, self._table).to(self._dtype)
                scores[rows] = self._network(pixels)[:, 0].float().cpu().numpy()
        return Made({"score": scores})

    def close(self) -> None:
        """Releases the network and, on a GPU, its memory."""
        self._network = None
        release_memory(self._device)


def architecture(state: Mapping[str, Any]) -> tuple[str, bool]:
    """(network, True for the head of two maps) that a checkpoint's names tell."""
    return "resnet101" if any(key.startswith("layer3.22.") for key in state) else "resnet50", "fc.weight" not in state


def load_network(state: Mapping[str, Any], *, name: str, dtype: str = "float32") -> Any:
    """The network with all of a checkpoint's tensors, in eval mode, on the CPU.

    Raises:
        WeightsMismatchError: a name is missing, unexpected, or of another shape.
    """
    import torch
    from torch import nn

    from beholder.backends.resnet import ResNet

    if "conv1.weight" not in state:
        raise WeightsMismatchError(
            f"the weights of {name} must be a ResNet in torchvision's layout", got="a file without conv1.weight"
        )
    arch, dense = architecture(state)
    width = int(state["conv1.weight"].shape[0])
    last, inner = 32 * width, int(state["fc.0.weight"].shape[0]) if "fc.0.weight" in state else 1000
    with torch.device("meta"):
        fc: nn.Module = nn.Linear(last, 1)
        if dense:
            fc = nn.Sequential(nn.Linear(last, inner), nn.ReLU(), nn.Dropout(), nn.Linear(inner, 1))
        network = ResNet(DEPTHS[arch], fc, width=width)
    return assign_weights(network, state, name=name, dtype=getattr(torch, dtype))
