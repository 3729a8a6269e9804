from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

Draw = Callable[..., Path]


@pytest.fixture
def draw(tmp_path: Path) -> Draw:
    """Draws tiny pictures, each of its own colour unless one is given."""
    count = 0

    def make(name: str, *, size: tuple[int, int] = (4, 4), colour: tuple[int, int, int] | None = None) -> Path:
        nonlocal count
        count += 1
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size, colour or (count % 256, count // 256, 7)).save(path)
        return path

    return make


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes text, bytes or rows (as JSON Lines) below the temporary folder."""

    def make(name: str, content: str | bytes | Iterable[Mapping[str, Any]]) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            content = content.encode()
        elif not isinstance(content, bytes):
            content = "".join(json.dumps(row) + "\n" for row in content).encode()
        path.write_bytes(content)
        return path

    return make
