"""CLIP-FlanT5, the model of VQAScore: CLIP's vision tower, a small projector, and Flan-T5.

The checkpoint's layout and the prompt follow github.com/linzhiqiu/CLIP-FlanT5 (see
tests/reference/layouts/clip_flant5.json). The modules are transformers' own; only the wiring is ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import ModelError, WeightsMismatchError
from beholder.backends.encoder_decoder import Row, T5AnswerScorer, check_head
from beholder.backends.files import Choice, choose_hf, read_json
from beholder.backends.hf_config import image_config
from beholder.backends.preprocess import read_preprocessor
from beholder.backends.torch_io import check_keys, fill_network, read_states
from beholder.media.base import Picture

SYSTEM = (
    "A chat between a curious user and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user's questions."
)
BEFORE, BEHIND, TAIL = SYSTEM + " USER: ", "\n", " ASSISTANT: "
"""Text in front of the picture; between picture and question; behind the question."""
MAX_TOKENS = 2048
"""Tokens that a prompt may have, the picture counted as one; T5 itself has no limit."""

TOWERS: dict[str, dict[str, Any]] = {
    "openai/clip-vit-large-patch14-336": {
        "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
        "image_size": 336, "patch_size": 14, "hidden_act": "quick_gelu", "layer_norm_eps": 1e-5,
    },
}  # fmt: skip
"""Vision towers by the name in `mm_vision_tower`. Their weights lie inside the checkpoint, their shape does not."""

_TOWER, _PROJECTOR = "vision_tower.vision_tower.", "mm_projector."
_ALIASES = ("embed_tokens.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
_OURS = ("mm_", "vision_config", "model_type", "architectures", "transformers_version", "_name_or_path")


@dataclass(frozen=True)
class ClipT5Config:
    """What the `config.json` of a CLIP-FlanT5 says.

    Args:
        tower: settings of the CLIP vision tower.
        select_layer: which of the tower's hidden states is used (-2: before the last layer).
        depth: linear layers of the projector, with GELU between them.
        width: T5's width.
        language: T5's own settings.
    """

    tower: Mapping[str, Any]
    select_layer: int
    depth: int
    width: int
    language: Mapping[str, Any]

    @property
    def image_size(self) -> int:
        return int(self.tower["image_size"])

    @property
    def visual_tokens(self) -> int:
        """Tokens that a picture becomes: one a patch (576 for ViT-L/14 at 336 pixels)."""
        return int((self.image_size // int(self.tower["patch_size"])) ** 2)


def read_clip_t5(raw: Mapping[str, Any]) -> ClipT5Config:
    """Reads the content of a `config.json`.

    Raises:
        ModelError: a vision tower, a projector or a choice of features that is not served.
    """
    name = str(raw.get("mm_vision_tower"))
    tower = raw.get("vision_config") or TOWERS.get(name)
    if tower is None:
        raise ModelError(
            f"CLIP-FlanT5's mm_vision_tower must be one of {', '.join(TOWERS)}, or have a vision_config beside it",
            got=repr(name),
        )
    if int(raw.get("mm_hidden_size", tower["hidden_size"])) != int(tower["hidden_size"]):
        raise ModelError(
            f"mm_hidden_size must be the vision tower's width, {tower['hidden_size']}", got=repr(raw["mm_hidden_size"])
        )
    if raw.get("mm_vision_select_feature", "patch") != "patch" or raw.get("mm_use_im_start_end"):
        raise ModelError(
            "CLIP-FlanT5 takes patch tokens only, without start and end tokens around them",
            got=f"mm_vision_select_feature {raw.get('mm_vision_select_feature')!r}, "
            f"mm_use_im_start_end {raw.get('mm_use_im_start_end')!r}",
        )
    language = {key: value for key, value in raw.items() if not key.startswith(_OURS)}
    return ClipT5Config(
        tower=dict(tower),
        select_layer=int(raw.get("mm_vision_select_layer", -2)),
        depth=_depth(str(raw.get("mm_projector_type", "linear"))),
        width=int(raw["d_model"]),
        language=language,
    )


def _depth(kind: str) -> int:
    if kind == "linear":
        return 1
    number = kind.removeprefix("mlp").removesuffix("x_gelu")
    if kind != f"mlp{number}x_gelu" or not number.isdigit() or int(number) < 1:
        raise ModelError("mm_projector_type must be linear or mlpNx_gelu", got=repr(kind))
    return int(number)


def choose_clip_t5(names: Any) -> Choice:
    """The files of a CLIP-FlanT5: the published repositories have no preprocessor_config.json, and need none."""
    choice = choose_hf(names)
    return replace(choice, missing=tuple(name for name in choice.missing if name != "preprocessor_config.json"))


def pad_to_square(pixels: np.ndarray, colour: Sequence[int]) -> np.ndarray:
    """(H, W, 3) uint8 in the middle of a square of `colour`; an odd pixel of margin goes to the right or the bottom."""
    height, width = pixels.shape[:2]
    side = max(height, width)
    if height == width:
        return pixels
    square = np.empty((side, side, 3), dtype=np.uint8)
    square[:] = np.asarray(colour, dtype=np.uint8)
    top, left = (side - height) // 2, (side - width) // 2
    square[top : top + height, left : left + width] = pixels
    return square


class ClipFlanT5(T5AnswerScorer):
    """CLIP-FlanT5 as an `AnswerScorer`.

    Seen once a picture: vision tower and projector. T5's encoder reads picture and question together, so it runs for
    every pair. The prompt is `SYSTEM` + " USER: ", the picture's tokens, then a line break, the question and
    " ASSISTANT: ". Both pieces of text end in T5's end token, as in training: the first one stands before the picture.
    """

    @staticmethod
    def describe(raw: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        """The preprocessing, JSON-ready, from the files alone."""
        config = read_clip_t5(raw)
        given = any((folder / name).is_file() for name in ("preprocessor_config.json", "processor_config.json"))
        pixels = read_preprocessor(
            image_config(folder) if given else {}, model_type="clip", image_size=config.image_size
        )
        if pixels.input_size != (config.image_size, config.image_size):
            raise ModelError(
                f"the vision tower takes pictures of {config.image_size}×{config.image_size} pixels",
                got=f"{pixels.input_size[0]}×{pixels.input_size[1]} from the preprocessing configuration",
            )
        return {
            **pixels.as_json(),
            "pad_to_square": [int(value * 255) for value in pixels.mean],
            "visual_tokens": config.visual_tokens,
            "text": {"max_tokens": MAX_TOKENS},
            "prompt": f"{BEFORE}<image>{BEHIND}{{question}}{TAIL}",
            "answer_end_token": True,
            "shared_by_texts": "vision tower and projector",
        }

    def prepare(self, pictures: Sequence[Picture]) -> np.ndarray:
        colour = self.model.preprocessing["pad_to_square"]
        return self._pixels.to_uint8(pad_to_square(pictures[0].pixels, colour))

    def _build(self) -> None:
        from transformers import CLIPVisionConfig, CLIPVisionModel, T5Config, T5ForConditionalGeneration

        name, dtype = self.model.asked, self.model.dtype
        folder = Path(self.model.location)
        config = read_clip_t5(read_json(folder / "config.json"))
        parts = split_state(read_states(folder / str(item) for item in self.model.details["weights"]), name=name)
        projector = _projector(config)
        _fill_module(projector, parts.projector, name=name, dtype=dtype)
        tower = fill_network(
            CLIPVisionModel, CLIPVisionConfig(**config.tower), parts.tower, name=f"{name} (vision tower)", dtype=dtype
        )
        language = fill_network(
            T5ForConditionalGeneration,
            T5Config.from_dict(dict(config.language)),
            parts.language,
            name=name,
            dtype=dtype,
        )
        check_head(language, parts.language, prefix="", name=name)
        self._layer = config.select_layer
        self._tower: Any = tower.to(self._device)
        self._projector: Any = projector.to(self._device)
        self._language = language.to(self._device)
        self._start_ids = self._tokenizer.ids(BEFORE)

    def _drop(self) -> None:
        self._tower = self._projector = None

    def _see(self, pixels: Any) -> Any:
        states = self._tower(pixel_values=pixels, output_hidden_states=True).hidden_states
        return self._projector(states[self._layer][:, 1:])  # without the class token

    def _rows(self, asked: Sequence[tuple[Any, str]]) -> list[Row]:
        import torch

        start, rows = self._embed(self._start_ids), []
        for seen, question in asked:
            text = self._tokenizer(BEHIND + question, tail=TAIL, limit=MAX_TOKENS - 1 - len(self._start_ids))
            embeddings = torch.cat([start, seen, self._embed(text.ids)])
            rows.append(Row(embeddings, len(self._start_ids) + text.n_tokens, text.truncated))
        return rows


@dataclass(frozen=True)
class Parts:
    """A checkpoint's tensors by part, under the names that the part's own module uses."""

    tower: dict[str, Any]
    projector: dict[str, Any]
    language: dict[str, Any]


def split_state(state: Mapping[str, Any], *, name: str) -> Parts:
    """Takes a CLIP-FlanT5 checkpoint apart. Copies of the shared embedding must equal it, and are left out.

    Raises:
        WeightsMismatchError: no weights of the vision tower, or copies that differ.
    """
    import torch

    tower, projector, language = {}, {}, {}
    for key, value in state.items():
        if key.startswith(_TOWER):
            tower[key.removeprefix(_TOWER)] = value
        elif key.startswith(_PROJECTOR):
            projector[key.removeprefix(_PROJECTOR)] = value
        else:
            language[key] = value
    shared = language.get("shared.weight")
    for alias in _ALIASES:
        copy = language.pop(alias, None)
        if copy is not None and shared is not None and not torch.equal(copy, shared):
            raise WeightsMismatchError(f"{alias} of {name} must equal shared.weight", got="another matrix")
        if copy is not None and shared is None:
            shared = language["shared.weight"] = copy
    if not tower:
        raise WeightsMismatchError(
            f"the checkpoint of {name} must hold its vision tower ({_TOWER}*)",
            got=f"{len(state)} tensors, none of it",
            fix="Use the published stage-2 checkpoint, which holds all of the model",
        )
    return Parts(tower, projector, language)


def _projector(config: ClipT5Config) -> Any:
    """Linear layers with GELU (exact, by erf) between them."""
    from torch import nn

    layers: list[Any] = [nn.Linear(int(config.tower["hidden_size"]), config.width)]
    for _ in range(1, config.depth):
        layers += [nn.GELU(), nn.Linear(config.width, config.width)]
    return nn.Sequential(*layers).eval().requires_grad_(False)


def _fill_module(module: Any, state: Mapping[str, Any], *, name: str, dtype: str) -> None:
    import torch

    wanted = module.state_dict()
    shapes = [
        (_PROJECTOR + key, tuple(state[key].shape), tuple(wanted[key].shape))
        for key in wanted
        if key in state and state[key].shape != wanted[key].shape
    ]
    check_keys(
        name,
        missing=[_PROJECTOR + key for key in wanted if key not in state],
        unexpected=[_PROJECTOR + key for key in state if key not in wanted],
        mismatched=shapes,
    )
    module.load_state_dict({key: value.to(getattr(torch, dtype)) for key, value in state.items()}, assign=True)
