"""Samples from whatever people have: manifests, folders, templates, tables, generators."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beholder.manifest.readers import open_source
    from beholder.manifest.schema import COLUMNS, Sample, SampleSource
    from beholder.manifest.writer import write_manifest

_HOMES = {
    "COLUMNS": "schema",
    "Sample": "schema",
    "SampleSource": "schema",
    "open_source": "readers",
    "write_manifest": "writer",
}

__all__ = [
    "COLUMNS",
    "Sample",
    "SampleSource",
    "open_source",
    "write_manifest",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
