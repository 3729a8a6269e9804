"""Changes of a caption that keep or break its meaning."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

_ARTICLES = ("a", "an", "the", "one", "two", "three", "four", "five", "some")
_SMALL = {
    *_ARTICLES,
    "of",
    "on",
    "in",
    "at",
    "and",
    "with",
    "is",
    "are",
    "to",
    "by",
    "photo",
    "picture",
    "image",
    "this",
}
_NUMBERS = ("one", "two", "three", "four", "five", "six")
_DIGITS = re.compile(r"\b([1-9])\b")


@dataclass(frozen=True)
class Rewording:
    """A change of a text.

    Args:
        name: what tables call it.
        levels: degrees, as for pictures.
        apply: from (text, another sample's text, level, seed) to a text; None where the text has nothing to change.
        says: what is changed, in one phrase.
    """

    name: str
    levels: Mapping[str, float]
    apply: Callable[[str, str | None, float, int], str | None]
    says: str


def swap_words(text: str, _: str | None, share: float, seed: int) -> str | None:
    """That share of the words that carry meaning change places with one another; the words stay the same.

    >>> swap_words("a red car and a blue dog", None, 1.0, 0) != "a red car and a blue dog"
    True
    """
    words = text.split()
    places = [at for at, word in enumerate(words) if word.strip(".,!?").lower() not in _SMALL]
    if len({words[at].lower() for at in places}) < 2:
        return None
    rng = np.random.default_rng(seed)
    count = max(2, round(share * len(places)))
    chosen = sorted(rng.choice(places, size=min(count, len(places)), replace=False).tolist())
    # Turned by one place: every chosen word leaves its own.
    turned = chosen[1:] + chosen[:1]
    swapped = list(words)
    for place, source in zip(chosen, turned, strict=True):
        swapped[place] = words[source]
    return " ".join(swapped) if swapped != words else None


def negate(text: str, _: str | None, __: float, ___: int) -> str | None:
    """The first article or number becomes "no"; a text without one is put behind "no".

    >>> negate("a cat on the left", None, 1.0, 0)
    'no cat on the left'
    """
    words = text.split()
    for at, word in enumerate(words):
        if (
            word.lower() in _ARTICLES
            and at + 1 < len(words)
            and words[at + 1].lower() not in ("photo", "picture", "image")
        ):
            return " ".join([*words[:at], "no", *words[at + 1 :]])
    return f"no {text}" if words else None


def recount(text: str, _: str | None, step: float, __: int) -> str | None:
    """The first number becomes a larger one; None for a text without a number.

    >>> recount("two cats", None, 1, 0)
    'three cats'
    """
    words = text.split()
    for at, word in enumerate(words):
        if word.lower() in _NUMBERS[1:]:
            number = _NUMBERS.index(word.lower()) + int(step)
            changed = _NUMBERS[number] if number < len(_NUMBERS) else str(number + 1)
            return " ".join([*words[:at], changed, *words[at + 1 :]])
    found = _DIGITS.search(text)
    if found is None or found[1] == "1":
        return None
    return f"{text[: found.start()]}{int(found[1]) + int(step)}{text[found.end() :]}"


def other_text(text: str, other: str | None, _: float, __: int) -> str | None:
    """Another sample's text."""
    return other if other is not None and other != text else None


TEXTS = (
    Rewording("words swapped", {"half": 0.5, "all": 1.0}, swap_words, "the same words in other places"),
    Rewording("negated", {"no …": 1.0}, negate, "what is there is said not to be"),
    Rewording("other number", {"+1": 1.0, "+2": 2.0}, recount, "a number in the text changed"),
    Rewording("other caption", {"of another sample": 1.0}, other_text, "a text about another picture"),
)
