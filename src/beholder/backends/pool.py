"""From a model's name to a loaded model of an engine, or to one that a user registered."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from beholder._errors import ModelError, OptionError, UnknownNameError, UserError
from beholder.backends.base import Columns, ImageTextEncoder, LoadOptions, PatchEncoder, ResolvedModel
from beholder.backends.cards import aliases, card_of, known_ids
from beholder.backends.devices import LARGE, choose_dtype
from beholder.backends.engine_table import ENGINES, SPECIAL, engine_names, engine_of
from beholder.backends.files import read_json
from beholder.backends.forward import no_default_device
from beholder.backends.kinds import KINDS
from beholder.backends.names import parse_name
from beholder.media.base import Picture
from beholder.records import ModelCard

_COMPARING = {
    "umt": "VideoTextEncoder", "internvideo2": "VideoTextEncoder", "xclip": "Matcher", "lavis": "Matcher",
    "inception": "ImageEncoder", "vbench": "ImageEncoder",
}  # fmt: skip
_COMPARING_HF = {
    "videoprism": "VideoTextEncoder", "xclip": "VideoTextEncoder", "blip": "Matcher", "blip-2": "Matcher",
    "vit": "ImageEncoder", "dinov2": "ImageEncoder", "dinov3_vit": "ImageEncoder",
}  # fmt: skip
"""Engines, and model types of transformers, that compare visuals with texts as something else than an
`ImageTextEncoder`. (X-CLIP stands here under "hf" so that its engine can say where it is served.)"""

_REGISTERED: dict[str, Any] = {}


def resolve_model(
    name: str, *, dtype: str = "auto", options: LoadOptions | None = None, capability: str = "ImageTextEncoder"
) -> ResolvedModel:
    """Finds a model's files, fetching them when that is allowed, and hashes them. Loads nothing.

    Args:
        name: any form of `names.parse_name`, or a name given to `register_encoder`.
        dtype: "auto" (float32; bfloat16 for models of more than 4 GB), "float32", "bfloat16" or "float16".
        options: where weights may come from.
        capability: what the model is to do (see `kinds.py`). Asked for an `ImageTextEncoder`, a model that compares in
            another way gives what it is: a `VideoTextEncoder`, or a `Matcher` with the head "itc".

    Raises:
        UnknownNameError: no such model.
        OptionError: the model cannot do that.
        WeightsMissingError: nowhere to be found; the message says where was looked and how to fetch them.
        WeightsMismatchError: the files do not fit together or are damaged.
    """
    if capability == "PatchEncoder":
        return _patch_encoder(name, dtype, options)
    if name in _REGISTERED:
        known: ResolvedModel = _REGISTERED[name].model
        if known.capability != capability and capability != "ImageTextEncoder":
            raise OptionError(f"a model that serves {capability} is needed", got=f"{name}, a {known.capability}")
        return dataclasses.replace(known, asked=name, id=name)
    parsed = parse_name_here(name)
    if capability == "ImageTextEncoder":
        capability = _comparing(parsed)
    return engine_of(parsed.engine, capability).resolve(name, dtype=dtype, options=options or LoadOptions())


def _patch_encoder(name: str, dtype: str, options: LoadOptions | None) -> ResolvedModel:
    """An encoder of images and texts that also gives patch tokens: the same model, the same key.

    Raises:
        ModelError: it gives none, and why.
    """
    model = resolve_model(name, dtype=dtype, options=options)
    if name in _REGISTERED:
        able = hasattr(_REGISTERED[name], "encode_patches")
        fault = None if able else "the registered encoder has no encode_patches"
    else:
        engine = engine_of(parse_name_here(name).engine, model.capability)
        tell = getattr(engine, "patch_fault", None)
        fault = f"the engine {engine.name!r} gives no patch tokens" if tell is None else tell(model)
    if fault is not None:
        raise ModelError(
            "a model with patch tokens is needed (a CLIP vision transformer with a global token)",
            got=f"{name}: {fault}",
            fix="For example openai:ViT-B-16",
        )
    return model


def main_capability(name: str) -> str:
    """As what a model is meant where nobody says it: an encoder where it is one, else what its engine serves first."""
    parsed = parse_name_here(name)
    if parsed.engine in ENGINES or parsed.engine in _COMPARING:
        return "ImageTextEncoder"
    served = [item.partition("/")[0] for item in SPECIAL.names() if item.partition("/")[2] == parsed.engine]
    return served[0] if served else "ImageTextEncoder"


def load_model(resolved: ResolvedModel, *, device: str = "auto") -> Any:
    """Loads a resolved model completely.

    Raises:
        WeightsMismatchError: a key or a shape does not match.
        DeviceError: a device that this machine does not have.
    """
    if resolved.asked in _REGISTERED:
        kept: object = _REGISTERED[resolved.asked]
        return _Kept(kept, resolved) if isinstance(kept, ImageTextEncoder) else _KeptModel(kept, resolved)
    engine = engine_of(parse_name_here(resolved.asked).engine, resolved.capability)
    if not type(engine).__module__.startswith("beholder."):
        return engine.load(resolved, device=device)  # a plug-in may well count on the program's default device
    with no_default_device():
        return engine.load(resolved, device=device)


def not_ready(resolved: ResolvedModel) -> UserError | None:
    """What would keep a resolved model from loading, as far as its engine can tell without loading it; None otherwise.

    Engines that can tell have `check(model)`, which raises what `load` would raise.
    """
    if resolved.asked in _REGISTERED:
        return None
    check = getattr(engine_of(parse_name_here(resolved.asked).engine, resolved.capability), "check", None)
    try:
        if check is not None:
            check(resolved)
    except UserError as error:
        return error
    return None


def register_encoder(name: str, encoder: ImageTextEncoder) -> None:
    """Makes a user's own encoder available under a name, for this process. The same name again replaces it.

    Args:
        name: how metrics ask for it (`model=NAME`).
        encoder: anything that fits `ImageTextEncoder`; a run does not close it.

    Raises:
        OptionError: a name that stands for another model already, or an object that is no encoder.
    """
    candidate: object = encoder
    if not isinstance(candidate, ImageTextEncoder):
        wanted = "model, constants, image_batch, text_batch, prepare_image, encode_images, encode_texts, close"
        raise OptionError(f"an encoder must have: {wanted}", got=type(candidate).__name__)
    for size in ("image_batch", "text_batch"):
        found: object = getattr(encoder, size)
        if not isinstance(found, int) or isinstance(found, bool) or found < 1:
            raise OptionError(f"an encoder's {size} must be a whole number of at least 1", got=repr(found))
    if not isinstance(name, str) or not name.strip() or name in aliases() or name in known_ids():
        raise OptionError("a registered encoder needs a name of its own", got=repr(name))
    _REGISTERED[name] = encoder


def register_model(name: str, model: Any) -> None:
    """Makes a user's own model of any capability available under a name, for this process (see `backends.base`).

    Args:
        name: how metrics ask for it (`model=NAME`, `segmenter=NAME`).
        model: an object that keeps the contract of its capability; `model.model.capability` names that. A run does
            not close it.

    Raises:
        OptionError: a name that stands for another model already, or an object that lacks a part of the contract.
    """
    if isinstance(model, ImageTextEncoder):
        register_encoder(name, model)
        return
    capability = getattr(getattr(model, "model", None), "capability", None)
    kinds = [kind for kind in KINDS.values() if kind.capability == capability]
    methods = sorted({kind.method for kind in kinds})
    looks = ["takes_video", "prepare"] if any(kind.item != "feature" for kind in kinds) or not kinds else []
    wanted = ["model", "constants", "batch", *looks, "close", *methods]
    lacking = [part for part in wanted if not hasattr(model, part)]
    if not methods or lacking:
        raise OptionError(
            f"a model must have {', '.join(wanted)}, and a capability that is known",
            got=f"{type(model).__name__} of capability {capability!r} without {', '.join(lacking) or 'a known one'}",
        )
    if not isinstance(name, str) or not name.strip() or name in aliases() or name in known_ids():
        raise OptionError("a registered model needs a name of its own", got=repr(name))
    _REGISTERED[name] = model


def registered() -> dict[str, Any]:
    """The encoders and models that were registered in this process, for other processes of the same run."""
    return dict(_REGISTERED)


def registered_all(models: Mapping[str, Any]) -> None:
    """Makes models available that were registered in another process."""
    _REGISTERED.update(models)


def find_card(name: str) -> ModelCard | None:
    """The card of a model by any of its names, without looking for its files; None when it has none.

    Raises:
        UnknownNameError: no such model.
    """
    if name in _REGISTERED:
        card: ModelCard = _REGISTERED[name].model.card
        return card
    parsed = parse_name_here(name)
    return card_of(parsed.id) or _made_card(parsed)


def _made_card(parsed: Any) -> ModelCard | None:
    """The card of a model of an engine that makes cards by name (`card_for`); None where it makes none."""
    for served in SPECIAL.names():
        capability, _, engine = served.partition("/")
        tell = getattr(engine_of(engine, capability), "card_for", None) if engine == parsed.engine else None
        if tell is not None:
            made: ModelCard = tell(parsed.weights)
            return made
    return None


def list_models() -> list[ModelCard]:
    """Cards of all models known by name, by engine; those of broken plug-ins are left out (see `engine_table`)."""
    cards: dict[str, ModelCard] = {}
    served = [(item.partition("/")[2], item.partition("/")[0]) for item in SPECIAL.names()]
    for name, capability in [*((name, "ImageTextEncoder") for name in ENGINES.names()), *served]:
        try:
            engine = engine_of(name, capability)
        except UserError:
            continue
        cards |= {card.id: card for card in engine.cards() if card.id not in cards}
    return [*cards.values(), *(encoder.model.card for encoder in _REGISTERED.values())]


def notices(resolved: ResolvedModel, *, dtype: str = "auto") -> list[str]:
    """What a user should know before a model is loaded, in plain words.

    Args:
        resolved: the model.
        dtype: the dtype that was asked for.
    """
    lines = []
    if resolved.dtype == "float32" and choose_dtype(dtype, size_bytes=0) != "float32":
        lines.append(f"{resolved.id} has no other dtype than float32 and runs in that, not in {dtype}")
    size = resolved.card.size_bytes or 0
    if size > LARGE:
        lines.append(f"{resolved.id} is large: {size / 1e9:.1f} GB of weights, run in {resolved.dtype}")
    if any(name.endswith((".bin", ".pt", ".pth")) for name in resolved.card.files):
        lines.append(f"{resolved.id}: weights from a pickle file, read with weights_only=True (no code runs)")
    return lines


def parse_name_here(name: str) -> Any:
    """`parse_name` with the engines of plug-ins."""
    try:
        return parse_name(name, engines=engine_names())
    except UnknownNameError as error:
        if not _REGISTERED:
            raise
        raise UnknownNameError("model", name, [*_REGISTERED, *error.known], fix="See: beholder models") from None


def _comparing(parsed: Any) -> str:
    """As what a model compares visuals with texts, told by its engine, its card, or its own configuration."""
    if parsed.engine != "hf":
        return _COMPARING.get(parsed.engine, "ImageTextEncoder")
    card = card_of(parsed.id)
    if card is not None:
        return _COMPARING_HF.get(card.family, "ImageTextEncoder")
    folder = parsed.path if parsed.path is None or parsed.path.is_dir() else parsed.path.parent
    config = folder / "config.json" if folder is not None else None
    kind = read_json(config).get("model_type") if config is not None and config.is_file() else None
    return _COMPARING_HF.get(str(kind), "ImageTextEncoder")


def file_engine(parsed: Any) -> Any:
    """The engine that knows a model's files (`wanted`, `local`); None where none does: a model in memory, an API.

    Args:
        parsed: a name from `parse_name_here`.
    """
    served = [item.partition("/")[0] for item in SPECIAL.names() if item.partition("/")[2] == parsed.engine]
    plain = ["ImageTextEncoder"] if parsed.engine in ENGINES else []
    first = [_comparing(parsed)] if f"{_comparing(parsed)}/{parsed.engine}" in SPECIAL else []
    engines = (engine_of(parsed.engine, capability) for capability in (*first, *plain, *served))
    return next((engine for engine in engines if hasattr(engine, "wanted")), None)


class _Kept:
    """A registered encoder as a run sees it: under the name it was asked for, and not to be closed."""

    def __init__(self, encoder: ImageTextEncoder, model: ResolvedModel) -> None:
        self._encoder, self.model = encoder, model
        self.constants: Mapping[str, float] = encoder.constants
        self.image_batch, self.text_batch = encoder.image_batch, encoder.text_batch
        self.device = getattr(encoder, "device", None)
        measure = getattr(encoder, "text_lengths", None)
        if measure is not None:
            self.text_lengths = measure

    def prepare_image(self, picture: Picture) -> np.ndarray:
        return self._encoder.prepare_image(picture)

    def encode_images(self, batch: np.ndarray) -> np.ndarray:
        return self._encoder.encode_images(batch)

    def encode_texts(self, texts: Sequence[str]) -> Columns:
        return self._encoder.encode_texts(texts)

    def encode_patches(self, batch: np.ndarray) -> Columns:
        return cast("PatchEncoder", self._encoder).encode_patches(batch)

    def close(self) -> None:
        """The encoder belongs to the user."""


class _KeptModel:
    """A registered model of any other capability: under the name it was asked for, and not to be closed."""

    def __init__(self, kept: Any, model: ResolvedModel) -> None:
        self._kept, self.model = kept, model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kept, name)

    def close(self) -> None:
        """The model belongs to the user."""
