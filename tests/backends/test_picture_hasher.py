"""Hashes of real pictures: what a copy may go through and still be known, and what is another picture."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps
from tests.photographs import scene

import beholder
from beholder._errors import UnknownNameError
from beholder.backends.pool import load_model, resolve_model
from beholder.functional.picture_hash import NEAR, hamming
from beholder.media.base import Picture
from beholder.metrics.base import FeatureBatch, SampleMetric, ScoreColumns, Selection, Slot
from beholder.records import MetricInfo

SCENES = ("astronaut.png", "coffee.png", "chelsea.png", "rocket.jpg")


@pytest.fixture(scope="module")
def hasher() -> Any:
    return load_model(resolve_model("pixels", capability="PictureHasher"))


def hashes(hasher: Any, *images: Image.Image) -> dict[str, np.ndarray]:
    pictures = [Picture(np.asarray(image.convert("RGB")), image.size, "RGB") for image in images]
    return dict(hasher.hash_pictures([hasher.prepare([picture]) for picture in pictures]).columns)


def photograph(name: str) -> Image.Image:
    return Image.open(scene(name)).convert("RGB")


def jpeg(image: Image.Image, quality: int) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return Image.open(buffer).convert("RGB")


@pytest.mark.parametrize("name", SCENES)
def test_near_copies_are_known(hasher: Any, name: str) -> None:
    image = photograph(name)
    half = image.resize((image.width // 2, image.height // 2), Image.Resampling.BICUBIC)
    brighter = Image.fromarray(np.clip(np.asarray(image) * 0.8 + 30, 0, 255).astype(np.uint8))
    found = hashes(hasher, image, jpeg(image, 40), half, brighter)
    assert (hamming(found["hash"], found["hash"][0]) <= NEAR).all()
    # Only the first is equal in its pixels.
    assert len({row.tobytes() for row in found["pixels"]}) == 4
    assert (found["pixels"][0] == hashes(hasher, image.copy())["pixels"][0]).all()


@pytest.mark.parametrize("name", SCENES)
def test_a_mirrored_copy_is_known(hasher: Any, name: str) -> None:
    image = photograph(name)
    reference, copy = hashes(hasher, image), hashes(hasher, jpeg(ImageOps.mirror(image), 60))
    assert hamming(copy["hash"], reference["hash"])[0] > NEAR
    assert hamming(copy["hash"], reference["mirrored"])[0] <= NEAR


def test_other_pictures_are_far(hasher: Any) -> None:
    found = hashes(hasher, *(photograph(name) for name in SCENES))
    for number in range(len(SCENES)):
        others = [at for at in range(len(SCENES)) if at != number]
        for kind in ("hash", "mirrored"):
            assert hamming(found["hash"][number], found[kind][others]).min() > 2 * NEAR


def test_golden_hash(hasher: Any) -> None:
    # Pillow 13, scikit-image 0.26's astronaut; one bit may turn where a coefficient lies at the median.
    golden = np.uint64(4796980481910235080)
    assert hamming(hashes(hasher, photograph("astronaut.png"))["hash"], golden)[0] <= 1


def test_equal_pixels_of_another_shape_are_another_picture(hasher: Any) -> None:
    wide, tall = (Image.fromarray(np.full(shape, 9, np.uint8)) for shape in ((4, 6, 3), (6, 4, 3)))
    found = hashes(hasher, wide, tall)
    assert (found["pixels"][0] != found["pixels"][1]).any()
    assert found["hash"].tolist() == [0, 0]


def test_names(hasher: Any) -> None:
    assert hasher.model.id == "pixels:dct64"
    assert resolve_model("pixels:dct64", capability="PictureHasher").key == hasher.model.key
    with pytest.raises(UnknownNameError, match="pixels:dct64"):
        resolve_model("pixels:md5", capability="PictureHasher")


class NearCopy(SampleMetric):
    """Bits by which the output differs from its reference; for this test."""

    info = MetricInfo(
        name="near_copy", family="test", kind="sample", summary="Distance.", inputs=("output", "references"),
        formula="d", unit="bits", range=(0.0, 64.0), higher_is_better=None, degenerate="None.", paper=None,
        reference_code=None, version="1", capability="PictureHasher",
    )  # fmt: skip

    @property
    def slots(self) -> tuple[Slot, ...]:
        return Slot("output", "pixels", "hashes"), Slot("references", "pixels", "hashes", many=True)

    def select(self, sample: Any) -> Selection:
        return {"output": sample.output, "references": list(sample.references)}

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        references = batch.many("references").columns
        own = batch.one("output", "hash")
        nearest = np.minimum(hamming(own, references["hash"]), hamming(own, references["mirrored"]))
        return ScoreColumns(nearest.astype(np.float64))


def test_hashes_go_through_a_run_and_its_store(tmp_path: Path) -> None:
    image = photograph("chelsea.png")
    ImageOps.mirror(image).save(tmp_path / "mirror.png")
    photograph("coffee.png").save(tmp_path / "other.png")
    reference = str(scene("chelsea.png"))
    outputs = [reference, str(tmp_path / "mirror.png"), str(tmp_path / "other.png")]
    rows = [{"id": str(at), "output": path, "references": [reference]} for at, path in enumerate(outputs)]
    for name in ("first", "again"):
        found = beholder.evaluate(rows, metrics=NearCopy(), out=str(tmp_path / name), store=str(tmp_path / "s"))
        values = found.scores.column("near_copy").to_pylist()
        assert values[:2] == [0.0, 0.0]
        assert values[2] > 2 * NEAR
