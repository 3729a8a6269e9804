"""Finds weights on this machine, and fetches them when that is allowed: the only module that fetches."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beholder._errors import ModelError, UnknownNameError, WeightsMismatchError, WeightsMissingError
from beholder.backends.base import LoadOptions
from beholder.backends.files import Choice, Chooser, find_fault, list_files
from beholder.backends.hashes import beholder_cache, file_sha256
from beholder.backends.places import Candidate, Place, candidates, places
from beholder.records import ModelCard

PROCESSOR = "tokenizer and preprocessing files"
"""`Wanted.what` for files beside the weights."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Wanted:
    """A set of files of one hub repository.

    Args:
        name: what messages call the model: the name that was asked for.
        repo: repository on the hub, `org/name`.
        revision: branch, tag or commit; None for the main branch.
        choose: which of a repository's files make up the set.
        card: the model's card, or None.
        what: what the files are, in messages.
    """

    name: str
    repo: str
    revision: str | None
    choose: Chooser
    card: ModelCard | None = None
    what: str = "weights"


@dataclass(frozen=True)
class Found:
    """Files of a model on this machine: all there, none cut short.

    Args:
        folder: the folder that holds them.
        files: their names.
        revision: the hub's commit, when the folder's place in the hub's cache tells it.
        place: why the place was looked in; "" for a folder that was named itself.
    """

    folder: Path
    files: Choice
    revision: str | None = None
    place: str = ""


@dataclass(frozen=True)
class Look:
    """One place that was looked in: what was found there, or why nothing serves.

    Args:
        path: the folder looked at.
        place: why it was looked at.
        found: the model, or None.
        reason: why the folder does not serve; None when it does.
    """

    path: Path
    place: str
    found: Found | None
    reason: str | None


def is_offline(options: LoadOptions) -> bool:
    """True when nothing may be fetched: asked for, or by `HF_HUB_OFFLINE` (also `TRANSFORMERS_OFFLINE`)."""
    if options.offline is not None:
        return options.offline
    truths = {"1", "ON", "YES", "TRUE"}
    return any(os.environ.get(name, "").upper() in truths for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))


def look(wanted: Wanted, options: LoadOptions) -> list[Look]:
    """Looks in every place, in order; fetches nothing."""
    looks = []
    for place in places(options):
        tried = [
            _look_at(wanted, candidate, place) for candidate in candidates(place.path, wanted.repo, wanted.revision)
        ]
        if not tried:
            there = "nothing of this model" if place.path.is_dir() else "no such folder"
            tried = [Look(place.path, place.reason, None, there)]
        looks += tried
    return looks


def _look_at(wanted: Wanted, candidate: Candidate, place: Place) -> Look:
    choice = wanted.choose(list_files(candidate.folder))
    reason = find_fault(candidate.folder, choice)
    found = Found(candidate.folder, choice, candidate.revision, place.reason) if reason is None else None
    return Look(candidate.folder, place.reason, found, reason)


def find(wanted: Wanted, options: LoadOptions) -> Found:
    """The files on this machine, from the first place that has all of them; else fetched, when that is allowed.

    Raises:
        WeightsMissingError: nowhere to be found, and not to be fetched.
        WeightsMismatchError: a fetched file's hash is wrong.
    """
    looks = look(wanted, options)
    for item in looks:
        if item.found is not None:
            check_card_hashes(wanted, item.found)
            return item.found
    if is_offline(options):
        raise missing_error(wanted, looks, why="fetching is switched off (offline)")
    return fetch(wanted, options, looks)


def fetch(wanted: Wanted, options: LoadOptions, looks: list[Look]) -> Found:
    """Fetches the files into the first place that was named (the hub's cache otherwise) and checks their hashes."""
    target = places(options)[0].path
    import huggingface_hub as hub

    endpoint = os.environ.get("HF_ENDPOINT") or None
    try:
        info = hub.HfApi(endpoint=endpoint).model_info(
            wanted.repo, revision=wanted.revision, files_metadata=True, timeout=30
        )
        siblings = {item.rfilename: item for item in info.siblings or ()}
        choice = wanted.choose(siblings)
        if choice.missing:
            raise ModelError(
                f"the hub repository {wanted.repo} must hold a whole model",
                got=f"one that lacks {', '.join(choice.missing)}",
            )
        folder = target
        for name in choice.all:
            path = Path(hub.hf_hub_download(wanted.repo, name, revision=info.sha, cache_dir=target, endpoint=endpoint))
            check_fetched(path, name, _expected(siblings[name], name, wanted.card))
            folder = path.parents[name.count("/")]
    except ModelError:
        raise
    except Exception as error:
        raise _hub_error(wanted, looks, error) from error
    _remember_reference(folder, wanted.revision or "main", str(info.sha))
    found = Found(folder, choice, info.sha, "fetched")
    reason = find_fault(folder, choice)
    if reason is not None:
        raise WeightsMismatchError(f"the files of {wanted.name} must be whole", got=reason)
    return found


def fetch_url(url: str, file_name: str, options: LoadOptions, *, name: str, sha256: str | None = None) -> Path:
    """Fetches one file that is on no hub into the first place that was named (our cache otherwise).

    Args:
        url: its address.
        file_name: what it is called here.
        options: where weights may come from.
        name: the model that needs it, for messages.
        sha256: the hash that it must have, where it is known.

    Raises:
        WeightsMissingError: it cannot be fetched or stored.
        WeightsMismatchError: its hash is another.
    """
    import shutil
    import urllib.request

    folder = places(options)[0].path if options.cache_dir else beholder_cache()
    target = folder / file_name
    temporary = ""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{file_name}-", suffix=".incomplete")
        with os.fdopen(handle, "wb") as file, urllib.request.urlopen(url, timeout=60) as answer:
            shutil.copyfileobj(answer, file)
            length = answer.headers.get("Content-Length")
        got = os.path.getsize(temporary)
        if length is not None and got != int(length):
            raise OSError(f"the connection ended after {got:,} of {int(length):,} bytes")
        os.replace(temporary, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise WeightsMissingError(
            f"{file_name}, which {name} needs, must be fetched or be on this machine",
            got=f"{type(error).__name__}: {error}",
            fix=f"Get it on a machine with a network from {url}\nand put it in {folder}",
        ) from error
    check_fetched(target, file_name, sha256)
    return target


def _expected(sibling: Any, name: str, card: ModelCard | None) -> str | None:
    """The sha256 a file must have: the card's, else the one that the hub keeps for large files."""
    if card is not None and name in card.sha256:
        return card.sha256[name]
    lfs = getattr(sibling, "lfs", None)
    value = lfs.get("sha256") if isinstance(lfs, Mapping) else getattr(lfs, "sha256", None)
    return str(value) if value else None


def check_fetched(path: Path, name: str, expected: str | None) -> None:
    """Compares a fetched file with the hash it must have; a wrong one is removed, so that it is fetched anew.

    Raises:
        WeightsMismatchError: the hash is another.
    """
    if expected is None:
        return
    got = file_sha256(path)
    if got == expected:
        return
    blob = path.resolve()
    path.unlink(missing_ok=True)
    blob.unlink(missing_ok=True)
    raise WeightsMismatchError(
        f"the fetched file {name} must have sha256 {expected}", got=got, fix="It was removed; fetch it again"
    )


def check_card_hashes(wanted: Wanted, found: Found) -> None:
    """Compares files with the hashes on the model's card, and blobs of the hub's cache with their names.

    Raises:
        WeightsMismatchError: a file is not the one that the card or the hub's cache names.
    """
    for name in found.files.all:
        expected = expected_sha256(found.folder / name, wanted.card)
        if expected is not None and file_sha256(found.folder / name) != expected:
            raise WeightsMismatchError(
                f"{name} of {wanted.name} must have sha256 {expected}",
                got=f"{file_sha256(found.folder / name)} in {found.folder}",
                fix=f"Remove the file and fetch it again: beholder models pull {wanted.name}",
            )


def expected_sha256(path: Path, card: ModelCard | None) -> str | None:
    """The sha256 that a file must have, as far as it is known: from the card, or from its blob's name."""
    if card is not None and path.name in card.sha256:
        return card.sha256[path.name]
    blob = path.resolve()
    return blob.name if blob.parent.name == "blobs" and _SHA256.fullmatch(blob.name) else None


def _remember_reference(folder: Path, revision: str, commit: str) -> None:
    """Notes which commit a branch stood for, as the hub's own cache does."""
    if revision == commit or folder.parent.name != "snapshots":
        return
    reference = folder.parent.parent / "refs" / revision
    reference.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=reference.parent, prefix=".ref-")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(commit)
    os.replace(temporary, reference)


def _hub_error(wanted: Wanted, looks: list[Look], error: Exception) -> ModelError | UnknownNameError:
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return missing_error(
            wanted,
            looks,
            why="its licence must be accepted first",
            fix=f"Accept it at https://huggingface.co/{wanted.repo}, then log in with: hf auth login",
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return missing_error(wanted, looks, why=f"the hub has no revision {wanted.revision!r} of it")
    if isinstance(error, errors.RepositoryNotFoundError):
        return missing_error(wanted, looks, why="the hub has no such repository, or it is private")
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, ConnectionError):
        return missing_error(wanted, looks, why=f"it could not be stored: {error}")
    first = (str(error).strip().splitlines() or [""])[0]
    return missing_error(wanted, looks, why=f"the hub could not be reached: {type(error).__name__}: {first}")


_ONE_METRIC = frozenset({"pickscore", "hps", "gme"})
"""Families of encoders that are a metric's own; --model does not reach them."""


def _option(card: ModelCard | None) -> str:
    """What names another model for the metric that wants this one."""
    general = {"ImageTextEncoder", "VideoTextEncoder", "Segmenter"}  # Segmenters put an option of theirs in its place.
    if card is None or (general & set(card.capabilities) and card.family not in _ONE_METRIC):
        return "--model "
    return "-m METRIC,model="


def _place(card: ModelCard | None) -> str:
    """What names a folder of such weights; engines of their own need their name before it."""
    plain = card is None or card.engine in ("hf", "open_clip") or "Segmenter" in card.capabilities
    return "/path/to/folder" if card is None or plain else f"{card.engine}:/path/to/folder"


def missing_error(wanted: Wanted, looks: list[Look], *, why: str, fix: str | None = None) -> WeightsMissingError:
    """The one message for weights that are nowhere to be found."""
    card = wanted.card
    facts = [f"hub repository {wanted.repo}" + (f" at {wanted.revision}" if wanted.revision else "")]
    facts.append(f"download {format_size(card.size_bytes)}" if card and card.size_bytes else "size not known")
    facts.append(f"licence {card.licence}" if card and card.licence else "licence not checked")
    seen = "\n".join(f"  {item.path} ({item.place}): {item.reason}" for item in looks)
    only = " --exclude '*.bin' '*.safetensors'" if wanted.what == PROCESSOR else ""
    text = (
        f"Looked in:\n{seen}\n"
        f"On a machine with a network: beholder models pull {wanted.name}   or: hf download {wanted.repo}{only}\n"
        f"  then copy the folder to one of the places above, or name it: {_option(card)}{_place(card)}"
    )
    # The embedded encoder stands in for encoders only.
    if card is None or "ImageTextEncoder" in card.capabilities:
        text += f"\nTo try things out without these weights: {_option(card)}demo:emoji"
    return WeightsMissingError(
        f"the {wanted.what} of {wanted.name} must be on this machine ({', '.join(facts)})",
        got=f"none: {why}",
        fix=f"{fix}.\n{text}" if fix else text,
    )


def format_size(size: int) -> str:
    """A number of bytes for people: "1.7 GB" (decimal units)."""
    if size >= 1_000_000_000:
        return f"{size / 1e9:.1f} GB"
    return f"{size / 1e6:.0f} MB" if size >= 1_000_000 else f"{size / 1e3:.0f} kB"
