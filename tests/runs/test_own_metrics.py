"""Metrics that users hand over as objects: they work like the built-in ones, and what they raise costs rows only."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runs.helpers import counting, write_set

import beholder
from beholder._errors import IdentityError, OptionError, UnknownNameError
from beholder.metrics.base import FeatureBatch, ScoreColumns, Slot
from beholder.metrics.clip import ClipT

INFO = dataclasses.replace(ClipT.info, name="width", range=(None, None), options=())


class Width(beholder.SampleMetric):
    """The first number of an embedding; `work` replaces the scoring, `choose` the selection."""

    info = INFO
    slots = (Slot("image", "counting", "image_embedding"), Slot("real", "counting", "image_embedding", many=True))

    def __init__(
        self, work: Callable[[FeatureBatch], Any] | None = None, choose: Callable[[Any], Any] | None = None
    ) -> None:
        super().__init__()
        self.work, self.choose = work, choose

    def select(self, sample: Any) -> Any:
        return self.choose(sample) if self.choose else {"image": sample.output, "real": sample.references}

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        result: Any = self.work(batch) if self.work else ScoreColumns(np.arange(batch.n, dtype=np.float64))
        return result


class Halved(Width):
    info = dataclasses.replace(INFO, name="halved")

    def finish_aggregate(self, mean: float) -> float:
        return mean / 2


def run(tmp_path: Path, *metrics: Any, count: int = 6, **changes: Any) -> beholder.Run:
    counting()
    return beholder.evaluate(
        str(write_set(tmp_path, count, **changes)),
        metrics=metrics,
        out=str(tmp_path / "out"),
        store=str(tmp_path / "s"),
    )


def test_an_object_is_scored_summarised_and_opened_again(tmp_path: Path) -> None:
    found = run(tmp_path, Width())
    assert found.scores.column("width").to_pylist() == [0, 1, 2, 3, 4, 5]
    for opened in (found, beholder.open_run_folder(found.path)):
        micro = next(row for row in opened.summary if row.aggregate == "micro" and not row.group)
        assert micro.value == 2.5
        assert {"seed": 0} in [row.group for row in opened.summarise("seed")]


def test_what_an_object_does_to_aggregates_is_done_or_missed(tmp_path: Path) -> None:
    found = run(tmp_path, Halved())
    assert {row.value for row in found.summarise("seed") if row.aggregate == "micro" and not row.group} == {1.25}
    with pytest.raises(UnknownNameError, match="halved"):
        beholder.open_run_folder(found.path).summarise("seed")
    assert beholder.open_run_folder(found.path).summary == found.summary


def test_an_object_needs_a_name_of_its_own_that_reads_back(tmp_path: Path) -> None:
    class Other(Width):
        info = dataclasses.replace(INFO, name="clip_t")

    class Odd(Width):
        info = dataclasses.replace(INFO, name="two words")

    with pytest.raises(OptionError, match="name of another metric"):
        run(tmp_path, Other())
    with pytest.raises(IdentityError):
        run(tmp_path, Odd())


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (lambda batch: 1 / 0, "the metric raised ZeroDivisionError: division by zero"),
        (lambda batch: None, "the metric raised TypeError: score must give ScoreColumns, got NoneType"),
        (lambda batch: batch.one("image")[:, 0], "score must give ScoreColumns, got ndarray"),
        (lambda batch: ScoreColumns(np.zeros(99)), r"one value for each of 1 rows, got shape \(99,\)"),
        (lambda batch: ScoreColumns(np.zeros((batch.n, 2))), r"got shape \(1, 2\)"),
        (lambda batch: ScoreColumns(np.zeros(batch.n), {77: ("failed", "x")}), "rows 0 to 0, got row 77"),  # type: ignore[dict-item]
        (lambda batch: ScoreColumns(np.zeros(batch.n), {0: ("odd", "x")}), "'odd' is not a valid Status"),  # type: ignore[dict-item]
        (lambda batch: ScoreColumns(np.full(batch.n, np.nan)), "not a finite number"),
        (lambda batch: ScoreColumns(np.full(batch.n, -1e300)), "beyond ±1e"),
        (lambda batch: ScoreColumns(np.zeros(batch.n), {}, {0: {"x": float("nan")}}), "not JSON compliant"),
    ],
)
def test_a_metric_that_breaks_its_contract_fails_its_rows(tmp_path: Path, work: Any, reason: str) -> None:
    found = run(tmp_path, Width(work), "clip_i(model=counting)", count=2)
    table = found.scores
    first = table.column("width_status").to_pylist()[0]
    assert first == "failed"
    import re

    assert re.search(reason, table.column("width_reason").to_pylist()[0])
    assert table.column("width").to_pylist()[0] is None
    assert table.column("clip_i_status").to_pylist() == ["ok", "ok"]
    assert found.exit_code == 3


@pytest.mark.parametrize(
    "choose",
    [
        lambda sample: 1 / 0,
        lambda sample: None,
        lambda sample: {"picture": sample.output},
        lambda sample: {"image": [sample.output], "real": sample.references},
        lambda sample: {"image": sample.output, "real": sample.output},
        lambda sample: {"image": 5, "real": sample.references},
        lambda sample: {"image": "a text", "real": sample.references},
    ],
)
def test_a_selection_that_is_none_fails_its_rows(tmp_path: Path, choose: Any) -> None:
    found = run(tmp_path, Width(None, choose), "clip_i(model=counting)", count=2)
    assert found.scores.column("width_status").to_pylist() == ["failed", "failed"]
    assert all(found.scores.column("width_reason").to_pylist())
    assert found.scores.column("clip_i_status").to_pylist() == ["ok", "ok"]


def test_a_row_that_breaks_a_metric_costs_itself_alone(tmp_path: Path) -> None:
    def work(batch: FeatureBatch) -> ScoreColumns:
        real = batch.many("real")
        if (np.diff(real.offsets) == 1).any():
            raise ArithmeticError("one reference only")
        return ScoreColumns(real.columns["embedding"][real.offsets[:-1], 0], {}, {0: {"n": batch.n}})

    broken = run(tmp_path, Width(work), r2={"references": ["img/ref0_0.png"]}).scores.to_pylist()
    assert [row["width_status"] for row in broken] == ["ok", "ok", "failed", "ok", "ok", "ok"]
    assert broken[2]["width_reason"] == "the metric raised ArithmeticError: one reference only"
    assert json.loads(broken[5]["width_evidence"]) == {"n": 1}
    encoder = counting()
    from tests.runs.test_engine import image_vector

    for row in (0, 1, 3, 4, 5):
        expected = image_vector(encoder, tmp_path / broken[row]["references"][0])[0]
        # One picture alone and one in a batch: other float32 kernels, other last bits.
        assert broken[row]["width"] == pytest.approx(expected, abs=1e-5)


def test_an_object_scores_single_files(tmp_path: Path) -> None:
    counting()
    write_set(tmp_path, 1)
    image = str(tmp_path / "img" / "0.png")
    table = beholder.score(Width(), images=[image], references=[image])
    assert (table.metric, table.rows[0].score.value) == ("width", 0.0)
