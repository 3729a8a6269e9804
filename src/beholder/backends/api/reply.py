"""What a dialect reads out of an answer, and how the told tokens become the columns of `AnswerScorer`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beholder._errors import NoValue
from beholder.functional.answers import ABSENT, ROUNDING, pool, pool_top_tokens
from beholder.records import Status

Token = tuple[str, float]


@dataclass(frozen=True)
class Reply:
    """One reply.

    Args:
        text: what the model wrote.
        finish: why it ended, in the server's word ("stop", "length", "STOP" …).
        model: the model's name as the server returned it, or "".
        tokens: the tokens that the server tells for the first position, with log probabilities, the chosen one among
            them; None where it tells none.
    """

    text: str
    finish: str
    model: str
    tokens: tuple[Token, ...] | None


def dig(value: Any, *path: str | int) -> Any:
    """What lies at a path of keys and places, or None where there is nothing of that shape.

    >>> dig({"choices": [{"text": "Yes"}]}, "choices", 0, "text")
    'Yes'
    """
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and len(value) > step else None
        else:
            value = value.get(step) if isinstance(value, Mapping) else None
    return value


def word(value: Any) -> str:
    """A text, or "" for anything else."""
    return value if isinstance(value, str) else ""


def count(value: Any) -> int:
    """A number of tokens; 0 for anything that is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def told_tokens(chosen: Any, top: Any, *, token: str, value: str) -> tuple[Token, ...] | None:
    """The tokens of one position: the top ones, and the chosen one where it is not among them.

    Args:
        chosen: the chosen token's record, or None.
        top: list of the top tokens' records, or None.
        token, value: names of a record's fields.

    Raises:
        NoValue: `unparsable`: a log probability above 0, or one that is no number.
    """
    records = [item for item in (top if isinstance(top, list) else []) if isinstance(item, Mapping)]
    if isinstance(chosen, Mapping) and chosen.get(token) not in [item.get(token) for item in records]:
        records.append(chosen)
    if not records:
        return None
    return tuple((word(item.get(token)), _log_probability(item.get(value))) for item in records)


def _log_probability(value: Any) -> float:
    if value is None:
        return -math.inf
    number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    if math.isnan(number) or number > ROUNDING:
        raise NoValue(Status.UNPARSABLE, f"the server gave a log probability of {str(value)[:40]}")
    return min(number, 0.0)


def answer_columns(tokens: Sequence[Token], answer: str) -> dict[str, float]:
    """Log probabilities "first_token", "yes", "no" and "rest" of one reply (see `backends.base.AnswerScorer`).

    "first_token" is of the told token that reads exactly as `answer`. What was not told is -inf, the least that it can
    be: "rest" bounds it from above.

    Raises:
        NoValue: `unparsable`: none of the told tokens says yes, no or the answer.

    >>> columns = answer_columns([("Yes", -0.1), ("yes", -5.0), ("No", -4.0)], "Yes")
    >>> {name: round(math.exp(value), 4) for name, value in columns.items()}
    {'first_token': 0.9048, 'yes': 0.9116, 'no': 0.0183, 'rest': 0.0701}
    """
    names, values = [name for name, _ in tokens], [value for _, value in tokens]
    pooled = pool_top_tokens(names, values)
    exact = pool(value for name, value in tokens if name == answer)
    if pooled.yes == pooled.no == exact == -math.inf:
        told = [name for name, value in sorted(tokens, key=lambda item: -item[1]) if value > ABSENT]
        shown = ", ".join(repr(name[:20]) for name in told[:5]) or "no token at all"
        raise NoValue(Status.UNPARSABLE, f"neither yes nor no is among the {len(told)} told tokens: {shown}")
    return {"first_token": exact, "yes": pooled.yes, "no": pooled.no, "rest": pooled.rest}
