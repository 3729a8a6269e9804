"""Two folders of pictures or videos, joined by name."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from beholder._errors import Fault, InputError
from beholder.manifest._media import media_files


class JoinedFolders(NamedTuple):
    """Files of two folders that have the same name.

    Args:
        references: paths, in natural order.
        generated: the path of the same name in the other folder, for each.
        leftovers: files that have no partner, both folders' one after the other.
    """

    references: list[Path]
    generated: list[Path]
    leftovers: tuple[str, ...]


def are_folders(*values: Any) -> bool:
    """Whether every value is the path of a folder; a list with a folder in it is not."""
    return all(isinstance(value, str | os.PathLike) and os.path.isdir(os.path.expanduser(value)) for value in values)


def join_folders(
    references: str | os.PathLike[str], generated: str | os.PathLike[str], *, allow_extra: bool
) -> JoinedFolders:
    """Joins two folders' media files by their path below the folder without its extension.

    Args:
        references: the one folder; folders inside it are looked into, hidden files are left out.
        generated: the other.
        allow_extra: True accepts files without a partner.

    Raises:
        UserError: a folder without media files.
        InputError: files that differ in their extension only; files without a partner, unless they are accepted;
            nothing that joins. All of them are listed.
    """
    roots = [Path(os.path.expanduser(folder)) for folder in (references, generated)]
    faults: list[Fault] = []
    real, made = (_by_name(root, faults) for root in roots)
    shared = [name for name in real if name in made]
    lone = [str(path) for name, path in real.items() if name not in made]
    lone += [str(path) for name, path in made.items() if name not in real]
    if not allow_extra or not shared:
        faults += [Fault("no file of this name in the other folder", where=path) for path in lone]
    if faults:
        raise InputError(f"{roots[0]} with {roots[1]}", faults)
    return JoinedFolders([real[name] for name in shared], [made[name] for name in shared], tuple(lone))


def _by_name(root: Path, faults: list[Fault]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in media_files(str(root)):
        name = str(PurePosixPath(path).with_suffix(""))
        if name in found:
            faults.append(Fault(f"{found[name].name} has this name with another extension", where=str(root / path)))
        found.setdefault(name, root / path)
    return found
