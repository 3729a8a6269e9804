from __future__ import annotations

import numpy as np
import pytest

from beholder._identity import parse_spec
from beholder.metrics.base import (
    FeatureBatch,
    SampleMetric,
    ScoreColumns,
    Selection,
    Slot,
    make_metric,
)
from beholder.metrics.clip import ClipT
from beholder.metrics.options import plain_model_name
from beholder.metrics.outcome import make_scores, truncation_evidence
from beholder.records import Status


def test_a_value_out_of_range_is_a_fault_and_is_not_clipped() -> None:
    found = make_scores(np.array([1.0, 1.0 + 5e-7, 1.1, -1.2, 0.0]), degenerate={}, within=(-1.0, 1.0))
    assert set(found.statuses) == {2, 3}
    assert found.statuses[2] == (Status.FAILED, "the value 1.1 lies outside the declared range from -1 to 1")
    assert found.values.tolist() == [1.0, 1.0 + 5e-7, 1.1, -1.2, 0.0]


def test_open_ranges() -> None:
    found = make_scores(np.array([-1e9, 1e9]), degenerate={}, within=(0.0, None))
    assert set(found.statuses) == {0}
    assert "from 0 to no limit" in found.statuses[0][1]
    assert not make_scores(np.array([-1e9, 1e9]), degenerate={}, within=(None, None)).statuses


def test_a_value_that_is_no_number_is_a_fault() -> None:
    found = make_scores(np.array([np.nan, np.inf, 0.5]), degenerate={}, within=(None, None))
    assert {row: reason for row, (_, reason) in found.statuses.items()} == {
        0: "the value is not a finite number",
        1: "the value is not a finite number",
    }


def test_given_statuses_and_degenerate_rows_come_before_range() -> None:
    flags = np.array([False, True, True])
    found = make_scores(
        np.array([9.0, 9.0, 9.0]),
        degenerate={"text": flags},
        within=(0, 1),
        statuses={2: (Status.NO_REFERENCE, "none")},
    )
    assert [found.statuses[row][0].value for row in range(3)] == ["failed", "degenerate_embedding", "no_reference"]


def test_truncation_without_columns() -> None:
    assert truncation_evidence({"embedding": np.zeros((2, 3))}) == {}
    assert truncation_evidence({"truncated": np.array([False, True])}) == {1: {"truncated": True}}


def test_an_out_of_range_cosine_reaches_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    import beholder.metrics.frames as module
    from beholder.functional import Scores

    monkeypatch.setattr(module, "cosine", lambda a, b: Scores(np.array([1.01]), np.array([False])))
    one = {"embedding": np.ones((1, 2), np.float32)}
    found = ClipT().score(FeatureBatch({"image": one, "text": one}, {}, 1))
    assert found.statuses[0][0] == Status.FAILED


def test_model_spellings() -> None:
    for name, plain in {
        "openai:ViT-L/14": "openai:ViT-L-14",
        "openai:ViT-L/14@336px": "openai:ViT-L-14@336px",
        "laion2b_s32b_b79k:ViT-bigG/14": "laion2b_s32b_b79k:ViT-bigG-14",
        "open_clip:ViT-L/14/openai": "open_clip:ViT-L-14/openai",
        "hf:openai/clip-vit-large-patch14": "hf:openai/clip-vit-large-patch14",
        "/models/ViT-L/14": "/models/ViT-L/14",
    }.items():
        assert plain_model_name(name) == plain


def test_a_users_own_metric_needs_only_slots_select_and_score() -> None:
    class Own(SampleMetric):
        info = ClipT.info
        slots: tuple[Slot, ...] = ()

        def select(self, sample: object) -> Selection:
            return {}

        def score(self, batch: FeatureBatch) -> ScoreColumns:
            return ScoreColumns(np.zeros(batch.n))

    own = Own()
    assert own.dependent_defaults({}) == {}
    assert own.group_key(None) is None  # type: ignore[arg-type]
    assert own.weight(None) is None  # type: ignore[arg-type]
    assert own.value_range == (-1.0, 1.0)
    assert own.finish_aggregate(0.25) == 0.25
    assert own.score_groups(np.ones(2), []).values.tolist() == [1, 1]
    assert own.describe() == {}
    assert own.scored_text(None) is None  # type: ignore[arg-type]
    assert repr(own) == "clip_t"
    assert len({own, make_metric(parse_spec("clip_t"))}) == 1
