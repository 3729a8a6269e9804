"""Finds files of models that come from several places, and says all that is missing in one message."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from beholder._errors import MissingExtraError, ModelError, WeightsMismatchError, WeightsMissingError
from beholder.backends import hub
from beholder.backends.base import LoadOptions
from beholder.backends.files import Choice, file_fault
from beholder.backends.hashes import file_sha256
from beholder.backends.places import Place, candidates, places
from beholder.records import ModelCard


@dataclass(frozen=True)
class Part:
    """One file that a model needs.

    Args:
        role: what it is for, in messages ("detector").
        name: its file name.
        folders: sub-folders of a place where it may lie, besides the place itself.
        also: other names under which the same file is passed on.
    """

    role: str
    name: str
    folders: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Need:
    """All that a model needs.

    Args:
        asked: the name that was asked for.
        card: the model's card.
        parts: its files.
        variable: environment variable that names a folder with them, or None.
        homes: further folders where other tools keep them.
        url: address of the only file, where it is on no hub.
        package: package that must be importable, or None.
        extra: our extra that installs that package.
    """

    asked: str
    card: ModelCard
    parts: tuple[Part, ...]
    variable: str | None = None
    homes: tuple[Place, ...] = ()
    url: str | None = None
    package: str | None = None
    extra: str = ""


def find_parts(need: Need, options: LoadOptions, *, named: Path | None = None) -> dict[str, Path]:
    """The files by role, from the first place that has each; what is missing is fetched, when that is allowed.

    Args:
        need: what is needed.
        options: where weights may come from.
        named: a folder that was named (then nothing else is looked at), or a file: the part of that kind of file.

    Raises:
        WeightsMissingError: files are missing; the message also says when the package is.
        MissingExtraError: only the package is missing.
        WeightsMismatchError: a file is damaged or not the one that the card names.
    """
    given = named is not None or bool(need.variable and os.environ.get(need.variable))
    looked = [Place(named, "named")] if named is not None and named.is_dir() else _roots(need, options)
    found = _look(need.parts, looked)
    if named is not None and named.is_file():
        found[_part_of(need, named).role] = named
    missing = [part for part in need.parts if part.role not in found]
    offline = hub.is_offline(options)
    if missing and not given and not offline and (need.card.source or need.url) and _has_package(need):
        try:
            found |= _fetch(need, missing, options)
        except WeightsMissingError as error:
            told = str(error.got).removeprefix("none: ")
            raise _missing(need, missing, looked, why=f"fetching failed: {told}") from error
        missing = []
    if missing:
        raise _missing(need, missing, looked, why="fetching is switched off (offline)" if offline else None)
    if not _has_package(need):
        raise MissingExtraError(f"{need.asked} (licence: {need.card.licence})", str(need.package), need.extra)
    for path in found.values():
        _check(need, path)
    return {part.role: found[part.role] for part in need.parts}


def _roots(need: Need, options: LoadOptions) -> list[Place]:
    """Folders to look in, first looked in first."""
    roots = []
    if need.variable and os.environ.get(need.variable):
        roots.append(Place(Path(os.environ[need.variable]).expanduser(), need.variable))
    for place in places(options):
        if need.card.source:
            roots += [Place(item.folder, place.reason) for item in candidates(place.path, need.card.source, None)]
        roots.append(place)
    return list({place.path: place for place in reversed([*roots, *need.homes])}.values())[::-1]


def _look(parts: Iterable[Part], roots: Iterable[Place]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for part in parts:
        for root in roots:
            names = (part.name, *part.also)
            paths = [root.path / folder / name for name in names for folder in ("", *part.folders)]
            hit = next((path for path in paths if path.is_file()), None)
            if hit is not None:
                found[part.role] = hit
                break
    return found


def _part_of(need: Need, path: Path) -> Part:
    """The part that a named file stands for: the one whose name ends alike."""
    part = next((part for part in need.parts if Path(part.name).suffix == path.suffix), None)
    if part is None:
        kinds = " or ".join(dict.fromkeys(Path(part.name).suffix for part in need.parts))
        raise ModelError(f"a file of {need.card.engine} must end in {kinds}", got=path.name)
    return part


def _fetch(need: Need, missing: list[Part], options: LoadOptions) -> dict[str, Path]:
    if need.url is not None:
        part = missing[0]
        return {part.role: hub.fetch_url(need.url, part.name, options, name=need.asked)}
    names = {part.role: "" for part in missing}

    def choose(have: Iterable[str]) -> Choice:
        for part in missing:
            ends = [name for name in have if name == part.name or name.endswith(f"/{part.name}")]
            names[part.role] = min(ends, key=len, default="")
        lost = tuple(part.name for part in missing if not names[part.role])
        return Choice(tuple(name for name in names.values() if name), (), lost)

    wanted = hub.Wanted(need.asked, str(need.card.source), None, choose, need.card)
    folder = hub.fetch(wanted, options, []).folder
    return {role: folder / name for role, name in names.items()}


def _missing(need: Need, missing: list[Part], looked: list[Place], *, why: str | None) -> WeightsMissingError:
    card = need.card
    files = ", ".join(f"{part.name} ({part.role})" for part in missing)
    lines = ["Looked in:", *(f"  {place.path} ({place.reason})" for place in looked)]
    if card.source:
        lines.append(f"Get them: hf download {card.source}, or from the hub repository {card.source}")
    if need.url:
        lines.append(f"Get it: {need.url}")
    if need.variable:
        lines.append(f"Set {need.variable} to the folder that holds them")
    lines.append(f"Or name the folder: {card.engine}:/path/to/folder")
    if need.extra:
        here = "is here" if _has_package(need) else "is missing too"
        lines.append(f'The package {need.package} {here}; it comes with: pip install "beholder[{need.extra}]"')
    return WeightsMissingError(
        f"the weights of {need.asked} must be on this machine (licence: {card.licence or 'not checked'})",
        got=f"no {files}" + (f"; {why}" if why else ""),
        fix="\n".join(lines),
    )


def _has_package(need: Need) -> bool:
    return need.package is None or importlib.util.find_spec(need.package) is not None


def _check(need: Need, path: Path) -> None:
    reason = file_fault(path)
    if reason is not None:
        raise WeightsMismatchError(f"{path.name} must be whole", got=f"a file that {reason}", fix="Fetch it again")
    expected: Mapping[str, str] = need.card.sha256
    if path.name in expected and file_sha256(path) != expected[path.name]:
        raise WeightsMismatchError(
            f"{path.name} of {need.asked} must have sha256 {expected[path.name]}", got=file_sha256(path)
        )
