from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from beholder._errors import OptionError, UnknownNameError
from beholder.records import Summary
from beholder.stats import summarise

STATUSES = ["ok", "missing", "no_reference", "empty_prompt"]


def coded(labels: Sequence[Any]) -> tuple[np.ndarray, list[Any]]:
    known = list(dict.fromkeys(label for label in labels if label is not None))
    return np.array([-1 if label is None else known.index(label) for label in labels]), known


def run(
    values: Sequence[float],
    statuses: Sequence[str] | None = None,
    *,
    units: Sequence[Any] | None = None,
    concepts: Sequence[Any] | None = None,
    columns: dict[str, Sequence[Any]] | None = None,
    **settings: Any,
) -> list[Summary]:
    codes = np.array([STATUSES.index(s) for s in statuses or ["ok"] * len(values)])
    found = summarise(
        "m(x=1)",
        "m",
        np.array(values, dtype=float),
        codes,
        STATUSES,
        None if units is None else coded(units)[0],
        None if concepts is None else coded(concepts)[0],
        {name: coded(labels) for name, labels in (columns or {}).items()},
        **{"resamples": 200, **settings},
    )
    for row in found:
        json.dumps(asdict(row), allow_nan=False)
        assert (row.metric, row.label) == ("m(x=1)", "m")
    return found


def one(found: list[Summary], aggregate: str, **group: Any) -> Summary:
    (row,) = [r for r in found if r.aggregate == aggregate and r.group == group]
    return row


WORKED = {
    "values": [1.0, 1.0] + [0.0] * 6,
    "concepts": ["A"] * 2 + ["B"] * 6,
    "weights": np.array([3, 3] + [2] * 6),
}


def test_worked_example() -> None:
    # A: 2 images × 3 references, all 1; B: 6 images × 2 references, all 0.
    found = run(**WORKED)  # type: ignore[arg-type]
    assert [(r.aggregate, r.headline) for r in found] == [("macro", True), ("micro", False), ("pairs", False)]
    assert one(found, "macro").value == 0.5
    assert one(found, "micro").value == 0.25
    assert one(found, "pairs").value == 6 / 18


def test_counts_sd_and_units() -> None:
    # Values 1, 2, 4, 5: mean 3, sd √(10/3); concept means 1.5 and 4.5: mean 3, sd √4.5; three prompts.
    found = run(
        [1, 2, 4, 5, 9, 9],
        ["ok", "ok", "ok", "ok", "missing", "empty_prompt"],
        units=["p", "p", "q", "r", "r", None],
        concepts=["A", "A", "B", "B", "B", "A"],
    )
    micro, macro = one(found, "micro"), one(found, "macro")
    assert (micro.value, micro.n, micro.unit, micro.n_units) == (3.0, 4, "prompt", 3)
    assert micro.sd == pytest.approx((10 / 3) ** 0.5, rel=1e-15)
    assert micro.n_missing == {"missing": 1, "empty_prompt": 1}
    assert (macro.value, macro.n, macro.unit, macro.n_units) == (3.0, 4, "concept", 2)
    assert macro.sd == pytest.approx(4.5**0.5, rel=1e-15)
    assert (macro.low, macro.high) == (1.5, 4.5)
    assert macro.note == "optimistic: the interval rests on 2 concepts only"
    assert micro.ci_method == macro.ci_method == "bootstrap-percentile"


def test_without_concepts_the_headline_is_micro() -> None:
    for concepts in (None, [None] * 3):
        found = run([1, 2, 6], concepts=concepts)
        assert [(r.aggregate, r.headline, r.value, r.unit) for r in found] == [("micro", True, 3.0, "sample")]


def test_intervals_draw_prompts_not_rows() -> None:
    # Ten prompts, each with ten equal images: drawing rows would shrink the interval by √10.
    values = np.repeat(np.arange(10.0), 10)
    by_prompt = one(run(values, units=np.repeat(np.arange(10), 10).tolist()), "micro")
    by_row = one(run(values), "micro")
    assert (by_prompt.n_units, by_row.n_units) == (10, 100)
    assert by_prompt.high - by_prompt.low > 2.5 * (by_row.high - by_row.low)  # type: ignore[operator]


def test_rows_without_a_prompt_are_their_own_units() -> None:
    found = one(run([1, 2, 3, 4], units=["p", "p", None, None]), "micro")
    assert (found.unit, found.n_units) == ("prompt", 3)


def test_a_concept_without_a_scored_image_is_absent_with_its_reason() -> None:
    # K24: 0 scored images → absent with a reason; 1 is enough.
    found = run(
        [0.4, 0, 0, 0.8],
        ["ok", "no_reference", "missing", "ok"],
        concepts=["one", "none", "none", "other"],
        columns={"concept": ["one", "none", "none", "other"]},
        by=[("concept",)],
    )
    macro = one(found, "macro")
    assert macro.value == pytest.approx(0.6)
    assert (macro.n, macro.n_units, macro.n_missing) == (2, 2, {"missing": 1, "no_reference": 1})
    assert "left out, as no sample has a value: none (missing 1, no_reference 1)" in macro.note  # type: ignore[operator]
    absent = one(found, "micro", concept="none")
    assert (absent.value, absent.low, absent.sd, absent.n, absent.ci_method) == (None, None, None, 0, None)
    assert absent.note == "no sample has a value: missing 1, no_reference 1"
    single = one(found, "micro", concept="one")
    assert (single.value, single.headline, single.n, single.sd) == (0.4, True, 1, None)
    assert single.note == "no interval: it needs two samples, got 1"


def test_many_absent_concepts_are_named_in_part() -> None:
    names = [f"c{i:02d}" for i in range(9)]
    found = run([1.0] + [0.0] * 8, ["ok"] + ["missing"] * 8, concepts=names, columns={"concept": names})
    note = one(found, "macro").note
    assert "c01 (missing 1), c02" in note  # type: ignore[operator]
    assert "and 3 more" in note  # type: ignore[operator]
    unnamed = one(run([1.0] + [0.0] * 8, ["ok"] + ["missing"] * 8, concepts=names), "macro").note
    assert "8 concepts (missing 8)" in unnamed  # type: ignore[operator]


def test_nothing_has_a_value() -> None:
    found = run([np.nan, np.nan], ["missing", "missing"], concepts=["A", "B"], weights=np.array([1, 1]))
    for row in found:
        assert (row.value, row.low, row.high, row.sd, row.n) == (None, None, None, None, 0)
        assert row.note == "no sample has a value: missing 2"
    (empty,) = run([])
    assert (empty.value, empty.n, empty.note) == (None, 0, "no sample has a value: there are no samples")


def test_rows_without_a_concept() -> None:
    found = run([1, 3, 10], concepts=["A", "B", None], columns={"task": ["g", "g", "h"]}, by=[("task",)])
    macro = one(found, "macro")
    assert (macro.value, macro.n) == (2.0, 2)
    assert "1 samples without a concept are left out" in macro.note  # type: ignore[operator]
    assert one(found, "micro").value == 14 / 3
    alone = one(found, "micro", task="h")
    assert alone.headline
    assert "no sample here has a concept" in alone.note  # type: ignore[operator]


def test_groups_come_in_the_order_of_their_labels() -> None:
    found = run(
        [1, 2, 3, 4, 5],
        columns={"seed": [10, 9, 10, None, 9], "method": ["b", "b", "a", "a", None]},
        by=[("method",), ("seed",), ("method", "seed"), ("method",), ()],
    )
    groups = [r.group for r in found if r.aggregate == "micro"]
    assert groups == [
        {},
        *({"method": m} for m in ("a", "b", None)),
        *({"seed": s} for s in (9, 10, None)),
        {"method": "a", "seed": 10},
        {"method": "a", "seed": None},
        {"method": "b", "seed": 9},
        {"method": "b", "seed": 10},
        {"method": None, "seed": 9},
    ]
    assert one(found, "micro", method="a").value == 3.5
    assert one(found, "micro", seed=9).value == 3.5


def test_over_seeds() -> None:
    # Seeds' means 2, 4 and 9: mean 5, sd √13.
    found = run([1, 3, 4, 4, 9, 7], columns={"seed": [0, 0, 1, 1, 2, None]}, by=[("seed",)])
    row = one(found, "over_seeds")
    assert (row.value, row.n, row.n_units, row.unit, row.headline) == (5.0, 5, 3, "seed", False)
    assert row.sd == pytest.approx(13**0.5, rel=1e-15)
    # Three seeds of sd √13: t of two degrees of freedom is 4.302653.
    half = 4.302652729911275 * (13 / 3) ** 0.5
    assert (row.low, row.high) == pytest.approx((5 - half, 5 + half))
    assert (row.level, row.ci_method) == (0.95, "t")
    assert row.note == "mean and sd over 3 seeds of their micro values"


def test_over_seeds_of_each_method_and_of_macro_values() -> None:
    found = run(
        [1, 0, 0, 2, 5, 0],
        ["ok", "ok", "ok", "ok", "ok", "missing"],
        concepts=["A", "B", "B", "A", "A", "A"],
        columns={"seed": [0, 0, 0, 1, 0, 1], "method": ["x", "x", "x", "x", "y", "y"]},
        by=[("method", "seed")],
    )
    x, y = one(found, "over_seeds", method="x"), one(found, "over_seeds", method="y")
    assert x.value == (0.5 + 2) / 2  # seed 0: mean of A's 1 and B's 0
    assert "macro values" in x.note  # type: ignore[operator]
    assert (y.value, y.sd, y.n_units, y.n_missing) == (5.0, None, 1, {"missing": 1})
    assert "1 seeds have no value" in y.note  # type: ignore[operator]


def test_finish_is_done_to_the_aggregate_and_its_interval() -> None:
    # S4: the clamp of `torchmetrics` is on the mean: (−30 + 20)/2 → 0, though the samples stay as they are.
    clamp = lambda mean: max(mean, 0.0)  # noqa: E731
    found = run([-30, 20], finish=clamp)[0]
    assert (found.value, found.low, found.high) == (0.0, 0.0, 20.0)
    assert found.sd == pytest.approx(50 / 2**0.5)
    assert run([30, -20], finish=clamp)[0].value == 5.0
    macro = run([-30, -30, -30, 20], concepts=["A", "A", "A", "B"], finish=clamp)[0]
    assert macro.value == 0.0


def random_columns(n: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "values": rng.normal(size=n),
        "statuses": [STATUSES[c] for c in rng.choice(4, n, p=[0.9, 0.05, 0.03, 0.02])],
        "units": rng.integers(0, n // 5, n).tolist(),
        "concepts": [f"c{c}" for c in rng.integers(0, 7, n)],
        "columns": {
            "method": [f"m{m}" for m in rng.integers(0, 3, n)],
            "seed": rng.integers(0, 4, n).tolist(),
            "concept": [],
        },
        "weights": rng.integers(1, 6, n),
    }


def permuted(data: dict[str, Any], order: np.ndarray) -> dict[str, Any]:
    pick = lambda column: [column[i] for i in order]  # noqa: E731
    return {
        **{name: pick(data[name]) for name in ("values", "statuses", "units", "concepts")},
        "columns": {name: pick(column) for name, column in data["columns"].items()},
        "weights": data["weights"][order],
    }


def test_nothing_depends_on_the_order_of_rows_or_on_the_codes() -> None:
    # Shards come in any order, and labels get their codes as they come: every digit must stay.
    data = random_columns(300, seed=0)
    data["columns"]["concept"] = data["concepts"]
    by = [("method",), ("seed",), ("method", "seed"), ("concept",)]
    first = run(**data, by=by)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(300)
        assert run(**permuted(data, order), by=by) == first


def test_values_without_status_ok_are_never_read() -> None:
    clean = run([1.0, 2.0, 0.0], ["ok", "ok", "missing"], weights=np.array([1, 1, 1]))
    for junk in (np.nan, np.inf, 1e300):
        assert run([1.0, 2.0, junk], ["ok", "ok", "missing"], weights=np.array([1, 1, np.nan])) == clean


def test_against_a_loop_in_plain_python() -> None:
    data = random_columns(200, seed=1)
    del data["columns"]["concept"]
    found = run(**data, by=[("method",)])
    for method in ("m0", "m1", "m2", None):
        rows = [i for i in range(200) if data["statuses"][i] == "ok" and method in (None, data["columns"]["method"][i])]
        group = {} if method is None else {"method": method}
        values = {i: float(data["values"][i]) for i in rows}
        concepts = {data["concepts"][i] for i in rows}
        means = [np.mean([values[i] for i in rows if data["concepts"][i] == c]) for c in concepts]
        pairs = sum(values[i] * data["weights"][i] for i in rows) / sum(data["weights"][i] for i in rows)
        assert one(found, "micro", **group).value == pytest.approx(np.mean(list(values.values())), rel=1e-12)
        assert one(found, "micro", **group).sd == pytest.approx(np.std(list(values.values()), ddof=1), rel=1e-12)
        assert one(found, "macro", **group).value == pytest.approx(np.mean(means), rel=1e-12)
        assert one(found, "pairs", **group).value == pytest.approx(pairs, rel=1e-12)
        assert one(found, "micro", **group).n_units == len({data["units"][i] for i in rows})


def test_wrong_use() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean method"):
        run([1.0], columns={"method": ["a"]}, by=[("metod",)])
    with pytest.raises(OptionError, match="one length"):
        run([1.0, 2.0], units=["a"])
    with pytest.raises(OptionError, match="one length"):
        run([1.0, 2.0], weights=np.ones(3))
    with pytest.raises(OptionError, match="between 0 and 1"):
        run([1.0, 2.0], level=95)
    with pytest.raises(ValueError, match="not finite"):
        run([1.0, np.nan])


def lines_run(n: int) -> int:
    """How many lines of the package run for n rows in the same cells, counted by the interpreter."""
    rng = np.random.default_rng(0)
    values, units, concepts = rng.normal(size=n), np.arange(n) % 200, np.arange(n) % 7
    groups = {"method": (np.arange(n) % 3, ["a", "b", "c"]), "seed": (np.arange(n) % 5, list(range(5)))}
    status = (np.arange(n) % 50 == 0).astype(int)
    count = 0

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        if "beholder" not in frame.f_globals.get("__name__", ""):
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        summarise(
            "m",
            "m",
            values,
            status,
            STATUSES,
            units,
            concepts,
            groups,
            by=[("method",), ("seed",)],
            weights=np.arange(n) % 4,
            resamples=50,
        )
    finally:
        sys.settrace(before)
    return count


def test_no_python_loop_over_rows() -> None:
    # Ten times the rows: a loop over rows would run ten times the lines. Some lines run once an exponent of the values,
    # and more values have a few more exponents.
    few, many = lines_run(4_000), lines_run(40_000)
    assert 500 < few < 20_000
    assert many <= 1.5 * few
