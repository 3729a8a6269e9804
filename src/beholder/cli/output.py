"""Data goes to stdout, talk to stderr."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from typing import Any

import typer

from beholder.report.visible import visible


def say(text: str) -> None:
    """A line for the person at the terminal."""
    typer.echo(visible(text), err=True)


def put(text: str) -> None:
    """Data: text that ends with its own line break. A file or pipe gets it as it is."""
    typer.echo(visible(text) if sys.stdout.isatty() else text, nl=False)


def put_json(value: Any) -> None:
    """Data: one JSON value."""
    from beholder.report.render import to_json

    put(to_json(value))


def stdout_width() -> int | None:
    """Columns of the terminal that stdout is; None for a file or pipe, where nothing is folded."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def put_card(title: str, facts: Iterable[tuple[str, str]]) -> None:
    """Data: a title and facts as "name  text", the text folded into the terminal's width."""
    import textwrap

    rows = [(name, text) for name, text in facts if text]
    indent = max((len(name) for name, _ in rows), default=0) + 4
    width = stdout_width()
    lines = [title]
    for name, text in rows:
        parts = [part for line in text.splitlines() for part in _fold(line, width, indent, textwrap.wrap)]
        lines += [f"  {name if not at else '':<{indent - 4}}  {part}" for at, part in enumerate(parts)]
    put("\n".join(lines) + "\n")


def _fold(line: str, width: int | None, indent: int, wrap: Any) -> list[str]:
    if width is None or width - indent < 20:
        return [line]
    return wrap(line, width - indent, subsequent_indent="  ") or [line]
