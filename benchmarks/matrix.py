"""64 pictures with 64 texts, beside encoding every pair; the pair loop is timed on some pairs and scaled up."""

from __future__ import annotations

from pathlib import Path

import beholder
from beholder.media.base import DecodeOptions
from beholder.media.sources import as_medium
from benchmarks.models import NAME, register_b32
from benchmarks.pictures import write_pictures
from benchmarks.table import Row, at_least, seconds

SIDE, TIMED = 64, 24


def measure(folder: Path) -> list[Row]:
    encoder = register_b32(folder / "model")
    files = [str(path) for path in write_pictures(folder / "out", SIDE, 256)]
    texts = [f"a photo of scene number {at}" for at in range(SIDE)]

    def pairs() -> None:
        for at in range(TIMED):
            pixels = encoder.prepare_image(as_medium(files[at]).decode(DecodeOptions()))
            image = encoder.encode_images(pixels[None])[0]
            text = encoder.encode_texts([texts[at]])["embedding"][0]
            float(image @ text)

    def ours() -> None:
        beholder.score("clip_score", images=files, texts=texts, model=NAME)

    beholder.score("clip_score", images=files[0], texts=texts[0], model=NAME)
    every = seconds(pairs) * SIDE * SIDE / TIMED
    return [at_least(f"{SIDE} × {SIDE} scores, times faster than encoding every pair", seconds(ours), every, 20)]
