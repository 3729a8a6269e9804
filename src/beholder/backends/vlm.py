"""Engine "hf" for `AnswerScorer`: vision-language models of transformers, a class for each family of model types."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beholder._errors import ModelError
from beholder.backends import hub
from beholder.backends.base import AnswerScorer, LoadOptions, ResolvedModel
from beholder.backends.blip_t5 import choose_instructblip
from beholder.backends.cards import card_of, refuse_planned
from beholder.backends.describing import (
    TRANSFORMERS,
    CardEngine,
    describe_files,
    local_folder,
    plain_card,
    whole_files,
)
from beholder.backends.files import Choice, Chooser, choose_hf, list_files, read_json
from beholder.backends.flan_t5 import choose_clip_t5
from beholder.backends.hf_config import FAMILIES as ENCODERS
from beholder.backends.hf_config import VISION_KEYS
from beholder.backends.names import ModelName, parse_name
from beholder.records import ModelCard

GENERIC = "beholder.backends.vlm_generic:GenericVLM"
"""The class for model types that no family names."""

_PLAIN = "beholder.backends.vlm_families"
_QWEN = "beholder.backends.vlm_qwen"

FAMILIES: dict[str, str] = {
    "llava": f"{_PLAIN}:LlavaVLM",
    "llava_next": f"{_PLAIN}:LlavaNextVLM",
    "llava_onevision": f"{_PLAIN}:OneVisionVLM",
    "internvl": f"{_PLAIN}:InternVLM",
    "idefics3": f"{_PLAIN}:Idefics3VLM",
    "smolvlm": f"{_PLAIN}:SmolVLM",
    "gemma3": f"{_PLAIN}:Gemma3VLM",
    "qwen2_vl": f"{_QWEN}:QwenVLM",
    "qwen2_5_vl": f"{_QWEN}:Qwen25VLM",
    "qwen3_vl": f"{_QWEN}:Qwen3VLM",
    "qwen3_vl_moe": f"{_QWEN}:Qwen3MoeVLM",
    "mllama": "beholder.backends.vlm_mllama:MllamaVLM",
    "paligemma": "beholder.backends.vlm_paligemma:PaliGemmaVLM",
    "clip_t5": "beholder.backends.flan_t5:ClipFlanT5",
    "blip-2": "beholder.backends.blip_t5:Blip2T5",
    "instructblip": "beholder.backends.blip_t5:InstructBlipT5",
}
"""Model type of `config.json` → "module:Class". `Class(model, *, device)` is an `AnswerScorer`; its static
`describe(config, folder)` gives the JSON-ready preprocessing (with "prompt") from the files alone, without torch."""

CHOOSERS: dict[str, Chooser] = {"clip_t5": choose_clip_t5, "instructblip": choose_instructblip}
"""Families (of a card) or model types whose files are not transformers' usual set → which files make up the model."""

_OTHER_ENCODERS = ("siglip2", "xclip", "videoprism")
_ORIGINAL = {
    "LlavaLlamaForCausalLM": "hf:llava-hf/llava-1.5-7b-hf",
    "LlavaMistralForCausalLM": "hf:llava-hf/llava-v1.6-mistral-7b-hf",
    "LlavaQwenForCausalLM": "hf:llava-hf/llava-onevision-qwen2-7b-ov-hf",
    "internvl_chat": "hf:OpenGVLab/InternVL3-8B-hf",
}
"""Classes and model types of layouts that came before transformers' own → a repository that has its layout."""


class VLMEngine(CardEngine):
    """Vision-language models in transformers' layout: from the hub or from a folder."""

    name = "hf"

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        parsed = parse_name(name)
        card = card_of(parsed.id)
        refuse_planned(parsed.asked, card)
        found = _find(parsed, card, options)
        config = read_json(found.folder / "config.json")
        kind = check_kind(config, name=parsed.asked)
        return describe_files(
            parsed,
            card or plain_card(parsed, engine=self.name, family=kind),
            found,
            capability="AnswerScorer",
            dtype=dtype,
            preprocessing=family_class(kind).describe(config, found.folder),
            details={"model_type": kind},
        )

    def load(self, model: ResolvedModel, *, device: str) -> AnswerScorer:
        scorer: AnswerScorer = family_class(str(model.details["model_type"]))(model, device=device)
        return scorer


HF_VLMS = VLMEngine()


def family_class(kind: str) -> Any:
    """The class that serves a model type; importing it loads no torch."""
    module, _, name = FAMILIES.get(kind, GENERIC).partition(":")
    return getattr(importlib.import_module(module), name)


def check_kind(config: Mapping[str, Any], *, name: str) -> str:
    """The model type of a `config.json`, when it can be a vision-language model.

    Raises:
        ModelError: a text-only model, an encoder, or the original form of a model that transformers has in another.
    """
    kind, classes = str(config.get("model_type")), [str(item) for item in config.get("architectures") or ()]
    what = f"model_type {kind!r}" + (f" ({', '.join(classes)})" if classes else "") + f" in {name}"
    need = "an answer needs a vision-language model: a picture and a question in, next-token probabilities out"
    converted = next((_ORIGINAL[item] for item in (kind, *classes) if item in _ORIGINAL), None)
    if converted is not None:
        raise ModelError(
            "a model's weights must be in transformers' own layout",
            got=f"the original layout: {what}",
            fix=f"Use a converted repository, for example {converted}",
        )
    if kind in FAMILIES:
        return kind
    if any(item.endswith("ForImageTextRetrieval") for item in classes):
        raise ModelError(need, got=f"a matcher of images and texts, {what}", fix="It serves itm_score")
    if kind in ENCODERS or kind in _OTHER_ENCODERS:
        raise ModelError(need, got=f"an encoder of images and texts, {what}", fix="It serves clip_score")
    if not any(key in config for key in VISION_KEYS):
        sort = "a text-only model" if "vocab_size" in config else "a model without vision"
        raise ModelError(need, got=f"{sort}, {what}", fix="For example hf:Qwen/Qwen2.5-VL-7B-Instruct")
    return kind


def _find(parsed: ModelName, card: ModelCard | None, options: LoadOptions) -> hub.Found:
    if parsed.path is None:
        chooser = CHOOSERS.get(card.family if card else "", choose_hf)
        return hub.find(hub.Wanted(parsed.asked, parsed.weights, parsed.revision, chooser, card), options)
    folder = local_folder(parsed)
    choice = _choose_local(folder)
    if parsed.path.is_file():
        choice = Choice((parsed.path.name,), choice.others, choice.missing)
    return whole_files(folder, choice, must=f"{parsed.asked} must be {TRANSFORMERS}")


def _choose_local(folder: Path) -> Choice:
    """The files of a local folder. A model that cannot serve at all is refused before its files are counted."""
    names, kind = list_files(folder), ""
    if "config.json" in names:
        kind = check_kind(read_json(folder / "config.json"), name=folder.name)
    return CHOOSERS.get(kind, choose_hf)(names)
