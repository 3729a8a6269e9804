"""VQA checklists: the share of a sample's questions that a model answers rightly: DSG, TIFA, or one's own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from beholder._errors import NoValue, OptionError
from beholder._identity import OptionValue
from beholder.functional.answers import probability
from beholder.functional.checklist import Question, answered, by_tag, check_questions, right_answers
from beholder.manifest.schema import Sample
from beholder.metrics.base import FeatureBatch, Pair, SampleMetric, ScoreColumns, Selection, Slot
from beholder.metrics.frames import FRAMES
from beholder.metrics.outcome import make_scores, truncation_evidence
from beholder.metrics.questions import DEFAULT_MODEL, answer_statuses
from beholder.metrics.text_image import is_blank, output_of
from beholder.records import MetricInfo, OptionInfo, Status

QUESTION_TEMPLATE = "{question} Please answer yes or no."
CHOICE_TEMPLATE = '{question} Is the answer "{choice}"? Please answer yes or no.'

_QUESTION_PLACES = ("{question}",)
_CHOICE_PLACES = ("{question}", "{choice}")


class VqaChecklist(SampleMetric):
    """`vqa_checklist`: see its card."""

    info = MetricInfo(
        name="vqa_checklist",
        family="vqa",
        kind="sample",
        summary="Share of a sample's own questions that a model answers rightly about the output.",
        inputs=("output", "questions"),
        formula=(
            "right questions / questions; a question is right when its answer is and all questions that it needs are "
            "right; the answer is yes where P(yes) > P(no), and of several choices the one with the highest P(yes)"
        ),
        unit="share of questions",
        range=(0.0, 1.0),
        higher_is_better=True,
        degenerate=(
            "A row without questions has the status not_applicable; a checklist that cannot be scored (unknown needs, "
            "an answer that is none of the choices) has the status failed; a model that says neither yes nor no to one "
            "of the questions has the status unparsable."
        ),
        paper="Cho et al., Davidsonian Scene Graph: Improving Reliability in Fine-Grained Evaluation, arXiv 2310.18235",
        reference_code="https://github.com/j-min/DSG",
        version="1",
        capability="AnswerScorer",
        default_model=DEFAULT_MODEL,
        options=(
            OptionInfo("model", DEFAULT_MODEL, "Vision-language model; --model does not change it."),
            OptionInfo("question_template", QUESTION_TEMPLATE, "How a yes-or-no question is asked."),
            OptionInfo("choice_template", CHOICE_TEMPLATE, "How one of several choices is asked about."),
            OptionInfo("needs", True, "A question counts only where those that it needs are right.", kind="bool"),
            OptionInfo("questions", "questions", "Column that holds the questions."),
            FRAMES,
        ),
        notes=(
            'A cell of questions is a list of {"q", "answer", "needs", "tag", "id", "choices"}; "answer" is "yes" '
            "where there is none; needs are ids, or numbers from 1 on where questions have no ids.",
            "The evidence holds each question with its answer and P(yes), and the right and all questions of each tag.",
            "A video's frames are asked one by one unless the model takes videos; their probabilities are averaged.",
            "Choices are asked about one by one, so answers of the free form of TIFA can be told apart by likelihood.",
        ),
    )

    def __init__(
        self, options: Mapping[str, OptionValue | None] | None = None, *, default_model: str | None = None
    ) -> None:
        super().__init__(options, default_model=default_model)
        for name, places in (("question_template", _QUESTION_PLACES), ("choice_template", _CHOICE_PLACES)):
            template = str(self.options[name])
            if any(place not in template for place in places):
                raise OptionError(f"{name} must hold {' and '.join(places)}", got=repr(template))

    @classmethod
    def takes_model(cls) -> bool:
        return False

    @property
    def slots(self) -> tuple[Slot, ...]:
        frames = str(self.options["frames"])
        params = (("answer", "Yes"),)
        return (Slot("answer", str(self.options["model"]), "answer", many=True, params=params, frames=frames),)

    def questions(self, sample: Sample) -> list[Question]:
        """The sample's checklist.

        Raises:
            NoValue: `not_applicable` where there is none, `failed` where it cannot be scored.
        """
        name = str(self.options["questions"])
        try:
            found = read_questions(sample.column(name))
            check_questions(found)
        except OptionError as error:
            raise NoValue(Status.FAILED, f"column {name!r}: {error}") from error
        if not found:
            raise NoValue(Status.NOT_APPLICABLE, f"column {name!r} holds no questions")
        return found if self.options["needs"] else [replace(question, needs=()) for question in found]

    def select(self, sample: Sample) -> Selection:
        output = output_of(sample)
        return {"answer": [Pair(output, text) for question in self.questions(sample) for text in self._asked(question)]}

    def _asked(self, question: Question) -> list[str]:
        template = str(self.options["choice_template" if question.choices else "question_template"])
        return [_fill(template, question=question.text, choice=choice) for choice in question.choices or ("",)]

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        rows = batch.many("answer")
        answers = probability(rows.columns, "yes_no")
        statuses = answer_statuses(answers, rows.offsets)
        values = np.zeros(batch.n)
        evidence = truncation_evidence(rows.columns, rows.offsets)
        for row, sample in enumerate(batch.samples):
            questions = self.questions(sample)
            asked = [len(question.choices) or 1 for question in questions]
            mine = answers.values[rows.offsets[row] : rows.offsets[row + 1]]
            # A video has as many answers to each question as it has frames looked at: their mean is its answer.
            each = mine.reshape(sum(asked), -1).mean(axis=1)
            parts = np.split(each, np.cumsum(asked)[:-1])
            said = {q.id: answered(q, part.tolist()) for q, part in zip(questions, parts, strict=True)}
            right = right_answers(questions, said)
            values[row] = sum(right.values()) / len(questions)
            evidence.setdefault(row, {}).update(
                questions=[
                    {"id": q.id, "q": q.text, "answer": said[q.id], "right": right[q.id], "p_yes": part.tolist()}
                    for q, part in zip(questions, parts, strict=True)
                ],
                tags={tag: list(counts) for tag, counts in by_tag(questions, right).items()},
            )
        return make_scores(values, degenerate={}, within=self.value_range, statuses=statuses, evidence=evidence)

    def weight(self, sample: Sample) -> int | None:
        try:
            return len(self.questions(sample))
        except NoValue:
            return None

    def describe(self) -> dict[str, Any]:
        return {
            "question_template": self.options["question_template"],
            "choice_template": self.options["choice_template"],
            "needs": self.options["needs"],
            "variant": "yes_no",
            "range": list(self.value_range),
        }


def _fill(template: str, **places: str) -> str:
    """The template with each {name} replaced, in one pass: braces in what is put in stay as they are."""
    return re.sub(r"\{(question|choice)\}", lambda found: places[found[1]], template)


def read_questions(cell: Any) -> list[Question]:
    """The questions of a cell: a list of mappings, or that as JSON text; all faults at once.

    Raises:
        OptionError: the cell holds something else.
    """
    if cell is None or (isinstance(cell, str) and is_blank(cell)):
        return []
    if isinstance(cell, str):
        try:
            cell = json.loads(cell)
        except json.JSONDecodeError as error:
            raise OptionError("questions must be a list, or a list as JSON", got=str(error)) from error
    if not isinstance(cell, (list, tuple)):
        raise OptionError("questions must be a list", got=type(cell).__name__)
    faults: list[str] = []
    found = [_question(number, item, faults) for number, item in enumerate(cell, start=1)]
    if faults:
        raise OptionError('every question must be a mapping with a text "q"', got="; ".join(faults))
    return [question for question in found if question is not None]


def _question(number: int, item: Any, faults: list[str]) -> Question | None:
    if isinstance(item, str):
        item = {"q": item}
    text = item.get("q", item.get("question")) if isinstance(item, Mapping) else None
    if not isinstance(item, Mapping) or not isinstance(text, str) or is_blank(text):
        faults.append(f"number {number} is {item!r}")
        return None
    choices = tuple(_word(choice) for choice in item.get("choices") or ())
    answer = item.get("answer")
    needs = item.get("needs")
    needs = () if needs is None else needs if isinstance(needs, (list, tuple)) else (needs,)
    name = item.get("id")
    return Question(
        str(number) if name is None else str(name),
        text.strip(),
        "yes" if answer is None else _word(answer),
        # DSG writes 0 where a question needs none.
        tuple(str(need) for need in needs if str(need) not in ("0", "")),
        str(item.get("tag") or ""),
        () if {*choices} <= {"yes", "no"} else choices,
    )


def _word(value: OptionValue) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value).strip().lower()
