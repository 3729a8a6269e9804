"""Characters that would act on a terminal are shown instead of sent: prompts, paths and ids may be anybody's."""

from __future__ import annotations

import re

_ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Control characters but tab and line break; line separators; marks that turn the direction of what follows."""


def visible(text: str) -> str:
    r"""The text with such characters written as JSON writes them; letters of any script stay.

    >>> visible("a\x1b[31mb")
    'a\\u001b[31mb'
    """
    return _ACTING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
