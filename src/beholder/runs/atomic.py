"""Files that are written whole or not at all, and the folder of everything that beholder keeps for later."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path


def write_atomic(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all: a temporary file beside it, flushed to disk, then renamed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with open(temporary, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def link_or_copy(source: Path, target: Path) -> None:
    """Gives a file that never changes a second name, or copies it where the disk is another one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except FileExistsError:
        return
    except OSError:
        write_atomic(target, source.read_bytes())


def default_store() -> Path:
    """`features` below BEHOLDER_CACHE, or below the platform's cache folder."""
    return cache_root() / "features"


def cache_root() -> Path:
    """BEHOLDER_CACHE, else the platform's cache folder for beholder."""
    explicit = os.environ.get("BEHOLDER_CACHE")
    if explicit:
        return Path(explicit).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser() if base else Path.home() / ".cache") / "beholder"
