"""Engine "open_clip": models of the open_clip package (extra `openclip`), by architecture and pretrained tag."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import WeightsMismatchError
from beholder.backends import hub
from beholder.backends.base import Columns, ImageTextEncoder, LoadOptions, ResolvedModel
from beholder.backends.cards import card_of
from beholder.backends.describing import CardEngine, describe_files, paths_of
from beholder.backends.devices import choose_device, release_memory
from beholder.backends.files import Choice, choose_open_clip, choose_tokenizer, find_fault, list_files
from beholder.backends.forward import forward_pass
from beholder.backends.hf_text import HFTokenizer, Tokens
from beholder.backends.names import ModelName, parse_name
from beholder.backends.open_clip_recipe import Recipe, check_supported, find_recipe, need_package, pixels_of
from beholder.backends.patch_pass import open_clip_fault, open_clip_tower, patch_columns
from beholder.backends.preprocess import Preprocessing
from beholder.backends.tensors import normalise, on_device, projected, to_numpy
from beholder.backends.torch_io import check_keys, read_constants, read_states
from beholder.media.base import Picture
from beholder.records import ModelCard


class OpenClipEngine(CardEngine):
    """open_clip's pairs of architecture and pretrained tag, and local checkpoints of its architectures."""

    name = "open_clip"

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        parsed = parse_name(name)
        recipe = find_recipe(parsed)
        check_supported(parsed, recipe)
        card = card_of(parsed.id)
        wanted = wanted_files(parsed, recipe, card)
        found = _local_files(parsed) if parsed.path is not None else hub.find(wanted[0], options)
        tokenizer = _tokenizer_files(parsed, recipe, wanted, options)
        return _describe(parsed, recipe, card, found, tokenizer, dtype)

    def wanted(self, parsed: ModelName) -> list[hub.Wanted]:
        """The sets of hub files that a model needs; none for a local one."""
        if parsed.path is not None:
            return []
        recipe = find_recipe(parsed)
        check_supported(parsed, recipe)
        return [item for item in wanted_files(parsed, recipe, card_of(parsed.id)) if item is not None]

    def local(self, parsed: ModelName) -> hub.Found:
        """The files of a local model."""
        return _local_files(parsed)

    def load(self, model: ResolvedModel, *, device: str) -> ImageTextEncoder:
        need_package()
        return OpenClipEncoder(model, device=device)

    def patch_fault(self, model: ResolvedModel) -> str | None:
        """Why a resolved model gives no patch tokens; None where it does."""
        return open_clip_fault(model.details["config"])


OPEN_CLIP = OpenClipEngine()


def wanted_files(parsed: ModelName, recipe: Recipe, card: ModelCard | None) -> tuple[hub.Wanted, hub.Wanted | None]:
    """The weights' files, and the tokenizer's where it is a repository of its own."""
    weights = hub.Wanted(parsed.asked, recipe.repo or "", parsed.revision, recipe.chooser, card)
    name = recipe.config["text_cfg"].get("hf_tokenizer_name")
    tokenizer = hub.Wanted(parsed.asked, name, None, choose_tokenizer, what=hub.PROCESSOR) if name else None
    return weights, tokenizer


def _local_files(parsed: ModelName) -> hub.Found:
    path = Path(parsed.path or ".")
    if path.is_file():
        found = hub.Found(path.parent, Choice((path.name,), (), ()))
    else:
        found = hub.Found(path, choose_open_clip(list_files(path)))
    reason = find_fault(found.folder, found.files)
    if reason is not None:
        raise WeightsMismatchError(f"{parsed.asked} must be a whole model", got=f"{found.folder}: {reason}")
    return found


def _tokenizer_files(
    parsed: ModelName, recipe: Recipe, wanted: tuple[hub.Wanted, hub.Wanted | None], options: LoadOptions
) -> hub.Found | None:
    if wanted[1] is None:
        return None
    if parsed.path is not None:
        folder = parsed.path if parsed.path.is_dir() else parsed.path.parent
        choice = choose_tokenizer(list_files(folder))
        if not choice.missing:
            return hub.Found(folder, choice)
    return hub.find(wanted[1], options)


def _describe(
    parsed: ModelName,
    recipe: Recipe,
    card: ModelCard | None,
    found: hub.Found,
    tokenizer: hub.Found | None,
    dtype: str,
) -> ResolvedModel:
    pixels, text = pixels_of(recipe), recipe.config["text_cfg"]
    options = text.get("tokenizer_kwargs", {})
    preprocessing = {
        **pixels.as_json(),
        "text": {
            "context_length": int(text.get("context_length", 77)),
            "padding": "max_length",
            "tokenizer": "simple" if tokenizer is None else "hf",
            "clean": options.get("clean", "lower" if tokenizer is None else "whitespace"),
            "strip_sep_token": bool(options.get("strip_sep_token")),
        },
    }
    base = card or ModelCard(
        id=parsed.id, engine="open_clip", family="clip", arch=recipe.arch, weights=parsed.weights, source=recipe.repo
    )
    full = dataclasses.replace(
        base,
        input_size=pixels.input_size,
        context_length=preprocessing["text"]["context_length"],
        embed_dim=int(recipe.config["embed_dim"]),
    )
    return describe_files(
        parsed,
        full,
        found,
        capability="ImageTextEncoder",
        dtype=dtype,
        preprocessing=preprocessing,
        paths=paths_of(found, "model") | (paths_of(tokenizer, "tokenizer") if tokenizer is not None else {}),
        details={"config": copy.deepcopy(dict(recipe.config))},
        locations={"tokenizer": str(tokenizer.folder)} if tokenizer is not None else {},
        constants=read_constants([found.folder / name for name in found.files.weights]),
    )


class OpenClipEncoder:
    """A loaded open_clip model; an `ImageTextEncoder`."""

    def __init__(self, model: ResolvedModel, *, device: str) -> None:
        self.model = model
        self._device = choose_device(device, dtype=model.dtype)
        self.device = str(self._device)
        self.image_batch, self.text_batch = (32, 64) if self._device.type == "cpu" else (128, 256)
        self._pixels = Preprocessing.from_json(model.preprocessing)
        self._tokenize = _make_tokenizer(model)
        self._network: Any = _load_network(model).to(self._device)
        self._dtype = next(self._network.parameters()).dtype
        self._table = on_device(self._pixels.table(), self._device)
        self.constants: Mapping[str, float] = dict(model.constants)

    def prepare_image(self, picture: Picture) -> np.ndarray:
        """(3, h, w) uint8; thread-safe."""
        return self._pixels.to_uint8(picture.pixels)

    def encode_images(self, batch: np.ndarray) -> np.ndarray:
        """(n, 3, h, w) uint8 from `prepare_image` to (n, d) float32, projected and unnormalised."""
        with forward_pass():
            pixels = normalise(on_device(batch, self._device), self._table).to(self._dtype)
            return to_numpy(projected(self._network.encode_image(pixels, normalize=False)))

    def encode_patches(self, batch: np.ndarray) -> Columns:
        """(n, 3, h, w) uint8 to the columns of a `PatchEncoder`, the plain embedding among them."""
        with forward_pass():
            pixels = normalise(on_device(batch, self._device), self._table).to(self._dtype)
            return patch_columns(open_clip_tower(self._network, self.model.asked), pixels)

    def encode_texts(self, texts: Sequence[str]) -> Columns:
        tokens = self._tokenize(texts)
        with forward_pass():
            embedding = self._network.encode_text(on_device(tokens.ids, self._device), normalize=False)
        return {
            "embedding": to_numpy(projected(embedding)), "n_tokens": tokens.n_tokens, "truncated": tokens.truncated,
        }  # fmt: skip

    def close(self) -> None:
        """Releases the network and, on a GPU, its memory."""
        self._network = None
        release_memory(self._device)


def _make_tokenizer(model: ResolvedModel) -> Callable[[Sequence[str]], Tokens]:
    from open_clip.tokenizer import SimpleTokenizer, get_clean_fn

    text = model.preprocessing["text"]
    length = int(text["context_length"])
    if text["tokenizer"] == "simple":
        simple = SimpleTokenizer(context_length=length, clean=text["clean"])

        def tokenize_simple(texts: Sequence[str]) -> Tokens:
            rows = [[simple.sot_token_id, *simple.encode(item), simple.eot_token_id] for item in texts]
            ids = np.zeros((len(rows), length), dtype=np.int64)
            for row, kept in enumerate(rows):
                if len(kept) > length:
                    kept = [*kept[: length - 1], simple.eot_token_id]
                ids[row, : len(kept)] = kept
            counts = np.asarray([len(row) for row in rows], dtype=np.int32)
            mask = (np.arange(length)[None, :] < counts[:, None]).astype(np.int64)
            return Tokens(ids, mask, counts, counts > length)

        return tokenize_simple
    tokenizer = HFTokenizer(Path(model.locations["tokenizer"]), length=length, clean=get_clean_fn(text["clean"]))
    if not text["strip_sep_token"]:
        return tokenizer
    separator = tokenizer.separator_id

    def tokenize_without_separator(texts: Sequence[str]) -> Tokens:
        tokens = tokenizer(texts)
        return dataclasses.replace(tokens, ids=np.where(tokens.ids == separator, 0, tokens.ids))

    return tokenize_without_separator


def _load_network(model: ResolvedModel) -> Any:
    """The network, loaded completely, in eval mode, on the CPU.

    Raises:
        WeightsMismatchError: a key or a shape that does not match.
    """
    import open_clip
    import torch

    config = copy.deepcopy(dict(model.details["config"]))
    if "timm_model_name" in config["vision_cfg"]:
        config["vision_cfg"]["timm_model_pretrained"] = False
    custom_text = bool(config.pop("custom_text", False))
    if "multimodal_cfg" in config:
        network_class = open_clip.CoCa
    else:
        network_class = open_clip.CustomTextCLIP if custom_text else open_clip.CLIP
    with torch.random.fork_rng(devices=[]):
        network = network_class(**config)
    state = read_states(Path(model.location) / str(name) for name in model.details["weights"])
    state = _current_layout(network, state)
    own = network.state_dict()
    fitting = {key: value for key, value in state.items() if key in own and own[key].shape == value.shape}
    check_keys(
        model.asked,
        missing=set(own) - set(state),
        unexpected=set(state) - set(own),
        mismatched=[(key, state[key].shape, own[key].shape) for key in (set(own) & set(state)) - set(fitting)],
    )
    network.load_state_dict(fitting, strict=True)
    return network.to(getattr(torch, model.dtype)).eval().requires_grad_(False)


def _current_layout(network: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Brings the layouts of older and converted checkpoints to the current one, with open_clip's own rules."""
    from open_clip.convert import convert_state_dict
    from open_clip.model import convert_to_custom_text_state_dict

    state = dict(convert_state_dict(network, state))
    if "positional_embedding" in state and not hasattr(network, "positional_embedding"):
        state = dict(convert_to_custom_text_state_dict(state))
    for key in ("logit_scale", "logit_bias"):
        target = getattr(network, key, None)
        if key in state and target is not None and state[key].numel() == 1:
            state[key] = state[key].reshape(target.shape)
    return state
