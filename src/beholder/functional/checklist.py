"""Checklists of questions about a picture: which are answered rightly, and what that makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from beholder._errors import OptionError


@dataclass(frozen=True)
class Question:
    """One question of a checklist.

    Args:
        id: how other questions call it.
        text: the question.
        answer: the right answer: "yes" or "no", or one of the choices.
        needs: ids of the questions that must be right for this one to make sense.
        tag: what it is about ("color", "counting" …), or "".
        choices: answers to choose from; empty for yes and no.
    """

    id: str
    text: str
    answer: str = "yes"
    needs: tuple[str, ...] = ()
    tag: str = ""
    choices: tuple[str, ...] = ()


def check_questions(questions: Sequence[Question]) -> None:
    """Refuses a checklist that cannot be scored; all its faults at once.

    Raises:
        OptionError: an id that stands twice, a need that is no question, needs that go in a circle, an answer that is
            none of the choices.
    """
    faults = []
    ids = [question.id for question in questions]
    faults += [f"the id {name!r} stands twice" for name in dict.fromkeys(ids) if ids.count(name) > 1]
    for question in questions:
        faults += [
            f"question {question.id!r} needs {name!r}, which is none" for name in question.needs if name not in ids
        ]
        allowed = question.choices or ("yes", "no")
        if question.answer not in allowed:
            faults.append(
                f"question {question.id!r} has the answer {question.answer!r}, not one of {', '.join(allowed)}"
            )
    if not faults:
        faults += [f"question {name!r} needs itself in the end" for name in ids if _in_circle(name, questions)]
    if faults:
        raise OptionError("a checklist must hold questions that can be scored", got="; ".join(faults))


def answered(question: Question, probabilities: Sequence[float]) -> str:
    """The answer that a model gives.

    Args:
        question: the question.
        probabilities: P(yes) for the question; for one with choices, P(yes) for each choice.

    Returns:
        "yes" where P(yes) > 0.5, else "no"; or the choice of the highest probability, the first of equal ones.

    >>> answered(Question("1", "Is there a cat?"), [0.5])
    'no'
    """
    if question.choices:
        return question.choices[max(range(len(probabilities)), key=lambda at: (probabilities[at], -at))]
    return "yes" if probabilities[0] > 0.5 else "no"


def right_answers(questions: Sequence[Question], answers: Mapping[str, str]) -> dict[str, bool]:
    """Which questions count as answered rightly, by id.

    A question counts when its answer is right and so are all the questions that it needs, however far back: what
    colour a hat has does not count where there is no hat.

    Source: Cho et al. 2024, Davidsonian Scene Graph, arXiv 2310.18235.

    >>> both = [Question("1", "Is there a hat?"), Question("2", "Is the hat red?", needs=("1",))]
    >>> right_answers(both, {"1": "no", "2": "yes"})
    {'1': False, '2': False}
    """
    by_id = {question.id: question for question in questions}
    known: dict[str, bool] = {}

    def right(name: str) -> bool:
        if name not in known:
            question = by_id[name]
            known[name] = answers[name] == question.answer and all(right(need) for need in question.needs)
        return known[name]

    return {name: right(name) for name in by_id}


def by_tag(questions: Sequence[Question], right: Mapping[str, bool]) -> dict[str, tuple[int, int]]:
    """(right, all) questions of each tag, in the order in which tags come up; questions without a tag are left out."""
    found: dict[str, tuple[int, int]] = {}
    for question in questions:
        if question.tag:
            good, count = found.get(question.tag, (0, 0))
            found[question.tag] = (good + right[question.id], count + 1)
    return found


def _in_circle(start: str, questions: Sequence[Question]) -> bool:
    needs = {question.id: question.needs for question in questions}
    seen: set[str] = set()
    waiting = list(needs[start])
    while waiting:
        name = waiting.pop()
        if name == start:
            return True
        if name not in seen:
            seen.add(name)
            waiting += needs[name]
    return False
