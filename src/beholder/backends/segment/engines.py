"""The engines of segmenters with weights: which files each needs, where they are looked for, and what is loaded.

sam3                          the known repository (gated), from this machine or fetched
sam3:org/name, sam3:/folder   another repository, or a folder in transformers' layout
gdino+sam:one/name+other/name two repositories; gdino+sam:/folder a folder with the folders `detector` and `segmenter`
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from beholder._errors import ModelError, WeightsMissingError
from beholder.backends import hub
from beholder.backends.base import LoadOptions, ResolvedModel
from beholder.backends.cards import card_of
from beholder.backends.describing import CardEngine, paths_of, weights_size, whole_files
from beholder.backends.devices import choose_dtype
from beholder.backends.files import Choice, choose_tokenizer, choose_weights, list_files, read_json
from beholder.backends.hashes import combined_sha256
from beholder.backends.hf_config import image_config
from beholder.backends.names import ModelName, parse_name
from beholder.backends.segment.fit import read_fit
from beholder.backends.segment.networks import FAMILIES, too_old
from beholder.records import ModelCard

_MODEL_TYPES = {
    "sam3": ("sam3", "sam3_video"), "clipseg": ("clipseg",), "gdino": ("grounding-dino",),
    "mm-gdino": ("mm-grounding-dino",), "omdet": ("omdet-turbo",), "owlv2": ("owlv2",), "sam": ("sam",),
    "sam2": ("sam2", "sam2_video"),
}  # fmt: skip
_IMAGE_FILES = ("preprocessor_config.json", "processor_config.json")
_ALTERNATIVES = {
    "sam3": "Another segmenter: --segmenter gdino+sam2 (its weights are open), or masks for the manifest's own",
    "": "Another segmenter: --segmenter sam3 or clipseg, or masks for the manifest's own",
}


class SegmenterEngine(CardEngine):
    """One kind of segmenter.

    Args:
        name: the engine's name.
        parts: role → family of each network.
    """

    def __init__(self, name: str, parts: Mapping[str, str]) -> None:
        self.name, self.parts = name, dict(parts)

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        parsed = parse_name(name, engines=(self.name,))
        if self.name == "sam3":
            _check_version(name)
        try:
            found = self._find(parsed, options)
        except WeightsMissingError as error:
            more = _ALTERNATIVES.get(self.name, _ALTERNATIVES[""])
            # The hub's own words speak of encoders, and a pair of networks needs a folder of two.
            where = (error.fix or "").partition("\nTo try things out")[0]
            where = where.replace("--model /path", f"--segmenter {self.name}:/path")
            fix = f"{where.rstrip('.')}. {more}" if where else more
            raise WeightsMissingError(error.must, got=error.got, fix=fix) from error
        return self._describe(parsed, found, dtype)

    def load(self, model: ResolvedModel, *, device: str) -> Any:
        from beholder.backends.segment.models import BoxesThenMasks, OneNetwork

        return (OneNetwork if len(self.parts) == 1 else BoxesThenMasks)(model, device=device)

    def wanted(self, parsed: ModelName) -> list[hub.Wanted]:
        """The sets of hub files that a segmenter needs; none for a local one."""
        if parsed.path is not None:
            return []
        known = self.cards()[0]
        repos = (parsed.weights or known.weights).split("+")
        if len(repos) != len(self.parts):
            must = " and ".join(self.parts)
            raise ModelError(f"{self.name} needs {len(self.parts)} repositories: {must}", got=repr(parsed.asked))
        return [
            hub.Wanted(parsed.asked, repo, parsed.revision, _chooser(family), card_of(parsed.id))
            for repo, family in zip(repos, self.parts.values(), strict=True)
        ]

    def local(self, parsed: ModelName) -> hub.Found:
        """The files of a local segmenter; of its first network where it has two."""
        return next(iter(self._local(parsed).values()))

    def _find(self, parsed: ModelName, options: LoadOptions) -> dict[str, hub.Found]:
        if parsed.path is not None:
            return self._local(parsed)
        return {role: hub.find(wanted, options) for role, wanted in zip(self.parts, self.wanted(parsed), strict=True)}

    def _local(self, parsed: ModelName) -> dict[str, hub.Found]:
        folder = parsed.path or Path()
        found = {}
        for role, family in self.parts.items():
            place = folder if len(self.parts) == 1 else folder / role
            must = f"{parsed.asked} must be a folder with {family} in transformers' layout"
            if len(self.parts) > 1:
                must = f"{parsed.asked} must have the folders {' and '.join(self.parts)}, each in transformers' layout"
            if not place.is_dir():
                raise WeightsMissingError(must, got=f"no folder {place}")
            found[role] = whole_files(place, _chooser(family)(list_files(place)), must=must, where=True)
        return found

    def _describe(self, parsed: ModelName, found: Mapping[str, hub.Found], dtype: str) -> ResolvedModel:
        parts: dict[str, Any] = {}
        preprocessing: dict[str, Any] = {}
        for role, family in self.parts.items():
            folder = found[role].folder
            config = read_json(folder / "config.json")
            _check_type(parsed.asked, family, config)
            tokens = _token_limit(family, config)
            parts[role] = {"family": family, "weights": list(found[role].files.weights), "tokens": tokens}
            given = image_config(folder) if any((folder / name).is_file() for name in _IMAGE_FILES) else {}
            preprocessing[role] = read_fit(given, FAMILIES[family].fit).as_json()
        size = sum(weights_size(item) for item in found.values())
        files = {name: path for role, item in found.items() for name, path in paths_of(item, role).items()}
        plain = ModelCard(
            id=parsed.id, engine=self.name, family=self.name, arch=self.name, capabilities=("Segmenter",),
            weights=parsed.id.partition(":")[2], source=None if parsed.path is not None else parsed.weights,
        )  # fmt: skip
        first = next(iter(found.values()))
        card = dataclasses.replace(
            card_of(parsed.id) or plain, revision=first.revision, files=tuple(files), size_bytes=size,
            preprocessing=preprocessing,
        )  # fmt: skip
        return ResolvedModel(
            asked=parsed.asked,
            id=parsed.id,
            card=card,
            location=str(first.folder),
            weights_sha256=combined_sha256(files),
            preprocessing=preprocessing,
            dtype=choose_dtype(dtype, size_bytes=size),
            details={"parts": parts},
            locations={role: str(item.folder) for role, item in found.items()},
            capability="Segmenter",
        )


def _chooser(family: str) -> Any:
    """Which files of a folder make up a network of a family."""
    text = FAMILIES[family].tokens > 0

    def choose(names: Iterable[str]) -> Choice:
        have = set(names)
        weights = choose_weights(have)
        missing = [] if weights else ["model.safetensors or pytorch_model.bin"]
        missing += [] if "config.json" in have else ["config.json"]
        image = [name for name in _IMAGE_FILES if name in have][:1]
        tokenizer = choose_tokenizer(have) if text else Choice((), (), ())
        others = dict.fromkeys(["config.json", *image, *tokenizer.others])
        return Choice(weights, tuple(others), (*missing, *tokenizer.missing))

    return choose


def _check_type(asked: str, family: str, config: Mapping[str, Any]) -> None:
    kind = str(config.get("model_type"))
    if kind not in _MODEL_TYPES[family]:
        allowed = " or ".join(_MODEL_TYPES[family])
        raise ModelError(f"{asked} must hold a model of the type {allowed} for {family}", got=f"model_type {kind!r}")


def _token_limit(family: str, config: Mapping[str, Any]) -> int:
    """Tokens that a phrase may have: the family's usual number, or less where the configuration says so."""
    usual = FAMILIES[family].tokens
    inner = config.get("detector_config") or config
    text = inner.get("text_config") or {}
    limits = [text.get("max_position_embeddings"), inner.get("max_text_len")]
    return min([usual, *(int(limit) for limit in limits if isinstance(limit, int))]) if usual else 0


def _check_version(asked: str) -> None:
    """SAM 3 is there from transformers 5 on."""
    version = importlib.metadata.version("transformers")
    if version.partition(".")[0].isdigit() and int(version.partition(".")[0]) < 5:
        raise too_old(asked, version)


def _pair(name: str) -> SegmenterEngine:
    detector, _, masker = name.partition("+")
    return SegmenterEngine(name, {"detector": detector, "segmenter": masker})


SAM3 = SegmenterEngine("sam3", {"segmenter": "sam3"})
CLIPSEG = SegmenterEngine("clipseg", {"segmenter": "clipseg"})
GDINO_SAM = _pair("gdino+sam")
GDINO_SAM2 = _pair("gdino+sam2")
MM_GDINO_SAM = _pair("mm-gdino+sam")
MM_GDINO_SAM2 = _pair("mm-gdino+sam2")
OMDET_SAM = _pair("omdet+sam")
OWLV2_SAM = _pair("owlv2+sam")
