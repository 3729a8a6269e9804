"""What transformers' configuration files say about a model, read as JSON: no torch, no transformers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beholder._errors import ModelError, WeightsMismatchError
from beholder.backends.cards import expected_activation
from beholder.backends.files import read_json


@dataclass(frozen=True)
class Family:
    """One model type of transformers: its class, and the defaults that its configuration files may leave out."""

    model_class: str
    family: str
    image_size: int
    positions: int
    activation: str
    width: int
    spare_positions: int = 0
    uses_mask: bool = True
    causal_text: bool = False


FAMILIES = {
    "clip": Family("CLIPModel", "clip", 224, 77, "quick_gelu", 512, uses_mask=False, causal_text=True),
    "siglip": Family("SiglipModel", "siglip", 224, 64, "gelu_pytorch_tanh", 768, uses_mask=False),
    "metaclip_2": Family("MetaClip2Model", "metaclip2", 224, 77, "quick_gelu", 512, uses_mask=False, causal_text=True),
    "altclip": Family("AltCLIPModel", "altclip", 224, 514, "quick_gelu", 768, spare_positions=2),
    "chinese_clip": Family("ChineseCLIPModel", "chinese_clip", 224, 512, "quick_gelu", 512),
}
"""Model types that are served. Causal text towers pool at the end token, so padding behind it needs no mask; SigLIP
was trained to see its padding."""

_STEPS = (16, 24, 32, 48)
"""Tokens to which a short text is padded where what stands behind it has no influence."""


def text_padding(model_type: str, length: int) -> list[int] | str:
    """How texts are padded, for the model's preprocessing: to the first of some lengths that holds them, or all to one.

    A causal text tower pools at the end token, and no token sees what is behind it: padding is work for nothing, up to
    rounding. The length that a text gets depends on nothing but the text. Other towers get "max_length".

    Args:
        model_type: a key of `FAMILIES`.
        length: tokens that a text may have.
    """
    if not FAMILIES[model_type].causal_text:
        return "max_length"
    return [*(step for step in _STEPS if step < length), length]


_GEMMA_VOCABULARY = 256_000


VISION_KEYS = ("vision_config", "vision_tower", "mm_vision_tower", "visual", "image_token_id", "image_token_index")
"""Entries of a `config.json`, one of which every model that looks at pictures has."""


@dataclass(frozen=True)
class ModelConfig:
    """What a `config.json` says.

    Args:
        model_type: transformers' name of the model type.
        family: the type's class and defaults.
        image_size: side of the vision tower's square input.
        context_length: tokens that a text may have.
        embed_dim: width of the shared space.
        activations: (text, vision) activation.
        lowercase: True when texts are lowercased first (SigLIP 2 was trained so; its tokenizer doesn't do it).
    """

    model_type: str
    family: Family
    image_size: int
    context_length: int
    embed_dim: int
    activations: tuple[str, str]
    lowercase: bool


def read_config(config: Mapping[str, Any], *, name: str, token_limit: int | None) -> ModelConfig:
    """Reads the content of a `config.json`.

    Args:
        config: the file's content.
        name: what messages call the model.
        token_limit: the tokenizer's own limit, or None.

    Raises:
        ModelError: a model type that is not served, or a NaFlex model.
    """
    kind = str(config.get("model_type"))
    if kind == "siglip2":
        raise ModelError(
            f"{name} must take pictures of one fixed size",
            got="a NaFlex model, which takes them at their own shape and is not served",
            fix="For example hf:google/siglip2-base-patch16-224",
        )
    if kind not in FAMILIES:
        raise ModelError(
            f"an image-text encoder of transformers must be of one of the types: {', '.join(FAMILIES)}",
            got=f"model_type {kind!r} in {name}",
        )
    family = FAMILIES[kind]
    text, vision = _part(config, "text"), _part(config, "vision")
    positions = int(text.get("max_position_embeddings", family.positions)) - family.spare_positions
    limit = min(positions, token_limit) if token_limit else positions
    width = (
        text.get("projection_size", text.get("hidden_size", 768)) if kind == "siglip" else config.get("projection_dim")
    )
    return ModelConfig(
        model_type=kind,
        family=family,
        image_size=int(vision.get("image_size", family.image_size)),
        context_length=limit,
        embed_dim=int(width or family.width),
        activations=(
            str(text.get("hidden_act", family.activation if kind in ("clip", "siglip", "metaclip_2") else "gelu")),
            str(vision.get("hidden_act", family.activation)),
        ),
        lowercase=kind == "siglip" and int(text.get("vocab_size", 0)) >= _GEMMA_VOCABULARY,
    )


def refuse_text_models(config: Mapping[str, Any], *, name: str) -> None:
    """Refuses a model without vision where one of images and texts is needed.

    Raises:
        ModelError: a text-only model.
    """
    if "vocab_size" in config and not any(key in config for key in VISION_KEYS):
        classes = ", ".join(str(item) for item in config.get("architectures") or ())
        kind = f"model_type {config.get('model_type')!r}" + (f" ({classes})" if classes else "")
        raise ModelError("a model of images and texts is needed", got=f"a text-only model, {kind} in {name}")


def _part(config: Mapping[str, Any], part: str) -> dict[str, Any]:
    # Old files carry a second copy that transformers lets override the first.
    return {**(config.get(f"{part}_config") or {}), **(config.get(f"{part}_config_dict") or {})}


def check_activation(config: ModelConfig, *, name: str, repo: str) -> None:
    """OpenAI's weights need QuickGELU, LAION's plain GELU: the configuration must say so.

    Raises:
        WeightsMismatchError: it says something else.
    """
    expected = expected_activation(repo)
    if expected is None or config.model_type != "clip":
        return
    wrong = [
        f"{part} hidden_act {got!r}" for part, got in zip(("text", "vision"), config.activations) if got != expected
    ]
    if wrong:
        raise WeightsMismatchError(
            f"the weights of {repo} were trained with the activation {expected!r}",
            got=f"{' and '.join(wrong)} in the config.json of {name}",
            fix="Use the config.json that was published with the weights; scores under another activation are wrong",
        )


def token_limit(folder: Path) -> int | None:
    """The limit that a tokenizer's own configuration sets, or None."""
    path = folder / "tokenizer_config.json"
    limit = read_json(path).get("model_max_length") if path.is_file() else None
    # Tokenizers without a limit store a number like 1e30.
    return int(limit) if isinstance(limit, (int, float)) and 0 < limit < 100_000 else None


def image_config(folder: Path) -> dict[str, Any]:
    """The image part of a folder's preprocessing configuration."""
    path = folder / "preprocessor_config.json"
    if path.is_file():
        return read_json(path)
    part = read_json(folder / "processor_config.json").get("image_processor")
    if not isinstance(part, dict):
        raise WeightsMismatchError("processor_config.json must have an image_processor", got="none")
    return part
