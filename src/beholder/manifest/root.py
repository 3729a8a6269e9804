"""Data of others: every file that a sample names must lie below one folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from beholder._errors import Fault, UserError
from beholder.manifest.schema import Sample
from beholder.media.archives import TarMember
from beholder.media.files import LocalFile
from beholder.media.remote import RemoteFile


class Root:
    """The folder that files must lie in, with links followed.

    Args:
        folder: the folder.

    Raises:
        UserError: no such folder.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path = os.path.realpath(os.path.expanduser(os.fspath(folder)))
        if not os.path.isdir(self.path):
            raise UserError("--root must be a folder that exists", got=os.fspath(folder))

    def holds(self, medium: Any) -> bool:
        """Whether a medium reads nothing outside the folder; what is no file is inside."""
        if isinstance(medium, RemoteFile):
            return False
        path = medium.path if isinstance(medium, LocalFile) else medium.tar if isinstance(medium, TarMember) else None
        return path is None or all(self._below(item) for item in _files(path))

    def faults(self, sample: Sample, row: int) -> Iterator[Fault]:
        """A fault for each column of a sample that names something outside."""
        for column, media in _media(sample).items():
            outside = [medium for medium in media if not self.holds(medium)]
            if outside:
                text = f"names {outside[0].name!r}, which is not below {self.path} (--root)"
                yield Fault(text, row=row, where=column)

    def _below(self, path: str) -> bool:
        found = os.path.realpath(path)
        return found == self.path or found.startswith(self.path.rstrip(os.sep) + os.sep)


def _files(path: str) -> Iterator[str]:
    """The file itself, and the frames where it is a folder of frames."""
    yield path
    if os.path.isdir(path):
        with os.scandir(path) as entries:
            yield from (entry.path for entry in entries)


def _media(sample: Sample) -> dict[str, list[Any]]:
    masks = sample.masks
    masks = list(masks.values()) if isinstance(masks, Mapping) else [masks]
    return {
        "output": [sample.output],
        "references": list(sample.references),
        "masks": masks,
        "reference_masks": list(sample.reference_masks),
    }
