"""Small data sets and encoders that count, for tests of the engine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import beholder
from beholder.backends.fake import FakeEncoder


class CountingEncoder(FakeEncoder):
    """A fake encoder that counts what it was asked to encode."""

    image_batch = 8
    text_batch = 8

    def __init__(self, name: str = "counting", **options: Any) -> None:
        super().__init__(name, dim=16, **options)
        self.prepared = 0
        self.texts: list[str] = []
        self.shapes: set[int] = set()
        self.closed = 0

    def prepare_image(self, picture: Any) -> np.ndarray:
        self.prepared += 1
        return super().prepare_image(picture)

    def encode_images(self, batch: np.ndarray) -> np.ndarray:
        self.shapes.add(len(batch))
        return super().encode_images(batch)

    def encode_texts(self, texts: Sequence[str]) -> Any:
        self.texts += list(dict.fromkeys(texts))
        return super().encode_texts(texts)


def counting(name: str = "counting", **options: Any) -> CountingEncoder:
    """A counting encoder, registered under its name."""
    encoder = CountingEncoder(name, **options)
    beholder.register_encoder(name, encoder)
    return encoder


def write_set(folder: Path, count: int, **changes: dict[str, Any]) -> Path:
    """A manifest of `count` rows (two methods, five prompts, three concepts with two references each).

    `changes` are cells to overwrite, by row: `r3={"prompt": ""}`.
    """
    (folder / "img").mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    for concept in range(3):
        for at in range(2):
            _write_image(folder / "img" / f"ref{concept}_{at}.png", generator)
    rows = []
    for number in range(count):
        _write_image(folder / "img" / f"{number}.png", generator)
        row = {
            "output": f"img/{number}.png",
            "prompt": f"a photo of thing {number % 5}",
            "references": [f"img/ref{number % 3}_{at}.png" for at in range(2)],
            "concept": f"c{number % 3}",
            "method": "ab"[number % 2],
            "seed": number // 10,
        }
        rows.append({**row, **changes.get(f"r{number}", {})})
    path = folder / "samples.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def _write_image(path: Path, generator: np.random.Generator) -> None:
    pixels = generator.integers(0, 256, (12, 16, 3), dtype=np.uint8)
    if not path.exists():
        Image.fromarray(pixels).save(path)


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    """The cosine of two vectors, in float64."""
    a, b = one.astype(np.float64), other.astype(np.float64)
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))
