"""HTML out of text that nobody vouches for: every text is escaped, and JSON cannot end its script element."""

from __future__ import annotations

import html
import json
from typing import Any

VOID = {"meta", "img", "input", "link", "br"}


class Markup(str):
    """Text that is HTML already, made by `element`; any other string is escaped."""

    __slots__ = ()


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """An element with escaped text and attributes.

    Args:
        tag: its name; a constant of our own.
        children: texts (escaped), elements, lists of them, None (left out).
        attributes: values are escaped; None and False are left out, True stands alone. A trailing underscore is cut
            (`class_`), other underscores become hyphens (`data_name`).

    >>> element("p", "a < b & ", element("b", "c"), title='"x"')
    '<p title="&quot;x&quot;">a &lt; b &amp; <b>c</b></p>'
    """
    written = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        key = name.rstrip("_").replace("_", "-")
        written.append(f" {key}" if value is True else f' {key}="{html.escape(str(value), quote=True)}"')
    head = f"<{tag}{''.join(written)}>"
    return Markup(head if tag in VOID else f"{head}{join(children)}</{tag}>")


def join(children: object) -> Markup:
    """Children one after another."""
    if children is None:
        return Markup("")
    if isinstance(children, Markup):
        return children
    if isinstance(children, (list, tuple)):
        return Markup("".join(join(child) for child in children))
    return Markup(html.escape(str(children), quote=True))


def script_json(value: Any) -> str:
    r"""JSON that may stand inside a script element: `<`, `>` and `&` are written as escapes of JSON.

    >>> script_json({"a": "</script>"})
    '{"a":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    # Half a surrogate pair has no UTF-8; files with such names exist.
    return text.encode("utf-8", "replace").decode("utf-8")
