"""Gates and plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.comparing.made_runs import made_metric, made_run

import beholder
from beholder._errors import OptionError, UnknownNameError, UserError
from beholder.comparing.gate import gate, parse_drops, parse_requirement
from beholder.comparing.plan import plan
from beholder.report.gate import gate_junit


def scored(folder: Path, shift: float = 0.0, *, missing: int = 0, noise: int = 1, **changes: Any) -> Path:
    """A hundred prompts of mean 0.5 and their noise of 0.01; `down` is a metric of which less is better."""
    own, rng = np.random.default_rng(0).normal(0.5, 0.1, size=100), np.random.default_rng(noise)
    rows = []
    for p in range(100):
        value = None if p < missing else float(own[p] + shift + 0.01 * rng.normal())
        rows.append({"prompt": str(p), "kind": "ab"[p % 2], "clip_score": value, "down": value, "plain": value})
    metrics = [made_metric("clip_score"), made_metric("down", higher=False), made_metric("plain", higher=None)]
    return made_run(folder, rows, metrics, **changes)


@pytest.mark.parametrize(
    ("shift", "label", "outcome"),
    [
        (0.0, "clip_score", "pass"),
        (-0.05, "clip_score", "fail"),
        (-0.01, "clip_score", "inconclusive"),
        (0.05, "clip_score", "pass"),
        (0.05, "down", "fail"),
        (-0.05, "down", "pass"),
        (0.01, "down", "inconclusive"),
    ],
)
def test_a_drop_is_judged_by_its_interval_in_the_metrics_direction(
    tmp_path: Path, shift: float, label: str, outcome: str
) -> None:
    base, new = scored(tmp_path / "base"), scored(tmp_path / "new", shift, noise=2)
    found = gate(new, baseline=base, max_drop={label: 0.01})
    assert [check.outcome for check in found.checks] == [outcome, "pass"]
    assert found.passed == (outcome == "pass")
    lenient = gate(new, baseline=base, max_drop={label: 0.01}, inconclusive="pass")
    assert lenient.passed == (outcome != "fail")


def test_a_requirement_must_be_met_by_the_whole_interval(tmp_path: Path) -> None:
    run = scored(tmp_path / "run")
    for text, passed in (
        ("clip_score>=0.4", True),
        ("clip_score >= 0.5", False),
        ("clip_score<0.6", True),
        ("plain>0.7", False),
    ):
        found = gate(run, require=[text])
        assert found.passed is passed, text
        assert found.checks[0].low < found.checks[0].value < found.checks[0].high  # type: ignore[operator]
    assert "its whole interval does not" in gate(run, require=["clip_score>=0.5"]).checks[0].text


def test_groups_are_checked_too(tmp_path: Path) -> None:
    base, new = scored(tmp_path / "base"), scored(tmp_path / "new", noise=2)
    found = gate(new, baseline=base, max_drop={"clip_score": 0.02}, require=["clip_score>0.3"], by=["kind"])
    groups = [(check.name.split()[0], dict(check.group)) for check in found.checks]
    for name in ("max-drop", "require"):
        assert [group for kind, group in groups if kind == name] == [{}, {"kind": "a"}, {"kind": "b"}]


def test_missing_values_are_gated(tmp_path: Path) -> None:
    base, new = scored(tmp_path / "base"), scored(tmp_path / "new", 0.01, missing=3)
    found = gate(new, baseline=base, max_drop={"clip_score": 0.02})
    assert [check.outcome for check in found.checks] == ["pass", "fail"]
    assert found.checks[1].value == pytest.approx(0.03)
    assert gate(new, baseline=base, max_drop={"clip_score": 0.02}, max_missing_rise=0.03).passed
    assert not gate(new, min_coverage=0.98).passed
    assert gate(new, min_coverage=0.97).passed


def test_missing_values_are_gated_in_every_group(tmp_path: Path) -> None:
    # Six of one kind are lost: 6 % of all, 12 % of that kind, none of the other.
    def made(name: str, lost: int) -> Path:
        rows = [
            {
                "prompt": str(p),
                "kind": "ab"[p % 2],
                "clip_score": None if p % 2 == 0 and p < 2 * lost else 0.5 + p / 500,
            }
            for p in range(100)
        ]
        return made_run(tmp_path / name, rows)

    base, new = made("base", 0), made("new", 6)
    found = gate(new, baseline=base, max_drop={"clip_score": 9.0}, by=["kind"], max_missing_rise=0.1)
    missing = [check for check in found.checks if check.name.startswith("missing")]
    assert [(dict(check.group), check.outcome) for check in missing] == [
        ({}, "pass"), ({"kind": "a"}, "fail"), ({"kind": "b"}, "pass"),
    ]  # fmt: skip
    assert [check.value for check in missing] == pytest.approx([0.06, 0.12, 0.0])
    assert not found.passed


def test_a_check_that_rests_on_little_says_so(tmp_path: Path) -> None:
    rows = [{"prompt": str(p), "clip_score": p / 10} for p in range(4)]
    base, new = made_run(tmp_path / "base", rows), made_run(tmp_path / "new", rows)
    found = gate(new, baseline=base, max_drop={"clip_score": 0.1}, require=["clip_score>=-1"])
    assert "optimistic: the interval rests on 4 prompts only" in found.checks[0].text
    assert "the interval rests on 4 prompts only" in found.checks[2].text


def test_without_values_or_intervals_nothing_passes_by_itself(tmp_path: Path) -> None:
    none = scored(tmp_path / "none", missing=100)
    found = gate(none, require=["clip_score>=0"])
    assert (found.checks[0].outcome, found.checks[0].value) == ("fail", None)
    one = made_run(tmp_path / "one", [{"prompt": "x", "clip_score": 0.5}])
    other = made_run(tmp_path / "other", [{"prompt": "x", "clip_score": 0.4}])
    assert gate(one, require=["clip_score>=0.1"]).checks[0].outcome == "inconclusive"
    assert gate(one, baseline=other, max_drop={"clip_score": 0.1}).checks[0].outcome == "inconclusive"
    base = scored(tmp_path / "base")
    assert (
        gate(none, baseline=base, max_drop={"clip_score": 9.0}, max_missing_rise=1.0).checks[0].outcome
        == "inconclusive"
    )


def test_what_a_gate_refuses(tmp_path: Path) -> None:
    run = scored(tmp_path / "run")
    other = scored(tmp_path / "other", models={"k1": {"weights_sha256": "b" * 64}})
    with pytest.raises(UserError, match="something to check"):
        gate(run)
    with pytest.raises(UserError, match="needs a baseline"):
        gate(run, max_drop={"clip_score": 0.1})
    with pytest.raises(UserError, match="has none"):
        gate(run, baseline=scored(tmp_path / "base"), max_drop={"plain": 0.1})
    with pytest.raises(UserError, match="made in one way"):
        gate(run, baseline=other, max_drop={"clip_score": 0.1})
    with pytest.raises(UnknownNameError):
        gate(run, require=["clip>=0.3"])
    for bad in ({"inconclusive": "maybe"}, {"min_coverage": 2.0}, {"max_missing_rise": -1.0}):
        with pytest.raises(OptionError):
            gate(run, require=["clip_score>=0.3"], **bad)  # type: ignore[arg-type]


def test_forms_of_requirements_and_drops() -> None:
    found = parse_requirement(" clip_i(reduce=max) >= 3e-1 ")
    assert (found.label, found.sign, found.bound, str(found)) == (
        "clip_i(reduce=max)",
        ">=",
        0.3,
        "clip_i(reduce=max)>=0.3",
    )
    for text in ("clip_score", "clip_score>=", ">=0.3", "clip_score=0.3", "clip_score>=nan", "clip_score>=x"):
        with pytest.raises(OptionError):
            parse_requirement(text)
    assert parse_drops(["clip_i(reduce=max)=0.1", "0.2"], ["m"]) == {"clip_i(reduce=max)": 0.1, "m": 0.2}
    for text in ("m=", "m=-1", "m=inf", "0.3", "m"):
        with pytest.raises(OptionError):
            parse_drops([text], [])


def test_junit_holds_every_check(tmp_path: Path) -> None:
    base, new = scored(tmp_path / "base"), scored(tmp_path / "new", -0.01, noise=2)
    found = gate(new, baseline=base, max_drop={"clip_score": 0.01}, require=["clip_score>=0.1"], by=["kind"])
    for lenient, failures in ((False, 3), (True, 0)):
        suite = ElementTree.fromstring(gate_junit(found, inconclusive_passes=lenient).encode())
        assert (suite.get("tests"), suite.get("failures")) == (str(len(found.checks)), str(failures))
        assert len(suite.findall("testcase/failure")) == failures


def test_junit_takes_any_text(tmp_path: Path) -> None:
    rows = [{"prompt": str(p), "kind": '<a & "b">\x00\ufffe', "clip_score": p / 10} for p in range(4)]
    found = gate(made_run(tmp_path / "run", rows), require=["clip_score>=9"], by=["kind"])
    suite = ElementTree.fromstring(gate_junit(found, inconclusive_passes=False).encode("utf-8"))
    names = [case.get("name") for case in suite.findall("testcase")]
    assert names == ["require clip_score>=9", 'require clip_score>=9 [kind=<a & "b">  ]']


# --- plans


def seeded(folder: Path, shift: float, *, seeds: int = 2, noise: int) -> Path:
    """Prompts of sd 1, seeds of sd 0.5, differences of prompts of sd 0.2."""
    own = np.random.default_rng(0).normal(size=400)
    rng = np.random.default_rng(noise)
    mine = 0.2 * rng.normal(size=400)
    rows = [
        {"prompt": str(p), "seed": s, "clip_score": shift + float(own[p] + mine[p] + 0.5 * rng.normal())}
        for p in range(400)
        for s in range(seeds)
    ]
    return made_run(folder, rows)


def test_a_plan_from_two_runs_rests_on_their_differences(tmp_path: Path) -> None:
    a, b = seeded(tmp_path / "a", 0.0, noise=1), seeded(tmp_path / "b", 0.1, noise=2)
    entry = plan(a, b, detect=0.05, seeds=(1, 4)).entries[0]
    assert (entry.basis, entry.n_prompts) == ("paired", 400)
    # Differences: prompts 2·0.04, seeds 2·0.25.
    assert entry.variance.prompt == pytest.approx(0.08, abs=0.05)
    assert entry.variance.seed == pytest.approx(0.5, rel=0.15)
    for need in entry.needs:
        variance = entry.variance.prompt + entry.variance.seed / need.seeds  # type: ignore[operator]
        assert need.prompts == pytest.approx(7.849 * variance / 0.05**2, rel=0.01)


def test_a_plan_from_one_run_gives_both_bounds(tmp_path: Path) -> None:
    found = plan(seeded(tmp_path / "a", 0.0, noise=1), detect=0.05)
    most, least = found.entries
    assert (most.basis, least.basis) == ("unpaired", "prompts cancel")
    assert most.variance.prompt == pytest.approx(2 * 1.04, rel=0.2)
    assert least.variance.prompt == 0.0
    assert most.variance.seed == least.variance.seed == pytest.approx(0.5, rel=0.15)
    paired = plan(tmp_path / "a", seeded(tmp_path / "b", 0.0, noise=2), detect=0.05).entries[0]
    for low, middle, high in zip(least.needs, paired.needs, most.needs):
        assert low.prompts < middle.prompts < high.prompts  # type: ignore[operator]


def test_a_plan_from_three_sides_has_an_entry_for_each(tmp_path: Path) -> None:
    runs = [seeded(tmp_path / name, 0.0, noise=at) for at, name in enumerate("abc")]
    assert [entry.pair for entry in plan(*runs, detect=0.1).entries] == ["b − a", "c − a"]


def test_what_a_plan_cannot_tell(tmp_path: Path) -> None:
    one_seed = plan(seeded(tmp_path / "a", 0.0, seeds=1, noise=1), detect=0.05).entries
    assert [entry.basis for entry in one_seed] == ["unpaired"]
    assert one_seed[0].note == "one seed a prompt: more seeds may help more than is told"
    tiny = made_run(tmp_path / "tiny", [{"prompt": "x", "seed": s, "clip_score": float(s)} for s in range(3)])
    entry = plan(tiny, detect=0.1).entries[0]
    assert (entry.note, entry.detectable, entry.needs[0].prompts) == ("no plan: it needs two prompts", None, None)
    for bad in ({"detect": 0.0}, {"detect": 1.0, "power": 0.1}, {"detect": 1.0, "seeds": [0]}):
        with pytest.raises(OptionError):
            plan(tiny, **bad)  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError):
        plan(tiny, detect=1.0, metrics=["nothing"])


def test_prompts_of_one_concept_are_no_independent_evidence(tmp_path: Path) -> None:
    # Concepts of sd 1 with five prompts of sd 0.1: twice the prompts within the same concepts would tell nothing new.
    rng = np.random.default_rng(3)
    runs = []
    for name in "ab":
        own = rng.normal(size=60)
        rows = [
            {"prompt": f"{c}-{p}", "concept": f"c{c}", "clip_score": float(own[c] + 0.1 * rng.normal())}
            for c in range(60)
            for p in range(5)
        ]
        runs.append(made_run(tmp_path / name, rows))
    entry = plan(*runs, detect=0.2, seeds=[1]).entries[0]
    assert entry.variance.concept == pytest.approx(2.0, rel=0.4)
    assert entry.variance.prompt == pytest.approx(0.02, rel=0.3)
    assert "counted at 5 a concept" in str(entry.note)
    # Of the 60 concepts' mean differences alone: the least number of concepts that a t test needs, times five.
    a, b = ([row["clip_score"] for row in beholder.open_run_folder(run).scores.to_pylist()] for run in runs)
    sd = float((np.array(b) - np.array(a)).reshape(60, 5).mean(axis=1).std(ddof=1))
    assert entry.needs[0].prompts == pytest.approx(5 * (7.849 * sd**2 / 0.2**2 + 2), rel=0.02)
    one = plan(runs[0], detect=0.2, seeds=[1]).entries[0]
    assert one.variance.concept == pytest.approx(2.0, rel=0.4)
    assert one.detectable == pytest.approx(entry.detectable, rel=0.4)
