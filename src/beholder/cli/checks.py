"""The checks of `beholder doctor`. Each says what it found; none changes anything."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

NEEDED = (
    "torch", "transformers", "pillow", "pyarrow", "numpy", "scipy", "pydantic", "typer", "rich", "safetensors",
    "huggingface_hub", "fsspec",
)  # fmt: skip
OPTIONAL = {"open_clip_torch": "openclip", "av": "video", "pandas": "pandas", "ray": "ray"}
"""Package → extra that installs it."""

_VARIABLES = (
    "BEHOLDER_CACHE", "HF_HOME", "HF_HUB_CACHE", "HF_ENDPOINT", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE",
    "CUDA_VISIBLE_DEVICES",
)  # fmt: skip


@dataclass(frozen=True)
class Check:
    """One finding.

    Args:
        name: what was looked at.
        verdict: "ok", "note" (good to know), "warn" (may cause trouble) or "fail" (beholder needs it).
        text: what was found.
    """

    name: str
    verdict: Literal["ok", "note", "warn", "fail"]
    text: str


def all_checks() -> list[Check]:
    """Everything that is looked at, in the order of printing."""
    return [*_python(), *_packages(), *_devices(), *_memory(), *_folders(), *_variables(), *_plugins()]


def _python() -> Iterator[Check]:
    from beholder import __version__

    yield Check("beholder", "ok", __version__)
    verdict: Literal["ok", "fail"] = "ok" if sys.version_info >= (3, 10) else "fail"
    yield Check("python", verdict, f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def _packages() -> Iterator[Check]:
    for name in NEEDED:
        version = _version(name)
        yield Check(name, "ok", version) if version else Check(name, "fail", f"not installed: pip install {name}")
    for name, extra in OPTIONAL.items():
        missing = f'not installed (optional): pip install "beholder[{extra}]"'
        yield Check(name, "ok" if _version(name) else "note", _version(name) or missing)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _devices() -> Iterator[Check]:
    from beholder.backends.devices import describe_devices

    try:
        gpus, threads = describe_devices()
    except Exception as error:
        yield Check("device", "fail", f"torch does not load: {type(error).__name__}: {error}")
        return
    for name, facts in gpus.items():
        yield Check(name, "ok", facts)
    if not gpus:
        yield Check("device", "note", "cpu only: torch sees no GPU")
    yield Check("threads", "ok", f"{threads} of torch, {os.cpu_count()} processors")


def _memory() -> Iterator[Check]:
    try:
        size = os.sysconf("SC_PAGE_SIZE")
        total, free = os.sysconf("SC_PHYS_PAGES") * size, os.sysconf("SC_AVPHYS_PAGES") * size
    except (ValueError, OSError, AttributeError):
        yield Check("memory", "note", "its size is not known on this system")
        return
    yield Check("memory", "ok", f"{total / 1e9:.1f} GB, {free / 1e9:.1f} GB of it unused")


def _folders() -> Iterator[Check]:
    from beholder.backends.base import LoadOptions
    from beholder.backends.places import places
    from beholder.runs.atomic import default_store
    from beholder.runs.file_systems import network_kind

    store = default_store()
    yield _writable("feature store", store, needed=True)
    kind = network_kind(store)
    if kind is not None:
        text = f"{store} lies on a network file system ({kind}), where SQLite's locks are not to be trusted: "
        own = "give each machine its own with --store or BEHOLDER_CACHE; shards (--shard i/N) have their own by default"
        yield Check("feature store", "warn", text + own)
    for place in places(LoadOptions()):
        yield _writable(f"weights ({place.reason})", place.path, needed=False)


def _writable(name: str, folder: Path, *, needed: bool) -> Check:
    """Whether files can be made in a folder, or in the nearest one above it that exists; leaves nothing behind."""
    there = next((path for path in (folder, *folder.absolute().parents) if path.is_dir()), Path("/"))
    try:
        with tempfile.NamedTemporaryFile(dir=there, prefix=".beholder-"):
            pass
        free = shutil.disk_usage(there).free
    except OSError as error:
        return Check(name, "fail" if needed else "warn", f"{folder} cannot be written: {error.strerror or error}")
    missing = "" if folder.is_dir() else ", not made yet"
    low = free < 1_000_000_000
    return Check(name, "warn" if low else "ok", f"{folder}{missing}, {free / 1e9:.1f} GB free")


def _variables() -> Iterator[Check]:
    from beholder.backends.base import LoadOptions
    from beholder.backends.hub import is_offline

    offline = is_offline(LoadOptions())
    yield Check("fetching", "note" if offline else "ok", "switched off (offline)" if offline else "allowed")
    for name in _VARIABLES:
        if os.environ.get(name):
            yield Check(name, "note", os.environ[name])
    if os.environ.get("HF_TOKEN"):
        yield Check("HF_TOKEN", "note", "set (its value is not shown)")


def _plugins() -> Iterator[Check]:
    from beholder.backends.engine_table import broken_engines
    from beholder.cli.list import metric_infos
    from beholder.metrics.catalog import METRICS

    count = len(metric_infos(None))
    yield Check("metrics", "ok", f"{count} load")
    for item in [*METRICS.broken(), *broken_engines()]:
        yield Check(f"plug-in {item.name}", "warn", f"{item.target} is broken: {item.reason}")
