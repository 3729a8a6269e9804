"""The engine on example pictures, on pictures derived from a video's frames, on streams, and on slots that may fail."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.runs.test_visuals import frames_folder, rows_of

from beholder._errors import DeviceError, NoValue
from beholder.backends.base import Made, ResolvedModel
from beholder.backends.columns import object_column
from beholder.backends.pool import register_model
from beholder.media.base import Picture
from beholder.metrics.base import Derived, FeatureBatch, Pair, SampleMetric, ScoreColumns, Selection, Slot
from beholder.records import MetricInfo, ModelCard


class Plain:
    """What the models here have in common."""

    batch = pair_batch = 4
    takes_video = False
    constants: Mapping[str, float] = {}

    def __init__(self, name: str, capability: str) -> None:
        card = ModelCard(id=name, engine="own", family="own", arch="own", weights="")
        self.model = ResolvedModel(name, name, card, "", name, {}, "float32", capability=capability)
        register_model(name, self)

    def close(self) -> None: ...


class Corners(Plain):
    """Finds as many boxes as the example is wide, each a corner of the frame; counts what it is asked."""

    def __init__(self) -> None:
        self.examples, self.frames = 0, 0
        super().__init__("corners", "ExampleDetector")

    def prepare(self, pictures: Sequence[Picture]) -> Any:
        self.frames += 1
        return pictures[0].size

    def prepare_example(self, picture: Picture) -> int:
        self.examples += 1
        return picture.size[0]

    def detect_examples(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, int]]) -> Made:
        boxes = [np.array([[0, 0, 2, 2 + at] for at in range(count)], np.float32).reshape(-1, 4) for _, count in pairs]
        return Made({
            "boxes": object_column(boxes),
            "scores": object_column([np.linspace(1, 0.5, len(found), dtype=np.float32) for found in boxes]),
            "size": np.array([visuals[at][::-1] for at, _ in pairs], np.int32),
        })  # fmt: skip


class Areas(Plain):
    """A picture's number of pixels, as a score."""

    def __init__(self) -> None:
        self.seen = 0
        super().__init__("areas", "ImageScorer")

    def prepare(self, pictures: Sequence[Picture]) -> float:
        self.seen += 1
        return float(pictures[0].pixels.shape[0] * pictures[0].pixels.shape[1])

    def score_images(self, visuals: Sequence[float]) -> Made:
        return Made({"score": np.array(visuals, np.float64)})


class Streaming(Plain):
    """The mean of all pixels, frame by frame; holds one frame."""

    streams = True

    def __init__(self) -> None:
        self.most = 0
        super().__init__("streaming", "ClipMeter")

    def prepare(self, pictures: Iterator[Picture]) -> tuple[float, int]:
        assert not isinstance(pictures, list)
        means = [float(picture.pixels.mean()) for picture in pictures]
        return float(np.mean(means)), len(means)

    def measure_clips(self, visuals: Sequence[tuple[float, int]]) -> Made:
        values, counts = zip(*visuals, strict=True)
        return Made({"mean": np.array(values), "n_frames": np.array(counts, np.int32)})


def cut(picture: Picture, columns: Mapping[str, Any]) -> list[Picture]:
    """The boxes of one frame as pictures."""
    boxes = columns["boxes"].astype(int).tolist()
    return [
        Picture(np.ascontiguousarray(picture.pixels[y0:y1, x0:x1]), (x1 - x0, y1 - y0), "RGB")
        for x0, y0, x1, y1 in boxes
    ]


class Crops(SampleMetric):
    """Areas of what is cut out of every frame, for every reference."""

    info = MetricInfo(
        name="crops", family="test", kind="sample", summary="A.", inputs=("output",), formula="a", unit="pixels",
        range=(0, None), higher_is_better=None, degenerate="None.", paper=None, reference_code=None, version="1",
    )  # fmt: skip

    @property
    def slots(self) -> tuple[Slot, ...]:
        return (
            Slot("boxes", "corners", "example_detections", many=True, frames="uniform:4"),
            Slot("crops", "areas", "image_score", many=True, frames="uniform:4", after=("boxes",), may_fail=True),
        )

    def select(self, sample: Any) -> Selection:
        pairs = [Pair(sample.output, reference) for reference in sample.references]
        return {"boxes": pairs, "crops": [Derived(sample.output, "boxes", pair, cut) for pair in pairs]}

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        boxes, crops = batch.many("boxes"), batch.many("crops")
        evidence = {}
        for row in range(batch.n):
            own = slice(int(crops.offsets[row]), int(crops.offsets[row + 1]))
            areas = crops.columns["score"][own].tolist() if "score" in crops.columns else []
            counts = [
                len(boxes.columns["scores"][at]) for at in range(int(boxes.offsets[row]), int(boxes.offsets[row + 1]))
            ]
            lost = {str(at): status.value for at, (status, _) in batch.lost["crops"][row].items()}
            evidence[row] = {"areas": areas, "counts": counts, "lost": lost}
        return ScoreColumns(np.zeros(batch.n), {}, evidence)


def picture(path: Path, width: int) -> str:
    path.parent.mkdir(exist_ok=True)
    Image.new("RGB", (width, 5), (9, 9, 9)).save(path)
    return str(path)


def test_examples_and_what_is_cut_from_frames(tmp_path: Path) -> None:
    corners, areas = Corners(), Areas()
    clip = frames_folder(tmp_path / "clip", 2)
    refs = [picture(tmp_path / "refs" / f"{width}.png", width) for width in (2, 1)]
    (row,) = rows_of(tmp_path, [{"output": str(clip), "references": refs}], [Crops()])
    evidence = json.loads(row["crops_evidence"])
    # Four frames (0, 0, 0, 1) and two references: two boxes a frame for the first, one for the second.
    assert evidence["counts"] == [2, 2, 2, 2, 1, 1, 1, 1]
    assert evidence["areas"] == [4, 6] * 4 + [4] * 4
    assert (corners.frames, corners.examples) == (2, 2), "a frame and an example are prepared once"
    assert areas.seen == 6, "equal crops of a clip are looked at once"


def test_nothing_cut_is_lost_and_costs_no_row(tmp_path: Path) -> None:
    Corners()
    Areas()
    clip = frames_folder(tmp_path / "clip", 3)
    empty = tmp_path / "refs" / "broken.png"
    picture(empty, 1)
    none = _no_box_reference(tmp_path)
    good = picture(tmp_path / "refs" / "3.png", 3)
    rows = [{"output": str(clip), "references": [none, good]}, {"output": str(clip), "references": [none]}]
    first, second = rows_of(tmp_path, rows, [Crops()])
    assert json.loads(first["crops_evidence"])["lost"] == {"0": "all_filtered"}
    assert json.loads(first["crops_evidence"])["areas"] == [4, 6, 8] * 4
    assert json.loads(second["crops_evidence"]) | {"frames": 0} == {
        "areas": [], "counts": [0] * 4, "lost": {"0": "all_filtered"}, "frames": 0,
    }  # fmt: skip


def _no_box_reference(tmp_path: Path) -> str:
    class Nothing(Corners):
        def prepare_example(self, picture: Picture) -> int:
            return 0 if picture.size[0] == 7 else picture.size[0]

    Nothing()
    return picture(tmp_path / "refs" / "7.png", 7)


def test_an_example_that_cannot_be_read(tmp_path: Path) -> None:
    Corners()
    Areas()
    clip = frames_folder(tmp_path / "clip", 3)
    (tmp_path / "broken.png").write_bytes(b"no picture")
    refs = [picture(tmp_path / "refs" / "1.png", 1)]
    rows = [
        {"output": str(clip), "references": [str(tmp_path / "broken.png")]},
        {"output": str(clip), "references": [str(tmp_path / "gone.png")]},
        {"output": str(clip), "references": refs},
    ]
    found = rows_of(tmp_path, rows, [Crops()], max_failed=1.0)
    assert [row["crops_status"] for row in found] == ["unreadable", "missing", "ok"]


@pytest.mark.parametrize("fault", ["CUDA error: device-side assert triggered", "CUDA out of memory", "an odd picture"])
def test_what_the_device_says_is_no_fault_of_an_example(tmp_path: Path, fault: str) -> None:
    class Failing(Corners):
        def prepare_example(self, picture: Picture) -> int:
            raise RuntimeError(fault)

    Failing()
    Areas()
    clip = frames_folder(tmp_path / "clip", 2)
    rows = [{"output": str(clip), "references": [picture(tmp_path / "refs" / "1.png", 1)]}]
    if "CUDA" in fault:
        with pytest.raises(DeviceError, match=r"device-side assert|a batch of 1 must fit"):
            rows_of(tmp_path, rows, [Crops()], max_failed=1.0)
    else:
        assert [row["crops_status"] for row in rows_of(tmp_path, rows, [Crops()], max_failed=1.0)] == ["failed"]


class Means(SampleMetric):
    """The mean of a clip."""

    info = MetricInfo(
        name="means", family="test", kind="sample", summary="A.", inputs=("output",), formula="a", unit="levels",
        range=(0, 255), higher_is_better=None, degenerate="None.", paper=None, reference_code=None, version="1",
    )  # fmt: skip

    @property
    def slots(self) -> tuple[Slot, ...]:
        return (Slot("clip", "streaming", "clip_numbers", frames="all"),)

    def select(self, sample: Any) -> Selection:
        return {"clip": sample.output}

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        rows = batch.rows_of("clip")
        assert len(rows.columns["mean"]) == batch.n
        return ScoreColumns(np.asarray(rows.columns["mean"], np.float64))


def test_a_clip_as_a_stream(tmp_path: Path) -> None:
    Streaming()
    clip = frames_folder(tmp_path / "clip", 40)
    rows = [{"output": str(clip)}, {"output": str(clip / "0.png")}]
    values = [row["means"] for row in rows_of(tmp_path, rows, [Means()])]
    each = [float(np.asarray(Image.open(clip / f"{at}.png")).mean()) for at in range(40)]
    assert values == pytest.approx([np.mean(each), each[0]])


def test_a_stream_that_breaks_off(tmp_path: Path) -> None:
    class Breaking(Streaming):
        def prepare(self, pictures: Iterator[Picture]) -> tuple[float, int]:
            next(pictures)
            raise NoValue("unreadable", "frame 1 is damaged")

    Breaking()
    clip = frames_folder(tmp_path / "clip", 3)
    (row,) = rows_of(tmp_path, [{"output": str(clip)}], [Means()], max_failed=1.0)
    assert (row["means_status"], row["means_reason"]) == ("unreadable", "frame 1 is damaged")
