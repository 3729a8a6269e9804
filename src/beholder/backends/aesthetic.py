"""Engine "aesthetic" for `EmbeddingHead`: LAION's aesthetic predictor v2, and the v2.5 of another author.

    aesthetic:laion-v2            sac+logos+ava1-l14-linearMSE.pth, on embeddings of OpenAI's CLIP ViT-L/14
    aesthetic:v2.5                aesthetic_predictor_v2_5.pth, on embeddings of SigLIP so400m-patch14-384
    aesthetic:/path/to/file.pth   a file in one of the two layouts

Both are five linear maps on the L2-normalised embedding, with dropouts between them in training and no activations.
There is no way to score an embedding that was not normalised: that is the classic error with these heads.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import ModelError, NoValue, WeightsMismatchError
from beholder.backends import cards_scores as names
from beholder.backends.base import LoadOptions, Made, ResolvedModel
from beholder.backends.describing import CardEngine, describe_parts
from beholder.backends.faces.find import Need, Part, find_parts
from beholder.backends.hashes import beholder_cache
from beholder.backends.names import BUILT_IN, ModelName, parse_name
from beholder.backends.places import Place
from beholder.backends.torch_io import read_states
from beholder.functional.similarity import normalise
from beholder.records import ModelCard, Status

OPENS2V_VARIABLE = "WORLDFOUNDRY_OPENS2V_WEIGHT_DIR"
PLACES = {"layers": (0, 2, 4, 6, 7), "scoring_head": (0, 2, 4, 6, 8)}
"""Layouts: the name of the list of layers, and where in it the linear maps stand."""

_PARTS = {
    "laion-v2": Part("head", names.LAION_V2_FILE, also=("aesthetic-model.pth",)),
    "v2.5": Part("head", names.LAION_V25_FILE, ("models",)),
}
_URLS = {"laion-v2": names.LAION_V2_URL, "v2.5": names.LAION_V25_URL}
_VARIABLES = {"laion-v2": OPENS2V_VARIABLE}
_PREPROCESSING = {"embedding": "L2-normalised", "arithmetic": "float64"}


class AestheticEngine(CardEngine):
    """Heads on embeddings, found by name or by file."""

    name = "aesthetic"

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        """A head runs in float64 whatever dtype was asked for: it is small and decides the value."""
        parsed = parse_name(name, engines=(*BUILT_IN, self.name))
        fix = "There is {known}; a file is written aesthetic:./file.pth"
        card = self.card(parsed, what="aesthetic head", fix=fix) or ModelCard(
            id=parsed.id, engine=self.name, family="aesthetic", arch="linear", weights=f"./{parsed.weights}",
            capabilities=("EmbeddingHead",),
        )  # fmt: skip
        kind = _kind(parsed)
        need = Need(
            name, card, (_PARTS[kind],), variable=_VARIABLES.get(kind),
            homes=(Place(beholder_cache(), "our cache"),), url=_URLS[kind] if parsed.path is None else None,
        )  # fmt: skip
        return describe_parts(
            parsed,
            card,
            find_parts(need, options, named=parsed.path),
            capability="EmbeddingHead",
            dtype="float32",
            preprocessing=_PREPROCESSING,
        )

    def load(self, model: ResolvedModel, *, device: str) -> AestheticHead:
        """The device does not matter: a head is too small to gain from one."""
        return AestheticHead(model)


def _kind(parsed: ModelName) -> str:
    """Which of the two published heads a name stands for; for a folder, the one whose file it holds."""
    if parsed.path is None:
        return parsed.weights
    held = (kind for kind, part in _PARTS.items() if (parsed.path / part.name).is_file())
    return next(held, "laion-v2")


class AestheticHead:
    """A loaded head; an `EmbeddingHead`. Constants: the least and the largest value that a unit vector can get."""

    batch = 256

    def __init__(self, model: ResolvedModel) -> None:
        self.model = model
        maps = read_maps(read_states([Path(model.location)]), name=model.asked)
        weight, bias = np.eye(maps[0][0].shape[1]), np.zeros(maps[0][0].shape[1])
        # Without activations five maps are one.
        for matrix, shift in maps:
            weight, bias = weight @ matrix.T, bias @ matrix.T + shift
        self._weight, self._bias = weight[:, 0], float(bias[0])
        reach = float(np.linalg.norm(self._weight))
        self.constants: Mapping[str, float] = {"low": self._bias - reach, "high": self._bias + reach}

    @property
    def width(self) -> int:
        """Width of the embeddings that it takes."""
        return len(self._weight)

    def score_embeddings(self, embeddings: Sequence[np.ndarray]) -> Made:
        """The column "score" (n,) float64 of embeddings (d,).

        Raises:
            ModelError: embeddings of another width: those of another encoder.
        """
        found = {np.shape(item) for item in embeddings}
        if found != {(self.width,)}:
            raise ModelError(
                f"{self.model.asked} scores embeddings of {self.width} numbers",
                got=", ".join(str(shape[-1] if shape else 1) for shape in found) + " numbers",
                fix="Use the encoder that it was trained on (option encoder)",
            )
        units = normalise(np.stack(list(embeddings)))
        # Row by row, so that no row's last bits depend on its neighbours.
        values = np.array([float(row @ self._weight) for row in units.vectors.astype(np.float64)]) + self._bias
        why = NoValue(Status.DEGENERATE_EMBEDDING, "the embedding of the image is zero or not finite: no direction")
        return Made({"score": values}, {int(row): why for row in np.flatnonzero(units.degenerate)})

    def close(self) -> None:
        """Nothing to release."""


def read_maps(state: Mapping[str, Any], *, name: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """The linear maps of a head, weight (out, in) and bias (out,) as float64, in their order.

    Raises:
        WeightsMismatchError: entries that are missing, unexpected, or whose shapes do not follow one another.
    """
    list_name = next((key for key in PLACES if f"{key}.0.weight" in state), "layers")
    wanted = [f"{list_name}.{place}.{part}" for place in PLACES[list_name] for part in ("weight", "bias")]
    missing, extra = sorted(set(wanted) - set(state)), sorted(set(state) - set(wanted))
    problems = [f"missing: {', '.join(missing)}"] if missing else []
    problems += [f"unexpected: {', '.join(extra[:12])}"] if extra else []
    if not problems:
        maps = [
            (_array(state[f"{list_name}.{place}.weight"]), _array(state[f"{list_name}.{place}.bias"]))
            for place in PLACES[list_name]
        ]
        chained = all(first[0].shape[0] == second[0].shape[1] for first, second in itertools.pairwise(maps))
        biases = all(matrix.ndim == 2 and shift.shape == matrix.shape[:1] for matrix, shift in maps)
        if biases and chained and len(maps[-1][1]) == 1:
            return maps
        problems = ["shapes: " + ", ".join(str(matrix.shape) for matrix, _ in maps)]
    raise WeightsMismatchError(
        f"the weights of {name} must be five linear maps in the layout of LAION's head or of v2.5",
        got="; ".join(problems),
        fix="The v1 predictor and heads with activations are other models",
    )


def _array(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.detach().cpu().double().numpy())


AESTHETIC = AestheticEngine()
