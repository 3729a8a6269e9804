"""Runs whose numbers were made differently are not compared without a warning."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.report.report_helpers import header, metric

from beholder.report.identity import identity_warnings

BASE = header(metric("clip_score"), metric("clip_i"))


def changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    found: Any = copy.deepcopy(BASE)
    where = found
    for part in path[:-1]:
        where = where[part]
    where[path[-1]] = value
    return dict(found)


def test_equal_runs_give_no_warning() -> None:
    assert identity_warnings([("a", BASE), ("b", copy.deepcopy(BASE)), ("c", header(metric("clip_score")))]) == []


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("metrics", 0, "identity"), "clip_score(variant=x100)", "clip_score(variant=x100) against clip_score"),
        (("metrics", 0, "info", "version"), "2", "version 2 of the metric against 1"),
        (("metrics", 0, "settings"), {"scale": 100}, "settings: scale 100 against None"),
        (("models", "k1", "weights_sha256"), "b" * 64, "weights bbbbbbbbbbbb against aaaaaaaaaaaa"),
        (("models", "k1", "dtype"), "bfloat16", "dtype bfloat16 against float32"),
        (("models", "k1", "preprocessing"), {"size": 336}, "preprocessing.size 336 against 224"),
        (("decode", "background"), [0, 0, 0], "decode: background [0, 0, 0] against [255, 255, 255]"),
        (("truncation",), "error", "truncation: error against truncate"),
        (("versions", "beholder"), "0.2.0", "versions: beholder 0.2.0 against 0.1.0"),
    ],
)
def test_everything_that_moves_numbers_is_named(path: tuple[Any, ...], value: Any, said: str) -> None:
    warnings = identity_warnings([("a", BASE), ("b", changed(path, value))])
    assert any(said in warning and "b" in warning and "a" in warning for warning in warnings), warnings


def test_a_column_is_compared_with_the_first_run_that_has_it() -> None:
    first, second = header(metric("clip_score")), header(metric("clip_i"))
    third = header(metric("clip_i", identity="clip_i(reduce=max)"))
    warnings = identity_warnings([("a", first), ("b", second), ("c", third)])
    assert warnings == ["clip_i of c is not the same number as that of b: clip_i(reduce=max) against clip_i"]


def test_one_change_of_a_model_is_told_once_and_only_what_differs_in_it() -> None:
    slots = {name: {"model": "m", "model_key": "k1"} for name in ("image", "text")}
    one = header(metric("clip_score", slots=slots))
    one["models"] = {"k1": {"preprocessing": {"size": 224, "text": {"length": 77, "padding": "longest"}}}}
    other = copy.deepcopy(one)
    other["models"]["k1"]["preprocessing"]["text"]["padding"] = [16, 32]
    (told,) = identity_warnings([("a", one), ("b", other)])
    assert told.endswith("model of image and text: preprocessing.text.padding [16, 32] against longest")
