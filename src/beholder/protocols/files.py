"""Finding a benchmark's files: what lies in a folder, and which picture belongs to which prompt."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beholder._errors import UserError
from beholder.manifest.data_files import JsonReader
from beholder.media.kinds import iter_media_files, media_kind

CONTAINERS = ("images", "image", "imgs", "outputs", "output", "generated", "gen", "videos", "results")
"""Names of folders that hold outputs and say nothing about who made them."""

_SEED = re.compile(r"_(?:s|seed)?(\d+)\Z")


@dataclass(frozen=True)
class Found:
    """A picture of a prompt.

    Args:
        path: relative to the data's folder, with forward slashes.
        prompt_id: the prompt.
        method: the folders between, without those of `CONTAINERS`; None where there are none.
        seed: the number behind the prompt's id in the name, or None.
    """

    path: str
    prompt_id: str
    method: str | None
    seed: int | None


def is_folder(data: Any) -> bool:
    """True for the path of a local folder."""
    return isinstance(data, str | os.PathLike) and os.path.isdir(data)


def load_json_file(path: str | os.PathLike[str]) -> Any:
    """A JSON file's content.

    Raises:
        UserError: it cannot be read, or is no JSON.
    """
    return JsonReader(os.fspath(path)).load()


def find_file(folder: str | os.PathLike[str], names: Iterable[str]) -> Path | None:
    """The first of some file names that the folder has, whatever their case."""
    there = {entry.name.casefold(): entry.name for entry in os.scandir(folder) if entry.is_file()}
    return next((Path(folder) / there[name.casefold()] for name in names if name.casefold() in there), None)


def find_outputs(folder: str, prompt_ids: Mapping[str, Any], unmatched: list[str]) -> Iterator[Found]:
    """The pictures below a folder that belong to prompts, in natural order.

    A picture belongs to the prompt whose id is its name without extension, or the name up to a seed (`ID_3`, `ID_s3`,
    `ID_seed3`).

    Args:
        folder: the data's folder.
        prompt_ids: the known ids.
        unmatched: takes the paths of pictures that belong to none.
    """
    for path in media_paths(folder):
        *parents, name = path.split("/")
        stem = os.path.splitext(name)[0]
        found = _prompt_of(stem, prompt_ids)
        if found is None:
            unmatched.append(path)
            continue
        method = "/".join(part for part in parents if part.casefold() not in CONTAINERS)
        yield Found(path, found[0], method or None, found[1])


def media_paths(folder: str) -> list[str]:
    """Pictures and videos below a folder, relative to it, in natural order; none where there are none."""
    try:
        paths = iter_media_files(folder, kinds=("image", "video"), recursive=True)
    except UserError:
        return []
    return [path.relative_to(folder).as_posix() for path in paths]


def by_stem(folder: str | os.PathLike[str]) -> dict[str, str]:
    """Name without extension → name, of the pictures and videos in a folder; {} where there is no such folder."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    except OSError:
        return {}
    return {os.path.splitext(name)[0]: name for name in names if not name.startswith(".") and media_kind(name)}


def _prompt_of(stem: str, prompt_ids: Mapping[str, Any]) -> tuple[str, int | None] | None:
    if stem in prompt_ids:
        return stem, None
    seed = _SEED.search(stem)
    if seed is not None and stem[: seed.start()] in prompt_ids:
        return stem[: seed.start()], int(seed.group(1))
    return None
