"""Model names: how they are written, and what each stands for.

openai:ViT-L-14                       the field's `pretrained:arch`; `openai:ViT-L/14` is the same
laion2b_s32b_b82k:ViT-L-14            any of open_clip's pairs
open_clip:ViT-L-14-quickgelu/openai   engine:arch/weights
hf:openai/clip-vit-large-patch14@rev  a hub repository, at a revision when one is given
pickscore-v1, demo:emoji              models that are known by a short name
fake, fake:dim=64                     the fake encoder
./folder, /path/to/folder, hf:folder  a local folder or file
open_clip:ViT-B-32//path/to/file.pt   a local checkpoint of an architecture
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from beholder._errors import ModelError, OptionError, UnknownNameError
from beholder.backends.cards import aliases, known_ids
from beholder.backends.files import OPEN_CLIP_STEMS, choose_weights, list_files

BUILT_IN = ("hf", "open_clip", "demo", "fake")

_SLASHED = re.compile(r"\b((?:\w+-)*(?:ViT|EVA\d+)-(?:[A-Za-z0-9]+))/(\d+)(?!\w)")
_AT_PIXELS = re.compile(r"(?<=\d)@(\d+)(px)?\b")
_ARCH = re.compile(
    r"^(ViT|RN\d|EVA\d|convnext|coca_|roberta-|xlm-roberta-|nllb-|mt5-|MobileCLIP|ViTamin|PE-Core|swin_|vit_)",
    re.IGNORECASE,
)
_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_WEIGHT_FILES = (".safetensors", ".bin", ".pt", ".pth")


@dataclass(frozen=True)
class ModelName:
    """A model name that was understood.

    Args:
        asked: as it was written.
        engine: the engine that serves it.
        arch: architecture, where the name gives one ("ViT-L-14"), else "".
        weights: hub repository, pretrained tag, or parameters; a local model's file or folder name.
        revision: revision of the hub repository, or None.
        path: the local folder or file, or None.
    """

    asked: str
    engine: str
    arch: str
    weights: str
    revision: str | None = None
    path: Path | None = None

    @property
    def id(self) -> str:
        """The canonical id; a local model's tells its last folder name only, never where it lies."""
        weights = f"./{self.path.name}" if self.path is not None else self.weights
        text = f"{self.engine}:{self.arch}/{weights}" if self.arch else f"{self.engine}:{weights}".rstrip(":")
        return f"{text}@{self.revision}" if self.revision else text


def parse_name(text: str, *, engines: Iterable[str] = BUILT_IN) -> ModelName:
    """Reads a model name in any of its forms.

    Args:
        text: the name.
        engines: names of the engines there are.

    Raises:
        UnknownNameError: nothing of that name; near names are suggested.
        OptionError: a name that can be read in two ways, or is incomplete; the message gives both ways out.

    >>> parse_name("openai:ViT-L/14").id
    'hf:openai/clip-vit-large-patch14'
    >>> parse_name("laion2b_s32b_b82k:ViT-L/14").id
    'open_clip:ViT-L-14/laion2b_s32b_b82k'
    """
    name = text.strip()
    if not name:
        raise OptionError("a model must have a name", got="an empty one", fix="See: beholder models")
    plain = spell_arch(name)
    known = aliases()
    if plain in known:
        # A model without files ("masks") is no rival of a folder of that name.
        if _is_path(name) and ":" in known[plain]:
            raise _two_ways(name, f"./{name} for the folder or file here", f"{known[plain]} for the known model")
        return _of_engine(text, known[plain], engines)
    if _looks_like_path(name) or _is_path(name):
        return _local(text, Path(name).expanduser(), engine=None)
    engine, colon, rest = plain.partition(":")
    if colon and engine in tuple(engines):
        return _of_engine(text, f"{engine}:{name.partition(':')[2] if engine != 'open_clip' else rest}", engines)
    if colon and engine == "openai":
        return _openai(text, rest)
    if colon and rest and _ARCH.match(rest) and "/" not in rest:
        return ModelName(text, "open_clip", rest, engine)
    fix = "See all with: beholder models. A local folder is written ./folder"
    if _REPO.fullmatch(name):
        fix = f"A hub repository is written hf:{name}. {fix}"
    raise UnknownNameError("model", text, sorted({*known, *known_ids()}), fix=fix)


def spell_arch(name: str) -> str:
    """Spells architectures open_clip's way: `ViT-L/14` and `ViT-L/14@336px` become `ViT-L-14` and `ViT-L-14-336`.

    >>> spell_arch("openai:ViT-L/14@336px")
    'openai:ViT-L-14-336'
    """
    spelled = _SLASHED.sub(r"\1-\2", name)
    return _AT_PIXELS.sub(r"-\1", spelled) if spelled != name or _ARCH.match(name.partition(":")[2]) else spelled


def _of_engine(text: str, name: str, engines: Iterable[str]) -> ModelName:
    engine, _, rest = name.partition(":")
    if engine == "hf":
        return _hf(text, rest)
    if engine == "open_clip":
        return _open_clip(text, rest)
    if rest and _looks_like_path(rest):
        path = Path(rest).expanduser()
        if not path.exists():
            raise _no_such(text, path)
        return ModelName(text, engine, "", path.name, path=path)
    return ModelName(text, engine, "", rest)


def _hf(text: str, rest: str) -> ModelName:
    if not rest:
        raise OptionError("hf: must name a hub repository or a folder", got=repr(text), fix="Write hf:org/name")
    if _looks_like_path(rest):
        return _local(text, Path(rest).expanduser(), engine="hf")
    repo, at, revision = rest.partition("@")
    is_repo = _REPO.fullmatch(repo) is not None
    if _is_path(rest):
        if is_repo and not at:
            raise _two_ways(text, f"hf:./{rest} for the folder here", f"hf:{rest}@main for the hub repository")
        return _local(text, Path(rest), engine="hf")
    if not is_repo or (at and not revision):
        raise OptionError(
            "hf: must name a hub repository (org/name, with @revision when one is wanted) or a folder that is there",
            got=repr(text),
        )
    return ModelName(text, "hf", "", repo, revision or None)


def _open_clip(text: str, rest: str) -> ModelName:
    if _looks_like_path(rest):
        return _local(text, Path(rest).expanduser(), engine="open_clip")
    arch, slash, weights = rest.partition("/")
    if not slash or not weights:
        if _is_path(rest):
            return _local(text, Path(rest), engine="open_clip")
        raise OptionError(
            "an open_clip model is written open_clip:arch/weights",
            got=repr(text),
            fix="For example open_clip:ViT-B-32/laion2b_s34b_b79k, or open_clip:ViT-B-32//path/to/checkpoint.pt",
        )
    if _looks_like_path(weights) or weights.endswith(_WEIGHT_FILES):
        path = Path(weights).expanduser()
        if not path.is_file():
            raise _no_such(text, path)
        return ModelName(text, "open_clip", arch, path.name, path=path)
    return ModelName(text, "open_clip", arch, weights)


def _openai(text: str, arch: str) -> ModelName:
    ours = sorted(alias for alias in aliases() if alias.startswith("openai:") and "quickgelu" not in alias)
    if re.fullmatch(r"RN\d+(x\d+)?(-quickgelu)?", arch):
        bare = arch.removesuffix("-quickgelu")
        raise OptionError(
            "openai:… must be one of the four vision transformers; OpenAI's ResNets are served by open_clip",
            got=repr(text),
            fix=f'Write open_clip:{bare}-quickgelu/openai (needs: pip install "beholder[openclip]")',
        )
    raise UnknownNameError("model", text, ours, fix="There are: " + ", ".join(ours))


def _local(text: str, path: Path, *, engine: str | None) -> ModelName:
    if not path.exists():
        raise _no_such(text, path)
    folder = path if path.is_dir() else path.parent
    names = set(list_files(folder))
    hf = "config.json" in names and bool(choose_weights(names))
    open_clip = "open_clip_config.json" in names and bool(choose_weights(names, OPEN_CLIP_STEMS))
    if engine is None and path.is_dir() and hf and open_clip:
        raise _two_ways(text, f"hf:{path} for transformers", f"open_clip:{path} for open_clip")
    if engine is None:
        if path.is_file():
            open_clip = "open_clip_config.json" in names and path.name.startswith(OPEN_CLIP_STEMS)
            hf = "config.json" in names and not open_clip
        engine = "hf" if hf or ("config.json" in names and not open_clip) else "open_clip" if open_clip else None
    if engine is None:
        raise ModelError(
            "a local model must be a folder with config.json (transformers) or open_clip_config.json (open_clip) "
            "and weights",
            got=f"{path} without either",
            fix="A bare checkpoint needs its architecture: open_clip:ViT-B-32//path/to/checkpoint.pt",
        )
    path = path.resolve()
    return ModelName(text, engine, "", path.name, path=path)


def _no_such(text: str, path: Path) -> ModelError:
    return ModelError("a local model must be there", got=f"{text!r}: no such folder or file as {path}")


def _two_ways(name: str, first: str, second: str) -> OptionError:
    return OptionError(
        "a model's name must have one meaning", got=f"{name!r}, which has two", fix=f"Write {first}, or {second}"
    )


def _looks_like_path(text: str) -> bool:
    return text.startswith(("/", "./", "../", "~", ".\\", "..\\")) or re.match(r"[A-Za-z]:[\\/]", text) is not None


def _is_path(text: str) -> bool:
    try:
        return os.path.exists(text)
    except ValueError:
        return False
