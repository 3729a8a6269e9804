"""Keys that nothing prints, and the last line of defence: taking them out of every message."""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

HIDDEN = "[redacted]"
_WINDOW = 8
_SHORTEST = 4

_SHAPES = (
    re.compile(r"(?i)\bbearer\s+[^\s\"',}]+"),
    re.compile(r"(?i)\bbasic\s+[A-Za-z0-9+/=]{8,}"),
    re.compile(r"\b(?:sk|rk|pk)-[\w*.-]{4,}"),
    re.compile(r"\bAIza[\w*-]{8,}"),
    re.compile(r"(?<=://)[^/\s@]+@"),
    re.compile(r"(?i)(?<=[?&])[\w-]*(?:key|token|sig|secret|password)[\w-]*=[^&\s\"']+"),
)
"""What keys look like in messages of servers, which also show the keys of others or parts of one."""


class Secret:
    """A text that shows itself only when asked with `reveal`.

    >>> f"{Secret('sk-1234')} {Secret('sk-1234')!r}"
    '[redacted] [redacted]'
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The text itself."""
        return self._value

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))


class Redactor:
    """Takes secrets out of texts.

    Args:
        secrets: keys, passwords, query strings. Texts of fewer than 4 characters are no secrets.
    """

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        known = {secret.reveal() for secret in secrets}
        self._whole = sorted(
            {form for text in known if len(text) >= _SHORTEST for form in _forms(text)}, key=len, reverse=True
        )
        self._windows = {
            text[start : start + _WINDOW] for text in known for start in range(len(text) - _WINDOW + 1)
        }  # fmt: skip

    def __call__(self, text: str) -> str:
        """A message without the secrets, without long parts of them, and without whatever looks like a key."""
        text = self._without_parts(self.exact(text))
        for shape in _SHAPES:
            text = shape.sub(HIDDEN, text)
        return text

    def exact(self, text: str) -> str:
        """A text without the whole secrets, and otherwise as it was: for replies, which are results."""
        for form in self._whole:
            text = text.replace(form, HIDDEN)
        return text

    def _without_parts(self, text: str) -> str:
        """Servers show part of a key ("sk-proj-abcd****"): every run of 8 characters that is in a secret goes."""
        hidden = [False] * len(text)
        for start in range(len(text) - _WINDOW + 1):
            if text[start : start + _WINDOW] in self._windows:
                hidden[start : start + _WINDOW] = [True] * _WINDOW
        if not any(hidden):
            return text
        out: list[str] = []
        for at, letter in enumerate(text):
            if not hidden[at]:
                out.append(letter)
            elif at == 0 or not hidden[at - 1]:
                out.append(HIDDEN)
        return "".join(out)


def _forms(text: str) -> set[str]:
    """How a secret may come back: as it is, in a URL, in JSON, in base64."""
    coded = base64.b64encode(text.encode()).decode()
    return {text, quote(text, safe=""), quote_plus(text), json.dumps(text)[1:-1], coded, coded.rstrip("=")}


class RedactingFilter(logging.Filter):
    """Rewrites log records of the HTTP library, which names whole URLs."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self._redact = redact

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._redact(record.getMessage()), ()
        return True
