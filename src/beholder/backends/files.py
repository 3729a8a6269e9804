"""Which files of a folder or repository make up a model, and whether they are whole."""

from __future__ import annotations

import json
import math
import re
import struct
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beholder._errors import WeightsMismatchError

_TOKENIZERS = (
    ("tokenizer.json",),
    ("vocab.json", "merges.txt"),
    ("vocab.txt",),
    ("spiece.model",),
    ("sentencepiece.bpe.model",),
    ("tokenizer.model",),
)
_TOKENIZER_EXTRAS = ("config.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
_CHAT_FILES = ("processor_config.json", "chat_template.json", "chat_template.jinja", "video_preprocessor_config.json")
"""What vision-language models have beside tokenizer and preprocessing."""
SUBFOLDERS = ("qformer_tokenizer", "FaceScore_model")
"""Folders inside a model's folder that hold files of it: InstructBLIP's second tokenizer, FaceScore's weights."""
_LFS_POINTER = b"version https://git-lfs"
_DTYPE_BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


@dataclass(frozen=True)
class Choice:
    """The files of a model: `weights` first, then all else that moves numbers; `missing` says what should be there."""

    weights: tuple[str, ...]
    others: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        return self.weights + self.others


OPEN_CLIP_STEMS = ("open_clip_model", "open_clip_pytorch_model")

Chooser = Callable[[Iterable[str]], Choice]


def choose_weights(names: set[str], stems: Iterable[str] = ("model", "pytorch_model")) -> tuple[str, ...]:
    """The weight files among `names`: safetensors before `.bin`, one file before shards; () when there are none."""
    for suffix in ("safetensors", "bin"):
        for stem in stems:
            if f"{stem}.{suffix}" in names:
                return (f"{stem}.{suffix}",)
            index = f"{stem}.{suffix}.index.json"
            if index in names:
                shard = re.compile(rf"{re.escape(stem)}-\d+-of-\d+\.{suffix}")
                return (index, *sorted(name for name in names if shard.fullmatch(name)))
    return ()


def choose_hf(names: Iterable[str]) -> Choice:
    """A whole model in transformers' layout."""
    have = set(names)
    weights = choose_weights(have)
    processor = choose_processor(have)
    missing = [] if weights else ["model.safetensors or pytorch_model.bin"]
    if "config.json" not in have:
        missing.append("config.json")
    others = dict.fromkeys(("config.json", *processor.others))
    return Choice(weights, tuple(others), (*missing, *processor.missing))


def choose_plain(names: Iterable[str], needed: Iterable[str], also: Iterable[str] = ()) -> Choice:
    """Weights in transformers' layout with some files that are needed and some that are taken where they are."""
    have, needed = set(names), tuple(needed)
    weights = choose_weights(have)
    lost = [] if weights else ["model.safetensors or pytorch_model.bin"]
    others = tuple(name for name in (*needed, *also) if name in have)
    return Choice(weights, others, (*lost, *(name for name in needed if name not in have)))


def choose_hf_weights(names: Iterable[str]) -> Choice:
    """Weights and configuration only: for a model whose tokenizer and preprocessing stand elsewhere."""
    whole = choose_hf(names)
    missing = tuple(name for name in whole.missing if "tokenizer" not in name and "preprocessor" not in name)
    return Choice(whole.weights, ("config.json",), missing)


def choose_processor(names: Iterable[str]) -> Choice:
    """Tokenizer and preprocessing of transformers' layout."""
    have = set(names)
    tokenizer = choose_tokenizer(have)
    image = next((name for name in ("preprocessor_config.json", "processor_config.json") if name in have), None)
    missing = tokenizer.missing if image else ("preprocessor_config.json", *tokenizer.missing)
    chat = [name for name in _CHAT_FILES if name in have and name != image]
    return Choice((), (*([image] if image else []), *tokenizer.others, *chat), missing)


def choose_tokenizer(names: Iterable[str]) -> Choice:
    """A tokenizer of transformers' layout."""
    have = set(names)
    whole = any(set(group) <= have for group in _TOKENIZERS)
    missing = () if whole else ("tokenizer.json (or vocab.json with merges.txt, vocab.txt, spiece.model)",)
    # Slow tokenizers read what tokenizer.json holds from their own files, so all that are there count.
    files = [name for group in _TOKENIZERS for name in group if name in have]
    extras = [name for name in _TOKENIZER_EXTRAS if name in have]
    return Choice((), tuple(dict.fromkeys([*files, *extras])), missing)


def choose_open_clip(names: Iterable[str]) -> Choice:
    """Weights in open_clip's layout, with their configuration where there is one."""
    have = set(names)
    weights = choose_weights(have, OPEN_CLIP_STEMS) or choose_weights(have)
    others = tuple(name for name in ("open_clip_config.json",) if name in have)
    missing = () if weights else ("open_clip_model.safetensors or open_clip_pytorch_model.bin",)
    return Choice(weights, others, missing)


def list_files(folder: Path) -> list[str]:
    """Names of the files in a folder and in `SUBFOLDERS`; a dangling link or a half-fetched file is not there."""
    entries = [*folder.iterdir(), *(entry for name in SUBFOLDERS for entry in folder.glob(f"{name}/*"))]
    return sorted(
        entry.relative_to(folder).as_posix()
        for entry in entries
        if entry.is_file() and not entry.name.endswith(".incomplete")
    )


def find_fault(folder: Path, choice: Choice) -> str | None:
    """Why a folder does not hold the whole model, in plain words; None when it does. Reads headers only."""
    if choice.missing:
        return "it lacks " + ", ".join(choice.missing)
    for name in choice.all:
        reason = file_fault(folder / name)
        if reason is not None:
            return f"{name} {reason}"
        if name.endswith(".index.json"):
            wanted = set(read_json(folder / name).get("weight_map", {}).values())
            lost = sorted(wanted - set(choice.weights))
            if lost or not wanted:
                return f"{name} names shards that are not there: {', '.join(lost) or 'none at all'}"
    return None


def file_fault(path: Path) -> str | None:
    """Why a file cannot be whole ("is cut short …"), or None. Reads its first and last bytes only."""
    size = path.stat().st_size
    if size == 0:
        return "is empty"
    with open(path, "rb") as handle:
        head = handle.read(64)
    if head.startswith(_LFS_POINTER):
        return "is a Git LFS pointer, not the file itself (fetch it with: git lfs pull)"
    if path.suffix == ".safetensors":
        try:
            header, start = read_header(path)
        except WeightsMismatchError as error:
            return f"is damaged ({error.got})"
        end = start + max((entry["data_offsets"][1] for entry in header.values()), default=0)
        if size != end:
            return f"is cut short ({size:,} of {end:,} bytes)" if size < end else f"is too long by {size - end:,} bytes"
    if path.suffix in (".bin", ".pt", ".pth") and head.startswith(b"PK") and not zipfile.is_zipfile(path):
        return "is cut short"
    return None


def read_header(path: Path) -> tuple[dict[str, Any], int]:
    """The header of a safetensors file: {tensor: {dtype, shape, data_offsets}}, and where its data begins.

    Raises:
        WeightsMismatchError: the header is damaged.
    """
    size = path.stat().st_size
    must = f"{path.name} must be a whole safetensors file"
    fix = "Fetch it again"
    with open(path, "rb") as handle:
        first = handle.read(8)
        length = struct.unpack("<Q", first)[0] if len(first) == 8 else 0
        if not 2 <= length <= size - 8:
            raise WeightsMismatchError(must, got=f"a header of {length:,} bytes in a file of {size:,}", fix=fix)
        raw = handle.read(length)
    try:
        header = json.loads(raw)
        header.pop("__metadata__", None)
        for entry in header.values():
            start, end = entry["data_offsets"]
            count = math.prod(entry["shape"])
            if end - start != count * _DTYPE_BYTES.get(entry["dtype"], 0) and entry["dtype"] in _DTYPE_BYTES:
                raise ValueError("shapes that do not fit the data")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WeightsMismatchError(must, got=f"a header that does not parse: {error}", fix=fix) from error
    return header, 8 + length


def read_scalar(path: Path, key: str) -> float | None:
    """One scalar of a safetensors file, without torch; None when the file has no such tensor."""
    import numpy as np

    header, start = read_header(path)
    entry = header.get(key)
    if entry is None:
        return None
    with open(path, "rb") as handle:
        handle.seek(start + entry["data_offsets"][0])
        raw = handle.read(entry["data_offsets"][1] - entry["data_offsets"][0])
    if entry["dtype"] == "BF16":
        return float(np.frombuffer(b"\x00\x00" + raw, dtype="<f4")[0])
    kinds = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
    if entry["dtype"] not in kinds:
        raise WeightsMismatchError(f"{key} must be a floating-point number", got=f"dtype {entry['dtype']}")
    return float(np.frombuffer(raw, dtype=kinds[entry["dtype"]])[0])


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file.

    Raises:
        WeightsMismatchError: not JSON, or no object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise WeightsMismatchError(
            f"{path.name} must be readable JSON", got=str(error), fix="Fetch it again"
        ) from error
    if not isinstance(value, dict):
        raise WeightsMismatchError(f"{path.name} must hold a JSON object", got=type(value).__name__)
    return value
