"""From a model's files to a `ResolvedModel`: what the engines with weights all do alike."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from beholder._errors import UnknownNameError, WeightsMissingError
from beholder.backends import hub
from beholder.backends.base import LoadOptions, ResolvedModel
from beholder.backends.cards import all_cards, card_of
from beholder.backends.devices import choose_dtype
from beholder.backends.files import Choice, find_fault, list_files
from beholder.backends.hashes import combined_sha256
from beholder.backends.names import ModelName
from beholder.records import ModelCard

TRANSFORMERS = "a whole model in transformers' layout"
"""What a local model must be, in messages."""


class CardEngine:
    """An engine whose models have cards."""

    name: str

    def cards(self) -> Sequence[ModelCard]:
        """Cards of the models that it knows by name."""
        return [card for card in all_cards() if card.engine == self.name]

    def card(self, parsed: ModelName, *, what: str, fix: str) -> ModelCard | None:
        """The card of a name; None for a file or folder of the user's own.

        Args:
            parsed: the name.
            what: what messages call such a model.
            fix: how to name one's own; "{known}" stands for the names there are.

        Raises:
            UnknownNameError: neither.
        """
        card = card_of(parsed.id)
        if card is None and parsed.path is None:
            known = [item.id for item in self.cards()]
            raise UnknownNameError(what, parsed.asked, known, fix=fix.format(known=" and ".join(known)))
        return card


class FolderEngine(CardEngine, ABC):
    """An engine whose models are one folder in transformers' layout, local or a hub repository."""

    @abstractmethod
    def choose(self, names: Iterable[str]) -> Choice:
        """Which of the files in a folder make up a model."""

    def wanted(self, parsed: ModelName) -> list[hub.Wanted]:
        """The hub files that a model needs; none for a local one."""
        if parsed.path is not None:
            return []
        return [hub.Wanted(parsed.asked, *repository(parsed), self.choose, card_of(parsed.id))]

    def local(self, parsed: ModelName) -> hub.Found:
        """The files of a local model.

        Raises:
            WeightsMissingError: a file is missing or cut short.
        """
        folder = local_folder(parsed)
        return whole_files(folder, self.choose(list_files(folder)), must=f"{parsed.asked} must be {TRANSFORMERS}")

    def find(self, parsed: ModelName, options: LoadOptions) -> hub.Found:
        """The files of a model, wherever they are.

        Raises:
            WeightsMissingError: nowhere to be found, or not whole.
        """
        wanted = self.wanted(parsed)
        return hub.find(wanted[0], options) if wanted else self.local(parsed)


def local_folder(parsed: ModelName) -> Path:
    """The folder of a local model: the one that was named, or that of the file."""
    path = parsed.path or Path()
    return path if path.is_dir() else path.parent


def whole_files(folder: Path, choice: Choice, *, must: str, where: bool = False) -> hub.Found:
    """The files of a local model, when all are there and none is cut short.

    Args:
        folder: where they lie.
        choice: which they are.
        must: what has to hold, for the message.
        where: the message says the folder too.

    Raises:
        WeightsMissingError: a file is missing or not whole.
    """
    reason = find_fault(folder, choice)
    if reason is not None:
        raise WeightsMissingError(must, got=f"{folder}: {reason}" if where else reason)
    return hub.Found(folder, choice)


def repository(parsed: ModelName) -> tuple[str, str | None]:
    """The hub repository that a name gives, and the revision behind its "@"."""
    repo, _, revision = parsed.weights.partition("@")
    return repo, parsed.revision or revision or None


def plain_card(parsed: ModelName, *, engine: str, family: str, capabilities: tuple[str, ...] = ()) -> ModelCard:
    """The card of a model in transformers' layout that no card tells of."""
    card = ModelCard(
        id=parsed.id, engine=engine, family=family, arch=family, weights=parsed.id.partition(":")[2].partition("@")[0],
        source=None if parsed.path is not None else parsed.weights,
    )  # fmt: skip
    return dataclasses.replace(card, capabilities=capabilities) if capabilities else card


def paths_of(found: hub.Found, role: str = "") -> dict[str, Path]:
    """Every file of a model by its name, behind "role/" where there is one."""
    return {f"{role}/{name}" if role else name: found.folder / name for name in found.files.all}


def weights_size(found: hub.Found) -> int:
    """Bytes of the weight files."""
    return sum((found.folder / name).stat().st_size for name in found.files.weights)


def describe_files(
    parsed: ModelName,
    card: ModelCard,
    found: hub.Found,
    *,
    capability: str,
    dtype: str,
    preprocessing: Mapping[str, Any],
    paths: Mapping[str, Path] | None = None,
    details: Mapping[str, Any] | None = None,
    locations: Mapping[str, str] | None = None,
    constants: Mapping[str, float] | None = None,
) -> ResolvedModel:
    """The resolved model of files that were found.

    Args:
        parsed: its name.
        card: its card, without what the files tell (names, size, revision) and without the preprocessing.
        found: its files.
        capability: what it is to do.
        dtype: what was asked for; "auto" goes by the size of the weights.
        preprocessing: the pinned preprocessing, JSON-ready.
        paths: every file that moves its numbers, by role, for the hash; None for those of `found` as "model/NAME".
        details: what loading needs; the names of the weight files are added to it.
        locations: further folders by role.
        constants: numbers that belong to the checkpoint.
    """
    size = weights_size(found)
    full = dataclasses.replace(
        card, revision=found.revision, files=found.files.all, size_bytes=size, preprocessing=preprocessing
    )
    return ResolvedModel(
        asked=parsed.asked,
        id=parsed.id,
        card=full,
        location=str(found.folder),
        weights_sha256=combined_sha256(paths_of(found, "model") if paths is None else paths),
        preprocessing=preprocessing,
        dtype=choose_dtype(dtype, size_bytes=size),
        details={**(details or {}), "weights": list(found.files.weights)},
        locations=locations or {},
        constants=constants or {},
        capability=capability,
    )


def describe_parts(
    parsed: ModelName,
    card: ModelCard,
    files: Mapping[str, Path],
    *,
    capability: str,
    dtype: str,
    preprocessing: Mapping[str, Any],
    location: Path | None = None,
    details: Mapping[str, Any] | None = None,
    locations: Mapping[str, str] | None = None,
) -> ResolvedModel:
    """The resolved model of single files, each with a role.

    Args:
        parsed: its name.
        card: its card, without what the files tell (names, size) and without the preprocessing.
        files: role → file; all of them enter the hash.
        capability: what it is to do.
        dtype: dtype of the forward pass.
        preprocessing: the pinned preprocessing, JSON-ready.
        location: the file or folder that is loaded; None for the first file.
        details: what loading needs.
        locations: further files or folders by role.
    """
    full = dataclasses.replace(
        card,
        files=tuple(path.name for path in files.values()),
        size_bytes=sum(path.stat().st_size for path in files.values()),
        preprocessing=preprocessing,
    )
    return ResolvedModel(
        asked=parsed.asked,
        id=parsed.id,
        card=full,
        location=str(location or next(iter(files.values()))),
        weights_sha256=combined_sha256(files),
        preprocessing=preprocessing,
        dtype=dtype,
        details=details or {},
        locations=locations or {},
        capability=capability,
    )
