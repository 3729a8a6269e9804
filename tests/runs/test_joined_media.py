"""Media that a model takes together, metrics that look at the data set first, and further aggregates of a metric."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image

import beholder
from beholder.backends.base import Made
from beholder.backends.fake_models import FakeModel
from beholder.backends.pool import register_model
from beholder.media.base import Picture
from beholder.metrics.base import FeatureBatch, Joined, Pair, SampleMetric, ScoreColumns, Selection, Slot
from beholder.records import MetricInfo, Status

INFO = MetricInfo(
    name="joined", family="test", kind="sample", summary="Two media.", inputs=("output", "masks"), formula="sum",
    unit="value", range=(None, None), higher_is_better=True, degenerate="none", paper=None, reference_code=None,
    version="1",
)  # fmt: skip


class Adder:
    """A matcher whose value is the first pixel of the first picture plus ten times that of the second."""

    batch, pair_batch, takes_video = 4, 16, False
    constants: ClassVar[Mapping[str, float]] = {}

    def __init__(self) -> None:
        self.model = dataclasses.replace(FakeModel("Matcher", "adder").model, id="adder", asked="adder")
        self.prepared: list[int] = []
        register_model("adder", self)

    def prepare(self, pictures: Sequence[Picture]) -> float:
        self.prepared.append(len(pictures))
        first, *rest = (float(picture.pixels[0, 0, 0]) for picture in pictures)
        return first + sum(10 * value for value in rest)

    def match(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, str]], **settings: Any) -> Made:
        values = [visuals[at] + len(text) for at, text in pairs]
        return Made({"logit": np.array(values, dtype=np.float32)})

    def close(self) -> None:
        pass


class JoinedMetric(SampleMetric):
    """The matcher's value of the output and its mask together, of the output alone where it has none."""

    info = INFO
    slots = (Slot("pair", "adder", "match"),)

    def select(self, sample: Any) -> Selection:
        visual = sample.output if sample.masks is None else Joined((sample.output, sample.masks))
        return {"pair": Pair(visual, "abc")}

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        return ScoreColumns(batch.one("pair", "logit").astype(float))


def shade(path: Path, value: int) -> str:
    Image.new("RGB", (4, 4), (value, 0, 0)).save(path)
    return str(path)


def run_of(tmp_path: Path, rows: list[dict[str, Any]], metric: SampleMetric, out: str = "out", **more: Any) -> Any:
    return beholder.evaluate(rows, metrics=metric, out=str(tmp_path / out), store=str(tmp_path / "store"), **more)


def test_joined_media_come_together_and_have_a_key_of_their_own(tmp_path: Path) -> None:
    model = Adder()
    one, two, other = (shade(tmp_path / f"{value}.png", value) for value in (1, 2, 7))
    rows = [
        {"id": "alone", "output": one},
        {"id": "joined", "output": one, "masks": two},
        {"id": "turned", "output": two, "masks": one},
        {"id": "other", "output": one, "masks": other},
        {"id": "again", "output": one, "masks": two},
        {"id": "gone", "output": one, "masks": str(tmp_path / "no.png")},
    ]
    run = run_of(tmp_path, rows, JoinedMetric(), max_failed=1.0)
    assert run.scores.column("joined").to_pylist() == [4.0, 24.0, 15.0, 74.0, 24.0, None]
    assert run.scores.column("joined_status").to_pylist()[-1] == "missing"
    assert sorted(model.prepared) == [1, 2, 2, 2]  # equal content is looked at once
    run_of(tmp_path, rows, JoinedMetric(), out="again", max_failed=1.0)
    assert len(model.prepared) == 4


def test_a_video_cannot_be_joined(tmp_path: Path) -> None:
    Adder()
    frames = [Image.new("RGB", (4, 4), (at, 0, 0)) for at in range(3)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    row = {"output": shade(tmp_path / "1.png", 1), "masks": str(tmp_path / "a.gif")}
    run = run_of(tmp_path, [row], JoinedMetric())
    assert run.scores.column("joined_status").to_pylist() == ["not_applicable"]
    assert "must be still pictures" in run.scores.column("joined_reason").to_pylist()[0]


class Counts(JoinedMetric):
    """The joined value over the number of rows of the data set; rows above a limit also count as 1 in `share`."""

    info = dataclasses.replace(INFO, name="counts")
    looks_ahead = True
    other_aggregates = ("share", "kept")
    other_missing = Status.ALL_FILTERED
    rows = 1

    def fitted(self, samples: Iterable[Any]) -> SampleMetric:
        made = Counts()
        made.rows = sum(1 for _ in samples)
        return made

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        values = super().score(batch).values / self.rows
        return ScoreColumns(values, {}, {at: {"big": bool(value > 3)} for at, value in enumerate(values)})

    def other_values(
        self, value: float | None, status: Status, evidence: Mapping[str, Any]
    ) -> Mapping[str, float | None]:
        if not evidence:
            return {}
        return {"share": float(evidence["big"]), "kept": value if evidence["big"] else None}


def test_metrics_may_look_at_the_data_set_and_have_further_aggregates(tmp_path: Path) -> None:
    Adder()
    rows = [{"id": str(at), "output": shade(tmp_path / f"{at}.png", 3 * at), "method": "ab"[at % 2]} for at in range(4)]
    rows.append({"id": "gone", "output": str(tmp_path / "no.png"), "method": "a"})
    run = run_of(tmp_path, rows, Counts(), max_failed=1.0)
    values = [(3 * at + 3) / 5 for at in range(4)]
    assert run.scores.column("counts").to_pylist() == pytest.approx([*values, None])
    assert [item.aggregate for item in run.summary if not item.group] == ["micro", "share", "kept"]
    found = {(item.aggregate, item.group.get("method")): item for item in run.summary}
    assert found["share", None].value == 0.0
    assert found["share", None].n == 4
    assert found["share", None].n_missing == {"missing": 1}
    assert found["kept", None].value is None
    assert found["kept", None].n_missing == {"missing": 1, "all_filtered": 4}
    assert not found["share", None].headline
    few = run_of(tmp_path, rows[2:4], Counts(), out="few", max_failed=1.0)
    found = {(item.aggregate, item.group.get("method")): item for item in few.summary}
    assert found["share", None].value == 1.0
    assert found["kept", "a"].value == pytest.approx(9 / 2)
    assert found["kept", "b"].value == pytest.approx(12 / 2)
    # A source that can be read only once is not looked at.
    once = run_of(tmp_path, (row for row in rows[2:4]), Counts(), out="once")  # type: ignore[arg-type]
    assert once.scores.column("counts").to_pylist() == pytest.approx([9.0, 12.0])


def test_single_pictures_with_masks_and_phrases() -> None:
    pixels = np.full((20, 20, 3), 255, np.uint8)
    pixels[5:15, 5:15] = (220, 50, 47)
    mask = (pixels[..., 1] == 50).astype(np.uint8)
    given = beholder.score("clip_i_seg", images=pixels, references=[pixels], masks=[mask], model="fake")
    found = beholder.score(
        "clip_i_seg(segmenter=color)", images=pixels, references=[pixels], seg_prompt="red square", model="fake"
    )
    assert float(given) == float(found)
    with pytest.raises(beholder.UserError, match="one mask for each image"):
        beholder.score("clip_i_seg", images=[pixels, pixels], references=[pixels], masks=[mask], model="fake")
