from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from beholder._errors import NoValue, OptionError, UnknownNameError
from beholder._identity import parse_spec
from beholder.manifest.schema import Sample
from beholder.metrics.base import FeatureBatch, Ragged, SampleMetric, ScoreColumns, make_metric
from beholder.records import Status


@dataclass(frozen=True)
class Named:
    """A medium that is never opened."""

    name: str

    def fingerprint(self) -> str:
        raise AssertionError("select must not touch files")

    def decode(self, options: object) -> object:
        raise AssertionError("select must not touch files")


OUT = Named("out.png")


def sample(**columns: object) -> Sample:
    return Sample(**{"id": "1", "output": OUT, "prompt": "a dog", **columns})  # type: ignore[arg-type]


def metric(text: str, *, model: str | None = None) -> SampleMetric:
    return make_metric(parse_spec(text), default_model=model)


def no_value(made: SampleMetric, row: Sample) -> tuple[str, str]:
    with pytest.raises(NoValue) as found:
        made.select(row)
    return found.value.status, found.value.reason


def unit(*cosines: float) -> np.ndarray:
    """Vectors whose cosine with (1, 0) is given."""
    return np.array([[c, np.sqrt(1 - c * c)] for c in cosines], np.float32).reshape(-1, 2)


def batch(
    cosines: Sequence[float], *, truncated: Sequence[bool] = (), references: Ragged | None = None
) -> FeatureBatch:
    n = len(cosines)
    text = {
        "embedding": np.tile(np.array([1, 0], np.float32), (n, 1)),
        "n_tokens": np.arange(70, 70 + n, dtype=np.int32),
        "truncated": np.array(truncated or [False] * n, dtype=bool),
    }
    slots: dict[str, object] = {"image": {"embedding": unit(*cosines)}, "text": text}
    if references is not None:
        slots["references"] = references
    return FeatureBatch(slots, {}, n)  # type: ignore[arg-type]


def ragged(*lists: Sequence[float]) -> Ragged:
    flat = [c for items in lists for c in items]
    offsets = np.cumsum([0, *(len(items) for items in lists)])
    return Ragged({"embedding": unit(*flat)}, offsets)


def values(found: ScoreColumns) -> list[float]:
    assert not found.statuses
    return [round(v, 6) for v in found.values.tolist()]


# identity and options


@pytest.mark.parametrize(
    ("asked", "printed"),
    [
        ("clip_score", "clip_score"),
        ("clip_score(model=openai:ViT-L-14)", "clip_score"),
        ("clip_score(model=openai:ViT-L/14)", "clip_score"),
        ("clip_score(model=laion2b_s32b_b82k:ViT-L/14)", "clip_score(model=laion2b_s32b_b82k:ViT-L-14)"),
        ("clip_score(model=hf:openai/clip-vit-base-patch32)", "clip_score(model=hf:openai/clip-vit-base-patch32)"),
        ('clip_score(prefix="")', "clip_score"),
        ("clip_score(variant=raw, text=prompt)", "clip_score"),
        ("clip_score(variant=hessel)", "clip_score(variant=hessel)"),
        ("clip_score(variant=hessel, model=openai:ViT-B-32)", "clip_score(variant=hessel)"),
        ("clip_score(variant=hessel, model=openai:ViT-L-14)", "clip_score(model=openai:ViT-L-14, variant=hessel)"),
        ('clip_score(variant=hessel, prefix="")', 'clip_score(prefix="", variant=hessel)'),
        ('clip_score(variant=hessel, prefix="A photo depicts ")', "clip_score(variant=hessel)"),
        ('clip_score(prefix="A photo depicts ")', 'clip_score(prefix="A photo depicts ")'),
        ("clip_t(model=openai:ViT-L-14)", "clip_t"),
        ("clip_i(pairing=all, reduce=mean)", "clip_i"),
        ("clip_i,reduce=max", "clip_i(reduce=max)"),
        ("pick_score(model=pickscore-v1, output=score)", "pick_score"),
        ("pick_score(output=probability)", "pick_score(output=probability)"),
    ],
)
def test_only_what_differs_from_the_resolved_defaults_is_printed(asked: str, printed: str) -> None:
    made = metric(asked)
    assert made.identity == printed
    assert metric(printed) == made
    assert metric(printed).options == made.options


@pytest.mark.parametrize(
    ("asked", "model"),
    [
        ("clip_score", "openai:ViT-L-14"),
        ("clip_score(variant=x100)", "openai:ViT-L-14"),
        ("clip_score(variant=torchmetrics)", "openai:ViT-L-14"),
        ("clip_score(variant=hessel)", "openai:ViT-B-32"),
        ("clip_score(variant=ref_hessel)", "openai:ViT-B-32"),
        ("clip_t", "openai:ViT-L-14"),
        ("clip_i", "openai:ViT-L-14"),
        ("pick_score", "pickscore-v1"),
    ],
)
def test_default_models(asked: str, model: str) -> None:
    assert {slot.model for slot in metric(asked).slots} == {model}


def test_one_encoder_serves_the_three_default_clip_metrics() -> None:
    slots = {(s.model, s.feature, s.params) for name in ("clip_score", "clip_t", "clip_i") for s in metric(name).slots}
    assert slots == {("openai:ViT-L-14", "image_embedding", ()), ("openai:ViT-L-14", "text_embedding", ())}


def test_the_run_model_goes_to_metrics_that_name_none() -> None:
    assert metric("clip_score", model="demo:emoji").identity == "clip_score(model=demo:emoji)"
    assert metric("clip_i(model=openai:ViT-B-32)", model="demo:emoji").identity == "clip_i(model=openai:ViT-B-32)"
    assert metric("clip_score(model=openai:ViT-L-14)", model="demo:emoji").identity == "clip_score"
    assert metric("pick_score", model="demo:emoji").identity == "pick_score"
    assert not metric("pick_score").takes_model()


def test_none_stands_for_the_default() -> None:
    from beholder.metrics.clip import ClipScore

    assert ClipScore({"model": None, "prefix": None}) == ClipScore()
    assert ClipScore({"model": None}, default_model="demo:emoji").options["model"] == "demo:emoji"


def test_wrong_options_say_what_is_allowed() -> None:
    with pytest.raises(OptionError, match="raw, x100, hessel, ref_hessel, torchmetrics"):
        metric("clip_score(variant=best)")
    with pytest.raises(UnknownNameError, match="Did you mean variant"):
        metric("clip_score(varient=raw)")
    with pytest.raises(UnknownNameError, match="'reduce'"):
        metric("clip_t(reduce=max)")


# what is scored


def test_the_prefix_of_hessel_and_no_prefix_else() -> None:
    assert metric("clip_score(variant=hessel)").select(sample())["text"] == "A photo depicts a dog"
    assert metric("clip_score(variant=hessel)").scored_text(sample()) == "A photo depicts a dog"
    assert metric('clip_score(variant=hessel, prefix="")').select(sample())["text"] == "a dog"
    assert metric("clip_score").select(sample(prompt=" a {text} dog "))["text"] == " a {text} dog "
    assert metric("clip_score").describe()["template"] == "{text}"
    assert metric("clip_score(variant=hessel)").describe()["template"] == "A photo depicts {text}"


def test_the_text_column_can_be_chosen() -> None:
    row = sample(eval_prompt="a cat", extras={"caption": "a bird", "number": 3})
    assert metric("clip_score").scored_text(row) == "a dog"
    assert metric("clip_score(text=eval_prompt)").select(row)["text"] == "a cat"
    assert metric("clip_score(text=caption)").select(row)["text"] == "a bird"
    assert no_value(metric("clip_score(text=nowhere)"), row) == ("empty_prompt", "column 'nowhere' is empty")
    assert no_value(metric("clip_score(text=number)"), row) == ("failed", "column 'number' must hold text, got int")


@pytest.mark.parametrize("blank", [None, "", "   ", "\n\t", "\u200b\u200d", "\u00a0\u3000"])
def test_a_blank_prompt(blank: str | None) -> None:
    for name in ("clip_score", "clip_t", "pick_score", "clip_score(variant=hessel)"):
        assert no_value(metric(name), sample(prompt=blank))[0] == "empty_prompt"
        assert metric(name).scored_text(sample(prompt=blank)) is None


@pytest.mark.parametrize("text", ["一只猫", "🐱🐱", "👩‍🚀", "?", "0"])
def test_other_scripts_and_emoji_are_text(text: str) -> None:
    assert metric("clip_score").select(sample(prompt=text))["text"] == text


def test_a_row_without_output_is_a_fault() -> None:
    for name in ("clip_score", "clip_t", "clip_i", "pick_score"):
        row = sample(output=None, references=(Named("r.png"),))
        assert no_value(metric(name), row) == ("missing", "the row names no output")


def test_clip_t_takes_eval_prompt_where_there_is_one() -> None:
    assert metric("clip_t").scored_text(sample(eval_prompt="a cat")) == "a cat"
    assert metric("clip_t").scored_text(sample(eval_prompt=" ")) == "a dog"
    assert metric("clip_t").scored_text(sample()) == "a dog"


def test_reconstruction_has_no_prompt_fidelity() -> None:
    row = sample(task="reconstruction", references=(Named("r.png"),), output=None, prompt=None)
    for name in ("clip_t", "pick_score", "pick_score(output=probability)"):
        status, reason = no_value(metric(name), row)
        assert status == "not_applicable"
        assert "reconstruction" in reason
        assert metric(name).scored_text(sample(task="reconstruction")) is None
    for name in ("clip_score", "clip_i"):
        metric(name).select(sample(task="reconstruction", references=(Named("r.png"),)))
    metric("clip_t").select(sample(task="generation"))


# clip_score


def test_clip_score_variants() -> None:
    both = batch([0.30, -0.20])
    assert values(metric("clip_score").score(both)) == [0.3, -0.2]
    assert values(metric("clip_score(variant=x100)").score(both)) == pytest.approx([30, -20], abs=1e-5)
    assert values(metric("clip_score(variant=hessel)").score(both)) == pytest.approx([0.75, 0])
    assert values(metric("clip_score(variant=torchmetrics)").score(both)) == pytest.approx([30, -20], abs=1e-5)
    assert metric("clip_score(variant=torchmetrics)").finish_aggregate(-5.0) == 0.0
    assert metric("clip_score(variant=torchmetrics)").finish_aggregate(5.0) == 5.0
    for variant in ("raw", "x100", "hessel", "ref_hessel"):
        assert metric(f"clip_score(variant={variant})").finish_aggregate(-5.0) == -5.0


def test_scale_and_clamp_are_stated() -> None:
    said = {
        v: metric(f"clip_score(variant={v})").describe()
        for v in ("raw", "x100", "hessel", "ref_hessel", "torchmetrics")
    }
    assert {v: (d["scale"], d["clamp"]) for v, d in said.items()} == {
        "raw": (1.0, "none"),
        "x100": (100.0, "none"),
        "hessel": (2.5, "sample_min0"),
        "ref_hessel": (2.5, "sample_min0"),
        "torchmetrics": (100.0, "aggregate_min0"),
    }
    assert said["ref_hessel"]["range"] == [0.0, pytest.approx(10 / 7)]
    assert metric("clip_i").describe()["clamp"] == "none"
    assert metric("pick_score").describe()["scale"] == "exp(logit_scale)"


def test_degenerate_embeddings_cost_their_rows_only() -> None:
    asked = batch([0.3, 0.5, 0.7])
    asked.one("image")[1] = 0.0
    asked.one("text")[2] = np.nan
    for name in ("clip_score", "clip_t", "clip_score(variant=hessel)"):
        found = metric(name).score(asked)
        assert {row: status for row, (status, _) in found.statuses.items()} == {
            1: Status.DEGENERATE_EMBEDDING,
            2: Status.DEGENERATE_EMBEDDING,
        }
        assert "of the image" in found.statuses[1][1]
        assert "of the text" in found.statuses[2][1]
        assert np.isfinite(found.values).all()


def test_truncated_texts_are_flagged() -> None:
    for name in ("clip_score", "clip_t"):
        found = metric(name).score(batch([0.3, 0.5, 0.7], truncated=[False, True, False]))
        assert found.evidence == {1: {"truncated": True, "n_tokens": 71}}
        assert not found.statuses


def test_reference_captions() -> None:
    made = metric("clip_score(variant=ref_hessel)")
    row = sample(extras={"reference_texts": ["a puppy", "", "a hound"]})
    assert made.select(row)["references"] == ["A photo depicts a puppy", "A photo depicts a hound"]
    assert made.select(sample(extras={"reference_texts": "a puppy"}))["references"] == ["A photo depicts a puppy"]
    listed = sample(extras={"reference_texts": '["a puppy", "a hound"]'})
    assert made.select(listed)["references"] == ["A photo depicts a puppy", "A photo depicts a hound"]
    bracket = sample(extras={"reference_texts": "[sign] a puppy"})
    assert made.select(bracket)["references"] == ["A photo depicts [sign] a puppy"]
    for none in (None, [], "", [" ", None]):
        assert no_value(made, sample(extras={"reference_texts": none}))[0] == "no_reference"
    assert no_value(made, sample(extras={"reference_texts": [3]}))[0] == "failed"
    assert no_value(made, sample(extras={"reference_texts": 3}))[0] == "failed"


def test_ref_hessel_by_hand() -> None:
    # a = 2.5·.3 = .75; b = max(.5, .2) → .6; b < 0 → 0; cos < 0 → 0; no captions → no_reference; a zero caption.
    references = ragged([0.5, 0.2], [-0.1], [0.9], [], [0.5])
    references.columns["embedding"][-1] = 0.0
    found = metric("clip_score(variant=ref_hessel)").score(batch([0.3, 0.3, -0.2, 0.3, 0.3], references=references))
    assert found.values[:3] == pytest.approx([0.6, 0, 0])
    assert found.statuses[3] == (Status.NO_REFERENCE, "no reference captions")
    assert found.statuses[4][0] == Status.DEGENERATE_EMBEDDING
    assert "reference captions" in found.statuses[4][1]
    assert set(found.statuses) == {3, 4}


# clip_i


def test_clip_i_by_hand() -> None:
    # The image is (1, 0); references at .2, .6 and 1.
    asked = FeatureBatch({"image": {"embedding": unit(1.0, 1.0)}, "references": ragged([0.2, 0.6, 1.0], [-0.4])}, {}, 2)
    assert values(metric("clip_i").score(asked)) == [0.6, -0.4]
    assert values(metric("clip_i(reduce=max)").score(asked)) == [1.0, -0.4]
    assert values(metric("clip_i(reduce=first)").score(asked)) == [0.2, -0.4]


def test_clip_i_over_a_concept_is_the_average_over_all_pairs() -> None:
    from beholder.functional import clip_i

    rng = np.random.default_rng(0)
    generated, references = rng.normal(size=(5, 16)).astype(np.float32), rng.normal(size=(3, 16)).astype(np.float32)
    flat = Ragged({"embedding": np.tile(references, (5, 1))}, np.arange(0, 16, 3))
    found = metric("clip_i").score(FeatureBatch({"image": {"embedding": generated}, "references": flat}, {}, 5))
    np.testing.assert_allclose(found.values, clip_i(generated, references).values, rtol=0, atol=1e-6)


def test_clip_i_references() -> None:
    refs = tuple(Named(f"{i}.png") for i in range(3))
    assert metric("clip_i").select(sample(references=refs)) == {"image": OUT, "references": list(refs)}
    assert metric("clip_i(reduce=first)").select(sample(references=refs))["references"] == [refs[0]]
    status, reason = no_value(metric("clip_i"), sample(concept="my dog"))
    assert status == "no_reference"
    assert "'my dog'" in reason
    assert no_value(metric("clip_i"), sample())[1] == "the row has no references"


def test_zip_is_strict() -> None:
    # K7: unequal numbers are a fault, not a silent cut.
    made = metric("clip_i(pairing=zip)")
    made.select(sample(references=(Named("a.png"),)))
    status, reason = no_value(made, sample(references=tuple(Named(f"{i}.png") for i in range(3))))
    assert status == "failed"
    assert "1 vs 3" in reason


def test_clip_i_weights_are_pairs() -> None:
    row = sample(references=tuple(Named(f"{i}.png") for i in range(3)))
    assert metric("clip_i").weight(row) == 3
    assert metric("clip_i(reduce=max)").weight(row) is None
    assert metric("clip_score").weight(row) is None


def test_clip_i_degenerate_and_empty() -> None:
    references = ragged([0.5], [0.5, 0.1], [], [0.5])
    references.columns["embedding"][2] = np.inf
    image = unit(1.0, 1.0, 1.0, 1.0)
    image[3] = 0.0
    found = metric("clip_i").score(FeatureBatch({"image": {"embedding": image}, "references": references}, {}, 4))
    assert found.values[0] == pytest.approx(0.5)
    assert {row: status.value for row, (status, _) in found.statuses.items()} == {
        1: "degenerate_embedding",
        2: "no_reference",
        3: "degenerate_embedding",
    }
    assert "references" in found.statuses[1][1]
    assert "image" in found.statuses[3][1]


def test_slots_are_asked_for_by_their_kind() -> None:
    asked = FeatureBatch({"image": {"embedding": unit(1.0)}, "references": ragged([0.5])}, {}, 1)
    with pytest.raises(TypeError, match="many items"):
        asked.one("references")
    with pytest.raises(TypeError, match="one item"):
        asked.many("image")
