"""nexus_score on drawn videos, with an injected detector and embedder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.runs.test_visuals import rows_of

from beholder.backends.base import Made, ResolvedModel
from beholder.backends.columns import object_column
from beholder.backends.pool import register_model
from beholder.manifest.schema import Sample
from beholder.media.base import Picture
from beholder.metrics.opens2v_pairs import labels_of, pairs_of
from beholder.records import ModelCard

SPEC = "nexus_score(detector=colours,model=mean-colour)"


def _resolved(name: str, capability: str) -> ResolvedModel:
    card = ModelCard(id=name, engine="own", family="own", arch="own", weights="")
    return ResolvedModel(name, name, card, "", name, {}, "float32", capability=capability)


class Colours:
    """Finds the box of the example's colour in a frame; its score is in the red of the frame's last corner."""

    batch = pair_batch = 8
    takes_video = False
    constants: Mapping[str, float] = {}

    def __init__(self) -> None:
        self.model = _resolved("colours", "ExampleDetector")
        register_model("colours", self)

    def prepare(self, pictures: Sequence[Picture]) -> np.ndarray:
        return pictures[0].pixels

    def prepare_example(self, picture: Picture) -> np.ndarray:
        return picture.pixels[0, 0]

    def detect_examples(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, Any]]) -> Made:
        boxes, scores = [], []
        for at, colour in pairs:
            rows, columns = np.nonzero((visuals[at] == colour).all(axis=2))
            found = len(rows) > 0
            corners = [[columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]] if found else []
            boxes.append(np.array(corners, np.float32).reshape(-1, 4))
            scores.append(np.array([visuals[at][-1, -1, 0] / 100] if found else [], np.float32))
        size = np.array([visuals[at].shape[:2] for at, _ in pairs], np.int32)
        return Made({"boxes": object_column(boxes), "scores": object_column(scores), "size": size})

    def close(self) -> None: ...


class MeanColour:
    """A picture's mean colour; labels are colours by name. Counts the pictures that it is shown."""

    image_batch = text_batch = 4
    constants: Mapping[str, float] = {}
    NAMES: Mapping[str, tuple[int, int, int]] = {"Cup": (200, 10, 10), "Park": (10, 200, 10), "Sky": (-200, -9, -9)}

    def __init__(self) -> None:
        self.model, self.seen, self.texts = _resolved("mean-colour", "ImageTextEncoder"), 0, []
        register_model("mean-colour", self)

    def prepare_image(self, picture: Picture) -> np.ndarray:
        self.seen += 1
        return picture.pixels.reshape(-1, 3).mean(axis=0).astype(np.float32)

    def encode_images(self, batch: np.ndarray) -> np.ndarray:
        return batch

    def encode_texts(self, texts: Sequence[str]) -> Mapping[str, np.ndarray]:
        self.texts += texts
        rows = np.array([self.NAMES.get(text, (200, 10, 10)) for text in texts], np.float32)
        return {"embedding": rows, "n_tokens": np.ones(len(texts), np.int32), "truncated": np.zeros(len(texts), bool)}

    def close(self) -> None: ...


RED, GREEN = (200, 10, 10), (10, 200, 10)


def video(folder: Path, frames: Sequence[Sequence[tuple[int, int, int]]], confidence: int = 90) -> str:
    """Frames with squares of some colours side by side."""
    folder.mkdir(parents=True)
    for at, colours in enumerate(frames):
        pixels = np.zeros((24, 60, 3), np.uint8)
        for place, colour in enumerate(colours):
            pixels[4:12, 20 * place + 2 : 20 * place + 12] = colour
        pixels[-1, -1] = (confidence, 0, 0)
        Image.fromarray(pixels).save(folder / f"{at:03}.png")
    return str(folder)


def reference(tmp_path: Path, colour: tuple[int, int, int]) -> str:
    path = tmp_path / f"{colour}.png"
    Image.new("RGB", (6, 6), colour).save(path)
    return str(path)


def scored(tmp_path: Path, row: dict[str, Any], spec: str = SPEC) -> tuple[Any, dict[str, Any]]:
    Colours()
    MeanColour()
    (found,) = rows_of(tmp_path, [row], spec, out=f"run{len(list(tmp_path.iterdir()))}", max_failed=1.0)
    return found, json.loads(found.get("nexus_score_evidence") or "{}")


def test_a_subject_in_every_frame(tmp_path: Path) -> None:
    row = {"output": video(tmp_path / "v", [[RED]] * 32), "references": [reference(tmp_path, RED)],
           "class_label": ["Cup"]}  # fmt: skip
    found, evidence = scored(tmp_path, row)
    assert found["nexus_score"] == pytest.approx(1 / 32, abs=1e-3), found
    assert evidence["official"] == found["nexus_score"]
    assert evidence["official_included"]
    assert (evidence["f_obj"], evidence["n_frames"], evidence["coverage"]) == (32, 32, 1.0)
    assert evidence["references"] == [
        {"label": "Cup", "boxes": 32, "frames": 32, "kept": 32, "kept_frames": 32,
         "mean": pytest.approx(1.0, abs=1e-3)},
    ]  # fmt: skip
    assert evidence["frames"]["policy"] == "uniform:32"
    for variant, wanted in (("mean_similarity", 1.0), ("coverage", 1.0), ("corrected", 1.0)):
        other, _ = scored(tmp_path, row, SPEC.replace(")", f",variant={variant})"))
        assert other["nexus_score"] == pytest.approx(wanted, abs=1e-3)


def test_a_short_clip_repeats_frames_and_embeds_equal_crops_once(tmp_path: Path) -> None:
    Colours()
    embedder = MeanColour()
    row = {"output": video(tmp_path / "v", [[RED], [], [RED]]), "references": [reference(tmp_path, RED)],
           "class_label": ["Cup"]}  # fmt: skip
    (found,) = rows_of(tmp_path, [row], SPEC)
    evidence = json.loads(found["nexus_score_evidence"])
    # floor(2 i / 31): 16 frames show the first, 15 the second, 1 the third.
    assert (evidence["f_obj"], evidence["n_boxes"]) == (17, 17)
    assert found["nexus_score"] == pytest.approx(1 / 17, abs=1e-3)
    assert embedder.seen == 2, "one crop and one reference"


def test_two_references_one_never_found(tmp_path: Path) -> None:
    references = [reference(tmp_path, RED), reference(tmp_path, GREEN)]
    row = {"output": video(tmp_path / "v", [[RED]] * 4), "references": references, "class_label": ["Cup", "Park"]}
    found, evidence = scored(tmp_path, row)
    assert found["nexus_score_status"] == "ok"
    assert [item["boxes"] for item in evidence["references"]] == [32, 0]
    assert evidence["nexus_corrected"] == pytest.approx(0.5, abs=1e-3)
    both = {**row, "output": video(tmp_path / "w", [[RED, GREEN]] * 4)}
    found, evidence = scored(tmp_path, both)
    assert evidence["f_obj"] == 32, "two references in one frame count it once"
    assert evidence["n_boxes"] == 64


@pytest.mark.parametrize(
    ("frames", "confidence", "label", "status"),
    [
        ([[]] * 3, 90, "Cup", "no_detection"),
        ([[RED]] * 3, 50, "Cup", "no_detection"),
        ([[RED]] * 3, 55, "Cup", "all_filtered"),
        ([[RED]] * 3, 90, "Sky", "all_filtered"),
    ],
)
def test_no_value(tmp_path: Path, frames: Any, confidence: int, label: str, status: str) -> None:
    row = {"output": video(tmp_path / "v", frames, confidence), "references": [reference(tmp_path, RED)],
           "class_label": [label]}  # fmt: skip
    found, evidence = scored(tmp_path, row)
    assert found["nexus_score"] is None
    assert found["nexus_score_status"] == status
    assert evidence["official"] == (None if status == "no_detection" else 0.0)
    assert evidence["official_included"] is False


@pytest.mark.parametrize(
    ("stem", "labels", "wanted"),
    [
        ("singleface_1", ["Woman"], []),
        ("faceobj_14", ["Woman", "Clothes", "Square"], ["Clothes", "Square"]),
        ("multiface_2", ["Man", "Woman"], []),
        ("singlehuman_3", ["Man"], ["human"]),
        ("multihuman_3", ["Man", "Woman", "Park"], ["human", "human", "Park"]),
        ("humanobj_1", ["Woman", "Cup"], ["human", "Cup"]),
        ("singleobj_1", ["Teddybear"], ["Teddybear"]),
        ("multiobject_1", ["Man", "Cup"], ["Man", "Cup"]),
        ("singleobj_1", ["Cup", "Ball", "Hat", "Shoe"], ["Cup", "Ball", "Hat"]),
    ],
)
def test_which_references_are_looked_for(stem: str, labels: list[str], wanted: list[str]) -> None:
    media = tuple(object() for _ in range(min(3, len(labels))))
    sample = Sample("x/" + stem, None, references=media, extras={"class_label": labels, "stem": stem})  # type: ignore[arg-type]
    assert [item.label for item in pairs_of(sample)] == wanted


def test_labels_in_a_cell() -> None:
    assert labels_of(Sample("a", None, extras={"class_label": '["Cup", "Park"]'})) == ["Cup", "Park"]
    assert labels_of(Sample("a", None, extras={"class_label": "Cup"})) == ["Cup"]
    assert labels_of(Sample("a", None, references=(None,), class_name="Cup")) == ["Cup"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("row", "status"),
    [
        ({"class_label": ["Woman"], "stem": "singleface_1"}, "not_applicable"),
        ({"stem": "singleobj_1"}, "not_applicable"),
        ({"class_label": ["Cup"], "references": []}, "no_reference"),
        ({"class_label": ["Cup"], "references": ["gone.png"]}, "missing"),
    ],
)
def test_rows_without_pairs(tmp_path: Path, row: dict[str, Any], status: str) -> None:
    full = {"output": video(tmp_path / "v", [[RED]] * 3), "references": [reference(tmp_path, RED)], **row}
    found, _ = scored(tmp_path, full)
    assert found["nexus_score_status"] == status
    if status == "not_applicable":
        assert found["nexus_score_reason"].startswith("no_pairs")


def test_zeros_may_be_included(tmp_path: Path) -> None:
    import beholder

    Colours()
    MeanColour()
    rows = [
        {"id": name, "output": video(tmp_path / name, frames), "references": [reference(tmp_path, RED)],
         "class_label": ["Cup"]}
        for name, frames in (("a", [[RED]] * 32), ("b", [[]] * 3))
    ]  # fmt: skip
    run = beholder.evaluate(rows, metrics=SPEC, out=str(tmp_path / "out"), store=str(tmp_path / "store"))
    means = {row.aggregate: row.value for row in run.summary if not row.group}
    one = next(value for name, value in means.items() if name != "zeros_included")
    assert one == pytest.approx(1 / 32, abs=1e-3), "the mean leaves rows without detection out"
    assert means["zeros_included"] == pytest.approx(one / 2)
