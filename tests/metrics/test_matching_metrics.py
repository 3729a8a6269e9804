"""itm_score and image_reward: formulas, options, frames, and whole runs on tiny models in real formats."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.models_blip import make_tiny_blip2, make_tiny_reward

import beholder
from beholder._errors import OptionError
from beholder.functional import match_probability
from beholder.manifest.schema import Sample
from beholder.metrics.base import FeatureBatch, Pair, Ragged
from beholder.metrics.matching import ImageReward, ItmScore
from beholder.records import Status

LOGITS = np.array([0.0, math.log(3), -2.0, 12.0], np.float32)


def batch(logits: np.ndarray, offsets: list[int] | None = None) -> FeatureBatch:
    columns = {
        "logit": logits,
        "n_tokens": np.arange(30, 30 + len(logits), dtype=np.int32),
        "truncated": np.arange(30, 30 + len(logits)) > 32,
    }
    if offsets is None:
        return FeatureBatch({"pair": columns}, {}, len(logits))
    return FeatureBatch({"pair": Ragged(columns, np.asarray(offsets))}, {}, len(offsets) - 1)


def test_the_probability_is_the_softmax_of_two_logits() -> None:
    for low, high in ((0.0, 0.0), (-1.5, 2.0), (30.0, -30.0), (5.0, 800.0)):
        top = max(low, high)
        expected = math.exp(high - top) / (math.exp(low - top) + math.exp(high - top))
        assert match_probability([high - low])[0] == pytest.approx(expected, rel=1e-14)
    values = match_probability(np.array([-1e4, -40, 40, 1e4]))
    assert values.tolist() == [0.0, pytest.approx(math.exp(-40), rel=1e-12), 1.0, 1.0]
    assert match_probability(np.float32([])).dtype == np.float64
    assert np.isnan(match_probability([np.nan])[0])


def test_values_by_output() -> None:
    np.testing.assert_allclose(ItmScore().score(batch(LOGITS)).values[:2], [0.5, 0.75], atol=1e-7)
    found = ItmScore({"output": "logit"}).score(batch(LOGITS))
    np.testing.assert_array_equal(found.values, LOGITS.astype(float))
    assert found.evidence == {3: {"truncated": True, "n_tokens": 33}}
    reward = ImageReward().score(batch(LOGITS))
    np.testing.assert_array_equal(reward.values, LOGITS.astype(float))
    assert reward.values[2] == -2.0  # negative, not clipped
    assert not reward.statuses


def test_a_number_that_is_not_finite_is_a_fault() -> None:
    for metric in (ItmScore(), ItmScore({"output": "logit"}), ImageReward()):
        found = metric.score(batch(np.array([1.0, np.nan], np.float32)))
        assert [status for status, _ in found.statuses.values()] == [Status.FAILED]


@pytest.mark.parametrize(
    ("how", "expected"), [("mean", (0.625, 0.5)), ("max", (0.75, 0.75)), ("min", (0.5, 0.25)), ("median", (0.625, 0.5))]
)
def test_frames_are_scored_each_and_then_reduced(how: str, expected: tuple[float, float]) -> None:
    # Sample 0 has the frames 1/2 and 3/4, sample 1 has 3/4, 1/2 and 1/4: probabilities are averaged, not logits.
    logits = np.array([0, math.log(3), math.log(3), 0, -math.log(3)], np.float32)
    found = ItmScore({"over_frames": how}).score(batch(logits, [0, 2, 5]))
    np.testing.assert_allclose(found.values, expected, atol=1e-6)
    assert found.evidence == {}


def test_the_reward_model_as_a_matcher_is_the_same_value_in_its_own_unit() -> None:
    for name in ("image-reward-v1", "image_reward:./folder"):
        made = ItmScore({"model": name})
        assert made.unit == ImageReward().unit == "standardised reward"
        assert made.value_range == (None, None)
        np.testing.assert_array_equal(made.score(batch(LOGITS)).values, ImageReward().score(batch(LOGITS)).values)
        with pytest.raises(OptionError, match="no logit of a probability"):
            ItmScore({"model": name, "output": "logit"})
    assert ItmScore().unit == "probability"
    assert ItmScore({"output": "logit"}).unit == "logit"


def test_what_is_selected() -> None:
    from beholder.media.sources import as_medium

    medium = as_medium("x.png")
    sample = Sample(id="1", output=medium, prompt="a cat", task="reconstruction", extras={"caption": "a dog"})
    assert ItmScore().select(sample) == {"pair": Pair(medium, "a cat")}
    assert ItmScore({"text": "caption"}).select(sample) == {"pair": Pair(medium, "a dog")}
    for metric, prompt, status in ((ImageReward(), "a cat", "not_applicable"), (ItmScore(), " ", "empty_prompt")):
        with pytest.raises(Exception, match=status):
            metric.select(Sample(id="1", output=medium, prompt=prompt, task="reconstruction"))


def test_a_general_model_option_leaves_them_alone() -> None:
    assert ItmScore(default_model="openai:ViT-B-32").options["model"] == "blip2-itm"
    assert ImageReward(default_model="openai:ViT-B-32").options["model"] == "image-reward-v1"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("matching")
    return {"blip2": make_tiny_blip2(base / "blip2"), "reward": make_tiny_reward(base / "reward")}


@pytest.fixture
def media(tmp_path: Path) -> list[Path]:
    generator = np.random.default_rng(0)
    pictures = [Image.fromarray(generator.integers(0, 256, (40, 50, 3), dtype=np.uint8)) for _ in range(3)]
    for number, picture in enumerate(pictures):
        picture.save(tmp_path / f"{number}.png")
    (tmp_path / "clip").mkdir()
    for number in (0, 1, 2):
        pictures[number].save(tmp_path / "clip" / f"{number}.png")
    return [*(tmp_path / f"{number}.png" for number in range(3)), tmp_path / "clip"]


def test_a_whole_run_equals_the_models_own_numbers(folders: dict[str, Path], media: list[Path], tmp_path: Path) -> None:
    from beholder.backends.pool import load_model, resolve_model
    from beholder.media.base import DecodeOptions
    from beholder.media.sources import as_medium
    from beholder.metrics.clip import ClipScore

    blip2, reward = str(folders["blip2"]), f"image_reward:{folders['reward']}"
    prompts = ["a photo of a cat", "the red car", "a dog on the wet street", "a cat"]
    rows = [{"id": str(i), "output": str(path), "prompt": text} for i, (path, text) in enumerate(zip(media, prompts))]
    metrics = {
        "probability": ItmScore({"model": blip2}),
        "logit": ItmScore({"model": blip2, "output": "logit"}),
        "cosine": ClipScore({"model": blip2}).on_pairs(),
        "reward": ImageReward({"model": reward}),
        "matcher": ItmScore({"model": reward}),
    }
    run = beholder.evaluate(
        rows, metrics=list(metrics.values()), out=str(tmp_path / "run"), device="cpu", store=str(tmp_path / "s")
    )
    table = run.scores.to_pylist()
    labels = [name.removesuffix("_status") for name in run.scores.column_names if name.endswith("_status")]

    def own(name: str, head: str, column: str) -> np.ndarray:
        matcher = load_model(resolve_model(name, capability="Matcher"), device="cpu")
        seen = [matcher.prepare([as_medium(str(path)).decode(DecodeOptions())]) for path in media[:3]]
        pairs = [(i, prompts[i]) for i in range(3)] + [(i, prompts[3]) for i in range(3)]
        return np.asarray(matcher.match(seen, pairs, head=head).columns[column], dtype=np.float64)

    logits = own(blip2, "itm", "logit")
    cosines, rewards = own(blip2, "itc", "cosine"), own(reward, "itm", "logit")
    values = (1 / (1 + np.exp(-logits)), logits, cosines, rewards, rewards)
    for label, each in zip(labels, values, strict=True):
        assert [row[f"{label}_status"] for row in table] == ["ok"] * 4, table
        # The clip's frames are the three pictures; eight of three are frames 0 0 0 0 1 1 1 2: floor(2 i / 7).
        expected = [*each[:3], each[3:] @ np.array([4, 3, 1]) / 8]
        np.testing.assert_allclose([row[label] for row in table], expected, rtol=1e-5, atol=1e-5)
