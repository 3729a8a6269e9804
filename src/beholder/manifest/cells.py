"""Cells of a row as plain values: text, numbers, lists; a missing cell is None."""

from __future__ import annotations

import ast
import json
import math
import re
from typing import Any

_PLAIN = (str, int, bytes, list, dict, tuple)
_MISSING_TYPES = frozenset({"NAType", "NaTType"})
_LONE = re.compile("[\ud800-\udfff]")
_WHOLE = re.compile(r"[+-]?\d+\Z")
_MANY = 60
_LARGEST = 1 << 63
_DIGITS = 24


class CellError(ValueError):
    """A cell that cannot be what its column must be. The message becomes a fault."""


def plain(value: Any) -> Any:
    """The value without numpy's scalar types; None for NaN, NaT and pandas' NA."""
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if type(value).__name__ in _MISSING_TYPES:
        return None
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return plain(value.item())
    return value


def as_text(value: Any) -> str:
    """Text as it is; whole and decimal numbers as their digits; anything else is a fault."""
    if isinstance(value, str):
        return unicode_text(value)
    value = plain(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, list | tuple) and len(value) == 1:
        return as_text(value[0])
    raise CellError(f"must be text or a number; got {describe(value)}")


def unicode_text(text: str) -> str:
    """The text itself; a fault when it holds half a character (bytes that are not UTF-8, a lone surrogate)."""
    if not text.isascii() and _LONE.search(text):
        raise CellError(f"must be Unicode text; {text!a} holds bytes that are no character; rename or retype it")
    return text


def unicode_inside(value: Any) -> Any:
    """The value itself; a fault when a text in it, at any depth, holds half a character."""
    waiting = [value]  # no recursion: JSON may be nested deeper than functions may
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            unicode_text(item)
        elif isinstance(item, dict):
            waiting += [*item, *item.values()]
        elif isinstance(item, list | tuple):
            waiting += item
    return value


def as_label(value: Any) -> str | None:
    """Text for a name or an id; None when blank."""
    return as_text(value).strip() or None


def as_labels(value: Any) -> str | None:
    """Text; several names in a list are joined with `|`."""
    if isinstance(value, list | tuple) or _is_vector(value):
        return "|".join(name for item in value if item is not None and (name := as_label(item))) or None
    return as_label(value)


def as_seed(value: Any) -> int | str | None:
    """A whole number where the cell holds one of up to 64 bits ("007" is 7), else text; None when blank."""
    if type(value) is int and abs(value) < _LARGEST:
        return value
    text = as_label(value)
    if text is None or not _WHOLE.match(text) or len(text) > _DIGITS:
        return text
    number = int(text)
    return number if abs(number) < _LARGEST else text


def as_list(value: Any) -> list[Any]:
    """The items of a list cell: a list, a list as JSON or Python text, text with `|` between items, or one value."""
    if isinstance(value, str):
        text = value.strip()
        if not text:
            return []
        if text.startswith("["):
            parsed = _parse_list(text)
            if parsed is not None:
                return parsed
        return [item.strip() or None for item in text.split("|")] if "|" in text else [value]
    if isinstance(value, list | tuple):
        return list(value)
    if _is_vector(value) or getattr(value, "ndim", None) == 4:
        return list(value)
    return [value]


def as_phrases(value: Any) -> str | tuple[str, ...] | None:
    """One phrase, or several that are tried in order."""
    phrases = [as_label(item) for item in as_list(value) if item is not None]
    kept = tuple(phrase for phrase in phrases if phrase)
    return (kept[0] if len(kept) == 1 else kept) or None


def describe(value: Any) -> str:
    """A value in a message: its type and, when short, itself."""
    shown = repr(value) if isinstance(value, str | int | float | bool | list | tuple | dict) else ""
    if len(shown) > _MANY:
        shown = shown[: _MANY - 1] + "…"
    kind = {"NoneType": "nothing", "dict": "an object", "list": "a list", "bool": "a truth value"}.get(
        type(value).__name__, type(value).__name__
    )
    return f"{kind} {shown}".rstrip()


def _parse_list(text: str) -> list[Any] | None:
    for parse in (json.loads, ast.literal_eval):  # the second reads what pandas' to_csv makes of a list
        try:
            parsed = parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(parsed, list):
            return parsed
    return None


def _is_vector(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return getattr(value, "ndim", None) == 1 and getattr(dtype, "kind", "") in "OUST"
