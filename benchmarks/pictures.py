"""JPEG files that decode like photographs: smooth noise at several scales."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image


def write_pictures(folder: Path, count: int, size: int, *, first: int = 0) -> list[Path]:
    """`count` distinct JPEG files of `size` × `size` pixels."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in range(first, first + count):
        generator = np.random.default_rng(number)
        layers = [
            np.asarray(
                Image.fromarray(generator.integers(0, 256, (side, side, 3), dtype=np.uint8)).resize((size, size), 3)
            ).astype(np.float32)
            for side in (4, 16, 64, size)
        ]
        mixed = sum(weight * layer for weight, layer in zip((0.4, 0.3, 0.2, 0.1), layers, strict=True))
        path = folder / f"{number}.jpg"
        Image.fromarray(np.asarray(mixed).astype(np.uint8)).save(path, quality=90)
        paths.append(path)
    return paths


def write_manifest(path: Path, outputs: list[Path], references: list[Path], prompts: int) -> None:
    """A manifest with `prompts` distinct prompts and four references a row."""
    rows = [
        {
            "output": str(output),
            "prompt": f"a photo of scene number {at % prompts}",
            "references": [str(references[(at + k) % len(references)]) for k in range(4)],
        }
        for at, output in enumerate(outputs)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
