"""A judge's written reply to a mark: strict, so that nothing is guessed."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Any, NamedTuple

_NUMBER = re.compile(r"(?<![A-Za-z0-9_.,-])[+-]?\d+(?:\.\d+)?(?![A-Za-z0-9_]|[.,]\d)")
_SCALE = re.compile(r"(?<=[\d\s])\s*(?:/|out\s+of)\s*{high}(?:\.0+)?(?!\d|\.\d)", re.IGNORECASE)
_CHINESE_SCALE = re.compile(r"[(（]?\s*(?:满分|总分|滿分)(?:为|是|:)?\s*{high}\s*分?\s*[)）]?|{high}\s*分制")
_FRACTION = re.compile("[¼-¾⅐-⅞]|分之")
_COUNTED = re.compile(
    r"^\d+(?:\.\d+)?\s+(?:[a-z-]+\s+){0,2}?"
    r"(?:people|persons?|m[ae]n|wom[ae]n|child(?:ren)?|boys?|girls?|fingers?|hands?|arms?|legs?|eyes?|fe?et|faces?|"
    r"issues?|faults?|flaws?|errors?|problems?|artifacts?|artefacts?|glitch(?:es)?|defects?|signs?|reasons?|things?|"
    r"frames?|images?|pictures?|scenes?|shots?|clips?|videos?|seconds?|minutes?|times|criteri(?:a|on)|objects?)\b",
    re.IGNORECASE,
)
_NUMBERED = re.compile(
    r"(?:frames?|images?|pictures?|scenes?|shots?|clips?|videos?|seconds?|steps?|criteri(?:a|on)|points?|parts?|no\.?|"
    r"number|item|case|rule|#|第)\s*$",
    re.IGNORECASE,
)
_CHINESE_COUNTED = re.compile(r"^\d+\s*(?:个|個|人|位|名|只|条|帧|幀|张|張|秒|次|处|處|根|种|種|项|項)")
_OTHER_SCALE = re.compile(r"\d\s*(?:/|out\s+of)\s*\d", re.IGNORECASE)
_RANGE = re.compile(r"(?<=\d)\s*(?:-|–|—|~|～|to|至|到)\s*(?=\d)", re.IGNORECASE)
_FENCE = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL | re.IGNORECASE)
_WORDS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
_CHINESE = {"一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5}
_CHINESE_MARK = re.compile(r"(?:^|[:为是得给打\s])([一二两三四五])\s*(?:分|$)")
_KEYS = ("score", "rating", "mark")


class Mark(NamedTuple):
    """What a reply says.

    Args:
        value: the mark, or None.
        reason: why there is none; "" where there is one.
    """

    value: float | None
    reason: str = ""


def read_mark(text: str, *, low: int = 1, high: int = 5) -> Mark:
    """The one mark from `low` to `high` in a reply.

    A mark is a number that stands by itself, decimals allowed: "4", " 4\\n", "Score: 4", "4.5", "4/5", "4 out of 5",
    "评分：4分（满分5分）", "四分", "Four", a JSON object with "score" (also "rating", "mark"), fenced or not. Numbers
    outside the scale are looked past where one inside stands; the same number twice is one mark. A number that counts
    or numbers something is no mark ("2 people", "frame 3", "3个人").

    Args:
        text: the reply.
        low: least mark.
        high: best mark.

    Returns:
        The mark; or None and a reason: several different candidates ("3 or 4", "3-4"), none, another scale ("4/10"), or
        a fraction ("3½").

    >>> read_mark("Score: 4").value, read_mark("3 or 4").reason
    (4.0, 'several numbers from 1 to 5: 3, 4')
    """
    if _FRACTION.search(text):
        return Mark(None, "a fraction, which is no mark")
    plain = unicodedata.normalize("NFKC", text).replace("⁄", "/").strip()
    if not plain:
        return Mark(None, "the reply is empty")
    found = _from_json(plain)
    if found is not None:
        return _in_scale([found], low, high)
    spared = _without_scale(plain, high)
    if _OTHER_SCALE.search(spared):
        return Mark(None, f"a number on another scale than {low} to {high}")
    every = _RANGE.sub(" ; ", spared)
    found_at = [match for match in _NUMBER.finditer(every) if not _counts(every, match)]
    return _in_scale([float(match[0]) for match in found_at] or _from_words(spared), low, high)


def _counts(text: str, number: re.Match[str]) -> bool:
    """Whether a number counts or numbers something ("2 people", "frame 3") instead of being a mark."""
    behind = text[number.start() :]
    before = text[max(0, number.start() - 20) : number.start()]
    return bool(_COUNTED.match(behind) or _CHINESE_COUNTED.match(behind) or _NUMBERED.search(before))


def _in_scale(numbers: list[float], low: int, high: int) -> Mark:
    inside = sorted({number for number in numbers if low <= number <= high})
    if len(inside) == 1:
        return Mark(inside[0])
    if inside:
        return Mark(None, f"several numbers from {low} to {high}: " + ", ".join(f"{number:g}" for number in inside))
    if numbers:
        return Mark(
            None, f"no number from {low} to {high}; found " + ", ".join(f"{number:g}" for number in numbers[:5])
        )
    return Mark(None, f"no number from {low} to {high}")


def _without_scale(text: str, high: int) -> str:
    """The text without "/5", "out of 5", "满分5分"."""
    for pattern in (_SCALE, _CHINESE_SCALE):
        text = re.sub(pattern.pattern.replace("{high}", str(high)), " ", text, flags=pattern.flags)
    return text


def _from_json(text: str) -> float | None:
    fenced = _FENCE.search(text)
    try:
        value: Any = json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, Mapping):
        lower = {str(key).lower(): item for key, item in value.items()}
        told = [lower[key] for key in _KEYS if key in lower]
        if any(item != told[0] for item in told):
            return None  # read as text, which names the different marks
        value = told[0] if told else None
    if isinstance(value, str):
        mark = read_mark(value) if not value.strip().startswith(("{", "[", '"')) else Mark(None)
        return mark.value
    plain = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if plain else None


def _from_words(text: str) -> list[float]:
    """A mark in words, where the whole reply is one, or in Chinese numerals before 分 or at the end."""
    word = text.strip(" .!。*\n\t").lower()
    if word in _WORDS:
        return [float(_WORDS[word])]
    return [float(_CHINESE[sign]) for sign in _CHINESE_MARK.findall(text)]
