"""The engine against the bare encoder; bfloat16 against float32; two one-thread workers against one; short texts.

The bare encoder is the stock network's forward pass alone, on tensors that lie ready: pictures normalised, texts as ids
padded as ours pads them, batches of the same size, nothing decoded and nothing written. Ours goes from the manifest to
the finished run folder. Sides take turns, so that a busy machine slows both; a row is the turn whose
ratio is the middle one.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import beholder
from beholder.backends.base import Columns, ImageTextEncoder
from beholder.backends.pool import load_model, resolve_model
from beholder.backends.tensors import normalise, projected, to_torch
from beholder.media.base import DecodeOptions, Picture
from beholder.media.sources import as_medium
from beholder.runs.config import make_config
from beholder.runs.workers import run_on
from benchmarks.models import write_clip
from benchmarks.pictures import write_manifest, write_pictures
from benchmarks.table import Row, at_least, at_most, in_turns, middle

SIZE, TIMES = 512, 5
COUNTS = {32: 160, 16: 32}
"""Pictures by the side of a patch."""
PROMPTS, TEXTS = 32, 64
SHARED, SHARED_BATCH, WORKER_TURNS = 96, 8, 3
NAME, TIMED = "engines", "engines-timed"


def measure(folder: Path) -> list[Row]:
    outputs = write_pictures(folder / "out", max(*COUNTS.values(), SHARED), SIZE)
    rows = []
    for patch, count in COUNTS.items():
        encoder = load_model(resolve_model(str(write_clip(folder / f"b{patch}", patch))), device="cpu")
        rows.append(against_bare(folder / f"run{patch}", encoder, outputs[:count], f"ViT-B/{patch}"))
        if patch == 32:
            rows += [short_texts(encoder), *half(folder, encoder, outputs[:TEXTS])]
        encoder.close()
    return [*rows, workers(folder, outputs[:SHARED])]


def against_bare(folder: Path, encoder: ImageTextEncoder, outputs: Sequence[Path], size: str) -> Row:
    """A whole run of clip_score against the forward passes that it cannot do without."""
    beholder.register_encoder(NAME, encoder)
    folder.mkdir()
    write_manifest(folder / "samples.jsonl", list(outputs), list(outputs[:4]), PROMPTS)
    lines = (folder / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    bare = Bare(encoder, outputs, [json.loads(line)["prompt"] for line in lines])
    bare(1)
    turn = iter(range(100))

    def ours() -> None:
        at = next(turn)
        beholder.evaluate(
            str(folder / "samples.jsonl"), metrics=["clip_score"], model=NAME, out=str(folder / f"run{at}"),
            store=str(folder / f"store{at}"),
        )  # fmt: skip

    took = in_turns({"bare": bare, "ours": ours}, times=TIMES)
    what = f"clip_score of {len(outputs)} JPEGs of {SIZE} px, {size}: share of the bare encoder's throughput"
    return at_least(what, took["ours"], took["bare"], 0.9)


class Bare:
    """The forward passes of a run, on ready tensors."""

    def __init__(self, encoder: Any, outputs: Sequence[Path], prompts: Sequence[str]) -> None:
        self._network, batch = encoder._network, encoder.image_batch
        ready = stacked(encoder, outputs)
        self._pixels = [
            normalise(to_torch(ready[at : at + batch]), encoder._table) for at in range(0, len(ready), batch)
        ]
        texts = list(dict.fromkeys(prompts))
        (length,) = set(encoder.text_lengths(texts))
        self._ids = to_torch(encoder._tokenizer(texts).ids[:, :length])

    def __call__(self, most: int | None = None) -> None:
        """All batches, or only the first `most`, to warm up."""
        import torch

        with torch.inference_mode():
            for pixels in self._pixels[:most]:
                projected(self._network.get_image_features(pixel_values=pixels))
            projected(self._network.get_text_features(input_ids=self._ids))


def short_texts(encoder: Any) -> Row:
    """Texts of 9 to 36 tokens as a run encodes them, beside all of them padded to the model's 77 tokens."""
    import torch

    texts = [" ".join(["cat"] * (6 + at % 25)) + f" {at}" for at in range(2 * TEXTS)]
    ids = to_torch(encoder._tokenizer(texts).ids)
    lengths = np.asarray(encoder.text_lengths(texts))
    batch = encoder.text_batch

    def ours() -> None:
        for length in np.unique(lengths):
            rows = np.flatnonzero(lengths == length)
            for at in range(0, len(rows), batch):
                part = [texts[row] for row in rows[at : at + batch]]
                encoder.encode_texts([*part, *[part[-1]] * (batch - len(part))])

    def padded() -> None:
        with torch.inference_mode():
            for at in range(0, len(texts), 64):
                encoder._network.get_text_features(input_ids=ids[at : at + 64])

    took = in_turns({"padded": padded, "ours": ours}, times=3)
    what = f"{len(texts)} prompts of usual lengths, ViT-B/32: times faster than with all padding"
    return at_least(what, took["ours"], took["padded"], 1.5)


def half(folder: Path, encoder: Any, outputs: Sequence[Path]) -> list[Row]:
    """bfloat16 by name: the bare forward pass, and how far scores move."""
    if not has_bfloat16():
        sys.stderr.write("bfloat16: not runnable: /proc/cpuinfo names neither avx512_bf16 nor amx_bf16\n")
        return []
    import torch

    other: Any = load_model(resolve_model(str(folder / "b32"), dtype="bfloat16"), device="cpu")
    ready = stacked(encoder, outputs)
    pixels = normalise(to_torch(ready[:32]), encoder._table)

    def run(network: Any, batch: Any) -> Callable[[], None]:
        def call() -> None:
            with torch.inference_mode():
                network.get_image_features(pixel_values=batch)

        return call

    took = in_turns({"full": run(encoder._network, pixels), "half": run(other._network, pixels)}, times=5)
    texts = [f"a photo of scene number {at}" for at in range(32)]
    full, rounded = (cosines(model, ready, texts) for model in (encoder, other))
    moved = float(np.abs(full - rounded).max())
    return [
        at_least("bfloat16 by name, ViT-B/32: times faster than float32, bare", took["half"], took["full"], 1.8),
        at_most("largest |Δ score| of bfloat16, ViT-B/32's size, against 0.002", moved, 0.002, 1, unit=""),
    ]


def cosines(encoder: Any, ready: np.ndarray, texts: Sequence[str]) -> np.ndarray:
    """Cosines of all pictures with all texts."""
    images = np.concatenate([encoder.encode_images(ready[at : at + 32]) for at in range(0, len(ready), 32)])
    words = encoder.encode_texts(texts)["embedding"]
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (images, words)]
    result: np.ndarray = unit[0] @ unit[1].T
    return result


def has_bfloat16() -> bool:
    """True when the processor multiplies bfloat16 itself."""
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags


class Timed:
    """A CLIP that keeps its process on one processor and notes when each batch of pictures began and ended.

    Decoding shares that processor: a worker with a second one for its decode threads would not be a worker of one.
    """

    image_batch = SHARED_BATCH
    text_batch = 32

    def __init__(self, folder: Path, log: Path, places: Path) -> None:
        self._folder, self._log, self._places = folder, log, places
        self._load()

    def _load(self) -> None:
        import torch

        torch.set_num_threads(1)
        self._encoder = load_model(resolve_model(str(self._folder)), device="cpu")
        self.model, self.constants = self._encoder.model, self._encoder.constants

    def __getstate__(self) -> Mapping[str, Path]:
        return {"folder": self._folder, "log": self._log, "places": self._places}

    def __setstate__(self, state: Mapping[str, Path]) -> None:
        self._folder, self._log, self._places = state["folder"], state["log"], state["places"]
        take_processor(self._places)
        self._load()

    def prepare_image(self, picture: Picture) -> np.ndarray:
        result: np.ndarray = self._encoder.prepare_image(picture)
        return result

    def encode_images(self, batch: np.ndarray) -> np.ndarray:
        began = time.time()
        result: np.ndarray = self._encoder.encode_images(batch)
        with self._log.open("a") as file:
            file.write(json.dumps([os.getpid(), began, time.time(), len(batch)]) + "\n")
        return result

    def encode_texts(self, texts: Sequence[str]) -> Columns:
        columns: Columns = self._encoder.encode_texts(texts)
        return columns

    def close(self) -> None: ...


def workers(folder: Path, outputs: Sequence[Path]) -> Row:
    """Two processes (`--device cpu:2`) on one processor each, against one; starting and loading are outside."""
    import torch

    manifest = folder / "shared.jsonl"
    write_manifest(manifest, list(outputs), list(outputs[:4]), PROMPTS)
    threads, turns = torch.get_num_threads(), []
    torch.set_num_threads(1)
    for turn in range(WORKER_TURNS):
        took = {}
        for count in (1, 2):
            name = f"{turn}-{count}"
            log, places = folder / f"log{name}", folder / f"processors{name}"
            places.mkdir()
            beholder.register_encoder(TIMED, Timed(folder / "b32", log, places))
            settings = {
                "data": str(manifest), "metrics": ("clip_score",), "model": TIMED, "out": str(folder / f"shared{name}"),
                "store": str(folder / f"shared-store{name}"),
            }  # fmt: skip
            run_on(["cpu"] * count, make_config(settings))
            took[count] = 1 / rate(log)
        turns.append(took)
    torch.set_num_threads(threads)
    took = middle(turns, 1, 2)
    what = f"{len(outputs)} JPEGs, ViT-B/32: seconds a picture of two one-thread workers, against one"
    return at_least(what, took[2], took[1], 1.8)


def take_processor(places: Path) -> None:
    """Keeps this process on the first processor that no other has taken in this folder."""
    for processor in sorted(os.sched_getaffinity(0)):
        try:
            (places / str(processor)).touch(exist_ok=False)
        except FileExistsError:
            continue
        os.sched_setaffinity(0, {processor})
        return


def rate(log: Path) -> float:
    """Pictures a second of all processes together, in the time in which all of them were at work."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    begins, ends = ([[row[at] for row in lines if row[0] == pid] for pid in {row[0] for row in lines}] for at in (1, 2))
    first, last = max(map(min, begins)), min(map(max, ends))
    if last <= first:
        raise RuntimeError("the processes were never at work together: more pictures are needed")
    done = sum(row[3] * max(0.0, min(last, row[2]) - max(first, row[1])) / (row[2] - row[1]) for row in lines)
    return done / (last - first)


def stacked(encoder: ImageTextEncoder, outputs: Sequence[Path]) -> np.ndarray:
    """Pictures as the encoder takes them."""
    media = [as_medium(str(path)) for path in outputs]
    return np.stack([encoder.prepare_image(medium.decode(DecodeOptions())) for medium in media])
