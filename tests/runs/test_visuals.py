"""The engine on visuals of several pictures, on pairs, and on pictures derived from features."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.runs.helpers import counting

import beholder
from beholder._errors import DeviceError, NoValue
from beholder.backends.base import Made
from beholder.backends.columns import flatten, object_column, unflatten
from beholder.backends.fake_models import FakeModel
from beholder.backends.pool import register_model
from beholder.media.base import Picture
from beholder.metrics.base import Derived, FeatureBatch, Pair, SampleMetric, ScoreColumns, Selection, Slot
from beholder.metrics.clip import ClipScore
from beholder.records import MetricInfo, Status
from beholder.runs.batching import BatchSize, encode_batch
from beholder.runs.store import FeatureStore, Space


def frames_folder(path: Path, count: int, seed: int = 0) -> Path:
    """A folder of frames: a video without a codec."""
    path.mkdir(parents=True)
    generator = np.random.default_rng(seed)
    for at in range(count):
        Image.fromarray(generator.integers(0, 256, (12, 16, 3), dtype=np.uint8)).save(path / f"{at}.png")
    return path


def rows_of(tmp_path: Path, rows: list[dict[str, Any]], metrics: Any, out: str = "out", **settings: Any) -> Any:
    named = [{"id": str(at), **row} for at, row in enumerate(rows)]
    found = beholder.evaluate(
        named, metrics=metrics, out=str(tmp_path / out), store=str(tmp_path / "store"), **settings
    )
    return found.scores.to_pylist()


def test_a_video_is_the_mean_of_its_frames_and_its_record_says_which(tmp_path: Path) -> None:
    encoder = counting()
    folder = frames_folder(tmp_path / "clip", 5)
    (row,) = rows_of(
        tmp_path, [{"output": str(folder), "prompt": "a"}], "clip_score(frames=uniform:3)", model="counting"
    )
    each = [
        float(beholder.score("clip_score", images=str(folder / f"{at}.png"), texts="a", model="counting"))
        for at in (0, 2, 4)
    ]
    assert row["clip_score"] == pytest.approx(np.mean(each), abs=1e-6)
    record = json.loads(row["clip_score_evidence"])["frames"]
    assert (record["policy"], record["indices"], record["frame_count"]) == ("uniform:3", [0, 2, 4], 5)
    assert encoder.prepared == 6  # three frames for the run, three for the single scores


@pytest.mark.parametrize(("how", "expect"), [("max", max), ("min", min), ("median", np.median), ("mean", np.mean)])
def test_frames_become_one_value_by_name(tmp_path: Path, how: str, expect: Any) -> None:
    counting()
    folder = frames_folder(tmp_path / "clip", 4)
    rows = [{"output": str(folder), "prompt": "a"}]
    (row,) = rows_of(tmp_path, rows, f"clip_score(frames=all, over_frames={how})", model="counting")
    each = [
        float(beholder.score("clip_score", images=str(folder / f"{at}.png"), texts="a", model="counting"))
        for at in range(4)
    ]
    assert row["clip_score"] == pytest.approx(expect(each), abs=1e-6)


def test_repeated_frames_are_encoded_once(tmp_path: Path) -> None:
    encoder = counting()
    folder = frames_folder(tmp_path / "clip", 2)
    (row,) = rows_of(tmp_path, [{"output": str(folder), "prompt": "a"}], "clip_score", model="counting")
    record = json.loads(row["clip_score_evidence"])["frames"]
    assert record["indices"] == [0, 0, 0, 0, 0, 0, 0, 1]
    assert encoder.prepared == 2
    each = [
        float(beholder.score("clip_score", images=str(folder / f"{at}.png"), texts="a", model="counting"))
        for at in range(2)
    ]
    assert row["clip_score"] == pytest.approx((7 * each[0] + each[1]) / 8, abs=1e-6)


def test_videos_and_pictures_stand_in_one_run_and_a_rerun_computes_nothing(tmp_path: Path) -> None:
    encoder = counting()
    rows: list[dict[str, Any]] = []
    for at in range(7):
        folder = frames_folder(tmp_path / f"clip{at}", 3 + at, seed=at)
        rows.append({"output": str(folder), "prompt": f"text {at % 2}", "references": [str(folder / "0.png")]})
        rows.append({"output": str(folder / "1.png"), "prompt": "text 0", "references": [str(folder / "0.png")]})
    metrics = ["clip_score(frames=all)", "clip_i(frames=all)"]
    first = rows_of(tmp_path, rows, metrics, model="counting")
    assert [row["clip_score_status"] for row in first] == ["ok"] * 14
    prepared = encoder.prepared
    again = rows_of(tmp_path, rows, metrics, out="again", model="counting")
    assert encoder.prepared == prepared
    assert [row["clip_score"] for row in again] == [row["clip_score"] for row in first]
    alone = rows_of(tmp_path, rows[:1], metrics, out="alone", model="counting")
    assert alone[0]["clip_i"] == pytest.approx(first[0]["clip_i"], abs=1e-6)


def test_frames_meet_every_reference(tmp_path: Path) -> None:
    counting()
    folder = frames_folder(tmp_path / "clip", 3)
    other = frames_folder(tmp_path / "refs", 2, seed=9)
    references = [str(other / "0.png"), str(other / "1.png")]
    (row,) = rows_of(
        tmp_path,
        [{"output": str(folder), "references": references}],
        "clip_i(frames=all, reduce=max)",
        model="counting",
    )
    frames = [
        float(
            beholder.score(
                "clip_i(reduce=max)", images=str(folder / f"{at}.png"), references=references, model="counting"
            )
        )
        for at in range(3)
    ]
    assert row["clip_i"] == pytest.approx(np.mean(frames), abs=1e-6)


def test_a_video_that_cannot_be_read_costs_its_row(tmp_path: Path) -> None:
    counting()
    good = frames_folder(tmp_path / "good", 2)
    bad = frames_folder(tmp_path / "bad", 3, seed=1)
    (bad / "1.png").write_bytes(b"not a picture")
    rows = [{"output": str(path), "prompt": "a"} for path in (bad, good)]
    found = rows_of(tmp_path, rows, "clip_score(frames=all)", model="counting", max_failed=1.0)
    assert [row["clip_score_status"] for row in found] == ["unreadable", "ok"]
    assert "1.png" in found[0]["clip_score_reason"]


class Spy(FakeModel):
    """A matcher that counts what it was given."""

    batch = 2

    def __init__(self, **settings: Any) -> None:
        super().__init__("Matcher", "spy", **settings)
        self.prepared: list[int] = []
        self.calls: list[tuple[int, int]] = []

    def prepare(self, pictures: Sequence[Picture]) -> Any:
        self.prepared.append(len(pictures))
        return super().prepare(pictures)

    def match(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, str]], head: str = "itm") -> Made:
        self.calls.append((len(visuals), len(pairs)))
        return super().match(visuals, pairs, head)


class Matched(SampleMetric):
    """A metric of pairs: the logit, over frames the mean."""

    info = MetricInfo(
        name="matched", family="test", kind="sample", summary="A logit.", inputs=("output", "prompt"), formula="logit",
        unit="logit", range=(None, None), higher_is_better=True, degenerate="none", paper=None, reference_code=None,
        version="1",
    )  # fmt: skip
    slots = (Slot("match", "spy", "match", frames="all"),)

    def select(self, sample: Any) -> Selection:
        return {"match": Pair(sample.output, sample.prompt)}

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        rows = batch.rows_of("match")
        sums = np.add.reduceat(rows.columns["logit"].astype(float), rows.offsets[:-1])
        return ScoreColumns(sums / np.diff(rows.offsets))


def test_all_texts_of_a_picture_go_to_the_model_with_it(tmp_path: Path) -> None:
    spy = Spy()
    register_model("spy", spy)
    folder = frames_folder(tmp_path / "pictures", 3)
    rows = [{"output": str(folder / f"{at}.png"), "prompt": f"text {text}"} for at in range(3) for text in range(4)]
    found = rows_of(tmp_path, rows, Matched())
    assert spy.prepared == [1, 1, 1]
    assert spy.calls == [(2, 8), (1, 4)]
    expected = [
        float(spy.match([spy.prepare([_picture(row["output"])])], [(0, row["prompt"])]).columns["logit"][0])
        for row in rows
    ]
    assert [row["matched"] for row in found] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("together", [False, True])
def test_a_model_looks_at_frames_one_by_one_or_together(tmp_path: Path, together: bool) -> None:
    spy = Spy(takes_video=together)
    register_model("spy", spy)
    folder = frames_folder(tmp_path / "clip", 5)
    rows = [{"output": str(folder), "prompt": text} for text in ("one", "two")]
    found = rows_of(tmp_path, rows, Matched())
    pictures = [_picture(str(folder / f"{at}.png")) for at in range(5)]
    assert spy.prepared == ([5] if together else [1] * 5)
    assert spy.calls == ([(1, 2)] if together else [(2, 4), (2, 4), (1, 2)])
    for row, text in zip(found, ("one", "two"), strict=True):
        units = [pictures] if together else [[picture] for picture in pictures]
        logits = [spy.match([spy.prepare(unit)], [(0, text)]).columns["logit"][0] for unit in units]
        assert row["matched"] == pytest.approx(np.mean(logits), abs=1e-6)
        assert json.loads(row["matched_evidence"])["frames"]["indices"] == [0, 1, 2, 3, 4]


def test_a_pair_that_breaks_the_model_costs_itself_alone(tmp_path: Path) -> None:
    class Breaks(Spy):
        def match(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, str]], head: str = "itm") -> Made:
            if any(text == "text 2" for _, text in pairs):
                raise ArithmeticError("no")
            return super().match(visuals, pairs, head)

    register_model("spy", Breaks(refuse_on="3"))
    folder = frames_folder(tmp_path / "pictures", 2)
    rows = [{"output": str(folder / f"{at}.png"), "prompt": f"text {text}"} for at in range(2) for text in range(4)]
    found = rows_of(tmp_path, rows, Matched(), max_failed=1.0)
    assert [row["matched_status"] for row in found] == ["ok", "ok", "failed", "refused"] * 2
    assert found[2]["matched_reason"] == "the model raised ArithmeticError: no"


class FakeFaces:
    """A face analyser: as many boxes as the picture's first pixel says."""

    batch, takes_video = 4, False
    constants: Mapping[str, float] = {}

    def __init__(self) -> None:
        base = FakeModel("Matcher", "faces").model
        self.model = dataclasses.replace(base, capability="FaceAnalyser", id="faces", asked="faces")
        self.seen = 0

    def prepare(self, pictures: Sequence[Picture]) -> Any:
        return int(pictures[0].pixels[0, 0, 0])

    def analyse(self, visuals: Sequence[Any]) -> Made:
        self.seen += len(visuals)
        boxes = [np.arange(4 * count, dtype=np.float32).reshape(count, 4) for count in visuals]
        return Made({"boxes": object_column(boxes), "scores": object_column([box[:, 0] for box in boxes])})

    def close(self) -> None:
        pass


class Counted(SampleMetric):
    """The number of faces, and of a video the most in a frame."""

    info = dataclasses.replace(Matched.info, name="counted", unit="faces")
    slots = (Slot("faces", "faces", "faces", frames="all"),)

    def select(self, sample: Any) -> Selection:
        return {"faces": sample.output}

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        rows = batch.rows_of("faces")
        counts = [len(boxes) for boxes in rows.columns["boxes"]]
        assert all(boxes.shape[1:] == (4,) for boxes in rows.columns["boxes"])
        return ScoreColumns(np.maximum.reduceat(np.array(counts, dtype=float), rows.offsets[:-1]))


def shades(path: Path, *values: int) -> Path:
    path.mkdir(parents=True)
    for at, value in enumerate(values):
        Image.new("RGB", (8, 8), (value, 0, at)).save(path / f"{at}.png")
    return path


def test_features_of_any_length_come_back_as_they_were(tmp_path: Path) -> None:
    faces = FakeFaces()
    register_model("faces", faces)
    folder = shades(tmp_path / "clip", 0, 3, 1, 0)
    rows = [{"output": str(folder / f"{at}.png")} for at in range(4)] + [{"output": str(folder)}]
    first = rows_of(tmp_path, rows, Counted())
    assert [row["counted"] for row in first] == [0, 3, 1, 0, 3]
    seen = faces.seen
    again = rows_of(tmp_path, rows, Counted(), out="again")
    assert faces.seen == seen
    assert [row["counted"] for row in again] == [0, 3, 1, 0, 3]


def strips(picture: Picture, feature: Mapping[str, Any], *, height: int) -> list[Picture]:
    """A strip of the picture for every face; none is no face."""
    if not len(feature["boxes"]):
        raise NoValue(Status.NO_FACE, "no face was found")
    pixels = picture.pixels
    return [
        Picture(np.ascontiguousarray(pixels[:height] + at), (pixels.shape[1], height), "RGB")
        for at in range(len(feature["boxes"]))
    ]


class Derives(SampleMetric):
    """The sum of a matcher's logits over derived pictures."""

    info = dataclasses.replace(Matched.info, name="derives")
    slots = (Slot("faces", "faces", "faces"), Slot("match", "spy", "match", after=("faces",)))

    def select(self, sample: Any) -> Selection:
        crops = Derived(sample.output, "faces", sample.output, strips, (("height", 4),))
        return {"faces": sample.output, "match": Pair(crops, "a face")}

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        rows = batch.rows_of("match")
        return ScoreColumns(np.add.reduceat(rows.columns["logit"].astype(float), rows.offsets[:-1]))


def test_pictures_are_derived_from_features_of_another_model(tmp_path: Path) -> None:
    spy, faces = Spy(), FakeFaces()
    register_model("spy", spy)
    register_model("faces", faces)
    folder = shades(tmp_path / "clip", 2, 0, 1)
    rows = [{"output": str(folder / f"{at}.png")} for at in range(3)]
    found = rows_of(tmp_path, rows, Derives())
    assert [row["derives_status"] for row in found] == ["ok", "no_face", "ok"]
    picture = _picture(rows[0]["output"])
    crops = strips(picture, {"boxes": np.zeros((2, 4))}, height=4)
    logits = [spy.match([spy.prepare([crop])], [(0, "a face")]).columns["logit"][0] for crop in crops]
    assert found[0]["derives"] == pytest.approx(np.sum(logits), abs=1e-6)
    calls = len(spy.calls)
    again = rows_of(tmp_path, rows, Derives(), out="again")
    assert [row["derives"] for row in again] == [row["derives"] for row in found]
    assert len(spy.calls) == calls
    assert faces.seen == 4  # three pictures, filled up to one batch


def test_a_metric_of_cosines_works_on_a_model_that_looks_at_pairs(tmp_path: Path) -> None:
    spy = Spy()
    register_model("spy", spy)
    folder = frames_folder(tmp_path / "pictures", 2)
    rows = [{"output": str(folder / "0.png"), "prompt": "a"}, {"output": str(folder), "prompt": "a"}]
    found = rows_of(tmp_path, rows, "clip_score(model=spy, variant=x100, frames=all)")
    cosines = [
        float(spy.match([spy.prepare([_picture(str(folder / f"{at}.png"))])], [(0, "a")], "itc").columns["cosine"][0])
        for at in range(2)
    ]
    label = next(name for name in found[0] if name.startswith("clip_score") and name.endswith("_status"))
    values = [row[label.removesuffix("_status")] for row in found]
    assert values == pytest.approx([100 * cosines[0], 50 * sum(cosines)], abs=1e-4)
    with pytest.raises(beholder.UserError, match="embeds"):
        ClipScore({"model": "spy", "variant": "ref_hessel"}).on_pairs()


def test_ragged_columns_and_texts_survive_the_store(tmp_path: Path) -> None:
    columns = {
        "boxes": object_column([np.arange(8.0).reshape(2, 4), np.zeros((0, 4)), np.ones((1, 4))]),
        "text": object_column(["a", "", "漢\ud800"]),
        "plain": np.arange(3),
    }
    back = unflatten(flatten(columns))
    assert [row.tolist() for row in back["boxes"]] == [row.tolist() for row in columns["boxes"]]
    assert back["text"].tolist() == ["a", "", "漢\ud800"]
    store = FeatureStore(tmp_path / "s")
    number = store.space(Space("model", "faces", {}, {}))
    keys = [bytes([at] * 16) for at in range(3)]
    store.put(number, keys, columns)
    store.close()
    store = FeatureStore(tmp_path / "s")
    rows, found = store.get(store.space(Space("model", "faces", {}, {})), keys)
    assert [found["text"][rows[key]] for key in keys] == ["a", "", "漢\ud800"]
    assert found["boxes"][rows[keys[1]]].shape == (0, 4)
    store.close()


def test_a_batch_that_does_not_fit_is_halved_and_said(tmp_path: Path) -> None:
    class Small(Spy):
        batch = 8

        def match(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, str]], head: str = "itm") -> Made:
            if len(pairs) > 3:
                raise RuntimeError("CUDA out of memory")
            return super().match(visuals, pairs, head)

    register_model("spy", Small())
    folder = frames_folder(tmp_path / "pictures", 8)
    rows = [{"output": str(folder / f"{at}.png"), "prompt": "a"} for at in range(8)]
    run = beholder.evaluate(rows, metrics=Matched(), out=str(tmp_path / "out"), store=str(tmp_path / "store"))
    assert run.scores.column("matched_status").to_pylist() == ["ok"] * 8
    assert any("did not fit into memory" in notice for notice in run.notices)
    with pytest.raises(DeviceError, match="batch of 8"):
        beholder.evaluate(rows, metrics=Matched(), out=str(tmp_path / "b"), store=str(tmp_path / "c"), batch_size=8)


def test_halving_keeps_every_item() -> None:
    done: dict[bytes, float] = {}
    sizes: list[int] = []

    def encode(batch: Sequence[Any]) -> Any:
        if len(batch) > 2:
            raise RuntimeError("out of memory")
        sizes.append(len(batch))
        return Made({"x": np.array(batch, dtype=float)})

    size = BatchSize(8)
    keys = [bytes([at]) for at in range(7)]
    encode_batch(keys, list(range(7)), encode, size, lambda k, c: done.update(zip(k, c["x"], strict=True)), {})
    assert done == {key: at for at, key in enumerate(keys)}
    assert (size.size, sizes) == (2, [2, 2, 2, 2])


def _picture(path: str) -> Picture:
    from beholder.media.base import DecodeOptions
    from beholder.media.sources import as_medium

    return as_medium(path).decode(DecodeOptions())
