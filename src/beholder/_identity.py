"""The printed name of a metric is its specification: this module prints and parses it.

    clip_score
    clip_score(model=openai:ViT-L-14, variant=hessel)
    clip_score,model=openai:ViT-L-14,as=clip_l            the form that needs no quoting in a shell
    clip_score(prefix="a, b")                             JSON strings where plain text would be ambiguous
    pyiqa:musiq                                           a metric of a family: the package that has it, and its name

Grammar: `name`, `name(key=value, …)` or `name,key=value,…`. A value is true, false, an integer, a float, a JSON
string or array, or plain text (which may be empty) up to the next comma or closing bracket. `as=` names a label and
is no option.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Union

from beholder._errors import IdentityError

OptionValue = Union[str, int, float, bool, tuple["OptionValue", ...]]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.+-]*(:[A-Za-z0-9_][A-Za-z0-9_.+-]*)?")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INT = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][+-]?[0-9]+)?")
_PLAIN = re.compile(r"[^\s,()\"\[\]=][^,()\"]*")


@dataclass(frozen=True)
class MetricSpec:
    """A metric as somebody asked for it: name, options, and the label its column gets.

    Args:
        name: the metric's name.
        options: the options that were given, by name.
        label: a short label from `as=`, or None.
    """

    name: str
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    label: str | None = None

    def __str__(self) -> str:
        return format_spec(self.name, self.options)

    def __hash__(self) -> int:
        return hash((self.name, str(self), self.label))


def format_spec(name: str, options: Mapping[str, OptionValue]) -> str:
    """Prints a specification; options in alphabetical order. `parse_spec` reads it back."""
    if not options:
        return name
    inside = ", ".join(f"{key}={format_value(options[key])}" for key in sorted(options))
    return f"{name}({inside})"


def format_value(value: OptionValue) -> str:
    """Prints one option value so that it parses back to the same value and type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(json.dumps(v, ensure_ascii=False) for v in value) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        raise IdentityError("a number in a metric's options must be finite", got=repr(value))
    if not isinstance(value, str):
        return repr(value)
    plain = _PLAIN.fullmatch(value) and value == value.strip() and _parse_plain(value) == value
    return value if plain else json.dumps(value, ensure_ascii=False)


def parse_spec(text: str) -> MetricSpec:
    """Reads a specification in either form.

    Raises:
        IdentityError: with the place where the text stops making sense.

    >>> parse_spec("clip_i,model=openai:ViT-B-32,as=b32")
    MetricSpec(name='clip_i', options={'model': 'openai:ViT-B-32'}, label='b32')
    >>> str(parse_spec("clip_i(reduce = max)"))
    'clip_i(reduce=max)'
    """
    return _Reader(text).spec()


def _parse_plain(text: str) -> OptionValue:
    if text in ("true", "false"):
        return text == "true"
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else text
    return text


class _Reader:
    """A cursor over the text of one specification."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def spec(self) -> MetricSpec:
        name = self._match(_NAME, "a metric's name")
        options: dict[str, OptionValue] = {}
        self._space()
        if self._take("("):
            if not self._take(")"):
                self._pairs(options)
                if not self._take(")"):
                    raise self._error("a closing bracket")
        elif self._take(","):
            self._pairs(options)
        self._space()
        if self.at != len(self.text):
            raise self._error("the end")
        label = options.pop("as", None)
        if label is not None and not isinstance(label, str):
            label = format_value(label)
        return MetricSpec(name, options, label)

    def _pairs(self, options: dict[str, OptionValue]) -> None:
        while True:
            self._space()
            key = self._match(_KEY, "an option's name")
            self._space()
            if not self._take("="):
                raise self._error(f"'=' after {key!r}")
            if key in options:
                raise self._error(f"each option once ({key!r} stands twice)")
            options[key] = self._value()
            self._space()
            if not self._take(","):
                return

    def _value(self) -> OptionValue:
        self._space()
        if self.at == len(self.text) or self.text[self.at] in ",)":
            return ""
        if self.text[self.at] in '"[':
            try:
                value, end = json.JSONDecoder().raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                raise self._error("a JSON string or list") from error
            self.at = end
            return tuple(value) if isinstance(value, list) else str(value)
        return _parse_plain(self._match(_PLAIN, "a value").strip())

    def _match(self, pattern: re.Pattern[str], what: str) -> str:
        self._space()
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self._error(what)
        self.at = found.end()
        return found.group()

    def _take(self, char: str) -> bool:
        if self.text.startswith(char, self.at):
            self.at += 1
            return True
        return False

    def _space(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def _error(self, wanted: str) -> IdentityError:
        rest = self.text[self.at :]
        return IdentityError(
            f"a metric is written name, name(key=value, …) or name,key=value,…; expected {wanted}",
            got=f"{rest!r} at position {self.at} of {self.text!r}",
        )
