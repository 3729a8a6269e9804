"""transformers' processors of vision-language models, with Pillow for all pixels and without torchvision."""

from __future__ import annotations

import copy
import importlib
import threading
from pathlib import Path
from typing import Any

from beholder._errors import ModelError, WeightsMismatchError
from beholder.backends.files import read_json
from beholder.backends.tensors import to_torch


class Recorder:
    """A tokenizer that remembers what text it was given.

    A processor turns a placeholder into as many tokens as a picture takes, and then calls its tokenizer with the
    longer text. That text is what is needed here, and no processor gives it away otherwise.
    """

    def __init__(self, tokenizer: Any, lock: threading.Lock) -> None:
        self._tokenizer, self._lock = tokenizer, lock
        self.text = ""

    def __call__(self, text: Any = None, **settings: Any) -> Any:
        self.text = text if isinstance(text, str) else text[0]
        with self._lock:
            return self._tokenizer(text, **settings)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


class PinnedProcessor:
    """A model's processor: pictures through Pillow, texts through its tokenizer.

    Args:
        folder: folder with the model's files.
        class_name: transformers' processor class; None looks it up by the model type.
        model_type: model type of `config.json`.
        video: what stands in for the video processor of transformers (which needs torchvision), or None.
        arrays: in which form the class works inside ("pt", "np"); tensors come out either way.
    """

    def __init__(
        self, folder: Path, *, class_name: str | None, model_type: str, video: Any = None, arrays: str = "pt"
    ) -> None:
        self._arrays = arrays
        self.tokenizer: Any = _load("tokenizer", lambda: _tokenizer(folder))
        self.images: Any = _load("picture preprocessing", lambda: _image_processor(folder))
        processor_class = _relaxed(_processor_class(class_name, model_type))
        given = {"tokenizer": self.tokenizer, "image_processor": self.images, "video_processor": None}
        unknown = [name for name in processor_class.get_attributes() if name not in given]
        if unknown:
            raise ModelError(
                "a vision-language model must take pictures and text only", got=f"{', '.join(unknown)} too"
            )
        settings, _ = processor_class.get_processor_dict(str(folder), local_files_only=True)
        arguments = [given[name] for name in processor_class.get_attributes()]
        self.processor: Any = _load("processor", lambda: processor_class.from_args_and_dict(arguments, settings))
        # Not given to the class, which would print it.
        self.processor.video_processor = video
        self._lock = threading.Lock()

    def __call__(self, text: str, *, add_special_tokens: bool, **pixels: Any) -> tuple[dict[str, Any], str]:
        """The model's inputs for one prompt, as torch tensors, and the text that was tokenised. Thread-safe."""
        processor = copy.copy(self.processor)
        processor.tokenizer = recorder = Recorder(self.tokenizer, self._lock)
        inputs = processor(text=[text], return_tensors=self._arrays, add_special_tokens=add_special_tokens, **pixels)
        return {name: _tensor(value) for name, value in inputs.items()}, recorder.text

    def ids(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Token ids of a text. Thread-safe."""
        with self._lock:
            found = self.tokenizer(text, add_special_tokens=add_special_tokens, return_attention_mask=False)
        return [int(token) for token in found["input_ids"]]

    def chat(self, messages: list[dict[str, Any]], template: str, *, prompt: bool) -> str:
        """Messages as text by a chat template; with `prompt` the answer's beginning is opened."""
        text = self.tokenizer.apply_chat_template(
            messages, chat_template=template, tokenize=False, add_generation_prompt=prompt, date_string=FIXED_DATE
        )
        return str(text)


FIXED_DATE = "26 Jul 2024"
"""Some templates put today's date into the prompt; a score must not depend on the day it was made."""


def chat_template(folder: Path) -> str | None:
    """The chat template of a model's files, or None. Loads nothing."""
    path = folder / "chat_template.jinja"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    for name in ("chat_template.json", "processor_config.json", "tokenizer_config.json"):
        if (folder / name).is_file():
            found = read_json(folder / name).get("chat_template")
            if isinstance(found, list):
                found = {item["name"]: item["template"] for item in found}
            if isinstance(found, dict):
                found = found.get("default")
            if found:
                return str(found)
    return None


def image_settings(folder: Path) -> dict[str, Any]:
    """The image part of a folder's preprocessing files, as published."""
    if (folder / "processor_config.json").is_file():
        part = read_json(folder / "processor_config.json").get("image_processor")
        if isinstance(part, dict):
            return part
    return read_json(folder / "preprocessor_config.json")


def _tensor(value: Any) -> Any:
    import numpy as np

    return to_torch(value) if isinstance(value, np.ndarray) else value


def _tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(
        str(folder), local_files_only=True, trust_remote_code=False, padding_side="left"
    )


def _image_processor(folder: Path) -> Any:
    """The Pillow form of a model's image processor: torchvision resizes otherwise, and is not always there."""
    from transformers import AutoImageProcessor

    for setting in ({"backend": "pil"}, {"use_fast": False}):
        found = AutoImageProcessor.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False, **setting
        )
        if not _uses_torchvision(type(found)):
            return found
    raise ModelError(
        "pictures must be preprocessed by Pillow",
        got=f"{type(found).__name__}, for which transformers has no such form",
    )


def _uses_torchvision(kind: type) -> bool:
    names = [base.__name__ for base in kind.__mro__]
    return any(name.endswith("Fast") or name == "TorchvisionBackend" for name in names)


def _processor_class(class_name: str | None, model_type: str) -> Any:
    import transformers

    if class_name is None:
        names = importlib.import_module("transformers.models.auto.processing_auto").PROCESSOR_MAPPING_NAMES
        class_name = names.get(model_type)
    found = getattr(transformers, str(class_name), None)
    if found is None:
        raise ModelError("transformers must have a processor for the model type", got=f"none for {model_type!r}")
    return found


def _relaxed(processor_class: Any) -> Any:
    """The class without its check of types: transformers' own video processors cannot be made without torchvision."""

    def accept(self: Any, name: str, argument: Any) -> Any:
        return type(argument)

    return type(processor_class.__name__, (processor_class,), {"check_argument_for_proper_class": accept})


def _load(what: str, make: Any) -> Any:
    try:
        return make()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ImportError) as error:
        raise WeightsMismatchError(
            f"a vision-language model's {what} must load",
            got=f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}",
            fix="Fetch the model again; a package that is named above may be missing",
        ) from error
