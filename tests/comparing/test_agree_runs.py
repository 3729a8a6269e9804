"""Metrics against people: ratings, votes and sets read, checked and compared."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.comparing.made_runs import made_metric, made_run

import beholder
from beholder._errors import InputError, OptionError, UnknownNameError, UserError
from beholder.comparing.two_by_two import two_by_two

METHODS = ("x", "y", "z")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Sixty prompts, three methods; `good` follows the hidden quality, `noise` does not, `flat` never varies."""
    rng = np.random.default_rng(0)
    rows = []
    for p in range(60):
        for at, method in enumerate(METHODS):
            quality = float(at + rng.normal())
            values = {"good": quality + 0.3 * float(rng.normal()), "noise": float(rng.normal()), "flat": 0.5}
            rows.append({"id": f"{method}{p}", "prompt": f"p{p}", "method": method, "quality": quality, **values})
            rows[-1]["bad_is_good"] = -quality
    metrics = [made_metric("good"), made_metric("noise"), made_metric("flat"), made_metric("bad_is_good", higher=False)]
    return made_run(tmp_path / "run", rows, metrics)


def ratings(run: Path, raters: int = 3, seed: int = 1, **more: Any) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    table = beholder.open_run_folder(run).scores
    return [
        {"id": name, "rater": f"r{k}", "rating": int(np.clip(round(3 + quality + 0.3 * rng.normal()), 1, 5)), **more}
        for name, quality in zip(table["id"].to_pylist(), table["quality"].to_pylist())
        for k in range(raters)
    ]


def test_metrics_are_ranked_by_their_agreement(run: Path) -> None:
    found = beholder.agree(run, ratings(run))
    entry = found.questions[0]
    assert entry.metrics[0].label == "bad_is_good", "its direction is turned"
    good, noise, flat = (found.metric(name) for name in ("good", "noise", "flat"))
    assert good.accuracy.value > 0.7 > noise.accuracy.value  # type: ignore[operator]
    assert flat.accuracy.value == flat.constant == noise.constant
    assert flat.note == "it is constant"
    assert flat.statistics["tau_b"].value is None
    assert good.accuracy.interval.low < good.accuracy.value < good.accuracy.interval.high  # type: ignore[operator]
    assert (entry.n_ratings, entry.n_raters, good.n_items, good.n_prompts) == (540, 3, 180, 60)
    assert entry.alpha.value > 0.8  # type: ignore[operator]
    assert entry.person.value > good.random  # type: ignore[operator, union-attr]
    best = next(c for c in entry.contrasts if {c.a, c.b} == {"good", "noise"})
    assert best.difference.interval.high < 0  # type: ignore[operator]
    assert best.holm < 0.01  # type: ignore[operator]


def test_the_mean_of_the_raters_is_what_counts(run: Path) -> None:
    table = beholder.open_run_folder(run).scores
    ids = table["id"].to_pylist()
    # Two raters who cancel out on every output: all pairs tie for people.
    cancelled = [
        {"id": name, "rater": k, "rating": (n % 5) * (1 if k else -1)} for n, name in enumerate(ids) for k in (0, 1)
    ]
    found = beholder.agree(run, cancelled, calibration="none", metrics=["good"])
    assert found.metric("good").constant == 1.0
    assert found.metric("good").accuracy.value == 0.0


def test_ratings_by_columns_instead_of_ids(run: Path) -> None:
    by_id = ratings(run, 1)
    named = [{"prompt": f"p{row['id'][1:]}", "method": row["id"][0], "score": row["rating"]} for row in by_id]
    one, two = (beholder.agree(run, data).metric("good") for data in (by_id, named))
    assert one.accuracy == two.accuracy


def test_questions_are_answered_apart(run: Path) -> None:
    data = ratings(run, 2, question="quality") + ratings(run, 1, seed=9, question="style")
    found = beholder.agree(run, data, metrics=["good"])
    assert [(q.question, q.n_raters) for q in found.questions] == [("quality", 2), ("style", 1)]
    assert found.questions[1].alpha.note == "there is one rater"
    assert found.questions[1].person is None
    assert found.metric("good", "style").question == "style"


@pytest.mark.parametrize("form", ["csv", "tsv", "json", "jsonl"])
def test_files_of_every_form_read_alike(run: Path, tmp_path: Path, form: str) -> None:
    data = ratings(run, 1)
    path = tmp_path / f"h.{form}"
    if form in ("csv", "tsv"):
        mark = "," if form == "csv" else "\t"
        lines = [mark.join(data[0]), *(mark.join(str(v) for v in row.values()) for row in data)]
        path.write_text("\ufeff" + "\r\n".join(lines), encoding="utf-8")
    else:
        path.write_text(json.dumps(data) if form == "json" else "\n".join(map(json.dumps, data)), encoding="utf-8")
    assert beholder.agree(run, str(path)).metric("good") == beholder.agree(run, data).metric("good")


def test_all_faults_are_told_at_once_with_their_rows(run: Path) -> None:
    data = ratings(run, 1)[:6]
    data += [
        {"id": "nobody", "rater": "r0", "rating": 3},
        {"id": "z50", "rater": "r0", "rating": "good"},
        {"id": "z51", "rater": "r0", "rating": math.inf},
        {"id": data[2]["id"], "rater": "r0", "rating": 1},
        {"id": "z52", "rater": "r0"},
    ]
    with pytest.raises(InputError) as told:
        beholder.agree(run, data)
    assert [(fault.row, fault.where) for fault in told.value.faults] == [
        (7, None), (8, "rating"), (9, "rating"), (10, None), (11, "rating"),
    ]  # fmt: skip
    text = str(told.value)
    assert "no sample of the run has id 'nobody'" in text
    assert "stands in row 3 already" in text


def test_rows_that_name_several_samples_are_faults(run: Path) -> None:
    with pytest.raises(InputError, match="prompt 'p1' names 3 samples"):
        beholder.agree(run, [{"prompt": "p1", "rating": 3}])


def test_what_is_no_ratings_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="must have a column rating"):
        beholder.agree(run, [{"id": "x1", "stars": 3}])
    with pytest.raises(UserError, match="by id, or by columns"):
        beholder.agree(run, [{"who": "x1", "rating": 3}])
    with pytest.raises(UserError, match="CSV, TSV, JSON or JSONL"):
        beholder.agree(run, str(tmp_path / "missing.csv"))
    with pytest.raises(OptionError):
        beholder.agree(run, 7)
    with pytest.raises(OptionError, match="within, pooled"):
        beholder.agree(run, ratings(run), pairs="all")  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError):
        beholder.agree(run, ratings(run), metrics=["god"])
    assert beholder.agree(run, [{"id": "x1", "stars": 3}, {"id": "y1", "stars": 2}], mapping={"stars": "rating"})


def test_metrics_are_compared_on_the_items_that_all_have_a_value_of(tmp_path: Path) -> None:
    rows = [
        {"id": f"{p}{m}", "prompt": str(p), "a": None if p == 0 else float(m), "b": float(m)}
        for p in range(5)
        for m in range(3)
    ]
    run = made_run(tmp_path / "run", rows, [made_metric("a"), made_metric("b", higher=None)])
    data = [{"id": row["id"], "rating": row["b"]} for row in rows]
    found = beholder.agree(run, data, calibration="none")
    assert found.metric("b").n_items == found.metric("a").n_items == 12
    assert "3 of 15 rated items lack a value of a metric and are left out (a: 3 unreadable)" in found.notices
    assert any("b has no direction" in text for text in found.notices)
    assert found.metric("a").accuracy.value == 1.0
    with pytest.raises(UserError, match="must have values"):
        beholder.agree(run, data[:3])


def test_fewer_than_two_prompts_say_so(run: Path) -> None:
    one = [row for row in ratings(run, 1) if row["id"][1:] == "7"]
    found = beholder.agree(run, one, metrics=["good"]).metric("good")
    assert found.accuracy.value is None
    assert found.accuracy.interval.note == "a held-out threshold needs two prompts, got 1"
    paper = beholder.agree(run, one, metrics=["good"], calibration="paper").metric("good")
    assert paper.accuracy.value is not None
    assert paper.accuracy.interval.note == "no interval: it needs two prompts, got 1"


def test_pairs_within_a_prompt_need_prompts(tmp_path: Path) -> None:
    rows = [{"id": str(n), "good": float(n)} for n in range(10)]
    run = made_run(tmp_path / "run", rows, [made_metric("good")])
    data = [{"id": row["id"], "rating": row["good"]} for row in rows]
    with pytest.raises(UserError, match="prompt_id or prompt"):
        beholder.agree(run, data)
    assert beholder.agree(run, data, pairs="pooled", calibration="none").metric("good").accuracy.value == 1.0


# --- votes


def test_votes_give_accuracy_alpha_and_strengths(run: Path) -> None:
    data = [
        {"a": f"{one}{p}", "b": f"{other}{p}", "rater": k, "winner": "b" if (p + k) % 4 else f"{one}{p}"}
        for p in range(60)
        for one, other in (("x", "y"), ("y", "z"), ("x", "z"))
        for k in range(3)
    ]
    found = beholder.agree(run, data)
    entry = found.questions[0]
    assert (entry.kind, entry.n_raters, found.metric("good").n_items) == ("votes", 3, 180)
    assert set(found.metric("good").statistics) == {"tau_b"}
    assert entry.strengths["z"] > entry.strengths["y"] > entry.strengths["x"]
    # Every pair of methods was voted 3 to 1 for the later one.
    assert found.metric("good").accuracy.value > 0.5  # type: ignore[operator]


@pytest.mark.parametrize(
    ("votes", "tied"), [(("b", "tie", "tie"), False), (("a", "b", "tie"), True), (("b", "b", "a"), False)]
)
def test_the_end_with_more_votes_wins_and_a_vote_for_a_tie_counts_for_neither(
    run: Path, votes: tuple[str, ...], tied: bool
) -> None:
    data = [{"a": f"x{p}", "b": f"y{p}", "rater": k, "winner": vote} for p in range(60) for k, vote in enumerate(votes)]
    found = beholder.agree(run, data, calibration="none").metric("good")
    assert found.constant == (1.0 if tied else 0.0)


def test_faults_of_votes(run: Path) -> None:
    data = [
        {"a": "x1", "b": "y1", "winner": "a"},
        {"a": "y1", "b": "x1", "winner": "tie"},
        {"a": "x2", "b": "x2", "winner": "a"},
        {"a": "x3", "b": "gone", "winner": "a"},
        {"a": "x4", "b": "y4", "winner": "z4"},
    ]
    with pytest.raises(InputError) as told:
        beholder.agree(run, data)
    assert [(fault.row, fault.where) for fault in told.value.faults] == [(2, None), (3, None), (4, "b"), (5, "winner")]


def test_votes_between_sets_are_met_by_the_sets_headline_values(run: Path) -> None:
    data = [
        {"set_a": one, "set_b": other, "rater": k, "winner": "set_b"}
        for one, other in (("x", "y"), ("y", "z"), ("x", "z"))
        for k in range(3)
    ]
    found = beholder.agree(run, data)
    assert found.metric("good").accuracy.value == 1.0
    assert found.metric("bad_is_good").accuracy.value == 1.0
    assert found.metric("flat").accuracy.value == 0.0
    assert found.questions[0].strengths_note is not None
    with pytest.raises(InputError, match="no set of the run is called 'w'"):
        beholder.agree(run, [{"set_a": "w", "set_b": "x", "winner": "tie"}])


def test_sets_of_one_concept_each(tmp_path: Path) -> None:
    rows = [
        {
            "id": f"{m}{c}{n}",
            "prompt": "p",
            "method": m,
            "concept": f"c{c}",
            "good": (m == "new") * (1.0 if c else -1.0) + n / 10,
        }
        for m in ("old", "new")
        for c in range(3)
        for n in range(2)
    ]
    run = made_run(tmp_path / "run", rows, [made_metric("good")])
    data = [{"set_a": "old", "set_b": "new", "concept": f"c{c}", "winner": "new"} for c in range(3)]
    found = beholder.agree(run, data).metric("good")
    assert found.accuracy.value == pytest.approx(2 / 3)
    assert "3 concepts" in str(found.accuracy.interval.note)


# --- two by two


def test_winoground_items(tmp_path: Path) -> None:
    scores = {(0, 0): 0.9, (0, 1): 0.1, (1, 0): 0.2, (1, 1): 0.8}
    rows = [
        {"id": f"{n}{i}{c}", "item": n, "image": i, "caption": c, "good": value if n else 1 - value}
        for n in range(2)
        for (i, c), value in scores.items()
    ]
    run = made_run(tmp_path / "run", rows, [made_metric("good"), made_metric("low", higher=False)])
    found = two_by_two(run, ["item", "image", "caption"], metrics=["good"])
    assert {row.share: row.value for row in found.rows} == {"text": 0.5, "image": 0.5, "group": 0.5}
    assert [row.chance for row in found.rows] == [0.25, 0.25, 1 / 6]
    assert two_by_two(run, ["item", "image", "caption"], metrics=["low"]).notices == (
        "low: 2 of 2 items lack a value and are left out (8 unreadable)",
    )
    broken = made_run(tmp_path / "broken", rows[:-1] + rows[:1], [made_metric("good")])
    with pytest.raises(InputError) as told:
        two_by_two(broken, ["item", "image", "caption"])
    assert [fault.where for fault in told.value.faults] == ["item 0", "item 1"]
    with pytest.raises(OptionError):
        two_by_two(run, ["item"])
    with pytest.raises(UnknownNameError):
        two_by_two(run, ["item", "image", "text"])
