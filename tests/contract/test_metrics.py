"""What every registered metric keeps to."""

from __future__ import annotations

import pickle
import random
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beholder._errors import OptionError, UnknownNameError
from beholder._identity import MetricSpec, format_spec, parse_spec
from beholder.backends.columns import object_column
from beholder.functional.masks import box_masks, encode_masks
from beholder.manifest.schema import Sample
from beholder.metrics.base import FeatureBatch, Ragged, SampleMetric, make_metric
from beholder.metrics.catalog import METRICS
from beholder.metrics.segmenting import subjects_of
from beholder.metrics.sets import SetMetric
from beholder.records import MetricInfo, OptionInfo

NAMES = METRICS.names()
WIDTH = 16
MOST_COMBINATIONS = 200
BY_CHANCE = {"background_share": {"not_enough_evidence"}, "nexus_score": {"no_detection"}}
"""Statuses that random features may rightly have."""
DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"


def free_values(option: OptionInfo) -> st.SearchStrategy[Any]:
    """Values an open option may take; a template needs its places, and an answer must say something."""
    if option.name == "answer_template":
        return st.sampled_from(["Yes", "yes", "No", "a cat"])
    if option.name.endswith("_template"):
        return st.text(max_size=6).map(lambda text: "{text} {question} {choice}" + text)
    return {
        "str": st.text(max_size=12),
        "int": st.integers(-1000, 1000),
        "float": st.floats(allow_nan=False, allow_infinity=False),
        "bool": st.booleans(),
        "list": st.lists(st.text(max_size=5), max_size=3).map(tuple),
    }[option.kind]


@st.composite
def specs(draw: st.DrawFn) -> MetricSpec:
    info = METRICS.get(draw(st.sampled_from(NAMES))).info
    options = {}
    for option in info.options:
        if draw(st.booleans()):
            options[option.name] = draw(st.sampled_from(option.choices) if option.choices else free_values(option))
    return MetricSpec(info.name, options)


def every_choice(info: MetricInfo) -> Iterator[SampleMetric]:
    """The metric with every combination of its options that have a closed list.

    Where there are too many: each choice alone, and some combinations drawn at random.
    """
    closed = [option for option in info.options if option.choices]
    combinations = list(product(*(option.choices for option in closed)))
    if len(combinations) > MOST_COMBINATIONS:
        usual = tuple(option.default for option in closed)
        alone = [
            (*usual[:at], choice, *usual[at + 1 :]) for at, option in enumerate(closed) for choice in option.choices
        ]
        combinations = list(dict.fromkeys([*alone, *random.Random(info.name).sample(combinations, 12)]))
    for chosen in combinations:
        yield METRICS.get(info.name)({option.name: value for option, value in zip(closed, chosen)})


ALL = [made for name in NAMES for made in every_choice(METRICS.get(name).info)]
SCORING = [made for made in ALL if not isinstance(made, SetMetric)]
"""Metrics of samples; what those of whole sets keep to stands in test_set_metrics.py."""
by_identity = pytest.mark.parametrize("metric", ALL, ids=repr)
scoring = pytest.mark.parametrize("metric", SCORING, ids=repr)
of_embeddings = pytest.mark.parametrize(
    "metric", [made for made in SCORING if all("embedding" in slot.feature for slot in made.slots)], ids=repr
)
by_name = pytest.mark.parametrize("name", NAMES)


def columns(kind: str, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Random features of a kind; a new kind of feature needs its maker here."""
    embedding = rng.normal(size=(n, WIDTH)).astype(np.float32)
    if kind == "image_embedding":
        return {"embedding": embedding}
    if kind == "text_embedding":
        tokens = rng.integers(3, 90, n).astype(np.int32)
        return {"embedding": embedding, "n_tokens": tokens, "truncated": tokens > 77}
    if kind == "patches":
        return {
            "embedding": embedding, "embedding_bypassed": rng.normal(size=(n, WIDTH)).astype(np.float32),
            "patches": rng.normal(size=(n, 9, WIDTH)).astype(np.float16),
            "attention": rng.dirichlet(np.ones(10), (n, 9))[..., 1:].astype(np.float16),
            "grid": np.full((n, 2), 3, dtype=np.int32),
        }  # fmt: skip
    if kind == "match":
        tokens = rng.integers(3, 50, n).astype(np.int32)
        return {"logit": embedding[:, 0] * 3, "n_tokens": tokens, "truncated": tokens > 35}
    if kind == "answer":
        yes, no = rng.uniform(0.05, 0.5, n), rng.uniform(0.05, 0.45, n)
        logs = {"first_token": yes * 0.8, "sequence": yes * 0.7, "yes": yes, "no": no}
        return {
            **{name: np.log(p) for name, p in logs.items()},
            "rest": np.full(n, -np.inf), "n_answer": rng.integers(1, 4, n).astype(np.int32),
        }  # fmt: skip
    if kind == "faces":
        return faces(n, rng)
    if kind == "segments":
        return segments(n, rng)
    if kind == "example_detections":
        # Boxes that do not overlap, all of them sure.
        boxes = [np.array([[20 * at, 0, 20 * at + 9, 9 + at] for at in range(count)], np.float32)
                 for count in rng.integers(0, 4, n)]  # fmt: skip
        return {
            "boxes": object_column(boxes), "size": np.full((n, 2), 90, np.int32),
            "scores": object_column([rng.uniform(0.65, 0.95, len(own)).astype(np.float32) for own in boxes]),
        }  # fmt: skip
    if kind == "reply":
        return {"text": object_column([f"Score: {mark}" for mark in rng.integers(1, 6, n)])}
    if kind == "clip_numbers":
        names = ("flow", "magnitude", "difference")
        return {**{name: rng.uniform(0.1, 0.9, n) for name in names}, "n_frames": np.full(n, 9, np.int32)}
    if kind == "frame_quality":
        return {"scores": object_column([rng.uniform(0.4, 0.44, 12) for _ in range(n)])}
    if kind in ("image_score", "head_score"):
        return {"score": embedding[:, 0].astype(np.float64)}
    if kind == "hashes":
        # Two hashes far apart, so that some outputs are near copies; mirrored, none is.
        hashes = rng.choice(np.array([0xFFFF, 0xFFFF0000FFFF0000], np.uint64), n)
        return {
            "pixels": rng.integers(0, 256, (n, 32)).astype(np.uint8), "hash": hashes,
            "mirrored": np.full(n, 0xFF00FF00FF00FF0F, np.uint64),
        }  # fmt: skip
    raise AssertionError(f"this test makes no features of kind {kind!r} yet")


def segments(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """One rectangle in every picture of 20 by 30 pixels."""
    corners = rng.integers(0, 10, (n, 2))
    boxes = np.concatenate([corners, corners + rng.integers(2, 10, (n, 2))], axis=1)
    runs = [encode_masks(box_masks(box[None], (20, 30))) for box in boxes]
    return {
        "scores": object_column([rng.uniform(0.5, 1, 1).astype(np.float32) for _ in range(n)]),
        "boxes": object_column([box[None].astype(np.float32) for box in boxes]),
        "counts": object_column([counts for counts, _ in runs]),
        "lengths": object_column([lengths for _, lengths in runs]),
        "size": np.tile(np.array([20, 30], dtype=np.int32), (n, 1)),
        "phrase": np.zeros(n, dtype=np.int32),
    }


def faces(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """One or two sure faces a picture."""
    found: dict[str, list[np.ndarray]] = {"boxes": [], "scores": [], "landmarks": [], "areas": [], "embedding": []}
    for count in rng.integers(1, 3, n):
        corner = rng.uniform(0, 40, (count, 2))
        boxes = np.concatenate([corner, corner + rng.uniform(5, 40, (count, 2))], axis=1).astype(np.float32)
        found["boxes"].append(boxes)
        found["scores"].append(np.sort(rng.uniform(0.91, 0.99, count).astype(np.float32))[::-1])
        found["landmarks"].append(rng.uniform(0, 80, (count, 5, 2)).astype(np.float32))
        found["areas"].append(np.prod(boxes[:, 2:] - boxes[:, :2], axis=1, dtype=np.float64))
        found["embedding"].append(rng.normal(size=(count, WIDTH)).astype(np.float32))
    return {name: object_column(rows) for name, rows in found.items()}


def make_batch(metric: SampleMetric, n: int, seed: int = 0) -> FeatureBatch:
    rng = np.random.default_rng(seed)
    slots: dict[str, Any] = {}
    examples = any(slot.feature == "example_detections" for slot in metric.slots)
    for slot in metric.slots:
        if slot.after and (slot.feature == "match" or slot.may_fail):
            # Derived pictures: one row for each face of the slot that they come from.
            source = slots[slot.after[0]]
            found = source.columns if isinstance(source, Ragged) else source
            starts = np.cumsum([0, *(len(row) for row in found["scores"])])
            offsets = starts[source.offsets] if isinstance(source, Ragged) else starts
            slots[slot.name] = Ragged(columns(slot.feature, int(offsets[-1]), rng), offsets)
        elif slot.after and "segment" in metric.options:
            # Masked pictures: one row for each instance that is taken, one where nothing was found.
            source = slots[slot.after[0]]
            found = source.columns if isinstance(source, Ragged) else source
            taken = subjects_of(found, metric.options, invert=bool(metric.options["invert"]))
            starts = np.cumsum([0, *(max(1, len(item.masks)) for item in taken)])
            offsets = starts[source.offsets] if isinstance(source, Ragged) else starts
            slots[slot.name] = Ragged(columns(slot.feature, int(offsets[-1]), rng), offsets)
        elif metric.least_frames > 1 and slot.feature == "image_embedding":
            counts = rng.integers(metric.least_frames, metric.least_frames + 3, n)
            offsets = np.cumsum([0, *counts])
            slots[slot.name] = Ragged(columns(slot.feature, int(offsets[-1]), rng), offsets)
        elif slot.feature == "reply" and slot.many:
            slots[slot.name] = Ragged(columns(slot.feature, n, rng), np.arange(n + 1))
        elif slot.many and examples and slots:
            # References and labels: one for each pair of the detections, which stand first.
            first = next(iter(slots.values()))
            slots[slot.name] = Ragged(columns(slot.feature, int(first.offsets[-1]), rng), first.offsets)
        elif slot.many:
            offsets = np.concatenate(([0], np.cumsum(rng.integers(1, 4, n)))).astype(np.intp)
            slots[slot.name] = Ragged(columns(slot.feature, int(offsets[-1]), rng), offsets)
        else:
            slots[slot.name] = columns(slot.feature, n, rng)
    if examples:
        # Embeddings that lie close together: crops that are like their labels.
        for value in slots.values():
            if "embedding" in value.columns:
                value.columns["embedding"] += 2
    constants = {slot.name: {"logit_scale": 100.0} for slot in metric.slots}
    return FeatureBatch(slots, constants, n, [_sample(row, slots.get("answer")) for row in range(n)])


def _sample(row: int, answers: Any) -> Sample:
    """A sample that has a question for each answer that a checklist is given."""
    count = answers.offsets[row + 1] - answers.offsets[row] if isinstance(answers, Ragged) else 1
    return Sample(str(row), None, extras={"questions": [{"q": f"{at}?", "tag": "t"} for at in range(count)]})


def take(batch: FeatureBatch, rows: list[int]) -> FeatureBatch:
    slots: dict[str, Any] = {}
    for name, value in batch.slots.items():
        if isinstance(value, Ragged):
            items = [np.arange(value.offsets[row], value.offsets[row + 1]) for row in rows]
            flat = np.concatenate(items) if items else np.empty(0, np.intp)
            offsets = np.cumsum([0, *(len(part) for part in items)])
            slots[name] = Ragged({key: column[flat] for key, column in value.columns.items()}, offsets)
        else:
            slots[name] = {key: column[rows] for key, column in value.items()}
    return FeatureBatch(slots, batch.constants, len(rows), [batch.samples[row] for row in rows])


# identity


@settings(max_examples=400, deadline=None)
@given(specs())
def test_the_printed_name_is_the_specification(spec: MetricSpec) -> None:
    made = make_metric(spec)
    again = make_metric(parse_spec(made.identity))
    assert again == made
    assert again.options == made.options
    assert again.identity == made.identity
    assert hash(again) == hash(made)
    assert again.slots == made.slots
    # What was asked for in full prints the same as what was asked for in short.
    assert make_metric(parse_spec(format_spec(spec.name, made.options))) == made


@by_name
def test_defaults_print_as_the_bare_name(name: str) -> None:
    assert make_metric(MetricSpec(name)).identity == name


def test_distinct_choices_have_distinct_names() -> None:
    assert len({made.identity for made in ALL}) == len(ALL)


@by_identity
def test_pickling(metric: SampleMetric) -> None:
    again = pickle.loads(pickle.dumps(metric))
    assert again == metric
    assert again.options == metric.options


# cards


@by_name
def test_the_card_is_complete(name: str) -> None:
    info = METRICS.get(name).info
    assert info.name == name
    assert info.family == info.family.lower().strip()
    for text in (info.family, info.summary, info.formula, info.unit, info.degenerate, info.version):
        assert text.strip()
    assert info.summary.endswith(".")
    assert len(info.summary.splitlines()) == 1
    assert info.inputs
    assert info.kind == ("set" if issubclass(METRICS.get(name), SetMetric) else "sample")
    assert info.higher_is_better in (True, False, None)
    assert info.paper is None or re.search(r"arXiv \d{4}\.\d{4,5}", info.paper)
    assert info.reference_code is None or info.reference_code.startswith("https://github.com/")
    low, high = info.range
    assert low is None or high is None or low < high
    assert info.default_model is None or info.capability
    assert all(note.endswith(".") for note in info.notes)


@by_name
def test_options_are_documented(name: str) -> None:
    info = METRICS.get(name).info
    names = [option.name for option in info.options]
    assert len(set(names)) == len(names)
    for option in info.options:
        assert option.doc.strip().endswith(".")
        assert not option.choices or option.default is None or option.default in option.choices
        assert option.name != "as", "`as` names a label"


@by_name
def test_wrong_options_are_refused(name: str) -> None:
    info = METRICS.get(name).info
    with pytest.raises(UnknownNameError):
        make_metric(MetricSpec(name, {"no_such_option": 1}))
    for option in info.options:
        if option.choices:
            with pytest.raises(OptionError, match="must be one of"):
                make_metric(MetricSpec(name, {option.name: "no such choice"}))
        elif option.kind == "str":
            with pytest.raises(OptionError, match="must be of type str"):
                make_metric(MetricSpec(name, {option.name: True}))


@by_name
def test_truth_values_are_taken_as_the_manual_prints_them(name: str) -> None:
    for option in METRICS.get(name).info.options:
        if option.kind == "bool":
            for value in (True, False):
                asked = make_metric(parse_spec(f"{name}({option.name}={value})"))
                assert asked.options[option.name] is value
            with pytest.raises(OptionError, match="must be of type bool"):
                make_metric(MetricSpec(name, {option.name: "yes"}))


@by_name
def test_the_manual_names_every_metric_and_option(name: str) -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert f"## `{name}`" in text
    section = text.split(f"## `{name}`", 1)[1].split("\n## ", 1)[0]
    for option in METRICS.get(name).info.options:
        assert f"`{option.name}`" in section
        for choice in option.choices:
            assert f"`{choice}`" in section


@by_identity
def test_the_description_is_json(metric: SampleMetric) -> None:
    import json

    json.loads(json.dumps(metric.describe(), allow_nan=False))


# scores


@scoring
def test_scores_are_finite_and_in_range(metric: SampleMetric) -> None:
    found = metric.score(make_batch(metric, 200))
    assert found.values.shape == (200,)
    assert found.values.dtype == np.float64
    assert {str(status) for status, _ in found.statuses.values()} <= BY_CHANCE.get(metric.info.name, set())
    assert len(found.statuses) < 150
    assert np.isfinite(found.values).all()
    if metric.group_key.__func__ is SampleMetric.group_key:  # type: ignore[attr-defined]
        low, high = metric.value_range
        assert low is None or found.values.min() >= low
        assert high is None or found.values.max() <= high
    assert len(set(found.values.tolist())) > 1, "the scores must depend on the features"


@scoring
def test_an_empty_batch(metric: SampleMetric) -> None:
    found = metric.score(make_batch(metric, 0))
    assert found.values.shape == (0,)
    assert not found.statuses
    assert not found.evidence


@scoring
def test_scores_do_not_depend_on_order_or_batch(metric: SampleMetric) -> None:
    batch = make_batch(metric, 33, seed=1)
    whole = metric.score(batch)
    order = np.random.default_rng(2).permutation(33).tolist()
    shuffled = metric.score(take(batch, order))
    assert shuffled.values.tolist() == whole.values[order].tolist()
    assert dict(shuffled.evidence) == {i: whole.evidence[row] for i, row in enumerate(order) if row in whole.evidence}
    alone = [metric.score(take(batch, [row])).values[0] for row in range(33)]
    assert alone == whole.values.tolist()
    parts = [list(range(0)), [0], list(range(1, 20)), list(range(20, 33))]
    uneven = [value for part in parts for value in metric.score(take(batch, part)).values]
    assert uneven == whole.values.tolist()


@scoring
def test_the_same_row_twice_scores_the_same(metric: SampleMetric) -> None:
    values = metric.score(take(make_batch(metric, 3, seed=3), [0, 1, 1, 2, 1])).values
    assert values[1] == values[2] == values[4]


@scoring
def test_features_are_not_changed(metric: SampleMetric) -> None:
    batch, same = make_batch(metric, 5, seed=4), make_batch(metric, 5, seed=4)
    metric.score(batch)
    for slot, value in batch.slots.items():
        before = same.slots[slot]
        new, old = (v.columns if isinstance(v, Ragged) else v for v in (value, before))
        for key in old:
            for row, was in zip(new[key], old[key]):
                np.testing.assert_array_equal(row, was)


@of_embeddings
def test_scaling_the_features_changes_nothing(metric: SampleMetric) -> None:
    # K20: whoever makes the features need not normalise them.
    batch = make_batch(metric, 20, seed=5)
    scaled = {
        name: Ragged({**v.columns, "embedding": v.columns["embedding"] * 7}, v.offsets)
        if isinstance(v, Ragged)
        else {**v, "embedding": v["embedding"] * 7}
        for name, v in batch.slots.items()
    }
    found = metric.score(FeatureBatch(scaled, batch.constants, batch.n, batch.samples)).values
    # Scores reach 100 times a cosine; float32 cosines of 16 numbers carry a few 6e-8. In 16 bits a step is 2^-10.
    atol = 2**-9 if metric.describe().get("dot") == "fp16" else 100 * 5e-7
    np.testing.assert_allclose(found, metric.score(batch).values, rtol=0, atol=atol)


@of_embeddings
def test_a_zero_feature_is_degenerate_and_costs_one_row(metric: SampleMetric) -> None:
    for slot in metric.slots:
        batch = make_batch(metric, 4, seed=6)
        value = batch.slots[slot.name]
        table = value.columns if isinstance(value, Ragged) else value
        at = int(value.offsets[2]) if isinstance(value, Ragged) else 2
        good = metric.score(batch)
        table["embedding"][at] = 0.0
        found = metric.score(batch)
        assert {row: status.value for row, (status, _) in found.statuses.items()} == {2: "degenerate_embedding"}
        kept = [0, 1, 3]
        assert found.values[kept].tolist() == good.values[kept].tolist()


def test_listing_metrics_imports_no_torch() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from beholder.metrics.catalog import METRICS\n"
        "for name in METRICS.names(): METRICS.get(name).info\n"
        "assert not {'torch', 'transformers', 'pyarrow', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
