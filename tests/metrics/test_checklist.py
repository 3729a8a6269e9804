"""Checklists: which questions are right, what needs what, tags, and whole runs on a fake model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import beholder
from beholder import FakeModel, register_model
from beholder._errors import OptionError
from beholder.functional.checklist import Question, answered, by_tag, check_questions, right_answers
from beholder.manifest.schema import Sample
from beholder.media.sources import as_medium
from beholder.metrics.checklist import VqaChecklist, read_questions

HAT = [
    Question("1", "Is there a hat?", tag="object"),
    Question("2", "Is the hat red?", needs=("1",), tag="color"),
    Question("3", "Is the red hat tall?", needs=("2",), tag="color"),
    Question("4", "Is there a dog?", answer="no", tag="object"),
]


@pytest.mark.parametrize(
    ("answers", "right"),
    [
        (("yes", "yes", "yes", "no"), (1, 1, 1, 1)),
        (("no", "yes", "yes", "no"), (0, 0, 0, 1)),
        (("yes", "no", "yes", "yes"), (1, 0, 0, 0)),
        (("yes", "yes", "no", "no"), (1, 1, 0, 1)),
    ],
)
def test_a_question_counts_only_where_what_it_needs_is_right(answers: tuple[str, ...], right: tuple[int, ...]) -> None:
    found = right_answers(HAT, dict(zip("1234", answers, strict=True)))
    assert tuple(int(found[name]) for name in "1234") == right


def test_tags_are_counted() -> None:
    assert by_tag(HAT, {"1": True, "2": False, "3": True, "4": False}) == {"object": (1, 2), "color": (1, 2)}


def test_the_answer_of_choices_is_the_likeliest_and_the_first_of_equals() -> None:
    question = Question("1", "How many?", "two", choices=("one", "two", "three"))
    assert answered(question, [0.1, 0.6, 0.2]) == "two"
    assert answered(question, [0.3, 0.3, 0.3]) == "one"


def test_all_faults_of_a_checklist_are_said_at_once() -> None:
    wrong = [
        Question("1", "A?", needs=("2",)), Question("2", "B?", needs=("1",)), Question("2", "C?", needs=("9",)),
        Question("3", "D?", answer="red", choices=("blue",)),
    ]  # fmt: skip
    with pytest.raises(OptionError) as caught:
        check_questions(wrong)
    for part in ("'2' stands twice", "needs '9', which is none", "'red', not one of blue"):
        assert part in str(caught.value)
    with pytest.raises(OptionError, match="needs itself"):
        check_questions(wrong[:2])


def test_cells_are_read_in_every_form() -> None:
    plain = [{"q": "A?"}, {"q": "B?", "needs": 1, "answer": True}, {"question": "C?", "answer": "No", "needs": [0]}]
    expected = [Question("1", "A?"), Question("2", "B?", needs=("1",)), Question("3", "C?", answer="no")]
    assert read_questions(plain) == expected
    assert read_questions(json.dumps(plain)) == expected
    assert read_questions(["A?"]) == [Question("1", "A?")]
    tifa = {"q": "What colour?", "answer": "red", "choices": ["red", "blue"], "tag": "color"}
    assert read_questions([tifa]) == [Question("1", "What colour?", "red", (), "color", ("red", "blue"))]
    assert read_questions([{"q": "A?", "choices": ["yes", "no"]}]) == [Question("1", "A?")]
    for cell in (None, "", "  "):
        assert read_questions(cell) == []
    with pytest.raises(OptionError, match=r"number 1 is 5; number 3 is \{'q': ' '\}"):
        read_questions([5, "A?", {"q": " "}])
    for wrong in ("{", "5", 5, {"q": "A?"}):
        with pytest.raises(OptionError, match="must be"):
            read_questions(wrong)


def ask(question: str, **choice: str) -> str:
    if choice:
        return f'{question} Is the answer "{choice["choice"]}"? Please answer yes or no.'
    return f"{question} Please answer yes or no."


@pytest.fixture
def picture(tmp_path: Path) -> str:
    Image.new("RGB", (8, 8), (9, 9, 9)).save(tmp_path / "a.png")
    return str(tmp_path / "a.png")


def test_a_run_scores_checklists_and_keeps_the_evidence(tmp_path: Path, picture: str) -> None:
    values = {
        ask("Is there a hat?"): 0.9, ask("Is the hat red?"): 0.4, ask("Is the red hat tall?"): 0.8,
        ask("Is there a dog?"): 0.2, ask("How many?", choice="one"): 0.3, ask("How many?", choice="two"): 0.7,
    }  # fmt: skip
    register_model("checks", FakeModel("AnswerScorer", values=values, refuse_on="secret"))
    hat: list[Any] = [
        {"id": q.id, "q": q.text, "answer": q.answer, "needs": list(q.needs), "tag": q.tag, "choices": []} for q in HAT
    ]
    count = [{"id": "1", "q": "How many?", "answer": "two", "choices": ["one", "two"], "tag": "count", "needs": []}]
    rows = [
        {"id": "hat", "output": picture, "questions": hat},
        {"id": "json", "output": picture, "questions": json.dumps(hat)},
        {"id": "count", "output": picture, "questions": count},
        {"id": "none", "output": picture, "questions": None},
        {"id": "wrong", "output": picture, "questions": [{"q": "A?", "needs": "7"}]},
        {"id": "refused", "output": picture, "questions": ["Is it secret?", "Is there a hat?"]},
    ]
    run = beholder.evaluate(
        rows,
        metrics="vqa_checklist(model=checks)",
        out=str(tmp_path / "out"),
        store=str(tmp_path / "s"),
        max_failed=1.0,
    )
    table = {row["id"]: row for row in run.scores.to_pylist()}
    # right: the hat and no dog; its colour is answered wrongly, so its height does not count
    assert table["hat"]["vqa_checklist"] == table["json"]["vqa_checklist"] == 0.5
    assert table["count"]["vqa_checklist"] == 1.0
    statuses = {
        name: row["vqa_checklist_status"] for name, row in table.items() if name in ("none", "wrong", "refused")
    }
    assert statuses == {"none": "not_applicable", "wrong": "failed", "refused": "refused"}
    evidence = json.loads(table["hat"]["vqa_checklist_evidence"])
    assert evidence["tags"] == {"object": [2, 2], "color": [0, 2]}
    assert [item["right"] for item in evidence["questions"]] == [True, False, False, True]
    assert evidence["questions"][0]["p_yes"] == pytest.approx([0.9], abs=1e-6)
    free = beholder.evaluate(
        rows[:1], metrics="vqa_checklist(model=checks, needs=false)", out=str(tmp_path / "b"), store=str(tmp_path / "s")
    )
    assert free.scores.column("vqa_checklist").to_pylist() == [0.75]


def test_a_videos_answer_is_the_mean_of_its_frames(tmp_path: Path) -> None:
    model = FakeModel("AnswerScorer")
    register_model("checks", model)
    folder = tmp_path / "clip"
    folder.mkdir()
    for at in range(3):
        Image.new("RGB", (8, 8), (40 * at, 9, 9)).save(folder / f"{at}.png")
    rows = [{"id": "a", "output": str(folder), "questions": ["A?", "B?"]}]
    run = beholder.evaluate(
        rows, metrics="vqa_checklist(model=checks, frames=all)", out=str(tmp_path / "out"), store=str(tmp_path / "s")
    )
    (row,) = run.scores.to_pylist()
    pictures = [np.asarray(Image.open(folder / f"{at}.png")) for at in range(3)]
    from beholder.media.base import Picture

    units = [model.prepare([Picture(pixels, (8, 8), "RGB")]) for pixels in pictures]
    for at, text in enumerate(("A?", "B?")):
        each = np.exp([model.answer([unit], [(0, ask(text))]).columns["yes"][0] for unit in units])
        found = json.loads(row["vqa_checklist_evidence"])["questions"][at]["p_yes"]
        assert found == pytest.approx([each.mean()], abs=1e-6)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"question_template": "Yes or no?"}, "question_template must hold {question}"),
        ({"choice_template": "{question}"}, "choice_template must hold {question} and {choice}"),
    ],
)
def test_templates_need_their_places(options: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        VqaChecklist({"model": "checks", **options})


def test_braces_of_a_question_stay(picture: str) -> None:
    asked = {"q": "Is it {choice}?", "answer": "{question}", "choices": ["{question}", "b"]}
    sample = Sample("a", as_medium(picture), extras={"questions": [asked]})
    pairs: Any = VqaChecklist({"model": "checks"}).select(sample)["answer"]
    assert [pair.text for pair in pairs] == [
        ask("Is it {choice}?", choice="{question}"), ask("Is it {choice}?", choice="b"),
    ]  # fmt: skip
