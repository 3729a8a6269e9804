"""Engine "hf": CLIP and its kin through transformers' stock classes, and the embedded demo encoder."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import ModelError, UnknownNameError, WeightsMissingError
from beholder.backends import hub
from beholder.backends.base import Columns, ImageTextEncoder, LoadOptions, ResolvedModel
from beholder.backends.cards import DEMO_FOLDER, PICKSCORE_PROCESSOR, card_of, refuse_planned
from beholder.backends.describing import (
    TRANSFORMERS,
    CardEngine,
    describe_files,
    local_folder,
    paths_of,
    plain_card,
    whole_files,
)
from beholder.backends.devices import choose_device, release_memory
from beholder.backends.files import (
    Choice,
    choose_hf,
    choose_hf_weights,
    choose_processor,
    list_files,
    read_json,
)
from beholder.backends.forward import forward_pass
from beholder.backends.half_products import ARITHMETIC, MODEL_TYPES, halve_products
from beholder.backends.hf_config import (
    FAMILIES,
    ModelConfig,
    check_activation,
    image_config,
    read_config,
    refuse_text_models,
    text_padding,
    token_limit,
)
from beholder.backends.hf_text import HFTokenizer, Tokens
from beholder.backends.names import ModelName, parse_name
from beholder.backends.patch_pass import hf_fault, hf_tower, patch_columns
from beholder.backends.preprocess import Preprocessing, read_preprocessor
from beholder.backends.tensors import normalise, on_device, projected, to_numpy
from beholder.backends.torch_io import load_transformers, read_constants
from beholder.media.base import Picture
from beholder.records import ModelCard

PICKSCORE = "yuvalkirstain/PickScore_v1"


class HFEngine(CardEngine):
    """Models in transformers' layout: from the hub, from a folder, or from the package itself (`demo:emoji`)."""

    def __init__(self, name: str = "hf") -> None:
        self.name = name

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        parsed = parse_name(name)
        card = card_of(parsed.id)
        refuse_planned(parsed.asked, card)
        found, processor = find_files(parsed, card, options)
        return _describe(parsed, card, found, processor, dtype)

    def wanted(self, parsed: ModelName) -> list[hub.Wanted]:
        """The sets of hub files that a model needs; none for a local or built-in one."""
        if parsed.path is not None or parsed.engine == "demo":
            return []
        card = card_of(parsed.id)
        refuse_planned(parsed.asked, card)
        return [item for item in wanted_files(parsed, card) if item is not None]

    def local(self, parsed: ModelName) -> hub.Found:
        """The files of a local or built-in model."""
        return _local_files(parsed) if parsed.path is not None else _demo_files(parsed)

    def load(self, model: ResolvedModel, *, device: str) -> ImageTextEncoder:
        return HFClipEncoder(model, device=device)

    def patch_fault(self, model: ResolvedModel) -> str | None:
        """Why a resolved model gives no patch tokens; None where it does."""
        return hf_fault(str(model.details["model_type"]))


HF = HFEngine()
DEMO = HFEngine("demo")


def wanted_files(parsed: ModelName, card: ModelCard | None) -> tuple[hub.Wanted, hub.Wanted | None]:
    """What a hub model needs: its files and, where tokenizer and preprocessing stand elsewhere, those too."""
    split = parsed.weights == PICKSCORE
    chooser = choose_hf_weights if split else choose_hf
    wanted = hub.Wanted(parsed.asked, parsed.weights, parsed.revision, chooser, card)
    processor = (
        hub.Wanted(parsed.asked, PICKSCORE_PROCESSOR, None, choose_processor, what=hub.PROCESSOR) if split else None
    )
    return wanted, processor


def find_files(parsed: ModelName, card: ModelCard | None, options: LoadOptions) -> tuple[hub.Found, hub.Found]:
    """The model's files and its tokenizer's and preprocessing's: mostly one folder.

    Raises:
        WeightsMissingError: nowhere to be found.
    """
    if parsed.engine == "demo":
        found = _demo_files(parsed)
        return found, found
    if parsed.path is not None:
        found = _local_files(parsed)
        return found, found
    wanted, elsewhere = wanted_files(parsed, card)
    found = hub.find(wanted, options)
    if elsewhere is None:
        return found, found
    # A PickScore folder may carry its own copy of the tokenizer; the published one is the reference either way.
    return found, hub.find(elsewhere, options)


def _demo_files(parsed: ModelName) -> hub.Found:
    if parsed.weights != "emoji":
        raise UnknownNameError("demo model", parsed.asked, ["demo:emoji"])
    if not (DEMO_FOLDER / "config.json").is_file():
        raise WeightsMissingError(
            "demo:emoji must be part of the installed package",
            got="an installation without its files",
            fix="Reinstall beholder",
        )
    return hub.Found(DEMO_FOLDER, choose_hf(list_files(DEMO_FOLDER)))


def _local_files(parsed: ModelName) -> hub.Found:
    folder = local_folder(parsed)
    names = list_files(folder)
    if "config.json" in names:
        refuse_text_models(read_json(folder / "config.json"), name=parsed.asked)
    choice = choose_hf(names)
    if parsed.path is not None and parsed.path.is_file():
        choice = Choice((parsed.path.name,), choice.others, choice.missing)
    return whole_files(folder, choice, must=f"{parsed.asked} must be {TRANSFORMERS}")


def _describe(
    parsed: ModelName, card: ModelCard | None, found: hub.Found, processor: hub.Found, dtype: str
) -> ResolvedModel:
    raw = read_json(found.folder / "config.json")
    config = read_config(raw, name=parsed.asked, token_limit=token_limit(processor.folder))
    repo = parsed.weights if parsed.path is None else str(raw.get("_name_or_path", ""))
    check_activation(config, name=parsed.asked, repo=repo)
    pixels = read_preprocessor(
        image_config(processor.folder), model_type=config.model_type, image_size=config.image_size
    )
    _check_input_size(parsed, config, pixels)
    length = min(config.context_length, card.context_length or config.context_length) if card else config.context_length
    preprocessing = {
        **pixels.as_json(),
        "text": {
            "context_length": length,
            "padding": text_padding(config.model_type, length),
            "lowercase": config.lowercase,
        },
    }
    plain = dataclasses.replace(plain_card(parsed, engine="hf", family=config.family.family), arch=config.model_type)
    full = dataclasses.replace(
        card or plain, input_size=pixels.input_size, context_length=length, embed_dim=config.embed_dim
    )
    found_model = describe_files(
        parsed,
        full,
        found,
        capability="ImageTextEncoder",
        dtype=dtype,
        preprocessing=preprocessing,
        paths=paths_of(found, "model") | ({} if processor is found else paths_of(processor, "processor")),
        details={"model_type": config.model_type, "lowercase": config.lowercase},
        locations={"processor": str(processor.folder)},
        constants=read_constants([found.folder / name for name in found.files.weights]),
    )
    if found_model.dtype != "bfloat16" or config.model_type not in MODEL_TYPES:
        return found_model
    return dataclasses.replace(found_model, preprocessing={**preprocessing, "arithmetic": ARITHMETIC})


def _check_input_size(parsed: ModelName, config: ModelConfig, pixels: Preprocessing) -> None:
    if pixels.input_size != (config.image_size, config.image_size):
        raise ModelError(
            f"{parsed.asked} takes pictures of {config.image_size}×{config.image_size} pixels (config.json)",
            got=f"{pixels.input_size[0]}×{pixels.input_size[1]} from its preprocessing configuration",
            fix="The two files must belong together",
        )


class HFClipEncoder:
    """A loaded model of transformers' CLIP family; an `ImageTextEncoder`."""

    def __init__(self, model: ResolvedModel, *, device: str) -> None:
        self.model = model
        self._device = choose_device(device, dtype=model.dtype)
        self.device = str(self._device)
        on_cpu = self._device.type == "cpu"
        self.image_batch, self.text_batch = (32, 32) if on_cpu else (128, 256)
        self._family = FAMILIES[str(model.details["model_type"])]
        self._pixels = Preprocessing.from_json(model.preprocessing)
        text = model.preprocessing["text"]
        folder = Path(model.locations.get("processor") or model.location)
        clean = str.lower if text["lowercase"] else None
        self._tokenizer = HFTokenizer(folder, length=text["context_length"], clean=clean)
        padding = text["padding"]
        self._lengths = np.asarray([text["context_length"]] if isinstance(padding, str) else padding)
        self._network: Any = self._load(model).to(self._device)
        self._table = on_device(self._pixels.table(), self._device)
        self.constants: Mapping[str, float] = dict(model.constants)

    def _load(self, model: ResolvedModel) -> Any:
        """The network, complete, on the CPU; engines with files in other layouts have their own."""
        if model.preprocessing.get("arithmetic") != ARITHMETIC:
            return load_transformers(model, self._family.model_class)
        return halve_products(load_transformers(dataclasses.replace(model, dtype="float32"), self._family.model_class))

    def prepare_image(self, picture: Picture) -> np.ndarray:
        """(3, h, w) uint8; thread-safe, and Pillow resizes without holding the interpreter's lock."""
        return self._pixels.to_uint8(picture.pixels)

    def encode_images(self, batch: np.ndarray) -> np.ndarray:
        """(n, 3, h, w) uint8 from `prepare_image` to (n, d) float32, projected and unnormalised."""
        with forward_pass():
            pixels = normalise(on_device(batch, self._device), self._table).to(self._network.dtype)
            return to_numpy(projected(self._network.get_image_features(pixel_values=pixels)))

    def encode_patches(self, batch: np.ndarray) -> Columns:
        """(n, 3, h, w) uint8 to the columns of a `PatchEncoder`, the plain embedding among them."""
        with forward_pass():
            pixels = normalise(on_device(batch, self._device), self._table).to(self._network.dtype)
            return patch_columns(hf_tower(self._network), pixels)

    def text_lengths(self, texts: Sequence[str]) -> list[int]:
        """The length to which each text is padded; it depends on nothing but the text."""
        lengths: list[int] = self._padded(self._tokenizer(texts)).tolist()
        return lengths

    def _padded(self, tokens: Tokens) -> np.ndarray:
        result: np.ndarray = self._lengths[np.searchsorted(self._lengths[:-1], tokens.n_tokens)]
        return result

    def encode_texts(self, texts: Sequence[str]) -> Columns:
        """The columns of an `ImageTextEncoder`; texts of several lengths go through in as many passes."""
        tokens = self._tokenizer(texts)
        lengths = self._padded(tokens)
        parts = {length: np.flatnonzero(lengths == length) for length in np.unique(lengths).tolist()}
        made = np.concatenate([self._encode_tokens(tokens, rows, length) for length, rows in parts.items()])
        embedding = np.empty_like(made)
        embedding[np.concatenate(list(parts.values()))] = made
        return {"embedding": embedding, "n_tokens": tokens.n_tokens, "truncated": tokens.truncated}

    def _encode_tokens(self, tokens: Tokens, rows: np.ndarray, length: int) -> np.ndarray:
        """Some of the texts, all of them padded to one length."""
        inputs = {"input_ids": on_device(tokens.ids[rows, :length], self._device)}
        if self._family.uses_mask:
            inputs["attention_mask"] = on_device(tokens.mask[rows, :length], self._device)
        with forward_pass():
            return to_numpy(projected(self._network.get_text_features(**inputs)))

    def close(self) -> None:
        """Releases the network and, on a GPU, its memory."""
        self._network = None
        release_memory(self._device)
