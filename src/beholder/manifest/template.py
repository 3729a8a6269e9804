"""Output templates: `out/{method}/{prompt_id}_{seed}.png`."""

from __future__ import annotations

import os
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from beholder._errors import OptionError
from beholder.manifest.columns import canonical_name

_WHOLE = re.compile(r"-?\d+\Z")
_FREE = "*"
_EXTENSION = "ext"


@dataclass(frozen=True)
class Template:
    """A pattern of file paths with named fields.

    Args:
        text: the template as written.
        root: the folder before the first field.
        parts: below the root, literals (str) and fields ((name,)) in turn.
    """

    text: str
    root: str
    parts: tuple[str | tuple[str], ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields, as canonical columns where they are ones; `{ext}` and `*` are none."""
        names = [part[0] for part in self.parts if not isinstance(part, str)]
        return tuple(dict.fromkeys(name for name in names if name not in (_FREE, _EXTENSION)))

    @property
    def folder_start(self) -> str:
        """How the folders that the template reaches begin: "ck" of `ck{method}/{prompt_id}.png`, else ""."""
        first = self.parts[0] if self.parts else ""
        deeper = any("/" in part for part in self.parts[1:] if isinstance(part, str))
        return first if isinstance(first, str) and deeper else ""

    def readings(self, path: str) -> list[dict[str, str]]:
        """Every way in which a path below the root fits. `seed` is a whole number, no field spans `/`."""
        return [dict(reading) for reading in _match(self.parts, path, {})]


def parse_template(text: str) -> Template:
    """Read a template.

    A field is `{name}`; a format (`{seed:04d}`) is allowed and not needed. `*` stands for anything, `{ext}` for any
    extension. A template without fields is a folder and means `folder/{prompt_id}.{ext}`.

    Raises:
        OptionError: when braces do not match or a field has no name.
    """
    try:
        pieces = list(string.Formatter().parse(text))
    except ValueError as error:
        raise OptionError(f"the output template {text!r} must have matching braces", got=str(error)) from error
    if all(name is None for _, name, _, _ in pieces) and _FREE not in text:
        return parse_template(os.path.join(text.replace("{", "{{").replace("}", "}}"), "{prompt_id}.{ext}"))
    parts: list[str | tuple[str]] = []
    for literal, name, _, _ in pieces:
        for index, chunk in enumerate(literal.split(_FREE)):
            parts += [(_FREE,)] if index else []
            parts += [chunk] if chunk else []
        if name is None:
            continue
        if not name.isidentifier():
            raise OptionError(
                f"each field of the output template {text!r} must have a name",
                got="{" + name + "}",
                fix="Write {prompt_id}, {seed}, {method} or the name of a column of the prompt file",
            )
        parts.append((_field(name),))
    if not parts or not isinstance(parts[0], str):
        return Template(text, "", tuple(parts))
    root, slash, rest = parts[0].rpartition("/")
    return Template(text, root + slash, tuple(([rest] if rest else []) + parts[1:]))


def _field(name: str) -> str:
    canonical = canonical_name(name) or name
    if canonical == "id":
        return "prompt_id"
    return name if canonical == "output" else canonical


def _match(parts: Sequence[str | tuple[str]], text: str, found: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    if not parts:
        if not text:
            yield found
        return
    head, rest = parts[0], parts[1:]
    if isinstance(head, str):
        if text.startswith(head):
            yield from _match(rest, text[len(head) :], found)
        return
    name = head[0]
    if name in found:
        if text.startswith(found[name]):
            yield from _match(rest, text[len(found[name]) :], found)
        return
    for end in _ends(text, rest):
        value = text[:end]
        if name == "seed" and not _WHOLE.match(value):
            continue
        if name == _EXTENSION and "." in value:
            continue
        known = found if name in (_FREE, _EXTENSION) else {**found, name: value}
        yield from _match(rest, text[end:], known)


def _ends(text: str, rest: Sequence[str | tuple[str]]) -> Iterator[int]:
    """Where a field may end: before the literal that follows it, never past a `/`."""
    stop = text.find("/")
    stop = len(text) if stop < 0 else stop
    if not rest:
        if stop == len(text) and text:
            yield stop
        return
    follow = rest[0]
    if not isinstance(follow, str):
        yield from range(1, stop + 1)
        return
    at = text.find(follow, 1)
    while 0 <= at <= stop:
        yield at
        at = text.find(follow, at + 1)
