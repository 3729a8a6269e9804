"""Canonical manifests: any source as JSON Lines."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from beholder._errors import Fault, InputError, UserError
from beholder.manifest.columns import EXTRAS, canonical_name
from beholder.manifest.schema import COLUMNS, Sample, SampleSource, is_written_mask
from beholder.media.base import Medium


def write_manifest(source: SampleSource, path: str | os.PathLike[str]) -> int:
    """Write a source as a canonical JSON Lines manifest, whole or not at all.

    Paths below the manifest's folder are written relative to it, others as absolute paths; URLs stay. Every row
    gets its id. Columns whose name would be read as a canonical one go into an object `extras`.

    Args:
        source: where the samples come from.
        path: the file to write; an existing one is replaced.

    Returns:
        The number of rows.

    Raises:
        InputError: faults of form, or rows that JSON cannot hold (pictures in memory, for one).
        UserError: a file that cannot be written.
    """
    source.check()
    try:
        return _write(source, Path(path))
    except OSError as error:
        raise UserError(
            f"{path} must be a file that can be written", got=error.strerror or str(error), fix="Name another with -o"
        ) from error


def _write(source: SampleSource, target: Path) -> int:
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = os.path.abspath(target.parent)
    faults: list[Fault] = []
    count = 0
    with _atomic(target) as handle:
        for sample in source:
            count += 1
            try:
                text = json.dumps(_row(sample, folder), ensure_ascii=False, allow_nan=False, default=_json)
            except (TypeError, ValueError) as error:
                faults.append(Fault(str(error), row=sample.row))
            else:
                handle.write(text + "\n")
        if faults:
            raise InputError(source.name, faults)
    return count


def location_of(medium: Medium) -> str | None:
    """Where a medium can be read again: a path, a URL or a tar's member; None for one in memory."""
    from beholder.media.archives import TarMember
    from beholder.media.files import LocalFile
    from beholder.media.remote import RemoteFile

    if isinstance(medium, LocalFile):
        return medium.path
    if isinstance(medium, TarMember):
        return f"{medium.tar}::{medium.member}"
    return medium.url if isinstance(medium, RemoteFile) else None


def _row(sample: Sample, folder: str) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name in COLUMNS:
        value = getattr(sample, name)
        if name == "masks" and isinstance(value, Mapping) and not is_written_mask(value):
            value = {concept: _written(mask, folder, name) for concept, mask in value.items()}
        elif isinstance(value, tuple):
            value = [_written(item, folder, name) for item in value]
        elif name in ("output", "masks"):
            value = _written(value, folder, name)
        if value not in (None, []):
            row[name] = value
    apart: dict[str, Any] = {}
    for name, value in sample.extras.items():
        (apart if canonical_name(name) or name == EXTRAS else row)[name] = value
    return {**row, EXTRAS: apart} if apart else row


def _written(value: Any, folder: str, column: str) -> Any:
    if value is None or isinstance(value, str | int | float | dict):
        return value
    location = location_of(value)
    if location is None:
        name = getattr(value, "name", type(value).__name__)
        raise TypeError(f"{column}: {name} is in memory; save it as a file first, a manifest holds paths")
    if "://" in location:
        return location
    absolute = os.path.abspath(location)
    below = absolute.startswith(folder.rstrip(os.sep) + os.sep)
    return os.path.relpath(absolute, folder).replace(os.sep, "/") if below else absolute


def _json(value: Any) -> Any:
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"JSON cannot hold a {type(value).__name__}; leave the column out")


@contextlib.contextmanager
def _atomic(target: Path) -> Iterator[Any]:
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "x", encoding="utf-8", newline="\n") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
