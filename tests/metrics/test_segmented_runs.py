"""clip_i_seg, dino_i_seg and background_share in whole runs: known answers, counted passes, bad input."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.runs.helpers import CountingEncoder, counting

import beholder
from beholder._errors import OptionError, UserError, WeightsMissingError
from beholder._identity import parse_spec
from beholder.backends.pool import load_model, register_model, resolve_model
from beholder.functional.masks import CLIP_MEAN, IMAGENET_MEAN, encode_masks
from beholder.media.base import Picture
from beholder.metrics.base import make_metric
from beholder.scenes import demo_set

RED, BLUE, GREEN = (220, 50, 47), (50, 100, 220), (60, 160, 70)


def flat(*squares: tuple[int, int, int, tuple[int, int, int]], size: int = 40) -> np.ndarray:
    """A white picture with squares: left, top, side, colour."""
    pixels = np.full((size, size, 3), 255, np.uint8)
    for x, y, side, colour in squares:
        pixels[y : y + side, x : x + side] = colour
    return pixels


def save(path: Path, pixels: np.ndarray) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return str(path)


def rle(mask: np.ndarray) -> dict[str, Any]:
    return {"size": list(mask.shape), "counts": [int(run) for run in encode_masks(mask[None])[0]]}


def cosine(encoder: CountingEncoder, one: np.ndarray, other: np.ndarray) -> float:
    pictures = [Picture(np.ascontiguousarray(p), (p.shape[1], p.shape[0]), "RGB") for p in (one, other)]
    prepared = [CountingEncoder.__mro__[1].prepare_image(encoder, picture) for picture in pictures]
    a, b = encoder.encode_images(np.stack(prepared)).astype(float)
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def rows_of(run: Any, label: str) -> list[dict[str, Any]]:
    table = run.scores.to_pylist()
    return [
        {
            "value": row[label],
            "status": row[f"{label}_status"],
            "reason": row.get(f"{label}_reason"),
            "evidence": json.loads(row.get(f"{label}_evidence") or "{}"),
        }
        for row in table
    ]


class Spy:
    """The segmenter `color`, counting what it was asked."""

    batch, pair_batch, takes_video = 4, 64, False

    def __init__(self, name: str = "spy") -> None:
        self._color = load_model(resolve_model("color", capability="Segmenter"), device="cpu")
        import dataclasses

        self.model = dataclasses.replace(self._color.model, id=name, asked=name)
        self.constants: dict[str, float] = {}
        self.asked: list[str] = []
        self.settings: list[dict[str, Any]] = []
        register_model(name, self)

    def prepare(self, pictures: Sequence[Picture]) -> Any:
        return self._color.prepare(pictures)

    def segment(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, str]], **settings: Any) -> Any:
        self.asked += [text for _, text in pairs]
        self.settings.append(settings)
        return self._color.segment(visuals, pairs, **settings)

    def close(self) -> None:
        pass


def evaluate(tmp_path: Path, rows: list[dict[str, Any]], metrics: Any, **settings: Any) -> Any:
    settings = {"out": str(tmp_path / "out"), "store": str(tmp_path / "store"), "overwrite": True, **settings}
    return beholder.evaluate(rows, metrics=metrics, **settings)


def set_of_squares(tmp_path: Path) -> list[dict[str, Any]]:
    """Two concepts, each with two references; the last row shows nothing of its concept."""
    rows: list[dict[str, Any]] = []
    for concept, colour in (("red", RED), ("blue", BLUE)):
        references = [
            save(tmp_path / f"{concept}{at}.png", flat((4 * at, 8, 12, colour), (30, 30, 6, GREEN))) for at in range(2)
        ]
        for at in range(3):
            squares = [(6 + at, 20, 10, colour), (22, 4, 5, GREEN)]
            missing = concept == "blue" and at == 2
            rows.append({
                "output": save(tmp_path / f"{concept}_out{at}.png", flat(*squares[1 if missing else 0 :])),
                "references": references, "concept": concept, "class_name": f"{concept} square", "prompt": f"p{at}",
            })  # fmt: skip
    return rows


FILLS = {"black": (0, 0, 0), "white": (255,) * 3, "gray": (128,) * 3, "mean": CLIP_MEAN}


@pytest.mark.parametrize("fill", FILLS)
def test_known_answers_with_a_colour_segmenter(tmp_path: Path, fill: str) -> None:
    encoder = counting()
    rows = set_of_squares(tmp_path)
    run = evaluate(tmp_path, rows, f"clip_i_seg(segmenter=color, fill={fill})", model="counting")
    found = rows_of(run, run.labels[0])
    for row, score in zip(rows[:5], found, strict=False):
        pixels = np.asarray(Image.open(row["output"]))
        colour = RED if row["concept"] == "red" else BLUE
        masked = np.where((pixels == colour).all(axis=2)[..., None], pixels, np.array(FILLS[fill], np.uint8))
        real = [cosine(encoder, masked, np.asarray(Image.open(path))) for path in row["references"]]
        assert score["value"] == pytest.approx(np.mean(real), abs=1e-6)
        assert score["evidence"]["seg_area"] == pytest.approx(100 / 1600)
    assert found[5]["status"] == "no_mask"
    assert found[5]["value"] is None


def test_masks_of_the_manifest_in_every_form(tmp_path: Path) -> None:
    encoder = counting()
    pixels = flat((6, 20, 10, RED), (22, 4, 5, GREEN))
    mask = (pixels == RED).all(axis=2)
    output, reference = save(tmp_path / "o.png", pixels), save(tmp_path / "r.png", flat((3, 3, 20, RED)))
    forms: list[Any] = [
        save(tmp_path / "m.png", mask.astype(np.uint8) * np.uint8(255)),
        rle(mask),
        {"size": [40, 40], "polygons": [[6, 20, 16, 20, 16, 30, 6, 30]]},
        {"thing": rle(mask), "other": rle(~mask)},
    ]
    rows = [
        {"id": str(at), "output": output, "references": [reference], "concept": "thing", "masks": form}
        for at, form in enumerate(forms)
    ]
    run = evaluate(tmp_path, rows, "clip_i_seg", model="counting")
    # Nothing was named, and the manifest has masks.
    assert run.header["metrics"][0]["identity"] == "clip_i_seg(model=counting, segmenter=masks)"
    expected = cosine(encoder, np.where(mask[..., None], pixels, 0).astype(np.uint8), flat((3, 3, 20, RED)))
    assert [row["value"] for row in rows_of(run, run.labels[0])] == pytest.approx([expected] * 4, abs=1e-6)


def test_named_segmenters_are_kept_and_the_default_is_sam3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "none"))
    counting()
    pixels = flat((6, 20, 10, RED))
    row = {"output": save(tmp_path / "o.png", pixels), "references": [save(tmp_path / "r.png", pixels)],
           "class_name": "red square", "masks": rle((pixels == BLUE).all(axis=2))}  # fmt: skip
    run = evaluate(tmp_path, [row], "clip_i_seg(segmenter=color)", model="counting")
    assert rows_of(run, run.labels[0])[0]["status"] == "ok"  # the given mask is empty, the colour is there
    del row["masks"]
    with pytest.raises(WeightsMissingError, match=r"gdino\+sam2"):
        evaluate(tmp_path, [row], "clip_i_seg", model="counting", offline=True)
    metric = make_metric(parse_spec("clip_i_seg"))
    assert metric.options["segmenter"] == "sam3"
    assert (metric.options["threshold"], metric.options["mask_threshold"]) == (0.5, 0.5)
    named = make_metric(parse_spec("clip_i_seg(segmenter=owlv2+sam)"))
    assert named.options["threshold"] == 0.1
    assert named.identity == "clip_i_seg(segmenter=owlv2+sam)"


def test_one_pass_over_the_masked_pictures_and_nothing_else(tmp_path: Path) -> None:
    rows = set_of_squares(tmp_path)
    encoder, spy = counting(), Spy()
    evaluate(tmp_path, rows, "clip_i", model="counting", store=str(tmp_path / "a"))
    plain = encoder.prepared
    assert plain == 6 + 4  # every output, and every reference once
    encoder.prepared = 0
    evaluate(tmp_path, rows, ["clip_i", "clip_i_seg(segmenter=spy)"], model="counting", store=str(tmp_path / "b"))
    assert encoder.prepared == plain + 6
    assert len(spy.asked) == 6
    assert all(set(settings) == {"threshold", "mask_threshold"} for settings in spy.settings)


def test_options_of_fill_and_missing_masks_segment_once(tmp_path: Path) -> None:
    rows = set_of_squares(tmp_path)
    encoder, spy = counting(), Spy()
    metrics = [
        "clip_i_seg(segmenter=spy)",
        "clip_i_seg(segmenter=spy, on_missing=zero)",
        "clip_i_seg(segmenter=spy, on_missing=unsegmented)",
        "clip_i_seg(segmenter=spy, fill=white)",
        "clip_i_seg(segmenter=spy, fill=gray, on_missing=zero)",
    ]
    run = evaluate(tmp_path, rows, metrics, model="counting")
    assert len(spy.asked) == 6
    assert encoder.prepared == 4 + 3 * 6  # three fills; what missing masks count as costs no pass
    values = [rows_of(run, label)[5]["value"] for label in run.labels]
    assert values[0] is None
    assert values[1] == 0.0
    assert values[2] is not None
    assert values[3] is None
    again = evaluate(tmp_path, rows, metrics, model="counting", out=str(tmp_path / "again"))
    assert len(spy.asked) == 6
    assert [rows_of(again, label) for label in again.labels] == [rows_of(run, label) for label in run.labels]
    evaluate(tmp_path, rows, "clip_i_seg(segmenter=spy, threshold=0.3)", model="counting", out=str(tmp_path / "t"))
    assert len(spy.asked) == 12  # K14: another threshold is another question


def test_three_aggregates_and_the_detection_rate(tmp_path: Path) -> None:
    encoder = counting()
    rows = set_of_squares(tmp_path)
    run = evaluate(tmp_path, rows, ["clip_i", "clip_i_seg(segmenter=color)"], model="counting")
    label = run.labels[1]
    found, plain = rows_of(run, label), rows_of(run, "clip_i")
    assert found[5]["evidence"]["unsegmented"] == pytest.approx(plain[5]["value"], abs=1e-6)
    values = [row["value"] for row in found]
    red, blue = float(np.mean(values[:3])), values[3:5]
    expected = {
        "macro": (red + np.mean(blue)) / 2,
        "skip": (red + np.mean(blue)) / 2,
        "zero": (red + sum(blue) / 3) / 2,
        "unsegmented": (red + (sum(blue) + plain[5]["value"]) / 3) / 2,
        "seg_found": (1 + 2 / 3) / 2,
    }
    summary = {item.aggregate: item for item in run.summary if item.label == label}
    for name, value in expected.items():
        assert summary[name].value == pytest.approx(value, abs=1e-6), name
    assert summary["skip"].n_missing == {"no_mask": 1}
    assert summary["zero"].n == 6
    assert summary["macro"].headline
    assert not summary["zero"].headline
    by = {(item.aggregate, item.group.get("concept")): item.value for item in run.summarise(by="concept")}
    # For a concept, zero = seg_found × skip.
    assert by["zero", "blue"] == pytest.approx(by["seg_found", "blue"] * by["skip", "blue"])
    zero = evaluate(tmp_path, rows, "clip_i_seg(segmenter=color, on_missing=zero)", model="counting")
    again = {item.aggregate: item for item in zero.summary}
    assert again["skip"].value == pytest.approx(expected["skip"], abs=1e-6)
    assert again["macro"].value == pytest.approx(expected["zero"], abs=1e-6)
    assert encoder.prepared > 0


def test_a_concept_without_any_mask_is_absent_and_counted(tmp_path: Path) -> None:
    counting()
    rows = [row for row in set_of_squares(tmp_path) if row["concept"] == "red"]
    lost = {**rows[0], "id": "lost", "concept": "none", "class_name": "yellow"}
    run = evaluate(tmp_path, [*rows, lost], "clip_i_seg(segmenter=color)", model="counting")
    summary = {item.aggregate: item for item in run.summary}
    assert "none (no_mask 1)" in str(summary["macro"].note)
    assert summary["zero"].value == pytest.approx(summary["macro"].value / 2)


def test_on_missing_error_stops(tmp_path: Path) -> None:
    counting()
    with pytest.raises(UserError, match="every output of clip_i_seg must have a mask"):
        evaluate(tmp_path, set_of_squares(tmp_path), "clip_i_seg(segmenter=color, on_missing=error)", model="counting")


def test_instances_overlaps_and_small_areas(tmp_path: Path) -> None:
    encoder = counting()
    pixels = flat((2, 2, 12, RED), (20, 20, 8, RED), (36, 36, 1, RED))
    row = {"output": save(tmp_path / "o.png", pixels), "references": [save(tmp_path / "r.png", flat((9, 9, 9, RED)))],
           "class_name": "red",
           "boxes": [{"bbox": [2, 2, 12, 12], "score": 0.6}, {"bbox": [8, 8, 20, 20], "score": 0.9}]}  # fmt: skip
    reference = flat((9, 9, 9, RED))

    def value(spec: str) -> float:
        run = evaluate(tmp_path, [row], f"clip_i_seg({spec})", model="counting")
        return float(rows_of(run, run.labels[0])[0]["value"])

    def masked(*boxes: tuple[int, int, int, int]) -> float:
        kept = np.zeros_like(pixels)
        for x0, y0, x1, y1 in boxes:
            kept[y0:y1, x0:x1] = pixels[y0:y1, x0:x1]
        return cosine(encoder, kept, reference)

    big, small = (2, 2, 14, 14), (20, 20, 28, 28)
    assert value("segmenter=color, instances=best") == pytest.approx(masked(big), abs=1e-6)
    # Of color's three areas the smallest has one pixel of 1600.
    assert value("segmenter=color, instances=union, min_area=0.001") == pytest.approx(masked(big, small), abs=1e-6)
    mean = np.mean([masked(big), masked(small)])
    assert value("segmenter=color, instances=all-mean, min_area=0.001") == pytest.approx(mean, abs=1e-6)
    # Boxes that overlap count once in a union.
    overlapping = (8, 8, 28, 28)
    assert value("segmenter=boxes") == pytest.approx(masked(overlapping), abs=1e-6)
    assert value("segmenter=boxes, instances=largest") == pytest.approx(masked(overlapping), abs=1e-6)
    assert value("segmenter=boxes, instances=union") == pytest.approx(masked(big, overlapping), abs=1e-6)
    run = evaluate(tmp_path, [row], "clip_i_seg(segmenter=boxes, instances=union)", model="counting")
    assert rows_of(run, run.labels[0])[0]["evidence"]["seg_area"] == pytest.approx((144 + 400 - 36) / 1600, abs=1e-6)
    run = evaluate(tmp_path, [row], "clip_i_seg(segmenter=color, min_area=0.5)", model="counting")
    assert rows_of(run, run.labels[0])[0]["status"] == "no_mask"


def test_crops_and_the_inverted_mask(tmp_path: Path) -> None:
    encoder = counting()
    pixels = flat((2, 4, 12, RED), (20, 20, 8, GREEN))
    row = {"output": save(tmp_path / "o.png", pixels), "references": [save(tmp_path / "r.png", flat((9, 9, 9, RED)))],
           "class_name": "red"}  # fmt: skip
    reference = flat((9, 9, 9, RED))

    def value(spec: str) -> float:
        run = evaluate(tmp_path, [row], f"clip_i_seg(segmenter=color, {spec})", model="counting")
        return float(rows_of(run, run.labels[0])[0]["value"])

    assert value("crop=bbox") == pytest.approx(cosine(encoder, pixels[4:16, 2:14], reference), abs=1e-6)
    assert value("crop=square, fill=keep, pad=0.5") == pytest.approx(
        cosine(encoder, pixels[0:22, 0:22], reference), abs=1e-6
    )
    outside = pixels.copy()
    outside[4:16, 2:14] = 255
    assert value("invert=true, fill=white") == pytest.approx(cosine(encoder, outside, reference), abs=1e-6)


def test_masked_references(tmp_path: Path) -> None:
    encoder = counting()
    output = flat((6, 20, 10, RED), (22, 4, 5, GREEN))
    real = [flat((3, 3, 20, RED), (30, 30, 4, BLUE)), flat((10, 10, 9, BLUE))]
    row = {"output": save(tmp_path / "o.png", output), "class_name": "red",
           "references": [save(tmp_path / f"r{at}.png", pixels) for at, pixels in enumerate(real)]}  # fmt: skip
    run = evaluate(tmp_path, [row], "clip_i_seg(segmenter=color, segment=both)", model="counting")
    (score,) = rows_of(run, run.labels[0])
    keep = [
        np.where((pixels == RED).all(axis=2)[..., None], pixels, 0).astype(np.uint8) for pixels in (output, real[0])
    ]
    assert score["value"] == pytest.approx(cosine(encoder, *keep), abs=1e-6)
    assert score["evidence"]["references_without_mask"] == 1
    nothing = {**row, "references": [row["references"][1]]}
    run = evaluate(tmp_path, [nothing], "clip_i_seg(segmenter=color, segment=both)", model="counting", max_failed=1.0)
    (score,) = rows_of(run, run.labels[0])
    assert score["status"] == "failed"
    assert "none of the references has a mask" in score["reason"]
    given = {**row, "masks": rle((output == RED).all(axis=2)), "reference_masks": [
        save(tmp_path / f"rm{at}.png", ((pixels == RED).all(axis=2) * 255).astype(np.uint8))
        for at, pixels in enumerate(real)
    ]}  # fmt: skip
    run = evaluate(tmp_path, [given], "clip_i_seg(segment=both)", model="counting")
    assert rows_of(run, run.labels[0])[0]["value"] == pytest.approx(cosine(encoder, *keep), abs=1e-6)


def test_bad_input_costs_its_row_and_says_why(tmp_path: Path) -> None:
    counting()
    pixels = flat((6, 20, 10, RED))
    good = {"output": save(tmp_path / "o.png", pixels), "references": [save(tmp_path / "r.png", pixels)],
            "concept": "mug", "masks": rle((pixels == RED).all(axis=2))}  # fmt: skip
    rows = [
        {**good, "id": "good"},
        {**good, "id": "size", "masks": rle(np.ones((40, 41), bool))},
        {**good, "id": "empty", "masks": rle(np.zeros((40, 40), bool))},
        {**good, "id": "other", "masks": {"cup": good["masks"]}},
        {**good, "id": "none", "masks": None},
        {**good, "id": "gone", "masks": str(tmp_path / "no.png")},
        {**good, "id": "runs", "masks": {"size": [40, 40], "counts": [3, 4]}},
        {**good, "id": "no references", "references": []},
    ]
    run = evaluate(tmp_path, rows, "clip_i_seg", model="counting", max_failed=1.0)
    found = {row["id"]: score for row, score in zip(rows, rows_of(run, run.labels[0]), strict=True)}
    statuses = {name: score["status"] for name, score in found.items()}
    assert statuses == {
        "good": "ok", "size": "failed", "empty": "no_mask", "other": "no_mask", "none": "no_mask", "gone": "missing",
        "runs": "unreadable", "no references": "no_reference",
    }  # fmt: skip
    assert "the mask is 41×40 pixels, its picture 40×40" in found["size"]["reason"]
    assert found["no references"]["reason"] == "concept 'mug' has no references"


def test_phrases(tmp_path: Path) -> None:
    counting()
    spy = Spy()
    pixels = flat((6, 20, 10, RED))
    base = {"output": save(tmp_path / "o.png", pixels), "references": [save(tmp_path / "r.png", pixels)],
            "concept": "mug", "prompt": "never this", "class_name": "red cup"}  # fmt: skip
    rows = [
        {**base, "id": "class"},
        {**base, "id": "phrase", "seg_prompt": "red  mug"},
        {**base, "id": "list", "seg_prompt": ["green thing", "red thing"]},
        {**base, "id": "sentence", "seg_prompt": "the red button in the bottom-left corner of the wall"},
        {**base, "id": "none", "class_name": None},
        {**base, "id": "knowledge", "seg_prompt": "red " + "and so on " * 20},
    ]
    run = evaluate(tmp_path, rows, "clip_i_seg(segmenter=spy)", model="counting", max_failed=1.0)
    found = rows_of(run, run.labels[0])
    assert [row["status"] for row in found] == ["ok"] * 4 + ["failed"] * 2
    assert set(spy.asked) == {"red cup", "red mug", "green thing\nred thing", rows[3]["seg_prompt"]}
    assert found[2]["evidence"]["seg_phrase"] == 2
    assert found[2]["evidence"]["seg_prompt"] == ["green thing", "red thing"]
    assert "concept 'mug' has neither seg_prompt nor class_name" in found[4]["reason"]
    assert "concept 'mug' has 61 words, more than 30" in found[5]["reason"]
    # K10
    assert any("1 row has a remark" in notice and "short noun phrases" in notice for notice in run.notices)


def test_every_kind_of_file_is_masked_where_its_subject_is(tmp_path: Path) -> None:
    # K18: one decoder for segmenter and encoder.
    encoder = counting()
    pixels = flat((6, 20, 10, RED))
    alpha = np.dstack([pixels, np.full((40, 40), 255, np.uint8)])
    alpha[:5, :, 3] = 0
    turned = Image.fromarray(np.rot90(pixels).copy())
    exif = turned.getexif()
    exif[274] = 6
    turned.save(tmp_path / "turned.png", exif=exif)
    save(tmp_path / "rgba.png", alpha)
    Image.fromarray(pixels).convert("P", palette=Image.Palette.ADAPTIVE).save(tmp_path / "p.png")
    rows = [
        {"output": str(tmp_path / name), "references": [save(tmp_path / "r.png", pixels)], "class_name": "red"}
        for name in ("turned.png", "rgba.png", "p.png")
    ]
    run = evaluate(tmp_path, rows, "clip_i_seg(segmenter=color)", model="counting")
    expected = cosine(encoder, np.where((pixels == RED).all(axis=2)[..., None], pixels, 0).astype(np.uint8), pixels)
    assert [row["value"] for row in rows_of(run, run.labels[0])] == pytest.approx([expected] * 3, abs=1e-6)


def test_scenes_with_exact_masks(tmp_path: Path) -> None:
    encoder = counting()
    rows, expected = [], []
    for item in demo_set(0, prompts=6, references=1)[:9]:
        image, mask = np.asarray(item.image(64)), item.mask_of(item.concept, 64)
        reference = np.asarray(item.reference_images(64)[0])
        rows.append({
            "id": item.id, "output": save(tmp_path / f"{item.id}.png", image), "concept": item.concept,
            "references": [save(tmp_path / f"{item.prompt_id}_r.png", reference)],
            "masks": None if mask is None else rle(mask),
        })  # fmt: skip
        masked = None if mask is None else np.where(mask[..., None], image, 0).astype(np.uint8)
        expected.append(None if masked is None else cosine(encoder, masked, reference))
    run = evaluate(tmp_path, rows, "clip_i_seg", model="counting")
    assert [row["value"] for row in rows_of(run, run.labels[0])] == [
        None if value is None else pytest.approx(value, abs=1e-6) for value in expected
    ]
    assert None in expected


CLIP = [flat((5, 5, 10, RED)), flat((5, 5, 10, BLUE)), flat((20, 8, 10, RED)), flat((5, 5, 10, GREEN))]
"""Frames of a video: the red subject is there in the first and third."""


def clip_folder(path: Path, frames: Sequence[np.ndarray] = CLIP) -> str:
    for at, frame in enumerate(frames):
        save(path / f"{at}.png", frame)
    return str(path)


@pytest.mark.parametrize("how", ["mean", "max", "min", "median"])
@pytest.mark.parametrize("missing", ["skip", "zero", "unsegmented"])
def test_every_frame_of_a_video_is_segmented(tmp_path: Path, how: str, missing: str) -> None:
    encoder = counting()
    reference = flat((15, 15, 10, RED), (0, 0, 8, GREEN))
    still = flat((9, 9, 10, RED))
    row = {"references": [save(tmp_path / "r.png", reference)], "class_name": "red"}
    rows = [row | {"output": clip_folder(tmp_path / "v")}, row | {"output": save(tmp_path / "s.png", still)}]
    run = evaluate(
        tmp_path, rows,
        f"clip_i_seg(segmenter=color, frames=all, over_frames={how}, on_missing={missing})", model="counting",
    )  # fmt: skip
    video, picture = rows_of(run, run.labels[0])

    def alone(pixels: np.ndarray) -> np.ndarray:
        return np.where((pixels == RED).all(axis=2, keepdims=True), pixels, 0).astype(np.uint8)

    found = [cosine(encoder, alone(CLIP[at]), reference) for at in (0, 2)]
    plain = [cosine(encoder, CLIP[at], reference) for at in (1, 3)]
    counted = {"skip": found, "zero": [*found, 0.0, 0.0], "unsegmented": [*found, *plain]}
    reduce = {"mean": np.mean, "max": np.max, "min": np.min, "median": np.median}[how]
    assert video["status"] == "ok"
    assert video["value"] == pytest.approx(reduce(counted[missing]), abs=1e-6)
    facts = video["evidence"]
    assert (facts["seg_found"], facts["frames_found"], facts["seg_area"]) == (True, 2, pytest.approx(100 / 1600))
    assert [facts["frame_scores"][at] for at in (0, 2)] == pytest.approx(found, abs=1e-6)
    assert [facts["frame_unsegmented"][at] for at in (1, 3)] == pytest.approx(plain, abs=1e-6)
    assert [facts["frame_scores"][at] for at in (1, 3)] == [None, None]
    assert facts["frames"]["indices"] == [0, 1, 2, 3]
    assert picture["value"] == pytest.approx(cosine(encoder, alone(still), reference), abs=1e-6)
    assert "frame_scores" not in picture["evidence"]
    by = {item.aggregate: item.value for item in run.summary}
    both = [picture["value"]]
    assert by["seg_found"] == pytest.approx((0.5 + 1) / 2)
    for name in ("skip", "zero", "unsegmented"):
        assert by[name] == pytest.approx(np.mean([reduce(counted[name]), *both]), abs=1e-6)


def test_videos_with_several_instances_or_no_subject_or_a_mask(tmp_path: Path) -> None:
    encoder = counting()
    reference = save(tmp_path / "r.png", flat((15, 15, 10, RED)))
    two = [flat((2, 2, 10, RED), (25, 25, 12, RED)), flat((5, 5, 10, RED))]
    row = {"references": [reference], "class_name": "red"}
    outputs = [clip_folder(tmp_path / "two", two), clip_folder(tmp_path / "none", [CLIP[1], CLIP[3]])]
    metric = "clip_i_seg(segmenter=color, frames=all, instances=all-mean)"
    run = evaluate(tmp_path, [row | {"output": output} for output in outputs], metric, model="counting")
    several, none = rows_of(run, run.labels[0])
    parts = [flat(), flat(), flat()]
    squares = [(2, 2, 10), (25, 25, 12), (5, 5, 10)]
    for part, (x, y, side) in zip(parts, squares):
        part[:] = 0
        part[y : y + side, x : x + side] = RED
    values = [cosine(encoder, part, flat((15, 15, 10, RED))) for part in parts]
    assert several["value"] == pytest.approx((np.mean(values[:2]) + values[2]) / 2, abs=1e-6)
    assert (none["status"], none["reason"]) == ("no_mask", "no mask of the subject was found in any frame")
    masked = row | {"output": outputs[0], "masks": rle(np.eye(40, dtype=bool))}
    run = evaluate(tmp_path, [masked], "clip_i_seg(segmenter=masks)", model="counting")
    (score,) = rows_of(run, run.labels[0])
    assert score["status"] == "not_applicable"
    assert "a picture and its mask) must be still pictures" in score["reason"]


def test_background_share_looks_at_still_pictures(tmp_path: Path) -> None:
    counting()
    row = {
        "output": clip_folder(tmp_path / "v"), "references": [save(tmp_path / "r.png", flat())], "class_name": "red",
        "concept": "a",
    }  # fmt: skip
    run = evaluate(
        tmp_path,
        [row | {"id": "1"}, row | {"id": "2", "concept": "b"}],
        "background_share(segmenter=color)",
        model="counting",
    )
    assert {score["status"] for score in rows_of(run, run.labels[0])} == {"not_applicable"}
    assert "looks at still pictures" in rows_of(run, run.labels[0])[0]["reason"]


def test_dino_i_seg_fills_with_imagenets_mean(tmp_path: Path) -> None:
    encoder = counting()
    pixels = flat((6, 20, 10, RED))
    row = {"output": save(tmp_path / "o.png", pixels), "references": [save(tmp_path / "r.png", pixels)],
           "class_name": "red"}  # fmt: skip
    run = evaluate(tmp_path, [row], "dino_i_seg(model=counting, segmenter=color, fill=mean)")
    masked = np.where((pixels == RED).all(axis=2)[..., None], pixels, np.array(IMAGENET_MEAN, np.uint8))
    assert rows_of(run, run.labels[0])[0]["value"] == pytest.approx(cosine(encoder, masked, pixels), abs=1e-6)
    with pytest.raises(OptionError, match="takes the model"):
        evaluate(tmp_path, [row], "dino_i_seg(segmenter=color)", model="counting")


# background_share


def test_background_share_by_hand(tmp_path: Path) -> None:
    encoder = counting(seed=2)  # a seed for which rows of both kinds occur
    rows = set_of_squares(tmp_path)
    run = evaluate(tmp_path, rows, "background_share(segmenter=color)", model="counting")
    found = rows_of(run, run.labels[0])
    references = {row["concept"]: [np.asarray(Image.open(path)) for path in row["references"]] for row in rows}
    chance = np.mean([cosine(encoder, one, other) for one in references["blue"] for other in references["red"]])
    scored = 0
    for row, score in zip(rows[:5], found, strict=False):
        pixels = np.asarray(Image.open(row["output"]))
        mask = (pixels == (RED if row["concept"] == "red" else BLUE)).all(axis=2)[..., None]
        real = references[row["concept"]]
        front, back = (
            max(0.0, np.mean([cosine(encoder, np.where(m, pixels, 0).astype(np.uint8), r) for r in real]) - chance)
            for m in (mask, ~mask)
        )
        assert score["evidence"]["chance"] == pytest.approx(chance, abs=1e-6)
        assert score["evidence"]["s_fg"] == pytest.approx(front, abs=1e-6)
        assert score["evidence"]["s_bg"] == pytest.approx(back, abs=1e-6)
        if front + back > 0:
            assert score["value"] == pytest.approx(back / (front + back), abs=1e-5)
            scored += 1
        else:
            assert score["status"] == "not_enough_evidence"
    assert 1 <= scored < 5
    assert found[5]["status"] == "no_mask"


def test_background_share_needs_other_concepts_and_a_background(tmp_path: Path) -> None:
    counting()
    rows = [row for row in set_of_squares(tmp_path) if row["concept"] == "red"]
    run = evaluate(tmp_path, rows, "background_share(segmenter=color)", model="counting")
    (first, *_) = rows_of(run, run.labels[0])
    assert first["status"] == "not_enough_evidence"
    assert "another concept" in first["reason"]
    rows = [{**row, "masks": rle(np.ones((40, 40), bool))} for row in set_of_squares(tmp_path)]
    run = evaluate(tmp_path, rows, "background_share", model="counting")
    (first, *_) = rows_of(run, run.labels[0])
    assert (first["status"], first["reason"]) == ("no_mask", "the mask covers the whole picture")
    run = evaluate(tmp_path, (row for row in rows), "background_share(segmenter=masks)", model="counting")
    assert rows_of(run, run.labels[0])[0]["status"] == "not_enough_evidence"


class Thumbnails(CountingEncoder):
    """An encoder whose embedding is the picture itself, 8 by 8, around gray: likeness that one can see."""

    def prepare_image(self, picture: Any) -> np.ndarray:
        small = Image.fromarray(picture.pixels).resize((8, 8), Image.Resampling.BOX)
        thumb: np.ndarray = np.asarray(small, dtype=np.float32).reshape(-1)
        return thumb

    def encode_images(self, batch: np.ndarray) -> np.ndarray:
        return np.asarray(batch, dtype=np.float32) - 128.0 + 1e-3


def test_background_share_tells_copied_backgrounds_from_copied_subjects(tmp_path: Path) -> None:
    beholder.register_encoder("thumbs", Thumbnails("thumbs"))
    sky, sea = np.full((40, 40, 3), (240, 200, 40), np.uint8), np.full((40, 40, 3), (20, 30, 90), np.uint8)

    def put(background: np.ndarray, colour: tuple[int, int, int]) -> np.ndarray:
        pixels = background.copy()
        pixels[10:30, 10:30] = colour
        return pixels

    mask = np.zeros((40, 40), bool)
    mask[10:30, 10:30] = True
    right, wrong = (250, 0, 0), (0, 0, 200)
    shared = {"references": [save(tmp_path / "r.png", put(sky, right))], "concept": "one", "masks": rle(mask)}
    plain_gray = np.full((40, 40, 3), 128, np.uint8)
    other = {
        "references": [save(tmp_path / "s.png", put(plain_gray, (0, 90, 0)))],
        "concept": "two",
        "masks": rle(mask),
    }
    rows = [
        {"id": "copied background", "output": save(tmp_path / "a.png", put(sky, wrong)), **shared},
        {"id": "faithful", "output": save(tmp_path / "b.png", put(sea, right)), **shared},
        {"id": "other", "output": save(tmp_path / "c.png", put(plain_gray, (0, 90, 0))), **other},
    ]
    metrics = [
        "clip_i(model=thumbs)",
        "clip_i_seg(model=thumbs, fill=gray)",
        "background_share(model=thumbs, fill=gray)",
    ]
    run = evaluate(tmp_path, rows, metrics)
    share = [row["value"] for row in rows_of(run, run.labels[2])]
    plain, segmented = ([row["value"] for row in rows_of(run, run.labels[at])] for at in (0, 1))
    assert share[0] > 0.9
    assert share[1] < 0.2
    # What the metric is for: the whole picture flatters the copied background, the segmented one does not.
    assert plain[0] > plain[1]
    assert segmented[0] < segmented[1]
