"""Names from data (methods, ids) as names of files: never a path, on any system."""

from __future__ import annotations

import re

from beholder._hashing import hash_bytes

_UNFIT = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*\ud800-\udfff]+')
_LONGEST = 60
_RESERVED = {"CON", "PRN", "AUX", "NUL", *(f"{port}{at}" for port in ("COM", "LPT") for at in range(10))}


def file_name(text: str) -> str:
    """The text itself where it is fit to name a file; else what is fit of it, with eight digits of its hash behind.

    Not fit are separators of any system, control characters, what Windows reserves, dots and spaces at the ends, and
    more than 60 characters. Two texts never get one name by that (up to a chance of 2⁻³²).

    >>> file_name("SDXL 1.0")
    'SDXL 1.0'
    >>> file_name("../../etc")
    'etc-74ccf3c5'
    """
    plain = _UNFIT.sub("-", text).strip("-. ")[:_LONGEST].rstrip("-. ")
    if plain and plain == text and plain.split(".")[0].upper() not in _RESERVED:
        return plain
    return f"{plain or '_'}-{hash_bytes(text.encode('utf-8', 'surrogatepass'))[:8]}"
