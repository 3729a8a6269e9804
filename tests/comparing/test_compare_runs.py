"""Runs and methods compared: pairing, what is refused, what the numbers rest on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.comparing.made_runs import made_metric, made_run

import beholder
from beholder._errors import OptionError, UnknownNameError, UserError


def rows(values: dict[tuple[str, Any], float | None], **more: Any) -> list[dict[str, Any]]:
    return [{"prompt": p, "seed": s, "clip_score": value, **more} for (p, s), value in values.items()]


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    a = made_run(tmp_path / "a", rows({("x", 0): 0.1, ("x", 1): 0.3, ("y", 0): 0.5, ("z", 0): 0.9}))
    b = made_run(tmp_path / "b", rows({("y", 0): 0.8, ("x", 1): 0.3, ("x", 0): 0.3, ("w", 0): 0.0}))
    return a, b


def test_rows_pair_on_what_both_sides_share(two: tuple[Path, Path]) -> None:
    found = beholder.compare(*two)
    assert found.key == ("prompt", "seed")
    # Prompt x: differences 0.2 and 0, so 0.1; prompt y: 0.3. Their mean is 0.2.
    row = found.row("clip_score")
    assert row.difference.value == pytest.approx(0.2)
    assert (row.difference.mean_a, row.difference.mean_b) == pytest.approx((0.35, 0.55))
    assert (row.difference.n_pairs, row.difference.n_prompts) == (3, 2)
    pair = found.pairings[0]
    assert (pair.rows_a, pair.rows_b, pair.unpaired_a, pair.unpaired_b) == (4, 4, 1, 1)
    assert found.warnings == ("a and b are not one set: 1 of 4 rows and 1 of 4 have no partner and are left out",)


def test_prompt_id_goes_before_prompt_and_seed_types_do_not_matter(tmp_path: Path) -> None:
    a = made_run(tmp_path / "a", [{"prompt": "one", "prompt_id": "1", "seed": 0, "clip_score": 0.1}])
    b = made_run(tmp_path / "b", [{"prompt": "One!", "prompt_id": "1", "seed": 0.0, "clip_score": 0.3}])
    found = beholder.compare(a, b)
    assert found.key == ("prompt_id", "seed")
    assert found.row("clip_score").difference.n_pairs == 1


def test_sides_with_seeds_of_their_own_are_paired_by_prompt(tmp_path: Path) -> None:
    a = made_run(tmp_path / "a", rows({("x", 11): 0.1, ("x", 12): 0.3, ("y", 13): 0.5}))
    b = made_run(tmp_path / "b", rows({("x", 21): 0.4, ("y", 22): 0.6, ("y", 23): 1.0}))
    found = beholder.compare(a, b)
    assert found.key == ("prompt",)
    assert found.notices[0] == "the sides share no seed, so prompts are paired and their outputs averaged"
    assert found.row("clip_score").difference.value == pytest.approx((0.2 + 0.3) / 2)


def test_pair_on_overrides(two: tuple[Path, Path]) -> None:
    found = beholder.compare(*two, pair_on=["prompt"])
    assert found.key == ("prompt",)
    assert found.row("clip_score").difference.value == pytest.approx(((0.3 - 0.2) + 0.3) / 2)
    assert found.notices == ("a and b: 1 keys have several rows, which are averaged",)
    with pytest.raises(UnknownNameError):
        beholder.compare(*two, pair_on=["nothing"])


def test_rows_paired_on_their_ids_are_still_sampled_by_prompt(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    a, b = (
        made_run(
            tmp_path / name,
            [
                {"id": f"{c}{p}{n}", "concept": f"c{c}", "prompt": f"p{p}", "clip_score": float(rng.normal())}
                for c in range(5)
                for p in range(8)
                for n in range(3)
            ],
        )
        for name in ("a", "b")
    )
    row = beholder.compare(a, b, pair_on=["id"]).row("clip_score").difference
    assert (row.n_pairs, row.n_prompts, row.interval.n_units, row.unit) == (120, 40, 5, "concept")


def test_rows_without_a_prompt_have_no_partner(tmp_path: Path) -> None:
    rows = [{"prompt": "x", "seed": 0, "clip_score": 0.1}, {"prompt": None, "seed": 0, "clip_score": 0.9}]
    a, b = made_run(tmp_path / "a", rows), made_run(tmp_path / "b", rows)
    pair = beholder.compare(a, b).pairings[0]
    assert (pair.unpaired_a, pair.unpaired_b) == (1, 1)
    with pytest.raises(OptionError, match="must not hold a metric's values"):
        beholder.compare(a, b, by="clip_score")


def test_nothing_to_pair_on_and_nothing_paired(tmp_path: Path) -> None:
    a = made_run(tmp_path / "a", [{"output": "1.png", "seed": 0, "clip_score": 0.1}])
    b = made_run(tmp_path / "b", [{"output": "1.png", "seed": 0, "clip_score": 0.2}])
    with pytest.raises(UserError, match="share a column to be paired on"):
        beholder.compare(a, b)
    assert beholder.compare(a, b, pair_on=["seed"]).row("clip_score").difference.n_pairs == 1
    c = made_run(tmp_path / "c", rows({("x", 0): 0.1}))
    d = made_run(tmp_path / "d", rows({("y", 0): 0.1}))
    with pytest.raises(UserError, match="no row of c with a partner in d"):
        beholder.compare(c, d)


def test_rows_without_a_value_are_counted_by_status_and_leave_the_pair_out(tmp_path: Path) -> None:
    a = made_run(tmp_path / "a", rows({("x", 0): 0.1, ("y", 0): None, ("z", 0): 0.2}))
    b = made_run(tmp_path / "b", rows({("x", 0): 0.2, ("y", 0): 0.9, ("z", 0): 0.2}))
    row = beholder.compare(a, b).row("clip_score")
    assert (row.missing_a, row.missing_b) == ({"unreadable": 1}, {})
    assert row.difference.n_pairs == 2


def test_other_identities_are_refused_and_listed(tmp_path: Path) -> None:
    values = rows({(str(p), 0): 0.1 * p for p in range(5)})
    a = made_run(tmp_path / "a", values)
    b = made_run(tmp_path / "b", values, [made_metric("clip_score", settings={"scale": 100})])
    c = made_run(tmp_path / "c", values, models={"k1": {"weights_sha256": "b" * 64, "dtype": "float32"}})
    with pytest.raises(UserError) as told:
        beholder.compare(a, b, c)
    assert "settings: scale 100 against None" in str(told.value)
    assert "weights bbbbbbbbbbbb against aaaaaaaaaaaa" in str(told.value)
    found = beholder.compare(a, b, c, allow_different=True)
    assert len(found.warnings) == 2
    d = made_run(tmp_path / "d", values, versions={"beholder": "9"})
    assert beholder.compare(a, d).warnings == ("d differs from a in versions: beholder 9 against 0.1.0",)


def test_the_methods_of_one_run_are_compared_within(tmp_path: Path) -> None:
    values = [
        {"id": f"{m}{p}", "prompt": str(p), "method": m, "clip_score": p / 10 + shift}
        for m, shift in (("old", 0.0), ("new", 0.05), ("bad", -0.1))
        for p in range(40)
    ]
    run = made_run(tmp_path / "run", values)
    found = beholder.compare(run, baseline="new")
    assert found.sides == ("new", "old", "bad")
    assert found.row("clip_score", "old").difference.value == pytest.approx(-0.05)
    assert [row.verdict for row in found.rows] == ["worse", "worse"]
    assert found.ranks["clip_score"].order == (0, 1, 2)
    assert found.ranks["clip_score"].same_order == 1.0
    with pytest.raises(UnknownNameError, match="Sides: old, new, bad"):
        beholder.compare(run, baseline="nwe")
    other = made_run(tmp_path / "other", values[:40])
    assert beholder.compare(other, run).sides == ("other", "run:old", "run:new", "run:bad")


def test_one_side_is_not_enough(two: tuple[Path, Path]) -> None:
    with pytest.raises(UserError, match="two runs, or a run with two methods"):
        beholder.compare(two[0])
    with pytest.raises(OptionError, match="must differ"):
        beholder.compare(two[0], two[0])


def test_direction_comes_from_the_card(tmp_path: Path) -> None:
    metrics = [made_metric("up"), made_metric("down", higher=False), made_metric("none", higher=None)]
    a, b = (
        made_run(
            tmp_path / name,
            [
                {"prompt": str(p), **{m["label"]: p / 9 + shift + 0.001 * (p % 3) * shift for m in metrics}}
                for p in range(40)
            ],
            metrics,
        )
        for name, shift in (("a", 0.0), ("b", 0.1))
    )
    found = beholder.compare(a, b)
    assert {row.label: row.verdict for row in found.rows} == {"up": "better", "down": "worse", "none": "higher"}
    equal = beholder.compare(
        a, made_run(tmp_path / "again", [{"prompt": str(p), "up": p / 9} for p in range(40)], metrics[:1])
    )
    assert equal.row("up").verdict == "equal"
    assert equal.notices == ("only in some sides, so not compared: down, none of a",)
    few = beholder.compare(
        a, made_run(tmp_path / "few", [{"prompt": str(p), "up": 9.0} for p in range(3)], metrics[:1])
    )
    assert few.row("up").verdict == "inconclusive", "three prompts cannot show anything at 5 %"


def test_concepts_are_the_clusters(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = {
        name: [
            {"concept": f"c{c}", "prompt": f"p{p}", "clip_score": float(rng.normal() + (name == "b") * 0.2 * c)}
            for c in range(35)
            for p in range(4)
        ]
        for name in ("a", "b")
    }
    a, b = (made_run(tmp_path / name, values[name]) for name in ("a", "b"))
    found = beholder.compare(a, b)
    row = found.row("clip_score").difference
    assert found.key == ("concept", "prompt")
    assert (row.unit, row.interval.n_units, row.n_prompts) == ("concept", 35, 140)
    assert row.note is None


def test_groups_are_compared_apart_and_all_tests_are_corrected_together(two: tuple[Path, Path], tmp_path: Path) -> None:
    values = [{"prompt": str(p), "kind": "ab"[p % 2], "clip_score": p / 10} for p in range(40)]
    better = [
        {**row, "clip_score": row["clip_score"] + (row["kind"] == "a") * 0.1 + 0.01 * (n % 3)}
        for n, row in enumerate(values)
    ]
    found = beholder.compare(made_run(tmp_path / "c", values), made_run(tmp_path / "d", better), by="kind")
    assert [dict(row.group) for row in found.rows] == [{}, {"kind": "a"}, {"kind": "b"}]
    assert [row.difference.n_pairs for row in found.rows] == [40, 20, 20]
    # Holm over the three tests that are shown, by hand.
    p = sorted(row.difference.p.value for row in found.rows)  # type: ignore[type-var]
    expected = [min(1, 3 * p[0]), min(1, max(3 * p[0], 2 * p[1])), min(1, max(3 * p[0], 2 * p[1], p[2]))]  # type: ignore[operator]
    assert sorted(row.holm for row in found.rows) == pytest.approx(expected)  # type: ignore[type-var]
    with pytest.raises(UnknownNameError):
        beholder.compare(*two, by="kind")


def test_repeated_judgements_are_a_part_of_the_variance(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)

    def judged(shift: float) -> list[dict[str, Any]]:
        true = rng.normal(size=(300, 2))
        return [
            {"id": f"{shift}-{p}-{s}-{j}", "prompt": str(p), "seed": s,
             "clip_score": shift + true[p, s] + 0.5 * float(rng.normal())}
            for p in range(300)
            for s in range(2)
            for j in range(3)
        ]  # fmt: skip

    a, b = made_run(tmp_path / "a", judged(0.0)), made_run(tmp_path / "b", judged(0.1))
    split = beholder.compare(a, b).row("clip_score").difference.variance
    # Both sides: seeds of variance 1, judgements of variance 0.25; no prompt has a difference of its own.
    assert split.judge == pytest.approx(0.5, rel=0.1)
    assert split.seed == pytest.approx(2.0, rel=0.15)
    assert split.prompt == pytest.approx(0.0, abs=0.2)
    assert split.judgements == pytest.approx(3.0)


def test_outputs_without_seeds_are_the_seeds_of_their_prompt(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    a, b = (
        made_run(
            tmp_path / name,
            [{"prompt": str(p), "clip_score": float(rng.normal())} for p in range(400) for _ in range(4)],
        )
        for name in ("a", "b")
    )
    split = beholder.compare(a, b).row("clip_score").difference.variance
    assert split.seed == pytest.approx(2.0, rel=0.1)
    assert split.judge is None
    assert split.seeds_per_prompt == pytest.approx(4.0)
    assert split.prompt == pytest.approx(0.0, abs=0.15)


def test_order_of_rows_does_not_matter(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    values = [{"prompt": f"p{p}", "seed": s, "clip_score": float(rng.normal())} for p in range(30) for s in range(2)]
    other = [{**row, "clip_score": float(rng.normal())} for row in values]
    a, b = made_run(tmp_path / "a", values), made_run(tmp_path / "b", other)
    c = made_run(tmp_path / "c", [other[at] for at in rng.permutation(60)])
    one, two = beholder.compare(a, b).row("clip_score"), beholder.compare(a, c).row("clip_score")
    assert one.difference == two.difference
