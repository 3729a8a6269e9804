"""Engine "gme": Qwen2-VL as an encoder of texts and pictures into one space (GME, Zhang et al. 2024, arXiv 2412.16855).

    gme-qwen2-vl-7b                         known by name; WORLDFOUNDRY_GME_MODEL_PATH names a folder for it
    gme:Alibaba-NLP/gme-Qwen2-VL-7B-Instruct, gme:org/name@rev, gme:/path/to/folder

A text or picture is written into a chat form that ends in one more token, and the decoder's state at that token, before
any projection, is the embedding. Positions are counted 0, 1, 2 …, not in three dimensions as Qwen2-VL itself does.
Items of one length go through together and nothing is ever padded, so there is no padding side to choose.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import ModelError, WeightsMissingError
from beholder.backends import hub
from beholder.backends.base import Columns, LoadOptions, ResolvedModel
from beholder.backends.cards import card_of
from beholder.backends.cards_opens2v import GME_REPO
from beholder.backends.describing import (
    TRANSFORMERS,
    CardEngine,
    describe_files,
    repository,
    weights_size,
    whole_files,
)
from beholder.backends.devices import LARGE, choose_device, release_memory
from beholder.backends.files import choose_hf, list_files, read_json
from beholder.backends.forward import forward_pass
from beholder.backends.gme_pixels import PatchPicture
from beholder.backends.names import BUILT_IN, ModelName, parse_name
from beholder.backends.tensors import on_device, to_numpy
from beholder.backends.torch_io import load_transformers
from beholder.backends.vlm_processor import image_settings
from beholder.media.base import Picture
from beholder.records import ModelCard

GME_VARIABLE = "WORLDFOUNDRY_GME_MODEL_PATH"
QUERY = "Find an image that matches the given text."
PLAIN = "You are a helpful assistant."
MAX_LENGTH = 1800

_PICTURE = "<|vision_start|>{pads}<|vision_end|>"
_PAD = "<|image_pad|>"


def prompt_form(text: str = "", *, instruction: str = PLAIN, tokens: int = 0) -> str:
    """The string that is tokenised: its last token is the one whose state is the embedding.

    Args:
        text: the text, or "" for none.
        instruction: what stands in the system's turn.
        tokens: visual tokens of the picture; 0 for no picture.
    """
    body = (_PICTURE.format(pads=_PAD * tokens) if tokens else "") + text
    return (
        f"<|im_start|>system\n{instruction}<|im_end|>\n<|im_start|>user\n{body}<|im_end|>\n"
        "<|im_start|>assistant\n<|endoftext|>"
    )


class GmeEngine(CardEngine):
    """GME models in transformers' layout: from the hub or from a folder."""

    name = "gme"

    def wanted(self, parsed: ModelName) -> list[hub.Wanted]:
        """The hub files that a model needs; none for a local one."""
        if _folder(parsed) is not None:
            return []
        return [hub.Wanted(parsed.asked, *repository(parsed), choose_hf, card_of(parsed.id))]

    def local(self, parsed: ModelName) -> hub.Found:
        """The files of a local folder.

        Raises:
            WeightsMissingError: a file is missing or cut short.
        """
        folder = _folder(parsed) or Path()
        named = "" if parsed.path is not None else f" (named by {GME_VARIABLE})"
        if not folder.is_dir():
            raise WeightsMissingError(
                f"{parsed.asked} must be a folder in transformers' layout{named}", got=f"no folder {folder}"
            )
        return whole_files(folder, choose_hf(list_files(folder)), must=f"{parsed.asked} must be {TRANSFORMERS}{named}")

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        parsed = parse_name(name, engines=(*BUILT_IN, self.name))
        wanted = self.wanted(parsed)
        found = _found(wanted[0], options) if wanted else self.local(parsed)
        config = read_json(found.folder / "config.json")
        if config.get("model_type") != "qwen2_vl":
            raise ModelError(
                "a GME model must be a Qwen2-VL in transformers' own layout",
                got=f"model_type {config.get('model_type')!r} in {parsed.asked}",
            )
        pixels = PatchPicture(image_settings(found.folder))
        preprocessing = {
            **pixels.as_json(),
            "prompt": {"text": prompt_form("{text}", instruction=QUERY), "image": prompt_form(tokens=1)},
            "positions": "plain",
            "pooling": "last token",
            "text": {"context_length": MAX_LENGTH},
        }
        card = card_of(parsed.id) or ModelCard(
            id=parsed.id, engine=self.name, family="gme", arch="qwen2_vl", weights=parsed.weights,
            source=None if parsed.path is not None else parsed.weights,
        )  # fmt: skip
        return describe_files(
            parsed,
            dataclasses.replace(card, embed_dim=_width(config)),
            found,
            capability="ImageTextEncoder",
            # OpenS2V runs it in float16.
            dtype="float16" if dtype == "auto" and weights_size(found) > LARGE else dtype,
            preprocessing=preprocessing,
        )

    def load(self, model: ResolvedModel, *, device: str) -> GmeEncoder:
        return GmeEncoder(model, device=device)


GME = GmeEngine()


class GmeEncoder:
    """A GME model; an `ImageTextEncoder`. Texts are embedded as queries, pictures as what is searched."""

    def __init__(self, model: ResolvedModel, *, device: str) -> None:
        self.model = model
        self.constants: Mapping[str, float] = {}
        self._device = choose_device(device, dtype=model.dtype)
        self.device = str(self._device)
        self.image_batch = self.text_batch = 2 if self._device.type == "cpu" else 8
        folder = Path(model.location)
        self._pixels = PatchPicture(image_settings(folder))
        self._tokenizer = _tokenizer(folder)
        self._network: Any = load_transformers(model, "Qwen2VLForConditionalGeneration").to(self._device)
        self._pad = int(self._network.config.image_token_id)

    def prepare_image(self, picture: Picture) -> np.ndarray:
        """Patches and their grid; an array of no axes that holds both, since pictures keep their own shapes."""
        item = np.empty((), dtype=object)
        item[()] = self._pixels(picture.pixels)
        return item

    def encode_images(self, batch: np.ndarray) -> np.ndarray:
        """(n,) prepared pictures to (n, d) float32: states before normalising."""
        found: list[Any] = [None] * len(batch)
        for rows in _alike([item[1] for item in batch]):
            patches = np.concatenate([batch[row][0] for row in rows])
            grid = batch[rows[0]][1]
            count = grid[0] * grid[1] * grid[2] // self._pixels.merge
            ids = [self._ids(prompt_form(tokens=count))] * len(rows)
            if ids[0].count(self._pad) != count:
                raise ModelError(f"{_PAD} must be one token of {self.model.asked}", got="a tokenizer without it")
            for row, state in zip(rows, self._states(ids, patches, [grid] * len(rows)), strict=True):
                found[row] = state
        return np.stack(found)

    def encode_texts(self, texts: Sequence[str]) -> Columns:
        """Columns "embedding" (n, d) float32, "n_tokens" (n,) int32 and "truncated" (n,) bool.

        A text whose string is longer than 1,800 tokens loses what is behind them, its last token too, as the
        reference implementation has it.
        """
        ids = [self._ids(prompt_form(text, instruction=QUERY)) for text in texts]
        lengths = np.array([len(item) for item in ids], dtype=np.int32)
        cut = [item[:MAX_LENGTH] for item in ids]
        found: list[Any] = [None] * len(texts)
        for rows in _alike([len(item) for item in cut]):
            for row, state in zip(rows, self._states([cut[row] for row in rows], None, []), strict=True):
                found[row] = state
        embedding = np.stack(found) if found else np.zeros((0, _width(self._network.config.to_dict())), np.float32)
        return {"embedding": embedding, "n_tokens": lengths, "truncated": lengths > MAX_LENGTH}

    def close(self) -> None:
        """Releases the network and, on a GPU, its memory."""
        self._network = None
        release_memory(self._device)

    def _ids(self, text: str) -> list[int]:
        found = self._tokenizer(text, add_special_tokens=False, return_attention_mask=False)
        return [int(token) for token in found["input_ids"]]

    def _states(
        self, ids: Sequence[Sequence[int]], patches: np.ndarray | None, grids: Sequence[tuple[int, int, int]]
    ) -> np.ndarray:
        """(n, d) float32: the decoder's states at the last token of n strings of one length."""
        import torch

        with forward_pass():
            tokens = torch.tensor(ids, device=self._device)
            embedded = self._network.get_input_embeddings()(tokens)
            if patches is not None:
                pixels = on_device(patches, self._device).to(self._network.dtype)
                seen = _visual(self._network, pixels, torch.tensor(grids, device=self._device))
                mask = (tokens == self._pad)[..., None].expand_as(embedded)
                embedded = embedded.masked_scatter(mask, seen.to(embedded.dtype))
            positions = torch.arange(tokens.shape[1], device=self._device).expand(3, *tokens.shape)
            output = _decoder(self._network)(
                inputs_embeds=embedded, position_ids=positions, attention_mask=torch.ones_like(tokens), use_cache=False
            )
            return to_numpy(output.last_hidden_state[:, -1])


# transformers moved these parts between versions; nothing else here knows where they are.


def _visual(network: Any, pixels: Any, grid: Any) -> Any:
    tower = getattr(network, "visual", None) or network.model.visual
    output = tower(pixels, grid_thw=grid)
    return getattr(output, "pooler_output", output)


def _decoder(network: Any) -> Any:
    return getattr(network.model, "language_model", network.model)


def _found(wanted: hub.Wanted, options: LoadOptions) -> hub.Found:
    try:
        return hub.find(wanted, options)
    except WeightsMissingError as error:
        raise WeightsMissingError(
            error.must, got=error.got, fix=f"{GME_VARIABLE} names its folder.\n{error.fix}"
        ) from error


def _width(config: Mapping[str, Any]) -> int:
    return int((config.get("text_config") or config)["hidden_size"])


def _tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)


def _alike(keys: Sequence[Any]) -> Iterator[list[int]]:
    """Rows of equal keys together, in the order of their first."""
    groups: dict[Any, list[int]] = {}
    for row, key in enumerate(keys):
        groups.setdefault(key, []).append(row)
    yield from groups.values()


def _folder(parsed: ModelName) -> Path | None:
    """The local folder that a name stands for: its own, or the one that the environment names for the 7B model."""
    if parsed.path is not None:
        return parsed.path if parsed.path.is_dir() else parsed.path.parent
    named = os.environ.get(GME_VARIABLE, "").strip()
    if named and parsed.revision is None and parsed.weights == GME_REPO:
        return Path(named).expanduser()
    return None
