"""Where weights may lie on this machine, in the order in which places are looked in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from beholder.backends.base import LoadOptions


@dataclass(frozen=True)
class Place:
    """A folder that may hold models.

    Args:
        path: the folder.
        reason: why it is looked in ("cache_dir", an environment variable, "the hub's cache").
    """

    path: Path
    reason: str


@dataclass(frozen=True)
class Candidate:
    """A folder that may be the model that is wanted.

    Args:
        folder: the folder.
        revision: the commit that the folder's place in the hub's cache tells, or None for a plain folder.
    """

    folder: Path
    revision: str | None


def places(options: LoadOptions) -> list[Place]:
    """All places for weights, first looked in first; the environment is read at every call."""
    result = []
    if options.cache_dir is not None:
        result.append(Place(Path(options.cache_dir).expanduser(), "cache_dir"))
    for variable in ("WORLDFOUNDRY_T2V_METRICS_CACHE_DIR", "WORLDFOUNDRY_HFD_ROOT", "BEHOLDER_CACHE"):
        value = os.environ.get(variable)
        if value:
            result.append(Place(Path(value).expanduser(), variable))
    result.append(Place(hub_cache(), "the hub's cache"))
    return list({place.path: place for place in reversed(result)}.values())[::-1]


def hub_cache() -> Path:
    """The hub's standard cache, by the hub's own variables."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(variable):
            return Path(os.environ[variable]).expanduser()
    if os.environ.get("HF_HOME"):
        return Path(os.environ["HF_HOME"]).expanduser() / "hub"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser() if base else Path.home() / ".cache") / "huggingface" / "hub"


def candidates(place: Path, repo: str, revision: str | None) -> Iterator[Candidate]:
    """Folders in `place` that may hold `repo`, best first.

    Layouts: the hub's cache (`models--org--name/snapshots/…`, also one level down in `hub`), and plain folders
    `org/name`, `org--name` and `name`. A plain folder cannot say which revision it holds, so it does not serve a
    request for one.
    """
    for base in (place, place / "hub"):
        yield from _snapshots(base / ("models--" + repo.replace("/", "--")), revision)
    if revision is None:
        for folder in (place / repo, place / repo.replace("/", "--"), place / repo.rpartition("/")[2]):
            if folder.is_dir():
                yield Candidate(folder, None)


def _snapshots(base: Path, revision: str | None) -> Iterator[Candidate]:
    snapshots = base / "snapshots"
    if not snapshots.is_dir():
        return
    reference = base / "refs" / (revision or "main")
    if reference.is_file():
        commit = reference.read_text(encoding="utf-8").strip()
        if commit and (snapshots / commit).is_dir():
            yield Candidate(snapshots / commit, commit)
            return
    found = sorted(entry for entry in snapshots.iterdir() if entry.is_dir())
    if revision is not None:
        found = [entry for entry in found if len(revision) >= 7 and entry.name.startswith(revision)]
    # Without a reference, two snapshots are a guess; one is not.
    if len(found) == 1:
        yield Candidate(found[0], found[0].name)
