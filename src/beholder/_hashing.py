"""Content hashes: sha256 of bytes, files and canonical JSON."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

_BLOCK = 1 << 20


def hash_bytes(data: bytes | memoryview) -> str:
    """Hex sha256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def hash_file(path: str | Path) -> str:
    """Hex sha256 of a file, read in blocks."""
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        while block := handle.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text. NaN is refused."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def hash_json(value: Any) -> str:
    """Hex sha256 of a value's canonical JSON."""
    return hash_bytes(canonical_json(value).encode())
