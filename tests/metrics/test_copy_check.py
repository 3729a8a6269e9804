"""copy_check on real files: exact, near, mirrored, other pictures; and what other metrics' tables say of copies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps
from tests.runs.helpers import cosine, counting

import beholder
from beholder.media.base import DecodeOptions
from beholder.metrics.base import FeatureBatch, Ragged
from beholder.metrics.copy_check import CopyCheck, compare
from beholder.report.tables import RunView, long_table
from beholder.score_table import media_list


def scene(seed: int, size: tuple[int, int] = (96, 72)) -> Image.Image:
    """A smooth picture with structure: a few coloured blobs."""
    generator = np.random.default_rng(seed)
    rows, columns = np.mgrid[0 : size[1], 0 : size[0]].astype(np.float64)
    pixels = np.zeros((size[1], size[0], 3))
    for _ in range(6):
        x, y, wide = generator.uniform(0, size[0]), generator.uniform(0, size[1]), generator.uniform(8, 30)
        blob = np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / (2 * wide**2))
        pixels += blob[..., None] * generator.uniform(0, 200, 3)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """Outputs: the reference itself as another file format, a JPEG of it, its mirror image, another picture."""
    reference = scene(0)
    reference.save(tmp_path / "ref.png")
    scene(1).save(tmp_path / "ref2.png")
    reference.save(tmp_path / "exact.bmp")
    reference.save(tmp_path / "near.jpg", quality=60)
    ImageOps.mirror(reference).save(tmp_path / "mirrored.png")
    scene(7).save(tmp_path / "other.png")
    rows = [
        {"id": name.partition(".")[0], "output": name, "prompt": "x", "references": ["ref2.png", "ref.png"]}
        for name in ("exact.bmp", "near.jpg", "mirrored.png", "other.png")
    ]
    rows.append({"id": "alone", "output": "other.png", "prompt": "x"})
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_copies_of_every_kind(samples: Path, tmp_path: Path) -> None:
    encoder = counting()
    run = beholder.evaluate(
        str(samples), metrics=["copy_check(model=counting)", "clip_i(model=counting)"], out=str(tmp_path / "run"),
        store=str(tmp_path / "store"),
    )  # fmt: skip
    assert encoder.prepared == 6, "one pass over 6 distinct files serves clip_i and the cosines"
    assert run.scores.column("copy_check").to_pylist() == [1.0, 1.0, 1.0, 0.0, None]
    assert run.scores.column("copy_check_status").to_pylist() == ["ok"] * 4 + ["no_reference"]
    evidence = [json.loads(text) for text in run.scores.column("copy_check_evidence").to_pylist()[:4]]
    assert [item["exact"] for item in evidence] == [True, False, False, False]
    assert [item["near"] for item in evidence] == [True, True, True, False]
    assert [item["mirrored"] for item in evidence[:3]] == [False, False, True]
    assert [item["reference"] for item in evidence[:3]] == [2, 2, 2]
    assert evidence[0]["distance"] == 0
    assert evidence[3]["distance"] > 6
    for name, item in zip(("exact.bmp", "near.jpg", "mirrored.png", "other.png"), evidence):
        vectors = [
            encoder.encode_images(
                encoder.prepare_image(media_list(str(tmp_path / file))[0].decode(DecodeOptions()))[None]
            )[0]
            for file in (name, "ref.png", "ref2.png")
        ]
        best = max(cosine(vectors[0], vectors[1]), cosine(vectors[0], vectors[2]))
        assert item["cosine"] == pytest.approx(best, abs=1e-6)
    shares = {row.aggregate: row.value for row in run.summary if row.label == "copy_check"}
    assert shares["micro"] == pytest.approx(0.75)
    assert shares["exact"] == pytest.approx(0.25)
    assert shares["near"] == pytest.approx(0.5)
    assert shares["cosine"] == pytest.approx(np.mean([item["cosine"] for item in evidence]))


def test_tables_of_fidelity_metrics_carry_the_shares(samples: Path, tmp_path: Path) -> None:
    counting()
    metrics = ["clip_i(model=counting)", "clip_score(model=counting)"]
    bare = beholder.evaluate(str(samples), metrics=metrics, out=str(tmp_path / "a"), store=str(tmp_path / "store"))
    assert not any("copies" in (row.note or "") for row in bare.summary)
    run = beholder.evaluate(
        str(samples), metrics=[*metrics, "copy_check(model=none)"], out=str(tmp_path / "b"),
        store=str(tmp_path / "store"),
    )  # fmt: skip
    notes = {row.label: row.note for row in run.summary if row.headline}
    assert "copies of references: 75.0% (exact 25.0%, near 50.0%)" in (notes["clip_i"] or "")
    assert "copies" not in (notes["clip_score"] or "")
    table = long_table(RunView("run", run.header, run.summary))
    assert any("copies of references: 75.0%" in note for note in table.notes)
    evidence = json.loads(run.scores.column("copy_check_evidence")[0].as_py())
    assert "cosine" not in evidence
    assert not any(row.aggregate == "cosine" and row.value is not None for row in run.summary)


def test_a_video_is_a_copy_where_one_frame_is(tmp_path: Path) -> None:
    folder = tmp_path / "clip"
    folder.mkdir()
    for at, seed in enumerate((3, 0, 4)):
        scene(seed).save(folder / f"{at}.png")
    scene(0).save(tmp_path / "ref.png")
    table = beholder.score(
        "copy_check(frames=all, model=none)", images=str(folder), references=[str(tmp_path / "ref.png")]
    )
    (row,) = table.rows
    assert row.score.value == 1.0
    assert {name: row.score.evidence[name] for name in ("exact", "n_frames", "copied_frames")} == {
        "exact": True, "n_frames": 3, "copied_frames": 1,
    }  # fmt: skip


def hashes(*values: int, mirrored: int = 2**64 - 1, start: int = 0) -> dict[str, np.ndarray]:
    pixels = np.zeros((len(values), 32), np.uint8)
    pixels[:, 0] = np.arange(start, start + len(values))
    return {
        "pixels": pixels, "hash": np.array(values, np.uint64),
        "mirrored": np.array([mirrored] * len(values), np.uint64),
    }  # fmt: skip


def test_the_limit_is_six_bits_and_can_be_moved() -> None:
    reference = hashes(0b111111111, start=100)
    for bits, near in ((0b111, True), (0b11, False)):  # 6 and 7 bits differ
        found = compare(hashes(bits), reference, distance=6)
        assert found["near"] is near
        assert found["distance"] == 9 - f"{bits:b}".count("1")
    assert compare(hashes(0b11), reference, distance=7)["near"]
    assert not compare(hashes(0b111), reference, distance=5)["near"]


def test_pictures_of_one_colour_are_exact_copies_or_none() -> None:
    flat = hashes(0, start=0)
    assert compare(flat, hashes(0, start=50), distance=6) | {"reference": 1} == {
        "exact": False, "near": False, "distance": 0, "reference": 1, "mirrored": False,
    }  # fmt: skip
    same = compare(flat, hashes(0, start=0), distance=6)
    assert same["exact"]
    assert same["near"]


def test_an_embedding_without_direction_costs_the_cosine_only() -> None:
    made = CopyCheck({"model": "some"})
    zero = {"embedding": np.zeros((1, 4), np.float32)}
    slots: dict[str, Any] = {
        "output": hashes(5), "references": Ragged(hashes(5, start=9), np.array([0, 1])), "image": zero,
        "images": Ragged({"embedding": np.ones((1, 4), np.float32)}, np.array([0, 1])),
    }  # fmt: skip
    found = made.score(FeatureBatch(slots, {}, 1))
    assert found.values.tolist() == [1.0]
    assert not found.statuses
    assert "cosine" not in found.evidence[0]
