"""512 JPEGs with three metrics, beside a hand-written loop that does the least that can be done.

The loop opens and prepares pictures in threads and runs the bare transformers model in batches, each unique picture
and text once; texts are padded to 77 tokens, as CLIP's own tokenizer pads them. Neither side pays for loading.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import beholder
from beholder.runs.make import default_workers
from benchmarks.models import NAME, register_b32
from benchmarks.pictures import write_manifest, write_pictures
from benchmarks.table import Row, at_most, seconds

COUNT, SIZE, PROMPTS, REFERENCES = 512, 512, 128, 32
_MEAN = np.array([0.48145466, 0.4578275, 0.40821073], dtype=np.float32)
_STD = np.array([0.26862954, 0.26130258, 0.27577711], dtype=np.float32)


def measure(folder: Path) -> list[Row]:
    encoder = register_b32(folder / "model")
    outputs = write_pictures(folder / "out", COUNT, SIZE)
    references = write_pictures(folder / "ref", REFERENCES, SIZE, first=COUNT)
    manifest = folder / "samples.jsonl"
    write_manifest(manifest, outputs, references, PROMPTS)
    _loop(folder / "model", manifest, limit=64)
    ideal = seconds(lambda: _loop(folder / "model", manifest))

    def ours() -> None:
        beholder.evaluate(
            str(manifest), metrics=["clip_score", "clip_i", "clip_t"], model=NAME, out=str(folder / "run"),
            store=str(folder / "store"), batch_size=encoder.image_batch,
        )  # fmt: skip

    return [at_most(f"{COUNT} JPEGs of {SIZE} px, three metrics, against the ideal loop", seconds(ours), ideal, 1.15)]


def _loop(model_folder: Path, manifest: Path, *, limit: int | None = None) -> list[tuple[float, float, float]]:
    import torch
    from transformers import AutoTokenizer

    model, batch = _model(model_folder), 32
    rows = [json.loads(line) for line in manifest.read_text().splitlines()][:limit]
    files = list(dict.fromkeys([name for row in rows for name in (row["output"], *row["references"])]))
    texts = list(dict.fromkeys(row["prompt"] for row in rows))
    images = []
    with ThreadPoolExecutor(default_workers()) as pool, torch.inference_mode():
        pending = [pool.submit(prepared, name) for name in files]
        for start in range(0, len(files), batch):
            pixels = torch.from_numpy(np.stack([future.result() for future in pending[start : start + batch]]))
            images.append(model.get_image_features(pixel_values=pixels).pooler_output)
        tokenizer = AutoTokenizer.from_pretrained(model_folder)
        tokens = tokenizer(texts, padding="max_length", truncation=True, max_length=77, return_tensors="pt")
        words = [
            model.get_text_features(input_ids=tokens["input_ids"][start : start + batch]).pooler_output
            for start in range(0, len(texts), batch)
        ]
    image = dict(zip(files, torch.nn.functional.normalize(torch.cat(images)).numpy(), strict=True))
    text = dict(zip(texts, torch.nn.functional.normalize(torch.cat(words)).numpy(), strict=True))
    scores = []
    for row in rows:
        clip = float(image[row["output"]] @ text[row["prompt"]])
        scores.append((clip, float(np.mean([image[row["output"]] @ image[name] for name in row["references"]])), clip))
    return scores


_MODELS: dict[Path, Any] = {}


def _model(folder: Path) -> Any:
    from transformers import CLIPModel

    if folder not in _MODELS:
        _MODELS[folder] = CLIPModel.from_pretrained(folder).eval()
    return _MODELS[folder]


def prepared(name: str) -> np.ndarray:
    """A picture as CLIP takes it: 224 × 224, normalised, channels first."""
    picture = Image.open(name).convert("RGB").resize((224, 224), Image.Resampling.BICUBIC)
    scaled = np.asarray(picture, dtype=np.float32) / np.float32(255)
    pixels: np.ndarray = ((scaled - _MEAN) / _STD).transpose(2, 0, 1)
    return pixels
