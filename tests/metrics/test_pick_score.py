from __future__ import annotations

import math

import numpy as np
import pytest

from beholder._errors import ModelError
from beholder.manifest.schema import Sample
from beholder.metrics.base import FeatureBatch
from beholder.metrics.preference import PickScore
from beholder.records import Status

SCALE = math.exp(4.6052)


def batch(*cosines: float, constants: dict[str, float] | None = None) -> FeatureBatch:
    image = np.array([[c, np.sqrt(1 - c * c)] for c in cosines], np.float32)
    text = {"embedding": np.tile(np.array([7, 0], np.float32), (len(cosines), 1))}
    known = {"logit_scale": SCALE} if constants is None else constants
    return FeatureBatch({"image": {"embedding": image}, "text": text}, {"image": known, "text": known}, len(cosines))


def sample(prompt: str, task: str | None = None) -> Sample:
    return Sample(id="1", output=None, prompt=prompt, task=task)


def test_the_score_is_the_checkpoints_scale_times_the_cosine() -> None:
    found = PickScore().score(batch(0.2, -0.5, 1.0))
    np.testing.assert_allclose(found.values, [0.2 * SCALE, -0.5 * SCALE, SCALE], rtol=1e-6)
    assert not found.statuses


def test_a_model_without_a_scale_is_refused() -> None:
    with pytest.raises(ModelError, match=r"logit scale.*pickscore-v1"):
        PickScore().score(batch(0.2, constants={}))


def test_only_the_probability_is_grouped() -> None:
    assert PickScore().group_key(sample("a dog")) is None
    made = PickScore({"output": "probability"})
    assert made.group_key(sample("a dog")) == "a dog"
    assert made.group_key(sample("a cat")) != made.group_key(sample("a dog"))
    assert made.value_range == (0.0, 1.0)
    assert PickScore().value_range == (None, None)


def test_probabilities_of_the_candidates_of_each_prompt() -> None:
    # Rows 0, 3: odds 3 to 1; rows 1, 4, 5: thirds; row 2: alone; row 6: not scored.
    scores = np.array([20 + math.log(3), 18.0, 21.0, 20.0, 18.0, 18.0, np.nan])
    found = PickScore({"output": "probability"}).score_groups(
        scores, [np.array([0, 3]), np.array([2]), np.array([1, 4, 5])]
    )
    np.testing.assert_allclose(found.values[[0, 3, 1, 4, 5]], [0.75, 0.25, 1 / 3, 1 / 3, 1 / 3], rtol=1e-12)
    assert set(found.statuses) == {2}
    status, reason = found.statuses[2]
    assert status == Status.NOT_APPLICABLE
    assert "two or more candidates" in reason


def test_no_groups_at_all() -> None:
    made = PickScore({"output": "probability"})
    assert made.score_groups(np.empty(0), []).values.shape == (0,)
    only_single = made.score_groups(np.array([1.0, 2.0]), [np.array([0]), np.array([1])])
    assert set(only_single.statuses) == {0, 1}


def test_scores_stay_scores_without_the_option() -> None:
    scores = np.array([1.0, 2.0])
    assert PickScore().score_groups(scores, [np.array([0, 1])]).values.tolist() == [1.0, 2.0]
