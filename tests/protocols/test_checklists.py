"""`beholder bench dsg` and `tifa`: questions in their published forms, scores by model and part, answers by tag."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.protocols.bench_data import DSG_CSV, TIFA_QUESTIONS, picture

import beholder as package
from beholder.protocol_runs import bench, check_data, make_protocol
from beholder.protocols.checklist_data import dsg_category
from beholder.protocols.checklists import DSG_PUBLISHED, DSG_SOURCE

SPEC = "vqa_checklist(model=always)"


@pytest.fixture
def answers() -> Callable[[dict[str, float]], None]:
    """Registers the model `always`, whose P(yes) to the questions is given."""

    def register(known: dict[str, float]) -> None:
        values = {f"{question} Please answer yes or no.": p for question, p in known.items()}
        package.register_model("always", package.FakeModel("AnswerScorer", "always", values=values))

    return register


@pytest.fixture(autouse=True)
def some_model(answers: Callable[[dict[str, float]], None]) -> None:
    """A model of the name that `SPEC` asks for; tests that score give its answers."""
    answers({})


def dsg_folder(folder: Path, models: tuple[str, ...] = ("a", "b")) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dsg-1k-anns.csv").write_text(DSG_CSV)
    for at, model in enumerate(models):
        picture(folder / model / "countbench_1.png", at)
        picture(folder / "images" / model / "vrd_5_s3.jpg", 10 + at)
    return folder


def test_dsgs_questions_come_with_their_dependencies_and_tags(tmp_path: Path) -> None:
    source = make_protocol("dsg").source(dsg_folder(tmp_path))
    source.check()
    samples = {(sample.method, sample.prompt_id): sample for sample in source}
    assert set(samples) == {(model, item) for model in "ab" for item in ("countbench_1", "vrd_5")}
    one = samples["a", "countbench_1"]
    assert one.prompt == "two red hats"
    assert one.extras["category"] == "count"
    assert [q["q"] for q in one.extras["questions"]] == ["Are there hats?", "Are the hats red?", "Are there two hats?"]
    assert [q["needs"] for q in one.extras["questions"]] == [[], ["1"], ["1", "2"]]
    assert [q["tag"] for q in one.extras["questions"]] == ["entity - whole", "attribute - color", "other - count"]
    two = samples["b", "vrd_5"]
    assert two.seed == 3
    assert two.extras["questions"][0]["tag"] == "global"


def test_the_parts_of_dsg_1k_are_read_from_ids() -> None:
    names = {"tifa160_135": "tifa", "vrd_57": "relation", "posescript_93": "pose", "whoops_5": "defying",
             "drawtext_5": "text", "midjourney_41": "real_user", "diffusiondb_1": "real_user",
             "stanford_paragraph_3": "paragraph", "localized_narratives_95": "paragraph", "mine_7": "mine"}  # fmt: skip
    assert {name: dsg_category(name) for name in names} == names


def test_scores_and_answers_by_tag_respect_dependencies(tmp_path: Path, answers: Callable[..., None]) -> None:
    # Hats are seen, their colour is not: what needs the colour cannot count, though its own answer is yes.
    answers({"Are there hats?": 0.9, "Are the hats red?": 0.2, "Are there two hats?": 0.8,
             "Is this a photo?": 0.7, "Is there a cat?": 0.1})  # fmt: skip
    found = bench("dsg", dsg_folder(tmp_path / "data"), metrics=SPEC, out=str(tmp_path / "run"))
    scores, tags = found.results.table("scores"), found.results.table("tags")
    assert scores.number("a", "count", column="vqa_checklist").value == pytest.approx(1 / 3)
    assert scores.number("a", "relation", column="vqa_checklist").value == pytest.approx(1 / 2)
    mean = scores.number("a", "all", column="vqa_checklist")
    assert mean.value == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert mean.n == 2
    wanted = {"entity": (1 / 2, 2), "entity - whole": (1 / 2, 2), "attribute": (0, 1), "attribute - color": (0, 1),
              "other": (0, 1), "other - count": (0, 1), "global": (1, 1), "all": (2 / 5, 5)}  # fmt: skip
    assert {row[1] for row, _ in tags.rows if row[0] == "a"} == set(wanted)
    for tag, (value, n) in wanted.items():
        number = tags.number("a", tag, column="vqa_checklist")
        assert (number.value, number.n) == (pytest.approx(value), n), tag
    everything = tags.number("a", "all", column="vqa_checklist")
    assert everything.low is not None
    assert everything.high is not None
    assert everything.low <= 2 / 5 <= everything.high
    assert found.results.counts == {"outputs": 4, "prompts": 2, "models": {"a": 2, "b": 2}}


def test_the_mean_over_questions_weighs_prompts_by_their_questions(
    tmp_path: Path, answers: Callable[..., None]
) -> None:
    answers({"q1": 0.9, "q2": 0.9, "q3": 0.9, "q4": 0.1})
    rows = [
        {"output": str(picture(tmp_path / "1.png", 1)), "prompt": "x", "questions": [{"q": q, "tag": "t"} for q in
                                                                                     ("q1", "q2", "q3")]},
        {"output": str(picture(tmp_path / "2.png", 2)), "prompt": "y", "questions": [{"q": "q4", "tag": "t"}]},
    ]  # fmt: skip
    found = bench("dsg", rows, metrics=SPEC, out=str(tmp_path / "run"))
    assert found.results.table("tags").number("(all outputs)", "t", column="vqa_checklist").value == 3 / 4
    assert found.results.table("scores").number("(all outputs)", "all", column="vqa_checklist").value == 1 / 2


def test_the_interval_of_a_tag_is_over_prompts(tmp_path: Path, answers: Callable[..., None]) -> None:
    answers({f"q{at}": 0.9 if at % 3 else 0.1 for at in range(12)})
    rows = [
        {"output": str(picture(tmp_path / f"{at}.png", at)), "prompt": f"p{at // 2}",
         "questions": [{"q": f"q{at}", "tag": "t"}]} for at in range(12)
    ]  # fmt: skip
    found = bench("dsg", rows, metrics=SPEC, out=str(tmp_path / "run"))
    number = found.results.table("tags").number("(all outputs)", "t", column="vqa_checklist")
    right = np.array([at % 3 != 0 for at in range(12)], dtype=float).reshape(6, 2).sum(axis=1)
    order = np.sort(right)
    drawn = np.random.default_rng(0).integers(0, 6, size=(1000, 6))
    ends = np.quantile(order[drawn].sum(axis=1) / 12, [0.025, 0.975])
    assert (number.low, number.high) == (pytest.approx(ends[0]), pytest.approx(ends[1]))
    assert (number.n, number.n_units) == (12, 6)


def test_dsgs_published_row_is_shown_for_its_own_items_only(tmp_path: Path, answers: Callable[..., None]) -> None:
    answers({})
    found = bench("dsg", dsg_folder(tmp_path / "data"), metrics=SPEC, out=str(tmp_path / "run"))
    theirs = [number for number in found.results.table("scores").numbers if number.is_published]
    assert {number.row[1]: number.value for number in theirs} == {
        name: DSG_PUBLISHED[name] for name in ("count", "relation", "all")
    }
    assert {number.source for number in theirs} == {DSG_SOURCE}
    rows = [{"output": str(picture(tmp_path / "1.png", 1)), "prompt": "x", "questions": [{"q": "q"}]}]
    other = bench("dsg", rows, metrics=SPEC, out=str(tmp_path / "other"))
    assert not any(number.is_published for number in other.results.table("scores").numbers)


def tifa_folder(folder: Path, *, listed: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tifa_v1.0_question_answers.json").write_text(json.dumps(TIFA_QUESTIONS))
    if listed:
        picture(folder / "one.png", 1)
        picture(folder / "two.png", 2)
        places = {"coco_1": "one.png", "drawbench_2": "two.png"}
        (folder / "sample_imgs.json").write_text(json.dumps(places))
    else:
        for at, name in enumerate(("coco_1", "drawbench_2")):
            picture(folder / "sd" / f"{name}.jpg", at)
    return folder


@pytest.mark.parametrize("listed", [False, True])
def test_tifas_questions_with_choices_are_answered_by_the_likeliest(
    tmp_path: Path, answers: Callable[..., None], listed: bool
) -> None:
    template = 'how many cats are there? Is the answer "{}"?'
    answers({"are there cats?": 0.9, template.format(2): 0.3, template.format(3): 0.6, template.format(4): 0.5,
             "is the car red?": 0.4})  # fmt: skip
    found = bench("tifa", tifa_folder(tmp_path / "data", listed=listed), metrics=SPEC, out=str(tmp_path / "run"))
    method = "(all outputs)" if listed else "sd"
    tags = found.results.table("tags")
    wanted = {"animal/human": 1.0, "counting": 1.0, "color": 0.0, "all": 2 / 3}
    assert {row[1]: tags.number(*row, column="vqa_checklist").value for row, _ in tags.rows} == pytest.approx(wanted)
    assert found.results.table("scores").number(method, "all", column="vqa_checklist").value == 1 / 2


def test_outputs_without_a_prompt_and_prompts_without_an_output_are_named(tmp_path: Path) -> None:
    folder = dsg_folder(tmp_path)
    picture(folder / "a" / "whoops_9.png", 5)
    (folder / "b" / "countbench_1.png").unlink()
    report = check_data("dsg", folder)
    assert any("named after no prompt: 1 (a/whoops_9.png)" in text for text in report.notices)
    assert any("prompts without an output of b: 1 (countbench_1)" in text for text in report.notices)
    assert report.exit_code == 0
    assert report.counts["questions"] == 7
    assert report.counts["questions_by_tag"]["attribute - color"] == 1


def test_a_question_that_needs_one_that_is_not_there_is_told_with_its_row(tmp_path: Path) -> None:
    folder = dsg_folder(tmp_path)
    (folder / "dsg-1k-anns.csv").write_text(DSG_CSV.replace('"1,2"', '"1,7"'))
    report = check_data("dsg", folder)
    assert [fault.row for fault in report.faults] == [1, 2]
    assert all("needs '7'" in fault.message for fault in report.faults)
    assert report.exit_code == 2


def test_a_file_of_questions_with_holes_is_a_fault_of_form(tmp_path: Path) -> None:
    folder = dsg_folder(tmp_path / "dsg")
    text = DSG_CSV.replace("Are the hats red?", "")
    (folder / "dsg-1k-anns.csv").write_text(text)
    with pytest.raises(package.InputError, match=r"row 2.*question_natural_language"):
        bench("dsg", folder, metrics=SPEC, out=str(tmp_path / "run"))
    other = tifa_folder(tmp_path / "tifa")
    (other / "tifa_v1.0_question_answers.json").write_text('[{"id": "x", "caption": "y"}]')
    with pytest.raises(package.InputError, match="question, answer"):
        bench("tifa", other, metrics=SPEC, out=str(tmp_path / "run"))


def test_outputs_without_questions_are_warned_of_and_have_no_value(
    tmp_path: Path, answers: Callable[..., None]
) -> None:
    answers({"q": 0.9})
    rows = [
        {"output": str(picture(tmp_path / f"{at}.png", at)), "prompt": "x", "questions": [{"q": "q"}] if at else None}
        for at in range(2)
    ]
    assert any("outputs without questions, which have no value: 1" in text for text in check_data("dsg", rows).warnings)
    found = bench("dsg", rows, metrics=SPEC, out=str(tmp_path / "run"))
    number = found.results.table("scores").number("(all outputs)", "all", column="vqa_checklist")
    assert (number.value, number.n, number.n_missing) == (1.0, 1, {"not_applicable": 1})
    assert found.run.exit_code == 0


def test_a_folder_without_outputs_says_so(tmp_path: Path) -> None:
    (tmp_path / "dsg-1k-anns.csv").write_text(DSG_CSV)
    with pytest.raises(package.InputError, match="no picture below"):
        bench("dsg", tmp_path, metrics=SPEC, out=str(tmp_path / "run"))


def test_the_test_data_has_the_published_columns() -> None:
    head = next(csv.reader(io.StringIO(DSG_CSV)))
    assert head == ["item_id", "text", "keywords", "proposition_id", "dependency", "category_broad",
                    "category_detailed", "tuple", "question_natural_language"]  # fmt: skip


def test_the_command_runs_a_checklist(beholder: Callable[..., Any], tmp_path: Path) -> None:
    done = beholder(
        "bench", "tifa", tifa_folder(tmp_path / "d"), "-m", "vqa_checklist,model=fake", "-o", tmp_path / "r"
    )
    assert done.exit_code == 0, done.stderr
    assert "Right answers by tag" in done.stdout
    assert "animal/human" in done.stdout
