"""What a model name stands for in open_clip's own tables: architecture, weights, preprocessing, and what is refused."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beholder._errors import MissingExtraError, ModelError, PlannedError, UnknownNameError, WeightsMismatchError
from beholder.backends.files import Choice, choose_open_clip, read_json
from beholder.backends.names import ModelName
from beholder.backends.preprocess import OPENAI_MEAN, OPENAI_STD, Preprocessing


@dataclass(frozen=True)
class Recipe:
    """What a name stands for in open_clip's terms.

    Args:
        arch: architecture.
        tag: pretrained tag, or "" for local weights.
        config: the architecture's configuration.
        preprocess: open_clip's preprocessing settings (mean, std, interpolation, resize_mode).
        repo: hub repository of the weights, or None for local ones.
        chooser: which files of it are the weights.
    """

    arch: str
    tag: str
    config: Mapping[str, Any]
    preprocess: Mapping[str, Any]
    repo: str | None
    chooser: Callable[..., Choice] = choose_open_clip


def need_package() -> None:
    """Raises `MissingExtraError` where open_clip is not installed."""
    if importlib.util.find_spec("open_clip") is None:
        raise MissingExtraError("an open_clip model", "open_clip_torch", "openclip")


def find_recipe(parsed: ModelName) -> Recipe:
    """Looks a name up in open_clip's own tables, or in a local folder's configuration.

    Raises:
        UnknownNameError: no such architecture, or no such tag of it; near ones are suggested.
        MissingExtraError: open_clip is not installed.
    """
    need_package()
    import open_clip

    if not parsed.arch:
        return _local_recipe(parsed)
    config = open_clip.get_model_config(parsed.arch)
    if config is None:
        raise UnknownNameError("open_clip architecture", parsed.arch, open_clip.list_models())
    if parsed.path is not None:
        return Recipe(parsed.arch, "", config, _usual_preprocessing(parsed.arch), None)
    settings = open_clip.get_pretrained_cfg(parsed.arch, parsed.weights)
    if not settings:
        tags = open_clip.list_pretrained_tags_by_model(parsed.arch)
        fix = f"{parsed.arch} has: {', '.join(tags) or 'none'}"
        raise UnknownNameError(f"pretrained tag of {parsed.arch}", parsed.weights, tags, fix=fix)
    _check_activation(parsed, config, settings)
    repo, chooser = _source(parsed, str(settings.get("hf_hub") or ""))
    return Recipe(parsed.arch, parsed.weights, config, settings, repo, chooser)


def _check_activation(parsed: ModelName, config: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    import open_clip

    if bool(config.get("quick_gelu")) == bool(settings.get("quick_gelu")):
        return
    other = f"{parsed.arch}-quickgelu"
    quick = bool(settings.get("quick_gelu"))
    fix = f"Write open_clip:{other}/{parsed.weights}" if quick and other in open_clip.list_models() else None
    raise WeightsMismatchError(
        f"the weights {parsed.weights!r} were trained with {'QuickGELU' if quick else 'plain GELU'}",
        got=f"the architecture {parsed.arch!r}, which has {'plain GELU' if quick else 'QuickGELU'}",
        fix=fix or "Scores under another activation are wrong",
    )


def _source(parsed: ModelName, hub_path: str) -> tuple[str, Callable[..., Choice]]:
    """The repository of a pair, and its weight file where open_clip names one (`org/name/file`)."""
    org, _, rest = hub_path.partition("/")
    name, _, file = rest.partition("/")
    if not org or not name:
        raise ModelError(
            f"the weights of {parsed.asked} must be on the hub",
            got="a pair for which the installed open_clip knows a plain URL only",
            fix="Update open_clip_torch to 3.0 or newer, or name a local file: open_clip:ARCH//path/to/checkpoint.pt",
        )

    def one_file(names: Any) -> Choice:
        have = set(names)
        safe = file.rpartition(".")[0] + ".safetensors"
        chosen = next((candidate for candidate in (safe, file) if candidate in have), None)
        return Choice((chosen,), (), ()) if chosen else Choice((), (), (file,))

    return f"{org}/{name}", one_file if file else choose_open_clip


def _usual_preprocessing(arch: str) -> Mapping[str, Any]:
    """The preprocessing of an architecture's published weights, where they agree; else OpenAI's."""
    import open_clip

    keys = ("mean", "std", "interpolation", "resize_mode")
    settings = [open_clip.get_pretrained_cfg(arch, tag) for tag in open_clip.list_pretrained_tags_by_model(arch)]
    distinct = {
        tuple(tuple(v) if isinstance(v, (list, tuple)) else v for v in map(item.get, keys)) for item in settings
    }
    return dict(zip(keys, distinct.pop())) if len(distinct) == 1 else {}


def _local_recipe(parsed: ModelName) -> Recipe:
    path = parsed.path if parsed.path is not None and parsed.path.is_dir() else Path(parsed.path or ".").parent
    file = path / "open_clip_config.json"
    if not file.is_file():
        raise ModelError(
            "a local open_clip model must be a folder with open_clip_config.json",
            got=f"{path} without it",
            fix="A bare checkpoint needs its architecture: open_clip:ViT-B-32//path/to/checkpoint.pt",
        )
    content = read_json(file)
    config = content.get("model_cfg", content)
    if not {"embed_dim", "vision_cfg", "text_cfg"} <= set(config):
        raise WeightsMismatchError(
            "open_clip_config.json must have a model_cfg with both towers", got=str(sorted(config))
        )
    return Recipe("custom", "", config, content.get("preprocess_cfg", {}), None)


def check_supported(parsed: ModelName, recipe: Recipe) -> None:
    """Refuses what would need files or code that this engine does not bring."""
    text = recipe.config["text_cfg"]
    if text.get("hf_model_name"):
        raise PlannedError(
            f"{parsed.asked} has a text tower of transformers ({text['hf_model_name']}), which is not built yet for "
            "open_clip",
            fix="Use an hf: model, for example hf:BAAI/AltCLIP for texts in Chinese",
        )
    if text.get("tokenizer_mode"):
        raise PlannedError(
            f"{parsed.asked} needs the tokenizer mode {text['tokenizer_mode']!r}, which is not built yet"
        )
    mode = recipe.preprocess.get("resize_mode") or "shortest"
    if mode not in ("shortest", "squash"):
        raise PlannedError(f"{parsed.asked} resizes pictures by {mode!r}, which is not built yet")


def pixels_of(recipe: Recipe) -> Preprocessing:
    """open_clip's validation transform: Pillow resize, centre crop with torchvision's rounding."""
    settings = recipe.preprocess
    side = recipe.config["vision_cfg"].get("image_size", 224)
    size = (int(side[0]), int(side[1])) if isinstance(side, (list, tuple)) else (int(side), int(side))
    shortest = (settings.get("resize_mode") or "shortest") == "shortest"
    if shortest and size[0] != size[1]:
        raise PlannedError(
            f"{recipe.arch} takes pictures that are not square, which is not built yet for this resizing"
        )
    return Preprocessing(
        resize="shortest" if shortest else "squash",
        size=size,
        crop=size if shortest else None,
        crop_rounding="even",
        interpolation="bilinear" if settings.get("interpolation") == "bilinear" else "bicubic",
        rescale=1 / 255,
        mean=tuple(float(value) for value in settings.get("mean") or OPENAI_MEAN),
        std=tuple(float(value) for value in settings.get("std") or OPENAI_STD),
    )
