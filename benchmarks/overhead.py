"""What the engine adds to 100,000 samples, beside inserting the same rows into SQLite in one bare loop.

The rows are what the run keeps: one feature for each picture and each prompt (key, embedding) and one score for each
sample. From the run's time the bare work is taken off: making the samples, fingerprints, decoding and the encoder.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np

from beholder.backends.fake import FakeEncoder
from beholder.media.base import DecodeOptions
from beholder.runs.config import make_config
from beholder.runs.item_keys import text_key
from beholder.runs.session import execute
from benchmarks.sources import TinySamples
from benchmarks.table import Row, at_most, seconds

COUNT = 100_000
DIM = 32
_BATCH = 1024


def measure(folder: Path) -> list[Row]:
    settings = {
        "metrics": ("clip_score",), "model": f"fake:dim={DIM}", "out": str(folder / "run"),
        "store": str(folder / "store"),
    }  # fmt: skip
    work: list[tuple[list[tuple[bytes, bytes]], list[tuple[str, float]]]] = []
    execute(make_config({**settings, "out": str(folder / "warm")}), source=TinySamples(10))
    bare = seconds(lambda: work.append(_bare_work()))
    whole = seconds(lambda: execute(make_config(settings), source=TinySamples(COUNT)))
    inserts = seconds(lambda: _insert(folder / "bare.sqlite", *work[0]))
    return [at_most(f"engine time added to {COUNT:,} samples, against bare SQLite inserts", whole - bare, inserts, 3)]


def _bare_work() -> tuple[list[tuple[bytes, bytes]], list[tuple[str, float]]]:
    """Samples, fingerprints, decoding and encoding without an engine; the rows that come of it."""
    encoder, options = FakeEncoder(dim=DIM), DecodeOptions()
    features: list[tuple[bytes, bytes]] = []
    scores: list[tuple[str, float]] = []
    samples = list(TinySamples(COUNT))
    for start in range(0, COUNT, _BATCH):
        part = samples[start : start + _BATCH]
        media = [sample.output for sample in part if sample.output is not None]
        texts = [str(sample.prompt) for sample in part]
        keys = [bytes.fromhex(medium.fingerprint())[:16] for medium in media]
        images = encoder.encode_images(np.stack([encoder.prepare_image(medium.decode(options)) for medium in media]))
        words = encoder.encode_texts(texts)["embedding"]
        features += [(key, row.tobytes()) for key, row in zip(keys, images, strict=True)]
        features += [(text_key(text), row.tobytes()) for text, row in zip(texts, words, strict=True)]
        dots = (images * words).sum(axis=1)
        scores += [(sample.id, float(value)) for sample, value in zip(part, dots, strict=True)]
    return features, scores


def _insert(path: Path, features: list[tuple[bytes, bytes]], scores: list[tuple[str, float]]) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("pragma journal_mode=wal")
    db.execute("create table features(key blob primary key, data blob) without rowid")
    db.execute("create table scores(id text primary key, value real, status text) without rowid")
    db.execute("begin")
    for key, data in features:
        db.execute("insert into features values(?, ?)", (key, data))
    for name, value in scores:
        db.execute("insert into scores values(?, ?, 'ok')", (name, value))
    db.execute("commit")
    db.close()
